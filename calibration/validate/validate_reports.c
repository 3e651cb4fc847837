/* validate_reports.c: predictions beside what people reported of their trainings.
 *
 * Classes reports_step and reports_memory. Parts of reports_step: "eager, cameras known" on a named GPU is the core;
 * "compiled"; "cameras unknown" (predicted for two, as wide as one more or less makes it); "cameras by busy share" (the
 * source states how busy the GPU was: the count whose device time explains it, for all rows of one data set and machine
 * together); "unified memory"; "wall-clock only". Parts of reports_memory: "CNN allocated", "VLA allocated", "driver". */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/reports/report_case.h"
#include "calibration/reports/report_fit.h"
#include "calibration/reports/report_text.h"
#include "calibration/statistics/figure.h"
#include "calibration/validate/validate.h"

/* One camera more or less (predict_figures.c has the same for a camera count that the user does not give). */
static const double CAMERAS_LOG_SD = 0.35;

/* A whole run over its steps, in updates: 0.9-2.6 in seven published runs that state both or whose update is known, geometric
 * mean 1.5; loading, saving, evaluating and start-up are in it. */
static const double WALL_UPDATES = 1.5, WALL_LOG_SD = 0.35;

/* A measured value this far from a row's own rate of FLOPs is no measurement of it: above the dense peak. */
static const double IMPOSSIBLE_SHARE = 1.0;

typedef struct run {
    const sg_validate_options *options;
    const char *file;
    sg_validation *into;
    sg_report_cases cases;
    sg_report_fits fits; /* machines of each case, as fitted without its own device where asked */
} run;

static sg_validated row_of(const run *r, const sg_report_case *one, sg_validate_class cls) {
    sg_validated v = {
        .cls = cls, .line = one->line, .measured = NAN, .predicted = NAN, .low = NAN, .high = NAN, .roofline = NAN};
    (void)snprintf(v.device, sizeof v.device, "%s", one->has_machine ? one->machine.name : "unknown");
    (void)snprintf(v.row, sizeof v.row, "%s", one->row.id);
    (void)snprintf(v.file, sizeof v.file, "%.60s", r->file);
    return v;
}

static double measured_s(const sg_report_row *row) {
    return sqrt(row->low_s) * sqrt(row->high_s);
}

static sg_figure widened(const sg_figure *f, double scale, double log_sd, double interval) {
    sg_log_sd parts = f->parts;
    parts.inputs = hypot(parts.inputs, log_sd);
    return sg_figure_make(f->value * scale, parts, f->evidence, interval);
}

/* The figure that the report's time is to be compared with. */
static sg_figure time_of(const sg_report_case *one, const sg_prediction *p, double interval) {
    if (one->row.time == SG_REPORT_UPDATE) return p->update_s;
    if (one->row.time == SG_REPORT_WALL) return widened(&p->step_s, WALL_UPDATES, WALL_LOG_SD, interval);
    return p->step_s;
}

static const char *part_of(const sg_report_case *one) {
    if (one->row.time == SG_REPORT_WALL) return "wall-clock only";
    if (!one->cameras_known) return one->row.busy_share > 0 ? "cameras by busy share" : "cameras unknown";
    if (one->row.unified) return "unified memory";
    return one->row.compiled ? "compiled" : "eager, cameras known";
}

/* ---- cameras by the GPU's busy share ------------------------------------------------------------------------------- */

static sg_code predict_case(const run *r, const sg_report_case *one, size_t candidate, sg_prediction *p,
                            sg_status *status) {
    size_t i = (size_t)(one - r->cases.items);
    return sg_report_case_predict(one, candidate, &r->fits.machine[i], &r->fits.framework[i], r->options->config_dir,
                                  r->options->interval, p, status);
}

static bool chooses_cameras(const sg_report_case *one) {
    return one->has_machine && !one->cameras_known && one->n_candidates > 1 && one->row.busy_share > 0 &&
           (one->row.time == SG_REPORT_UPDATE || one->row.time == SG_REPORT_STEP);
}

static bool same_cameras(const sg_report_case *a, const sg_report_case *b) {
    return a == b || (a->dataset[0] && strcmp(a->dataset, b->dataset) == 0 && a->row.ranks == b->row.ranks &&
                      strcmp(a->row.hardware, b->row.hardware) == 0 && a->n_candidates == b->n_candidates);
}

/* Seconds that the GPU is busy in a step: as predicted; as the source states it, a share of the whole run where that is known. */
static double busy_s(const sg_prediction *p) {
    return p->device_busy_share * (p->update_s.value + p->preprocessing_s.value);
}

