/* ops_elementwise.c: element-wise ops and dropout. */
#include "models/graph_state.h"
#include "models/ops.h"

#include <math.h>

/* Of PyTorch's list of calls that run in fp32 (docs, "CUDA Ops that can autocast to float32"; a square is pow, the last two
 * are mse_loss and l1_loss). */
static bool autocasts_to_f32(sg_fn fn) {
    return fn == SG_FN_EXP || fn == SG_FN_LOG || fn == SG_FN_POW || fn == SG_FN_SQUARE || fn == SG_FN_RECIPROCAL ||
           fn == SG_FN_RSQRT || fn == SG_FN_POWV || fn == SG_FN_SQUARED_DIFF || fn == SG_FN_ABS_DIFF;
}

/* An integer stays one under arithmetic with integral constants; everything transcendental makes it fp32. */
static sg_dtype unary_dtype(const sg_graph *g, sg_fn fn, sg_dtype x, double alpha, double beta) {
    if (fn == SG_FN_NOT) return SG_BOOL;
    if (sg_dtype_is_float(x)) return x;
    bool integral = false;
    switch (fn) {
    case SG_FN_AFFINE:
    case SG_FN_CLAMP: integral = alpha == floor(alpha) && beta == floor(beta); break;
    case SG_FN_RELU:
    case SG_FN_SQUARE:
    case SG_FN_ABS:
    case SG_FN_NEG:
    case SG_FN_SIGN:
    case SG_FN_FLOOR: integral = true; break;
    default: break;
    }
    return !integral ? sg_float(g) : x == SG_BOOL ? SG_I64 : x;
}

sg_tid sg_unary(sg_graph *g, sg_fn fn, sg_tid x, double alpha, double beta) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    if (autocasts_to_f32(fn)) x = sg_autocast_up(g, x);
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    const sg_desc *in = sg_graph_desc(g, x);
    sg_desc out = *in;
    sg_desc_like_operands(&out, in, 1);
    out.dtype = unary_dtype(g, fn, (sg_dtype)in->dtype, alpha, beta);
    sg_attrs attrs = {.fn = fn, .alpha = alpha, .beta = beta};
    sg_tid y;
    sg_emit(g, SG_OP_UNARY, &attrs, &x, 1, &out, &y, 1);
    return y;
}

static bool may_be_overwritten(sg_graph *g, sg_tid x) {
    if (!sg_graph_has(g, x)) return false;
    if (g->tensor_state.at[x].parameter < 0 || !g->tensor_state.at[x].requires_grad || g->no_grad > 0) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "a trainable parameter was to be changed in place inside the forward");
    return false;
}

sg_tid sg_unary_in_place(sg_graph *g, sg_fn fn, sg_tid x, double alpha, double beta) {
    if (!may_be_overwritten(g, x)) return SG_NO_TENSOR;
    const sg_desc out = *sg_graph_desc(g, x);
    sg_attrs attrs = {.fn = fn, .flags = SG_IN_PLACE, .alpha = alpha, .beta = beta};
    sg_tid y;
    sg_emit(g, SG_OP_UNARY, &attrs, &x, 1, &out, &y, 1);
    return y;
}

static bool is_comparison(sg_fn fn) {
    return fn == SG_FN_EQ || fn == SG_FN_NE || fn == SG_FN_LT || fn == SG_FN_LE || fn == SG_FN_GT || fn == SG_FN_GE ||
           fn == SG_FN_AND || fn == SG_FN_OR;
}

