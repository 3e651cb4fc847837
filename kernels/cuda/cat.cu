/* cat.cu: CAT: up to 128 tensors per launch, as rows of bytes in the output's memory order.
 *
 * In that order, the joined dim and what lies inside it are one row of each input and one part of each row of the output; the
 * dims outside may have any strides (a token repeated over the batch). Inputs whose rows have gaps are copied one by one. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/walk.cuh"

enum { THREADS = 128, EACH = 4, MOST = 128 };

/* Lengths and strides in units of 1 to 16 bytes. */
struct joined {
    const char *at;
    int64_t first; /* where its part of the output's row begins */
    sg_divisor row;
    uint32_t units;
    int64_t stride[SG_MAX_DIMS - 1]; /* of the dims outside, innermost first */
};
template <int N> struct joined_list {
    int outside;
    sg_divisor size[SG_MAX_DIMS - 1];
    int64_t stride[SG_MAX_DIMS - 1]; /* the output's */
    joined tensor[N];
};

template <typename Unit, int N> static __global__ void __launch_bounds__(THREADS) join(joined_list<N> list, Unit *to) {
    const joined &t = list.tensor[blockIdx.y];
    uint32_t first = blockIdx.x * (uint32_t)(THREADS * EACH) + threadIdx.x;
    Unit value[EACH] = {};
    int64_t at[EACH] = {0};
    SG_UNROLL
    for (int u = 0; u < EACH; u++) {
        uint32_t i = first + (uint32_t)(u * THREADS);
        if (i >= t.units) break;
        uint32_t row = t.row.quotient(i), column = i - row * t.row.by;
        int64_t from = column;
        at[u] = t.first + column;
        for (int d = 0; d < list.outside; d++) {
            uint32_t rest = list.size[d].quotient(row), r = row - rest * list.size[d].by;
            from += (int64_t)r * t.stride[d];
            at[u] += (int64_t)r * list.stride[d];
            row = rest;
        }
        value[u] = reinterpret_cast<const Unit *>(t.at)[from];
    }
    SG_UNROLL
    for (int u = 0; u < EACH; u++)
        if (first + (uint32_t)(u * THREADS) < t.units) to[at[u]] = value[u];
}

/* ---- host -------------------------------------------------------------------------------------------------------------- */

/* The output's dims by stride, innermost first, and which of them is joined. */
struct dim_order {
    int dim[SG_MAX_DIMS];
    int joined;
};

static dim_order order_of(const sg_desc *y, int dim) {
    dim_order o = {};
    for (int d = y->ndim - 1, n = 0; d >= 0; d--, n++) {
        int at = n;
        for (; at > 0 && y->stride[o.dim[at - 1]] > y->stride[d]; at--) o.dim[at] = o.dim[at - 1];
        o.dim[at] = d;
    }
    while (o.dim[o.joined] != dim) o.joined++;
    return o;
}

/* The joined dim and those inside it are one run of elements. */
static bool has_whole_rows(const sg_desc *x, const dim_order &o) {
    int64_t expected = 1;
    for (int i = 0; i <= o.joined; i++) {
        int d = o.dim[i];
        if (x->size[d] == 1) continue;
        if (x->stride[d] != expected) return false;
        expected *= x->size[d];
    }
    return true;
}

static int64_t row_of(const sg_desc *x, const dim_order &o) {
    int64_t n = 1;
    for (int i = 0; i <= o.joined; i++) n *= x->size[o.dim[i]];
    return n;
}

/* All lengths, strides and addresses (bytes) or-ed together: the lowest bit is the widest unit. */
static uint64_t bits_of(const sg_desc *x, const void *at, const dim_order &o, int64_t bytes) {
    uint64_t bits = (uint64_t)(uintptr_t)at | (uint64_t)(row_of(x, o) * bytes);
    for (int i = o.joined + 1; i < x->ndim; i++)
        if (x->size[o.dim[i]] > 1) bits |= (uint64_t)(x->stride[o.dim[i]] * bytes);
    return bits;
}

