/* ops_view.c: views: new shapes of the same memory, no kernel. */
#include "models/graph_state.h"
#include "models/ops.h"

#include <string.h>

static bool check_ndim(sg_graph *g, const char *call, int ndim) {
    if (ndim >= 0 && ndim <= SG_MAX_DIMS) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "%s: %d dims; at most %d are possible", call, ndim, SG_MAX_DIMS);
    return false;
}

/* Replaces the one size that may be -1. */
static bool complete_sizes(sg_graph *g, sg_tid x, int ndim, const int64_t *size, int64_t *full) {
    if (!check_ndim(g, "view", ndim)) return false;
    int64_t count = sg_desc_count(sg_graph_desc(g, x)), known = 1;
    int open = -1;
    for (int d = 0; d < ndim; d++) {
        full[d] = size[d];
        if (size[d] == -1 && open < 0)
            open = d;
        else if (size[d] < 1 || __builtin_mul_overflow(known, size[d], &known))
            known = -1;
        if (known < 1) break;
    }
    if (open >= 0 && known >= 1 && count % known == 0) {
        full[open] = count / known;
        known = count;
    }
    if (known == count) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "view: the new sizes do not hold the tensor's %lld elements", (long long)count);
    return false;
}

sg_tid sg_view(sg_graph *g, sg_tid x, int ndim, const int64_t *size) {
    int64_t full[SG_MAX_DIMS] = {0};
    sg_desc out;
    if (!sg_graph_has(g, x) || !complete_sizes(g, x, ndim, size, full)) return SG_NO_TENSOR;
    if (!sg_desc_view_as(sg_graph_desc(g, x), ndim, full, &out)) {
        sg_graph_fail(g, SG_BAD_INPUT, "view: the tensor's memory order does not allow it; reshape copies it");
        return SG_NO_TENSOR;
    }
    return sg_graph_view(g, x, &out, 0, SG_RULE_RESHAPE, 0, 0);
}

sg_tid sg_reshape(sg_graph *g, sg_tid x, int ndim, const int64_t *size) {
    int64_t full[SG_MAX_DIMS] = {0};
    sg_desc out;
    if (!sg_graph_has(g, x) || !complete_sizes(g, x, ndim, size, full)) return SG_NO_TENSOR;
    if (!sg_desc_view_as(sg_graph_desc(g, x), ndim, full, &out)) x = sg_contiguous(g, x);
    return sg_view(g, x, ndim, full);
}

sg_tid sg_transpose(sg_graph *g, sg_tid x, int dim0, int dim1) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_desc out = *sg_graph_desc(g, x);
    int a = sg_graph_dim(g, out.ndim, dim0, "transpose"), b = sg_graph_dim(g, out.ndim, dim1, "transpose");
    if (a < 0 || b < 0) return SG_NO_TENSOR;
    int64_t size = out.size[a], stride = out.stride[a];
    out.size[a] = out.size[b];
    out.stride[a] = out.stride[b];
    out.size[b] = size;
    out.stride[b] = stride;
    return sg_graph_view(g, x, &out, 0, SG_RULE_TRANSPOSE, a, b);
}

sg_tid sg_permute(sg_graph *g, sg_tid x, const int *order) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    const sg_desc from = *sg_graph_desc(g, x);
    sg_desc out = {.dtype = from.dtype, .ndim = from.ndim};
    int64_t packed = 0;
    unsigned seen = 0;
    for (int d = 0; d < from.ndim; d++) {
        int at = sg_graph_dim(g, from.ndim, order[d], "permute");
        if (at < 0) return SG_NO_TENSOR;
        out.size[d] = from.size[at];
        out.stride[d] = from.stride[at];
        packed |= (int64_t)at << 4 * d;
        seen |= 1u << at;
    }
    if (seen != (1u << from.ndim) - 1) {
        sg_graph_fail(g, SG_BAD_INPUT, "permute: a dim is named twice");
        return SG_NO_TENSOR;
    }
    return sg_graph_view(g, x, &out, 0, SG_RULE_PERMUTE, packed, 0);
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

