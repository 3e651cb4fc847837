/* functions.c: the functions of UNARY, UNARY_BWD, BINARY and TERNARY on runs. */
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/math.h"

#define SQRT_2_OVER_PI  0.7978845608f
#define GELU_CUBE       0.044715f
#define SQRT_1_OVER_2   0.7071067812f
#define SQRT_1_OVER_2PI 0.3989422804f

/* ---- one operand -------------------------------------------------------------------------------------------------- */

#define UNARY(fn, value)                                                                                               \
    static void unary_##fn(float *w, const float *xs, int64_t n, float a, float b) {                                   \
        (void)a, (void)b;                                                                                              \
        SG_SIMD for (int64_t i = 0; i < n; i++) {                                                                      \
            float x = xs[i];                                                                                           \
            w[i] = (value);                                                                                            \
        }                                                                                                              \
    }

/* x (1 + tanh u) / 2 = x sigmoid(2 u): no cancellation for negative x. */
static inline float gelu_tanh(float x) {
    return x * sg_sigmoid(2.0f * SQRT_2_OVER_PI * (x + GELU_CUBE * x * x * x));
}

static inline float elu(float x, float a) {
    float bounded = x < 0.0f ? x : 0.0f;
    return x > 0.0f ? x : x != x ? x : a * sg_expm1(bounded);
}

/* tanh(log(1 + e^x)) = u / (u + 2) with u = e^x (e^x + 2); 1 to the last bit beyond 20, where e^x is held. */
static inline float mish_gate(float x) {
    float e = sg_exp(x > 20.0f ? 20.0f : x), u = e * (e + 2.0f);
    return u / (u + 2.0f);
}

static inline float sign_of(float x) {
    return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : 0.0f;
}

UNARY(RELU, x < 0.0f ? 0.0f : x)
UNARY(GELU_TANH, gelu_tanh(x))
UNARY(GELU_ERF, 0.5f * x * (1.0f + sg_erf(x * SQRT_1_OVER_2)))
UNARY(SILU, x *sg_sigmoid(x))
UNARY(ELU, elu(x, a))
UNARY(MISH, x *mish_gate(x))
UNARY(TANH, sg_tanh(x))
UNARY(SIGMOID, sg_sigmoid(x))
UNARY(EXP, sg_exp(x))
UNARY(LOG, sg_log(x))
UNARY(SQRT, sqrtf(x))
UNARY(RSQRT, 1.0f / sqrtf(x))
UNARY(SQUARE, x *x)
UNARY(ABS, fabsf(x))
UNARY(NEG, -x)
UNARY(SIGN, sign_of(x))
UNARY(RECIPROCAL, 1.0f / x)
UNARY(AFFINE, a *x + b)
UNARY(CLAMP, x<a ? a : x> b ? b : x)
UNARY(NOT, x == 0.0f ? 1.0f : 0.0f)
UNARY(DIV_SCALAR, x / a)
UNARY(FLOOR, floorf(x))

/* Arguments beyond the reduction's reach are rare: then the whole run goes through libm. */
static int all_within(const float *x, int64_t n, float limit) {
    int beyond = 0;
#pragma omp simd reduction(| : beyond)
    for (int64_t i = 0; i < n; i++) beyond |= !(fabsf(x[i]) <= limit);
    return !beyond;
}

static void unary_SIN(float *w, const float *x, int64_t n, float a, float b) {
    (void)a, (void)b;
    if (all_within(x, n, SG_SIN_LIMIT)) {
        SG_SIMD for (int64_t i = 0; i < n; i++) w[i] = sg_sin_reduced(x[i], 0);
    } else {
        for (int64_t i = 0; i < n; i++) w[i] = sinf(x[i]);
    }
}

static void unary_COS(float *w, const float *x, int64_t n, float a, float b) {
    (void)a, (void)b;
    if (all_within(x, n, SG_SIN_LIMIT)) {
        SG_SIMD for (int64_t i = 0; i < n; i++) w[i] = sg_sin_reduced(x[i], 1);
    } else {
        for (int64_t i = 0; i < n; i++) w[i] = cosf(x[i]);
    }
}

