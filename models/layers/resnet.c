/* resnet.c: torchvision's ResNet-18 and ResNet-34 without the classifier. */
#include "models/layers/resnet.h"

#include <math.h>

static const double norm_eps = 1e-5; /* torchvision.ops.FrozenBatchNorm2d */

/* ---- parameters ---- */

static void frozen_norm_make(sg_graph *g, sg_conv_norm *layer, int64_t channels) {
    sg_module_begin(g, "%s", layer->norm_name);
    layer->norm_weight = sg_buffer(g, "weight", 1, &channels, 1.0);
    layer->norm_bias = sg_buffer(g, "bias", 1, &channels, 0.0);
    layer->mean = sg_buffer(g, "running_mean", 1, &channels, 0.0);
    layer->variance = sg_buffer(g, "running_var", 1, &channels, 1.0);
    sg_module_end(g);
}

typedef struct conv_size {
    int64_t in, out;
    int kernel, stride, pad;
} conv_size;

static sg_conv_norm conv_norm_make(sg_graph *g, const char *conv, const char *norm_name, conv_size size,
                                   sg_resnet_norm norm, sg_layer_style style) {
    enum { CHANNELS_PER_GROUP = 16 };
    int64_t in = size.in, out = size.out, kernel = size.kernel;
    sg_conv_norm layer = {.conv_name = conv, .norm_name = norm_name, .stride = size.stride, .pad = size.pad};
    layer.norm_weight = layer.norm_bias = layer.mean = layer.variance = layer.folded = layer.shift = SG_NO_TENSOR;
    sg_param_spec spec = {.dtype = style.dtype,
                          .frozen = style.frozen,
                          .channels_last = sg_graph_profile(g)->channels_last,
                          .init = SG_INIT_NORMAL,
                          .scale = sqrt(2.0 / ((double)out * (double)(kernel * kernel)))}; /* Kaiming, fan out */
    sg_module_begin(g, "%s", conv);
    layer.weight = sg_param(g, "weight", 4, (int64_t[]){out, in, kernel, kernel}, spec);
    sg_module_end(g);
    if (norm == SG_RESNET_NORM_FROZEN) {
        frozen_norm_make(g, &layer, out);
        return layer;
    }
    int64_t groups = out >= CHANNELS_PER_GROUP ? out / CHANNELS_PER_GROUP : 1;
    layer.norm = sg_channel_norm_make(g, norm_name, out, norm == SG_RESNET_NORM_GROUP ? groups : 0, style);
    return layer;
}

static sg_resnet_block block_make(sg_graph *g, const char *name, int64_t in, int64_t out, int stride,
                                  sg_resnet_norm norm, sg_layer_style style) {
    sg_resnet_block block = {.name = name, .downsamples = stride != 1 || in != out};
    sg_module_begin(g, "%s", name);
    block.conv1 = conv_norm_make(g, "conv1", "bn1", (conv_size){in, out, 3, stride, 1}, norm, style);
    block.conv2 = conv_norm_make(g, "conv2", "bn2", (conv_size){out, out, 3, 1, 1}, norm, style);
    if (block.downsamples)
        block.down = conv_norm_make(g, "downsample.0", "downsample.1", (conv_size){in, out, 1, stride, 0}, norm, style);
    sg_module_end(g);
    return block;
}

void sg_resnet_make(sg_graph *g, sg_resnet *net, const char *name, int64_t width, const int blocks[SG_RESNET_STAGES],
                    sg_resnet_norm norm, sg_layer_style style) {
    net->norm = norm;
    net->name = sg_graph_text(g, "%s", name);
    net->width = width;
    sg_module_begin(g, "%s", name);
    net->stem = conv_norm_make(g, "conv1", "bn1", (conv_size){3, width, 7, 2, 3}, norm, style);
    int64_t in = width;
    for (int stage = 0; stage < SG_RESNET_STAGES; stage++) {
        int64_t out = width << stage;
        net->blocks[stage] = blocks[stage];
        for (int i = 0; i < blocks[stage]; i++) {
            const char *block = sg_graph_text(g, "layer%d.%d", stage + 1, i);
            net->block[stage][i] = block_make(g, block, in, out, stage > 0 && i == 0 ? 2 : 1, norm, style);
            in = out;
        }
    }
    sg_module_end(g);
}

/* ---- a convolution and its norm ---- */

/* The scale and shift that a frozen batch norm comes down to, per channel: the five small ops of torchvision's module.
 * `shape` is [1, c, 1, 1], to be broadcast over images. */
