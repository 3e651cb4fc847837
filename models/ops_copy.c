/* ops_copy.c: copies, joins and sources. */
#include "models/graph_state.h"
#include "models/ops.h"

static sg_tid copy_to(sg_graph *g, sg_tid x, const sg_desc *out_desc) {
    sg_tid out;
    sg_attrs attrs = {0};
    sg_emit(g, SG_OP_COPY, &attrs, &x, 1, out_desc, &out, 1);
    return out;
}

sg_tid sg_contiguous(sg_graph *g, sg_tid x) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    const sg_desc *from = sg_graph_desc(g, x);
    if (sg_desc_is_contiguous(from)) return x;
    sg_desc out = sg_desc_make((sg_dtype)from->dtype, from->ndim, from->size);
    return copy_to(g, x, &out);
}

/* Of the same layout when dense ("preserve_format"), else in the order of the operand's strides. */
static sg_desc like(const sg_desc *x, sg_dtype dtype) {
    sg_desc out = *x;
    sg_desc_like_operands(&out, x, 1);
    out.dtype = dtype;
    return out;
}

sg_tid sg_clone(sg_graph *g, sg_tid x) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_desc out = like(sg_graph_desc(g, x), sg_graph_dtype(g, x));
    return copy_to(g, x, &out);
}

sg_tid sg_to(sg_graph *g, sg_tid x, sg_dtype dtype) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    if (sg_graph_dtype(g, x) == dtype) return x;
    sg_desc out = like(sg_graph_desc(g, x), dtype);
    return copy_to(g, x, &out);
}

sg_tid sg_copy_slice(sg_graph *g, sg_tid base, int dim, int64_t start, sg_tid source) {
    if (!sg_graph_has(g, base) || !sg_graph_has(g, source)) return SG_NO_TENSOR;
    const sg_desc whole = *sg_graph_desc(g, base), *part = sg_graph_desc(g, source);
    int at = sg_graph_dim(g, whole.ndim, dim, "copy into a slice");
    if (at < 0) return SG_NO_TENSOR;
    if (part->ndim != whole.ndim) {
        sg_graph_fail(g, SG_BAD_INPUT, "copy into a slice: the source has another number of dims");
        return SG_NO_TENSOR;
    }
    g->no_grad++; /* one node stands for the view, the copy and the new value */
    sg_tid slice = sg_slice(g, base, at, start, part->size[at]);
    sg_attrs attrs = {0};
    sg_emit_into(g, SG_OP_COPY, &attrs, &source, 1, &slice, 1);
    sg_tid out = sg_graph_detach(g, base);
    g->no_grad--;
    sg_graph_node(g, SG_RULE_COPY_SLICE, (const sg_tid[]){base, source}, 2, out, at, start);
    return out;
}

/* ---- joins ----------------------------------------------------------------------------------------------------- */

/* Brings all to the widest dtype, as cat does (each conversion is a kernel). out has room for n. */
static bool to_widest(sg_graph *g, int n, const sg_tid *x, sg_tid *out) {
    for (int i = 0; i < n; i++)
        if (!sg_graph_has(g, x[i])) return false;
    sg_desc widest = *sg_graph_desc(g, x[0]);
    for (int i = 1; i < n; i++) widest.dtype = sg_dtype_promote(&widest, sg_graph_desc(g, x[i]));
    for (int i = 0; i < n; i++) out[i] = sg_to(g, x[i], (sg_dtype)widest.dtype);
    return !g->failed;
}

