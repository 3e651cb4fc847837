/* values.cuh: elements of every dtype, computed in fp32 (integers of more than 24 bits in double or as they are). */
#ifndef SG_KERNELS_CUDA_VALUES_CUH
#define SG_KERNELS_CUDA_VALUES_CUH

#include "kernels/cuda/platform.h"
#include "kernels/op.h"

/* 16 bytes of elements: one access. */
template <typename T> struct alignas(16) sg_vector {
    enum { COUNT = 16 / sizeof(T) };
    T at[COUNT];
};

static inline bool sg_is_aligned(const void *at) {
    return (reinterpret_cast<uintptr_t>(at) & 15u) == 0;
}

__device__ __host__ __forceinline__ float sg_to_float(float v) {
    return v;
}
__device__ __host__ __forceinline__ float sg_to_float(double v) {
    return (float)v;
}
__device__ __host__ __forceinline__ float sg_to_float(__nv_bfloat16 v) {
    return __bfloat162float(v);
}
__device__ __host__ __forceinline__ float sg_to_float(__half v) {
    return __half2float(v);
}
__device__ __host__ __forceinline__ float sg_to_float(int64_t v) {
    return (float)v;
}
__device__ __host__ __forceinline__ float sg_to_float(int32_t v) {
    return (float)v;
}
__device__ __host__ __forceinline__ float sg_to_float(uint8_t v) {
    return (float)v;
}
__device__ __host__ __forceinline__ float sg_to_float(bool v) {
    return v ? 1.0f : 0.0f;
}

/* To integers: toward zero, as a C cast; to bool: is it not zero. */
template <typename T> __device__ __host__ __forceinline__ T sg_from_float(float v) {
    return (T)v;
}
template <> __device__ __host__ __forceinline__ __nv_bfloat16 sg_from_float<__nv_bfloat16>(float v) {
    return __float2bfloat16_rn(v);
}
template <> __device__ __host__ __forceinline__ __half sg_from_float<__half>(float v) {
    return __float2half_rn(v);
}
template <> __device__ __host__ __forceinline__ bool sg_from_float<bool>(float v) {
    return v != 0.0f;
}

/* An attribute, given in double, as one element. */
template <typename T> static T sg_from_double(double v) {
    return (T)v;
}
template <> inline __nv_bfloat16 sg_from_double<__nv_bfloat16>(double v) {
    return __float2bfloat16_rn((float)v);
}
template <> inline __half sg_from_double<__half>(double v) {
    return __float2half_rn((float)v);
}
template <> inline bool sg_from_double<bool>(double v) {
    return v != 0.0;
}

#endif
