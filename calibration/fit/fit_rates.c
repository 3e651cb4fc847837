#include "calibration/fit/fit_rates.h"

#include "calibration/predict/work.h"
#include "calibration/statistics/least_squares.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How well one efficiency per class describes the ops of a class, whose shapes differ: 5 %, and 1 % of the whole step,
 * because a class that makes little of a step is there in odd shapes (a patch embedding among the convolutions) and must
 * not bend what the others say. */
static const double WITHIN_CLASS_LOG_SD = 0.05, WHOLE_STEP_SD = 0.01;
static const double LEAST_SHARE = 0.002;

typedef struct observation {
    size_t point;
    sg_op_class cls;
    double log_s, log_sd;
} observation;

typedef struct rates {
    sg_machine machine; /* trial */
    const sg_machine *prior;
    sg_training **training;
    double **count;
    observation *seen;
    size_t n_points, n_seen, n_terms;
    sg_machine_id term[SG_M_COUNT];
} rates;

static void set_terms(rates *r, const double *x) {
    for (size_t j = 0; j < r->n_terms; j++) r->machine.p[r->term[j]].value = exp(x[j]);
}

static sg_code evaluate(const double *x, double *residual, double *jacobian, void *user, sg_status *status) {
    rates *r = user;
    double seconds[SG_CLASS_COUNT], slope[SG_CLASS_COUNT * SG_M_COUNT];
    set_terms(r, x);
    memset(jacobian, 0, (r->n_seen + r->n_terms) * r->n_terms * sizeof *jacobian);
    size_t priced = SIZE_MAX;
    for (size_t i = 0; i < r->n_seen; i++) {
        const observation *o = &r->seen[i];
        if (o->point != priced) {
            sg_code code =
                sg_work_class_seconds(r->training[o->point], r->count[o->point], &r->machine, seconds, slope, status);
            if (code != SG_OK) return code;
            priced = o->point;
        }
        residual[i] = (log(seconds[o->cls]) - o->log_s) / o->log_sd;
        for (size_t j = 0; j < r->n_terms; j++)
            jacobian[i * r->n_terms + j] =
                slope[(size_t)o->cls * SG_M_COUNT + (size_t)r->term[j]] / seconds[o->cls] / o->log_sd;
    }
    for (size_t j = 0; j < r->n_terms; j++) {
        const sg_machine_parameter *p = &r->prior->p[r->term[j]];
        residual[r->n_seen + j] = (x[j] - log(p->value)) / p->log_sd;
        jacobian[(r->n_seen + j) * r->n_terms + j] = 1 / p->log_sd;
    }
    return SG_OK;
}

static sg_code rebuild_points(rates *r, const sg_point *const *points, size_t n, sg_status *status) {
    r->training = calloc(n, sizeof *r->training);
    r->count = calloc(n, sizeof *r->count);
    r->seen = calloc(n * SG_CLASS_COUNT, sizeof *r->seen);
    if (!r->training || !r->count || !r->seen) return sg_fail_memory(status, n * sizeof *r->seen, "a fit");
    r->n_points = n;
    for (size_t i = 0; i < n; i++) {
        sg_code code = sg_work_rebuild(&points[i]->config, &r->training[i], status);
        if (code != SG_OK) return code;
        r->count[i] = calloc(r->training[i]->n_ops ? r->training[i]->n_ops : 1, sizeof(double));
        if (!r->count[i]) return sg_fail_memory(status, r->training[i]->n_ops * sizeof(double), "a fit");
        sg_work_counts(r->training[i], r->count[i]);
    }
    return SG_OK;
}

static bool uses_compute(const rates *r, sg_compute compute) {
    for (size_t i = 0; i < r->n_points; i++)
        for (size_t k = 0; k < r->training[i]->n_ops; k++) {
            const sg_op *op = &r->training[i]->ops[k];
            if (r->count[i][k] > 0 && op->attrs.compute == (int32_t)compute && sg_op_class_of(op) <= SG_CLASS_ATTENTION)
                return true;
        }
    return false;
}

/* Efficiencies are relative to the nominal fp32 peak and bandwidth: once fitted, the doubt is all theirs. Rates of other
 * compute modes are fitted beside them. */
static void fix_nominal(sg_machine *machine, sg_machine_id id) {
    sg_machine_parameter *p = &machine->p[id];
    p->log_sd = 0;
    p->group = 0;
    p->evidence = SG_EVIDENCE_CALIBRATED;
    (void)snprintf(p->source, sizeof p->source, "nominal: what is fitted is relative to it");
    for (int j = 0; machine->covariance && j < SG_M_COUNT; j++)
        machine->covariance[(size_t)id * SG_M_COUNT + (size_t)j] =
            machine->covariance[(size_t)j * SG_M_COUNT + (size_t)id] = 0;
}

