/* autodiff_elementwise.c: gradients of element-wise ops. */
#include "models/autodiff.h"
#include "models/ops.h"

#include <math.h>

sg_tid sg_unary_backward(sg_graph *g, const sg_attrs *forward, sg_fn fn, sg_tid dy, sg_tid s) {
    if (!sg_graph_has(g, dy) || !sg_graph_has(g, s)) return SG_NO_TENSOR;
    const sg_desc in[2] = {*sg_graph_desc(g, dy), *sg_graph_desc(g, s)};
    sg_desc out = in[1];
    sg_desc_like_operands(&out, in, 2);
    sg_attrs attrs = {.fn = fn, .alpha = forward->alpha, .beta = forward->beta};
    sg_tid dx;
    sg_emit(g, SG_OP_UNARY_BWD, &attrs, (const sg_tid[]){dy, s}, 2, &out, &dx, 1);
    return dx;
}

static sg_tid neg(sg_graph *g, sg_tid x) {
    return sg_unary(g, SG_FN_NEG, x, 0, 0);
}

/* dy * (exponent * x^(exponent - 1)) */
static sg_tid power_backward(sg_graph *g, sg_tid dy, sg_tid x, double exponent) {
    sg_tid slope = sg_scale(g, sg_unary(g, SG_FN_POW, x, exponent - 1, 0), exponent);
    return sg_mul(g, dy, slope);
}

/* dy (s (1 + x (1 - s))) with s = sigmoid x: silu_backward as PyTorch's dispatcher shows it where no kernel is registered. */
static sg_tid silu_backward_composed(sg_graph *g, sg_tid dy, sg_tid x) {
    sg_tid s = sg_unary(g, SG_FN_SIGMOID, x, 0, 0);
    if (!sg_graph_has(g, s)) return SG_NO_TENSOR;
    sg_attrs one = {.alpha = 1};
    sg_desc shape = *sg_graph_desc(g, s);
    sg_tid ones = sg_graph_empty(g, &shape);
    sg_emit_into(g, SG_OP_FILL, &one, NULL, 0, &ones, 1);
    sg_tid rest = sg_binary_in_place(g, SG_FN_SUB, ones, s, 1);
    sg_tid slope = sg_mul(g, s, sg_add_scalar(g, sg_mul(g, x, rest), 1));
    return sg_mul(g, dy, slope);
}

/* where((x >= low) & (x <= high), dy, 0); an open side is not compared. */
static sg_tid clamp_backward(sg_graph *g, sg_tid dy, sg_tid x, double low, double high) {
    sg_tid zero = sg_full(g, sg_graph_has(g, dy) ? sg_graph_dtype(g, dy) : SG_F32, 0, NULL, 0);
    sg_tid inside = SG_NO_TENSOR;
    if (isfinite(low)) inside = sg_compare_scalar(g, SG_FN_GE, x, low);
    if (isfinite(high)) {
        sg_tid below = sg_compare_scalar(g, SG_FN_LE, x, high);
        inside = isfinite(low) ? sg_binary_in_place(g, SG_FN_AND, inside, below, 0) : below;
    }
    return isfinite(low) || isfinite(high) ? sg_where(g, inside, dy, zero) : dy;
}

