/* access.c: between memory of any dtype and stride and row-major doubles. */
#include "tests/reference/reference.h"

#include <math.h>
#include <string.h>

/* Nearest number with `digits` binary digits and no exponent below `lowest` (of the leading digit), ties to even. */
static double nearest(double x, int digits, int lowest, double largest) {
    if (x == 0 || !isfinite(x)) return x;
    int exponent = ilogb(x);
    if (exponent < lowest) exponent = lowest;
    double unit = ldexp(1.0, exponent - digits + 1);
    double rounded = rint(x / unit) * unit;
    return fabs(rounded) > largest ? copysign(INFINITY, x) : rounded;
}

static double integer(double x, double low, double high) {
    if (isnan(x)) return 0;
    x = trunc(x);
    return x < low ? low : x > high ? high : x;
}

double sg_reference_round(sg_dtype dtype, double x) {
    switch (dtype) {
    case SG_F64: return x;
    case SG_F32: return (double)(float)x;
    case SG_BF16: return nearest(x, 8, -126, 0x1.FEp127);
    case SG_F16: return nearest(x, 11, -14, 65504.0);
    case SG_I64: return integer(x, -0x1p63, 0x1.fffffffffffffp62);
    case SG_I32: return integer(x, -0x1p31, 0x1p31 - 1);
    case SG_U8: return integer(x, 0, 255);
    case SG_BOOL: return x != 0;
    case SG_DTYPE_COUNT: break;
    }
    return NAN;
}

static uint16_t f16_bits(double x) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double size = fabs(x);
    if (isnan(x)) return (uint16_t)(sign | 0x7e00);
    if (isinf(x)) return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14) return (uint16_t)(sign | (uint16_t)ldexp(size, 24));
    int exponent = ilogb(size);
    return (uint16_t)(sign | ((exponent + 15) << 10) | ((uint16_t)ldexp(size, 10 - exponent) & 0x3ff));
}

static double f16_value(uint16_t bits) {
    int exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
    double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                  : exponent == 0 ? ldexp(fraction, -24)
                                  : ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

static double load(sg_dtype dtype, const unsigned char *at) {
    switch (dtype) {
    case SG_F64: {
        double v;
        memcpy(&v, at, sizeof v);
        return v;
    }
    case SG_F32: {
        float v;
        memcpy(&v, at, sizeof v);
        return (double)v;
    }
    case SG_BF16: {
        uint16_t half;
        memcpy(&half, at, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        float v;
        memcpy(&v, &bits, sizeof v);
        return (double)v;
    }
    case SG_F16: {
        uint16_t half;
        memcpy(&half, at, sizeof half);
        return f16_value(half);
    }
    case SG_I64: {
        int64_t v;
        memcpy(&v, at, sizeof v);
        return (double)v;
    }
    case SG_I32: {
        int32_t v;
        memcpy(&v, at, sizeof v);
        return v;
    }
    case SG_U8: return *at;
    case SG_BOOL: return *at != 0;
    case SG_DTYPE_COUNT: break;
    }
    return NAN;
}

static void store(sg_dtype dtype, unsigned char *at, double value) {
    double x = sg_reference_round(dtype, value);
    switch (dtype) {
    case SG_F64: memcpy(at, &x, sizeof x); break;
    case SG_F32: {
        float v = (float)x;
        memcpy(at, &v, sizeof v);
        break;
    }
    case SG_BF16: {
        float v = (float)x;
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        uint16_t half = (uint16_t)(isnan(x) ? 0x7fc0 : bits >> 16);
        memcpy(at, &half, sizeof half);
        break;
    }
    case SG_F16: {
        uint16_t half = f16_bits(x);
        memcpy(at, &half, sizeof half);
        break;
    }
    case SG_I64: {
        int64_t v = (int64_t)x;
        memcpy(at, &v, sizeof v);
        break;
    }
    case SG_I32: {
        int32_t v = (int32_t)x;
        memcpy(at, &v, sizeof v);
        break;
    }
    case SG_U8:
    case SG_BOOL: *at = (unsigned char)x; break;
    case SG_DTYPE_COUNT: break;
    }
}

/* Steps through row-major positions; `offset` is the current element's, in elements. */
typedef struct walk {
    int64_t index[SG_MAX_DIMS], offset;
} walk;

static void step(const sg_desc *desc, walk *w) {
    for (int d = desc->ndim - 1; d >= 0; d--) {
        w->offset += desc->stride[d];
        if (++w->index[d] < desc->size[d]) return;
        w->offset -= desc->size[d] * desc->stride[d];
        w->index[d] = 0;
    }
}

void sg_reference_read(const sg_desc *desc, const void *at, double *out) {
    sg_dtype dtype = (sg_dtype)desc->dtype;
    int64_t count = sg_desc_count(desc), bytes = (int64_t)sg_dtype_bytes(dtype);
    if (dtype == SG_F64 && sg_desc_is_contiguous(desc)) {
        memcpy(out, at, (size_t)(count * bytes));
        return;
    }
    walk w = {{0}, 0};
    for (int64_t i = 0; i < count; i++, step(desc, &w))
        out[i] = load(dtype, (const unsigned char *)at + w.offset * bytes);
}

void sg_reference_write(const sg_desc *desc, void *at, const double *values) {
    sg_dtype dtype = (sg_dtype)desc->dtype;
    int64_t count = sg_desc_count(desc), bytes = (int64_t)sg_dtype_bytes(dtype);
    if (dtype == SG_F64 && sg_desc_is_contiguous(desc)) {
        memcpy(at, values, (size_t)(count * bytes));
        return;
    }
    walk w = {{0}, 0};
    for (int64_t i = 0; i < count; i++, step(desc, &w)) store(dtype, (unsigned char *)at + w.offset * bytes, values[i]);
}