/* Broadcasts the operands against each other: in_desc with stride 0 where repeated, out with the result's strides. */
static bool broadcast_operands(sg_graph *g, const sg_tid *x, int n, sg_desc *in_desc, sg_desc *out) {
    *out = (sg_desc){.dtype = SG_F32};
    for (int i = 0; i < n; i++) {
        sg_desc next = {.dtype = SG_F32};
        if (!sg_graph_has(g, x[i])) return false;
        if (!sg_shape_broadcast(out, sg_graph_desc(g, x[i]), &next)) {
            sg_graph_fail(g, SG_BAD_INPUT, "element-wise operation in %s: the operands' shapes do not broadcast",
                          sg_graph_module_name(g));
            return false;
        }
        *out = next;
    }
    for (int i = 0; i < n; i++) in_desc[i] = sg_desc_broadcast_to(sg_graph_desc(g, x[i]), out);
    sg_desc_like_operands(out, in_desc, n);
    return true;
}

static sg_tid record_elementwise(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, const sg_tid *x,
                                 const sg_desc *in_desc, int n, const sg_desc *out) {
    sg_tid y = SG_NO_TENSOR;
    sg_record record = {.kind = kind,
                        .attrs = attrs,
                        .n_in = n,
                        .n_out = 1,
                        .in = x,
                        .in_desc = in_desc,
                        .out_desc = out,
                        .rule = SG_RULE_OP};
    (void)sg_graph_record(g, &record, &y);
    return y;
}

sg_tid sg_binary(sg_graph *g, sg_fn fn, sg_tid x, sg_tid y, double alpha) {
    if (autocasts_to_f32(fn)) {
        x = sg_autocast_up(g, x);
        y = sg_autocast_up(g, y);
    }
    const sg_tid in[2] = {x, y};
    sg_desc in_desc[2], out;
    if (!broadcast_operands(g, in, 2, in_desc, &out)) return SG_NO_TENSOR;
    out.dtype = is_comparison(fn) ? SG_BOOL : sg_dtype_promote(sg_graph_desc(g, x), sg_graph_desc(g, y));
    if (fn == SG_FN_DIV && !sg_dtype_is_float((sg_dtype)out.dtype)) out.dtype = (int32_t)sg_float(g);
    sg_attrs attrs = {.fn = fn, .alpha = alpha};
    return record_elementwise(g, SG_OP_BINARY, &attrs, in, in_desc, 2, &out);
}

sg_tid sg_binary_in_place(sg_graph *g, sg_fn fn, sg_tid x, sg_tid y, double alpha) {
    if (!may_be_overwritten(g, x) || !sg_graph_has(g, y)) return SG_NO_TENSOR;
    const sg_tid in[2] = {x, y};
    sg_desc in_desc[2] = {*sg_graph_desc(g, x)}, wide = {.dtype = SG_F32};
    if (!sg_shape_broadcast(&in_desc[0], sg_graph_desc(g, y), &wide) || !sg_desc_same_shape(&wide, &in_desc[0])) {
        sg_graph_fail(g, SG_BAD_INPUT, "in-place operation: the second operand does not broadcast to the first");
        return SG_NO_TENSOR;
    }
    in_desc[1] = sg_desc_broadcast_to(sg_graph_desc(g, y), &in_desc[0]);
    const sg_desc out = in_desc[0];
    sg_attrs attrs = {.fn = fn, .flags = SG_IN_PLACE, .alpha = alpha};
    return record_elementwise(g, SG_OP_BINARY, &attrs, in, in_desc, 2, &out);
}

sg_tid sg_add(sg_graph *g, sg_tid x, sg_tid y) {
    return sg_binary(g, SG_FN_ADD, x, y, 1);
}

sg_tid sg_sub(sg_graph *g, sg_tid x, sg_tid y) {
    return sg_binary(g, SG_FN_SUB, x, y, 1);
}

sg_tid sg_mul(sg_graph *g, sg_tid x, sg_tid y) {
    return sg_binary(g, SG_FN_MUL, x, y, 0);
}

sg_tid sg_div(sg_graph *g, sg_tid x, sg_tid y) {
    return sg_binary(g, SG_FN_DIV, x, y, 0);
}

sg_tid sg_scale(sg_graph *g, sg_tid x, double factor) {
    return sg_unary(g, SG_FN_AFFINE, x, factor, 0);
}