/* Which class times are observations, and which parameters they speak of. */
static sg_code gather(rates *r, const sg_point *const *points, sg_status *status) {
    bool used[SG_CLASS_COUNT] = {false};
    for (size_t i = 0; i < r->n_points; i++) {
        double seconds[SG_CLASS_COUNT], total = 0;
        sg_code code = sg_work_class_seconds(r->training[i], r->count[i], r->prior, seconds, NULL, status);
        if (code != SG_OK) return code;
        for (int c = 0; c < SG_CLASS_COUNT; c++)
            if (points[i]->class_s[c] > 0) total += points[i]->class_s[c];
        for (int c = 0; c < SG_CLASS_COUNT; c++) {
            double s = points[i]->class_s[c];
            if (!(s > LEAST_SHARE * total) || !(seconds[c] > 0)) continue;
            r->seen[r->n_seen++] =
                (observation){i, (sg_op_class)c, log(s), hypot(WITHIN_CLASS_LOG_SD, WHOLE_STEP_SD * total / s)};
            used[c] = true;
        }
    }
    for (int c = 0; c < SG_CLASS_COUNT; c++)
        if (used[c] && sg_machine_eff_of((sg_op_class)c) < SG_M_COUNT)
            r->term[r->n_terms++] = sg_machine_eff_of((sg_op_class)c);
    r->term[r->n_terms++] = SG_M_KERNEL_START_S;
    r->term[r->n_terms++] = SG_M_KERNEL_FLOOR_S;
    for (int c = 0; c < SG_COMPUTE_COUNT; c++) {
        sg_machine_id peak = sg_machine_peak_of((sg_compute)c);
        if (peak < SG_M_COUNT && peak != SG_M_PEAK_F32 && uses_compute(r, (sg_compute)c)) r->term[r->n_terms++] = peak;
    }
    return SG_OK;
}

static sg_code store(const rates *r, const double *x, const double *covariance, double cost, const char *origin,
                     sg_machine *machine, sg_status *status) {
    if (!machine->covariance) {
        machine->covariance = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof(double));
        if (!machine->covariance)
            return sg_fail_memory(status, (size_t)SG_M_COUNT * SG_M_COUNT * sizeof(double), "a covariance");
        for (int i = 0; i < SG_M_COUNT; i++)
            machine->covariance[i * SG_M_COUNT + i] = machine->p[i].log_sd * machine->p[i].log_sd;
    }
    fix_nominal(machine, SG_M_PEAK_F32);
    fix_nominal(machine, SG_M_BANDWIDTH);
    /* Observations that scatter more than assumed widen everything. */
    double freedom = (double)(r->n_seen > r->n_terms ? r->n_seen - r->n_terms : 1), scale = fmax(1, cost / freedom);
    for (size_t i = 0; i < r->n_terms; i++) {
        sg_machine_parameter *p = &machine->p[r->term[i]];
        p->value = exp(x[i]);
        p->log_sd = sqrt(scale * covariance[i * r->n_terms + i]);
        p->evidence = SG_EVIDENCE_CALIBRATED;
        p->group = 0;
        (void)snprintf(p->source, sizeof p->source, "%.119s", origin);
        for (size_t j = 0; j < r->n_terms; j++)
            machine->covariance[(size_t)r->term[i] * SG_M_COUNT + (size_t)r->term[j]] =
                scale * covariance[i * r->n_terms + j];
    }
    return SG_OK;
}

static sg_code solve(rates *r, const char *origin, sg_machine *machine, sg_status *status) {
    double x[SG_M_COUNT], covariance[SG_M_COUNT * SG_M_COUNT], cost;
    for (size_t j = 0; j < r->n_terms; j++) x[j] = log(r->prior->p[r->term[j]].value);
    sg_least_squares problem = {
        .rows = r->n_seen + r->n_terms, .robust_rows = r->n_seen, .terms = r->n_terms, .evaluate = evaluate, .user = r};
    sg_code code = sg_least_squares_solve(&problem, x, covariance, &cost, status);
    return code == SG_OK ? store(r, x, covariance, cost, origin, machine, status) : code;
}

static void clear(rates *r) {
    for (size_t i = 0; i < r->n_points; i++) {
        if (r->training) sg_training_free(r->training[i]);
        if (r->count) free(r->count[i]);
    }
    free(r->training);
    free(r->count);
    free(r->seen);
}

static bool has_class_times(const sg_point *point) {
    for (int c = 0; c < SG_CLASS_COUNT; c++)
        if (point->class_s[c] > 0) return true;
    return false;
}

/* Says why none of the points will do and what to measure instead. */
static sg_code nothing_usable(const sg_point *const *points, size_t n, sg_status *status) {
    bool timed = false;
    for (size_t i = 0; i < n; i++) timed = timed || has_class_times(points[i]);
    const char *why = timed ? "each was computed in another precision than asked for, as this processor lacks it"
                            : "none carries times by op class";
    const char *policy = n ? points[0]->config.policy : "act";
    bool ppo = n && points[0]->config.envs > 0;
    return sg_fail(status, SG_BAD_INPUT,
                   "nothing to fit in %zu point(s): %s. Measure with 'stepgauge measure %s %s --precision fp32 -o "
                   "run.h5'",
                   n, why, policy, ppo ? "--envs 1024" : "--batch 1,2,4");
}

sg_code sg_fit_rates(const sg_point *const *points, size_t n, const char *origin, sg_machine *machine,
                     sg_status *status) {
    const sg_point **usable = calloc(n ? n : 1, sizeof(const sg_point *));
    if (!usable) return sg_fail_memory(status, n * sizeof *usable, "a fit");
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (points[i]->fits_rates && has_class_times(points[i])) usable[kept++] = points[i];
    sg_code code = SG_OK;
    rates r = {.machine = *machine, .prior = machine};
    if (kept == 0) code = nothing_usable(points, n, status);
    if (code == SG_OK) code = rebuild_points(&r, usable, kept, status);
    if (code == SG_OK) code = gather(&r, usable, status);
    if (code == SG_OK) {
        sg_machine prior = *machine; /* the machine is written while its old values still judge */
        r.prior = &prior;
        code = solve(&r, origin, machine, status);
    }
    clear(&r);
    free(usable);
    return code;
}