static sg_tid clamp_backward_fused(sg_graph *g, sg_tid dy, sg_tid x, const sg_attrs *forward) {
    if (!sg_graph_has(g, dy) || !sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_desc out = sg_desc_like(sg_graph_desc(g, dy));
    sg_attrs attrs = {.fn = SG_FN_CLAMP_BWD, .alpha = forward->alpha, .beta = forward->beta};
    sg_tid dx;
    sg_emit(g, SG_OP_TERNARY, &attrs, (const sg_tid[]){dy, x, x}, 3, &out, &dx, 1);
    return dx;
}

/* Functions that PyTorch differentiates with other ops; the rest have a kernel of their own. */
static sg_tid derive_composed(sg_derivation *d, sg_fn fn) {
    sg_graph *g = d->g;
    sg_tid dy = d->dy[0], x = d->in[0];
    const sg_attrs *a = &d->op.attrs;
    switch (fn) {
    case SG_FN_EXP: return sg_mul(g, dy, sg_saved_output(d));
    case SG_FN_LOG: return sg_div(g, dy, x);
    case SG_FN_SIN: return sg_mul(g, dy, sg_unary(g, SG_FN_COS, x, 0, 0));
    case SG_FN_COS: return sg_mul(g, dy, neg(g, sg_unary(g, SG_FN_SIN, x, 0, 0)));
    case SG_FN_SQRT: return sg_div(g, dy, sg_scale(g, sg_saved_output(d), 2));
    case SG_FN_RSQRT: {
        sg_tid cube = sg_unary(g, SG_FN_POW, sg_saved_output(d), 3, 0);
        return sg_mul(g, sg_scale(g, dy, -0.5), cube);
    }
    case SG_FN_SQUARE: return power_backward(g, dy, x, 2);
    case SG_FN_POW: return power_backward(g, dy, x, a->alpha);
    case SG_FN_ABS: return sg_mul(g, dy, sg_unary(g, SG_FN_SIGN, x, 0, 0));
    case SG_FN_RECIPROCAL: {
        sg_tid y = sg_saved_output(d);
        return sg_mul(g, neg(g, dy), sg_mul(g, y, y));
    }
    case SG_FN_CLAMP: return clamp_backward(g, dy, x, a->alpha, a->beta);
    default: return SG_NO_TENSOR;
    }
}

void sg_derive_unary(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_fn fn = (sg_fn)d->op.attrs.fn;
    const sg_attrs *a = &d->op.attrs;
    sg_tid dy = d->dy[0], x = d->in[0];
    switch (fn) {
    case SG_FN_NEG: d->dx[0] = neg(g, dy); return;
    case SG_FN_AFFINE: d->dx[0] = a->alpha == 1 ? dy : sg_scale(g, dy, a->alpha); return;
    case SG_FN_DIV_SCALAR: d->dx[0] = sg_unary(g, SG_FN_DIV_SCALAR, dy, a->alpha, 0); return;
    case SG_FN_RELU:
    case SG_FN_TANH:
    case SG_FN_SIGMOID: d->dx[0] = sg_unary_backward(g, a, fn, dy, sg_saved_output(d)); return;
    case SG_FN_SILU:
        d->dx[0] = g->profile.composed_silu ? silu_backward_composed(g, dy, x) : sg_unary_backward(g, a, fn, dy, x);
        return;
    case SG_FN_GELU_TANH:
    case SG_FN_GELU_ERF:
    case SG_FN_MISH:
    case SG_FN_ELU: d->dx[0] = sg_unary_backward(g, a, fn, dy, x); return;
    case SG_FN_NOT:
    case SG_FN_SIGN:
    case SG_FN_FLOOR: sg_no_rule(d, sg_fn_name(fn)); return;
    default: break;
    }
    if (sg_graph_eager(g))
        d->dx[0] = derive_composed(d, fn);
    else if (fn == SG_FN_CLAMP)
        d->dx[0] = clamp_backward_fused(g, dy, x, a);
    else
        d->dx[0] = sg_unary_backward(g, a, fn, dy, sg_fn_saves_output(fn) ? d->out[0] : x);
}

/* ---- binary ----------------------------------------------------------------------------------------------------- */

static sg_tid maybe_scale(sg_graph *g, sg_tid x, double factor) {
    return factor == 1 ? x : sg_scale(g, x, factor);
}

/* The winner takes dy, ties share it: masked_fill(where(x == y, dy / 2, dy), loser, 0). */
static sg_tid extremum_backward(sg_derivation *d, sg_fn loses) {
    sg_graph *g = d->g;
    sg_tid dy = d->dy[0], x = d->in[0], y = d->in[1];
    sg_tid lost = sg_binary(g, loses, x, y, 0);
    sg_tid half = sg_unary(g, SG_FN_DIV_SCALAR, dy, 2, 0);
    sg_tid shared = sg_where(g, sg_binary(g, SG_FN_EQ, x, y, 0), half, dy);
    return sg_masked_fill(g, shared, lost, 0);
}

/* -dy * ((x / y) / y) */
static sg_tid divisor_backward(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_tid quotient = sg_div(g, sg_div(g, d->in[0], d->in[1]), d->in[1]);
    return sg_mul(g, neg(g, d->dy[0]), quotient);
}

/* alpha 2 (y - z) dy, with the operands broadcast to dy's shape. */
static sg_tid squared_difference_backward(sg_derivation *d, sg_tid y, sg_tid z) {
    sg_graph *g = d->g;
    const sg_desc dy = *sg_graph_desc(g, d->dy[0]);
    const sg_desc in[3] = {dy, sg_desc_broadcast_to(sg_graph_desc(g, y), &dy),
                           sg_desc_broadcast_to(sg_graph_desc(g, z), &dy)};
    sg_desc out = sg_desc_like(&dy);
    sg_attrs attrs = {.fn = SG_FN_SQUARED_DIFF_BWD, .alpha = 1};
    sg_tid dx = SG_NO_TENSOR;
    sg_record record = {.kind = SG_OP_TERNARY,
                        .attrs = &attrs,
                        .n_in = 3,
                        .n_out = 1,
                        .in = (const sg_tid[]){d->dy[0], y, z},
                        .in_desc = in,
                        .out_desc = &out};
    (void)sg_graph_record(g, &record, &dx);
    return dx;
}

/* In the formulas' order: the second operand's gradient first. */
void sg_derive_binary(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_fn fn = (sg_fn)d->op.attrs.fn;
    sg_tid dy = d->dy[0], x = d->in[0], y = d->in[1];
    bool wants_x = sg_wants(d, 0), wants_y = sg_wants(d, 1);
    double alpha = d->op.attrs.alpha;
    switch (fn) {
    case SG_FN_ADD:
        if (wants_y) d->dx[1] = maybe_scale(g, dy, alpha);
        d->dx[0] = dy;
        break;
    case SG_FN_SUB:
        if (wants_y) d->dx[1] = maybe_scale(g, neg(g, dy), alpha);
        d->dx[0] = dy;
        break;
    case SG_FN_MUL:
        if (wants_y) d->dx[1] = sg_mul(g, dy, x);
        if (wants_x) d->dx[0] = sg_mul(g, dy, y);
        break;
    case SG_FN_DIV:
        if (wants_y) d->dx[1] = divisor_backward(d);
        if (wants_x) d->dx[0] = sg_div(g, dy, y);
        break;
    case SG_FN_MAX:
    case SG_FN_MIN:
        if (wants_y) d->dx[1] = extremum_backward(d, fn == SG_FN_MAX ? SG_FN_GT : SG_FN_LT);
        if (wants_x) d->dx[0] = extremum_backward(d, fn == SG_FN_MAX ? SG_FN_LT : SG_FN_GT);
        break;
    case SG_FN_SQUARED_DIFF:
        if (wants_x) d->dx[0] = squared_difference_backward(d, x, y);
        if (wants_y) d->dx[1] = squared_difference_backward(d, y, x);
        break;
    case SG_FN_ABS_DIFF: {
        sg_tid slope = sg_mul(g, dy, sg_unary(g, SG_FN_SIGN, sg_sub(g, x, y), 0, 0));
        d->dx[0] = slope;
        if (wants_y) d->dx[1] = neg(g, slope);
        break;
    }
    default: sg_no_rule(d, sg_fn_name(fn)); break;
    }
}

/* ---- ternary and dropout ------------------------------------------------------------------------------------------ */

void sg_derive_ternary(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_tid dy = d->dy[0];
    switch ((sg_fn)d->op.attrs.fn) {
    case SG_FN_WHERE: {
        sg_tid zero = sg_full(g, sg_graph_dtype(g, dy), 0, NULL, 0);
        if (sg_wants(d, 1)) d->dx[1] = sg_where(g, d->in[0], dy, zero);
        if (sg_wants(d, 2)) d->dx[2] = sg_where(g, d->in[0], zero, dy);
        break;
    }
    case SG_FN_MASKED_FILL: d->dx[0] = sg_masked_fill(g, dy, d->in[1], 0); break;
    default: sg_no_rule(d, sg_fn_name((sg_fn)d->op.attrs.fn)); break;
    }
}

void sg_derive_dropout(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_desc out = sg_desc_like(sg_graph_desc(g, d->dy[0]));
    sg_attrs attrs = {.alpha = d->op.attrs.alpha};
    sg_emit(g, SG_OP_DROPOUT_BWD, &attrs, (const sg_tid[]){d->dy[0], d->out[1]}, 2, &out, &d->dx[0], 1);
}
