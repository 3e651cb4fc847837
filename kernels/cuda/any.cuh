/* any.cuh: elements whose dtype is known when the kernel runs: for rare mixtures, where a kernel for each would be many. */
#ifndef SG_KERNELS_CUDA_ANY_CUH
#define SG_KERNELS_CUDA_ANY_CUH

#include "kernels/cuda/values.cuh"

__device__ __forceinline__ float sg_any_load(const void *from, int dtype, int64_t i) {
    switch (dtype) {
    case SG_BF16: return sg_to_float(static_cast<const __nv_bfloat16 *>(from)[i]);
    case SG_F16: return sg_to_float(static_cast<const __half *>(from)[i]);
    case SG_F32: return static_cast<const float *>(from)[i];
    case SG_I64: return (float)static_cast<const int64_t *>(from)[i];
    case SG_I32: return (float)static_cast<const int32_t *>(from)[i];
    case SG_U8: return (float)static_cast<const uint8_t *>(from)[i];
    default: return static_cast<const bool *>(from)[i] ? 1.0f : 0.0f;
    }
}

__device__ __forceinline__ void sg_any_store(void *to, int dtype, int64_t i, float v) {
    switch (dtype) {
    case SG_BF16: static_cast<__nv_bfloat16 *>(to)[i] = sg_from_float<__nv_bfloat16>(v); break;
    case SG_F16: static_cast<__half *>(to)[i] = sg_from_float<__half>(v); break;
    case SG_F32: static_cast<float *>(to)[i] = v; break;
    case SG_I64: static_cast<int64_t *>(to)[i] = (int64_t)v; break;
    case SG_I32: static_cast<int32_t *>(to)[i] = (int32_t)v; break;
    case SG_U8: static_cast<uint8_t *>(to)[i] = (uint8_t)v; break;
    default: static_cast<bool *>(to)[i] = v != 0.0f; break;
    }
}

/* Integers and bools as they are. */
__device__ __forceinline__ int64_t sg_any_load_integer(const void *from, int dtype, int64_t i) {
    switch (dtype) {
    case SG_I64: return static_cast<const int64_t *>(from)[i];
    case SG_I32: return static_cast<const int32_t *>(from)[i];
    case SG_U8: return static_cast<const uint8_t *>(from)[i];
    default: return static_cast<const bool *>(from)[i] ? 1 : 0;
    }
}

__device__ __forceinline__ void sg_any_store_integer(void *to, int dtype, int64_t i, int64_t v) {
    switch (dtype) {
    case SG_I64: static_cast<int64_t *>(to)[i] = v; break;
    case SG_I32: static_cast<int32_t *>(to)[i] = (int32_t)v; break;
    case SG_U8: static_cast<uint8_t *>(to)[i] = (uint8_t)v; break;
    case SG_BOOL: static_cast<bool *>(to)[i] = v != 0; break;
    default: sg_any_store(to, dtype, i, (float)v); break;
    }
}

#endif
