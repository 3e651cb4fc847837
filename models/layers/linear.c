/* linear.c: y = act(x W^T + b), and the parameters of small layers. */
#include "models/layers/linear.h"

#include <math.h>
#include <stdlib.h>

sg_linear_layer sg_linear_make(sg_graph *g, const char *name, int64_t in, int64_t out, bool bias,
                               sg_layer_style style) {
    sg_linear_layer layer = {sg_graph_text(g, "%s", name), SG_NO_TENSOR, SG_NO_TENSOR};
    double bound = 1.0 / sqrt((double)in); /* torch.nn.Linear.reset_parameters */
    sg_param_spec spec = {.dtype = style.dtype, .frozen = style.frozen, .init = SG_INIT_UNIFORM, .scale = bound};
    if (style.xavier) spec.scale = sqrt(6.0 / ((double)in + (double)out));
    sg_module_begin(g, "%s", name);
    layer.weight = sg_param(g, "weight", 2, (int64_t[]){out, in}, spec);
    spec.scale = bound;
    if (bias) layer.bias = sg_param(g, "bias", 1, &out, spec);
    sg_module_end(g);
    return layer;
}

sg_tid sg_linear_apply_act(sg_graph *g, const sg_linear_layer *layer, sg_tid x, sg_fn act) {
    sg_module_begin(g, "%s", layer->name);
    sg_tid y = sg_linear_act(g, x, layer->weight, layer->bias, act);
    sg_module_end(g);
    return y;
}

sg_tid sg_linear_apply(sg_graph *g, const sg_linear_layer *layer, sg_tid x) {
    return sg_linear_apply_act(g, layer, x, SG_FN_NONE);
}

sg_tid sg_param_normal(sg_graph *g, const char *name, int ndim, const int64_t *size, double sd, sg_layer_style style) {
    return sg_param(g, name, ndim, size,
                    (sg_param_spec){.dtype = style.dtype, .frozen = style.frozen, .init = SG_INIT_NORMAL, .scale = sd});
}

sg_tid sg_param_constant(sg_graph *g, const char *name, int ndim, const int64_t *size, double value,
                         sg_layer_style style) {
    return sg_param(
        g, name, ndim, size,
        (sg_param_spec){.dtype = style.dtype, .frozen = style.frozen, .init = SG_INIT_CONSTANT, .scale = value});
}

sg_tid sg_buffer(sg_graph *g, const char *name, int ndim, const int64_t *size, double value) {
    return sg_param(
        g, name, ndim, size,
        (sg_param_spec){.dtype = SG_F32, .frozen = true, .buffer = true, .init = SG_INIT_CONSTANT, .scale = value});
}

void *sg_layers_alloc(sg_graph *g, int64_t count, size_t size) {
    void *layers = calloc((size_t)count, size);
    if (!layers) sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %lld layers", (long long)count);
    return layers;
}
