/* validate_steps.c: predictions beside measured whole steps of transformers.
 *
 * Classes steps_train and steps_inference. Parts: "power-limited" GPUs of 75 W and less, whose clock is not the same from
 * run to run, and "others"; data-parallel rows are "data-parallel".
 *
 * With rows left out, the clock inside steps is learnt from the GPU's steps of other folds alone. With devices left out, so
 * it is, and what the sheet has from kernels that were measured on the GPU gives way to the mean of the table's other GPUs. */
#include "calibration/validate/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/kernels/kernel_fit_rows.h"
#include "calibration/kernels/product_fit.h"
#include "calibration/machine/machine_file.h"
#include "calibration/statistics/figure.h"
#include "calibration/steps/step_clock.h"

/* Cards of this power throttle: P4, T4, L4. */
static const double POWER_LIMITED_W = 75;

/* Log sd of a row beside the clock's own doubt: prior, which counts as so many rows. Trainings allocate from the driver while
 * they are timed, which on one host takes up to 1.7 times as long as the kernels (A100 80 GB) and is hidden on others. */
static const double INFERENCE_PRIOR_SD = 0.06, TRAINING_PRIOR_SD = 0.10, ROW_PRIOR_ROWS = 4;
/* How much more of it there is where the GPU's kernels were not measured. */
static const double UNMEASURED = 2;

typedef struct run {
    const sg_validate_options *options;
    sg_step_cases cases;
    sg_machine *machine; /* by case: as it is used */
    double *alone_s;     /* by case: with STEP_STRETCH 1 */
    double *log_error;   /* by case: of the prediction, measured over predicted */
    double *seconds, *variance;
    const char *file;
    sg_validation *into;
} run;

/* ---- groups -------------------------------------------------------------------------------------------------------- */

static bool is_limited(const sg_machine *m) {
    return m->board_w > 0 && m->board_w <= POWER_LIMITED_W;
}

static const char *part_of(const sg_step_case *one) {
    if (one->ranks > 1) return "data-parallel";
    return is_limited(&one->machine) ? "power-limited" : "others";
}

static int fold_of(const run *r, size_t i) {
    const sg_step_case *one = &r->cases.items[i];
    char key[192];
    (void)snprintf(key, sizeof key, "%s %s", one->device, one->row);
    return sg_validate_fold(key, r->options->folds > 0 ? r->options->folds : 5);
}

/* What may be known where row i is predicted. */
static bool may_see(const run *r, size_t i, size_t j) {
    return i != j && fold_of(r, i) != fold_of(r, j);
}

/* ---- the clock ------------------------------------------------------------------------------------------------------ */

static sg_step_clock clock_for(const run *r, size_t i, double *scratch) {
    size_t n = 0;
    for (size_t j = 0; j < r->cases.n; j++) {
        const sg_step_case *other = &r->cases.items[j];
        if (other->skipped[0] || strcmp(other->machine.name, r->cases.items[i].machine.name) != 0) continue;
        if (may_see(r, i, j)) scratch[n++] = log(other->measured_s / r->alone_s[j]);
    }
    return sg_step_clock_of(scratch, n);
}

static sg_code predict_alone(run *r, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < r->cases.n && !code; i++) {
        sg_step_case *one = &r->cases.items[i];
        if (one->skipped[0]) continue;
        sg_machine alone = r->machine[i];
        alone.p[SG_M_STEP_STRETCH].value = 1;
        code = sg_step_case_predict(one, &alone, &r->alone_s[i], NULL, status);
        if (code == SG_NO) {
            (void)snprintf(one->skipped, sizeof one->skipped, "%.150s", status->text);
            code = SG_OK;
        }
    }
    return code;
}

static sg_code learn_clocks(run *r, sg_status *status) {
    double *scratch = calloc(r->cases.n + 1, sizeof *scratch);
    if (!scratch) return sg_fail_memory(status, r->cases.n * sizeof *scratch, "clocks inside steps");
    sg_code code = predict_alone(r, status);
    for (size_t i = 0; i < r->cases.n && !code; i++) {
        sg_step_clock clock = clock_for(r, i, scratch);
        r->machine[i].p[SG_M_STEP_STRETCH].value = clock.stretch;
        r->machine[i].p[SG_M_STEP_STRETCH].log_sd = clock.log_sd;
    }
    free(scratch);
    return code;
}

/* ---- GPUs whose kernels nobody has measured ------------------------------------------------------------------------------ */

static bool listed(const sg_machine *machines, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(machines[i].name, name) == 0) return true;
    return false;
}

