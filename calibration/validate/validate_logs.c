/* validate_logs.c: the first windows of training logs against the rest of them.
 *
 * Parts: "by clock" where both ends of the rest carry a time of day, else "by steps": the sum of what its lines tell. */
#include "calibration/forecast/forecast.h"
#include "calibration/validate/validate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A rest as short as this is the noise of whole seconds. */
static const double LEAST_REST_S = 30;
/* Steps of the rest below which one step's luck decides. */
static const double LEAST_STEPS = 50;

static double rest_by_steps(const sg_log *log, size_t from) {
    double seconds = 0;
    for (size_t i = from; i < log->n_windows; i++)
        seconds += (sg_log_window_position(&log->windows[i]) - sg_log_window_position(&log->windows[i - 1])) *
                   sg_log_window_step_s(&log->windows[i]);
    for (size_t i = 0; i < log->n_events; i++) {
        const sg_log_event *e = &log->events[i];
        if (e->windows >= from && e->windows < log->n_windows && isfinite(e->seconds)) seconds += e->seconds;
    }
    return seconds;
}

/* What in the rest nothing before it had shown. */
static void explain(const sg_log *log, size_t from, sg_validated *v) {
    double most = 0;
    const sg_log_event *found = NULL;
    for (size_t i = 0; i < log->n_events; i++) {
        const sg_log_event *e = &log->events[i];
        bool within = e->windows >= from && e->windows < log->n_windows;
        if (within && e->kind <= SG_LOG_HUB_PUSH && e->seconds > most) most = e->seconds, found = e;
    }
    for (size_t i = 0; found && i < log->n_events; i++)
        if (log->events[i].kind == found->kind && log->events[i].windows < from) return;
    if (found && most > 0.05 * v->measured && v->measured > v->predicted)
        (void)snprintf(v->cause, sizeof v->cause, "%s of %.0f s (%.0f %% of the rest), the first of its kind",
                       sg_log_event_name(found->kind), most, 100 * most / v->measured);
}

/* Why the run is no test; "": it is one. */
static void too_short(const sg_log *log, size_t evidence, double steps, sg_validated *v) {
    if (!log->n_windows)
        (void)snprintf(v->skipped, sizeof v->skipped, "it has no windows");
    else if (log->n_windows < 3)
        (void)snprintf(v->skipped, sizeof v->skipped, "too short: warm-up, evidence and a rest need three windows");
    else if (evidence < 2 || isnan(steps))
        (void)snprintf(v->skipped, sizeof v->skipped, "its lines do not tell the steps between its windows");
    else if (steps < LEAST_STEPS)
        (void)snprintf(v->skipped, sizeof v->skipped,
                       "too short: fewer than %.0f steps behind the evidence (or counters too coarse to tell)",
                       LEAST_STEPS);
}

static void measure(const sg_log *log, size_t evidence, sg_validated *v) {
    double clock_s = log->windows[log->n_windows - 1].time_s - log->windows[evidence - 1].time_s;
    bool by_clock = clock_s >= LEAST_REST_S;
    (void)snprintf(v->part, sizeof v->part, by_clock ? "by clock" : "by steps");
    v->measured = by_clock ? clock_s : rest_by_steps(log, evidence);
    if (!(v->measured > 0))
        (void)snprintf(v->skipped, sizeof v->skipped, "neither its clock nor its lines tell how long the rest took");
}

static void predict(const sg_log *log, size_t evidence, double interval, sg_validated *v) {
    sg_status status;
    sg_forecast f;
    const sg_forecast_options options = {.windows = evidence,
                                         .to_step = sg_log_window_position(&log->windows[log->n_windows - 1]),
                                         .to_line = true,
                                         .interval = interval};
    if (sg_forecast_make(log, &options, &f, &status) != SG_OK) {
        (void)snprintf(v->skipped, sizeof v->skipped, "%.150s", status.text);
        return;
    }
    v->predicted = f.rest_s.value;
    v->low = f.rest_s.low;
    v->high = f.rest_s.high;
    explain(log, evidence, v);
}

static sg_validated validate_run(const sg_log *log, const char *file, size_t run, double interval) {
    sg_validated v = {.cls = SG_VALIDATE_LOGS,
                      .line = run + 1,
                      .measured = NAN,
                      .predicted = NAN,
                      .low = NAN,
                      .high = NAN,
                      .roofline = NAN};
    (void)snprintf(v.device, sizeof v.device, "%s", log->format);
    (void)snprintf(v.file, sizeof v.file, "%.60s", file);
    size_t evidence = sg_forecast_evidence(log, 0);
    double at = NAN, to = NAN;
    if (evidence >= 2) {
        at = sg_log_window_position(&log->windows[evidence - 1]);
        to = sg_log_window_position(&log->windows[log->n_windows - 1]);
    }
    (void)snprintf(v.row, sizeof v.row, "run %zu", run + 1);
    too_short(log, evidence, to - at, &v);
    if (v.skipped[0]) return v;
    (void)snprintf(v.row, sizeof v.row, "run %zu, steps %.0f to %.0f", run + 1, at, to);
    measure(log, evidence, &v);
    if (!v.skipped[0]) predict(log, evidence, interval, &v);
    return v;
}

sg_code sg_validate_logs(const sg_logs *logs, const char *path, const sg_validate_options *options, sg_validation *into,
                         sg_status *status) {
    const char *slash = strrchr(path, '/');
    sg_code code = SG_OK;
    for (size_t i = 0; i < logs->n && !code; i++) {
        sg_validated v = validate_run(&logs->logs[i], slash ? slash + 1 : path, i, options->interval);
        code = sg_validation_add(into, &v, status);
    }
    return code;
}
