/* functions.cuh: functions of one, two and three numbers, as PyTorch's kernels compute them: in fp32 (C = float) for floating
 * point of 32 bits and less, in fp64 (C = double) for the rest. */
#ifndef SG_KERNELS_CUDA_FUNCTIONS_CUH
#define SG_KERNELS_CUDA_FUNCTIONS_CUH

#include "kernels/cuda/platform.h"
#include "kernels/op.h"

/* clang-format off */
#define SG_UNARY_FNS(X)                                                                                                \
    X(RELU) X(GELU_TANH) X(GELU_ERF) X(SILU) X(ELU) X(TANH) X(SIGMOID) X(EXP) X(LOG) X(SIN) X(COS) X(SQRT) X(RSQRT)    \
    X(SQUARE) X(ABS) X(NEG) X(SIGN) X(RECIPROCAL) X(AFFINE) X(CLAMP) X(NOT) X(POW) X(DIV_SCALAR) X(FLOOR) X(MISH)
#define SG_SLOPE_FNS(X)                                                                                                \
    X(RELU) X(GELU_TANH) X(GELU_ERF) X(SILU) X(ELU) X(TANH) X(SIGMOID) X(EXP) X(LOG) X(SIN) X(COS) X(SQRT) X(RSQRT)    \
    X(SQUARE) X(ABS) X(NEG) X(RECIPROCAL) X(AFFINE) X(CLAMP) X(POW) X(DIV_SCALAR) X(MISH)
#define SG_BINARY_FNS(X)                                                                                               \
    X(ADD) X(SUB) X(MUL) X(DIV) X(MAX) X(MIN) X(LERP) X(SQUARED_DIFF) X(ABS_DIFF) X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE)  \
    X(AND) X(OR) X(ATAN2) X(POWV)
#define SG_TERNARY_FNS(X) X(WHERE) X(ADDCMUL) X(ADDCDIV) X(SQUARED_DIFF_BWD) X(CLAMP_BWD) X(MASKED_FILL)
/* clang-format on */

__device__ __forceinline__ float sg_rsqrt(float x) {
    return rsqrtf(x);
}
__device__ __forceinline__ double sg_rsqrt(double x) {
    return rsqrt(x);
}

template <typename C> __device__ __forceinline__ C sg_sigmoid(C x) {
    return C(1) / (C(1) + exp(-x));
}
template <typename C> __device__ __forceinline__ C sg_gelu_inner(C x) {
    const C SQRT_2_OVER_PI = C(0.79788456080286535588), CUBE = C(0.044715);
    return SQRT_2_OVER_PI * (x + CUBE * x * x * x);
}
template <typename C> __device__ __forceinline__ C sg_normal_cdf(C x) {
    return C(0.5) * (C(1) + erf(x * C(0.70710678118654752440)));
}
/* tanh(log(1 + e^x)) = u / (u + 2) with u = e^x (e^x + 2); beyond 20 it is 1 to the last bit of fp32, 40 of fp64. */
template <typename C> __device__ __forceinline__ C sg_mish_gate(C x) {
    C e = exp(x > C(40) ? C(40) : x), u = e * (e + C(2));
    return u / (u + C(2));
}
template <typename C> __device__ __forceinline__ C sg_sign(C x) {
    return x > C(0) ? C(1) : x < C(0) ? C(-1) : C(0);
}

template <int FN, typename C> __device__ __forceinline__ C sg_unary_value(C x, C a, C b) {
    switch (FN) {
    case SG_FN_RELU: return x < C(0) ? C(0) : x;
    case SG_FN_GELU_TANH: return C(0.5) * x * (C(1) + tanh(sg_gelu_inner(x)));
    case SG_FN_GELU_ERF: return x * sg_normal_cdf(x);
    case SG_FN_SILU: return x / (C(1) + exp(-x));
    case SG_FN_ELU: return x > C(0) ? x : a * expm1(x);
    case SG_FN_TANH: return tanh(x);
    case SG_FN_SIGMOID: return sg_sigmoid(x);
    case SG_FN_EXP: return exp(x);
    case SG_FN_LOG: return log(x);
    case SG_FN_SIN: return sin(x);
    case SG_FN_COS: return cos(x);
    case SG_FN_SQRT: return sqrt(x);
    case SG_FN_RSQRT: return sg_rsqrt(x);
    case SG_FN_SQUARE: return x * x;
    case SG_FN_ABS: return fabs(x);
    case SG_FN_NEG: return -x;
    case SG_FN_SIGN: return sg_sign(x);
    case SG_FN_RECIPROCAL: return C(1) / x;
    case SG_FN_AFFINE: return a * x + b;
    case SG_FN_CLAMP: return x < a ? a : x > b ? b : x;
    case SG_FN_NOT: return x == C(0) ? C(1) : C(0);
    case SG_FN_POW: return pow(x, a);
    case SG_FN_DIV_SCALAR: return x / a;
    case SG_FN_FLOOR: return floor(x);
    case SG_FN_MISH: return x * sg_mish_gate(x);
    default: return x;
    }
}

