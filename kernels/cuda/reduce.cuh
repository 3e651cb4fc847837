/* reduce.cuh: what a reduction reads and what it does with it; reduce.cu has the kernels. */
#ifndef SG_KERNELS_CUDA_REDUCE_CUH
#define SG_KERNELS_CUDA_REDUCE_CUH

#include "kernels/cuda/any.cuh"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/values.cuh"

/* ---- sources: VEC elements of x at offset i ----------------------------------------------------------------------------- */

template <typename T> struct sg_reduce_dense {
    typedef float value;
    enum { VEC = 16 / sizeof(T) };
    static __device__ __forceinline__ void load(const void *x, int, int64_t i, float (&v)[VEC]) {
        sg_vector<T> at = *reinterpret_cast<const sg_vector<T> *>(static_cast<const T *>(x) + i);
        SG_UNROLL
        for (int j = 0; j < VEC; j++) v[j] = sg_to_float(at.at[j]);
    }
};
template <typename T> struct sg_reduce_plain {
    typedef float value;
    enum { VEC = 1 };
    static __device__ __forceinline__ void load(const void *x, int, int64_t i, float (&v)[1]) {
        v[0] = sg_to_float(static_cast<const T *>(x)[i]);
    }
};
/* Integers and bools of any width. */
struct sg_reduce_integers {
    typedef int64_t value;
    enum { VEC = 1 };
    static __device__ __forceinline__ void load(const void *x, int dtype, int64_t i, int64_t (&v)[1]) {
        v[0] = sg_any_load_integer(x, dtype, i);
    }
};

/* ---- operations: none, join as in block.cuh; with: one more element; put: the result --------------------------------------- */

struct sg_reduce_to {
    void *y;
    int dtype, fn;
    int64_t terms;
};

/* SUM and MEAN. */
template <typename V> struct sg_reduce_sum : sg_sum_of<V> {
    static __device__ __forceinline__ V with(V total, V v, int) { return total + v; }
    static __device__ __forceinline__ void put(const sg_reduce_to &to, int64_t i, V total) {
        if (to.fn == SG_FN_MEAN)
            sg_any_store(to.y, to.dtype, i, (float)total / (float)to.terms);
        else if (sizeof(V) == sizeof(int64_t))
            sg_any_store_integer(to.y, to.dtype, i, (int64_t)total);
        else
            sg_any_store(to.y, to.dtype, i, (float)total);
    }
};

/* MAX, MIN and ANY are all a largest value: of x, of x the other way round, of x != 0. */
__device__ __forceinline__ float sg_turned(float v) {
    return -v;
}
__device__ __forceinline__ int64_t sg_turned(int64_t v) {
    return ~v;
}
template <typename V> struct sg_reduce_best {
    typedef V value;
    enum { ORDERED = 0 };
    static __device__ __forceinline__ V none();
    static __device__ __forceinline__ V join(V a, V b) { return a > b || a != a ? a : b; }
    static __device__ __forceinline__ V with(V best, V v, int fn) {
        V seen = fn == SG_FN_MAX ? v : fn == SG_FN_MIN ? sg_turned(v) : (V)(v != (V)0);
        return join(best, seen);
    }
    static __device__ __forceinline__ void put(const sg_reduce_to &to, int64_t i, V best) {
        V v = to.fn == SG_FN_MIN ? sg_turned(best) : best;
        if (sizeof(V) == sizeof(int64_t))
            sg_any_store_integer(to.y, to.dtype, i, (int64_t)v);
        else
            sg_any_store(to.y, to.dtype, i, (float)v);
    }
};
template <> __device__ __forceinline__ float sg_reduce_best<float>::none() {
    return -INFINITY;
}
template <> __device__ __forceinline__ int64_t sg_reduce_best<int64_t>::none() {
    return INT64_MIN;
}

/* STD, unbiased. */
struct sg_reduce_std : sg_moments_of {
    template <typename V> static __device__ __forceinline__ sg_moments with(sg_moments m, V v, int) {
        return sg_moments_of::with(m, (float)v);
    }
    static __device__ __forceinline__ void put(const sg_reduce_to &to, int64_t i, sg_moments m) {
        sg_any_store(to.y, to.dtype, i, sqrtf(m.squares / (m.count - 1.0f)));
    }
};

#endif
