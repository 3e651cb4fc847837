/* reduce.c: sums and extremes of runs. */
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/math.h"
#include "kernels/cpu/loops/sum.h"

double SG_NAME(sg_sum)(const float *x, int64_t n) {
    double total;
    SG_SUM(total, i, n, x[i]);
    return total;
}

double SG_NAME(sg_dot)(const float *x, const float *y, int64_t n) {
    double total;
    SG_SUM(total, i, n, x[i] * y[i]);
    return total;
}

/* Squares overflow fp32 from 1.8e19 and vanish below 1e-19: gradients reach neither in a sane training, but a norm that
 * decides about clipping must be right in an insane one too. */
double SG_NAME(sg_sum_squares)(const float *x, int64_t n) {
    double total = 0;
    for (int64_t at = 0; at < n; at += SG_SUM_BLOCK) {
        int64_t count = n - at < SG_SUM_BLOCK ? n - at : SG_SUM_BLOCK;
        const float *block = x + at;
        double part;
        SG_SUM(part, i, count, block[i] * block[i]);
        if (!(part > 1e-30 && part < 1e30)) {
            part = 0;
            for (int64_t i = 0; i < count; i++) part += (double)block[i] * (double)block[i];
        }
        total += part;
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