/* dy times the derivative of fn; s is fn's input, or its output where sg_fn_saves_output. */
template <int FN, typename C> __device__ __forceinline__ C sg_slope_value(C dy, C s, C a, C b) {
    switch (FN) {
    case SG_FN_RELU: return s > C(0) ? dy : C(0);
    case SG_FN_GELU_TANH: {
        const C SQRT_2_OVER_PI = C(0.79788456080286535588), CUBE_3 = C(3 * 0.044715);
        C t = tanh(sg_gelu_inner(s));
        C inner = SQRT_2_OVER_PI * (C(1) + CUBE_3 * s * s);
        return dy * (C(0.5) * (C(1) + t) + C(0.5) * s * (C(1) - t * t) * inner);
    }
    case SG_FN_GELU_ERF: return dy * (sg_normal_cdf(s) + s * C(0.39894228040143267794) * exp(C(-0.5) * s * s));
    case SG_FN_SILU: {
        C g = sg_sigmoid(s);
        return dy * g * (C(1) + s * (C(1) - g));
    }
    case SG_FN_ELU: return s > C(0) ? dy : dy * a * exp(s);
    case SG_FN_TANH: return dy * (C(1) - s * s);
    case SG_FN_SIGMOID: return dy * (C(1) - s) * s;
    case SG_FN_EXP: return dy * s;
    case SG_FN_LOG: return dy / s;
    case SG_FN_SIN: return dy * cos(s);
    case SG_FN_COS: return -dy * sin(s);
    case SG_FN_SQRT: return dy / (C(2) * s);
    case SG_FN_RSQRT: return C(-0.5) * dy * s * s * s;
    case SG_FN_SQUARE: return C(2) * dy * s;
    case SG_FN_ABS: return dy * sg_sign(s);
    case SG_FN_NEG: return -dy;
    case SG_FN_RECIPROCAL: return -dy / (s * s);
    case SG_FN_AFFINE: return a * dy;
    case SG_FN_CLAMP: return s >= a && s <= b ? dy : C(0);
    case SG_FN_POW: return dy * (a * pow(s, a - C(1)));
    case SG_FN_DIV_SCALAR: return dy / a;
    case SG_FN_MISH: {
        C t = sg_mish_gate(s);
        return dy * (t + s * (C(1) - t * t) * sg_sigmoid(s));
    }
    default: return C(0);
    }
}

template <int FN, typename C> __device__ __forceinline__ C sg_binary_value(C x, C y, C a) {
    switch (FN) {
    case SG_FN_ADD: return x + a * y;
    case SG_FN_SUB: return x - a * y;
    case SG_FN_MUL: return x * y;
    case SG_FN_DIV: return x / y;
    case SG_FN_MAX: return x > y || x != x ? x : y;
    case SG_FN_MIN: return x < y || x != x ? x : y;
    case SG_FN_LERP: return x + a * (y - x);
    case SG_FN_SQUARED_DIFF: return (x - y) * (x - y);
    case SG_FN_ABS_DIFF: return fabs(x - y);
    case SG_FN_EQ: return x == y ? C(1) : C(0);
    case SG_FN_NE: return x != y ? C(1) : C(0);
    case SG_FN_LT: return x < y ? C(1) : C(0);
    case SG_FN_LE: return x <= y ? C(1) : C(0);
    case SG_FN_GT: return x > y ? C(1) : C(0);
    case SG_FN_GE: return x >= y ? C(1) : C(0);
    case SG_FN_AND: return x != C(0) && y != C(0) ? C(1) : C(0);
    case SG_FN_OR: return x != C(0) || y != C(0) ? C(1) : C(0);
    case SG_FN_ATAN2: return atan2(x, y);
    case SG_FN_POWV: return pow(x, y);
    default: return x;
    }
}

