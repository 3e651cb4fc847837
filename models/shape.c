/* shape.c: sizes, strides and dtypes of results, by PyTorch's rules. */
#include "models/graph_state.h"

#include <string.h>

int sg_graph_dim(sg_graph *g, int ndim, int dim, const char *call) {
    int at = dim < 0 ? dim + ndim : dim;
    if (at >= 0 && at < ndim) return at;
    sg_graph_fail(g, SG_BAD_INPUT, "%s: dim %d is out of range of a tensor with %d dims", call, dim, ndim);
    return -1;
}

bool sg_shape_broadcast(const sg_desc *a, const sg_desc *b, sg_desc *out) {
    int ndim = a->ndim > b->ndim ? a->ndim : b->ndim;
    out->ndim = ndim;
    for (int d = 0; d < ndim; d++) {
        int da = d - (ndim - a->ndim), db = d - (ndim - b->ndim);
        int64_t sa = da < 0 ? 1 : a->size[da], sb = db < 0 ? 1 : b->size[db];
        if (sa != sb && sa != 1 && sb != 1) return false;
        out->size[d] = sa == 1 ? sb : sa;
    }
    return true;
}

sg_desc sg_desc_broadcast_to(const sg_desc *x, const sg_desc *like) {
    sg_desc out = {.dtype = x->dtype, .ndim = like->ndim};
    for (int d = 0; d < like->ndim; d++) {
        int dx = d - (like->ndim - x->ndim);
        out.size[d] = like->size[d];
        out.stride[d] = dx < 0 || (x->size[dx] == 1 && like->size[d] != 1) ? 0 : x->stride[dx];
    }
    return out;
}

/* ---- dtypes -------------------------------------------------------------------------------------------------- */

static int kind_rank(sg_dtype dtype) {
    return sg_dtype_is_float(dtype) ? 2 : dtype == SG_BOOL ? 0 : 1;
}

static sg_dtype wider(sg_dtype a, sg_dtype b) {
    if (a == b) return a;
    if (kind_rank(a) != kind_rank(b)) return kind_rank(a) > kind_rank(b) ? a : b;
    if (a == SG_F64 || b == SG_F64) return SG_F64;
    if (sg_dtype_is_float(a)) return SG_F32; /* also bf16 with f16 */
    if (a == SG_I64 || b == SG_I64) return SG_I64;
    return SG_I32;
}

sg_dtype sg_dtype_promote(const sg_desc *x, const sg_desc *y) {
    sg_dtype a = (sg_dtype)x->dtype, b = (sg_dtype)y->dtype;
    if ((x->ndim == 0) == (y->ndim == 0)) return wider(a, b);
    sg_dtype whole = x->ndim ? a : b, scalar = x->ndim ? b : a;
    return kind_rank(scalar) > kind_rank(whole) ? scalar : whole;
}

/* ---- strides of results -------------------------------------------------------------------------------------- */

/* > 0: dim a is further out in memory than dim b; 0: the operands do not tell. */
static int compare_dims(const sg_desc *out, const sg_desc *in, int n_in, int a, int b) {
    for (int i = 0; i < n_in; i++) {
        int64_t sa = in[i].stride[a], sb = in[i].stride[b];
        if (sa == 0 || sb == 0) continue;
        if (sa != sb) return sa < sb ? -1 : 1;
        if (out->size[a] > out->size[b]) return 1;
    }
    return 0;
}

static void pack_in_order(sg_desc *out, const int *inner_to_outer) {
    int64_t stride = 1;
    for (int i = 0; i < out->ndim; i++) {
        out->stride[inner_to_outer[i]] = stride;
        if (__builtin_mul_overflow(stride, out->size[inner_to_outer[i]], &stride)) stride = INT64_MAX;
    }
}

void sg_desc_like_operands(sg_desc *out, const sg_desc *in, int n_in) {
    bool contiguous = true, equal = true;
    for (int i = 0; i < n_in; i++) {
        contiguous = contiguous && sg_desc_is_contiguous(&in[i]);
        equal =
            equal && memcmp(in[i].stride, in[0].stride, sizeof in[0].stride) == 0 && sg_desc_same_shape(&in[i], out);
    }
    if (!contiguous && equal && n_in > 0 && sg_desc_is_dense(&in[0])) {
        memcpy(out->stride, in[0].stride, sizeof out->stride);
        return;
    }
    int order[SG_MAX_DIMS];
    for (int i = 0; i < out->ndim; i++) order[i] = out->ndim - 1 - i;
    for (int i = 1; i < out->ndim && !contiguous; i++) {
        int moving = i;
        for (int j = i - 1; j >= 0; j--) {
            int comparison = compare_dims(out, in, n_in, order[j], order[moving]);
            if (comparison < 0) break;
            if (comparison == 0) continue;
            int swapped = order[j];
            order[j] = order[moving];
            order[moving] = swapped;
            moving = j;
        }
    }
    pack_in_order(out, order);
}

/* ---- views --------------------------------------------------------------------------------------------------- */

/* Walks x's dims from the innermost, grouping those that follow each other in memory, and lets the new sizes fill each
 * group in turn; a new dim must not straddle two groups. */
bool sg_desc_view_as(const sg_desc *x, int ndim, const int64_t *size, sg_desc *out) {
    *out = (sg_desc){.dtype = x->dtype, .ndim = ndim};
    memcpy(out->size, size, (size_t)ndim * sizeof *size);
    if (x->ndim == 0) {
        for (int d = 0; d < ndim; d++) out->stride[d] = 1;
        return true;
    }
    int to = ndim - 1;
    int64_t base = x->stride[x->ndim - 1], group = 1, filled = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        group *= x->size[d];
        bool ends = d == 0 || (x->size[d - 1] != 1 && x->stride[d - 1] != group * base);
        if (!ends) continue;
        while (to >= 0 && (filled < group || size[to] == 1)) {
            out->stride[to] = filled * base;
            filled *= size[to--];
        }
        if (filled != group) return false;
        if (d > 0) {
            base = x->stride[d - 1];
            group = filled = 1;
        }
    }
    return to < 0;
}
