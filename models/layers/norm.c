/* norm.c: layer norm and RMS norm over the last dim; batch norm and group norm of channels. */
#include "models/layers/norm.h"

static sg_norm_layer norm_make(sg_graph *g, const char *name, int64_t width, double eps, bool bias,
                               sg_layer_style style) {
    sg_norm_layer layer = {sg_graph_text(g, "%s", name), SG_NO_TENSOR, SG_NO_TENSOR, eps};
    sg_module_begin(g, "%s", name);
    layer.weight = sg_param_constant(g, "weight", 1, &width, 1.0, style);
    if (bias) layer.bias = sg_param_constant(g, "bias", 1, &width, 0.0, style);
    sg_module_end(g);
    return layer;
}

sg_norm_layer sg_layer_norm_make(sg_graph *g, const char *name, int64_t width, double eps, sg_layer_style style) {
    return norm_make(g, name, width, eps, true, style);
}

sg_norm_layer sg_rms_norm_make(sg_graph *g, const char *name, int64_t width, double eps, sg_layer_style style) {
    return norm_make(g, name, width, eps, false, style);
}

sg_tid sg_layer_norm_apply(sg_graph *g, const sg_norm_layer *layer, sg_tid x) {
    sg_module_begin(g, "%s", layer->name);
    sg_tid y = sg_layer_norm(g, x, layer->weight, layer->bias, layer->eps);
    sg_module_end(g);
    return y;
}

static sg_tid rms_norm_composed(sg_graph *g, const sg_norm_layer *layer, sg_tid x) {
    const sg_desc *desc = sg_desc_of(g, x);
    if (!desc) return SG_NO_TENSOR;
    sg_dtype dtype = (sg_dtype)desc->dtype;
    uint32_t last = 1u << (desc->ndim - 1);
    sg_tid wide = sg_to(g, x, SG_F32);
    sg_tid square = sg_unary(g, SG_FN_SQUARE, wide, 0, 0);
    if (sg_graph_profile(g)->keeps_more) sg_keep_for_backward(g, square);
    sg_tid variance = sg_reduce(g, SG_FN_MEAN, square, last, true);
    sg_tid scale = sg_unary(g, SG_FN_RSQRT, sg_add_scalar(g, variance, layer->eps), 0, 0);
    return sg_mul(g, layer->weight, sg_to(g, sg_mul(g, wide, scale), dtype));
}

sg_tid sg_rms_norm_apply(sg_graph *g, const sg_norm_layer *layer, sg_tid x) {
    sg_module_begin(g, "%s", layer->name);
    sg_tid y = sg_graph_profile(g)->fused_norms ? sg_rms_norm(g, x, layer->weight, layer->eps)
                                                : rms_norm_composed(g, layer, x);
    sg_module_end(g);
    return y;
}

/* ---- channels ---------------------------------------------------------------------------------------------------- */

/* torch.nn.BatchNorm2d and torch.nn.GroupNorm: eps 1e-5. */
sg_channel_norm_layer sg_channel_norm_make(sg_graph *g, const char *name, int64_t channels, int64_t groups,
                                           sg_layer_style style) {
    sg_channel_norm_layer layer = {
        .name = sg_graph_text(g, "%s", name), .batches = SG_NO_TENSOR, .groups = groups, .eps = 1e-5};
    sg_module_begin(g, "%s", name);
    layer.weight = sg_param_constant(g, "weight", 1, &channels, 1.0, style);
    layer.bias = sg_param_constant(g, "bias", 1, &channels, 0.0, style);
    if (groups == 0) {
        sg_param_spec count = {.dtype = SG_I64, .frozen = true, .buffer = true, .init = SG_INIT_CONSTANT};
        (void)sg_buffer(g, "running_mean", 1, &channels, 0.0);
        (void)sg_buffer(g, "running_var", 1, &channels, 1.0);
        layer.batches = sg_param(g, "num_batches_tracked", 0, NULL, count);
    }
    sg_module_end(g);
    return layer;
}

sg_tid sg_channel_norm_apply(sg_graph *g, const sg_channel_norm_layer *layer, sg_tid x) {
    sg_module_begin(g, "%s", layer->name);
    if (layer->batches != SG_NO_TENSOR && sg_graph_profile(g)->unused_results)
        (void)sg_unary_in_place(g, SG_FN_AFFINE, layer->batches, 1, 1);
    sg_tid y = sg_channel_norm(g, x, layer->weight, layer->bias, layer->groups, layer->eps);
    sg_module_end(g);
    return y;
}
