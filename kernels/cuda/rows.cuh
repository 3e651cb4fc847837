/* rows.cuh: how kernels walk rows of the last dim: which threads take a row, how they read it, what they keep of it.
 *
 * A warp takes a row of up to 1,024 elements, a block of 256 threads a longer one. Dense aligned rows are read 16 bytes at
 * a time, and a thread keeps up to 32 elements in registers, so that rows of up to 8,192 are read once; other rows are read
 * one element at a time, 16 are kept, and the numbers are half of that. What is longer is read again, out of a cache as a
 * rule. */
#ifndef SG_KERNELS_CUDA_ROWS_CUH
#define SG_KERNELS_CUDA_ROWS_CUH

#include "kernels/cuda/any.cuh"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/values.cuh"

enum { SG_ROW_WARP = 32, SG_ROW_BLOCK = 256 };
enum { SG_ROW_TENSORS = 6 };

/* One tensor as a kernel gets it. */
struct sg_row_tensor {
    void *at;
    int dtype;
    int64_t stride; /* of the last dim, elements */
};

/* ---- ways to read: each moves VEC elements, first element i of a row that begins at element `row` ----------------------------- */

/* Stride 1, rows that begin at multiples of 16 bytes. */
template <typename T> struct sg_dense {
    enum { VEC = 16 / sizeof(T) };
    static __device__ __forceinline__ void load(const sg_row_tensor &t, int64_t row, int i, float (&v)[VEC]) {
        sg_vector<T> x = *reinterpret_cast<const sg_vector<T> *>(static_cast<const T *>(t.at) + row + i);
        SG_UNROLL
        for (int j = 0; j < VEC; j++) v[j] = sg_to_float(x.at[j]);
    }
    static __device__ __forceinline__ void store(const sg_row_tensor &t, int64_t row, int i, const float (&v)[VEC]) {
        sg_vector<T> x;
        SG_UNROLL
        for (int j = 0; j < VEC; j++) x.at[j] = sg_from_float<T>(v[j]);
        *reinterpret_cast<sg_vector<T> *>(static_cast<T *>(t.at) + row + i) = x;
    }
};

/* One dtype, any stride. */
template <typename T> struct sg_strided {
    enum { VEC = 1 };
    static __device__ __forceinline__ void load(const sg_row_tensor &t, int64_t row, int i, float (&v)[1]) {
        v[0] = sg_to_float(static_cast<const T *>(t.at)[row + i * t.stride]);
    }
    static __device__ __forceinline__ void store(const sg_row_tensor &t, int64_t row, int i, const float (&v)[1]) {
        static_cast<T *>(t.at)[row + i * t.stride] = sg_from_float<T>(v[0]);
    }
};

/* Tensors of several dtypes. */
struct sg_mixed {
    enum { VEC = 1 };
    static __device__ __forceinline__ void load(const sg_row_tensor &t, int64_t row, int i, float (&v)[1]) {
        v[0] = sg_any_load(t.at, t.dtype, row + i * t.stride);
    }
    static __device__ __forceinline__ void store(const sg_row_tensor &t, int64_t row, int i, const float (&v)[1]) {
        sg_any_store(t.at, t.dtype, row + i * t.stride, v[0]);
    }
};

/* ---- a thread's part of a row ------------------------------------------------------------------------------------------------ */

/* Element i belongs to thread i / VEC % THREADS; the first KEEP turns are kept in registers. */
template <typename Way, int THREADS> struct sg_row_part {
    enum { VEC = Way::VEC, KEEP = VEC == 1 ? 16 : 32 / VEC, STEP = THREADS * VEC };
    float kept[KEEP][VEC];

    static __device__ __forceinline__ int first() {
        return (int)(THREADS == SG_ROW_WARP ? sg_lane() : sg_thread_in_block()) * VEC;
    }
    __device__ __forceinline__ void load(const sg_row_tensor &t, int64_t row, int n) {
        SG_UNROLL
        for (int turn = 0; turn < KEEP; turn++)
            if (first() + turn * STEP < n) Way::load(t, row, first() + turn * STEP, kept[turn]);
    }
};

/* f(i, values) for every piece of the row; values of kept pieces may be changed and stay so. */
template <typename Way, int THREADS, typename F>
__device__ __forceinline__ void sg_row_each(sg_row_part<Way, THREADS> &part, const sg_row_tensor &t, int64_t row, int n,
                                            F f) {
    typedef sg_row_part<Way, THREADS> part_t;
    SG_UNROLL
    for (int turn = 0; turn < part_t::KEEP; turn++)
        if (part_t::first() + turn * part_t::STEP < n) f(part_t::first() + turn * part_t::STEP, part.kept[turn]);
    for (int i = part_t::first() + part_t::KEEP * part_t::STEP; i < n; i += part_t::STEP) {
        float v[part_t::VEC];
        Way::load(t, row, i, v);
        f(i, v);
    }
}