static double stated_busy_s(const sg_report_row *row) {
    return row->busy_share * fmax(measured_s(row) + row->data_s, row->run_step_s);
}

/* Of the candidates, the one whose device time comes nearest to the busy seconds that the sources state. */
static sg_code choose_cameras(const run *r, const sg_report_case *one, size_t *chosen, sg_status *status) {
    double best = INFINITY;
    for (size_t k = 0; k < one->n_candidates; k++) {
        double misfit = 0;
        for (size_t i = 0; i < r->cases.n; i++) {
            const sg_report_case *other = &r->cases.items[i];
            sg_prediction p;
            if (!chooses_cameras(other) || !same_cameras(one, other)) continue;
            sg_code code = predict_case(r, other, k, &p, status);
            if (code) return code;
            double log_ratio = log(busy_s(&p) / stated_busy_s(&other->row));
            misfit += log_ratio * log_ratio;
        }
        if (misfit < best) best = misfit, *chosen = k;
    }
    return SG_OK;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

/* An explanation that the row itself holds for a value outside of the interval. */
static void explain(const sg_report_case *one, double flops, double peak, sg_validated *v) {
    const sg_report_row *row = &one->row;
    if (v->measured >= v->low && v->measured <= v->high) return;
    if (v->measured < v->predicted && flops / v->measured > IMPOSSIBLE_SHARE * peak)
        (void)snprintf(v->cause, sizeof v->cause, "an impossible claim: %.0f TFLOP/s on a GPU of %.0f",
                       flops / v->measured * 1e-12, peak * 1e-12);
    else if (row->sign[0] && v->measured > v->predicted)
        (void)snprintf(v->cause, sizeof v->cause, "%s", row->sign);
    else if (row->time == SG_REPORT_WALL && v->measured > v->predicted)
        (void)snprintf(v->cause, sizeof v->cause,
                       "a wall-clock: more than the update's share is loading, saving or waiting");
}

static sg_code add_step(run *r, const sg_report_case *one, size_t candidate, const char *part, sg_status *status) {
    sg_validated v = row_of(r, one, SG_VALIDATE_REPORTS_STEP);
    sg_prediction p;
    sg_code code = predict_case(r, one, candidate, &p, status);
    if (code == SG_MACHINE) return code;
    (void)snprintf(v.part, sizeof v.part, "%s", part);
    if (code) {
        (void)snprintf(v.skipped, sizeof v.skipped, "%.150s", status->text);
        return sg_validation_add(r->into, &v, status);
    }
    double flops, peak, interval = r->options->interval;
    sg_figure f = time_of(one, &p, interval);
    if (strcmp(part, "cameras unknown") == 0 || (one->row.time == SG_REPORT_WALL && !one->cameras_known))
        f = widened(&f, 1, CAMERAS_LOG_SD, interval);
    v.measured = measured_s(&one->row);
    v.predicted = f.value;
    v.low = f.low;
    v.high = f.high;
    code = sg_report_case_roofline(one, candidate, &flops, &v.roofline, &peak, status);
    if (code) return code;
    explain(one, flops, peak, &v);
    int cameras = one->candidate[candidate].cameras;
    if (cameras > 0)
        (void)snprintf(v.row, sizeof v.row, "%s (%d camera%s)", one->row.id, cameras, cameras == 1 ? "" : "s");
    return sg_validation_add(r->into, &v, status);
}

/* The counts that were not chosen, for whoever wants to judge the choice. */
static sg_code add_unchosen(run *r, const sg_report_case *one, size_t candidate, sg_status *status) {
    sg_validated v = row_of(r, one, SG_VALIDATE_REPORTS_STEP);
    sg_prediction p;
    sg_code code = predict_case(r, one, candidate, &p, status);
    if (code) return code;
    int cameras = one->candidate[candidate].cameras;
    (void)snprintf(v.part, sizeof v.part, "cameras by busy share");
    (void)snprintf(v.row, sizeof v.row, "%s (%d camera%s)", one->row.id, cameras, cameras == 1 ? "" : "s");
    (void)snprintf(
        v.skipped, sizeof v.skipped,
        "%d camera%s would take %.3g s (%.3g-%.3g), the GPU busy for %.3g s; the report has it busy for %.3g s",
        cameras, cameras == 1 ? "" : "s", p.update_s.value, p.update_s.low, p.update_s.high, busy_s(&p),
        stated_busy_s(&one->row));
    return sg_validation_add(r->into, &v, status);
}

static sg_code add_skipped(run *r, const sg_report_case *one, sg_validate_class cls, const char *why,
                           sg_status *status) {
    sg_validated v = row_of(r, one, cls);
    (void)snprintf(v.part, sizeof v.part, "not set up");
    (void)snprintf(v.skipped, sizeof v.skipped, "%.150s", why);
    return sg_validation_add(r->into, &v, status);
}

static sg_code add_steps(run *r, const sg_report_case *one, sg_status *status) {
    const sg_report_row *row = &one->row;
    const char *why = row->no_training[0]              ? row->no_training
                      : row->no_machine[0]             ? row->no_machine
                      : row->time == SG_REPORT_NO_TIME ? row->no_time
                                                       : "";
    if (why[0] || one->n_candidates == 0)
        return add_skipped(r, one, SG_VALIDATE_REPORTS_STEP, why[0] ? why : "cannot be set up", status);
    const char *part = part_of(one);
    size_t chosen = one->n_candidates > 1 ? 1 : 0; /* two cameras: the most frequent count */
    if (!chooses_cameras(one)) return add_step(r, one, chosen, part, status);
    sg_code code = choose_cameras(r, one, &chosen, status);
    for (size_t k = 0; !code && k < one->n_candidates; k++)
        code = k == chosen ? add_step(r, one, k, part, status) : add_unchosen(r, one, k, status);
    return code;
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* Candidates that differ by less than this leave nothing unknown that matters. */
static const double SAME_MEMORY = 0.02;

static bool is_vla(const char *policy) {
    return strcmp(policy, "smolvla") == 0 || strncmp(policy, "pi0", 3) == 0;
}

static sg_code add_memory_figure(run *r, const sg_report_case *one, double measured, const sg_figure *f,
                                 const char *part, sg_status *status) {
    sg_validated v = row_of(r, one, SG_VALIDATE_REPORTS_MEMORY);
    (void)snprintf(v.part, sizeof v.part, "%s", part);
    v.measured = measured;
    v.predicted = f->value;
    v.low = 0; /* one-sided: the upper bound is what is promised */
    v.high = f->high;
    return sg_validation_add(r->into, &v, status);
}

static sg_code add_memory(run *r, const sg_report_case *one, sg_status *status) {
    const sg_report_row *row = &one->row;
    const char *why = row->no_memory[0] ? row->no_memory : row->no_training;
    if (why[0] || one->n_candidates == 0)
        return add_skipped(r, one, SG_VALIDATE_REPORTS_MEMORY, why[0] ? why : "cannot be set up", status);
    sg_prediction p, other;
    size_t middle = one->n_candidates > 1 ? 1 : 0;
    sg_code code = predict_case(r, one, middle, &p, status);
    for (size_t k = 0; !code && k < one->n_candidates; k++) {
        code = predict_case(r, one, k, &other, status);
        if (code || fabs(log(other.peak_allocated_bytes.value / p.peak_allocated_bytes.value)) < SAME_MEMORY) continue;
        return add_skipped(r, one, SG_VALIDATE_REPORTS_MEMORY, "cameras unknown, and the memory hangs on them", status);
    }
    if (code == SG_NO) return add_skipped(r, one, SG_VALIDATE_REPORTS_MEMORY, status->text, status);
    if (!code && row->allocated_bytes > 0)
        code = add_memory_figure(r, one, row->allocated_bytes, &p.peak_allocated_bytes,
                                 is_vla(row->policy) ? "VLA allocated" : "CNN allocated", status);
    if (!code && row->driver_bytes > 0)
        code = add_memory_figure(r, one, row->driver_bytes, &p.device_bytes, "driver", status);
    return code;
}

sg_code sg_validate_reports(const sg_csv_table *rows, const sg_validate_options *options, sg_validation *into,
                            sg_status *status) {
    const char *slash = strrchr(rows->path, '/');
    sg_validate_options asked = *options;
    if (!(asked.interval > 0 && asked.interval < 1)) asked.interval = 0.9;
    if (asked.left_out == SG_LEFT_OUT_BATCHES) return sg_validate_batches(rows, &asked, into, status);
    run r = {.options = &asked, .file = slash ? slash + 1 : rows->path, .into = into};
    sg_code code = sg_report_cases_add(rows, options->config_dir, &r.cases, status);
    if (code) return code;
    code = sg_report_fits_make(&r.cases, &asked, &r.fits, status);
    for (size_t i = 0; !code && i < r.cases.n; i++) {
        const sg_report_case *one = &r.cases.items[i];
        code = add_steps(&r, one, status);
        if (!code && one->row.has_memory) code = add_memory(&r, one, status);
    }
    sg_report_fits_clear(&r.fits);
    sg_report_cases_close(&r.cases);
    return code;
}
