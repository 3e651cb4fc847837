/* block.cuh: reductions over a warp and over a block: sums, maxima, the place of a maximum, mean and variance.
 *
 * All threads take part and all get the result. The order of the operands depends on the block's shape alone, so results are
 * the same every time. Launch with SG_LAUNCH_TOGETHER and whole warps. */
#ifndef SG_KERNELS_CUDA_BLOCK_CUH
#define SG_KERNELS_CUDA_BLOCK_CUH

#include "kernels/cuda/platform.h"

#include <stdint.h>

enum { SG_WARP_LANES = 32, SG_BLOCK_WARPS_MOST = 32 };

__device__ __forceinline__ unsigned sg_thread_in_block() {
    return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ unsigned sg_lane() {
    return sg_thread_in_block() % SG_WARP_LANES;
}

/* ---- what can be reduced ------------------------------------------------------------------------------------------------ */

/* The largest value and where it was; the earliest place of equal ones. A NaN is larger than everything. */
struct sg_max_at {
    float value;
    int64_t at;
};

/* Count, mean and sum of squared differences from it (Welford; merged as Chan, Golub and LeVeque do). */
struct sg_moments {
    float count, mean, squares;
};

template <typename T> __device__ __forceinline__ T sg_lane_xor(T v, int mask) {
    return __shfl_xor_sync(SG_WARP, v, mask);
}
template <> __device__ __forceinline__ int64_t sg_lane_xor<int64_t>(int64_t v, int mask) {
    return (int64_t)__shfl_xor_sync(SG_WARP, (long long)v, mask);
}
template <> __device__ __forceinline__ sg_max_at sg_lane_xor<sg_max_at>(sg_max_at v, int mask) {
    sg_max_at other;
    other.value = sg_lane_xor(v.value, mask);
    other.at = sg_lane_xor(v.at, mask);
    return other;
}
template <> __device__ __forceinline__ sg_moments sg_lane_xor<sg_moments>(sg_moments v, int mask) {
    sg_moments other;
    other.count = sg_lane_xor(v.count, mask);
    other.mean = sg_lane_xor(v.mean, mask);
    other.squares = sg_lane_xor(v.squares, mask);
    return other;
}

/* Each operation gives its identity and joins two values. ORDERED: join(a, b) and join(b, a) round differently. */
template <typename T> struct sg_sum_of {
    typedef T value;
    enum { ORDERED = 0 };
    static __device__ __forceinline__ T none() { return (T)0; }
    static __device__ __forceinline__ T join(T a, T b) { return a + b; }
};
/* NaN wins, as in PyTorch. */
struct sg_max_of {
    typedef float value;
    enum { ORDERED = 0 };
    static __device__ __forceinline__ float none() { return -INFINITY; }
    static __device__ __forceinline__ float join(float a, float b) { return a > b || a != a ? a : b; }
};
struct sg_max_at_of {
    typedef sg_max_at value;
    enum { ORDERED = 0 };
    static __device__ __forceinline__ sg_max_at none() { return sg_max_at{-INFINITY, INT64_MAX}; }
    static __device__ __forceinline__ sg_max_at join(sg_max_at a, sg_max_at b) {
        bool a_nan = a.value != a.value, b_nan = b.value != b.value;
        if (a_nan != b_nan) return a_nan ? a : b;
        if (a_nan || a.value == b.value) return a.at <= b.at ? a : b;
        return a.value > b.value ? a : b;
    }
};
struct sg_moments_of {
    typedef sg_moments value;
    enum { ORDERED = 1 };
    static __device__ __forceinline__ sg_moments none() { return sg_moments{0, 0, 0}; }
    static __device__ __forceinline__ sg_moments join(sg_moments a, sg_moments b) {
        float count = a.count + b.count;
        if (a.count == 0) return b;
        if (b.count == 0) return a;
        float away = b.mean - a.mean, share = b.count / count;
        return sg_moments{count, a.mean + away * share, a.squares + b.squares + away * away * a.count * share};
    }
    static __device__ __forceinline__ sg_moments with(sg_moments a, float v) {
        float count = a.count + 1, away = v - a.mean, mean = a.mean + away / count;
        return sg_moments{count, mean, a.squares + away * (v - mean)};
    }
};

/* ---- over a warp, over a block --------------------------------------------------------------------------------------------- */

template <typename Op> __device__ __forceinline__ typename Op::value sg_warp_reduce(typename Op::value v) {
    unsigned lane = Op::ORDERED ? sg_lane() : 0;
    SG_UNROLL
    for (int mask = SG_WARP_LANES / 2; mask > 0; mask /= 2) {
        typename Op::value other = sg_lane_xor(v, mask);
        v = lane & (unsigned)mask ? Op::join(other, v) : Op::join(v, other);
    }
    return v;
}

template <typename Op> __device__ __forceinline__ typename Op::value sg_block_reduce(typename Op::value v) {
    typedef typename Op::value value;
    SG_SHARED(value, of_warp, SG_BLOCK_WARPS_MOST);
    unsigned thread = sg_thread_in_block(), lane = thread % SG_WARP_LANES;
    unsigned warps = blockDim.x * blockDim.y * blockDim.z / SG_WARP_LANES;
    v = sg_warp_reduce<Op>(v);
    __syncthreads(); /* of_warp may still be read by a reduction before this one */
    if (lane == 0) of_warp[thread / SG_WARP_LANES] = v;
    __syncthreads();
    return sg_warp_reduce<Op>(lane < warps ? of_warp[lane] : Op::none());
}

/* Over THREADS threads: a warp, or a whole block. */
template <typename Op, int THREADS>
__device__ __forceinline__ typename Op::value sg_group_reduce(typename Op::value v) {
    if (THREADS == SG_WARP_LANES) return sg_warp_reduce<Op>(v);
    return sg_block_reduce<Op>(v);
}

__device__ __forceinline__ float sg_warp_sum(float v) {
    return sg_warp_reduce<sg_sum_of<float>>(v);
}
__device__ __forceinline__ float sg_warp_max(float v) {
    return sg_warp_reduce<sg_max_of>(v);
}
__device__ __forceinline__ float sg_block_sum(float v) {
    return sg_block_reduce<sg_sum_of<float>>(v);
}
__device__ __forceinline__ float sg_block_max(float v) {
    return sg_block_reduce<sg_max_of>(v);
}

#endif
