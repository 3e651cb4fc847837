/* rows.c: softmax and norms over the last dim. */
#include "tests/reference/kinds.h"

#include <math.h>

sg_code ref_SOFTMAX(const ref_call *call) {
    int64_t n = ref_last(ref_in(call, 0));
    for (int64_t row = 0, rows = ref_rows(ref_in(call, 0)); row < rows; row++) {
        const double *x = call->in[0] + row * n;
        double *y = call->out[0] + row * n, largest = -INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++) largest = fmax(largest, x[i]);
        for (int64_t i = 0; i < n; i++) sum += exp(x[i] - largest);
        for (int64_t i = 0; i < n; i++) y[i] = exp(x[i] - largest) / sum;
    }
    return SG_OK;
}

sg_code ref_SOFTMAX_BWD(const ref_call *call) {
    int64_t n = ref_last(ref_in(call, 0));
    for (int64_t row = 0, rows = ref_rows(ref_in(call, 0)); row < rows; row++) {
        const double *dy = call->in[0] + row * n, *y = call->in[1] + row * n;
        double *dx = call->out[0] + row * n, dot = 0;
        for (int64_t i = 0; i < n; i++) dot += dy[i] * y[i];
        for (int64_t i = 0; i < n; i++) dx[i] = y[i] * (dy[i] - dot);
    }
    return SG_OK;
}

sg_code ref_LAYER_NORM(const ref_call *call) {
    int64_t n = ref_last(ref_in(call, 0));
    for (int64_t row = 0, rows = ref_rows(ref_in(call, 0)); row < rows; row++) {
        const double *x = call->in[0] + row * n, *w = call->in[1], *b = call->in[2];
        double *y = call->out[0] + row * n, mean = 0, variance = 0;
        for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++) variance += (x[i] - mean) * (x[i] - mean) / (double)n;
        double rstd = 1 / sqrt(variance + call->op->attrs.eps);
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
        call->out[1][row] = mean;
        call->out[2][row] = rstd;
    }
    return SG_OK;
}

/* With xh = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - xh mean(g xh)); dw = sum dy xh; db = sum dy. */
sg_code ref_LAYER_NORM_BWD(const ref_call *call) {
    int64_t n = ref_last(ref_in(call, 0));
    int next = 0;
    double *dx = ref_flag(call, SG_NO_DX) ? NULL : call->out[next++];
    double *dw = ref_flag(call, SG_NO_DW) ? NULL : call->out[next++];
    double *db = ref_flag(call, SG_NO_DW) ? NULL : call->out[next];
    for (int64_t row = 0, rows = ref_rows(ref_in(call, 0)); row < rows; row++) {
        const double *dy = call->in[0] + row * n, *x = call->in[1] + row * n, *w = call->in[4];
        double mean = call->in[2][row], rstd = call->in[3][row], mean_g = 0, mean_g_xh = 0;
        for (int64_t i = 0; i < n; i++) {
            mean_g += dy[i] * w[i] / (double)n;
            mean_g_xh += dy[i] * w[i] * (x[i] - mean) * rstd / (double)n;
        }
        for (int64_t i = 0; i < n; i++) {
            double xh = (x[i] - mean) * rstd;
            if (dx) dx[row * n + i] = rstd * (dy[i] * w[i] - mean_g - xh * mean_g_xh);
            if (dw) dw[i] += dy[i] * xh;
            if (db) db[i] += dy[i];
        }
    }
    return SG_OK;
}

sg_code ref_RMS_NORM(const ref_call *call) {
    int64_t n = ref_last(ref_in(call, 0));
    for (int64_t row = 0, rows = ref_rows(ref_in(call, 0)); row < rows; row++) {
        const double *x = call->in[0] + row * n, *w = call->in[1];
        double *y = call->out[0] + row * n, square = 0;
        for (int64_t i = 0; i < n; i++) square += x[i] * x[i] / (double)n;
        double rstd = 1 / sqrt(square + call->op->attrs.eps);
        for (int64_t i = 0; i < n; i++) y[i] = w[i] * x[i] * rstd;
        call->out[1][row] = rstd;
    }
    return SG_OK;
}

/* With g = dy w: dx = rstd (g - x rstd^2 mean(g x)); dw = sum dy x rstd. */
sg_code ref_RMS_NORM_BWD(const ref_call *call) {
    int64_t n = ref_last(ref_in(call, 0));
    int next = 0;
    double *dx = ref_flag(call, SG_NO_DX) ? NULL : call->out[next++];
    double *dw = ref_flag(call, SG_NO_DW) ? NULL : call->out[next];
    for (int64_t row = 0, rows = ref_rows(ref_in(call, 0)); row < rows; row++) {
        const double *dy = call->in[0] + row * n, *x = call->in[1] + row * n, *w = call->in[3];
        double rstd = call->in[2][row], mean_g_x = 0;
        for (int64_t i = 0; i < n; i++) mean_g_x += dy[i] * w[i] * x[i] / (double)n;
        for (int64_t i = 0; i < n; i++) {
            if (dx) dx[row * n + i] = rstd * (dy[i] * w[i] - x[i] * rstd * rstd * mean_g_x);
            if (dw) dw[i] += dy[i] * x[i] * rstd;
        }
    }
    return SG_OK;
}
