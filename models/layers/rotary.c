/* rotary.c: rotary positions of SmolVLA: the two halves of a head turn against each other. */
#include "models/layers/rotary.h"

#include <math.h>

static const double wavelength = 10000.0; /* longest, in tokens */

static void table(sg_graph *g, sg_rotary *rotary) {
    int64_t half = rotary->head / 2;
    sg_tid exponent = sg_arange(g, SG_F32, 0, 1, half);
    /* The power of a constant is an exponential of a multiple: the logarithm goes into the factor. */
    exponent = sg_scale(g, exponent, 2.0 / (double)rotary->head * log(wavelength));
    sg_tid scale = sg_unary(g, SG_FN_EXP, exponent, 0, 0);
    sg_tid position = sg_to(g, sg_unsqueeze(g, rotary->positions, 2), SG_F32);
    sg_tid angle = sg_div(g, position, sg_unsqueeze(g, sg_unsqueeze(g, scale, 0), 1));
    angle = sg_unsqueeze(g, angle, 2);
    rotary->sine = sg_unary(g, SG_FN_SIN, angle, 0, 0);
    rotary->cosine = sg_unary(g, SG_FN_COS, angle, 0, 0);
}

static bool rebuilds(const sg_graph *g) {
    return sg_by_call(sg_graph_profile(g));
}

sg_rotary sg_rotary_make(sg_graph *g, sg_tid positions, int64_t head) {
    sg_rotary rotary = {positions, head, SG_NO_TENSOR, SG_NO_TENSOR};
    if (!rebuilds(g)) table(g, &rotary);
    return rotary;
}

/* a cosine +- b sine */
static sg_tid turned(sg_graph *g, sg_fn fn, sg_tid a, sg_tid cosine, sg_tid b, sg_tid sine) {
    sg_tid first = sg_mul(g, a, cosine), second = sg_mul(g, b, sine);
    return sg_binary(g, fn, first, second, 1.0);
}

sg_tid sg_rotary_apply(sg_graph *g, const sg_rotary *rotary, sg_tid x) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    sg_desc shape = *sg_desc_of(g, x);
    sg_dtype dtype = (sg_dtype)shape.dtype;
    sg_rotary t = *rotary;
    int64_t half = t.head / 2;
    sg_tid wide = sg_to(g, x, SG_F32), part[2];
    if (rebuilds(g)) table(g, &t);
    sg_chunk(g, wide, -1, 2, part);
    sg_tid out = rebuilds(g) ? sg_empty(g, SG_F32, shape.ndim, shape.size) : SG_NO_TENSOR;
    sg_tid first = turned(g, SG_FN_SUB, part[0], t.cosine, part[1], t.sine);
    if (rebuilds(g)) out = sg_copy_slice(g, out, -1, 0, first);
    sg_tid second = turned(g, SG_FN_ADD, part[1], t.cosine, part[0], t.sine);
    if (rebuilds(g))
        out = sg_copy_slice(g, out, -1, half, second);
    else
        out = sg_cat(g, 2, (sg_tid[]){first, second}, -1);
    return sg_to(g, out, dtype);
}
