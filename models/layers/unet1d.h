/* unet1d.h: the conditional U-Net over sequences of actions that diffusion policies use (LeRobot's
 * DiffusionConditionalUnet1d): residual blocks of two convolutions whose hidden features a condition scales and shifts
 * (FiLM), halved in length on the way down, doubled on the way up. */
#ifndef SG_MODELS_LAYERS_UNET1D_H
#define SG_MODELS_LAYERS_UNET1D_H

#include "models/layers/sequence.h"

enum { SG_UNET_MAX_STAGES = 8 };

typedef struct sg_unet1d_config {
    int64_t in;                        /* channels of the sequence: elements of an action */
    int64_t width[SG_UNET_MAX_STAGES]; /* channels of each stage on the way down */
    int stages;
    int64_t kernel, groups; /* groups divide every width */
    int64_t step_width;     /* of the embedding of the diffusion step, even */
    int64_t condition;      /* width of the condition without that embedding */
    bool scales;            /* the condition scales and shifts; false: it shifts only */
} sg_unet1d_config;

typedef struct sg_film_block {
    const char *name;
    int64_t out;
    bool scales, widens; /* widens: the skip is a convolution */
    sg_conv1d_block first, second;
    sg_linear_layer condition; /* [condition] -> [2 out] or [out] */
    sg_conv1d_layer skip;
} sg_film_block;

typedef struct sg_unet1d_stage {
    const char *name;
    sg_film_block block[2];
    sg_conv1d_layer resize; /* halves or doubles the length; none in the last stage down */
    bool resizes;
} sg_unet1d_stage;

typedef struct sg_unet1d {
    sg_unet1d_config config;
    sg_linear_layer step[2];
    sg_unet1d_stage down[SG_UNET_MAX_STAGES], up[SG_UNET_MAX_STAGES]; /* stages, stages - 1 */
    sg_film_block middle[2];
    sg_conv1d_block last;
    sg_conv1d_layer out;
} sg_unet1d;

void sg_unet1d_make(sg_graph *g, sg_unet1d *net, const char *name, const sg_unet1d_config *config,
                    sg_layer_style style);
/* x[b, t, in], step i64[b], condition[b, condition] -> [b, t, in]; t is a multiple of 2^(stages - 1). */
sg_tid sg_unet1d_apply(sg_graph *g, const sg_unet1d *net, const char *name, sg_tid x, sg_tid step, sg_tid condition);

#endif
