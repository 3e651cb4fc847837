/* pace.c: how fast a run went: what is steady, what stalls and epochs add. */
#include "calibration/forecast/forecast.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* As in the medians of a log: waits come in bursts of many times the step, everything else moves it by tens of per cent. */
static const double STALLED = 2;
/* Clocks of logs tell whole seconds: both ends of a span together are off by this much (sd of a difference of two uniform
 * errors), and a span must be so long before it is taken. */
static const double CLOCK_SD_S = 0.41, CLOCK_LEAST_S = 20;
/* The pace of one part of a run against the next, where nothing happened: first 150-1000 steps against up to 4400 later ones
 * in six published runs, at most 1 %; twice that, as machines are shared. A seventh became 12 % slower behind a checkpoint:
 * what changes the machine in the middle of a run is outside of this width. */
static const double LATER_LOG_SD = 0.02;
/* What one interval alone leaves open beyond that. */
static const double ONE_INTERVAL_LOG_SD = 0.04;
enum { DRIFT_LEAST = 6 };

typedef struct interval {
    double steps, seconds, epochs;
} interval;

double sg_log_window_position(const sg_log_window *w) {
    return isnan(w->step) ? w->iteration : w->step;
}

/* The counter may be rounded: what it leaves open must not matter. */
static bool placed(const sg_log_window *w, const sg_log_window *before) {
    double steps = sg_log_window_position(w) - sg_log_window_position(before);
    if (!(steps > 0)) return false;
    double open = (isnan(w->step) ? 0 : w->step_high - w->step_low) +
                  (isnan(before->step) ? 0 : before->step_high - before->step_low);
    return !(open > 0.01 * steps);
}

static bool instantaneous(const sg_log *log) {
    return strcmp(log->format, "lerobot-2024") == 0;
}

/* Events lie in the order of the file, so by the windows before them. */
static size_t first_event(const sg_log *log, size_t window) {
    size_t low = 0, high = log->n_events;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (log->events[middle].windows < window)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t sg_log_events_before(const sg_log *log, size_t window, double *seconds) {
    size_t n = 0;
    *seconds = 0;
    for (size_t k = first_event(log, window); k < log->n_events && log->events[k].windows == window; k++) {
        if (log->events[k].kind > SG_LOG_HUB_PUSH) continue;
        *seconds += log->events[k].seconds;
        n++;
    }
    return n;
}

/* A window's own times stand for all of its steps where they are means. */
static double by_line(const sg_log *log, size_t i, double steps) {
    return steps * sg_log_window_step_s(&log->windows[i]);
}

/* What events took is mostly what the clock shows beyond the steps of the lines: intervals without any are better. */
static double by_clock(const sg_log *log, size_t i, bool clean) {
    double seconds;
    if (sg_log_events_before(log, i, &seconds) > 0 && clean) return NAN;
    return log->windows[i].time_s - log->windows[i - 1].time_s - seconds;
}

static double epochs_between(const sg_pace *p, double from, double to) {
    if (!(p->samples_per_step > 0) || !(p->frames > 0)) return 0;
    return floor(to * p->samples_per_step / p->frames) - floor(from * p->samples_per_step / p->frames);
}

/* Whole seconds: intervals too short for the clock are joined with the next. */
static size_t gather(const sg_log *log, const sg_pace *p, bool clock, bool clean, interval *out) {
    size_t n = 0, last = 0;
    for (size_t i = 1; i < p->windows; i++) {
        const sg_log_window *w = &log->windows[i], *before = &log->windows[i - 1];
        if (w->summary || before->summary || !placed(w, before)) continue;
        double from = sg_log_window_position(before), to = sg_log_window_position(w);
        double seconds = clock ? by_clock(log, i, clean) : by_line(log, i, to - from);
        if (!(seconds >= 0) || !isfinite(seconds)) continue;
        bool joins = clock && n && last == i - 1 && out[n - 1].seconds < CLOCK_LEAST_S;
        if (!joins) out[n++] = (interval){0, 0, 0};
        out[n - 1].steps += to - from;
        out[n - 1].seconds += seconds;
        out[n - 1].epochs += epochs_between(p, from, to);
        last = i;
    }
    if (clock && n > 1 && out[n - 1].seconds < CLOCK_LEAST_S) n--;
    return n;
}

static double total(const interval *v, size_t n, bool seconds) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += seconds ? v[i].seconds : v[i].steps;
    return sum;
}

static double median(double *values, size_t n) {
    if (!n) return NAN;
    gsl_sort(values, 1, n);
    return gsl_stats_median_from_sorted_data(values, 1, n);
}

/* What a boundary of an epoch takes beyond the steps; intervals that have some then go on without it. */
static void take_epochs(sg_pace *p, interval *v, size_t n) {
    double plain_s = 0, plain = 0, more_s = 0, crossed = 0;
    p->epoch_s = NAN;
    for (size_t i = 0; i < n; i++)
        if (v[i].epochs == 0) plain_s += v[i].seconds, plain += v[i].steps;
    if (!(plain > 0)) return;
    for (size_t i = 0; i < n; i++) {
        if (v[i].epochs == 0 || v[i].seconds > STALLED * v[i].steps * plain_s / plain) continue;
        more_s += v[i].seconds - v[i].steps * plain_s / plain;
        crossed += v[i].epochs;
    }
    if (crossed == 0) return;
    p->epoch_s = fmax(0, more_s / crossed);
    for (size_t i = 0; i < n; i++) v[i].seconds = fmax(0, v[i].seconds - v[i].epochs * p->epoch_s);
}