#define POWER(exponent, value)                                                                                         \
    if (a == (exponent)) {                                                                                             \
        SG_SIMD for (int64_t i = 0; i < n; i++) {                                                                      \
            float x = xs[i];                                                                                           \
            w[i] = (value);                                                                                            \
        }                                                                                                              \
        return;                                                                                                        \
    }

/* The exponents that losses, norms and their derivatives use cost no logarithm. */
static void unary_POW(float *w, const float *xs, int64_t n, float a, float b) {
    (void)b;
    POWER(1.0f, x)
    POWER(2.0f, x * x)
    POWER(3.0f, x * x * x)
    POWER(-1.0f, 1.0f / x)
    POWER(-2.0f, 1.0f / (x * x))
    for (int64_t i = 0; i < n; i++) w[i] = powf(xs[i], a);
}

#define ENTRY(kind, fn) [SG_FN_##fn] = kind##_##fn
const sg_loop1 SG_NAME(sg_unary)[SG_FN_COUNT] = {
    ENTRY(unary, MISH),  ENTRY(unary, RELU), ENTRY(unary, GELU_TANH), ENTRY(unary, GELU_ERF),   ENTRY(unary, SILU),
    ENTRY(unary, ELU),   ENTRY(unary, TANH), ENTRY(unary, SIGMOID),   ENTRY(unary, EXP),        ENTRY(unary, LOG),
    ENTRY(unary, SIN),   ENTRY(unary, COS),  ENTRY(unary, SQRT),      ENTRY(unary, RSQRT),      ENTRY(unary, SQUARE),
    ENTRY(unary, ABS),   ENTRY(unary, NEG),  ENTRY(unary, SIGN),      ENTRY(unary, RECIPROCAL), ENTRY(unary, AFFINE),
    ENTRY(unary, CLAMP), ENTRY(unary, NOT),  ENTRY(unary, POW),       ENTRY(unary, DIV_SCALAR), ENTRY(unary, FLOOR),
};

/* ---- its derivative: dx = dy f'(s) ------------------------------------------------------------------------------------ */

#define UNARY_BWD(fn, value)                                                                                           \
    static void unary_bwd_##fn(float *w, const float *dys, const float *ss, int64_t n, float a, float b) {             \
        (void)a, (void)b, (void)ss;                                                                                    \
        SG_SIMD for (int64_t i = 0; i < n; i++) {                                                                      \
            float dy = dys[i], s = ss[i];                                                                              \
            (void)s;                                                                                                   \
            w[i] = (value);                                                                                            \
        }                                                                                                              \
    }

static inline float gelu_tanh_slope(float x) {
    float g = sg_sigmoid(2.0f * SQRT_2_OVER_PI * (x + GELU_CUBE * x * x * x));
    float slope = SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBE * x * x);
    float spread = g * (1.0f - g); /* 0 far out, where x^3 overflows */
    return g + (spread == 0.0f ? 0.0f : 2.0f * x * spread * slope);
}

static inline float gelu_erf_slope(float x) {
    return 0.5f * (1.0f + sg_erf(x * SQRT_1_OVER_2)) + x * SQRT_1_OVER_2PI * sg_exp(-0.5f * x * x);
}

static inline float silu_slope(float x) {
    float g = sg_sigmoid(x);
    return g * (1.0f + x * (1.0f - g));
}

static inline float elu_slope(float x, float a) {
    float bounded = x < 0.0f ? x : 0.0f;
    return x > 0.0f ? 1.0f : a * sg_exp(bounded);
}

static inline float mish_slope(float x) {
    float t = mish_gate(x);
    return t + x * (1.0f - t * t) * sg_sigmoid(x);
}

