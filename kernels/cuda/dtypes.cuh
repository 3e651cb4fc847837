/* dtypes.cuh: elements whose dtype is known at run time only. C, what is computed in: float, double (f64, i64, i32) or int64_t
 * (integers among themselves). */
#ifndef SG_KERNELS_CUDA_DTYPES_CUH
#define SG_KERNELS_CUDA_DTYPES_CUH

#include "kernels/cuda/values.cuh"

/* fp32 that rounds to the same bf16 or fp16 as v does: cut off, with the last bit set where something was lost ("round to
 * odd"), so that rounding twice is rounding once. */
__device__ __host__ __forceinline__ float sg_narrowed(double v) {
    float nearest = (float)v;
    double back = (double)nearest;
    if (back == v || v != v) return nearest;
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof bits);
    if ((bits & 0x7fffffffu) == 0x7f800000u) return nearest;
    if ((back < 0 ? -back : back) > (v < 0 ? -v : v)) bits--;
    bits |= 1u;
    memcpy(&nearest, &bits, sizeof bits);
    return nearest;
}

/* One value as T: floating point to nearest, integers toward zero, bool: is it not zero. */
template <typename T, typename C> __device__ __host__ __forceinline__ T sg_value_as(C v) {
    return (T)v;
}
#define SG_VALUE_AS(T, C, expression)                                                                                  \
    template <> __device__ __host__ __forceinline__ T sg_value_as<T, C>(C v) {                                         \
        return expression;                                                                                             \
    }
SG_VALUE_AS(__nv_bfloat16, float, __float2bfloat16_rn(v))
SG_VALUE_AS(__half, float, __float2half_rn(v))
SG_VALUE_AS(bool, float, v != 0.0f)
SG_VALUE_AS(__nv_bfloat16, double, __float2bfloat16_rn(sg_narrowed(v)))
SG_VALUE_AS(__half, double, __float2half_rn(sg_narrowed(v)))
SG_VALUE_AS(bool, double, v != 0.0)
SG_VALUE_AS(__nv_bfloat16, int64_t, __float2bfloat16_rn(sg_narrowed((double)v)))
SG_VALUE_AS(__half, int64_t, __float2half_rn(sg_narrowed((double)v)))
SG_VALUE_AS(bool, int64_t, v != 0)
#undef SG_VALUE_AS

template <typename C, typename T> __device__ __host__ __forceinline__ C sg_value_of(T v) {
    return (C)v;
}
#define SG_VALUE_OF(C, T, expression)                                                                                  \
    template <> __device__ __host__ __forceinline__ C sg_value_of<C, T>(T v) {                                         \
        return (C)expression;                                                                                          \
    }
SG_VALUE_OF(float, __nv_bfloat16, __bfloat162float(v))
SG_VALUE_OF(double, __nv_bfloat16, __bfloat162float(v))
SG_VALUE_OF(int64_t, __nv_bfloat16, __bfloat162float(v))
SG_VALUE_OF(float, __half, __half2float(v))
SG_VALUE_OF(double, __half, __half2float(v))
SG_VALUE_OF(int64_t, __half, __half2float(v))
#undef SG_VALUE_OF

/* Calls body(T{}) for the dtype. */
#define SG_FOR_DTYPE(dtype, T, ...)                                                                                    \
    switch (dtype) {                                                                                                   \
    case SG_F32: {                                                                                                     \
        typedef float T;                                                                                               \
        __VA_ARGS__                                                                                                    \
    } break;                                                                                                           \
    case SG_BF16: {                                                                                                    \
        typedef __nv_bfloat16 T;                                                                                       \
        __VA_ARGS__                                                                                                    \
    } break;                                                                                                           \
    case SG_F16: {                                                                                                     \
        typedef __half T;                                                                                              \
        __VA_ARGS__                                                                                                    \
    } break;                                                                                                           \
    case SG_F64: {                                                                                                     \
        typedef double T;                                                                                              \
        __VA_ARGS__                                                                                                    \
    } break;                                                                                                           \
    case SG_I64: {                                                                                                     \
        typedef int64_t T;                                                                                             \
        __VA_ARGS__                                                                                                    \
    } break;                                                                                                           \
    case SG_I32: {                                                                                                     \
        typedef int32_t T;                                                                                             \
        __VA_ARGS__                                                                                                    \
    } break;                                                                                                           \
    case SG_U8: {                                                                                                      \
        typedef uint8_t T;                                                                                             \
        __VA_ARGS__                                                                                                    \
    } break;                                                                                                           \
    default: {                                                                                                         \
        typedef bool T;                                                                                                \
        __VA_ARGS__                                                                                                    \
    } break;                                                                                                           \
    }

/* Elements at[offset[0..n)], loaded together: the dtype is asked once for all. */
template <typename C, int U>
__device__ __forceinline__ void sg_load_any(int dtype, const void *at, const int64_t *offset, int n, C *to) {
    SG_FOR_DTYPE(dtype, T,
                 SG_UNROLL for (int u = 0; u < U; u++) if (u < n) to[u] =
                     sg_value_of<C, T>(static_cast<const T *>(at)[offset[u]]);)
}

template <typename C, int U>
__device__ __forceinline__ void sg_store_any(int dtype, void *at, const int64_t *offset, int n, const C *from) {
    SG_FOR_DTYPE(dtype, T,
                 SG_UNROLL for (int u = 0; u < U; u++) if (u < n) static_cast<T *>(at)[offset[u]] =
                     sg_value_as<T, C>(from[u]);)
}

template <typename C> __device__ __forceinline__ C sg_load_one(int dtype, const void *at, int64_t offset) {
    C value[1] = {C(0)};
    sg_load_any<C, 1>(dtype, at, &offset, 1, value);
    return value[0];
}

template <typename C> __device__ __forceinline__ void sg_store_one(int dtype, void *at, int64_t offset, C value) {
    sg_store_any<C, 1>(dtype, at, &offset, 1, &value);
}

static inline bool sg_needs_double(int dtype) {
    return dtype == SG_F64 || dtype == SG_I64 || dtype == SG_I32;
}
static inline bool sg_is_integer(int dtype) {
    return dtype == SG_I64 || dtype == SG_I32 || dtype == SG_U8 || dtype == SG_BOOL;
}

#endif