sg_tid sg_slice(sg_graph *g, sg_tid x, int dim, int64_t start, int64_t length) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_desc out = *sg_graph_desc(g, x);
    int at = sg_graph_dim(g, out.ndim, dim, "slice");
    if (at < 0) return SG_NO_TENSOR;
    if (start < 0 || length < 1 || start > out.size[at] - length) {
        sg_graph_fail(g, SG_BAD_INPUT, "slice: %lld elements from %lld on do not lie in a dim of %lld",
                      (long long)length, (long long)start, (long long)out.size[at]);
        return SG_NO_TENSOR;
    }
    out.size[at] = length;
    return sg_graph_view(g, x, &out, start * out.stride[at], SG_RULE_SLICE, at, start);
}

static void drop_dim(sg_desc *desc, int dim) {
    for (int d = dim; d + 1 < desc->ndim; d++) {
        desc->size[d] = desc->size[d + 1];
        desc->stride[d] = desc->stride[d + 1];
    }
    desc->ndim--;
    desc->size[desc->ndim] = desc->stride[desc->ndim] = 0;
}

sg_tid sg_select(sg_graph *g, sg_tid x, int dim, int64_t index) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_desc out = *sg_graph_desc(g, x);
    int at = sg_graph_dim(g, out.ndim, dim, "select");
    if (at < 0) return SG_NO_TENSOR;
    if (index < 0) index += out.size[at];
    if (index < 0 || index >= out.size[at]) {
        sg_graph_fail(g, SG_BAD_INPUT, "select: index %lld is out of a dim of %lld", (long long)index,
                      (long long)out.size[at]);
        return SG_NO_TENSOR;
    }
    int64_t offset = index * out.stride[at];
    drop_dim(&out, at);
    return sg_graph_view(g, x, &out, offset, SG_RULE_SELECT, at, index);
}

/* Room for n descriptors and n offsets, from the arena because n may be hundreds. */
static bool parts(sg_graph *g, int n, sg_desc **desc, int64_t **offset) {
    size_t count = n < 1 ? 1 : (size_t)n;
    *desc = sg_arena_alloc(g->arena, count * sizeof **desc);
    *offset = sg_arena_alloc(g->arena, count * sizeof **offset);
    if (*desc && *offset) return true;
    sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %d views", n);
    return false;
}

static void no_tensors(sg_tid *out, int n) {
    for (int i = 0; i < n; i++) out[i] = SG_NO_TENSOR;
}

void sg_split(sg_graph *g, sg_tid x, int dim, int n, const int64_t *length, sg_tid *out) {
    no_tensors(out, n);
    sg_desc *desc;
    int64_t *offset, sum = 0;
    if (!sg_graph_has(g, x)) return;
    const sg_desc whole = *sg_graph_desc(g, x);
    int at = sg_graph_dim(g, whole.ndim, dim, "split");
    if (at < 0 || !parts(g, n, &desc, &offset)) return;
    for (int i = 0; i < n; i++) {
        desc[i] = whole;
        desc[i].size[at] = length[i];
        offset[i] = sum * whole.stride[at];
        if (length[i] < 1 || length[i] > whole.size[at] - sum) {
            sum = -1;
            break;
        }
        sum += length[i];
    }
    if (sum != whole.size[at]) {
        sg_graph_fail(g, SG_BAD_INPUT, "split: the parts do not add up to a dim of %lld", (long long)whole.size[at]);
        return;
    }
    sg_graph_views(g, x, n, desc, offset, SG_RULE_SPLIT, at, out);
}

