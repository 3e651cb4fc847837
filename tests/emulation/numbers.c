/* numbers.c: fp32, fp64, bf16 and fp16 as doubles and back. */
#include "tests/emulation/numbers.h"

#include <math.h>
#include <string.h>

size_t sg_emu_type_bytes(cudaDataType type) {
    switch (type) {
    case CUDA_R_64F: return 8;
    case CUDA_R_32F: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    }
    return 0;
}

static uint32_t bits_of(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
static float float_of(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static double read_f16(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 0x3ff;
    double v = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
               : exponent     ? ldexp(1024 + fraction, exponent - 25)
                              : ldexp(fraction, -24);
    return bits & 0x8000 ? -v : v;
}

/* A value rounded to `bits` bits of fraction, no smaller unit than `least`. */
static double round_to(double v, int bits, double least) {
    if (!isfinite(v) || v == 0) return v;
    int exponent;
    (void)frexp(v, &exponent);
    double unit = fmax(ldexp(1, exponent - 1 - bits), least);
    return nearbyint(v / unit) * unit;
}

static uint16_t write_f16(double v) {
    uint16_t sign = signbit(v) ? 0x8000 : 0;
    if (isnan(v)) return 0x7fff;
    double r = fabs(round_to(v, 10, 0x1p-24));
    if (r > 65504) return sign | 0x7c00;
    if (r < 0x1p-14) return sign | (uint16_t)(r * 0x1p24);
    int exponent;
    double fraction = frexp(r, &exponent); /* 0.5 .. 1 */
    return (uint16_t)(sign | (uint16_t)((exponent + 14) << 10) | ((uint16_t)ldexp(fraction, 11) & 0x3ff));
}

static uint16_t write_bf16(double v) {
    if (isnan(v)) return 0x7fff;
    return (uint16_t)(bits_of((float)round_to(v, 7, 0x1p-133)) >> 16);
}

double sg_emu_read(const void *memory, cudaDataType type, int64_t i) {
    switch (type) {
    case CUDA_R_64F: return ((const double *)memory)[i];
    case CUDA_R_16F: return read_f16(((const uint16_t *)memory)[i]);
    case CUDA_R_16BF: return (double)float_of((uint32_t)((const uint16_t *)memory)[i] << 16);
    default: return (double)((const float *)memory)[i];
    }
}

void sg_emu_write(void *memory, cudaDataType type, int64_t i, double value) {
    switch (type) {
    case CUDA_R_64F: ((double *)memory)[i] = value; break;
    case CUDA_R_16F: ((uint16_t *)memory)[i] = write_f16(value); break;
    case CUDA_R_16BF: ((uint16_t *)memory)[i] = write_bf16(value); break;
    default: ((float *)memory)[i] = (float)value; break;
    }
}

double sg_emu_round(double value, sg_emu_rounding rounding) {
    switch (rounding) {
    case SG_EMU_TO_TF32: return round_to(value, 10, 0x1p-136);
    case SG_EMU_TO_BF16: return round_to(value, 7, 0x1p-133);
    case SG_EMU_TO_F16: return read_f16(write_f16(value));
    default: return value;
    }
}
