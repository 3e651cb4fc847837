/* projections.h: the matrices of a decoder layer as Llama and Gemma have them: attention with few key heads, gated MLP. */
#ifndef SG_MODELS_LAYERS_PROJECTIONS_H
#define SG_MODELS_LAYERS_PROJECTIONS_H

#include "models/layers/linear.h"

typedef struct sg_decoder_config {
    int64_t width, feedforward, heads, kv_heads, head;
    int64_t kv_width; /* of what keys and values are made from */
} sg_decoder_config;

typedef struct sg_projections {
    const char *layer; /* module of the layer */
    int64_t head;
    sg_dtype dtype; /* of the weights */
    sg_linear_layer query, key, value, out, gate, up, down;
} sg_projections;

/* Inside the layer's module, which the caller has begun. */
sg_projections sg_projections_make(sg_graph *g, const char *layer, const sg_decoder_config *config,
                                   sg_layer_style style);
/* x[b, t, in] -> [b, t, heads, head] by `projection` (query, key or value) of p; begins the layer's module. */
sg_tid sg_project_heads(sg_graph *g, const sg_projections *p, const sg_linear_layer *projection, sg_tid x);
/* attended[b, t, heads head] -> [b, t, width]; inside the layer's module. */
sg_tid sg_project_out(sg_graph *g, const sg_projections *p, sg_tid attended);

#endif
