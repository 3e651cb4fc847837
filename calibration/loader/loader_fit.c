#include "calibration/loader/loader_fit.h"

#include "calibration/statistics/least_squares.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Errors of what is measured, log sd: means of a few dozen steps repeat within 3 % on an idle machine; the median frame is of
 * another distribution than the mean batch. */
static const double PERIOD_SD = 0.03, CPU_SD = 0.03, BATCH_SD = 0.05, STEP_SD = 0.03, FRAME_SD = 0.10;
static const double DISTURBED = 2; /* times as unsure */
/* What other processes leave open, log sd: shared caches and sibling threads make the same work take up to half as much processor
 * time again; periods that nobody saw in quiet; a wait that is told apart from theirs by nothing. */
static const double CROWDED_SD = 0.25, UNSEEN_PERIOD_SD = 0.2, CROWDED_WAIT_SD = 0.7;
static const double LEAST_PROCESSORS = 0.1; /* that others leave */

/* Doubt of the priors, log sd: of the work almost nothing is known beforehand; contention is somewhere between
 * nothing and all; a
 * training's threads have about a worker's share. */
static const double WORK_PRIOR_SD = 3, SAMPLE_PRIOR_SD = 1.5, CONTENTION_PRIOR_SD = 2.5, WEIGHT_PRIOR_SD = 0.3;

/* The clock is smooth but for where a wait begins: the solver would go on for ever around such a place. */
enum { ITERATIONS = 20 };
static const double STEP = 0.01; /* of finite differences, log units: the clock's events move with every parameter */

enum { FRAME, SAMPLE, SIGMA, KAPPA, WEIGHT, WAIT, LAW_TERMS, ROW_RESIDUALS = 5 };
enum { TERMS_MAX = LAW_TERMS + SG_LOADER_GROUPS_MAX };

typedef struct fitting {
    const sg_loader_row *rows;
    size_t n;
    int groups;
    sg_loader_law law;       /* what is not fitted */
    double prior[TERMS_MAX]; /* log */
    double prior_sd[TERMS_MAX];
} fitting;

static size_t terms_of(const fitting *f) {
    return (size_t)(LAW_TERMS + f->groups);
}

/* A solver's first steps may go far: what no loader has stays out of the clock. */
static double bounded(double log_value) {
    return exp(fmin(fmax(log_value, -30), 8));
}

static void set_law(sg_loader_law *law, const double *x) {
    law->frame_s = bounded(x[FRAME]);
    law->sample_s = bounded(x[SAMPLE]);
    law->sigma = bounded(x[SIGMA]);
    law->kappa = bounded(x[KAPPA]);
    law->step_weight = bounded(x[WEIGHT]);
    if (law->wait_s > 0) law->wait_s = bounded(x[WAIT]);
}

static sg_code clock_of(const sg_loader_row *row, const sg_loader_law *law, double step_s, sg_loader_waits *waits,
                        sg_status *status) {
    sg_loader_load load = row->load;
    load.step_s = step_s;
    load.processors = fmax(load.processors - row->others, LEAST_PROCESSORS);
    sg_loader_course course = sg_loader_course_of(law, &load);
    return sg_loader_clock(&course, waits, status);
}

static double residual(double modelled, double measured, double sd) {
    return measured > 0 && modelled > 0 ? log(modelled / measured) / sd : 0;
}

static sg_code row_residuals(const fitting *f, const sg_loader_row *row, const double *x, double *out,
                             sg_status *status) {
    sg_loader_law law = f->law;
    set_law(&law, x);
    sg_loader_waits w;
    sg_code code = clock_of(row, &law, bounded(x[LAW_TERMS + row->group]), &w, status);
    if (code) return code;
    double unsure = row->disturbed ? DISTURBED : 1,
           frames = (double)row->load.cameras * (double)row->load.frames_per_camera;
    double alone_s = (double)row->load.batch * (law.sample_s + frames * law.frame_s);
    double slower = w.batch_cpu_s / alone_s;
    out[0] = row->crowded ? 0 : residual(w.period_s, row->period_s, PERIOD_SD * unsure);
    out[1] = residual(w.batch_cpu_s, row->batch_cpu_s, CPU_SD * unsure);
    out[2] = row->crowded ? 0 : residual(w.batch_s, row->batch_s, BATCH_SD * unsure);
    out[3] = row->crowded ? 0 : residual(w.step_s, row->step_s, STEP_SD * unsure);
    out[4] = residual(law.frame_s * slower, row->frame_cpu_s, FRAME_SD * unsure);
    return SG_OK;
}

