/* resnet.h: torchvision's ResNet-18 and ResNet-34 without the classifier. */
#ifndef SG_MODELS_LAYERS_RESNET_H
#define SG_MODELS_LAYERS_RESNET_H

#include "models/layers/norm.h"

enum { SG_RESNET_STAGES = 4, SG_RESNET_STRIDE = 32, SG_RESNET_MAX_BLOCKS = 6 };

/* What stands behind every convolution. */
typedef enum sg_resnet_norm {
    SG_RESNET_NORM_FROZEN, /* batch norm whose statistics and affine part are buffers */
    SG_RESNET_NORM_BATCH,  /* batch norm in training */
    SG_RESNET_NORM_GROUP   /* group norm, one group for every 16 channels (fewer channels: one group) */
} sg_resnet_norm;

/* A convolution without bias and its norm. */
typedef struct sg_conv_norm {
    const char *conv_name, *norm_name;
    int stride, pad;
    sg_tid weight;
    sg_channel_norm_layer norm;                    /* batch or group */
    sg_tid norm_weight, norm_bias, mean, variance; /* frozen; else SG_NO_TENSOR */
    sg_tid folded, shift; /* frozen, native: weight and bias with the norm inside, made once per forward */
} sg_conv_norm;

typedef struct sg_resnet_block {
    const char *name;
    bool downsamples;
    sg_conv_norm conv1, conv2, down;
} sg_resnet_block;

typedef struct sg_resnet {
    const char *name;
    sg_resnet_norm norm;
    int64_t width; /* channels of the first stage (64); the last has 8 times as many */
    sg_conv_norm stem;
    int blocks[SG_RESNET_STAGES];
    sg_resnet_block block[SG_RESNET_STAGES][SG_RESNET_MAX_BLOCKS];
} sg_resnet;

/* blocks: per stage, {2,2,2,2} for ResNet-18, {3,4,6,3} for ResNet-34. */
void sg_resnet_make(sg_graph *g, sg_resnet *net, const char *name, int64_t width, const int blocks[SG_RESNET_STAGES],
                    sg_resnet_norm norm, sg_layer_style style);
/* Native: folds frozen norms into the weights; once per forward, before sg_resnet_apply. Eager: nothing. */
void sg_resnet_fold(sg_graph *g, sg_resnet *net);
/* x[n,3,h,w] -> [n, 8 width, h/32, w/32] (sizes rounded as the convolutions do) */
sg_tid sg_resnet_apply(sg_graph *g, const sg_resnet *net, sg_tid x);
/* Length of a side of the feature map of `length` pixels. */
int64_t sg_resnet_side(int64_t length);

#endif
