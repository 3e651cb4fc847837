/* math.h: transcendental functions in fp32, written without branches so that loops over them become vector code.
 *
 * Errors against libm are below 4 units in the last place over the whole range (tests/kernels/test_cpu_math.c). The
 * polynomials are minimax fits (Lawson's weighted least squares on Chebyshev nodes, 40 digits) of the functions named
 * beside them. */
#ifndef SG_KERNELS_CPU_LOOPS_MATH_H
#define SG_KERNELS_CPU_LOOPS_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Adding and subtracting it rounds to the nearest integer: 1.5 x 2^23. */
static const float SG_ROUNDER = 12582912.0f;

static inline uint32_t sg_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float sg_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^k for -126 <= k <= 127. */
static inline float sg_power_of_2(int32_t k) {
    return sg_float((uint32_t)(k + 127) << 23);
}

/* x = k ln 2 + r, e^x = 2^k e^r, e^r = 1 + r + r^2 p(r). 2^k in two factors, so that results below the normal range and
 * infinity come out of the multiplication. */
static inline float sg_exp(float x) {
    float bounded = x > -104.0f ? x : -104.0f;
    bounded = bounded > 89.0f ? 89.0f : bounded;
    float k = (bounded * 1.44269504f + SG_ROUNDER) - SG_ROUNDER;
    float r = bounded - k * 0.693359375f; /* the first 9 bits of ln 2: the product is exact */
    r = r + k * 2.12194440e-4f;
    float p = 0.00138163541f;
    p = p * r + 0.00836936354f;
    p = p * r + 0.0416684047f;
    p = p * r + 0.166665153f;
    p = p * r + 0.499999932f;
    p = p * (r * r) + r + 1.0f;
    int32_t whole = (int32_t)k, half = whole >> 1;
    float y = p * sg_power_of_2(half) * sg_power_of_2(whole - half);
    return x != x ? x : y;
}

/* e^x for x <= 0 where everything below 2^-126 may be 0 (softmax): one factor. */
static inline float sg_exp_negative(float x) {
    float bounded = x > -87.0f ? x : -87.0f;
    float k = (bounded * 1.44269504f + SG_ROUNDER) - SG_ROUNDER;
    float r = bounded - k * 0.693359375f;
    r = r + k * 2.12194440e-4f;
    float p = 0.00138163541f;
    p = p * r + 0.00836936354f;
    p = p * r + 0.0416684047f;
    p = p * r + 0.166665153f;
    p = p * r + 0.499999932f;
    p = p * (r * r) + r + 1.0f;
    float y = p * sg_power_of_2((int32_t)k);
    y = x < -87.0f ? 0.0f : y;
    return x != x ? x : y;
}

/* e^x - 1, relative error kept near 0: below |x| = 0.35 the polynomial without its 1, elsewhere exp. */
static inline float sg_expm1(float x) {
    float p = 0.00138163541f;
    p = p * x + 0.00836936354f;
    p = p * x + 0.0416684047f;
    p = p * x + 0.166665153f;
    p = p * x + 0.499999932f;
    float near = p * (x * x) + x, far = sg_exp(x) - 1.0f;
    return x > -0.35f && x < 0.35f ? near : far;
}

/* x = 2^e (1 + f), sqrt(1/2) <= 1 + f < sqrt(2); log(1 + f) = f - f^2/2 + f^3 p(f). */
static inline float sg_log(float x) {
    float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
    float bias = x < 1.17549435e-38f ? 150.0f : 127.0f;
    uint32_t bits = sg_bits(scaled);
    float e = (float)(int32_t)(bits >> 23) - bias;
    float m = sg_float((bits & 0x007fffffu) | 0x3f800000u);
    e = m > 1.41421356f ? e + 1.0f : e;
    m = m > 1.41421356f ? 0.5f * m : m;
    float f = m - 1.0f;
    float p = 0.0674584645f;
    p = p * f - 0.116762516f;
    p = p * f + 0.118888801f;
    p = p * f - 0.124055404f;
    p = p * f + 0.142194456f;
    p = p * f - 0.166679938f;
    p = p * f + 0.200021235f;
    p = p * f - 0.250000097f;
    p = p * f + 0.333333126f;
    float f2 = f * f;
    float y = p * (f2 * f) + e * -2.12194440e-4f;
    y = y - 0.5f * f2;
    y = y + f + e * 0.693359375f;
    y = x == 0.0f ? -HUGE_VALF : y;
    y = x == HUGE_VALF ? x : y;
    return x < 0.0f || x != x ? sg_float(0x7fc00000u) : y;
}