/* f(i, a, b) for every piece of two rows. */
template <typename Way, int THREADS, typename F>
__device__ __forceinline__ void sg_row_each2(const sg_row_part<Way, THREADS> &a, const sg_row_tensor &ta, int64_t row_a,
                                             const sg_row_part<Way, THREADS> &b, const sg_row_tensor &tb, int64_t row_b,
                                             int n, F f) {
    typedef sg_row_part<Way, THREADS> part_t;
    SG_UNROLL
    for (int turn = 0; turn < part_t::KEEP; turn++)
        if (part_t::first() + turn * part_t::STEP < n)
            f(part_t::first() + turn * part_t::STEP, a.kept[turn], b.kept[turn]);
    for (int i = part_t::first() + part_t::KEEP * part_t::STEP; i < n; i += part_t::STEP) {
        float va[part_t::VEC], vb[part_t::VEC];
        Way::load(ta, row_a, i, va);
        Way::load(tb, row_b, i, vb);
        f(i, va, vb);
    }
}

/* ---- the host's part ------------------------------------------------------------------------------------------------------------ */

enum sg_row_way { SG_ROW_DENSE, SG_ROW_STRIDED, SG_ROW_MIXED };

/* Of a plan: N tensors that are walked row by row, and where their rows begin. */
template <int N> struct sg_row_walk {
    int n; /* elements of a row */
    int64_t rows;
    sg_layout<N> begin;
};

/* The tensors' descs, x first. SG_NO: fp64, or a row too long for 32-bit places. */
template <int N>
static sg_code sg_row_walk_of(const sg_op *op, const sg_desc *const *descs, sg_row_walk<N> *walk, sg_status *status) {
    enum { LONGEST = 1 << 30 };
    sg_desc leading[N];
    const sg_desc *at[N];
    int last = descs[0]->ndim - 1;
    for (int i = 0; i < op->n_in + op->n_out; i++)
        if (op->desc[i].dtype == SG_F64) return sg_cuda_refuse(op, "rows are computed in fp32, not fp64", status);
    if (descs[0]->size[last] > LONGEST) return sg_cuda_refuse(op, "a row has more than 2^30 elements", status);
    for (int i = 0; i < N; i++) {
        leading[i] = *descs[i];
        leading[i].ndim = last;
        leading[i].size[last] = leading[i].stride[last] = 0;
        at[i] = &leading[i];
    }
    walk->n = (int)descs[0]->size[last];
    walk->begin = sg_layout_of<N>(at);
    walk->rows = walk->begin.count;
    return SG_OK;
}

static inline sg_row_tensor sg_row_tensor_of(void *at, const sg_desc *desc) {
    return sg_row_tensor{at, desc->dtype, desc->stride[desc->ndim - 1]};
}

/* How all these tensors (walked ones and vectors of the last dim) can be read. */
static inline sg_row_way sg_row_way_of(int tensors, const sg_desc *const *descs, void *const *at) {
    int64_t bytes = (int64_t)sg_dtype_bytes((sg_dtype)descs[0]->dtype);
    bool dense = true;
    for (int i = 0; i < tensors; i++) {
        const sg_desc *d = descs[i];
        if (d->dtype != descs[0]->dtype) return SG_ROW_MIXED;
        int last = d->ndim - 1;
        dense = dense && d->stride[last] == 1 && d->size[last] * bytes % 16 == 0 && sg_is_aligned(at[i]);
        for (int k = 0; k < last; k++) dense = dense && d->stride[k] * bytes % 16 == 0;
    }
    return dense ? SG_ROW_DENSE : SG_ROW_STRIDED;
}

/* Calls launch(Way(), threads of a row as a type) for the way and the length of the rows. */
template <int VALUE> struct sg_constant {
    enum { value = VALUE };
};
template <typename Way, typename F> static cudaError_t sg_row_by_length(int n, F launch) {
    return n <= sg_row_part<Way, SG_ROW_WARP>::KEEP * sg_row_part<Way, SG_ROW_WARP>::STEP
               ? launch(Way(), sg_constant<SG_ROW_WARP>())
               : launch(Way(), sg_constant<SG_ROW_BLOCK>());
}
template <typename F> static cudaError_t sg_row_dispatch(sg_row_way way, int dtype, int n, F launch) {
    if (way == SG_ROW_MIXED) return launch(sg_mixed(), sg_constant<SG_ROW_BLOCK>());
    bool dense = way == SG_ROW_DENSE;
    switch (dtype) {
    case SG_BF16:
        return dense ? sg_row_by_length<sg_dense<__nv_bfloat16>>(n, launch)
                     : sg_row_by_length<sg_strided<__nv_bfloat16>>(n, launch);
    case SG_F16:
        return dense ? sg_row_by_length<sg_dense<__half>>(n, launch) : sg_row_by_length<sg_strided<__half>>(n, launch);
    default:
        return dense ? sg_row_by_length<sg_dense<float>>(n, launch) : sg_row_by_length<sg_strided<float>>(n, launch);
    }
}

/* Grid of a kernel in which THREADS threads take a row: blocks of SG_ROW_BLOCK threads. */
template <int THREADS> static inline dim3 sg_row_grid(int64_t rows) {
    int64_t per_block = SG_ROW_BLOCK / THREADS, blocks = (rows + per_block - 1) / per_block;
    return dim3((unsigned)(blocks < 0x7fffffff ? blocks : 0x7fffffff));
}
/* The first row of this thread's group, and how far the next one is. */
template <int THREADS> __device__ __forceinline__ int64_t sg_row_first() {
    return (int64_t)blockIdx.x * (SG_ROW_BLOCK / THREADS) + threadIdx.x / THREADS;
}
template <int THREADS> __device__ __forceinline__ int64_t sg_row_step() {
    return (int64_t)gridDim.x * (SG_ROW_BLOCK / THREADS);
}

#endif
