/* validate_batches.c: one batch size of a training from others of the same one.
 *
 * Reports of one source about the same policy, settings and GPU that differ in the batch are a group. The machine's data
 * sheet is fitted to some of a group (calibration/fit/observed.h) and predicts another. Parts: "from one batch", for every pair;
 * "from the others", where there are three batches or more. Class "batches_as_shipped": each pair's row by the data sheet alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/fit/observed.h"
#include "calibration/reports/report_case.h"
#include "calibration/validate/validate.h"

/* Reports are rounded to two or three digits, and clocks differ from run to run: log sd of one report of a machine that is
 * known. */
static const double REPORT_LOG_SD = 0.02;

typedef struct run {
    const sg_validate_options *options;
    const char *file;
    sg_validation *into;
    sg_report_cases cases;
    sg_framework_numbers *numbers; /* by case */
} run;

/* Two cameras where they are not known: the most frequent count; the same for all of a group. */
static size_t candidate_of(const sg_report_case *one) {
    return one->n_candidates > 1 ? 1 : 0;
}

static const sg_report_row *row_of(const sg_report_case *one) {
    return &one->candidate[candidate_of(one)].row;
}

static bool takes_part(const sg_report_case *one) {
    return one->has_machine && one->n_candidates > 0 && !one->row.no_training[0] &&
           (one->row.time == SG_REPORT_UPDATE || one->row.time == SG_REPORT_STEP);
}

static bool same_settings(const sg_report_row *a, const sg_report_row *b) {
    if (a->n_settings != b->n_settings) return false;
    for (size_t i = 0; i < a->n_settings; i++) {
        bool found = false;
        for (size_t k = 0; k < b->n_settings; k++)
            found = found || (strcmp(a->key[i], b->key[k]) == 0 && strcmp(a->value[i], b->value[k]) == 0);
        if (!found) return false;
    }
    return true;
}

static bool same_group(const sg_report_case *a, const sg_report_case *b) {
    return strcmp(a->source, b->source) == 0 && strcmp(a->machine.name, b->machine.name) == 0 &&
           strcmp(a->row.policy, b->row.policy) == 0 && strcmp(a->row.precision, b->row.precision) == 0 &&
           a->row.ranks == b->row.ranks && a->row.request.framework == b->row.request.framework &&
           a->row.graphs == b->row.graphs && same_settings(row_of(a), row_of(b));
}

static double measured_s(const sg_report_row *row) {
    return sqrt(row->low_s) * sqrt(row->high_s);
}

static const sg_figure *time_of(const sg_report_case *one, const sg_prediction *p) {
    return one->row.time == SG_REPORT_UPDATE ? &p->update_s : &p->step_s;
}

static sg_code predict(const run *r, size_t i, const sg_machine *machine, sg_prediction *p, sg_status *status) {
    const sg_report_case *one = &r->cases.items[i];
    return sg_report_case_predict(one, candidate_of(one), machine, &r->numbers[i], r->options->config_dir,
                                  r->options->interval, p, status);
}

typedef struct chosen {
    const run *r;
    const size_t *at; /* cases of the observations */
} chosen;

static sg_code walk(const sg_machine *machine, size_t i, double *seconds, double *by_log, double *model_log_sd,
                    void *user, sg_status *status) {
    const chosen *c = user;
    sg_prediction p;
    sg_code code = predict(c->r, c->at[i], machine, &p, status);
    if (code) return code;
    const sg_figure *figure = time_of(&c->r->cases.items[c->at[i]], &p);
    *seconds = figure->value;
    *model_log_sd = figure->parts.model;
    memcpy(by_log, p.update_by_log, sizeof p.update_by_log);
    return SG_OK;
}

/* The machine of case `of` fitted to the cases at[n]; sg_machine_clear it. */
static sg_code fitted(const run *r, const size_t *at, size_t n, size_t of, sg_machine *machine, sg_status *status) {
    sg_observation *seen = calloc(n, sizeof *seen);
    *machine = r->cases.items[of].machine;
    machine->covariance = NULL;
    machine->measured = sg_measured_share(r->cases.items[of].machine.measured);
    if (!seen) return sg_fail_memory(status, n * sizeof *seen, "observed steps");
    for (size_t i = 0; i < n; i++)
        seen[i] =
            (sg_observation){.seconds = measured_s(&r->cases.items[at[i]].row), .log_sd = REPORT_LOG_SD, .policy = 0};
    sg_framework_apply(&r->numbers[of], machine);
    chosen c = {r, at};
    sg_observed_fit_result result;
    sg_code code = sg_observed_fit(machine, seen, n, walk, &c, "reports of other batches", &result, status);
    free(seen);
    return code;
}

