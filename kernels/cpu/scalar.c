#include "kernels/cpu/scalar.h"

#include "kernels/cpu/loops.h"

#include <math.h>
#include <string.h>

/* ---- elements --------------------------------------------------------------------------------------------------------- */

static double load_narrow(sg_dtype dtype, const void *at) {
    float x = 0;
    sg_loops_baseline.load[dtype](&x, at, 1, 1);
    return (double)x;
}

double sg_scalar_load(sg_dtype dtype, const void *at) {
    if (dtype == SG_F64) return *(const double *)at;
    if (dtype == SG_F32) return (double)*(const float *)at;
    if (dtype == SG_I64) return (double)*(const int64_t *)at;
    if (dtype == SG_I32) return (double)*(const int32_t *)at;
    return load_narrow(dtype, at);
}

static int64_t to_i64(double x) {
    if (!(x >= -9223372036854775808.0)) return isnan(x) ? 0 : INT64_MIN;
    return x >= 9223372036854775808.0 ? INT64_MAX : (int64_t)x;
}

static int32_t to_i32(double x) {
    if (!(x >= -2147483648.0)) return isnan(x) ? 0 : INT32_MIN;
    return x >= 2147483647.0 ? INT32_MAX : (int32_t)x;
}

/* fp32 that rounds to the same bf16 or fp16 as x does: truncated, with the last bit set where something was cut off
 * ("round to odd"), so that rounding twice rounds once. */
static float narrowed(double x) {
    float nearest = (float)x;
    if ((double)nearest == x || isnan(x) || isinf(nearest)) return nearest;
    float toward = fabs((double)nearest) > fabs(x) ? nextafterf(nearest, 0.0f) : nearest;
    uint32_t bits;
    memcpy(&bits, &toward, sizeof bits);
    bits |= 1u;
    memcpy(&toward, &bits, sizeof bits);
    return toward;
}

void sg_scalar_store(sg_dtype dtype, void *at, double value) {
    if (dtype == SG_F64) {
        *(double *)at = value;
    } else if (dtype == SG_F32) {
        *(float *)at = (float)value;
    } else if (dtype == SG_I64) {
        *(int64_t *)at = to_i64(value);
    } else if (dtype == SG_I32) {
        *(int32_t *)at = to_i32(value);
    } else if (dtype == SG_BOOL) {
        *(uint8_t *)at = value != 0;
    } else {
        float x = narrowed(value);
        sg_loops_baseline.store[dtype](at, &x, 1, 1);
    }
}

void sg_scalar_load_run(sg_dtype dtype, double *to, const void *from, int64_t n, int64_t stride) {
    int64_t step = stride * (int64_t)sg_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) to[i] = sg_scalar_load(dtype, (const char *)from + i * step);
}

void sg_scalar_store_run(sg_dtype dtype, void *to, const double *from, int64_t n, int64_t stride) {
    int64_t step = stride * (int64_t)sg_dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) sg_scalar_store(dtype, (char *)to + i * step, from[i]);
}

/* ---- functions ---------------------------------------------------------------------------------------------------------- */

static const double SQRT_2_OVER_PI = 0.79788456080286535588, GELU_CUBE = 0.044715;

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double gelu_gate(double x) {
    return sigmoid(2 * SQRT_2_OVER_PI * (x + GELU_CUBE * x * x * x));
}
static double normal_cdf(double x) {
    return 0.5 * erfc(-x * 0.70710678118654752440);
}
static double mish_gate(double x) {
    return tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
}
static double sign_of(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : 0;
}

double sg_scalar_unary(sg_fn fn, double x, double a, double b) {
    switch (fn) {
    case SG_FN_RELU: return x < 0 ? 0 : x;
    case SG_FN_GELU_TANH: return x * gelu_gate(x);
    case SG_FN_GELU_ERF: return x * normal_cdf(x);
    case SG_FN_SILU: return x * sigmoid(x);
    case SG_FN_ELU: return x > 0 ? x : a * expm1(x);
    case SG_FN_TANH: return tanh(x);
    case SG_FN_SIGMOID: return sigmoid(x);
    case SG_FN_EXP: return exp(x);
    case SG_FN_LOG: return log(x);
    case SG_FN_SIN: return sin(x);
    case SG_FN_COS: return cos(x);
    case SG_FN_SQRT: return sqrt(x);
    case SG_FN_RSQRT: return 1 / sqrt(x);
    case SG_FN_SQUARE: return x * x;
    case SG_FN_ABS: return fabs(x);
    case SG_FN_NEG: return -x;
    case SG_FN_SIGN: return sign_of(x);
    case SG_FN_RECIPROCAL: return 1 / x;
    case SG_FN_AFFINE: return a * x + b;
    case SG_FN_CLAMP: return x < a ? a : x > b ? b : x;
    case SG_FN_NOT: return x == 0;
    case SG_FN_POW: return pow(x, a);
    case SG_FN_DIV_SCALAR: return x / a;
    case SG_FN_FLOOR: return floor(x);
    case SG_FN_MISH: return x * mish_gate(x);
    default: return x; /* NONE: a conversion */
    }
}

