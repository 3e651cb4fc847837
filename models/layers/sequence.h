/* sequence.h: convolutions along a sequence [b, c, l], and the block of convolution, group norm and Mish. */
#ifndef SG_MODELS_LAYERS_SEQUENCE_H
#define SG_MODELS_LAYERS_SEQUENCE_H

#include "models/layers/norm.h"

typedef struct sg_conv1d_layer {
    const char *name;
    sg_tid weight, bias; /* [out, in, kernel] ([in, out, kernel] transposed), [out] */
    int stride, pad;
    bool transposed;
} sg_conv1d_layer;

/* torch.nn.Conv1d and ConvTranspose1d with bias. */
sg_conv1d_layer sg_conv1d_make(sg_graph *g, const char *name, int64_t in, int64_t out, int64_t kernel, int stride,
                               int pad, sg_layer_style style);
sg_conv1d_layer sg_conv_transpose1d_make(sg_graph *g, const char *name, int64_t in, int64_t out, int64_t kernel,
                                         int stride, int pad, sg_layer_style style);
sg_tid sg_conv1d_apply(sg_graph *g, const sg_conv1d_layer *layer, sg_tid x);

/* Convolution of the same length, group norm, Mish: a torch.nn.Sequential named "block". */
typedef struct sg_conv1d_block {
    const char *name;
    sg_conv1d_layer conv;
    sg_channel_norm_layer norm;
} sg_conv1d_block;
sg_conv1d_block sg_conv1d_block_make(sg_graph *g, const char *name, int64_t in, int64_t out, int64_t kernel,
                                     int64_t groups, sg_layer_style style);
sg_tid sg_conv1d_block_apply(sg_graph *g, const sg_conv1d_block *block, sg_tid x);

#endif
