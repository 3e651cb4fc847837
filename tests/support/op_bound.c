/* op_bound.c: how far a device's results may be from the reference's, and whether they are. */
#include "tests/reference/reference.h"
#include "tests/support/op_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static double unit_roundoff(sg_dtype dtype) {
    switch (dtype) {
    case SG_F64: return 0x1p-53;
    case SG_F32: return 0x1p-24;
    case SG_BF16: return 0x1p-8;
    case SG_F16: return 0x1p-11;
    default: return 0;
    }
}

static bool is_exact_fn(int fn) {
    switch ((sg_fn)fn) {
    case SG_FN_RELU:
    case SG_FN_ABS:
    case SG_FN_NEG:
    case SG_FN_SIGN:
    case SG_FN_NOT:
    case SG_FN_FLOOR:
    case SG_FN_CLAMP:
    case SG_FN_MAX:
    case SG_FN_MIN:
    case SG_FN_EQ:
    case SG_FN_NE:
    case SG_FN_LT:
    case SG_FN_LE:
    case SG_FN_GT:
    case SG_FN_GE:
    case SG_FN_AND:
    case SG_FN_OR:
    case SG_FN_WHERE:
    case SG_FN_CLAMP_BWD:
    case SG_FN_MASKED_FILL:
    case SG_FN_ANY:
    case SG_FN_INTEGER:
    case SG_FN_PERMUTATION: return true;
    default: return false;
    }
}

/* Kinds that move or choose values without computing any. */
static bool is_exact(const sg_op *op) {
    switch ((sg_op_kind)op->kind) {
    case SG_OP_MAXPOOL:
    case SG_OP_PAD:
    case SG_OP_COPY:
    case SG_OP_CAT:
    case SG_OP_EMBEDDING: return true;
    case SG_OP_UNARY:
    case SG_OP_BINARY:
    case SG_OP_TERNARY:
    case SG_OP_FOREACH:
    case SG_OP_REDUCE:
    case SG_OP_RANDOM: return is_exact_fn(op->attrs.fn);
    default: return false;
    }
}

/* Terms that one element of output i sums. */
static double terms_of(const sg_op *op, int i) {
    const sg_desc *in = op->desc, *out = op->desc + op->n_in;
    double rows = (double)sg_desc_count(&in[0]) / (in[0].ndim ? (double)in[0].size[in[0].ndim - 1] : 1);
    double last = in[0].ndim ? (double)in[0].size[in[0].ndim - 1] : 1;
    switch ((sg_op_kind)op->kind) {
    case SG_OP_MATMUL: return last;
    case SG_OP_CONV: return (double)(in[1].size[1] * in[1].size[2] * in[1].size[3]);
    case SG_OP_CONV_BWD_DATA: return (double)(in[1].size[0] * in[1].size[2] * in[1].size[3]);
    case SG_OP_CONV_BWD_WEIGHTS: return (double)(in[0].size[0] * in[0].size[2] * in[0].size[3]);
    case SG_OP_MAXPOOL_BWD: return (double)op->attrs.kernel[0] * op->attrs.kernel[1];
    case SG_OP_SOFTMAX:
    case SG_OP_SOFTMAX_BWD:
    case SG_OP_LAYER_NORM:
    case SG_OP_RMS_NORM: return last;
    case SG_OP_LAYER_NORM_BWD:
    case SG_OP_RMS_NORM_BWD: return i > 0 || op->attrs.flags & SG_NO_DX ? rows : last;
    case SG_OP_CHANNEL_NORM: return (double)sg_desc_count(&in[0]) / (double)sg_desc_count(&out[1]);
    case SG_OP_CHANNEL_NORM_BWD:
        return i > 0 || op->attrs.flags & SG_NO_DX ? (double)sg_desc_count(&in[0]) / (double)in[0].size[1]
                                                   : (double)sg_desc_count(&in[0]) / (double)sg_desc_count(&in[2]);
    case SG_OP_ATTENTION: return last + (double)in[1].size[2];
    case SG_OP_ATTENTION_BWD: return last + (double)(in[0].size[2] + in[2].size[2]);
    case SG_OP_REDUCE: return (double)sg_desc_count(&in[0]) / (double)sg_desc_count(&out[0]);
    case SG_OP_CUMSUM: return (double)in[0].size[op->attrs.dim];
    case SG_OP_NORM_ALL: return (double)sg_desc_count(&in[i]);
    case SG_OP_EMBEDDING_BWD: return (double)sg_desc_count(&in[1]);
    default: return 1;
    }
}

/* Roundoff of what is computed inside: fp32, unless products are formed in less or probabilities are kept in less. */
static double inner_roundoff(const sg_op *op) {
    bool product = op->kind == SG_OP_MATMUL || op->kind == SG_OP_CONV || op->kind == SG_OP_CONV_BWD_DATA ||
                   op->kind == SG_OP_CONV_BWD_WEIGHTS;
    bool attention = op->kind == SG_OP_ATTENTION || op->kind == SG_OP_ATTENTION_BWD;
    sg_dtype dtype = op->n_in ? (sg_dtype)op->desc[0].dtype : SG_F32;
    if (attention && sg_dtype_is_float(dtype)) return unit_roundoff(dtype);
    if (product && dtype == SG_F32) {
        if (op->attrs.compute == SG_COMPUTE_BF16) return unit_roundoff(SG_BF16);
        if (op->attrs.compute == SG_COMPUTE_F16 || op->attrs.compute == SG_COMPUTE_TF32) return unit_roundoff(SG_F16);
    }
    return dtype == SG_F64 ? unit_roundoff(SG_F64) : unit_roundoff(SG_F32);
}

