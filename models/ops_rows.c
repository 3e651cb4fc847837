/* ops_rows.c: norms, softmax, attention, gathers, pooling and resizing. */
#include "models/graph_state.h"
#include "models/ops.h"

#include <math.h>
#include <string.h>

static sg_desc contiguous_like(const sg_desc *x) {
    return sg_desc_make((sg_dtype)x->dtype, x->ndim, x->size);
}

static bool has_last_dim(sg_graph *g, sg_tid x, const char *call) {
    if (!sg_graph_has(g, x)) return false;
    if (sg_graph_desc(g, x)->ndim >= 1) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "%s: a scalar has no last dim", call);
    return false;
}

sg_tid sg_softmax(sg_graph *g, sg_tid x) {
    x = sg_autocast_up(g, x);
    if (!has_last_dim(g, x, "softmax")) return SG_NO_TENSOR;
    sg_desc out = contiguous_like(sg_graph_desc(g, x));
    sg_attrs attrs = {0};
    sg_tid y;
    sg_emit(g, SG_OP_SOFTMAX, &attrs, &x, 1, &out, &y, 1);
    return y;
}

static sg_dtype statistic_dtype(const sg_desc *x) {
    return x->dtype == SG_F64 ? SG_F64 : SG_F32;
}

/* One value per row: the shape of x with a last dim of 1. */
static sg_desc row_statistic(const sg_desc *x) {
    int64_t size[SG_MAX_DIMS];
    memcpy(size, x->size, sizeof size);
    size[x->ndim - 1] = 1;
    return sg_desc_make(statistic_dtype(x), x->ndim, size);
}

sg_tid sg_layer_norm(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, double eps) {
    x = sg_autocast_up(g, x);
    if (!has_last_dim(g, x, "layer norm") || !sg_graph_has(g, weight) || !sg_graph_has(g, bias)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x);
    const sg_desc out[3] = {contiguous_like(&in), row_statistic(&in), row_statistic(&in)};
    sg_attrs attrs = {.eps = eps};
    sg_tid y[3];
    sg_emit(g, SG_OP_LAYER_NORM, &attrs, (const sg_tid[]){x, weight, bias}, 3, out, y, 3);
    return y[0];
}

/* Autocast computes group norm in fp32 and leaves batch norm the dtype that it gets. */
sg_tid sg_channel_norm(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, int64_t groups, double eps) {
    if (groups) x = sg_autocast_up(g, x);
    if (!sg_graph_has(g, x) || !sg_graph_has(g, weight) || !sg_graph_has(g, bias)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x);
    if (in.ndim < 2 || groups < 0 || groups > INT32_MAX) {
        sg_graph_fail(g, SG_BAD_INPUT, "norm of channels in %s: it takes at least 2 dims (n, c) and at least 0 groups",
                      sg_graph_module_name(g));
        return SG_NO_TENSOR;
    }
    const int64_t of_groups[] = {in.size[0], groups};
    sg_desc statistic =
        groups ? sg_desc_make(statistic_dtype(&in), 2, of_groups) : sg_desc_make(statistic_dtype(&in), 1, &in.size[1]);
    sg_desc out[3] = {in, statistic, statistic};
    sg_desc_like_operands(&out[0], &in, 1);
    sg_attrs attrs = {.count = (int32_t)groups, .eps = eps};
    sg_tid y[3];
    sg_emit(g, SG_OP_CHANNEL_NORM, &attrs, (const sg_tid[]){x, weight, bias}, 3, out, y, 3);
    return y[0];
}

sg_tid sg_rms_norm(sg_graph *g, sg_tid x, sg_tid weight, double eps) {
    if (!has_last_dim(g, x, "RMS norm") || !sg_graph_has(g, weight)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x);
    const sg_desc out[2] = {contiguous_like(&in), row_statistic(&in)};
    sg_attrs attrs = {.eps = eps};
    sg_tid y[2];
    sg_emit(g, SG_OP_RMS_NORM, &attrs, (const sg_tid[]){x, weight}, 2, out, y, 2);
    return y[0];
}

/* What the kernel writes: [b, h, t, d], or [b, t, h, d] returned transposed, so that joining the heads needs no copy. */
static sg_desc attention_output(const sg_graph *g, const sg_desc *q) {
    if (g->profile.keeps_more) return contiguous_like(q);
    sg_desc out =
        sg_desc_make((sg_dtype)q->dtype, 4, (const int64_t[]){q->size[0], q->size[2], q->size[1], q->size[3]});
    int64_t tokens = out.stride[1];
    out.size[1] = q->size[1];
    out.size[2] = q->size[2];
    out.stride[1] = out.stride[2];
    out.stride[2] = tokens;
    return out;
}

sg_tid sg_attention(sg_graph *g, sg_tid q, sg_tid k, sg_tid v, sg_tid mask) {
    int n_in = mask == SG_NO_TENSOR ? 3 : 4; /* autocast casts an additive mask too */
    sg_tid in[4] = {sg_autocast_down(g, q), sg_autocast_down(g, k), sg_autocast_down(g, v),
                    n_in == 4 ? sg_autocast_down(g, mask) : mask};
    for (int i = 0; i < n_in; i++)
        if (!sg_graph_has(g, in[i])) return SG_NO_TENSOR;
    const sg_desc dq = *sg_graph_desc(g, in[0]);
    if (dq.ndim != 4) {
        sg_graph_fail(g, SG_BAD_INPUT, "attention: q must have 4 dims (batch, heads, tokens, width)");
        return SG_NO_TENSOR;
    }
    const sg_desc out[2] = {attention_output(g, &dq), sg_desc_make(statistic_dtype(&dq), 3, dq.size)};
    int compute = dq.dtype == SG_BF16  ? SG_COMPUTE_BF16
                  : dq.dtype == SG_F16 ? SG_COMPUTE_F16
                  : dq.dtype == SG_F64 ? SG_COMPUTE_F64
                                       : (int)g->profile.compute_f32;
    sg_attrs attrs = {.compute = compute, .flags = n_in == 4 ? SG_HAS_MASK : 0, .alpha = 1 / sqrt((double)dq.size[3])};
    sg_tid y[2];
    sg_emit(g, SG_OP_ATTENTION, &attrs, in, n_in, out, y, 2);
    return y[0];
}

