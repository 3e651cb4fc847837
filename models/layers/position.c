/* position.c: sinusoidal positions that a policy computes anew in every forward. */
#include "models/layers/position.h"

#include <math.h>

static const double two_pi = 6.283185307179586476925;

/* ---- 2-D ---- */

/* The positions 1 .. n along dim of ones[1, h, w], scaled so that the last is 2 pi. */
static sg_tid scaled_range(sg_graph *g, sg_tid range, int dim, int64_t n) {
    sg_tid last = sg_add_scalar(g, sg_slice(g, range, dim, n - 1, 1), 1e-6);
    return sg_scale(g, sg_div(g, range, last), two_pi);
}

/* 10000^(2 (i // 2) / n) for i < n */
static sg_tid periods(sg_graph *g, int64_t n) {
    sg_tid index = sg_unary(g, SG_FN_DIV_SCALAR, sg_arange(g, sg_float(g), 0, 1, n), 2.0, 0);
    sg_same_dispatch(g);
    index = sg_unary(g, SG_FN_FLOOR, index, 0, 0);
    /* The power of a constant is an exponential of a multiple: the logarithm goes into the factor 2. */
    sg_tid exponent = sg_scale(g, index, 2.0 * log(10000.0));
    exponent = sg_unary(g, SG_FN_DIV_SCALAR, exponent, (double)n, 0);
    return sg_unary(g, SG_FN_EXP, exponent, 0, 0);
}

/* [1, h, w, n] -> sines of the even and cosines of the odd places, interleaved: [1, h, w, n] */
static sg_tid interleave(sg_graph *g, sg_tid angle, int64_t h, int64_t w, int64_t n) {
    sg_tid pairs = sg_view(g, angle, 5, (int64_t[]){1, h, w, n / 2, 2});
    sg_tid both[] = {sg_unary(g, SG_FN_SIN, sg_select(g, pairs, -1, 0), 0, 0), SG_NO_TENSOR};
    both[1] = sg_unary(g, SG_FN_COS, sg_select(g, pairs, -1, 1), 0, 0);
    return sg_view(g, sg_stack(g, 2, both, -1), 4, (int64_t[]){1, h, w, n});
}

sg_tid sg_sine_position_2d(sg_graph *g, sg_tid like, int64_t width) {
    const sg_desc *map = sg_desc_of(g, like);
    if (!map || sg_graph_failed(g)) return SG_NO_TENSOR;
    int64_t h = map->size[map->ndim - 2], w = map->size[map->ndim - 1], n = width / 2;
    sg_tid ones = sg_full(g, sg_float(g), 3, (int64_t[]){1, h, w}, 1.0);
    sg_tid y = sg_cumsum(g, ones, 1), x = sg_cumsum(g, ones, 2);
    y = scaled_range(g, y, 1, h);
    x = scaled_range(g, x, 2, w);
    sg_tid period = periods(g, n);
    x = interleave(g, sg_div(g, sg_unsqueeze(g, x, -1), period), h, w, n);
    y = interleave(g, sg_div(g, sg_unsqueeze(g, y, -1), period), h, w, n);
    sg_tid both[] = {y, x};
    return sg_permute(g, sg_cat(g, 2, both, 3), (int[]){0, 3, 1, 2});
}

/* ---- time ---- */

sg_tid sg_time_embedding(sg_graph *g, sg_tid time, int64_t width, double min_period, double max_period) {
    bool wide = sg_by_call(sg_graph_profile(g));
    sg_dtype dtype = wide ? SG_F64 : sg_float(g);
    int64_t half = width / 2;
    double step = half > 1 ? 1.0 / (double)(half - 1) : 0.0;
    sg_tid fraction = sg_arange(g, dtype, 0.0, step * log(max_period / min_period), half);
    sg_tid period = sg_scale(g, sg_unary(g, SG_FN_EXP, fraction, 0, 0), min_period);
    sg_tid factor = sg_unary(g, SG_FN_RECIPROCAL, period, 0, 0);
    if (wide) factor = sg_scale(g, sg_scale(g, factor, 1.0), 2.0); /* 1.0 / period * 2 * pi, one factor at a time */
    factor = sg_scale(g, factor, wide ? two_pi / 2.0 : two_pi);
    factor = sg_unsqueeze(g, factor, 0);
    sg_tid angle = sg_mul(g, factor, sg_unsqueeze(g, time, 1));
    sg_tid both[] = {sg_unary(g, SG_FN_SIN, angle, 0, 0), SG_NO_TENSOR};
    both[1] = sg_unary(g, SG_FN_COS, angle, 0, 0);
    return sg_to(g, sg_cat(g, 2, both, 1), sg_float(g));
}

sg_tid sg_step_embedding(sg_graph *g, sg_tid step, int64_t width) {
    int64_t half = width / 2;
    double rate = half > 1 ? log(10000.0) / (double)(half - 1) : 0.0;
    sg_tid factor = sg_scale(g, sg_arange(g, sg_float(g), 0, 1, half), -rate);
    factor = sg_unsqueeze(g, sg_unary(g, SG_FN_EXP, factor, 0, 0), 0);
    sg_tid angle = sg_mul(g, sg_unsqueeze(g, step, -1), factor);
    sg_tid both[] = {sg_unary(g, SG_FN_SIN, angle, 0, 0), SG_NO_TENSOR};
    both[1] = sg_unary(g, SG_FN_COS, angle, 0, 0);
    return sg_cat(g, 2, both, -1);
}