static sg_code evaluate(const double *x, double *r, double *jacobian, void *user, sg_status *status) {
    const fitting *f = user;
    size_t terms = terms_of(f), rows = f->n * ROW_RESIDUALS;
    double at[TERMS_MAX], moved[ROW_RESIDUALS];
    memcpy(at, x, terms * sizeof *at);
    memset(jacobian, 0, (rows + terms) * terms * sizeof *jacobian);
    for (size_t i = 0; i < f->n; i++) {
        sg_code code = row_residuals(f, &f->rows[i], at, r + i * ROW_RESIDUALS, status);
        for (size_t j = 0; j < terms && !code; j++) {
            if (j >= LAW_TERMS && (int)j - LAW_TERMS != f->rows[i].group) continue;
            at[j] = x[j] + STEP;
            code = row_residuals(f, &f->rows[i], at, moved, status);
            at[j] = x[j];
            for (size_t k = 0; k < ROW_RESIDUALS && !code; k++)
                jacobian[(i * ROW_RESIDUALS + k) * terms + j] = (moved[k] - r[i * ROW_RESIDUALS + k]) / STEP;
        }
        if (code) return code;
    }
    for (size_t j = 0; j < terms; j++) {
        r[rows + j] = (x[j] - f->prior[j]) / f->prior_sd[j];
        jacobian[(rows + j) * terms + j] = 1 / f->prior_sd[j];
    }
    return SG_OK;
}

/* ---- where it starts ----------------------------------------------------------------------------------------------- */

/* Median of what `of` gives where it is positive; 0: nowhere. */
static double median_of(const fitting *f, double (*of)(const sg_loader_row *row)) {
    double values[SG_LOADER_ROWS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < f->n; i++) {
        double v = of(&f->rows[i]);
        if (v > 0 && isfinite(v)) values[n++] = v;
    }
    if (!n) return 0;
    gsl_sort(values, 1, n);
    return gsl_stats_median_from_sorted_data(values, 1, n);
}

static double sample_work(const sg_loader_row *r) {
    double batch_s = r->batch_cpu_s > 0 ? r->batch_cpu_s : r->batch_s;
    return r->load.batch > 0 ? batch_s / (double)r->load.batch : 0;
}
static double frames_of(const sg_loader_row *r) {
    return (double)r->load.cameras * (double)r->load.frames_per_camera;
}
static double beside_frames(const sg_loader_row *r) {
    return r->sample_cpu_s;
}
static double log_sd_of(const sg_loader_row *r) {
    return r->batch_log_sd;
}
/* Seconds per sample that a worker had to wait with nobody in its way: in line, or where processors are left. */
static double waited_at_all(const sg_loader_row *r) {
    bool room = r->load.workers == 0 || r->load.workers + r->load.step_threads <= r->load.processors;
    double wait_s = r->batch_s - r->batch_cpu_s;
    return room && r->batch_cpu_s > 0 && wait_s > 0.1 * r->batch_s ? wait_s / (double)r->load.batch : 0;
}
static double waited(const sg_loader_row *r) {
    return r->disturbed || r->crowded ? 0 : waited_at_all(r);
}
/* Rows of a quiet machine tell the wait, even that there is none. */
static bool waits_are_told(const fitting *f) {
    for (size_t i = 0; i < f->n; i++) {
        const sg_loader_row *r = &f->rows[i];
        bool room = r->load.workers == 0 || r->load.workers + r->load.step_threads <= r->load.processors;
        if (room && !r->disturbed && !r->crowded && r->batch_cpu_s > 0 && r->batch_s > 0) return true;
    }
    return false;
}
/* Of cold files alone: others answer from memory, and wall-clock beyond processor time is what other processes took. */
static double wait_of(const fitting *f) {
    if (strcmp(f->law.layer, "cold") != 0) return 0;
    return median_of(f, waits_are_told(f) ? waited : waited_at_all);
}