static void scale_and_shift(sg_graph *g, const sg_conv_norm *layer, sg_tid *scale, sg_tid *shift) {
    const int64_t shape[] = {1, -1, 1, 1};
    sg_tid weight = sg_view(g, layer->norm_weight, 4, shape), bias = sg_view(g, layer->norm_bias, 4, shape);
    sg_tid variance = sg_view(g, layer->variance, 4, shape), mean = sg_view(g, layer->mean, 4, shape);
    sg_tid inverse = sg_unary(g, SG_FN_RSQRT, sg_add_scalar(g, variance, norm_eps), 0, 0);
    *scale = sg_mul(g, weight, inverse);
    *shift = sg_sub(g, bias, sg_mul(g, mean, *scale));
}

static sg_tid conv_norm_eager(sg_graph *g, const sg_conv_norm *layer, sg_tid x, bool relu) {
    sg_module_begin(g, "%s", layer->conv_name);
    x = sg_conv2d(g, x, layer->weight, SG_NO_TENSOR, layer->stride, layer->pad);
    sg_module_end(g);
    if (layer->norm_weight == SG_NO_TENSOR) {
        x = sg_channel_norm_apply(g, &layer->norm, x);
        return relu ? sg_relu(g, x, true) : x;
    }
    sg_module_begin(g, "%s", layer->norm_name);
    sg_tid scale, shift;
    scale_and_shift(g, layer, &scale, &shift);
    x = sg_add(g, sg_mul(g, x, scale), shift);
    sg_module_end(g);
    return relu ? sg_relu(g, x, true) : x;
}

static sg_tid conv_norm_folded(sg_graph *g, const sg_conv_norm *layer, sg_tid x, sg_tid residual, bool relu) {
    sg_module_begin(g, "%s", layer->conv_name);
    sg_fn act = relu ? SG_FN_RELU : SG_FN_NONE;
    x = sg_conv2d_fused(g, x, layer->folded, layer->shift, residual, act, layer->stride, layer->pad);
    sg_module_end(g);
    return x;
}

static void fold(sg_graph *g, sg_conv_norm *layer) {
    sg_module_begin(g, "%s", layer->norm_name);
    sg_tid scale, shift;
    scale_and_shift(g, layer, &scale, &shift);
    layer->folded = sg_mul(g, layer->weight, sg_view(g, scale, 4, (int64_t[]){-1, 1, 1, 1}));
    layer->shift = sg_view(g, shift, 1, (int64_t[]){-1});
    sg_module_end(g);
}

/* ---- the network ---- */

void sg_resnet_fold(sg_graph *g, sg_resnet *net) {
    if (!sg_graph_profile(g)->fused_norms || net->norm != SG_RESNET_NORM_FROZEN) return;
    sg_module_begin(g, "%s", net->name);
    fold(g, &net->stem);
    for (int stage = 0; stage < SG_RESNET_STAGES; stage++) {
        for (int i = 0; i < net->blocks[stage]; i++) {
            sg_resnet_block *block = &net->block[stage][i];
            sg_module_begin(g, "%s", block->name);
            fold(g, &block->conv1);
            fold(g, &block->conv2);
            if (block->downsamples) fold(g, &block->down);
            sg_module_end(g);
        }
    }
    sg_module_end(g);
}

static sg_tid block_eager(sg_graph *g, const sg_resnet_block *block, sg_tid x) {
    sg_tid y = conv_norm_eager(g, &block->conv1, x, true);
    y = conv_norm_eager(g, &block->conv2, y, false);
    sg_tid skip = block->downsamples ? conv_norm_eager(g, &block->down, x, false) : x;
    return sg_relu(g, sg_binary_in_place(g, SG_FN_ADD, y, skip, 1.0), true);
}

static sg_tid block_folded(sg_graph *g, const sg_resnet_block *block, sg_tid x) {
    sg_tid skip = block->downsamples ? conv_norm_folded(g, &block->down, x, SG_NO_TENSOR, false) : x;
    sg_tid y = conv_norm_folded(g, &block->conv1, x, SG_NO_TENSOR, true);
    return conv_norm_folded(g, &block->conv2, y, skip, true);
}

sg_tid sg_resnet_apply(sg_graph *g, const sg_resnet *net, sg_tid x) {
    bool folded = net->stem.folded != SG_NO_TENSOR;
    sg_module_begin(g, "%s", net->name);
    x = folded ? conv_norm_folded(g, &net->stem, x, SG_NO_TENSOR, true) : conv_norm_eager(g, &net->stem, x, true);
    x = sg_max_pool2d(g, x, 3, 2, 1);
    for (int stage = 0; stage < SG_RESNET_STAGES; stage++) {
        for (int i = 0; i < net->blocks[stage]; i++) {
            const sg_resnet_block *block = &net->block[stage][i];
            sg_module_begin(g, "%s", block->name);
            x = folded ? block_folded(g, block, x) : block_eager(g, block, x);
            sg_module_end(g);
        }
    }
    sg_module_end(g);
    return x;
}

int64_t sg_resnet_side(int64_t length) {
    for (int halving = 0; halving < 5; halving++) length = (length - 1) / 2 + 1;
    return length;
}
