/* detr.h: the encoder and decoder layers of ACT (DETR's), post-norm unless asked otherwise. */
#ifndef SG_MODELS_LAYERS_DETR_H
#define SG_MODELS_LAYERS_DETR_H

#include "models/layers/attention.h"
#include "models/layers/norm.h"

typedef struct sg_detr_config {
    int64_t width, heads, feedforward;
    double dropout;
    sg_fn activation; /* RELU or GELU_ERF */
    bool pre_norm;
} sg_detr_config;

/* Encoder layer; a decoder layer has cross attention and a third norm too. */
typedef struct sg_detr_layer {
    const char *name;
    bool cross;
    sg_mha_layer self_attention, cross_attention;
    sg_linear_layer linear1, linear2;
    sg_norm_layer norm[3];
} sg_detr_layer;

sg_detr_layer sg_detr_layer_make(sg_graph *g, const char *name, const sg_detr_config *config, bool cross,
                                 sg_layer_style style);
/* x + position where a position is given. Token tensors in the profile's layout (attention.h). */
sg_tid sg_detr_encoder_apply(sg_graph *g, const sg_detr_layer *layer, const sg_detr_config *config, sg_tid x,
                             sg_tid position, sg_tid padding);
/* The first token of the same, for a last layer of which nothing else is used: its query alone attends. Batch first
 * only: x[b, t, width] -> [b, 1, width]. */
sg_tid sg_detr_encoder_first(sg_graph *g, const sg_detr_layer *layer, const sg_detr_config *config, sg_tid x,
                             sg_tid position, sg_tid padding);
/* memory: the encoder's output; memory_position its positions. */
sg_tid sg_detr_decoder_apply(sg_graph *g, const sg_detr_layer *layer, const sg_detr_config *config, sg_tid x,
                             sg_tid memory, sg_tid position, sg_tid memory_position);

#endif
