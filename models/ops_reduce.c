/* ops_reduce.c: reductions and running sums. */
#include "models/graph_state.h"
#include "models/ops.h"

static sg_dtype reduced_dtype(const sg_graph *g, sg_fn fn, sg_dtype x) {
    if (fn == SG_FN_ANY) return SG_BOOL;
    if (sg_dtype_is_float(x)) return x;
    if (fn == SG_FN_MEAN || fn == SG_FN_STD) return sg_float(g);
    return fn == SG_FN_SUM ? SG_I64 : x;
}

sg_tid sg_reduce(sg_graph *g, sg_fn fn, sg_tid x, uint32_t dims_mask, bool keep_dims) {
    if (fn == SG_FN_SUM) x = sg_autocast_up(g, x);
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x);
    if (in.ndim < 32 && dims_mask >= 1u << in.ndim) {
        sg_graph_fail(g, SG_BAD_INPUT, "reduce: a dim is out of range of a tensor with %d dims", in.ndim);
        return SG_NO_TENSOR;
    }
    int64_t kept[SG_MAX_DIMS] = {0}, dropped[SG_MAX_DIMS] = {0};
    int n = 0;
    for (int d = 0; d < in.ndim; d++) {
        bool reduced = (dims_mask & 1u << d) != 0;
        kept[d] = reduced ? 1 : in.size[d];
        if (!reduced) dropped[n++] = in.size[d];
    }
    sg_dtype dtype = reduced_dtype(g, fn, (sg_dtype)in.dtype);
    sg_desc out = sg_desc_make(dtype, in.ndim, kept);
    sg_desc tensor = keep_dims ? out : sg_desc_make(dtype, n, dropped);
    sg_attrs attrs = {.fn = fn, .dims_mask = dims_mask};
    sg_record record = {.kind = SG_OP_REDUCE,
                        .attrs = &attrs,
                        .n_in = 1,
                        .n_out = 1,
                        .in = &x,
                        .out_desc = &out,
                        .out_tensor = &tensor,
                        .rule = SG_RULE_REDUCE,
                        .number = {keep_dims, 0}};
    sg_tid y = SG_NO_TENSOR;
    (void)sg_graph_record(g, &record, &y);
    return y;
}

static sg_tid reduce_all(sg_graph *g, sg_fn fn, sg_tid x) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    return sg_reduce(g, fn, x, (1u << sg_graph_desc(g, x)->ndim) - 1, false);
}

sg_tid sg_sum_all(sg_graph *g, sg_tid x) {
    return reduce_all(g, SG_FN_SUM, x);
}

sg_tid sg_mean_all(sg_graph *g, sg_tid x) {
    return reduce_all(g, SG_FN_MEAN, x);
}

sg_tid sg_cumsum(sg_graph *g, sg_tid x, int dim) {
    x = sg_autocast_up(g, x);
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x);
    int at = sg_graph_dim(g, in.ndim, dim, "cumsum");
    if (at < 0) return SG_NO_TENSOR;
    sg_desc out = in;
    sg_desc_like_operands(&out, &in, 1);
    out.dtype = reduced_dtype(g, SG_FN_SUM, (sg_dtype)in.dtype);
    sg_attrs attrs = {.dim = at};
    sg_tid y;
    sg_emit(g, SG_OP_CUMSUM, &attrs, &x, 1, &out, &y, 1);
    return y;
}
