/* gaussian.c: a diagonal normal distribution over actions, as torch.distributions.Normal computes it. */
#include "models/layers/gaussian.h"

static const double log_sqrt_two_pi = 0.91893853320467274178, least_deviation = 1e-6, no_bound = 3.0e38;

static sg_tid square(sg_graph *g, sg_tid x) {
    return sg_unary(g, SG_FN_SQUARE, x, 0, 0);
}

static sg_tid logarithm(sg_graph *g, sg_tid x) {
    return sg_unary(g, SG_FN_LOG, x, 0, 0);
}

static sg_tid sum_actions(sg_graph *g, sg_tid x) {
    return sg_reduce(g, SG_FN_SUM, x, 1u << 1, false);
}

sg_gaussian sg_gaussian_make(sg_graph *g, sg_tid mean, sg_tid deviation) {
    sg_gaussian d = {mean, SG_NO_TENSOR};
    if (sg_graph_failed(g)) return d;
    const sg_desc shape = *sg_desc_of(g, mean);
    sg_tid bounded = sg_unary(g, SG_FN_CLAMP, deviation, least_deviation, no_bound);
    d.deviation = sg_expand(g, bounded, shape.ndim, shape.size);
    return d;
}

sg_tid sg_gaussian_sample(sg_graph *g, const sg_gaussian *d) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc shape = *sg_desc_of(g, d->mean);
    sg_no_grad_begin(g);
    sg_tid x =
        sg_randn(g, sg_float(g), shape.ndim, shape.size, 0); /* torch.normal: draw, then scale and move in place */
    sg_same_dispatch(g);
    x = sg_binary_in_place(g, SG_FN_MUL, x, d->deviation, 0);
    sg_same_dispatch(g);
    x = sg_binary_in_place(g, SG_FN_ADD, x, d->mean, 1.0);
    sg_no_grad_end(g);
    return x;
}

sg_tid sg_gaussian_log_density(sg_graph *g, const sg_gaussian *d, sg_tid action) {
    sg_tid variance = square(g, d->deviation), log_deviation = logarithm(g, d->deviation);
    sg_tid x = sg_unary(g, SG_FN_NEG, square(g, sg_sub(g, action, d->mean)), 0, 0);
    x = sg_div(g, x, sg_scale(g, variance, 2.0));
    return sum_actions(g, sg_add_scalar(g, sg_sub(g, x, log_deviation), -log_sqrt_two_pi));
}

sg_tid sg_gaussian_entropy(sg_graph *g, const sg_gaussian *d) {
    return sum_actions(g, sg_add_scalar(g, logarithm(g, d->deviation), 0.5 + log_sqrt_two_pi));
}

sg_tid sg_gaussian_mean_kl(sg_graph *g, const sg_gaussian *d, const sg_gaussian *old) {
    sg_tid ratio = logarithm(g, sg_add_scalar(g, sg_div(g, d->deviation, old->deviation), 1e-5));
    sg_tid spread = square(g, old->deviation);
    spread = sg_add(g, spread, square(g, sg_sub(g, old->mean, d->mean)));
    spread = sg_div(g, spread, sg_scale(g, square(g, d->deviation), 2.0));
    return sg_mean_all(g, sum_actions(g, sg_add_scalar(g, sg_add(g, ratio, spread), -0.5)));
}
