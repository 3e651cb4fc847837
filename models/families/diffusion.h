/* diffusion.h: the diffusion policy's configuration, parameters and batch, shared by its two files. */
#ifndef SG_MODELS_FAMILIES_DIFFUSION_H
#define SG_MODELS_FAMILIES_DIFFUSION_H

#include "models/families/supervised.h"
#include "models/layers/keypoints.h"
#include "models/layers/resnet.h"
#include "models/layers/unet1d.h"

/* ResNet, spatial softmax and a linear layer over one camera's frames. */
typedef struct sg_frame_encoder {
    const char *name;
    sg_resnet backbone;
    sg_keypoints keypoints;
    sg_linear_layer out;
} sg_frame_encoder;

typedef struct sg_diffusion {
    int64_t batch, cameras, height, width, state, action, observations, horizon;
    int64_t resized[2], cropped[2]; /* height, width of what the network sees after each; 0: not done */
    int64_t steps;                  /* of the noise process in training */
    bool separate, masks, predicts_noise;
    sg_unet1d_config unet_config;

    /* As the loader delivers them. */
    sg_tid frames[SG_LIMIT_CAMERAS], raw_state, raw_action, padding;
    /* Normalised: images fp32[b observations,3,h,w], state[b,observations,s], action[b,horizon,a]. */
    sg_tid image[SG_LIMIT_CAMERAS], state_in, action_in;
    sg_statistics image_statistics[SG_LIMIT_CAMERAS];
    sg_range state_range, action_range;

    sg_frame_encoder *encoder; /* one per camera, or one */
    sg_unet1d unet;
    sg_tid kept; /* buffer [steps]: share of the signal that is left after each step of the noise process */
} sg_diffusion;

/* The training forward: -> scalar loss (mean squared error of the predicted noise). `policy` is an sg_diffusion. */
sg_tid sg_diffusion_forward(sg_graph *g, void *policy);

#endif
