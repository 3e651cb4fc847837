/* decoder.h: a Llama-style decoder layer without its attention. */
#ifndef SG_MODELS_LAYERS_DECODER_H
#define SG_MODELS_LAYERS_DECODER_H

#include "models/layers/norm.h"
#include "models/layers/projections.h"

typedef struct sg_decoder_layer {
    sg_projections projections;
    sg_norm_layer input_norm, post_norm;
} sg_decoder_layer;

sg_decoder_layer sg_decoder_make(sg_graph *g, const char *name, const sg_decoder_config *config, sg_layer_style style);
/* The input norm, in the weights' dtype. */
sg_tid sg_decoder_normed(sg_graph *g, const sg_decoder_layer *layer, sg_tid x);
/* Output projection of attended[b, t, heads head], residual x[b, t, width], norm, gated MLP, residual. */
sg_tid sg_decoder_finish(sg_graph *g, const sg_decoder_layer *layer, sg_tid x, sg_tid attended);

#endif