static bool joined_desc(sg_graph *g, int n, const sg_desc *in, int dim, sg_desc *out) {
    *out = in[0];
    out->size[dim] = 0;
    for (int i = 0; i < n; i++) {
        bool fits = in[i].ndim == out->ndim;
        for (int d = 0; d < out->ndim && fits; d++) fits = d == dim || in[i].size[d] == out->size[d];
        if (!fits || __builtin_add_overflow(out->size[dim], in[i].size[dim], &out->size[dim])) {
            sg_graph_fail(g, SG_BAD_INPUT, "cat: tensor %d does not fit the first one", i);
            return false;
        }
    }
    bool channels_last = true;
    for (int i = 0; i < n; i++)
        channels_last = channels_last && sg_desc_is_channels_last(&in[i]) && !sg_desc_is_contiguous(&in[i]);
    *out = channels_last
               ? sg_desc_channels_last((sg_dtype)out->dtype, out->size[0], out->size[1], out->size[2], out->size[3])
               : sg_desc_make((sg_dtype)out->dtype, out->ndim, out->size);
    return true;
}

static sg_tid join(sg_graph *g, int n, const sg_tid *x, const sg_desc *in, int dim, sg_rule rule) {
    sg_desc out;
    sg_tid y = SG_NO_TENSOR;
    if (!joined_desc(g, n, in, dim, &out)) return SG_NO_TENSOR;
    sg_attrs attrs = {.dim = dim};
    sg_record record = {.kind = SG_OP_CAT,
                        .attrs = &attrs,
                        .n_in = n,
                        .n_out = 1,
                        .in = x,
                        .in_desc = in,
                        .out_desc = &out,
                        .rule = rule,
                        .number = {dim, 0}};
    (void)sg_graph_record(g, &record, &y);
    return y;
}

static bool check_count(sg_graph *g, const char *call, int n) {
    if (n >= 1 && n <= INT32_MAX / 4) return !g->failed;
    sg_graph_fail(g, SG_BAD_INPUT, "%s: nothing to join", call);
    return false;
}

/* Room for n ids and n descriptors that live until the op is recorded. */
static bool room(sg_graph *g, int n, sg_tid **ids, sg_desc **desc) {
    *ids = sg_arena_alloc(g->arena, (size_t)n * sizeof **ids);
    *desc = sg_arena_alloc(g->arena, (size_t)n * sizeof **desc);
    if (*ids && *desc) return true;
    sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %d tensors", n);
    return false;
}

sg_tid sg_cat(sg_graph *g, int n, const sg_tid *x, int dim) {
    sg_tid *ids;
    sg_desc *desc;
    if (!check_count(g, "cat", n) || !room(g, n, &ids, &desc) || !to_widest(g, n, x, ids)) return SG_NO_TENSOR;
    for (int i = 0; i < n; i++) desc[i] = *sg_graph_desc(g, ids[i]);
    int at = sg_graph_dim(g, desc[0].ndim, dim, "cat");
    return at < 0 ? SG_NO_TENSOR : join(g, n, ids, desc, at, SG_RULE_OP);
}

sg_tid sg_stack(sg_graph *g, int n, const sg_tid *x, int dim) {
    sg_tid *ids;
    sg_desc *desc;
    if (!check_count(g, "stack", n) || !room(g, n, &ids, &desc) || !to_widest(g, n, x, ids)) return SG_NO_TENSOR;
    int ndim = sg_graph_desc(g, ids[0])->ndim + 1;
    int at = sg_graph_dim(g, ndim, dim, "stack");
    if (at < 0) return SG_NO_TENSOR;
    if (ndim > SG_MAX_DIMS) {
        sg_graph_fail(g, SG_BAD_INPUT, "stack: the result would have %d dims; at most %d are possible", ndim,
                      SG_MAX_DIMS);
        return SG_NO_TENSOR;
    }
    for (int i = 0; i < n; i++) {
        const sg_desc *from = sg_graph_desc(g, ids[i]);
        desc[i] = (sg_desc){.dtype = from->dtype, .ndim = from->ndim + 1};
        for (int d = 0; d < desc[i].ndim; d++) {
            int source = d < at ? d : d - 1;
            desc[i].size[d] = d == at ? 1 : from->size[source];
            desc[i].stride[d] = d == at ? 1 : from->stride[source];
        }
    }
    return join(g, n, ids, desc, at, SG_RULE_STACK);
}

