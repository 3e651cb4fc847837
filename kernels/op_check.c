#include "kernels/op.h"

#include <string.h>

/* Every function returns NULL when sound, else the sentence. */
#define CHECK(condition, text)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) return text;                                                                                 \
    } while (0)
#define PASS(call)                                                                                                     \
    do {                                                                                                               \
        const char *text_ = (call);                                                                                    \
        if (text_) return text_;                                                                                       \
    } while (0)

static bool has(const sg_op *op, uint32_t flag) {
    return (op->attrs.flags & flag) != 0;
}
static const sg_desc *in(const sg_op *op, int i) {
    return &op->desc[i];
}
static const sg_desc *out(const sg_op *op, int i) {
    return &op->desc[op->n_in + i];
}
static bool is_float(const sg_desc *d) {
    return sg_dtype_is_float((sg_dtype)d->dtype);
}
static bool is_index(const sg_desc *d) {
    return d->dtype == SG_I64 || d->dtype == SG_I32;
}
/* What is kept of x at full precision: fp32, or fp64 where x is. */
static bool is_statistic_of(const sg_desc *d, const sg_desc *x) {
    return d->dtype == (x->dtype == SG_F64 ? SG_F64 : SG_F32);
}
static bool is_vector(const sg_desc *d, int64_t n) {
    return d->ndim == 1 && d->size[0] == n;
}

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

static const char *check_desc(const sg_desc *desc) {
    CHECK(desc->dtype >= 0 && desc->dtype < SG_DTYPE_COUNT, "a tensor has an unknown dtype");
    CHECK(desc->ndim >= 0 && desc->ndim <= SG_MAX_DIMS, "a tensor has more than 6 dims");
    int64_t count = 1;
    for (int d = 0; d < SG_MAX_DIMS; d++) {
        if (d >= desc->ndim) {
            CHECK(desc->size[d] == 0 && desc->stride[d] == 0, "a tensor's unused dims are not zero");
            continue;
        }
        CHECK(desc->size[d] >= 1, "a tensor has an empty dim");
        CHECK(desc->stride[d] >= 0, "a tensor has a negative stride");
        CHECK(!__builtin_mul_overflow(count, desc->size[d], &count), "a tensor's number of elements overflows");
    }
    CHECK(count <= INT64_MAX / 8 && sg_desc_span_bytes(desc) <= INT64_MAX, "a tensor's number of bytes overflows");
    return NULL;
}

static const char *check_descs(const sg_op *op) {
    for (int i = 0; i < op->n_in + op->n_out; i++) PASS(check_desc(&op->desc[i]));
    for (int i = 0; i < op->n_out; i++)
        CHECK(sg_desc_distinct(out(op, i)) == sg_desc_count(out(op, i)), "an output repeats elements (stride 0)");
    return NULL;
}

static const char *check_in_place(const sg_op *op) {
    if (!has(op, SG_IN_PLACE)) return NULL;
    switch ((sg_op_kind)op->kind) {
    case SG_OP_ADAMW:
    case SG_OP_FOREACH:
    case SG_OP_AMP_UNSCALE:
    case SG_OP_AMP_UPDATE: /* the lists' own checks compare the descriptors */ return NULL;
    case SG_OP_UNARY:
    case SG_OP_UNARY_BWD:
    case SG_OP_BINARY:
    case SG_OP_TERNARY:
    case SG_OP_DROPOUT:
    case SG_OP_DROPOUT_BWD:
    case SG_OP_SOFTMAX:
    case SG_OP_SOFTMAX_BWD: break;
    default: return "this kind cannot be in place";
    }
    CHECK(memcmp(in(op, 0), out(op, 0), sizeof(sg_desc)) == 0, "in place, but output 0 differs from input 0");
    return NULL;
}

static const char *check_arity(const sg_op *op, int n_in, int n_out) {
    CHECK(op->n_in == n_in, "wrong number of inputs");
    CHECK(op->n_out == n_out, "wrong number of outputs");
    return NULL;
}