/* Taking a ready batch: a + bytes / b through the points whose loader kept up. */
static bool read_handover(const fitting *f, sg_loader_law *law) {
    double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
    for (size_t i = 0; i < f->n; i++) {
        const sg_loader_row *r = &f->rows[i];
        if (r->crowded || r->load.workers == 0 || r->stalled_share > 0.05 || !(r->wait_p50_s > 0)) continue;
        double weight = 1 / (r->wait_p50_s * r->wait_p50_s);
        n += weight;
        sx += weight * r->load.batch_bytes;
        sy += weight * r->wait_p50_s;
        sxx += weight * r->load.batch_bytes * r->load.batch_bytes;
        sxy += weight * r->load.batch_bytes * r->wait_p50_s;
    }
    if (!(n > 0)) return false;
    double spread = n * sxx - sx * sx, per_byte = spread > 1e-6 * n * sxx ? (n * sxy - sx * sy) / spread : -1;
    double start = (sy - per_byte * sx) / n;
    if (per_byte > 0 && start > 0) {
        law->handover_s = start;
        law->handover_bandwidth = 1 / per_byte;
        return true;
    }
    /* one size, or sizes that tell no line: the prior's proportions */
    double prior_sum = n * law->handover_s + sx / law->handover_bandwidth, scale = sy / prior_sum;
    law->handover_s *= scale;
    law->handover_bandwidth /= scale;
    return true;
}

/* Where no loader kept up, what is left of a step in line beside the worker's own time for its batch is the most that taking it can
 * have cost: on a CPU, where nothing is pinned and copied, less than the prior. */
static bool bound_handover(const fitting *f, sg_loader_law *law) {
    static const double LEFT_SD = 0.02; /* of the step: the difference of three means */
    double scale = 1;
    for (size_t i = 0; i < f->n; i++) {
        const sg_loader_row *r = &f->rows[i];
        if (r->crowded || r->load.workers > 0 || !(r->batch_s > 0) || !(r->period_s > 0)) continue;
        double left_s = fmax(0, r->period_s - r->step_s - r->batch_s) + LEFT_SD * r->period_s;
        scale = fmin(scale, left_s / (law->handover_s + r->load.batch_bytes / law->handover_bandwidth));
    }
    law->handover_s *= scale;
    law->handover_bandwidth /= scale;
    return scale < 1;
}

static void start(fitting *f) {
    sg_loader_law prior = sg_loader_law_prior();
    double sample_s = median_of(f, sample_work), beside_s = median_of(f, beside_frames),
           frames = median_of(f, frames_of);
    double wait_s = wait_of(f), log_sd = median_of(f, log_sd_of);
    if (!(sample_s > 0)) sample_s = prior.sample_s + frames * prior.frame_s;
    if (!(beside_s > 0)) beside_s = fmin(prior.sample_s, 0.2 * sample_s);
    double frame_s = frames > 0 ? fmax(sample_s - beside_s, 0.1 * sample_s) / frames : prior.frame_s;
    f->law.batch_log_sd = log_sd > 0 ? fmin(fmax(log_sd, 0.005), 1.0) : prior.batch_log_sd;
    f->law.wait_s = wait_s;
    const double values[LAW_TERMS] = {frame_s, beside_s, prior.sigma, prior.kappa, 1, wait_s > 0 ? wait_s : 1};
    const double sds[LAW_TERMS] = {WORK_PRIOR_SD,       SAMPLE_PRIOR_SD, CONTENTION_PRIOR_SD,
                                   CONTENTION_PRIOR_SD, WEIGHT_PRIOR_SD, WORK_PRIOR_SD};
    for (int j = 0; j < LAW_TERMS; j++) {
        f->prior[j] = log(values[j]);
        f->prior_sd[j] = sds[j];
    }
    for (int g = 0; g < f->groups; g++) {
        double least = INFINITY;
        for (size_t i = 0; i < f->n; i++)
            if (f->rows[i].group == g && f->rows[i].step_s > 0) least = fmin(least, f->rows[i].step_s);
        f->prior[LAW_TERMS + g] = log(isfinite(least) ? least : 1e-6);
        f->prior_sd[LAW_TERMS + g] = WORK_PRIOR_SD;
    }
}

/* ---- the fit ------------------------------------------------------------------------------------------------------- */

static sg_code solve(fitting *f, double *x, double *covariance, double *cost, sg_status *status) {
    size_t terms = terms_of(f), robust = f->n * ROW_RESIDUALS;
    memcpy(x, f->prior, terms * sizeof *x);
    sg_least_squares problem = {.rows = robust + terms,
                                .robust_rows = robust,
                                .terms = terms,
                                .iterations = ITERATIONS,
                                .evaluate = evaluate,
                                .user = f};
    return sg_least_squares_solve(&problem, x, covariance, cost, status);
}

