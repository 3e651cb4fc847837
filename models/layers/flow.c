/* flow.c: flow matching over action chunks. */
#include "models/layers/flow.h"

#include "models/layers/into.h"

sg_tid sg_pad_features(sg_graph *g, sg_tid x, int64_t width) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    sg_desc shape = *sg_desc_of(g, x);
    int last = shape.ndim - 1;
    int64_t length = shape.size[last];
    if (length == width) return x;
    shape.size[last] = width;
    sg_tid out = sg_full(g, sg_float(g), shape.ndim, shape.size, 0.0), slot = sg_slice(g, out, last, 0, length);
    sg_copy_into(g, x, slot);
    return out;
}

/* Beta(1.5, 1) by its inverse distribution function u^(2/3), moved off the ends: [b] */
static sg_tid sample_time(sg_graph *g, int64_t batch) {
    sg_tid u = sg_rand(g, sg_float(g), 1, &batch, 0.0, 1.0, 0);
    sg_same_dispatch(g);
    u = sg_unary(g, SG_FN_POW, u, 1.0 / 1.5, 0);
    if (sg_graph_profile(g)->fused_activation) return sg_unary(g, SG_FN_AFFINE, u, 0.999, 0.001);
    return sg_add_scalar(g, sg_scale(g, u, 0.999), 0.001);
}

sg_flow sg_flow_make(sg_graph *g, sg_tid actions) {
    sg_flow flow = {SG_NO_TENSOR, SG_NO_TENSOR, SG_NO_TENSOR};
    if (sg_graph_failed(g)) return flow;
    const sg_desc shape = *sg_desc_of(g, actions);
    sg_tid noise = sg_randn(g, sg_float(g), shape.ndim, shape.size, 0);
    flow.time = sample_time(g, shape.size[0]);
    sg_tid share = sg_unsqueeze(g, sg_unsqueeze(g, flow.time, 1), 2);
    sg_tid of_noise = sg_mul(g, share, noise);
    sg_tid of_actions = sg_mul(g, sg_unary(g, SG_FN_AFFINE, share, -1.0, 1.0), actions);
    flow.noisy = sg_add(g, of_noise, of_actions);
    flow.target = sg_sub(g, noise, actions);
    return flow;
}