/* Splits stalls off: v keeps what is steady, n shrinks. */
static size_t take_stalls(sg_pace *p, interval *v, size_t n, double *scratch) {
    double steps = total(v, n, false), excess = 0;
    for (size_t i = 0; i < n; i++) scratch[i] = v[i].seconds / v[i].steps;
    double typical = median(scratch, n);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (v[i].seconds > STALLED * typical * v[i].steps) {
            excess += v[i].seconds - typical * v[i].steps;
            p->stalled++;
        } else {
            v[kept++] = v[i];
        }
    }
    p->stall_s = excess / steps;
    return kept;
}

/* Standard error of the pace, from how intervals differ. */
static double scatter(const interval *v, size_t n, double pace) {
    double squares = 0, steps = total(v, n, false);
    if (n < 2) return ONE_INTERVAL_LOG_SD;
    for (size_t i = 0; i < n; i++) squares += v[i].steps / steps * pow(v[i].seconds / v[i].steps / pace - 1, 2);
    return sqrt(squares / (double)(n - 1));
}

/* A run that gets slower goes on as its second half went. */
static void take_drift(sg_pace *p, const interval *v, size_t n) {
    p->drift = NAN;
    if (n < DRIFT_LEAST) return;
    size_t half = n / 2;
    double first = total(v, half, true) / total(v, half, false);
    double second = total(v + half, n - half, true) / total(v + half, n - half, false);
    double error = hypot(scatter(v, half, first), scatter(v + half, n - half, second));
    p->drift = log(second / first);
    if (fabs(p->drift) < 2 * error) return;
    p->steady_s = second;
    p->log_sd = hypot(p->log_sd, p->drift);
}

static double line_median(const sg_log *log, size_t windows, sg_log_field field, double *scratch) {
    size_t n = 0;
    for (size_t i = 1; i < windows; i++) {
        double value = log->windows[i].value[field];
        if (isfinite(value) && !log->windows[i].summary) scratch[n++] = value;
    }
    return median(scratch, n);
}

static void take_lines(const sg_log *log, sg_pace *p, double *scratch) {
    p->update_s = line_median(log, p->windows, SG_LOG_UPDATE_S, scratch);
    p->dataloading_s = line_median(log, p->windows, SG_LOG_DATALOADING_S, scratch);
    p->preprocessing_s = line_median(log, p->windows, SG_LOG_PREPROCESSING_S, scratch);
    p->collection_s = line_median(log, p->windows, SG_LOG_COLLECTION_S, scratch);
    p->learning_s = line_median(log, p->windows, SG_LOG_LEARNING_S, scratch);
    double first_s = sg_log_window_step_s(&log->windows[0]);
    double first_steps = instantaneous(log) ? 1 : p->from;
    p->warmup_s = first_steps > 0 && isfinite(first_s) ? fmax(0, first_steps * (first_s - p->steady_s)) : NAN;
}

static void fit(const sg_log *log, sg_pace *p, interval *v, size_t n, double *scratch) {
    double span_s = total(v, n, true);
    p->intervals = n;
    take_epochs(p, v, n);
    n = take_stalls(p, v, n, scratch);
    p->steady_s = total(v, n, true) / total(v, n, false);
    p->log_sd = hypot(LATER_LOG_SD, scatter(v, n, p->steady_s));
    if (p->by_clock) p->log_sd = hypot(p->log_sd, CLOCK_SD_S / span_s);
    take_drift(p, v, n);
    take_lines(log, p, scratch);
}

static sg_code no_pace(const sg_log *log, const sg_pace *p, sg_status *status) {
    if (p->windows < 2)
        return sg_fail(status, SG_NO, "too short: %zu window%s, and the first is warm-up", p->windows,
                       p->windows == 1 ? "" : "s");
    if (!(sg_log_window_position(&log->windows[p->windows - 1]) > sg_log_window_position(&log->windows[0])))
        return sg_fail(status, SG_NO, "no pace: its counters do not tell the steps between its windows");
    return sg_fail(status, SG_NO, "no pace: neither its clock nor its lines tell how long a step takes");
}

/* Intervals by the clock, without events where there are such; else by the lines where they tell means. */
static size_t choose(const sg_log *log, sg_pace *p, interval *v) {
    for (int clean = 1; clean >= 0; clean--) {
        size_t n = gather(log, p, true, clean, v);
        p->by_clock = n && total(v, n, true) >= CLOCK_LEAST_S;
        if (p->by_clock) return n;
    }
    return instantaneous(log) ? 0 : gather(log, p, false, false, v);
}

sg_code sg_pace_of(const sg_log *log, size_t windows, sg_pace *pace, sg_status *status) {
    *pace = (sg_pace){.windows = windows < log->n_windows ? windows : log->n_windows};
    if (pace->windows < 2) return no_pace(log, pace, status);
    pace->from = sg_log_window_position(&log->windows[0]);
    pace->to = sg_log_window_position(&log->windows[pace->windows - 1]);
    pace->samples_per_step = (double)log->config.samples_per_step;
    pace->frames = (double)log->config.frames;
    interval *v = calloc(pace->windows, sizeof *v);
    double *scratch = calloc(pace->windows, sizeof *scratch);
    if (!v || !scratch) {
        free(v);
        free(scratch);
        return sg_fail_memory(status, pace->windows * sizeof *v, "the windows of a log");
    }
    size_t n = choose(log, pace, v);
    if (n) fit(log, pace, v, n, scratch);
    free(v);
    free(scratch);
    return n ? SG_OK : no_pace(log, pace, status);
}

size_t sg_forecast_evidence(const sg_log *log, double steps) {
    double wanted = steps > 0 ? steps : 200;
    size_t n = 0, all = log->n_windows;
    while (n < all && (n < 3 || !(sg_log_window_position(&log->windows[n - 1]) >= wanted))) n++;
    size_t third = (all + 2) / 3;
    if (third < 2 && all > 2) third = 2;
    return n < third ? n : third;
}
