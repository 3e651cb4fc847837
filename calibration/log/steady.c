/* steady.c: the medians of a run, without its warm-up and without stalls; what events took by the clock. */
#include "calibration/log/build.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A window is stalled when its step takes more than twice the median: waits of loaders come in bursts of many times that,
 * while clocks, caches and sequence lengths move steps by tens of per cent. */
static const double STALLED = 2;

static double sum_of(const sg_log_window *w, sg_log_field a, sg_log_field b, sg_log_field c) {
    double sum = w->value[a];
    if (!isnan(w->value[b])) sum += w->value[b];
    if (c != a && !isnan(w->value[c])) sum += w->value[c];
    return sum;
}

double sg_log_window_step_s(const sg_log_window *w) {
    if (!isnan(w->value[SG_LOG_STEP_S])) return w->value[SG_LOG_STEP_S];
    if (!isnan(w->value[SG_LOG_UPDATE_S]))
        return sum_of(w, SG_LOG_UPDATE_S, SG_LOG_DATALOADING_S, SG_LOG_PREPROCESSING_S);
    if (!isnan(w->value[SG_LOG_ITERATION_S]) && isnan(w->value[SG_LOG_COLLECTION_S]))
        return w->value[SG_LOG_ITERATION_S];
    return sum_of(w, SG_LOG_COLLECTION_S, SG_LOG_LEARNING_S, SG_LOG_COLLECTION_S);
}

static double median(double *values, size_t n) {
    if (!n) return NAN;
    gsl_sort(values, 1, n);
    return gsl_stats_median_from_sorted_data(values, 1, n);
}

/* Whether window i counts beside the first: a summary is used only where there is nothing else. */
static bool counts(const sg_log *log, size_t i, bool summaries) {
    const sg_log_window *w = &log->windows[i];
    return summaries ? w->summary : i > 0 && !w->summary;
}

static size_t gather(const sg_log *log, bool summaries, int field, bool with_stalled, double *values) {
    size_t n = 0;
    for (size_t i = 0; i < log->n_windows; i++) {
        const sg_log_window *w = &log->windows[i];
        if (!counts(log, i, summaries) || (w->stalled && !with_stalled)) continue;
        bool step = field == SG_LOG_FIELDS || field == SG_LOG_STEP_S;
        double value = step ? sg_log_window_step_s(w) : w->value[field];
        if (!isnan(value)) values[n++] = value;
    }
    return n;
}

static bool tells(const sg_log_window *w) {
    for (int f = 0; f < SG_LOG_FIELDS; f++)
        if (!isnan(w->value[f])) return true;
    return false;
}

static void mark_stalls(sg_log *log, bool summaries, double typical_s) {
    for (size_t i = 0; i < log->n_windows; i++) {
        sg_log_window *w = &log->windows[i];
        w->stalled = counts(log, i, summaries) && sg_log_window_step_s(w) > STALLED * typical_s;
        log->stalled += w->stalled;
        log->steady_windows += counts(log, i, summaries) && !w->stalled && tells(w);
    }
}

void sg_log_steady(sg_log *log) {
    if (!log->n_windows) return;
    double *values = malloc(log->n_windows * sizeof *values);
    if (!values) {
        sg_log_warn(log, "Medians are missing: no memory");
        return;
    }
    bool summaries =
        gather(log, false, SG_LOG_STEP_S, true, values) == 0 && gather(log, true, SG_LOG_STEP_S, true, values) > 0;
    log->first_dropped = summaries || log->windows[0].summary ? 0 : 1;
    size_t n = gather(log, summaries, SG_LOG_STEP_S, true, values);
    log->mean_step_s = n ? gsl_stats_mean(values, 1, n) : NAN;
    mark_stalls(log, summaries, median(values, n));
    for (int f = 0; f < SG_LOG_FIELDS; f++) log->steady[f] = median(values, gather(log, summaries, f, false, values));
    free(values);
}

/* A start weighs little in the mean of so many steps. */
static bool only_window(const sg_log *log) {
    if (!isnan(log->steady[SG_LOG_STEP_S]) || log->n_windows != 1) return false;
    const sg_log_window *w = &log->windows[0];
    return strcmp(log->format, "lerobot-2024") != 0 && (isnan(w->step) || w->step >= 30);
}

bool sg_log_typical(const sg_log *log, double value[SG_LOG_FIELDS]) {
    bool only = only_window(log);
    memcpy(value, only ? log->windows[0].value : log->steady, SG_LOG_FIELDS * sizeof *value);
    if (only) value[SG_LOG_STEP_S] = sg_log_window_step_s(&log->windows[0]);
    return only;
}

/* Both ends known to the second, the steps to half a millisecond each. */
static double gap_seconds(const sg_log *log, size_t window) {
    const sg_log_window *before = &log->windows[window - 1], *after = &log->windows[window];
    double steps = after->step - before->step, step_s = sg_log_window_step_s(after);
    if (before->step_low != before->step_high || after->step_low != after->step_high) return NAN;
    double over = after->time_s - before->time_s - steps * step_s, error = 1 + 0.001 * steps;
    return over >= 0 ? over : over > -error ? 0 : NAN;
}

static bool takes_time(const sg_log_event *e) {
    return e->kind == SG_LOG_CHECKPOINT || e->kind == SG_LOG_EVALUATION || e->kind == SG_LOG_HUB_PUSH;
}

/* Events [first, end) lie between two windows: what the clock shows beyond the steps, and beyond what some of them tell
 * themselves, goes to the last that does not tell. */
static void time_gap(sg_log *log, size_t first, size_t end) {
    size_t window = (size_t)log->events[first].windows;
    if (window == 0 || window >= log->n_windows) return;
    double left = gap_seconds(log, window);
    sg_log_event *last = NULL;
    for (size_t i = first; i < end; i++) {
        if (!takes_time(&log->events[i])) continue;
        if (isnan(log->events[i].seconds))
            last = &log->events[i];
        else
            left -= log->events[i].seconds;
    }
    if (last && left >= 0) last->seconds = left;
}

void sg_log_time_events(sg_log *log) {
    if (log->every != 1 || strcmp(log->format, "lerobot-2024") == 0) return;
    for (size_t i = 0; i < log->n_events;) {
        size_t end = i + 1;
        while (end < log->n_events && log->events[end].windows == log->events[i].windows) end++;
        time_gap(log, i, end);
        /* Behind the last window: until the run says that it is over. */
        if (log->events[i].windows == log->n_windows && end == i + 2 && log->events[i + 1].kind == SG_LOG_END &&
            takes_time(&log->events[i]) && isnan(log->events[i].seconds))
            log->events[i].seconds = log->events[i + 1].time_s - log->events[i].time_s;
        i = end;
    }
}
