/* convert.h: elements of every dtype to and from double, for filling, reading and writing tensors on the host. */
#ifndef SG_SIM_WALK_CONVERT_H
#define SG_SIM_WALK_CONVERT_H

#include <math.h>
#include <string.h>

#include "kernels/op.h"

/* Round to nearest even, as hardware does; NaN stays NaN. */
static inline uint16_t sg_bf16_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float sg_float_of_bf16(uint16_t value) {
    uint32_t bits = (uint32_t)value << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* IEEE binary16, round to nearest even. */
static inline uint16_t sg_f16_of(double value) {
    uint16_t sign = signbit(value) ? 0x8000u : 0;
    double a = fabs(value);
    if (isnan(a)) return (uint16_t)(sign | 0x7e00u);
    if (a >= 65520.0) return (uint16_t)(sign | 0x7c00u);
    if (a < 0x1p-14) return (uint16_t)(sign | (uint16_t)nearbyint(a * 0x1p24)); /* subnormal: multiples of 2^-24 */
    int exponent;
    double fraction = frexp(a, &exponent); /* [0.5, 1) */
    unsigned mantissa = (unsigned)nearbyint(fraction * 2048);
    return (uint16_t)(sign |
                      (uint16_t)(((unsigned)(exponent + 13) << 10) + mantissa)); /* carry runs into the exponent */
}

static inline double sg_double_of_f16(uint16_t value) {
    unsigned exponent = value >> 10 & 31u, mantissa = value & 1023u;
    double a = exponent == 0    ? mantissa * 0x1p-24
               : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                : ldexp(1024 + mantissa, (int)exponent - 25);
    return value & 0x8000u ? -a : a;
}

/* Element `index` of an array of `dtype`. Integers truncate, bool is value != 0. */
static inline void sg_element_set(void *array, sg_dtype dtype, int64_t index, double value) {
    switch (dtype) {
    case SG_F64: ((double *)array)[index] = value; break;
    case SG_F32: ((float *)array)[index] = (float)value; break;
    case SG_BF16: ((uint16_t *)array)[index] = sg_bf16_of((float)value); break;
    case SG_F16: ((uint16_t *)array)[index] = sg_f16_of(value); break;
    case SG_I64: ((int64_t *)array)[index] = (int64_t)value; break;
    case SG_I32: ((int32_t *)array)[index] = (int32_t)value; break;
    case SG_U8: ((uint8_t *)array)[index] = (uint8_t)value; break;
    case SG_BOOL: ((uint8_t *)array)[index] = value != 0; break;
    default: break;
    }
}

static inline double sg_element_get(const void *array, sg_dtype dtype, int64_t index) {
    switch (dtype) {
    case SG_F64: return ((const double *)array)[index];
    case SG_F32: return ((const float *)array)[index];
    case SG_BF16: return sg_float_of_bf16(((const uint16_t *)array)[index]);
    case SG_F16: return sg_double_of_f16(((const uint16_t *)array)[index]);
    case SG_I64: return (double)((const int64_t *)array)[index];
    case SG_I32: return ((const int32_t *)array)[index];
    case SG_U8:
    case SG_BOOL: return ((const uint8_t *)array)[index];
    default: return NAN;
    }
}

#endif
