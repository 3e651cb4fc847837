#include "calibration/log/bars.h"

#include <math.h>

/* Bars tell whole seconds: over half a minute a step is known to 3 % by them, below it by the bar's own rate. */
static const double LONG_S = 30;

static double step_s_of(const sg_log_builder *b) {
    double spent = b->bar.elapsed_s - b->last_bar.elapsed_s, steps = b->bar.position - b->last_bar.position;
    if (b->last_bar.total == b->bar.total && spent >= LONG_S && steps >= 1) return spent / steps;
    return b->bar.rate_s;
}

static void used(sg_log_builder *b, sg_log *log) {
    if (log && b->bar.total >= 1 && b->bar.total < 9e15) log->config.steps = (int64_t)b->bar.total;
    b->last_bar = b->bar;
    b->bar.fresh = false;
}

static sg_log *last_run(const sg_log_builder *b) {
    return b->logs->n ? &b->logs->logs[b->logs->n - 1] : NULL;
}

void sg_log_flush_bar(sg_log_builder *b) {
    sg_log *log = last_run(b);
    bool of_bars = b->family == SG_LOG_OPENPI || b->family == SG_LOG_HF;
    if (!log || !of_bars || b->ended || !b->bar.fresh) return;
    if (!isnan(log->train_s)) { /* told its times already: the bar at its end adds the number of steps */
        used(b, log);
        return;
    }
    sg_log_window w = sg_log_window_none();
    w.value[SG_LOG_STEP_S] = step_s_of(b);
    if (b->bar.position > b->last.step || isnan(b->last.step)) w.step = w.step_low = w.step_high = b->bar.position;
    w.time_s = b->time_s;
    sg_log_family family = b->family;
    if (!isnan(w.value[SG_LOG_STEP_S])) sg_log_builder_window(b, family, &w);
    used(b, last_run(b));
}

void sg_log_window_by_bar(sg_log_builder *b, sg_log_family family, sg_log_window *w) {
    bool before = !isnan(w->step) && b->bar.position > w->step + 1;
    bool behind = b->family == family && b->bar.position < b->last.step;
    if (b->bar.fresh && (before || behind)) sg_log_flush_bar(b);
    bool bar = b->bar.fresh;
    if (bar) {
        w->value[SG_LOG_STEP_S] = step_s_of(b);
        if (isnan(w->step)) w->step = w->step_low = w->step_high = b->bar.position;
    }
    w->time_s = b->time_s;
    sg_log_builder_window(b, family, w);
    if (bar) used(b, last_run(b));
}
