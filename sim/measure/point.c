#include "sim/measure/point_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *sg_quantity_name(sg_quantity q) {
    static const char *const names[SG_Q_COUNT] = {
        [SG_Q_DATALOADING] = "dataloading_s",
        [SG_Q_PREPROCESSING] = "preprocessing_s",
        [SG_Q_UPDATE] = "update_s",
        [SG_Q_STEP] = "step_s",
        [SG_Q_FORWARD] = "forward_s",
        [SG_Q_BACKWARD] = "backward_s",
        [SG_Q_OPTIMIZER] = "optimizer_s",
        [SG_Q_EXPOSED_SYNC] = "exposed_sync_s",
        [SG_Q_PREPROCESSING_DEVICE] = "preprocessing_device_s",
        [SG_Q_UPDATE_DEVICE] = "update_device_s",
        [SG_Q_COLLECTION] = "collection_s",
        [SG_Q_INFERENCE] = "inference_s",
        [SG_Q_ENVIRONMENT] = "environment_s",
        [SG_Q_LEARNING] = "learning_s",
        [SG_Q_ITERATION] = "iteration_s",
    };
    return (unsigned)q < SG_Q_COUNT ? names[q] : "";
}

void sg_point_clear(sg_point *point) {
    for (int q = 0; q < SG_Q_COUNT; q++) {
        free(point->raw[q]);
        point->raw[q] = NULL;
    }
    free(point->rank_update_s);
    point->rank_update_s = NULL;
    free(point->op_s);
    point->op_s = NULL;
}

bool sg_point_pauses(const sg_point_config *config) {
    return strncmp(config->execution, "pause=", 6) == 0;
}

uint64_t sg_point_key(const sg_point_config *config) {
    return sg_fields_key(sg_config_fields(), config);
}

static int ascending(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static double log_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

/* The largest k for which the k-th smallest and k-th largest value (from 0) hold the median with at least 95 %: the count
 * of values below the median is binomial(n, 1/2), so they miss it with probability 2 P(count <= k). With fewer than six
 * values even the extremes hold it less often; they are what there is. */
static size_t interval_rank(size_t n) {
    double below = 0, whole = log_gamma((double)n + 1) - (double)n * log(2.0);
    size_t k = 0;
    for (; 2 * k + 1 < n; k++) {
        below += exp(whole - log_gamma((double)k + 1) - log_gamma((double)(n - k) + 1));
        if (below > 0.025) break;
    }
    return k > 0 ? k - 1 : 0;
}

sg_statistic sg_statistic_of(const double *values, size_t n) {
    sg_statistic s = {0};
    if (n == 0) return s;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += values[i];
    s.mean = s.median = s.low = s.high = sum / (double)n;
    double *sorted = reallocarray(NULL, n, sizeof *sorted);
    if (!sorted) return s;
    memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    s.median = n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
    size_t k = interval_rank(n);
    s.low = sorted[k];
    s.high = sorted[n - 1 - k];
    free(sorted);
    return s;
}