/* Whether two sheets rest on one fit of products: a card's own and that of its sister, which has none. */
static bool same_fit(const sg_machine *a, const sg_machine *b) {
    return a->p[SG_M_TILE_FILL].value == b->p[SG_M_TILE_FILL].value &&
           a->p[SG_M_WAVE_SHARE].value == b->p[SG_M_WAVE_SHARE].value;
}

/* Machines of the table but this one and its sisters, each once; they stay their cases'. */
static size_t other_machines(const run *r, const sg_machine *own, sg_machine *others) {
    size_t n = 0;
    for (size_t i = 0; i < r->cases.n; i++) {
        const sg_machine *m = &r->cases.items[i].machine;
        if (r->cases.items[i].skipped[0] || strcmp(m->name, own->name) == 0 || same_fit(m, own)) continue;
        if (!listed(others, n, m->name)) others[n++] = *m;
    }
    return n;
}

/* Mean over the others in the coordinates in which fits are normal; without others what holds for any GPU. */
static void products_of_others(const sg_machine *general, const sg_machine *others, size_t n, sg_machine *m) {
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) {
        sg_machine_id id = sg_product_term(i);
        double sum = 0, used = 0;
        for (size_t k = 0; k < n; k++) {
            if (!(others[k].p[id].value > 0)) continue;
            sum += sg_product_coordinate(id, others[k].p[id].value);
            used += 1;
        }
        m->p[id] = general->p[id];
        if (used > 0) m->p[id].value = sg_product_value(id, sum / used);
    }
    memcpy(m->tiles, general->tiles, sizeof m->tiles);
}

/* What holds for any GPU, and what the other GPUs of the table say, in place of what was fitted to this one's kernels. */
static void forget_kernels(const sg_machine *general, const sg_machine *others, size_t n, sg_machine *m) {
    products_of_others(general, others, n, m);
    for (int kind = 0; kind < SG_ROW_KIND_COUNT; kind++) {
        const sg_machine_id *ids;
        size_t terms = sg_row_terms((sg_row_kind)kind, &ids);
        for (size_t i = 0; i < terms; i++) m->p[ids[i]] = general->p[ids[i]];
    }
    m->covariance = NULL;
    m->measured = NULL;
    sg_row_prior_from(others, n, m);
    static const sg_op_class as_elementwise[] = {SG_CLASS_COPY,      SG_CLASS_POOL,   SG_CLASS_REDUCE,
                                                 SG_CLASS_EMBEDDING, SG_CLASS_RANDOM, SG_CLASS_OPTIMIZER};
    for (size_t i = 0; i < sizeof as_elementwise / sizeof *as_elementwise; i++)
        m->p[sg_machine_eff_of(as_elementwise[i])] = m->p[SG_M_EFF_ELEMENTWISE];
}

