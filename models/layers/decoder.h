/* decoder.h: a Llama-style decoder layer without its attention: projections before it, output and gated MLP behind
 * it. */
#ifndef SG_MODELS_LAYERS_DECODER_H
#define SG_MODELS_LAYERS_DECODER_H

#include "models/layers/linear.h"
#include "models/layers/norm.h"

typedef struct sg_decoder_config {
    int64_t width, feedforward, heads, kv_heads, head;
    int64_t kv_width; /* of what keys and values are made from */
} sg_decoder_config;

typedef struct sg_decoder_layer {
    const char *name;
    int64_t head;
    sg_dtype dtype; /* of the weights */
    sg_norm_layer input_norm, post_norm;
    sg_linear_layer query, key, value, out, gate, up, down;
} sg_decoder_layer;

sg_decoder_layer sg_decoder_make(sg_graph *g, const char *name, const sg_decoder_config *config, sg_layer_style style);
/* The input norm, in the weights' dtype. */
sg_tid sg_decoder_normed(sg_graph *g, const sg_decoder_layer *layer, sg_tid x);
/* x[b, t, in] -> [b, t, heads, head] by one of the layer's projections. */
sg_tid sg_decoder_project(sg_graph *g, const sg_decoder_layer *layer, const sg_linear_layer *projection, sg_tid x);
/* Output projection of attended[b, t, heads head], residual x[b, t, width], norm, gated MLP, residual. */
sg_tid sg_decoder_finish(sg_graph *g, const sg_decoder_layer *layer, sg_tid x, sg_tid attended);

#endif