static const char *check_all_same_shape(const sg_op *op) {
    for (int i = 1; i < op->n_in + op->n_out; i++)
        CHECK(sg_desc_same_shape(&op->desc[0], &op->desc[i]), "shapes differ (broadcast inputs by stride 0)");
    return NULL;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static bool is_activation(int fn) {
    return fn == SG_FN_NONE || fn == SG_FN_RELU || fn == SG_FN_GELU_TANH || fn == SG_FN_GELU_ERF || fn == SG_FN_SILU ||
           fn == SG_FN_TANH || fn == SG_FN_SIGMOID || fn == SG_FN_ELU;
}

static const char *check_product_attrs(const sg_op *op) {
    CHECK(op->attrs.compute >= 0 && op->attrs.compute < SG_COMPUTE_COUNT, "unknown compute mode");
    CHECK(is_activation(op->attrs.act), "act is not an activation that can be fused");
    for (int i = 0; i < op->n_in + op->n_out; i++) CHECK(is_float(&op->desc[i]), "operands must be floating point");
    CHECK(in(op, 0)->dtype == in(op, 1)->dtype, "the two factors differ in dtype");
    return NULL;
}

static const char *check_matmul(const sg_op *op) {
    bool bias = has(op, SG_HAS_BIAS), residual = has(op, SG_HAS_RESIDUAL);
    PASS(check_arity(op, 2 + bias + residual, 1));
    PASS(check_product_attrs(op));
    const sg_desc *a = in(op, 0), *b = in(op, 1), *c = out(op, 0);
    int n = a->ndim;
    CHECK(n >= 2 && n <= 4 && b->ndim == n && c->ndim == n, "a, b and c must all have 2, 3 or 4 dims");
    for (int d = 0; d < n - 2; d++)
        CHECK(a->size[d] == b->size[d] && a->size[d] == c->size[d], "batch dims of a, b and c differ");
    CHECK(a->size[n - 1] == b->size[n - 2], "a's columns differ from b's rows");
    CHECK(c->size[n - 2] == a->size[n - 2] && c->size[n - 1] == b->size[n - 1], "c is not rows of a by columns of b");
    if (bias) CHECK(is_vector(in(op, 2), c->size[n - 1]), "bias is not a vector of c's columns");
    if (residual) CHECK(sg_desc_same_shape(in(op, 2 + bias), c), "residual is not shaped like c");
    return NULL;
}

static const char *check_window(const sg_op *op, const sg_desc *x, const sg_desc *y) {
    CHECK(x->ndim == 4 && y->ndim == 4, "images must have 4 dims (n, c, h, w)");
    for (int i = 0; i < 2; i++) {
        int64_t kernel = op->attrs.kernel[i], stride = op->attrs.stride[i], pad = op->attrs.pad[i];
        CHECK(kernel >= 1 && stride >= 1 && pad >= 0, "kernel and stride must be at least 1, pad at least 0");
        int64_t padded = x->size[2 + i] + 2 * pad;
        CHECK(padded >= kernel, "the window is larger than the padded image");
        CHECK(y->size[2 + i] == (padded - kernel) / stride + 1,
              "output size does not follow from kernel, stride and pad");
    }
    CHECK(x->size[0] == y->size[0], "images in and out differ in number");
    return NULL;
}

/* x, w, y of a convolution, whichever of them is the output. */
static const char *check_conv_shapes(const sg_op *op, const sg_desc *x, const sg_desc *w, const sg_desc *y) {
    PASS(check_window(op, x, y));
    CHECK(w->ndim == 4 && w->size[2] == op->attrs.kernel[0] && w->size[3] == op->attrs.kernel[1],
          "weights are not [o, c, kernel h, kernel w]");
    CHECK(w->size[0] == y->size[1] && w->size[1] == x->size[1], "weights do not fit the channels of x and y");
    return NULL;
}

static const char *check_conv(const sg_op *op) {
    bool bias = has(op, SG_HAS_BIAS), residual = has(op, SG_HAS_RESIDUAL);
    PASS(check_arity(op, 2 + bias + residual, 1));
    PASS(check_product_attrs(op));
    PASS(check_conv_shapes(op, in(op, 0), in(op, 1), out(op, 0)));
    if (bias) CHECK(is_vector(in(op, 2), out(op, 0)->size[1]), "bias is not a vector of output channels");
    if (residual) CHECK(sg_desc_same_shape(in(op, 2 + bias), out(op, 0)), "residual is not shaped like y");
    return NULL;
}

static const char *check_conv_backward(const sg_op *op) {
    bool weights = op->kind == SG_OP_CONV_BWD_WEIGHTS, bias = has(op, SG_HAS_BIAS);
    CHECK(op->attrs.act == SG_FN_NONE && !has(op, SG_HAS_RESIDUAL),
          "a backward convolution has no act and no residual");
    CHECK(weights || !bias, "only the weights' backward has a bias");
    PASS(check_arity(op, 2, 1 + bias));
    PASS(check_product_attrs(op));
    if (!weights) return check_conv_shapes(op, out(op, 0), in(op, 1), in(op, 0));
    PASS(check_conv_shapes(op, in(op, 1), out(op, 0), in(op, 0)));
    if (bias) CHECK(is_vector(out(op, 1), in(op, 0)->size[1]), "db is not a vector of output channels");
    return NULL;
}

static const char *check_attention(const sg_op *op) {
    bool backward = op->kind == SG_OP_ATTENTION_BWD, mask = has(op, SG_HAS_MASK);
    PASS(check_arity(op, (backward ? 6 : 3) + mask, backward ? 3 : 2));
    const sg_desc *q = in(op, backward), *k = in(op, backward + 1), *v = in(op, backward + 2);
    CHECK(q->ndim == 4 && k->ndim == 4 && is_float(q), "q, k and v must be floating point with 4 dims");
    CHECK(k->dtype == q->dtype && v->dtype == q->dtype, "q, k and v differ in dtype");
    CHECK(sg_desc_same_shape(k, v), "k and v differ in shape");
    CHECK(q->size[0] == k->size[0] && q->size[1] == k->size[1] && q->size[3] == k->size[3],
          "q and k differ in batch, heads or width");
    const sg_desc *o = backward ? in(op, 4) : out(op, 0), *lse = backward ? in(op, 5) : out(op, 1);
    CHECK(sg_desc_same_shape(o, q) && is_float(o), "o is not shaped like q");
    CHECK(lse->ndim == 3 && memcmp(lse->size, q->size, 3 * sizeof(int64_t)) == 0 && is_statistic_of(lse, q),
          "lse is not fp32 [b, h, t] (fp64 of fp64)");
    if (mask) {
        const sg_desc *m = in(op, backward ? 6 : 3);
        const int64_t want[4] = {q->size[0], q->size[1], q->size[2], k->size[2]};
        CHECK(m->ndim <= 4 && (is_float(m) || m->dtype == SG_BOOL),
              "mask must be bool or floating point, up to 4 dims");
        for (int d = 0; d < m->ndim; d++)
            CHECK(m->size[d] == 1 || m->size[d] == want[4 - m->ndim + d], "mask does not broadcast to [b, h, t, s]");
    }
    if (!backward) return NULL;
    CHECK(sg_desc_same_shape(in(op, 0), q) && is_float(in(op, 0)), "do is not shaped like q");
    CHECK(sg_desc_same_shape(out(op, 0), q) && sg_desc_same_shape(out(op, 1), k) && sg_desc_same_shape(out(op, 2), k),
          "dq, dk, dv are not shaped like q, k, v");
    for (int i = 0; i < 3; i++) CHECK(is_float(out(op, i)), "gradients must be floating point");
    return NULL;
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

static const char *check_pool(const sg_op *op) {
    bool backward = op->kind == SG_OP_MAXPOOL_BWD;
    PASS(backward ? check_arity(op, 2, 1) : check_arity(op, 1, 2));
    const sg_desc *x = backward ? out(op, 0) : in(op, 0), *y = backward ? in(op, 0) : out(op, 0);
    const sg_desc *index = backward ? in(op, 1) : out(op, 1);
    PASS(check_window(op, x, y));
    CHECK(x->size[1] == y->size[1], "channels differ");
    CHECK(is_float(x) && x->dtype == y->dtype, "x and y must have one floating-point dtype");
    CHECK(sg_desc_same_shape(index, y), "idx is not shaped like y");
    CHECK(index->dtype == SG_I64 || index->dtype == SG_U8, "idx must be i64 or u8");
    CHECK(op->attrs.pad[0] * 2 <= op->attrs.kernel[0] && op->attrs.pad[1] * 2 <= op->attrs.kernel[1],
          "pad is more than half of the kernel");
    if (index->dtype == SG_U8)
        CHECK((int64_t)op->attrs.kernel[0] * op->attrs.kernel[1] <= 256, "a window of more than 256 needs an i64 idx");
    return NULL;
}

static const char *check_resize(const sg_op *op) {
    PASS(check_arity(op, 1, 1));
    const sg_desc *x = in(op, 0), *y = out(op, 0);
    CHECK(x->ndim == 4 && y->ndim == 4, "images must have 4 dims (n, c, h, w)");
    CHECK(x->size[0] == y->size[0] && x->size[1] == y->size[1], "images in and out differ in number or channels");
    CHECK(is_float(x) && x->dtype == y->dtype, "x and y must have one floating-point dtype");
    return NULL;
}

static const char *check_pad(const sg_op *op) {
    PASS(check_arity(op, 1, 1));
    const sg_desc *x = in(op, 0), *y = out(op, 0);
    CHECK(x->ndim == y->ndim && x->ndim >= 2, "x and y must have the same number of dims, at least 2");
    CHECK(x->dtype == y->dtype, "x and y differ in dtype");
    for (int d = 0; d < x->ndim; d++) {
        int i = d - (x->ndim - 2);
        if (i < 0)
            CHECK(x->size[d] == y->size[d], "dims before the last two differ");
        else
            CHECK(op->attrs.pad[i] >= 0 && y->size[d] - x->size[d] >= op->attrs.pad[i], "y is smaller than pad and x");
    }
    return NULL;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static const char *check_softmax(const sg_op *op) {
    PASS(check_arity(op, op->kind == SG_OP_SOFTMAX ? 1 : 2, 1));
    PASS(check_all_same_shape(op));
    CHECK(in(op, 0)->ndim >= 1, "a scalar has no last dim");
    for (int i = 0; i < op->n_in + op->n_out; i++) CHECK(is_float(&op->desc[i]), "operands must be floating point");
    return NULL;
}

/* mean and rstd: one fp32 value per row (fp64 of fp64), in row order. */
static const char *check_row_statistic(const sg_desc *s, const sg_desc *x) {
    CHECK(is_statistic_of(s, x) && sg_desc_is_contiguous(s), "mean and rstd must be contiguous fp32 (fp64 of fp64)");
    CHECK(sg_desc_count(s) == sg_desc_count(x) / x->size[x->ndim - 1], "mean and rstd must have one value per row");
    return NULL;
}

static const char *check_norm(const sg_op *op) {
    bool layer = op->kind == SG_OP_LAYER_NORM || op->kind == SG_OP_LAYER_NORM_BWD;
    bool backward = op->kind == SG_OP_LAYER_NORM_BWD || op->kind == SG_OP_RMS_NORM_BWD;
    bool dx = backward && !has(op, SG_NO_DX), dw = backward && !has(op, SG_NO_DW);
    CHECK(!backward || dx || dw, "neither dx nor dw is wanted");
    PASS(backward ? check_arity(op, layer ? 5 : 4, dx + (dw ? 1 + layer : 0))
                  : check_arity(op, layer ? 3 : 2, layer ? 3 : 2));
    const sg_desc *x = in(op, backward);
    CHECK(x->ndim >= 1, "a scalar has no last dim");
    int64_t d = x->size[x->ndim - 1];
    for (int i = 0; i < op->n_in + op->n_out; i++) CHECK(is_float(&op->desc[i]), "operands must be floating point");
    CHECK(sg_desc_same_shape(x, backward ? in(op, 0) : out(op, 0)), "x and its counterpart differ in shape");
    for (int i = 0; i < 1 + layer; i++) PASS(check_row_statistic(backward ? in(op, 2 + i) : out(op, 1 + i), x));
    CHECK(is_vector(in(op, !backward ? 1 : layer ? 4 : 3), d), "w is not a vector of the last dim");
    if (layer && !backward) CHECK(is_vector(in(op, 2), d), "b is not a vector of the last dim");
    if (dx) CHECK(sg_desc_same_shape(out(op, 0), x), "dx is not shaped like x");
    for (int i = dx; i < op->n_out && backward; i++)
        CHECK(is_vector(out(op, i), d), "dw and db are not vectors of the last dim");
    return NULL;
}

/* mean and rstd: [n, groups], or [c] without groups. */
static const char *check_channel_statistic(const sg_op *op, const sg_desc *s, const sg_desc *x) {
    int64_t groups = op->attrs.count;
    CHECK(is_statistic_of(s, x) && sg_desc_is_contiguous(s), "mean and rstd must be contiguous fp32 (fp64 of fp64)");
    CHECK(groups ? s->ndim == 2 && s->size[0] == x->size[0] && s->size[1] == groups : is_vector(s, x->size[1]),
          "mean and rstd must be [n, groups], or [c] without groups");
    return NULL;
}

static const char *check_channel_norm(const sg_op *op) {
    bool backward = op->kind == SG_OP_CHANNEL_NORM_BWD;
    bool dx = backward && !has(op, SG_NO_DX), dw = backward && !has(op, SG_NO_DW);
    CHECK(!backward || dx || dw, "neither dx nor dw is wanted");
    PASS(backward ? check_arity(op, 5, dx + 2 * dw) : check_arity(op, 3, 3));
    const sg_desc *x = in(op, backward);
    CHECK(x->ndim >= 2, "x must have at least 2 dims (n, c)");
    int64_t channels = x->size[1];
    CHECK(op->attrs.count >= 0 && (op->attrs.count == 0 || channels % op->attrs.count == 0),
          "the channels are no multiple of the groups (count)");
    for (int i = 0; i < op->n_in + op->n_out; i++) CHECK(is_float(&op->desc[i]), "operands must be floating point");
    CHECK(sg_desc_same_shape(x, backward ? in(op, 0) : out(op, 0)), "x and its counterpart differ in shape");
    for (int i = 0; i < 2; i++) PASS(check_channel_statistic(op, backward ? in(op, 2 + i) : out(op, 1 + i), x));
    CHECK(is_vector(in(op, backward ? 4 : 1), channels), "w is not a vector of channels");
    if (!backward) CHECK(is_vector(in(op, 2), channels), "b is not a vector of channels");
    if (dx) CHECK(sg_desc_same_shape(out(op, 0), x), "dx is not shaped like x");
    for (int i = dx; i < op->n_out && backward; i++)
        CHECK(is_vector(out(op, i), channels), "dw and db are not vectors of channels");
    return NULL;
}

/* ---- element-wise ------------------------------------------------------------------------------------------------ */

static bool has_derivative(int fn) {
    return sg_fn_arity((sg_fn)fn) == 1 && fn != SG_FN_NOT && fn != SG_FN_SIGN && fn != SG_FN_FLOOR;
}

static const char *check_elementwise(const sg_op *op) {
    int arity = op->kind == SG_OP_UNARY ? 1 : op->kind == SG_OP_TERNARY ? 3 : 2;
    PASS(check_arity(op, arity, 1));
    PASS(check_all_same_shape(op));
    if (op->kind == SG_OP_UNARY_BWD) {
        CHECK(has_derivative(op->attrs.fn), "fn has no derivative");
        for (int i = 0; i < 3; i++) CHECK(is_float(&op->desc[i]), "operands must be floating point");
        return NULL;
    }
    CHECK(sg_fn_arity((sg_fn)op->attrs.fn) == arity, "fn takes another number of operands");
    return NULL;
}

static const char *check_copy(const sg_op *op) {
    PASS(check_arity(op, 1, 1));
    return check_all_same_shape(op);
}

static const char *check_cumsum(const sg_op *op) {
    PASS(check_copy(op));
    CHECK(op->attrs.dim >= 0 && op->attrs.dim < in(op, 0)->ndim, "dim is out of range");
    return NULL;
}

static const char *check_source(const sg_op *op) {
    PASS(check_arity(op, 0, 1));
    CHECK(op->kind == SG_OP_FILL || out(op, 0)->ndim >= 1, "a scalar has no last dim");
    return NULL;
}

static const char *check_cat(const sg_op *op) {
    CHECK(op->n_in >= 1, "nothing to join");
    PASS(check_arity(op, op->n_in, 1));
    const sg_desc *y = out(op, 0);
    CHECK(op->attrs.dim >= 0 && op->attrs.dim < y->ndim, "dim is out of range");
    int64_t sum = 0;
    for (int i = 0; i < op->n_in; i++) {
        const sg_desc *x = in(op, i);
        CHECK(x->ndim == y->ndim && x->dtype == y->dtype, "inputs differ from the output in dims or dtype");
        for (int d = 0; d < y->ndim; d++)
            CHECK(d == op->attrs.dim || x->size[d] == y->size[d], "inputs differ outside the joined dim");
        CHECK(!__builtin_add_overflow(sum, x->size[op->attrs.dim], &sum), "the joined dim overflows");
    }
    CHECK(sum == y->size[op->attrs.dim], "the joined dim is not the sum of the inputs'");
    return NULL;
}

static const char *check_reduce(const sg_op *op) {
    PASS(check_arity(op, 1, 1));
    const sg_desc *x = in(op, 0), *y = out(op, 0);
    int fn = op->attrs.fn;
    CHECK(fn == SG_FN_SUM || fn == SG_FN_MEAN || fn == SG_FN_MAX || fn == SG_FN_MIN || fn == SG_FN_ANY ||
              fn == SG_FN_STD,
          "fn is not a reduction");
    CHECK(y->ndim == x->ndim, "y must keep the reduced dims (size 1)");
    CHECK(op->attrs.dims_mask < (1u << x->ndim), "dims_mask names a dim that x has not");
    for (int d = 0; d < x->ndim; d++)
        CHECK(y->size[d] == (op->attrs.dims_mask & 1u << d ? 1 : x->size[d]), "y is not x with the reduced dims 1");
    CHECK((fn != SG_FN_MEAN && fn != SG_FN_STD) || is_float(y), "a mean must be floating point");
    return NULL;
}

/* ---- rows by index, random --------------------------------------------------------------------------------------- */

static const char *check_embedding(const sg_op *op) {
    bool backward = op->kind == SG_OP_EMBEDDING_BWD;
    PASS(check_arity(op, 2, 1));
    const sg_desc *table = backward ? out(op, 0) : in(op, 0), *index = in(op, 1),
                  *y = backward ? in(op, 0) : out(op, 0);
    CHECK(table->ndim == 2, "the table must have 2 dims");
    CHECK(is_index(index), "idx must be i64 or i32");
    CHECK(y->ndim == index->ndim + 1 && y->size[y->ndim - 1] == table->size[1], "y is not idx by the table's columns");
    for (int d = 0; d < index->ndim; d++) CHECK(y->size[d] == index->size[d], "y is not idx by the table's columns");
    CHECK(backward ? is_float(table) && is_float(y) : table->dtype == y->dtype, "table and y do not fit in dtype");
    return NULL;
}

static const char *check_per_sample(const sg_op *op, const sg_desc *y) {
    if (!has(op, SG_PER_SAMPLE)) return NULL;
    CHECK(op->attrs.dim >= 0 && op->attrs.dim < y->ndim, "the batch dim is out of range");
    CHECK(op->attrs.sample_group >= 1 && y->size[op->attrs.dim] % op->attrs.sample_group == 0,
          "the batch dim is not a whole number of samples");
    return NULL;
}

static const char *check_dropout(const sg_op *op) {
    bool backward = op->kind == SG_OP_DROPOUT_BWD;
    PASS(backward ? check_arity(op, 2, 1) : check_arity(op, 1, 2));
    PASS(check_all_same_shape(op));
    CHECK(is_float(in(op, 0)) && is_float(out(op, 0)), "operands must be floating point");
    CHECK((backward ? in(op, 1) : out(op, 1))->dtype == SG_BOOL, "mask must be bool");
    CHECK(op->attrs.alpha >= 0 && op->attrs.alpha <= 1, "the drop probability (alpha) is not in [0, 1]");
    return check_per_sample(op, in(op, 0));
}

static const char *check_random(const sg_op *op) {
    PASS(check_arity(op, 0, 1));
    const sg_desc *y = out(op, 0);
    double low = op->attrs.alpha, high = op->attrs.beta;
    switch ((sg_fn)op->attrs.fn) {
    case SG_FN_UNIFORM:
    case SG_FN_NORMAL: CHECK(is_float(y), "y must be floating point"); break;
    case SG_FN_INTEGER:
        CHECK(low >= -9007199254740992.0 && low < high && high - low <= 4294967296.0,
              "an integer range needs alpha < beta <= alpha + 2^32");
        CHECK(y->dtype != SG_BOOL || (low >= 0 && high <= 2), "a bool's range is 0 to 2");
        CHECK(y->dtype != SG_U8 || (low >= 0 && high <= 256), "a u8's range is 0 to 256");
        break;
    case SG_FN_PERMUTATION:
        CHECK(y->ndim == 1 && y->dtype == SG_I64 && sg_desc_is_contiguous(y),
              "a permutation is a contiguous i64 vector");
        CHECK(y->size[0] <= (int64_t)1 << 31, "a permutation has at most 2^31 elements");
        CHECK(!has(op, SG_PER_SAMPLE), "a permutation has no batch dim");
        break;
    case SG_FN_BERNOULLI: CHECK(low >= 0 && low <= 1, "the probability (alpha) is not in [0, 1]"); break;
    default: return "fn is not a random kind";
    }
    return check_per_sample(op, y);
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static const char *check_norm_all(const sg_op *op) {
    CHECK(op->attrs.count >= 1 && op->n_in == op->attrs.count && op->n_out == 1, "count is not the number of inputs");
    for (int i = 0; i < op->n_in; i++) CHECK(is_float(in(op, i)), "operands must be floating point");
    CHECK(is_vector(out(op, 0), op->n_in) && is_statistic_of(out(op, 0), in(op, 0)),
          "y is not an fp32 vector (fp64 of fp64) of count values");
    return NULL;
}

static const char *check_foreach(const sg_op *op) {
    int64_t arity = sg_fn_arity((sg_fn)op->attrs.fn), count = op->attrs.count;
    bool scalar = has(op, SG_SCALAR_TENSOR);
    CHECK(arity >= 1, "fn is not element-wise");
    CHECK(count >= 1 && op->n_in == arity * count + scalar && op->n_out == count, "lists are not `count` tensors long");
    for (int i = 0; i < count; i++) {
        for (int list = 1; list < arity; list++)
            CHECK(sg_desc_same_shape(in(op, i), in(op, list * (int)count + i)), "tensors of a tuple differ in shape");
        CHECK(sg_desc_same_shape(in(op, i), out(op, i)), "tensors of a tuple differ in shape");
        CHECK(!has(op, SG_IN_PLACE) || memcmp(in(op, i), out(op, i), sizeof(sg_desc)) == 0,
              "in place, but an output differs from its input");
    }
    if (scalar) {
        const sg_desc *s = in(op, op->n_in - 1);
        CHECK(sg_desc_count(s) == 1 && is_float(s), "the scalar must be one floating-point element");
        CHECK(!has(op, SG_STEP_SIZE) && !has(op, SG_STEP_SQRT), "alpha cannot come from a tensor and from the step");
    }
    return NULL;
}

static const char *check_adamw(const sg_op *op) {
    int64_t count = op->attrs.count;
    CHECK(count >= 1 && op->n_in == 4 * count && op->n_out == 3 * count, "lists are not `count` tensors long");
    for (int i = 0; i < count; i++) {
        const sg_desc *p = in(op, i);
        for (int list = 0; list < 4; list++) {
            const sg_desc *t = in(op, list * (int)count + i);
            CHECK(sg_desc_same_shape(t, p) && is_float(t), "p, g, m and v must be floating point of one shape");
            CHECK(sg_desc_distinct(t) == sg_desc_count(t), "p, g, m and v must not repeat elements");
        }
        for (int list = 0; list < 3; list++)
            CHECK(memcmp(in(op, (list == 0 ? 0 : list + 1) * (int)count + i), out(op, list * (int)count + i),
                         sizeof(sg_desc)) == 0,
                  "outputs are not p, m, v in place");
    }
    return NULL;
}

static bool is_one(const sg_desc *d, sg_dtype dtype) {
    return sg_desc_count(d) == 1 && d->dtype == (int32_t)dtype;
}

static const char *check_outputs_are_inputs(const sg_op *op) {
    CHECK(has(op, SG_IN_PLACE), "this kind is always in place");
    for (int i = 0; i < op->n_out; i++)
        CHECK(memcmp(in(op, i), out(op, i), sizeof(sg_desc)) == 0, "in place, but an output differs from its input");
    return NULL;
}

static const char *check_amp_unscale(const sg_op *op) {
    int64_t count = op->attrs.count;
    CHECK(count >= 1 && op->n_in == count + 2 && op->n_out == count + 1, "the list is not `count` tensors long");
    for (int i = 0; i < count; i++) {
        CHECK(is_float(in(op, i)), "operands must be floating point");
        CHECK(sg_desc_distinct(in(op, i)) == sg_desc_count(in(op, i)), "gradients must not repeat elements");
    }
    sg_dtype scalar = in(op, 0)->dtype == SG_F64 ? SG_F64 : SG_F32;
    CHECK(is_one(in(op, (int)count), scalar) && is_one(in(op, (int)count + 1), scalar),
          "found and inverse must be one fp32 element each (fp64 of fp64)");
    return check_outputs_are_inputs(op);
}

static const char *check_amp_update(const sg_op *op) {
    PASS(check_arity(op, 3, 2));
    sg_dtype scalar = in(op, 0)->dtype == SG_F64 ? SG_F64 : SG_F32;
    CHECK(is_one(in(op, 0), scalar) && is_one(in(op, 1), SG_I32) && is_one(in(op, 2), scalar),
          "scale, tracker and found must be one element each: fp32, i32, fp32 (fp64 beside fp64)");
    CHECK(op->attrs.count >= 1, "the steps until the scale grows (count) must be at least 1");
    return check_outputs_are_inputs(op);
}

static const char *check_step_flags(const sg_op *op) {
    if (!has(op, SG_STEP_SIZE | SG_STEP_SQRT)) return NULL;
    CHECK(!(has(op, SG_STEP_SIZE) && has(op, SG_STEP_SQRT)), "alpha cannot be both step size and its square root");
    CHECK(op->kind == SG_OP_UNARY || op->kind == SG_OP_BINARY || op->kind == SG_OP_TERNARY || op->kind == SG_OP_FOREACH,
          "only element-wise kinds take alpha from the step");
    return NULL;
}

/* ---- by kind ------------------------------------------------------------------------------------------------------ */

static const char *check_kind(const sg_op *op) {
    switch ((sg_op_kind)op->kind) {
    case SG_OP_MATMUL: return check_matmul(op);
    case SG_OP_CONV: return check_conv(op);
    case SG_OP_CONV_BWD_DATA:
    case SG_OP_CONV_BWD_WEIGHTS: return check_conv_backward(op);
    case SG_OP_MAXPOOL:
    case SG_OP_MAXPOOL_BWD: return check_pool(op);
    case SG_OP_RESIZE: return check_resize(op);
    case SG_OP_PAD: return check_pad(op);
    case SG_OP_SOFTMAX:
    case SG_OP_SOFTMAX_BWD: return check_softmax(op);
    case SG_OP_LAYER_NORM:
    case SG_OP_LAYER_NORM_BWD:
    case SG_OP_RMS_NORM:
    case SG_OP_RMS_NORM_BWD: return check_norm(op);
    case SG_OP_CHANNEL_NORM:
    case SG_OP_CHANNEL_NORM_BWD: return check_channel_norm(op);
    case SG_OP_ATTENTION:
    case SG_OP_ATTENTION_BWD: return check_attention(op);
    case SG_OP_UNARY:
    case SG_OP_UNARY_BWD:
    case SG_OP_BINARY:
    case SG_OP_TERNARY: return check_elementwise(op);
    case SG_OP_COPY: return check_copy(op);
    case SG_OP_FILL:
    case SG_OP_IOTA: return check_source(op);
    case SG_OP_CUMSUM: return check_cumsum(op);
    case SG_OP_CAT: return check_cat(op);
    case SG_OP_REDUCE: return check_reduce(op);
    case SG_OP_NORM_ALL: return check_norm_all(op);
    case SG_OP_EMBEDDING:
    case SG_OP_EMBEDDING_BWD: return check_embedding(op);
    case SG_OP_DROPOUT:
    case SG_OP_DROPOUT_BWD: return check_dropout(op);
    case SG_OP_RANDOM: return check_random(op);
    case SG_OP_FOREACH: return check_foreach(op);
    case SG_OP_ADAMW: return check_adamw(op);
    case SG_OP_AMP_UNSCALE: return check_amp_unscale(op);
    case SG_OP_AMP_UPDATE: return check_amp_update(op);
    case SG_OP_KIND_COUNT: break;
    }
    return "unknown kind";
}

const char *sg_op_check(const sg_op *op) {
    CHECK(op->kind >= 0 && op->kind < SG_OP_KIND_COUNT, "unknown kind");
    CHECK(op->n_in >= 0 && op->n_out >= 1 && op->n_in <= INT32_MAX - op->n_out, "wrong number of inputs or outputs");
    CHECK(op->desc != NULL, "no descriptors");
    CHECK(op->attrs.fn >= 0 && op->attrs.fn < SG_FN_COUNT, "unknown fn");
    PASS(check_descs(op));
    PASS(check_kind(op));
    PASS(check_step_flags(op));
    return check_in_place(op);
}
