/* cuda_fp16.h of the emulation: conversions alone. */
#ifndef SG_EMULATION_CUDA_FP16_H
#define SG_EMULATION_CUDA_FP16_H

#include "cuda_runtime.h"

struct __half {
    uint16_t bits;
};
static inline float __half2float(__half v) {
    unsigned sign = (unsigned)(v.bits & 0x8000u) << 16, exponent = v.bits >> 10 & 31u, fraction = v.bits & 0x3ffu;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    if (exponent) return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
    float tiny = (float)fraction * 0x1p-24f;
    return sign ? -tiny : tiny;
}
static inline __half __float2half_rn(float v) {
    unsigned u = __float_as_uint(v), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return __half{0x7fff};
    if (magnitude >= 0x477ff000u) return __half{(uint16_t)(sign | 0x7c00u)}; /* 65520 and more */
    if (magnitude < 0x38800000u) {                                           /* below 2^-14: multiples of 2^-24 */
        float scaled = __uint_as_float(magnitude) * 0x1p24f;
        return __half{(uint16_t)(sign | (unsigned)lrintf(scaled))};
    }
    unsigned rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return __half{(uint16_t)(sign | (rounded - 0x38000000u) >> 13)};
}

#endif
