/* sequence.c: convolutions along a sequence [b, c, l], and the block of convolution, group norm and Mish. */
#include "models/layers/sequence.h"

#include <math.h>

/* torch.nn's default: uniform within 1 / sqrt(fan in), which for a transposed convolution counts its outputs. */
static sg_conv1d_layer make(sg_graph *g, const char *name, const int64_t *size, int64_t out, sg_conv1d_layer layer,
                            sg_layer_style style) {
    sg_param_spec spec = {.dtype = style.dtype,
                          .frozen = style.frozen,
                          .init = SG_INIT_UNIFORM,
                          .scale = 1.0 / sqrt((double)size[1] * (double)size[2])};
    layer.name = sg_graph_text(g, "%s", name);
    sg_module_begin(g, "%s", name);
    layer.weight = sg_param(g, "weight", 3, size, spec);
    layer.bias = sg_param(g, "bias", 1, &out, spec);
    sg_module_end(g);
    return layer;
}

sg_conv1d_layer sg_conv1d_make(sg_graph *g, const char *name, int64_t in, int64_t out, int64_t kernel, int stride,
                               int pad, sg_layer_style style) {
    sg_conv1d_layer layer = {.stride = stride, .pad = pad};
    return make(g, name, (const int64_t[]){out, in, kernel}, out, layer, style);
}

sg_conv1d_layer sg_conv_transpose1d_make(sg_graph *g, const char *name, int64_t in, int64_t out, int64_t kernel,
                                         int stride, int pad, sg_layer_style style) {
    sg_conv1d_layer layer = {.stride = stride, .pad = pad, .transposed = true};
    return make(g, name, (const int64_t[]){in, out, kernel}, out, layer, style);
}

sg_tid sg_conv1d_apply(sg_graph *g, const sg_conv1d_layer *layer, sg_tid x) {
    sg_module_begin(g, "%s", layer->name);
    sg_tid y = layer->transposed ? sg_conv_transpose1d(g, x, layer->weight, layer->bias, layer->stride, layer->pad)
                                 : sg_conv1d(g, x, layer->weight, layer->bias, layer->stride, layer->pad);
    sg_module_end(g);
    return y;
}

sg_conv1d_block sg_conv1d_block_make(sg_graph *g, const char *name, int64_t in, int64_t out, int64_t kernel,
                                     int64_t groups, sg_layer_style style) {
    sg_conv1d_block block = {.name = sg_graph_text(g, "%s", name)};
    sg_module_begin(g, "%s.block", name);
    block.conv = sg_conv1d_make(g, "0", in, out, kernel, 1, (int)(kernel / 2), style);
    block.norm = sg_channel_norm_make(g, "1", out, groups, style);
    sg_module_end(g);
    return block;
}

sg_tid sg_conv1d_block_apply(sg_graph *g, const sg_conv1d_block *block, sg_tid x) {
    sg_module_begin(g, "%s.block", block->name);
    x = sg_channel_norm_apply(g, &block->norm, sg_conv1d_apply(g, &block->conv, x));
    x = sg_unary(g, SG_FN_MISH, x, 0, 0);
    sg_module_end(g);
    return x;
}
