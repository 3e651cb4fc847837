/* supervised.h: the programs and the schedule of a policy that learns from a data set: preprocess, update. */
#ifndef SG_MODELS_FAMILIES_SUPERVISED_H
#define SG_MODELS_FAMILIES_SUPERVISED_H

#include "models/families/family.h"
#include "models/layers/linear.h"

typedef struct sg_supervised {
    void *policy;                                  /* handed to the functions below */
    void (*preprocess)(sg_graph *g, void *policy); /* from inputs to the batch tensors that forward reads */
    sg_tid (*forward)(sg_graph *g, void *policy);  /* -> scalar loss */
    sg_optimizer_spec optimizer;
} sg_supervised;

/* AdamW by the keys optimizer_lr, optimizer_weight_decay and grad_clip_norm; beta1 0.9, eps 1e-8. With optimizer=sgd: SGD
 * without momentum, without weight decay unless that was asked for. */
sg_optimizer_spec sg_supervised_optimizer(const sg_options *options, double beta2);

/* Emits the programs "preprocess" and "update" (with accumulation k also "micro-step first" and "micro-step") and
 * blocks. The loss is read at the end of a micro-step, as LeRobot does for its log. */
void sg_supervised_build(sg_graph *g, const sg_supervised *supervised, int64_t accumulation);

/* What a sample reads of cameras: frames of the data set in all, nothing without a camera. */
void sg_supervised_cameras(sg_graph *g, int64_t cameras, int64_t height, int64_t width, int64_t frames_per_sample);
/* Camera `index`: u8 frames[b, 3, h, w]; channels-last where the profile keeps images so. */
sg_tid sg_camera_input(sg_graph *g, int64_t index, int64_t batch, int64_t height, int64_t width);
/* fp32 of the frames' shape and layout, for camera `index` preprocessed. */
sg_tid sg_camera_image(sg_graph *g, int64_t index, sg_tid frames);

/* Buffers "mean" and "std" of a feature. */
typedef struct sg_statistics {
    sg_tid mean, deviation;
} sg_statistics;
sg_statistics sg_statistics_make(sg_graph *g, const char *feature, int ndim, const int64_t *size);
/* (x - mean) / (deviation + eps) into `out`; mean and deviation broadcast to x. */
void sg_normalise_vector(sg_graph *g, sg_tid x, sg_statistics statistics, sg_tid out);
/* Buffers "min" and "max" of a vector's elements. */
typedef struct sg_range {
    sg_tid low, high;
} sg_range;
sg_range sg_range_make(sg_graph *g, const char *feature, int64_t width);
/* 2 (x - low) / (high - low) - 1 into `out`. */
void sg_normalise_range(sg_graph *g, sg_tid x, sg_range range, sg_tid out);
/* u8[b,3,h,w] -> fp32 / 255, then as above (statistics [3,1,1]) into `out`: four full-image passes, as LeRobot's. */
void sg_normalise_image(sg_graph *g, sg_tid frames, sg_statistics statistics, sg_tid out);
/* u8[b,3,h,w] -> fp32 / 255 into `out`, for policies that take images as they are. */
void sg_scale_image(sg_graph *g, sg_tid frames, sg_tid out);

#endif