/* Size of what cancels inside a formula at one element, where that is more than its inputs' movements show: for
 * x Phi(x) x itself; for a derivative of such a product the slope and x times the slope's slope. */
static double cancelling(sg_fn fn, double x, bool backward) {
    switch (fn) {
    case SG_FN_GELU_TANH: return backward ? 1 + fabs(x) * (1 + 0.134145 * x * x) : fabs(x);
    case SG_FN_GELU_ERF: return backward ? 1 + fabs(x) : fabs(x);
    case SG_FN_SILU:
    case SG_FN_MISH: return backward ? 1 + fabs(x) : 0;
    default: return 0;
    }
}

static double most_cancelling(const op_case *c) {
    bool backward = c->op.kind == SG_OP_UNARY_BWD;
    double most = 0;
    if (c->op.kind != SG_OP_UNARY && c->op.kind != SG_OP_FOREACH && !backward) return 0;
    const double *x = c->value[backward];
    for (int64_t e = 0; e < sg_desc_count(&c->desc[0]); e++)
        most = fmax(most, cancelling((sg_fn)c->op.attrs.fn, x[e], backward) * (backward ? fabs(c->value[0][e]) : 1));
    return most;
}

static void compute(op_case *c, double **in, double **out) {
    sg_status status = {0};
    if (sg_reference_compute(&c->op, (const double *const *)in, out, &c->launch, &status) != SG_OK)
        fail_msg("%s: %s", c->label, status.text);
}

/* S of every output: largest movement over its elements and a few draws of signs, summed over the inputs. Equal signs show
 * the size of sums whose terms do not cancel. */
static void movements(op_case *c, double *moved) {
    const double h = 0x1p-20;
    int n_in = c->op.n_in, n_out = c->op.n_out;
    double *in[OP_CASE_TENSORS], *base[OP_CASE_TENSORS], *out[OP_CASE_TENSORS];
    uint64_t signs = 4242;
    for (int o = 0; o < n_out; o++) {
        base[o] = op_zeros((size_t)sg_desc_count(&c->desc[n_in + o]));
        out[o] = op_zeros((size_t)sg_desc_count(&c->desc[n_in + o]));
        moved[o] = 0;
    }
    for (int i = 0; i < n_in; i++) in[i] = c->value[i];
    compute(c, in, base);
    int draws = sg_desc_count(&c->desc[n_in]) < 64 ? 5 : 2; /* all up, then signs at random */
    for (int i = 0; i < n_in; i++) {
        if (!sg_dtype_is_float((sg_dtype)c->desc[i].dtype)) continue;
        size_t count = (size_t)sg_desc_count(&c->desc[i]);
        double most[OP_CASE_TENSORS] = {0};
        in[i] = op_zeros(count);
        for (int draw = 0; draw < draws; draw++) {
            for (size_t e = 0; e < count; e++) {
                bool down = draw > 0 && op_next_unit(&signs) < 0.5;
                in[i][e] = c->value[i][e] * (1 + (down ? -h : h));
            }
            compute(c, in, out);
            for (int o = 0; o < n_out; o++)
                for (int64_t e = 0; e < sg_desc_count(&c->desc[n_in + o]); e++)
                    if (isfinite(base[o][e])) most[o] = fmax(most[o], fabs(out[o][e] - base[o][e]) / h);
        }
        free(in[i]);
        in[i] = c->value[i];
        for (int o = 0; o < n_out; o++) moved[o] += most[o];
    }
    for (int o = 0; o < n_out; o++) {
        moved[o] += most_cancelling(c);
        for (int64_t e = 0; e < sg_desc_count(&c->desc[n_in + o]) && n_in == 0; e++)
            moved[o] = fmax(moved[o], fabs(base[o][e])); /* nothing to move: the size of the result */
        free(base[o]);
        free(out[o]);
    }
}

static bool within(double got, double want, double bound) {
    if (isnan(want)) return isnan(got);
    if (isinf(want) || isinf(got)) return got == want;
    return fabs(got - want) <= bound;
}

bool op_case_compare(op_case *c, double *const *got, double *const *want) {
    double moved[OP_CASE_TENSORS] = {0};
    bool exact = is_exact(&c->op);
    if (!exact) movements(c, moved);
    for (int o = 0; o < c->op.n_out; o++) {
        const sg_desc *d = &c->desc[c->op.n_in + o];
        double u = unit_roundoff((sg_dtype)d->dtype);
        bool whole = exact || u == 0;
        double inner = 4 * inner_roundoff(&c->op) * sqrt(terms_of(&c->op, o)) * moved[o];
        for (int64_t e = 0; e < sg_desc_count(d); e++) {
            double bound = whole ? 0 : inner + 2 * u * fabs(want[o][e]) + 0x1p-126;
            if (within(got[o][e], want[o][e], bound)) continue;
            print_error("%s: output %d, element %lld: %.9g instead of %.9g, allowed %.3g\n", c->label, o, (long long)e,
                        got[o][e], want[o][e], bound);
            return false;
        }
    }
    return true;
}
