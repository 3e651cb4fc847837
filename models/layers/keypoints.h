/* keypoints.h: spatial softmax: a feature map becomes the expected positions of keypoints in it (Finn et al. 2016). */
#ifndef SG_MODELS_LAYERS_KEYPOINTS_H
#define SG_MODELS_LAYERS_KEYPOINTS_H

#include "models/ops.h"

typedef struct sg_keypoints {
    int64_t count, height, width;
    sg_tid weight, bias; /* 1x1 convolution: [count, channels, 1, 1], [count] */
    sg_tid grid;         /* buffer [height width, 2]: positions between -1 and 1 */
} sg_keypoints;

sg_keypoints sg_keypoints_make(sg_graph *g, const char *name, int64_t channels, int64_t count, int64_t height,
                               int64_t width);
/* map[n, channels, h, w] -> x and y of every keypoint [n, 2 count] */
sg_tid sg_keypoints_apply(sg_graph *g, const sg_keypoints *layer, const char *name, sg_tid map);

#endif