/* Root mean square of log(period / the law's) over these rows. */
static sg_code spread_of(const fitting *f, const double *x, const sg_loader_row *rows, size_t n, double *sum,
                         size_t *counted, sg_status *status) {
    sg_loader_law law = f->law;
    set_law(&law, x);
    for (size_t i = 0; i < n; i++) {
        sg_loader_waits w;
        if (!(rows[i].period_s > 0) || rows[i].crowded) continue;
        sg_code code = clock_of(&rows[i], &law, bounded(x[LAW_TERMS + rows[i].group]), &w, status);
        if (code) return code;
        double error = log(w.period_s / rows[i].period_s);
        *sum += error * error;
        ++*counted;
    }
    return SG_OK;
}

static int worker_counts(const sg_loader_row *rows, size_t n, int *counts, int room) {
    int found = 0;
    for (size_t i = 0; i < n; i++) {
        int k = 0;
        while (k < found && counts[k] != rows[i].load.workers) k++;
        if (k == found && found < room) counts[found++] = rows[i].load.workers;
    }
    return found;
}

static bool group_stays(const sg_loader_row *rest, size_t n, int group) {
    for (size_t i = 0; i < n; i++)
        if (rest[i].group == group) return true;
    return false;
}

/* Each worker count is left out in turn and predicted from the others. */
static sg_code left_out(const fitting *f, double *log_sd, sg_status *status) {
    int counts[16], n_counts = worker_counts(f->rows, f->n, counts, 16);
    double sum = 0;
    size_t counted = 0;
    *log_sd = 0;
    if (n_counts < 3) return SG_OK;
    sg_loader_row *rest = calloc(2 * f->n, sizeof *rest), *out = rest + f->n;
    if (!rest) return sg_fail_memory(status, 2 * f->n * sizeof *rest, "a loader's fit");
    sg_code code = SG_OK;
    for (int c = 0; c < n_counts && !code; c++) {
        size_t kept = 0, left = 0;
        for (size_t i = 0; i < f->n; i++)
            if (f->rows[i].load.workers != counts[c]) rest[kept++] = f->rows[i];
        for (size_t i = 0; i < f->n; i++)
            if (f->rows[i].load.workers == counts[c] && !f->rows[i].crowded &&
                group_stays(rest, kept, f->rows[i].group))
                out[left++] = f->rows[i];
        if (!kept || !left) continue;
        fitting part = *f;
        part.rows = rest;
        part.n = kept;
        double x[TERMS_MAX];
        code = solve(&part, x, NULL, NULL, status);
        if (!code) code = spread_of(&part, x, out, left, &sum, &counted, status);
    }
    free(rest);
    if (counted) *log_sd = sqrt(sum / (double)counted);
    return code;
}

static void set_range(sg_loader_law *law, const sg_loader_row *rows, size_t n) {
    law->points = (double)n;
    law->processors = rows[0].load.processors;
    law->low_workers = law->high_workers = rows[0].load.workers;
    law->low_batch = law->high_batch = (double)rows[0].load.batch;
    law->cameras = (double)rows[0].load.cameras;
    law->frames_per_camera = (double)rows[0].load.frames_per_camera;
    for (size_t i = 1; i < n; i++) {
        law->processors = fmax(law->processors, rows[i].load.processors);
        law->low_workers = fmin(law->low_workers, rows[i].load.workers);
        law->high_workers = fmax(law->high_workers, rows[i].load.workers);
        law->low_batch = fmin(law->low_batch, (double)rows[i].load.batch);
        law->high_batch = fmax(law->high_batch, (double)rows[i].load.batch);
    }
}

