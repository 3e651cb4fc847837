/* rows.c: softmax and norms of one row. */
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/math.h"

/* ---- softmax ------------------------------------------------------------------------------------------------------- */

float SG_NAME(sg_exp_shifted)(float *x, int64_t n, float shift) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float e = sg_exp_negative(x[i] - shift);
        x[i] = e;
        sum += e;
    }
    return sum;
}

/* A row of only -inf gives NaN, as everywhere. */
void SG_NAME(sg_softmax)(float *y, const float *x, int64_t n) {
    float largest = SG_NAME(sg_max)(x, n), sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
        float e = sg_exp_negative(x[i] - largest);
        y[i] = e;
        sum += e;
    }
    float scale = 1.0f / sum;
    SG_SIMD for (int64_t i = 0; i < n; i++) y[i] *= scale;
}

void SG_NAME(sg_softmax_bwd)(float *dx, const float *dy, const float *y, int64_t n) {
    float dot = (float)SG_NAME(sg_dot)(dy, y, n);
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - dot);
}

/* ---- norms ---------------------------------------------------------------------------------------------------------- */

void SG_NAME(sg_layer_norm)(float *y, const float *x, const float *w, const float *b, int64_t n, float eps, float *mean,
                            float *rstd) {
    float m = (float)(SG_NAME(sg_sum)(x, n) / (double)n), squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t i = 0; i < n; i++) squares += (x[i] - m) * (x[i] - m);
    float r = 1.0f / sqrtf(squares / (float)n + eps);
    SG_SIMD for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * r * w[i] + b[i];
    *mean = m;
    *rstd = r;
}

/* With xh = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - xh mean(g xh)). */
void SG_NAME(sg_layer_norm_bwd)(float *dx, const float *dy, const float *x, const float *w, int64_t n, float mean,
                                float rstd) {
    float sum_g = 0, sum_gx = 0;
#pragma omp simd reduction(+ : sum_g, sum_gx)
    for (int64_t i = 0; i < n; i++) {
        float g = dy[i] * w[i];
        sum_g += g;
        sum_gx += g * (x[i] - mean);
    }
    float mean_g = sum_g / (float)n, slope = sum_gx * rstd * rstd / (float)n;
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] = rstd * (dy[i] * w[i] - mean_g - (x[i] - mean) * slope);
}

void SG_NAME(sg_rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps, float *rstd) {
    float r = 1.0f / sqrtf((float)(SG_NAME(sg_sum_squares)(x, n) / (double)n) + eps);
    SG_SIMD for (int64_t i = 0; i < n; i++) y[i] = x[i] * r * w[i];
    *rstd = r;
}

/* dx = rstd (g - xh mean(g xh)), xh = x rstd. */
void SG_NAME(sg_rms_norm_bwd)(float *dx, const float *dy, const float *x, const float *w, int64_t n, float rstd) {
    float sum_gx = 0;
#pragma omp simd reduction(+ : sum_gx)
    for (int64_t i = 0; i < n; i++) sum_gx += dy[i] * w[i] * x[i];
    float slope = sum_gx * rstd * rstd / (float)n;
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] = rstd * (dy[i] * w[i] - x[i] * slope);
}

void SG_NAME(sg_norm_bwd_weights)(float *dw, float *db, const float *dy, const float *x, int64_t n, float mean,
                                  float rstd) {
    if (db) {
        SG_SIMD for (int64_t i = 0; i < n; i++) {
            dw[i] += dy[i] * ((x[i] - mean) * rstd);
            db[i] += dy[i];
        }
    } else {
        SG_SIMD for (int64_t i = 0; i < n; i++) dw[i] += dy[i] * ((x[i] - mean) * rstd);
    }
}
