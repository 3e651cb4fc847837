/* parameters.c: what exists before the first step: parameters, inputs, device state, constants; and the profiles. */
#include "models/graph_state.h"

#include <stdio.h>

sg_profile sg_profile_make(sg_framework framework, sg_device_class device_class) {
    bool eager = framework != SG_FRAMEWORK_NATIVE, cuda = device_class == SG_DEVICE_CLASS_CUDA;
    bool whole = framework == SG_FRAMEWORK_JAX; /* the step is one compiled program, optimizer and all */
    bool compiled = whole || framework == SG_FRAMEWORK_PYTORCH_COMPILED;
    return (sg_profile){
        .framework = framework,
        .device_class = device_class,
        .channels_last = !eager,
        .fused_norms = !eager,
        .fused_activation = !eager,
        .foreach_optimizer = eager && cuda && !whole,
        .fused_optimizer = !eager || whole,
        .int64_pool_index = eager,
        .unused_results = eager && !compiled,
        .reads_losses = eager && !whole,
        .keeps_more = eager && cuda,
        .composed_silu = eager && cuda,
        .float_dtype = SG_F32,
        .compute_f32 = SG_COMPUTE_F32,
        .compute_conv_f32 = SG_COMPUTE_F32,
    };
}

static const char *full_name(sg_graph *g, const char *name) {
    const char *module = g->modules.at[g->module].name;
    return sg_graph_text(g, "%s%s%s", module, *module ? "." : "", name);
}

static sg_tid persistent_tensor(sg_graph *g, const sg_desc *desc, sg_role role) {
    uint64_t bytes;
    if (g->failed || !sg_graph_bytes(g, desc, &bytes)) return SG_NO_TENSOR;
    return sg_graph_tensor(g, sg_graph_storage(g, bytes, role, true), 0, desc);
}

static bool check_ndim(sg_graph *g, const char *name, int ndim) {
    if (ndim >= 0 && ndim <= SG_MAX_DIMS) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "%s has %d dims; at most %d are possible", name, ndim, SG_MAX_DIMS);
    return false;
}

static sg_tid add_parameter(sg_graph *g, const char *name, int ndim, const int64_t *size, sg_param_spec spec) {
    if (g->failed || !check_ndim(g, name, ndim)) return SG_NO_TENSOR;
    sg_desc desc = spec.channels_last && ndim == 4
                       ? sg_desc_channels_last(spec.dtype, size[0], size[1], size[2], size[3])
                       : sg_desc_make(spec.dtype, ndim, size);
    if (!SG_ROOM(g, &g->parameters, 1) || !SG_ROOM(g, &g->parameter_state, 1)) return SG_NO_TENSOR;
    sg_tid t = persistent_tensor(g, &desc, SG_ROLE_WEIGHT);
    if (t < 0) return t;
    bool trainable = !spec.frozen && !spec.buffer && sg_dtype_is_float(spec.dtype);
    g->tensor_state.at[t].parameter = (int32_t)g->parameters.count;
    g->tensor_state.at[t].requires_grad = trainable;
    g->parameter_state.at[g->parameter_state.count++] = (sg_parameter_state){.cast = SG_NO_TENSOR, .producer = -1};
    g->parameters.at[g->parameters.count++] = (sg_parameter){
        .name = full_name(g, name),
        .tensor = t,
        .gradient = -1,
        .state = {-1, -1},
        .module = g->module,
        .trainable = trainable,
        .is_buffer = spec.buffer,
        .init_kind = (uint8_t)spec.init,
        .init_scale = spec.scale,
        .shard = -1,
    };
    return t;
}

/* What the framework calls float. */
static sg_dtype as_float(const sg_graph *g, sg_dtype dtype) {
    return dtype == SG_F32 ? g->profile.float_dtype : dtype;
}

sg_tid sg_param(sg_graph *g, const char *name, int ndim, const int64_t *size, sg_param_spec spec) {
    spec.dtype = as_float(g, spec.dtype);
    return add_parameter(g, name, ndim, size, spec);
}

sg_tid sg_input_tensor(sg_graph *g, const char *name, sg_input_source source, sg_desc desc, double low, double high) {
    if (g->failed || !SG_ROOM(g, &g->inputs, 1)) return SG_NO_TENSOR;
    desc.dtype = (int32_t)as_float(g, (sg_dtype)desc.dtype);
    sg_tid t = persistent_tensor(g, &desc, SG_ROLE_BATCH);
    if (t < 0) return t;
    g->inputs.at[g->inputs.count++] = (sg_input){sg_graph_text(g, "%s", name), t, (uint8_t)source, low, high};
    return t;
}

sg_tid sg_state_tensor(sg_graph *g, const char *name, sg_desc desc) {
    return sg_input_tensor(g, name, SG_INPUT_STORAGE, desc, 0, 1);
}

sg_tid sg_graph_scalar(sg_graph *g, const char *name, sg_dtype dtype, double value) {
    int32_t module = g->module;
    g->module = 0;
    sg_param_spec spec = {.dtype = dtype, .buffer = true, .init = SG_INIT_CONSTANT, .scale = value};
    sg_tid t = add_parameter(g, name, 0, NULL, spec);
    g->module = module;
    return t;
}

sg_tid sg_graph_constant(sg_graph *g, sg_dtype dtype, double value) {
    for (size_t i = 0; i < g->constants.count; i++)
        if (g->constants.at[i].value == value && sg_graph_dtype(g, g->constants.at[i].tensor) == dtype)
            return g->constants.at[i].tensor;
    if (g->failed || !SG_ROOM(g, &g->constants, 1)) return SG_NO_TENSOR;
    char name[64];
    (void)snprintf(name, sizeof name, "constant %g %s", value, sg_dtype_name(dtype));
    sg_tid t = sg_graph_scalar(g, name, dtype, value);
    if (t >= 0) g->constants.at[g->constants.count++] = (sg_constant_state){t, value};
    return t;
}
