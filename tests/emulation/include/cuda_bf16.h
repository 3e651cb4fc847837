/* cuda_bf16.h of the emulation: conversions alone. */
#ifndef SG_EMULATION_CUDA_BF16_H
#define SG_EMULATION_CUDA_BF16_H

#include "cuda_runtime.h"

struct __nv_bfloat16 {
    uint16_t bits;
};
static inline float __bfloat162float(__nv_bfloat16 v) {
    return __uint_as_float((unsigned)v.bits << 16);
}
static inline __nv_bfloat16 __float2bfloat16_rn(float v) {
    unsigned u = __float_as_uint(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) return __nv_bfloat16{0x7fff};
    return __nv_bfloat16{(uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16)};
}

#endif