/* Inputs first .. first + n - 1; `start`: elements before them in a row of the output, moved on. */
template <int N>
static cudaError_t join_some(const sg_call *call, const dim_order &o, int first, int n, int64_t *start) {
    const sg_desc *y = sg_out(call->plan, 0);
    int64_t bytes = (int64_t)sg_dtype_bytes((sg_dtype)y->dtype);
    uint64_t bits = bits_of(y, sg_out_at(call, 0), o, bytes) | 16u | (uint64_t)(*start * bytes);
    for (int i = first; i < first + n; i++) bits |= bits_of(sg_in(call->plan, i), sg_in_at(call, i), o, bytes);
    int64_t unit = (int64_t)(bits & (~bits + 1));
    joined_list<N> list = {};
    uint32_t most = 0;
    for (int i = o.joined + 1; i < y->ndim; i++) {
        int d = o.dim[i];
        if (y->size[d] == 1) continue;
        list.size[list.outside] = sg_divisor_of(y->size[d]);
        list.stride[list.outside] = y->stride[d] * bytes / unit;
        for (int k = 0; k < n; k++)
            list.tensor[k].stride[list.outside] = sg_in(call->plan, first + k)->stride[d] * bytes / unit;
        list.outside++;
    }
    for (int k = 0; k < n; k++) {
        const sg_desc *x = sg_in(call->plan, first + k);
        joined *t = &list.tensor[k];
        t->at = static_cast<const char *>(sg_in_at(call, first + k));
        t->first = *start * bytes / unit;
        t->row = sg_divisor_of(row_of(x, o) * bytes / unit);
        t->units = (uint32_t)(sg_desc_count(x) * bytes / unit);
        *start += row_of(x, o);
        if (t->units > most) most = t->units;
    }
    dim3 grid((most - 1) / (THREADS * EACH) + 1, (unsigned)n), block(THREADS);
    char *to = static_cast<char *>(sg_out_at(call, 0));
    switch (unit) {
    case 1: return SG_LAUNCH((join<uint8_t, N>), grid, block, call->stream, list, reinterpret_cast<uint8_t *>(to));
    case 2: return SG_LAUNCH((join<uint16_t, N>), grid, block, call->stream, list, reinterpret_cast<uint16_t *>(to));
    case 4: return SG_LAUNCH((join<uint32_t, N>), grid, block, call->stream, list, reinterpret_cast<uint32_t *>(to));
    case 8: return SG_LAUNCH((join<uint2, N>), grid, block, call->stream, list, reinterpret_cast<uint2 *>(to));
    default: return SG_LAUNCH((join<uint4, N>), grid, block, call->stream, list, reinterpret_cast<uint4 *>(to));
    }
}

static bool has_rows(const sg_plan *plan, const dim_order &o) {
    const int64_t LARGEST = (int64_t)1 << 30; /* bytes: positions are 31 bits */
    bool fine = has_whole_rows(sg_out(plan, 0), o);
    for (int i = 0; i < plan->op.n_in && fine; i++)
        fine = has_whole_rows(sg_in(plan, i), o) &&
               sg_desc_count(sg_in(plan, i)) * (int64_t)sg_dtype_bytes((sg_dtype)sg_in(plan, i)->dtype) <= LARGEST;
    return fine;
}

static cudaError_t join_rows(const sg_call *call, const dim_order &o) {
    enum { FEW = 4 }; /* small arguments for the usual case */
    int n_in = call->plan->op.n_in;
    int64_t start = 0;
    cudaError_t error = cudaSuccess;
    if (n_in <= FEW) return join_some<FEW>(call, o, 0, n_in, &start);
    for (int first = 0; first < n_in && error == cudaSuccess; first += MOST)
        error = join_some<MOST>(call, o, first, n_in - first < MOST ? n_in - first : MOST, &start);
    return error;
}

static cudaError_t join_one_by_one(const sg_call *call) {
    const sg_desc *y = sg_out(call->plan, 0);
    int dim = call->plan->op.attrs.dim;
    char *to = static_cast<char *>(sg_out_at(call, 0));
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < call->plan->op.n_in && error == cudaSuccess; i++) {
        const sg_desc *x = sg_in(call->plan, i);
        sg_desc part = *y;
        part.size[dim] = x->size[dim];
        error = sg_cuda_move(&part, x, to, sg_in_at(call, i), call->stream);
        to += x->size[dim] * y->stride[dim] * (int64_t)sg_dtype_bytes((sg_dtype)y->dtype);
    }
    return error;
}

static sg_code run(const sg_call *call) {
    dim_order o = order_of(sg_out(call->plan, 0), call->plan->op.attrs.dim);
    cudaError_t error = has_rows(call->plan, o) ? join_rows(call, o) : join_one_by_one(call);
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_cat(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run;
    return SG_OK;
}
