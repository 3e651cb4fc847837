/* norm.h: layer norm and RMS norm over the last dim; batch norm and group norm of channels. */
#ifndef SG_MODELS_LAYERS_NORM_H
#define SG_MODELS_LAYERS_NORM_H

#include "models/layers/linear.h"

typedef struct sg_norm_layer {
    const char *name;
    sg_tid weight, bias; /* [width]; bias SG_NO_TENSOR: RMS norm */
    double eps;
} sg_norm_layer;

sg_norm_layer sg_layer_norm_make(sg_graph *g, const char *name, int64_t width, double eps, sg_layer_style style);
sg_tid sg_layer_norm_apply(sg_graph *g, const sg_norm_layer *layer, sg_tid x);

sg_norm_layer sg_rms_norm_make(sg_graph *g, const char *name, int64_t width, double eps, sg_layer_style style);
/* weight * x / sqrt(mean(x^2) + eps): one op where the profile fuses norms, else the eight of Llama's module
 * (to fp32, square, mean, add, rsqrt, multiply, back to the input's dtype, multiply). Returns x's dtype or wider. */
sg_tid sg_rms_norm_apply(sg_graph *g, const sg_norm_layer *layer, sg_tid x);

/* Batch norm (groups 0) or group norm of [n,c,..]. */
typedef struct sg_channel_norm_layer {
    const char *name;
    sg_tid weight, bias; /* [c] */
    sg_tid batches;      /* batch norm's count of the batches that it has seen, i64 */
    int64_t groups;
    double eps;
} sg_channel_norm_layer;

sg_channel_norm_layer sg_channel_norm_make(sg_graph *g, const char *name, int64_t channels, int64_t groups,
                                           sg_layer_style style);
sg_tid sg_channel_norm_apply(sg_graph *g, const sg_channel_norm_layer *layer, sg_tid x);

#endif
