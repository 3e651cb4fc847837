/* vision.h: SigLIP's vision tower over image patches, and the connector that hands its tokens to a language model. */
#ifndef SG_MODELS_LAYERS_VISION_H
#define SG_MODELS_LAYERS_VISION_H

#include "models/layers/linear.h"
#include "models/layers/norm.h"

typedef struct sg_vision_config {
    int64_t side;  /* pixels of the square image's side */
    int64_t patch; /* pixels of a patch's side */
    int64_t width, feedforward, heads, layers;
    bool checkpoint; /* each layer is a checkpointed segment (models/graph.h) */
} sg_vision_config;

typedef struct sg_vision_layer {
    const char *name;
    sg_norm_layer norm1, norm2;
    sg_linear_layer query, key, value, out, up, down;
} sg_vision_layer;

typedef struct sg_vision {
    sg_vision_config config;
    sg_tid patch_weight, patch_bias, position;
    sg_vision_layer *layers; /* config.layers, owned */
    sg_norm_layer norm;
} sg_vision;

/* In the current module. */
void sg_vision_make(sg_graph *g, sg_vision *vision, const sg_vision_config *config, sg_layer_style style);
void sg_vision_free(sg_vision *vision);
/* image[b,3,side,side] of the tower's dtype -> [b, (side/patch)^2, width] */
sg_tid sg_vision_apply(sg_graph *g, const sg_vision *vision, sg_tid image);
/* [b, n, width] -> [b, n / scale^2, width scale^2]: squares of tokens become one token. */
sg_tid sg_pixel_shuffle(sg_graph *g, sg_tid x, int64_t scale);

#endif
