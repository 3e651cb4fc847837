/* rows.c: softmax and norms over the last dim; channel norms. */
#include "tests/reference/kinds.h"

#include <math.h>
#include <stdlib.h>

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

/* ---- channels ------------------------------------------------------------------------------------------------------- */

/* Which mean and rstd sample n, channel c has. */
static int64_t statistic_of(const ref_call *call, const sg_desc *x, int64_t n, int64_t c) {
    int64_t groups = call->op->attrs.count;
    return groups ? n * groups + c / (x->size[1] / groups) : c;
}

sg_code ref_CHANNEL_NORM(const ref_call *call) {
    const sg_desc *x = ref_in(call, 0);
    int64_t channels = x->size[1], plane = ref_extent(x, 2, x->ndim), planes = x->size[0] * channels;
    int64_t units = sg_desc_count(ref_out(call, 1));
    double share = 1.0 / ((double)(planes * plane) / (double)units), *mean = call->out[1], *rstd = call->out[2];
    for (int64_t i = 0; i < planes * plane; i++)
        mean[statistic_of(call, x, i / plane / channels, i / plane % channels)] += call->in[0][i] * share;
    for (int64_t i = 0; i < planes * plane; i++) {
        int64_t unit = statistic_of(call, x, i / plane / channels, i / plane % channels);
        rstd[unit] += (call->in[0][i] - mean[unit]) * (call->in[0][i] - mean[unit]) * share;
    }
    for (int64_t unit = 0; unit < units; unit++) rstd[unit] = 1 / sqrt(rstd[unit] + call->op->attrs.eps);
    for (int64_t i = 0; i < planes * plane; i++) {
        int64_t c = i / plane % channels, unit = statistic_of(call, x, i / plane / channels, c);
        call->out[0][i] = (call->in[0][i] - mean[unit]) * rstd[unit] * call->in[1][c] + call->in[2][c];
    }
    return SG_OK;
}

/* With xh = (x - mean) rstd and g = dy w, means over what one statistic covers: dx = rstd (g - mean(g) - xh mean(g xh)). */
sg_code ref_CHANNEL_NORM_BWD(const ref_call *call) {
    const sg_desc *x = ref_in(call, 1);
    int64_t channels = x->size[1], plane = ref_extent(x, 2, x->ndim), count = sg_desc_count(x);
    int64_t units = sg_desc_count(ref_in(call, 2));
    const double *dy = call->in[0], *mean = call->in[2], *rstd = call->in[3], *w = call->in[4];
    double share = 1.0 / ((double)count / (double)units), *sums = calloc((size_t)units, 2 * sizeof *sums);
    if (!sums) return SG_MACHINE;
    int next = 0;
    double *dx = ref_flag(call, SG_NO_DX) ? NULL : call->out[next++];
    double *dw = ref_flag(call, SG_NO_DW) ? NULL : call->out[next++];
    double *db = ref_flag(call, SG_NO_DW) ? NULL : call->out[next];
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i / plane % channels, unit = statistic_of(call, x, i / plane / channels, c);
        double xh = (call->in[1][i] - mean[unit]) * rstd[unit];
        sums[2 * unit] += dy[i] * w[c] * share;
        sums[2 * unit + 1] += dy[i] * w[c] * xh * share;
        if (dw) dw[c] += dy[i] * xh;
        if (db) db[c] += dy[i];
    }
    for (int64_t i = 0; dx && i < count; i++) {
        int64_t c = i / plane % channels, unit = statistic_of(call, x, i / plane / channels, c);
        double xh = (call->in[1][i] - mean[unit]) * rstd[unit];
        dx[i] = rstd[unit] * (dy[i] * w[c] - sums[2 * unit] - xh * sums[2 * unit + 1]);
    }
    free(sums);
    return SG_OK;
}