UNARY_BWD(RELU, s > 0.0f ? dy : 0.0f)
UNARY_BWD(GELU_TANH, dy *gelu_tanh_slope(s))
UNARY_BWD(GELU_ERF, dy *gelu_erf_slope(s))
UNARY_BWD(SILU, dy *silu_slope(s))
UNARY_BWD(ELU, dy *elu_slope(s, a))
UNARY_BWD(MISH, dy *mish_slope(s))
UNARY_BWD(TANH, dy *(1.0f - s * s))
UNARY_BWD(SIGMOID, dy *s *(1.0f - s))
UNARY_BWD(EXP, dy *s)
UNARY_BWD(LOG, dy / s)
UNARY_BWD(SQRT, dy / (2.0f * s))
UNARY_BWD(RSQRT, -0.5f * dy * s * s * s)
UNARY_BWD(SQUARE, 2.0f * dy * s)
UNARY_BWD(ABS, dy *sign_of(s))
UNARY_BWD(NEG, -dy)
UNARY_BWD(RECIPROCAL, -dy / (s * s))
UNARY_BWD(AFFINE, dy *a)
UNARY_BWD(CLAMP, s >= a && s <= b ? dy : 0.0f)
UNARY_BWD(DIV_SCALAR, dy / a)

static void unary_bwd_SIN(float *w, const float *dy, const float *s, int64_t n, float a, float b) {
    (void)a, (void)b;
    if (all_within(s, n, SG_SIN_LIMIT)) {
        SG_SIMD for (int64_t i = 0; i < n; i++) w[i] = dy[i] * sg_sin_reduced(s[i], 1);
    } else {
        for (int64_t i = 0; i < n; i++) w[i] = dy[i] * cosf(s[i]);
    }
}

static void unary_bwd_COS(float *w, const float *dy, const float *s, int64_t n, float a, float b) {
    (void)a, (void)b;
    if (all_within(s, n, SG_SIN_LIMIT)) {
        SG_SIMD for (int64_t i = 0; i < n; i++) w[i] = -dy[i] * sg_sin_reduced(s[i], 0);
    } else {
        for (int64_t i = 0; i < n; i++) w[i] = -dy[i] * sinf(s[i]);
    }
}

/* Through a buffer, because w may be dy or s. */
static void unary_bwd_POW(float *w, const float *dy, const float *s, int64_t n, float a, float b) {
    enum { CHUNK = 256 };
    float slope[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t count = n - at < CHUNK ? n - at : CHUNK;
        unary_POW(slope, s + at, count, a - 1.0f, b);
        for (int64_t i = 0; i < count; i++) w[at + i] = dy[at + i] * a * slope[i];
    }
}

const sg_loop2 SG_NAME(sg_unary_bwd)[SG_FN_COUNT] = {
    ENTRY(unary_bwd, RELU),       ENTRY(unary_bwd, GELU_TANH),  ENTRY(unary_bwd, GELU_ERF), ENTRY(unary_bwd, SILU),
    ENTRY(unary_bwd, ELU),        ENTRY(unary_bwd, TANH),       ENTRY(unary_bwd, SIGMOID),  ENTRY(unary_bwd, EXP),
    ENTRY(unary_bwd, LOG),        ENTRY(unary_bwd, SIN),        ENTRY(unary_bwd, COS),      ENTRY(unary_bwd, SQRT),
    ENTRY(unary_bwd, RSQRT),      ENTRY(unary_bwd, SQUARE),     ENTRY(unary_bwd, ABS),      ENTRY(unary_bwd, NEG),
    ENTRY(unary_bwd, CLAMP),      ENTRY(unary_bwd, RECIPROCAL), ENTRY(unary_bwd, AFFINE),   ENTRY(unary_bwd, POW),
    ENTRY(unary_bwd, DIV_SCALAR), ENTRY(unary_bwd, MISH),
};

/* ---- two operands -------------------------------------------------------------------------------------------------- */

#define BINARY(fn, value)                                                                                              \
    static void binary_##fn(float *w, const float *xs, const float *ys, int64_t n, float a, float b) {                 \
        (void)a, (void)b;                                                                                              \
        SG_SIMD for (int64_t i = 0; i < n; i++) {                                                                      \
            float x = xs[i], y = ys[i];                                                                                \
            w[i] = (value);                                                                                            \
        }                                                                                                              \
    }