static void set_doubt(const fitting *f, const double *covariance, double cost, sg_loader_law *law) {
    size_t terms = terms_of(f);
    double frames = median_of(f, frames_of), work_s = law->sample_s + frames * law->frame_s;
    double of_frame = frames * law->frame_s / work_s, of_rest = law->sample_s / work_s;
    double freedom = (double)(f->n * ROW_RESIDUALS), scale = fmax(1, cost / fmax(1, freedom - (double)terms));
    double variance = of_frame * of_frame * covariance[FRAME * terms + FRAME] +
                      of_rest * of_rest * covariance[SAMPLE * terms + SAMPLE] +
                      2 * of_frame * of_rest * covariance[FRAME * terms + SAMPLE];
    law->work_log_sd = sqrt(scale * fmax(0, variance));
    law->contention_log_sd = sqrt(scale * fmax(0, covariance[SIGMA * terms + SIGMA]));
    double crowded = 0;
    for (size_t i = 0; i < f->n; i++) crowded += f->rows[i].crowded;
    law->work_log_sd = hypot(law->work_log_sd, CROWDED_SD * crowded / (double)f->n);
    if (law->wait_s > 0 && !waits_are_told(f))
        law->work_log_sd = hypot(law->work_log_sd, CROWDED_WAIT_SD * law->wait_s / (law->wait_s + work_s));
    if (crowded == (double)f->n) law->evidence = SG_EVIDENCE_CALIBRATED;
}

/* A parameter is told where its doubt is less than half of the prior's. */
static uint8_t told_by(const double *covariance, size_t terms) {
    static const struct {
        size_t term;
        double prior_sd;
        uint8_t told;
    } of[] = {{SAMPLE, SAMPLE_PRIOR_SD, SG_LOADER_TOLD_SAMPLE},
              {SIGMA, CONTENTION_PRIOR_SD, SG_LOADER_TOLD_SIGMA},
              {KAPPA, CONTENTION_PRIOR_SD, SG_LOADER_TOLD_KAPPA}};
    unsigned told = 0;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (sqrt(fmax(0, covariance[of[i].term * (terms + 1)])) < 0.5 * of[i].prior_sd) told |= of[i].told;
    return (uint8_t)told;
}

static sg_code check(const sg_loader_row *rows, size_t n, int *groups, sg_status *status) {
    bool period = false;
    *groups = 0;
    if (n > SG_LOADER_ROWS_MAX)
        return sg_fail(status, SG_BAD_INPUT, "a loader's fit takes %d points, %zu are given", SG_LOADER_ROWS_MAX, n);
    for (size_t i = 0; i < n; i++) {
        period = period || rows[i].period_s > 0;
        if (rows[i].group < 0 || rows[i].group >= SG_LOADER_GROUPS_MAX)
            return sg_fail(status, SG_BAD_INPUT, "a loader's fit tells %d kinds of step apart", SG_LOADER_GROUPS_MAX);
        if (rows[i].group >= *groups) *groups = rows[i].group + 1;
    }
    return period ? SG_OK
                  : sg_fail(status, SG_BAD_INPUT, "no measured point tells how long a step with its loader takes");
}

sg_code sg_loader_fit(const sg_loader_row *rows, size_t n, sg_loader_law *law, double *step_s, sg_status *status) {
    fitting f = {.rows = rows, .n = n, .law = sg_loader_law_prior()};
    double x[TERMS_MAX], covariance[TERMS_MAX * TERMS_MAX], cost, sum = 0;
    size_t counted = 0;
    sg_code code = check(rows, n, &f.groups, status);
    if (code) return code;
    memcpy(f.law.dataset, law->dataset, sizeof law->dataset);
    memcpy(f.law.layer, law->layer, sizeof law->layer);
    bool handover = read_handover(&f, &f.law) || bound_handover(&f, &f.law);
    start(&f);
    code = solve(&f, x, covariance, &cost, status);
    if (!code) code = spread_of(&f, x, rows, n, &sum, &counted, status);
    double unseen = 0;
    if (!code) code = left_out(&f, &unseen, status);
    if (code) return sg_fail_in(status, "the loader of %s", law->dataset);
    *law = f.law;
    set_law(law, x);
    set_range(law, rows, n);
    law->evidence = SG_EVIDENCE_MEASURED;
    set_doubt(&f, covariance, cost, law);
    law->told = (uint8_t)(told_by(covariance, terms_of(&f)) | (handover ? SG_LOADER_TOLD_HANDOVER : 0));
    law->residual_log_sd = counted ? sqrt(sum / (double)counted) : UNSEEN_PERIOD_SD;
    law->left_out_log_sd = unseen;
    for (int g = 0; g < f.groups && step_s; g++) step_s[g] = bounded(x[LAW_TERMS + g]);
    return SG_OK;
}