template <int FN, typename C> __device__ __forceinline__ C sg_ternary_value(C x, C y, C z, C a, C b) {
    switch (FN) {
    case SG_FN_WHERE: return x != C(0) ? y : z;
    case SG_FN_ADDCMUL: return x + a * y * z;
    case SG_FN_ADDCDIV: return x + a * y / z;
    case SG_FN_SQUARED_DIFF_BWD: return a * C(2) * (y - z) * x;
    case SG_FN_CLAMP_BWD: return y >= a && y <= b ? x : C(0);
    case SG_FN_MASKED_FILL: return y != C(0) ? a : x;
    default: return x;
    }
}

/* UNARY, UNARY_BWD, BINARY and TERNARY as types: N operands, value<FN>(operands, a, b). */
struct sg_unary {
    enum { N = 1 };
    template <int FN, typename C> static __device__ __forceinline__ C value(const C *x, C a, C b) {
        return sg_unary_value<FN, C>(x[0], a, b);
    }
};
struct sg_slope {
    enum { N = 2 };
    template <int FN, typename C> static __device__ __forceinline__ C value(const C *x, C a, C b) {
        return sg_slope_value<FN, C>(x[0], x[1], a, b);
    }
};
struct sg_binary {
    enum { N = 2 };
    template <int FN, typename C> static __device__ __forceinline__ C value(const C *x, C a, C) {
        return sg_binary_value<FN, C>(x[0], x[1], a);
    }
};
struct sg_ternary {
    enum { N = 3 };
    template <int FN, typename C> static __device__ __forceinline__ C value(const C *x, C a, C b) {
        return sg_ternary_value<FN, C>(x[0], x[1], x[2], a, b);
    }
};

/* The same with fn known at run time, for U elements of each operand: fn is asked once for all. */
template <typename C, int U> __device__ __forceinline__ void sg_apply(sg_unary, int fn, C (*x)[U], C *w, C a, C b) {
    switch (fn) {
#define X(name)                                                                                                        \
    case SG_FN_##name:                                                                                                 \
        SG_UNROLL for (int u = 0; u < U; u++) w[u] = sg_unary_value<SG_FN_##name, C>(x[0][u], a, b);                   \
        break;
        SG_UNARY_FNS(X)
#undef X
    }
}
template <typename C, int U> __device__ __forceinline__ void sg_apply(sg_slope, int fn, C (*x)[U], C *w, C a, C b) {
    switch (fn) {
#define X(name)                                                                                                        \
    case SG_FN_##name:                                                                                                 \
        SG_UNROLL for (int u = 0; u < U; u++) w[u] = sg_slope_value<SG_FN_##name, C>(x[0][u], x[1][u], a, b);          \
        break;
        SG_SLOPE_FNS(X)
#undef X
    }
}
template <typename C, int U> __device__ __forceinline__ void sg_apply(sg_binary, int fn, C (*x)[U], C *w, C a, C) {
    switch (fn) {
#define X(name)                                                                                                        \
    case SG_FN_##name:                                                                                                 \
        SG_UNROLL for (int u = 0; u < U; u++) w[u] = sg_binary_value<SG_FN_##name, C>(x[0][u], x[1][u], a);            \
        break;
        SG_BINARY_FNS(X)
#undef X
    }
}
template <typename C, int U> __device__ __forceinline__ void sg_apply(sg_ternary, int fn, C (*x)[U], C *w, C a, C b) {
    switch (fn) {
#define X(name)                                                                                                        \
    case SG_FN_##name:                                                                                                 \
        SG_UNROLL for (int u = 0; u < U; u++) w[u] =                                                                   \
            sg_ternary_value<SG_FN_##name, C>(x[0][u], x[1][u], x[2][u], a, b);                                        \
        break;
        SG_TERNARY_FNS(X)
#undef X
    }
}

#endif