static sg_code add(const run *r, size_t i, const sg_machine *machine, sg_validate_class cls, const char *part,
                   const char *from, sg_status *status) {
    const sg_report_case *one = &r->cases.items[i];
    sg_prediction p;
    sg_validated v = {.cls = cls, .line = one->line, .roofline = NAN};
    sg_code code = predict(r, i, machine, &p, status);
    if (code) return code;
    const sg_figure *figure = time_of(one, &p);
    v.measured = measured_s(&one->row);
    v.predicted = figure->value;
    v.low = figure->low;
    v.high = figure->high;
    (void)snprintf(v.device, sizeof v.device, "%s", one->machine.name);
    (void)snprintf(v.part, sizeof v.part, "%s", part);
    (void)snprintf(v.file, sizeof v.file, "%.60s", r->file);
    (void)snprintf(v.row, sizeof v.row, "%.40s, batch %lld%.40s", one->row.id, (long long)one->row.request.batch, from);
    return sg_validation_add(r->into, &v, status);
}

static sg_code add_from(const run *r, size_t i, const size_t *at, size_t n, const char *part, const char *from,
                        sg_status *status) {
    sg_machine machine;
    sg_code code = fitted(r, at, n, i, &machine, status);
    if (!code) code = add(r, i, &machine, SG_VALIDATE_BATCHES, part, from, status);
    sg_machine_clear(&machine);
    return code;
}

/* The same row without the other batch, as often as it is in "from one batch". */
static sg_code add_shipped(const run *r, size_t i, const char *from, sg_status *status) {
    return add(r, i, &r->cases.items[i].machine, SG_VALIDATE_BATCHES_SHIPPED, "", from, status);
}

static sg_code add_case(const run *r, size_t i, size_t *at, sg_status *status) {
    const sg_report_case *one = &r->cases.items[i];
    size_t n = 0, batches = 0;
    sg_code code = SG_OK;
    for (size_t k = 0; k < r->cases.n && !code; k++) {
        const sg_report_case *other = &r->cases.items[k];
        if (!takes_part(other) || other->row.request.batch == one->row.request.batch || !same_group(one, other))
            continue;
        bool seen = false;
        for (size_t j = 0; j < n; j++)
            seen = seen || r->cases.items[at[j]].row.request.batch == other->row.request.batch;
        batches += !seen;
        at[n++] = k;
    }
    for (size_t j = 0; j < n && !code; j++) {
        char from[40];
        (void)snprintf(from, sizeof from, " from batch %lld", (long long)r->cases.items[at[j]].row.request.batch);
        code = add_from(r, i, &at[j], 1, "from one batch", from, status);
        if (!code) code = add_shipped(r, i, from, status);
    }
    if (!code && batches > 1) code = add_from(r, i, at, n, "from the others", " from the others", status);
    return code;
}

static sg_code load_numbers(run *r, sg_status *status) {
    sg_code code = SG_OK;
    r->numbers = calloc(r->cases.n ? r->cases.n : 1, sizeof *r->numbers);
    if (!r->numbers) return sg_fail_memory(status, r->cases.n * sizeof *r->numbers, "frameworks of reports");
    for (size_t i = 0; i < r->cases.n && !code; i++)
        code =
            sg_framework_load(sg_framework_name(r->cases.items[i].row.request.framework),
                              r->cases.items[i].machine.device_class, r->options->config_dir, &r->numbers[i], status);
    return code;
}

sg_code sg_validate_batches(const sg_csv_table *rows, const sg_validate_options *options, sg_validation *into,
                            sg_status *status) {
    const char *slash = strrchr(rows->path, '/');
    run r = {.options = options, .file = slash ? slash + 1 : rows->path, .into = into};
    sg_code code = sg_report_cases_add(rows, options->config_dir, &r.cases, status);
    if (code) return code;
    size_t *at = calloc(r.cases.n ? r.cases.n : 1, sizeof *at);
    if (!at) code = sg_fail_memory(status, r.cases.n * sizeof *at, "reports of one training");
    if (!code) code = load_numbers(&r, status);
    for (size_t i = 0; !code && i < r.cases.n; i++)
        if (takes_part(&r.cases.items[i])) code = add_case(&r, i, at, status);
    free(at);
    free(r.numbers);
    sg_report_cases_close(&r.cases);
    return code;
}
