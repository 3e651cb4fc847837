/* reduce.c: sums and extremes of runs. */
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/math.h"

/* fp32 accumulators are emptied into a double every so many elements, so that the error does not grow with n. */
enum { BLOCK = 1024 };

#define BLOCK_SUM(name, parameters, term)                                                                              \
    double SG_NAME(name) parameters {                                                                                  \
        double total = 0;                                                                                              \
        for (int64_t at = 0; at < n; at += BLOCK) {                                                                    \
            int64_t end = at + BLOCK < n ? at + BLOCK : n;                                                             \
            float part = 0;                                                                                            \
            _Pragma("omp simd reduction(+ : part)") for (int64_t i = at; i < end; i++) part += (term);                 \
            total += (double)part;                                                                                     \
        }                                                                                                              \
        return total;                                                                                                  \
    }

BLOCK_SUM(sg_sum, (const float *x, int64_t n), x[i])
BLOCK_SUM(sg_dot, (const float *x, const float *y, int64_t n), x[i] * y[i])

/* Squares overflow fp32 from 1.8e19 and vanish below 1e-19: gradients reach neither in a sane training, but a norm that
 * decides about clipping must be right in an insane one too. */
double SG_NAME(sg_sum_squares)(const float *x, int64_t n) {
    double total = 0;
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t end = at + BLOCK < n ? at + BLOCK : n;
        float part = 0;
#pragma omp simd reduction(+ : part)
        for (int64_t i = at; i < end; i++) part += x[i] * x[i];
        if (part > 1e-30f && part < 1e30f) {
            total += (double)part;
        } else {
            for (int64_t i = at; i < end; i++) total += (double)x[i] * (double)x[i];
        }
    }
    return total;
}

float SG_NAME(sg_max)(const float *x, int64_t n) {
    float best = -HUGE_VALF, poison = 0;
#pragma omp simd reduction(max : best) reduction(+ : poison)
    for (int64_t i = 0; i < n; i++) {
        best = x[i] > best ? x[i] : best;
        poison += x[i] != x[i] ? 1.0f : 0.0f;
    }
    return poison > 0 ? sg_float(0x7fc00000u) : best;
}

float SG_NAME(sg_min)(const float *x, int64_t n) {
    float best = HUGE_VALF, poison = 0;
#pragma omp simd reduction(min : best) reduction(+ : poison)
    for (int64_t i = 0; i < n; i++) {
        best = x[i] < best ? x[i] : best;
        poison += x[i] != x[i] ? 1.0f : 0.0f;
    }
    return poison > 0 ? sg_float(0x7fc00000u) : best;
}

/* Four rows at a time: the accumulators, which stay in the first cache, are touched a quarter as often as the rows. */
void SG_NAME(sg_add_rows)(float *sum, const float *x, int64_t rows, int64_t n, int64_t row_stride) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *a = x + r * row_stride, *b = a + row_stride, *c = b + row_stride, *d = c + row_stride;
        SG_SIMD for (int64_t i = 0; i < n; i++) sum[i] += (a[i] + b[i]) + (c[i] + d[i]);
    }
    for (; r < rows; r++) {
        const float *a = x + r * row_stride;
        SG_SIMD for (int64_t i = 0; i < n; i++) sum[i] += a[i];
    }
}
