/* act.h: ACT's configuration, parameters and batch, shared by its two files. */
#ifndef SG_MODELS_FAMILIES_ACT_H
#define SG_MODELS_FAMILIES_ACT_H

#include "models/families/supervised.h"
#include "models/layers/detr.h"
#include "models/layers/resnet.h"

typedef struct sg_act {
    int64_t batch, cameras, height, width, state, action, chunk, latent;
    int64_t encoder_layers, decoder_layers, vae_layers;
    bool use_vae;
    bool checkpoint; /* the backbone and each transformer layer are checkpointed segments */
    double kl_weight;
    sg_detr_config transformer;

    /* As the loader delivers them. */
    sg_tid frames[SG_LIMIT_CAMERAS], raw_state, raw_action, padding;
    /* Normalised: images fp32[b,3,h,w] (native: views of one [b,cameras,3,h,w]), state[b,s], action[b,chunk,a]. */
    sg_tid image[SG_LIMIT_CAMERAS], images, state_in, action_in;
    sg_statistics image_statistics[SG_LIMIT_CAMERAS], state_statistics, action_statistics;

    sg_detr_layer *vae, *encoder, *decoder;
    sg_tid vae_class, vae_position; /* [1, width], buffer [1, tokens, width] */
    sg_linear_layer vae_state, vae_action, vae_latent;
    sg_resnet backbone;
    sg_tid projection_weight, projection_bias; /* 1x1 convolution of the feature maps */
    sg_linear_layer latent_in, encoder_state, head;
    sg_tid encoder_position, decoder_position; /* [1 or 2, width], [chunk, width] */
    sg_norm_layer vae_norm, encoder_norm, decoder_norm;
} sg_act;

/* The training forward: -> scalar loss (L1 over the valid steps of the chunk + kl_weight x KL). `policy` is an
 * sg_act. */
sg_tid sg_act_forward(sg_graph *g, void *policy);
int64_t sg_act_map_tokens(const sg_act *m); /* tokens of one camera's feature map */

#endif
