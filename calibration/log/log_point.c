/* log_point.c: the steady windows of a run as one observed point. */
#include "calibration/log/log.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_steady(const sg_log *log, size_t i) {
    const sg_log_window *w = &log->windows[i];
    bool dropped = i == 0 && log->first_dropped > 0;
    return !dropped && !w->stalled && !isnan(sg_log_window_step_s(w)) && (!w->summary || log->first_dropped == 0);
}

static size_t gather(const sg_log *log, sg_quantity quantity, double *values) {
    static const int field[SG_Q_COUNT] = {[SG_Q_DATALOADING] = SG_LOG_DATALOADING_S,
                                          [SG_Q_PREPROCESSING] = SG_LOG_PREPROCESSING_S,
                                          [SG_Q_UPDATE] = SG_LOG_UPDATE_S,
                                          [SG_Q_COLLECTION] = SG_LOG_COLLECTION_S,
                                          [SG_Q_LEARNING] = SG_LOG_LEARNING_S};
    size_t n = 0;
    for (size_t i = 0; i < log->n_windows; i++) {
        if (!is_steady(log, i)) continue;
        bool whole = quantity == SG_Q_STEP || quantity == SG_Q_ITERATION;
        double value = whole ? sg_log_window_step_s(&log->windows[i]) : log->windows[i].value[field[quantity]];
        if (!isnan(value)) values[n++] = value;
    }
    return n;
}

/* From this share of stalled windows on, the medians of the others are no steady training either. */
static const double STALLED_SHARE = 0.2;

static void note_disturbances(const sg_log *log, sg_point *point) {
    const char *format = log->format;
    bool rank0 = log->config.ranks > 1 && (strcmp(format, "lerobot-2024") == 0 || strcmp(format, "lerobot-2025") == 0);
    char *why = point->disturbed_why;
    size_t bytes = sizeof point->disturbed_why;
    if ((double)log->stalled > STALLED_SHARE * (double)(log->stalled + log->steady_windows))
        (void)snprintf(why, bytes, "%llu of its windows stalled, %llu did not", (unsigned long long)log->stalled,
                       (unsigned long long)log->steady_windows);
    else if (strcmp(format, "lerobot-2024") == 0)
        (void)snprintf(why, bytes, "its times are of single steps, no means");
    else if (rank0)
        (void)snprintf(why, bytes, "its times are of one of %lld processes, the slowest decides",
                       (long long)log->config.ranks);
    point->disturbed = why[0] != 0;
}

sg_code sg_log_point(const sg_log *log, const sg_point_config *config, const char *origin, sg_point *point,
                     sg_status *status) {
    static const sg_quantity of_steps[] = {SG_Q_DATALOADING, SG_Q_PREPROCESSING, SG_Q_UPDATE, SG_Q_STEP};
    static const sg_quantity of_ppo[] = {SG_Q_COLLECTION, SG_Q_LEARNING, SG_Q_ITERATION};
    memset(point, 0, sizeof *point);
    double *values = calloc(log->n_windows ? log->n_windows : 1, sizeof *values);
    if (!values) return sg_fail_memory(status, log->n_windows * sizeof *values, "log windows");
    bool ppo = config->envs > 0;
    size_t count = ppo ? sizeof of_ppo / sizeof *of_ppo : sizeof of_steps / sizeof *of_steps;
    for (size_t k = 0; k < count; k++) {
        sg_quantity q = ppo ? of_ppo[k] : of_steps[k];
        size_t n = gather(log, q, values);
        /* A phase that the lines do not tell apart took no time of its own: it is in another one. */
        if (n) point->q[q] = sg_statistic_of(values, n);
        if (q == SG_Q_STEP || q == SG_Q_ITERATION) point->iterations = (int64_t)n;
    }
    free(values);
    if (point->iterations < 1)
        return sg_fail(status, SG_BAD_INPUT, "the log has no steady windows with a step time: the first is warm-up");
    double most_bytes = 0;
    for (size_t i = 0; i < log->n_windows; i++)
        if (log->windows[i].value[SG_LOG_PEAK_BYTES] > most_bytes && log->windows[i].value[SG_LOG_PEAK_BYTES] < 1e15)
            most_bytes = log->windows[i].value[SG_LOG_PEAK_BYTES];
    point->config = *config;
    point->key = sg_point_key(config);
    point->warmup = (int64_t)log->first_dropped;
    point->peak_allocated_bytes = (uint64_t)most_bytes;
    double step_s = point->q[ppo ? SG_Q_ITERATION : SG_Q_STEP].median;
    if (!ppo && step_s > 0) point->samples_per_s = (double)(config->batch * config->ranks) / step_s;
    if (ppo && step_s > 0)
        point->env_steps_per_s = (double)(config->envs * config->steps_per_env * config->ranks) / step_s;
    point->fits_rates = true;
    for (int c = 0; c < SG_CLASS_COUNT; c++) point->class_s[c] = NAN;
    point->frame_s = NAN;
    note_disturbances(log, point);
    (void)snprintf(point->source, sizeof point->source, "observed");
    (void)snprintf(point->origin, sizeof point->origin, "%.255s", origin);
    return SG_OK;
}