sg_tid sg_pad2d(sg_graph *g, sg_tid x, int64_t left, int64_t right, int64_t top, int64_t bottom, double value) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_desc in = *sg_graph_desc(g, x), out = in;
    const int64_t limit = INT32_MAX;
    if (in.ndim < 2 || left < 0 || right < 0 || top < 0 || bottom < 0 || left > limit || right > limit || top > limit ||
        bottom > limit) {
        sg_graph_fail(g, SG_BAD_INPUT, "pad: needs at least 2 dims and 0 to 2^31 elements on each side");
        return SG_NO_TENSOR;
    }
    out.size[in.ndim - 2] += top + bottom;
    out.size[in.ndim - 1] += left + right;
    sg_desc_like_operands(&out, &in, 1);
    sg_attrs attrs = {.alpha = value, .pad = {(int32_t)top, (int32_t)left}};
    sg_tid y;
    sg_emit(g, SG_OP_PAD, &attrs, &x, 1, &out, &y, 1);
    return y;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static sg_tid source(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, sg_dtype dtype, int ndim,
                     const int64_t *size) {
    if (ndim < 0 || ndim > SG_MAX_DIMS) {
        sg_graph_fail(g, SG_BAD_INPUT, "a tensor of %d dims; at most %d are possible", ndim, SG_MAX_DIMS);
        return SG_NO_TENSOR;
    }
    sg_desc out = sg_desc_make(dtype, ndim, size);
    sg_tid y;
    sg_emit(g, kind, attrs, NULL, 0, &out, &y, 1);
    return y;
}

sg_tid sg_empty(sg_graph *g, sg_dtype dtype, int ndim, const int64_t *size) {
    if (ndim < 0 || ndim > SG_MAX_DIMS) {
        sg_graph_fail(g, SG_BAD_INPUT, "a tensor of %d dims; at most %d are possible", ndim, SG_MAX_DIMS);
        return SG_NO_TENSOR;
    }
    sg_desc out = sg_desc_make(dtype, ndim, size);
    return sg_graph_empty(g, &out);
}

sg_tid sg_full(sg_graph *g, sg_dtype dtype, int ndim, const int64_t *size, double value) {
    sg_attrs attrs = {.alpha = value};
    return source(g, SG_OP_FILL, &attrs, dtype, ndim, size);
}

sg_tid sg_arange(sg_graph *g, sg_dtype dtype, double start, double step, int64_t n) {
    sg_attrs attrs = {.alpha = start, .beta = step};
    return source(g, SG_OP_IOTA, &attrs, dtype, 1, &n);
}

static sg_tid random(sg_graph *g, sg_fn fn, double alpha, double beta, sg_dtype dtype, int ndim, const int64_t *size,
                     int per_sample_dim) {
    sg_attrs attrs = {.fn = fn, .alpha = alpha, .beta = beta};
    if (per_sample_dim >= 0) {
        attrs.flags = SG_PER_SAMPLE;
        attrs.dim = per_sample_dim;
        attrs.sample_group = 1;
    }
    return source(g, SG_OP_RANDOM, &attrs, dtype, ndim, size);
}

sg_tid sg_randn(sg_graph *g, sg_dtype dtype, int ndim, const int64_t *size, int per_sample_dim) {
    return random(g, SG_FN_NORMAL, 0, 1, dtype, ndim, size, per_sample_dim);
}

sg_tid sg_rand(sg_graph *g, sg_dtype dtype, int ndim, const int64_t *size, double low, double high,
               int per_sample_dim) {
    return random(g, SG_FN_UNIFORM, low, high, dtype, ndim, size, per_sample_dim);
}

sg_tid sg_randint(sg_graph *g, int64_t low, int64_t high, int ndim, const int64_t *size, int per_sample_dim) {
    return random(g, SG_FN_INTEGER, (double)low, (double)high, SG_I64, ndim, size, per_sample_dim);
}

sg_tid sg_randperm(sg_graph *g, int64_t n) {
    return random(g, SG_FN_PERMUTATION, 0, 0, SG_I64, 1, &n, -1);
}
