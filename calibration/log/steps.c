/* steps.c: what rounded step counters ("2K") stand for: lines come at a fixed interval, and samples are counted too. */
#include "calibration/log/build.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Intervals between lines that people choose; LeRobot's default is 200. */
enum { INTERVAL_LEAST = 10, INTERVAL_MOST = 5000 };

static bool exact(const sg_log_window *w) {
    return w->step_low == w->step_high;
}

static void narrow_by_samples(sg_log *log) {
    double per_step = (double)log->config.samples_per_step;
    if (per_step < 1 || log->config.ranks > 1) return;
    for (size_t i = 0; i < log->n_windows; i++) {
        sg_log_window *w = &log->windows[i];
        if (isnan(w->samples_low) || exact(w) || isnan(w->step_low)) continue;
        double low = fmax(w->step_low, ceil(w->samples_low / per_step) - 1); /* 2024 counts the step under way */
        double high = fmin(w->step_high, floor(w->samples_high / per_step));
        if (low > high) continue;
        w->step_low = low;
        w->step_high = high;
    }
}

static double greatest_divisor(double a, double b) {
    while (b >= 1) {
        double rest = fmod(a, b);
        a = b;
        b = rest;
    }
    return a;
}

static bool fits(const sg_log *log, double interval) {
    for (size_t i = 0; i < log->n_windows; i++) {
        const sg_log_window *w = &log->windows[i];
        if (!isnan(w->step_low) && floor(w->step_high / interval) * interval < w->step_low) return false;
    }
    return true;
}

/* What all exact counters are multiples of; 0 with fewer than two of them. */
static double interval_of_counters(const sg_log *log) {
    double divisor = 0;
    size_t n = 0;
    for (size_t i = 0; i < log->n_windows; i++) {
        const sg_log_window *w = &log->windows[i];
        if (!exact(w) || isnan(w->step)) continue;
        n++;
        if (w->step >= 1) divisor = divisor ? greatest_divisor(w->step, divisor) : w->step;
    }
    return n >= 2 && divisor >= 1 && fits(log, divisor) ? divisor : 0;
}

static bool event_between(const sg_log *log, size_t window) {
    for (size_t i = 0; i < log->n_events; i++)
        if (log->events[i].windows == window) return true;
    return false;
}

/* The interval that the clock shows: time between lines / time of a step, where nothing else happened. Whole seconds are
 * told, so the interval is taken only when it is the only one that fits. 0: none. */
static double interval_of_clock(const sg_log *log) {
    size_t pairs = 0, n = 0;
    double(*range)[2] = malloc((log->n_windows + 1) * sizeof *range);
    if (!range) return 0;
    for (size_t i = 1; i < log->n_windows && i < 256 && log->every == 1; i++) {
        double span = log->windows[i].time_s - log->windows[i - 1].time_s;
        double step_s = sg_log_window_step_s(&log->windows[i]);
        if (!(span > 10) || !(step_s > 0) || event_between(log, i)) continue;
        range[n][0] = (span - 1) / (step_s + 0.001);
        range[n++][1] = (span + 1) / (step_s > 0.002 ? step_s - 0.001 : step_s);
        pairs++;
    }
    double found = 0;
    for (int interval = INTERVAL_LEAST; pairs >= 2 && interval <= INTERVAL_MOST; interval++) {
        size_t agree = 0;
        for (size_t i = 0; i < n; i++) agree += interval >= range[i][0] && interval <= range[i][1];
        if (agree < 2 || 2 * agree < pairs || !fits(log, interval)) continue;
        if (found) {
            found = 0;
            break;
        }
        found = interval;
    }
    free(range);
    return found;
}

static void choose(const sg_log *log, sg_log_window *w, const sg_log_window *before, double interval) {
    if (isnan(w->step_low)) return;
    if (exact(w)) {
        w->step = w->step_low; /* samples may have left but one */
        return;
    }
    double middle = floor((w->step_low + w->step_high) / 2);
    if (w->step < w->step_low || w->step > w->step_high) w->step = middle;
    if (!interval) return;
    double first = ceil(w->step_low / interval) * interval, last = floor(w->step_high / interval) * interval;
    if (first > last) return;
    w->step = fmax(first, fmin(last, floor(w->step / interval + 0.5) * interval));
    if (first == last) {
        w->step_low = w->step_high = first;
        return;
    }
    double next = before ? before->step + interval : NAN;
    if (log->every == 1 && next >= first && next <= last) w->step = next;
}

void sg_log_resolve_steps(sg_log *log) {
    size_t rounded = 0;
    for (size_t i = 0; i < log->n_windows; i++) rounded += !exact(&log->windows[i]) && !isnan(log->windows[i].step);
    if (!rounded) return;
    narrow_by_samples(log);
    double interval = (double)log->config.log_every;
    if (interval && !fits(log, interval)) interval = 0;
    if (!interval) interval = interval_of_counters(log);
    if (!interval) interval = interval_of_clock(log);
    size_t left = 0;
    for (size_t i = 0; i < log->n_windows; i++) {
        choose(log, &log->windows[i], i ? &log->windows[i - 1] : NULL, interval);
        left += !exact(&log->windows[i]) && !isnan(log->windows[i].step);
    }
    if (left)
        sg_log_warn(log, "The step counter is rounded in the log: %zu of %zu steps are estimates", left,
                    log->n_windows);
}