sg_tid sg_add_scalar(sg_graph *g, sg_tid x, double value) {
    return sg_unary(g, SG_FN_AFFINE, x, 1, value);
}

sg_tid sg_compare_scalar(sg_graph *g, sg_fn fn, sg_tid x, double value) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    return sg_binary(g, fn, x, sg_graph_constant(g, sg_graph_dtype(g, x), value), 0);
}

sg_tid sg_where(sg_graph *g, sg_tid condition, sg_tid x, sg_tid y) {
    const sg_tid in[3] = {condition, x, y};
    sg_desc in_desc[3], out;
    if (!broadcast_operands(g, in, 3, in_desc, &out)) return SG_NO_TENSOR;
    out.dtype = sg_dtype_promote(sg_graph_desc(g, x), sg_graph_desc(g, y));
    sg_attrs attrs = {.fn = SG_FN_WHERE};
    return record_elementwise(g, SG_OP_TERNARY, &attrs, in, in_desc, 3, &out);
}

sg_tid sg_masked_fill(sg_graph *g, sg_tid x, sg_tid mask, double value) {
    const sg_tid in[3] = {x, mask, mask};
    sg_desc in_desc[3], out;
    if (!broadcast_operands(g, in, 3, in_desc, &out)) return SG_NO_TENSOR;
    out.dtype = sg_graph_dtype(g, x);
    sg_attrs attrs = {.fn = SG_FN_MASKED_FILL, .alpha = value};
    return record_elementwise(g, SG_OP_TERNARY, &attrs, in, in_desc, 3, &out);
}

sg_tid sg_relu(sg_graph *g, sg_tid x, bool in_place) {
    return in_place ? sg_unary_in_place(g, SG_FN_RELU, x, 0, 0) : sg_unary(g, SG_FN_RELU, x, 0, 0);
}

/* ---- dropout --------------------------------------------------------------------------------------------------- */

static void set_samples(sg_attrs *attrs, int batch_dim, int sample_group) {
    if (batch_dim < 0) return;
    attrs->flags |= SG_PER_SAMPLE;
    attrs->dim = batch_dim;
    attrs->sample_group = sample_group;
}

/* On a CPU PyTorch has no fused kernel: a Bernoulli mask in x's dtype, scaled in place, times x. */
static sg_tid dropout_unfused(sg_graph *g, sg_tid x, double p, int batch_dim, int sample_group) {
    sg_attrs attrs = {.fn = SG_FN_BERNOULLI, .alpha = 1 - p};
    set_samples(&attrs, batch_dim, sample_group);
    const sg_desc *in = sg_graph_desc(g, x);
    sg_desc out = *in;
    sg_desc_like_operands(&out, in, 1);
    sg_tid noise = sg_graph_empty(g, &out);
    sg_emit_into(g, SG_OP_RANDOM, &attrs, NULL, 0, &noise, 1);
    return sg_mul(g, x, sg_unary_in_place(g, SG_FN_DIV_SCALAR, noise, 1 - p, 0));
}

sg_tid sg_dropout(sg_graph *g, sg_tid x, double p, int batch_dim, int sample_group) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    if (p == 0) return x;
    if (sg_graph_eager(g) && g->profile.device_class == SG_DEVICE_CLASS_CPU && p < 1)
        return dropout_unfused(g, x, p, batch_dim, sample_group);
    const sg_desc *in = sg_graph_desc(g, x);
    sg_desc out[2] = {*in};
    sg_desc_like_operands(&out[0], in, 1);
    out[1] = out[0];
    out[1].dtype = SG_BOOL;
    sg_attrs attrs = {.alpha = p};
    set_samples(&attrs, batch_dim, sample_group);
    sg_tid y[2];
    sg_emit(g, SG_OP_DROPOUT, &attrs, &x, 1, out, y, 2);
    return y[0];
}