void sg_chunk(sg_graph *g, sg_tid x, int dim, int n, sg_tid *out) {
    no_tensors(out, n);
    int64_t length[64];
    if (!sg_graph_has(g, x)) return;
    const sg_desc *whole = sg_graph_desc(g, x);
    int at = sg_graph_dim(g, whole->ndim, dim, "chunk");
    if (at < 0) return;
    if (n < 1 || n > 64 || whole->size[at] % n != 0) {
        sg_graph_fail(g, SG_BAD_INPUT, "chunk: a dim of %lld does not fall into %d equal parts (at most 64)",
                      (long long)whole->size[at], n);
        return;
    }
    for (int i = 0; i < n; i++) length[i] = whole->size[at] / n;
    sg_split(g, x, at, n, length, out);
}

void sg_unbind(sg_graph *g, sg_tid x, int dim, sg_tid *out) {
    sg_desc *desc;
    int64_t *offset;
    if (!sg_graph_has(g, x)) return;
    const sg_desc whole = *sg_graph_desc(g, x);
    int at = sg_graph_dim(g, whole.ndim, dim, "unbind");
    if (at < 0) return;
    int64_t n = whole.size[at];
    if (n > INT32_MAX / 2) {
        sg_graph_fail(g, SG_BAD_INPUT, "unbind: %lld parts are too many", (long long)n);
        return;
    }
    no_tensors(out, (int)n);
    if (!parts(g, (int)n, &desc, &offset)) return;
    for (int64_t i = 0; i < n; i++) {
        desc[i] = whole;
        offset[i] = i * whole.stride[at];
        drop_dim(&desc[i], at);
    }
    sg_graph_views(g, x, (int)n, desc, offset, SG_RULE_UNBIND, at, out);
}

/* ---- dims ------------------------------------------------------------------------------------------------------ */

sg_tid sg_unsqueeze(sg_graph *g, sg_tid x, int dim) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_desc out = *sg_graph_desc(g, x);
    int at = sg_graph_dim(g, out.ndim + 1, dim, "unsqueeze");
    if (at < 0 || !check_ndim(g, "unsqueeze", out.ndim + 1)) return SG_NO_TENSOR;
    for (int d = out.ndim; d > at; d--) {
        out.size[d] = out.size[d - 1];
        out.stride[d] = out.stride[d - 1];
    }
    out.ndim++;
    out.stride[at] = at + 1 < out.ndim ? out.size[at + 1] * out.stride[at + 1] : 1;
    out.size[at] = 1;
    return sg_graph_view(g, x, &out, 0, SG_RULE_UNSQUEEZE, at, 0);
}

sg_tid sg_squeeze(sg_graph *g, sg_tid x, int dim) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_desc out = *sg_graph_desc(g, x);
    int at = sg_graph_dim(g, out.ndim, dim, "squeeze");
    if (at < 0) return SG_NO_TENSOR;
    if (out.size[at] != 1) return x;
    drop_dim(&out, at);
    return sg_graph_view(g, x, &out, 0, SG_RULE_SQUEEZE, at, 0);
}

sg_tid sg_expand(sg_graph *g, sg_tid x, int ndim, const int64_t *size) {
    if (!sg_graph_has(g, x) || !check_ndim(g, "expand", ndim)) return SG_NO_TENSOR;
    const sg_desc from = *sg_graph_desc(g, x);
    sg_desc want = {.dtype = from.dtype, .ndim = ndim}, both = {0};
    int added = ndim - from.ndim;
    for (int d = 0; d < ndim; d++) want.size[d] = size[d] == -1 && d >= added ? from.size[d - added] : size[d];
    if (added < 0 || !sg_shape_broadcast(&from, &want, &both) || memcmp(both.size, want.size, sizeof both.size) != 0) {
        sg_graph_fail(g, SG_BAD_INPUT, "expand: only dims of size 1 can be repeated");
        return SG_NO_TENSOR;
    }
    sg_desc out = sg_desc_broadcast_to(&from, &want);
    return sg_graph_view(g, x, &out, 0, SG_RULE_EXPAND, 0, 0);
}

sg_tid sg_detach(sg_graph *g, sg_tid x) {
    return sg_graph_detach(g, x);
}
