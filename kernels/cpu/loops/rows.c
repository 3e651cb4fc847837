/* rows.c: softmax and norms of one row. */
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/math.h"
#include "kernels/cpu/loops/sum.h"

/* ---- softmax ------------------------------------------------------------------------------------------------------- */

static inline float exp_into(float *y, float x) {
    *y = sg_exp_negative(x);
    return *y;
}

float SG_NAME(sg_exp_shifted)(float *x, int64_t n, float shift) {
    double sum;
    SG_SUM(sum, i, n, exp_into(&x[i], x[i] - shift));
    return (float)sum;
}

/* A row of only -inf gives NaN, as everywhere. */
void SG_NAME(sg_softmax)(float *y, const float *x, int64_t n) {
    float largest = SG_NAME(sg_max)(x, n);
    double sum;
    SG_SUM(sum, i, n, exp_into(&y[i], x[i] - largest));
    float scale = (float)(1 / sum);
    SG_SIMD for (int64_t i = 0; i < n; i++) y[i] *= scale;
}

void SG_NAME(sg_softmax_bwd)(float *dx, const float *dy, const float *y, int64_t n) {
    float dot = (float)SG_NAME(sg_dot)(dy, y, n);
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - dot);
}

/* ---- norms ---------------------------------------------------------------------------------------------------------- */

void SG_NAME(sg_layer_norm)(float *y, const float *x, const float *w, const float *b, int64_t n, float eps, float *mean,
                            float *rstd) {
    float m = (float)(SG_NAME(sg_sum)(x, n) / (double)n);
    double squares;
    SG_SUM(squares, i, n, (x[i] - m) * (x[i] - m));
    float r = (float)(1 / sqrt(squares / (double)n + (double)eps));
    SG_SIMD for (int64_t i = 0; i < n; i++) y[i] = (x[i] - m) * r * w[i] + b[i];
    *mean = m;
    *rstd = r;
}

/* With xh = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - xh mean(g xh)). */
void SG_NAME(sg_layer_norm_bwd)(float *dx, const float *dy, const float *x, const float *w, int64_t n, float mean,
                                float rstd) {
    double sum_g = SG_NAME(sg_dot)(dy, w, n), sum_gx;
    SG_SUM(sum_gx, i, n, dy[i] * w[i] * (x[i] - mean));
    float mean_g = (float)(sum_g / (double)n), slope = (float)(sum_gx / (double)n) * rstd * rstd;
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] = rstd * (dy[i] * w[i] - mean_g - (x[i] - mean) * slope);
}

void SG_NAME(sg_rms_norm)(float *y, const float *x, const float *w, int64_t n, float eps, float *rstd) {
    float r = (float)(1 / sqrt(SG_NAME(sg_sum_squares)(x, n) / (double)n + (double)eps));
    SG_SIMD for (int64_t i = 0; i < n; i++) y[i] = x[i] * r * w[i];
    *rstd = r;
}

/* dx = rstd (g - xh mean(g xh)), xh = x rstd. */
void SG_NAME(sg_rms_norm_bwd)(float *dx, const float *dy, const float *x, const float *w, int64_t n, float rstd) {
    double sum_gx;
    SG_SUM(sum_gx, i, n, dy[i] * w[i] * x[i]);
    float slope = (float)(sum_gx / (double)n) * rstd * rstd;
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