#define TRUTH(condition) ((condition) ? 1.0f : 0.0f)

BINARY(ADD, x + a * y)
BINARY(SUB, x - a * y)
BINARY(MUL, x *y)
BINARY(DIV, x / y)
BINARY(MAX, x > y ? x : x != x ? x : y)
BINARY(MIN, x < y ? x : x != x ? x : y)
BINARY(LERP, x + a * (y - x))
BINARY(SQUARED_DIFF, (x - y) * (x - y))
BINARY(ABS_DIFF, fabsf(x - y))
BINARY(EQ, TRUTH(x == y))
BINARY(NE, TRUTH(x != y))
BINARY(LT, TRUTH(x < y))
BINARY(LE, TRUTH(x <= y))
BINARY(GT, TRUTH(x > y))
BINARY(GE, TRUTH(x >= y))
BINARY(AND, TRUTH(x != 0.0f && y != 0.0f))
BINARY(OR, TRUTH(x != 0.0f || y != 0.0f))

static void binary_ATAN2(float *w, const float *x, const float *y, int64_t n, float a, float b) {
    (void)a, (void)b;
    for (int64_t i = 0; i < n; i++) w[i] = atan2f(x[i], y[i]);
}

static void binary_POWV(float *w, const float *x, const float *y, int64_t n, float a, float b) {
    (void)a, (void)b;
    for (int64_t i = 0; i < n; i++) w[i] = powf(x[i], y[i]);
}

const sg_loop2 SG_NAME(sg_binary)[SG_FN_COUNT] = {
    ENTRY(binary, ADD), ENTRY(binary, SUB),  ENTRY(binary, MUL),          ENTRY(binary, DIV),      ENTRY(binary, MAX),
    ENTRY(binary, MIN), ENTRY(binary, LERP), ENTRY(binary, SQUARED_DIFF), ENTRY(binary, ABS_DIFF), ENTRY(binary, EQ),
    ENTRY(binary, NE),  ENTRY(binary, LT),   ENTRY(binary, LE),           ENTRY(binary, GT),       ENTRY(binary, GE),
    ENTRY(binary, AND), ENTRY(binary, OR),   ENTRY(binary, ATAN2),        ENTRY(binary, POWV),
};

/* ---- three operands ------------------------------------------------------------------------------------------------- */

#define TERNARY(fn, value)                                                                                             \
    static void ternary_##fn(float *w, const float *xs, const float *ys, const float *zs, int64_t n, float a,          \
                             float b) {                                                                                \
        (void)a, (void)b;                                                                                              \
        SG_SIMD for (int64_t i = 0; i < n; i++) {                                                                      \
            float x = xs[i], y = ys[i], z = zs[i];                                                                     \
            (void)z;                                                                                                   \
            w[i] = (value);                                                                                            \
        }                                                                                                              \
    }

TERNARY(WHERE, x != 0.0f ? y : z)
TERNARY(ADDCMUL, x + a * y * z)
TERNARY(ADDCDIV, x + a * y / z)
TERNARY(SQUARED_DIFF_BWD, a * 2.0f * (y - z) * x)
TERNARY(CLAMP_BWD, y >= a && y <= b ? x : 0.0f)
TERNARY(MASKED_FILL, y != 0.0f ? a : x)

const sg_loop3 SG_NAME(sg_ternary)[SG_FN_COUNT] = {
    ENTRY(ternary, WHERE),     ENTRY(ternary, ADDCMUL),     ENTRY(ternary, ADDCDIV), ENTRY(ternary, SQUARED_DIFF_BWD),
    ENTRY(ternary, CLAMP_BWD), ENTRY(ternary, MASKED_FILL),
};

void SG_NAME(sg_fill)(float *w, int64_t n, float value) {
    SG_SIMD for (int64_t i = 0; i < n; i++) w[i] = value;
}