/* ---- rows by index --------------------------------------------------------------------------------------------- */

sg_tid sg_embedding(sg_graph *g, sg_tid table, sg_tid index) {
    if (!sg_graph_has(g, table) || !sg_graph_has(g, index)) return SG_NO_TENSOR;
    const sg_desc t = *sg_graph_desc(g, table), i = *sg_graph_desc(g, index);
    if (t.ndim != 2 || i.ndim >= SG_MAX_DIMS) {
        sg_graph_fail(g, SG_BAD_INPUT, "embedding: the table must have 2 dims, the index at most %d", SG_MAX_DIMS - 1);
        return SG_NO_TENSOR;
    }
    int64_t size[SG_MAX_DIMS] = {0};
    memcpy(size, i.size, sizeof i.size);
    size[i.ndim] = t.size[1];
    sg_desc out = sg_desc_make((sg_dtype)t.dtype, i.ndim + 1, size);
    sg_attrs attrs = {0};
    sg_tid y;
    sg_emit(g, SG_OP_EMBEDDING, &attrs, (const sg_tid[]){table, index}, 2, &out, &y, 1);
    return y;
}

/* The op sees x as a table of rows; the tensor made keeps x's inner dims. */
sg_tid sg_gather_rows(sg_graph *g, sg_tid x, sg_tid index) {
    if (!has_last_dim(g, x, "gather") || !sg_graph_has(g, index)) return SG_NO_TENSOR;
    const sg_desc from = *sg_graph_desc(g, x), i = *sg_graph_desc(g, index);
    sg_desc table;
    int64_t rows = from.size[0], columns = sg_desc_count(&from) / rows;
    if (i.ndim != 1 || !sg_desc_view_as(&from, 2, (const int64_t[]){rows, columns}, &table)) {
        sg_graph_fail(g, SG_BAD_INPUT, "gather: the index must have 1 dim and each row must lie in one piece");
        return SG_NO_TENSOR;
    }
    int64_t size[SG_MAX_DIMS];
    memcpy(size, from.size, sizeof size);
    size[0] = i.size[0];
    const sg_desc in_desc[2] = {table, i};
    sg_desc out = sg_desc_make((sg_dtype)from.dtype, 2, (const int64_t[]){i.size[0], columns});
    sg_desc tensor = sg_desc_make((sg_dtype)from.dtype, from.ndim, size);
    sg_attrs attrs = {0};
    sg_record record = {.kind = SG_OP_EMBEDDING,
                        .attrs = &attrs,
                        .n_in = 2,
                        .n_out = 1,
                        .in = (const sg_tid[]){x, index},
                        .in_desc = in_desc,
                        .out_desc = &out,
                        .out_tensor = &tensor};
    sg_tid y = SG_NO_TENSOR;
    (void)sg_graph_record(g, &record, &y);
    return y;
}

/* ---- images ----------------------------------------------------------------------------------------------------- */

static sg_desc image(const sg_desc *like, sg_dtype dtype, int64_t h, int64_t w) {
    bool channels_last = sg_desc_is_channels_last(like) && !sg_desc_is_contiguous(like);
    const int64_t size[4] = {like->size[0], like->size[1], h, w};
    return channels_last ? sg_desc_channels_last(dtype, size[0], size[1], h, w) : sg_desc_make(dtype, 4, size);
}

sg_tid sg_max_pool2d(sg_graph *g, sg_tid x, int kernel, int stride, int pad) {
    int64_t hw[2];
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x);
    const sg_window window = {.kernel = {kernel, kernel}, .stride = {stride, stride}, .pad = {pad, pad}};
    if (!sg_window_output(g, &in, &window, hw)) return SG_NO_TENSOR;
    const sg_desc out[2] = {image(&in, (sg_dtype)in.dtype, hw[0], hw[1]),
                            image(&in, g->profile.int64_pool_index ? SG_I64 : SG_U8, hw[0], hw[1])};
    sg_attrs attrs = {.kernel = {kernel, kernel}, .stride = {stride, stride}, .pad = {pad, pad}};
    sg_tid y[2];
    sg_emit(g, SG_OP_MAXPOOL, &attrs, &x, 1, out, y, 2);
    return y[0];
}

sg_tid sg_resize2d(sg_graph *g, sg_tid x, int64_t height, int64_t width) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x);
    if (in.ndim != 4) {
        sg_graph_fail(g, SG_BAD_INPUT, "resize: images must have 4 dims (n, c, h, w)");
        return SG_NO_TENSOR;
    }
    sg_desc out = image(&in, (sg_dtype)in.dtype, height, width);
    sg_attrs attrs = {0};
    sg_tid y;
    sg_emit(g, SG_OP_RESIZE, &attrs, &x, 1, &out, &y, 1);
    return y;
}