/* Below 0.65 x + x^3 p(x^2), elsewhere 1 - 2 / (e^2x + 1). */
static inline float sg_tanh(float x) {
    float a = fabsf(x), t = x * x;
    float p = 0.00206520636f;
    p = p * t - 0.00809263035f;
    p = p * t + 0.0216666454f;
    p = p * t - 0.0539406233f;
    p = p * t + 0.133331584f;
    p = p * t - 0.333333296f;
    float near = x + x * t * p;
    float bounded = a < 10.0f ? a : 10.0f;
    float far = 1.0f - 2.0f / (sg_exp(2.0f * bounded) + 1.0f);
    float y = a < 0.65f ? near : x < 0.0f ? -far : far;
    return x != x ? x : y;
}

/* Below 0.95 x p(x^2), elsewhere 1 - e^q(x) (q fits log erfc up to 4, where erf is 1 in fp32). */
static inline float sg_erf(float x) {
    float a = fabsf(x), t = x * x;
    float p = -9.67971928e-6f;
    p = p * t + 0.000112703864f;
    p = p * t - 0.000848468774f;
    p = p * t + 0.0052210731f;
    p = p * t - 0.0268654451f;
    p = p * t + 0.112837827f;
    p = p * t - 0.376126385f;
    p = p * t + 1.12837917f;
    float near = x * p;
    float bounded = a < 4.0f ? a : 4.0f;
    float q = -2.149997217e-5f;
    q = q * bounded + 0.00043915015f;
    q = q * bounded - 0.00419382188f;
    q = q * bounded + 0.0251795259f;
    q = q * bounded - 0.108373355f;
    q = q * bounded - 0.633261796f;
    q = q * bounded - 1.12955725f;
    q = q * bounded + 0.000183533751f;
    float far = 1.0f - sg_exp(q);
    float y = a < 0.95f ? near : x < 0.0f ? -far : far;
    return x != x ? x : y;
}

static inline float sg_sigmoid(float x) {
    return 1.0f / (1.0f + sg_exp(-x));
}

/* sin and cos of r, |r| <= pi/4. */
static inline float sg_sin_near(float r) {
    float t = r * r, p = 2.71760124e-6f;
    p = p * t - 0.000198392613f;
    p = p * t + 0.00833332916f;
    p = p * t - 0.166666666f;
    return r + r * t * p;
}

static inline float sg_cos_near(float r) {
    float t = r * r, p = 2.44317528e-5f;
    p = p * t - 0.00138873108f;
    p = p * t + 0.0416666457f;
    return 1.0f - 0.5f * t + t * t * p;
}

/* sin(r + quadrant pi/2). */
static inline float sg_sin_quadrant(float r, int32_t quadrant) {
    float s = sg_sin_near(r), c = sg_cos_near(r);
    float y = quadrant & 1 ? c : s;
    return quadrant & 2 ? -y : y;
}

/* Largest |x| that sg_sin_reduced takes: beyond it the parts of pi/2 no longer subtract exactly. */
static const float SG_SIN_LIMIT = 8192.0f;

/* sin(x + shift pi/2), |x| <= SG_SIN_LIMIT; Cody and Waite's reduction with pi/2 in four parts. */
static inline float sg_sin_reduced(float x, int32_t shift) {
    float k = (x * 0.636619772f + SG_ROUNDER) - SG_ROUNDER;
    float r = x - k * 1.5703125f;
    r = r - k * 4.83751297e-4f;
    r = r - k * 7.54953362e-8f;
    r = r - k * 2.56334407e-12f;
    return sg_sin_quadrant(r, (int32_t)k + shift);
}

#endif