static sg_code forget_own_kernels(run *r, sg_status *status) {
    char folder[SG_PATH_BYTES];
    sg_machine general;
    sg_machine_init(&general);
    sg_code code = sg_config_dir(r->options->config_dir, folder, sizeof folder, status);
    if (!code) code = sg_machine_prior_read("cuda", folder, &general, status);
    sg_machine *others = code ? NULL : calloc(r->cases.n + 1, sizeof *others);
    if (!code && !others) code = sg_fail_memory(status, r->cases.n * sizeof *others, "machines of a validation");
    for (size_t i = 0; i < r->cases.n && !code; i++) {
        if (r->cases.items[i].skipped[0]) continue;
        size_t n = other_machines(r, &r->cases.items[i].machine, others);
        forget_kernels(&general, others, n, &r->machine[i]);
    }
    free(others);
    sg_machine_clear(&general);
    return code;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static sg_code predict_rows(run *r, sg_status *status) {
    for (size_t i = 0; i < r->cases.n; i++) {
        sg_step_case *one = &r->cases.items[i];
        double by_log[SG_M_COUNT];
        if (one->skipped[0]) continue;
        sg_code code = sg_step_case_predict(one, &r->machine[i], &r->seconds[i], by_log, status);
        if (code == SG_NO) {
            (void)snprintf(one->skipped, sizeof one->skipped, "%.150s", status->text);
            continue;
        }
        if (code) return code;
        r->log_error[i] = log(one->measured_s / r->seconds[i]);
        r->variance[i] = sg_machine_log_variance(&r->machine[i], by_log, r->seconds[i]);
    }
    return SG_OK;
}

/* Scale of a row's doubt, from rows of its kind in other folds: their root mean square is sqrt(2) times the scale of Student's t
 * with four degrees of freedom, by which intervals are made. */
static double row_log_sd(const run *r, size_t i) {
    const sg_step_case *one = &r->cases.items[i];
    double prior = one->train ? TRAINING_PRIOR_SD : INFERENCE_PRIOR_SD;
    if (r->options->left_out == SG_LEFT_OUT_DEVICES) prior *= UNMEASURED;
    double sum = ROW_PRIOR_ROWS * prior * prior, n = ROW_PRIOR_ROWS;
    for (size_t j = 0; j < r->cases.n; j++) {
        const sg_step_case *other = &r->cases.items[j];
        if (other->skipped[0] || other->train != one->train || !may_see(r, i, j) ||
            is_limited(&other->machine) != is_limited(&one->machine))
            continue;
        sum += r->log_error[j] * r->log_error[j];
        n += 1;
    }
    return sqrt(sum / n / 2);
}

/* Forward of a training beside its backward: a third where kernels decide (0.33 to 0.39 on four GPUs). */
static const double LONG_FORWARD_SHARE = 0.42;

/* What the row itself shows of a measured value outside of the interval. */
static void explain(const sg_step_case *one, sg_validated *v) {
    if (v->measured >= v->low && v->measured <= v->high) return;
    if (one->forward_share > LONG_FORWARD_SHARE && v->measured > v->predicted)
        (void)snprintf(
            v->cause, sizeof v->cause,
            "its forward takes %.0f %% of the step, a third is usual: allocating from the driver on its host",
            100 * one->forward_share);
    else if (is_limited(&one->machine))
        (void)snprintf(v->cause, sizeof v->cause, "a card of %.0f W, whose clock differs from run to run",
                       one->machine.board_w);
}

static sg_code add_row(run *r, size_t i, sg_status *status) {
    const sg_step_case *one = &r->cases.items[i];
    sg_validated v = {.cls = one->train ? SG_VALIDATE_STEPS_TRAIN : SG_VALIDATE_STEPS_INFERENCE,
                      .line = one->line,
                      .measured = one->measured_s,
                      .predicted = NAN,
                      .low = NAN,
                      .high = NAN,
                      .roofline = NAN};
    (void)snprintf(v.device, sizeof v.device, "%.60s", one->machine.name[0] ? one->machine.name : one->device);
    (void)snprintf(v.row, sizeof v.row, "%s", one->row);
    (void)snprintf(v.file, sizeof v.file, "%.60s", r->file);
    (void)snprintf(v.skipped, sizeof v.skipped, "%s", one->skipped);
    (void)snprintf(v.part, sizeof v.part, "%s", part_of(one));
    if (one->skipped[0]) return sg_validation_add(r->into, &v, status);
    const sg_log_sd parts = {.parameters = 0, .model = row_log_sd(r, i)};
    sg_figure f = sg_figure_make(r->seconds[i], parts, SG_EVIDENCE_CALIBRATED, r->options->interval);
    v.predicted = f.value;
    v.low = f.low;
    v.high = f.high;
    v.roofline = sg_step_case_roofline(one);
    explain(one, &v);
    return sg_validation_add(r->into, &v, status);
}

static sg_code run_all(run *r, sg_status *status) {
    size_t n = r->cases.n + 1;
    r->machine = calloc(n, sizeof *r->machine);
    r->alone_s = calloc(n, sizeof *r->alone_s);
    r->log_error = calloc(n, sizeof *r->log_error);
    r->seconds = calloc(n, sizeof *r->seconds);
    r->variance = calloc(n, sizeof *r->variance);
    if (!r->machine || !r->alone_s || !r->log_error || !r->seconds || !r->variance)
        return sg_fail_memory(status, n * sizeof *r->machine, "validating steps");
    for (size_t i = 0; i < r->cases.n; i++) r->machine[i] = r->cases.items[i].machine;
    sg_code code = r->options->left_out == SG_LEFT_OUT_DEVICES ? forget_own_kernels(r, status) : SG_OK;
    if (!code && r->options->left_out != SG_LEFT_OUT_NOTHING) code = learn_clocks(r, status);
    if (!code) code = predict_rows(r, status);
    for (size_t i = 0; i < r->cases.n && !code; i++) code = add_row(r, i, status);
    return code;
}

sg_code sg_validate_steps(const sg_csv_table *steps, const sg_csv_table *configs, const sg_validate_options *options,
                          sg_validation *into, sg_status *status) {
    const char *slash = strrchr(steps->path, '/');
    run r = {.options = options, .into = into, .file = slash ? slash + 1 : steps->path};
    sg_code code = sg_step_cases_open(steps, configs, options->config_dir, &r.cases, status);
    if (code) return code;
    code = run_all(&r, status);
    free(r.machine);
    free(r.alone_s);
    free(r.log_error);
    free(r.seconds);
    free(r.variance);
    sg_step_cases_close(&r.cases);
    return code;
}
