/* keypoints.c: spatial softmax. */
#include "models/layers/keypoints.h"

#include <math.h>

sg_keypoints sg_keypoints_make(sg_graph *g, const char *name, int64_t channels, int64_t count, int64_t height,
                               int64_t width) {
    sg_keypoints layer = {.count = count, .height = height, .width = width};
    sg_param_spec spec = {.dtype = SG_F32,
                          .channels_last = sg_graph_profile(g)->channels_last,
                          .init = SG_INIT_UNIFORM,
                          .scale = 1.0 / sqrt((double)channels)};
    sg_param_spec grid = {.dtype = SG_F32, .frozen = true, .buffer = true, .init = SG_INIT_UNIFORM, .scale = 1.0};
    sg_module_begin(g, "%s", name);
    layer.grid = sg_param(g, "pos_grid", 2, (int64_t[]){height * width, 2}, grid);
    sg_module_begin(g, "%s", "nets");
    layer.weight = sg_param(g, "weight", 4, (int64_t[]){count, channels, 1, 1}, spec);
    layer.bias = sg_param(g, "bias", 1, &count, spec);
    sg_module_end(g);
    sg_module_end(g);
    return layer;
}

sg_tid sg_keypoints_apply(sg_graph *g, const sg_keypoints *layer, const char *name, sg_tid map) {
    sg_module_begin(g, "%s", name);
    sg_tid x = sg_conv2d(g, map, layer->weight, layer->bias, 1, 0);
    x = sg_softmax(g, sg_reshape(g, x, 2, (int64_t[]){-1, layer->height * layer->width}));
    x = sg_matmul(g, x, layer->grid);
    x = sg_view(g, x, 3, (int64_t[]){-1, layer->count, 2});
    x = sg_view(g, x, 2, (int64_t[]){-1, 2 * layer->count});
    sg_module_end(g);
    return x;
}
