/* elementwise.c: functions of one, two and three numbers, and the ops that apply them element by element. */
#include "tests/reference/kinds.h"

#include <math.h>

static const double SQRT_2 = 1.41421356237309504880, SQRT_2_OVER_PI = 0.79788456080286535588,
                    ONE_OVER_SQRT_2_PI = 0.39894228040143267794;

double ref_alpha(const sg_attrs *attrs, const sg_launch *launch) {
    double step = launch ? (double)launch->step : 1;
    if (attrs->flags & SG_STEP_SIZE) return -attrs->lr / (1 - pow(attrs->beta1, step));
    if (attrs->flags & SG_STEP_SQRT) return sqrt(1 - pow(attrs->beta2, step));
    return attrs->alpha;
}

/* x (1 + tanh(u)) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3). */
static double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)));
}

static double gelu_tanh_slope(double x) {
    double t = tanh(SQRT_2_OVER_PI * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x);
}

/* tanh of softplus. */
static double mish_gate(double x) {
    return tanh(x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)));
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

double ref_unary_value(sg_fn fn, double x, double a, double b) {
    switch (fn) {
    case SG_FN_RELU: return x > 0 ? x : isnan(x) ? x : 0;
    case SG_FN_GELU_TANH: return gelu_tanh(x);
    case SG_FN_GELU_ERF: return 0.5 * x * (1 + erf(x / SQRT_2));
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
    case SG_FN_SIGN: return x > 0 ? 1 : x < 0 ? -1 : 0;
    case SG_FN_RECIPROCAL: return 1 / x;
    case SG_FN_AFFINE: return a * x + b;
    case SG_FN_CLAMP: return x < a ? a : x > b ? b : x;
    case SG_FN_NOT: return x == 0;
    case SG_FN_POW: return pow(x, a);
    case SG_FN_DIV_SCALAR: return x / a;
    case SG_FN_FLOOR: return floor(x);
    case SG_FN_MISH: return x * mish_gate(x);
    default: return NAN;
    }
}

/* Derivative of fn where s is its input, or its output when sg_fn_saves_output(fn). */
static double unary_slope(sg_fn fn, double s, double a, double b) {
    switch (fn) {
    case SG_FN_RELU: return s > 0;
    case SG_FN_GELU_TANH: return gelu_tanh_slope(s);
    case SG_FN_GELU_ERF: return 0.5 * (1 + erf(s / SQRT_2)) + s * ONE_OVER_SQRT_2_PI * exp(-0.5 * s * s);
    case SG_FN_SILU: return sigmoid(s) * (1 + s * (1 - sigmoid(s)));
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
    case SG_FN_MISH: return mish_gate(s) + s * (1 - mish_gate(s) * mish_gate(s)) * sigmoid(s);
    case SG_FN_ABS: return s > 0 ? 1 : s < 0 ? -1 : 0;
    case SG_FN_NEG: return -1;
    case SG_FN_RECIPROCAL: return -1 / (s * s);
    case SG_FN_AFFINE: return a;
    case SG_FN_CLAMP: return s >= a && s <= b;
    case SG_FN_POW: return a * pow(s, a - 1);
    case SG_FN_DIV_SCALAR: return 1 / a;
    case SG_FN_SIGN:
    case SG_FN_NOT:
    case SG_FN_FLOOR: return 0;
    default: return NAN;
    }
}

static double extreme(double x, double y, bool largest) {
    if (isnan(x) || isnan(y)) return NAN;
    return (x > y) == largest ? x : y;
}

double ref_binary_value(sg_fn fn, double x, double y, double a) {
    switch (fn) {
    case SG_FN_ADD: return x + a * y;
    case SG_FN_SUB: return x - a * y;
    case SG_FN_MUL: return x * y;
    case SG_FN_DIV: return x / y;
    case SG_FN_MAX: return extreme(x, y, true);
    case SG_FN_MIN: return extreme(x, y, false);
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
    default: return NAN;
    }
}

double ref_ternary_value(sg_fn fn, double x, double y, double z, double a, double b) {
    switch (fn) {
    case SG_FN_WHERE: return x != 0 ? y : z;
    case SG_FN_ADDCMUL: return x + a * y * z;
    case SG_FN_ADDCDIV: return x + a * y / z;
    case SG_FN_SQUARED_DIFF_BWD: return a * 2 * (y - z) * x;
    case SG_FN_CLAMP_BWD: return y >= a && y <= b ? x : 0;
    case SG_FN_MASKED_FILL: return y != 0 ? a : x;
    default: return NAN;
    }
}

sg_code ref_UNARY(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    double alpha = ref_alpha(attrs, call->launch);
    for (int64_t i = 0, count = sg_desc_count(ref_out(call, 0)); i < count; i++)
        call->out[0][i] = ref_unary_value((sg_fn)attrs->fn, call->in[0][i], alpha, attrs->beta);
    return SG_OK;
}

sg_code ref_UNARY_BWD(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    for (int64_t i = 0, count = sg_desc_count(ref_out(call, 0)); i < count; i++)
        call->out[0][i] = call->in[0][i] * unary_slope((sg_fn)attrs->fn, call->in[1][i], attrs->alpha, attrs->beta);
    return SG_OK;
}

sg_code ref_BINARY(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    double alpha = ref_alpha(attrs, call->launch);
    for (int64_t i = 0, count = sg_desc_count(ref_out(call, 0)); i < count; i++)
        call->out[0][i] = ref_binary_value((sg_fn)attrs->fn, call->in[0][i], call->in[1][i], alpha);
    return SG_OK;
}

sg_code ref_TERNARY(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    double alpha = ref_alpha(attrs, call->launch);
    for (int64_t i = 0, count = sg_desc_count(ref_out(call, 0)); i < count; i++) {
        double x = call->in[0][i], y = call->in[1][i], z = call->in[2][i];
        call->out[0][i] = ref_ternary_value((sg_fn)attrs->fn, x, y, z, alpha, attrs->beta);
    }
    return SG_OK;
}