double sg_scalar_slope(sg_fn fn, double s, double a, double b) {
    switch (fn) {
    case SG_FN_RELU: return s > 0;
    case SG_FN_GELU_TANH: {
        double g = gelu_gate(s), spread = g * (1 - g);
        return g + (spread == 0 ? 0 : 2 * s * spread * SQRT_2_OVER_PI * (1 + 3 * GELU_CUBE * s * s));
    }
    case SG_FN_GELU_ERF: return normal_cdf(s) + s * 0.39894228040143267794 * exp(-0.5 * s * s);
    case SG_FN_SILU: return sigmoid(s) * (1 + s * (1 - sigmoid(s)));
    case SG_FN_MISH: return mish_gate(s) + s * (1 - mish_gate(s) * mish_gate(s)) * sigmoid(s);
    case SG_FN_ELU: return s > 0 ? 1 : a * exp(s);
    case SG_FN_TANH: return 1 - s * s;
    case SG_FN_SIGMOID: return s * (1 - s);
    case SG_FN_EXP: return s;
    case SG_FN_LOG: return 1 / s;
    case SG_FN_SIN: return cos(s);
    case SG_FN_COS: return -sin(s);
    case SG_FN_SQRT: return 1 / (2 * s);
    case SG_FN_RSQRT: return -0.5 * s * s * s;
    case SG_FN_SQUARE: return 2 * s;
    case SG_FN_ABS: return sign_of(s);
    case SG_FN_NEG: return -1;
    case SG_FN_RECIPROCAL: return -1 / (s * s);
    case SG_FN_AFFINE: return a;
    case SG_FN_CLAMP: return s >= a && s <= b;
    case SG_FN_POW: return a * pow(s, a - 1);
    case SG_FN_DIV_SCALAR: return 1 / a;
    default: return 0;
    }
}

double sg_scalar_binary(sg_fn fn, double x, double y, double a) {
    switch (fn) {
    case SG_FN_ADD: return x + a * y;
    case SG_FN_SUB: return x - a * y;
    case SG_FN_MUL: return x * y;
    case SG_FN_DIV: return x / y;
    case SG_FN_MAX: return x > y || isnan(x) ? x : y;
    case SG_FN_MIN: return x < y || isnan(x) ? x : y;
    case SG_FN_LERP: return x + a * (y - x);
    case SG_FN_SQUARED_DIFF: return (x - y) * (x - y);
    case SG_FN_ABS_DIFF: return fabs(x - y);
    case SG_FN_EQ: return x == y;
    case SG_FN_NE: return x != y;
    case SG_FN_LT: return x < y;
    case SG_FN_LE: return x <= y;
    case SG_FN_GT: return x > y;
    case SG_FN_GE: return x >= y;
    case SG_FN_AND: return x != 0 && y != 0;
    case SG_FN_OR: return x != 0 || y != 0;
    case SG_FN_ATAN2: return atan2(x, y);
    case SG_FN_POWV: return pow(x, y);
    default: return 0;
    }
}

double sg_scalar_ternary(sg_fn fn, double x, double y, double z, double a, double b) {
    switch (fn) {
    case SG_FN_WHERE: return x != 0 ? y : z;
    case SG_FN_ADDCMUL: return x + a * y * z;
    case SG_FN_ADDCDIV: return x + a * y / z;
    case SG_FN_SQUARED_DIFF_BWD: return a * 2 * (y - z) * x;
    case SG_FN_CLAMP_BWD: return y >= a && y <= b ? x : 0;
    case SG_FN_MASKED_FILL: return y != 0 ? a : x;
    default: return 0;
    }
}
