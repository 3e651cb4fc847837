#include "calibration/kernels/kernel_fit_rows.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/statistics/least_squares.h"

/* Rows left out of fits of the seven measured GPUs, five folds each (2026-11). */
static const sg_row_scatter USUAL = {{0.008, 0.042, 0.048}};
/* No kernel is timed better than this from one run to the next. */
static const double LEAST_SCATTER = 0.002;
/* A table fixes the shape of a formula, not the machine that a step meets: other clocks, other neighbours in the cache. */
static const double STEP_LOG_SD = 0.03;

enum { MOST_TERMS = 16 };

sg_row_scatter sg_row_scatter_usual(void) {
    return USUAL;
}

size_t sg_row_terms(sg_row_kind kind, const sg_machine_id **ids) {
    static const sg_machine_id elementwise[] = {SG_M_EVENT_ELEMENTWISE_S, SG_M_EFF_ELEMENTWISE, SG_M_ELEMENTWISE_TWO,
                                                SG_M_POWER_TRAFFIC};
    static const sg_machine_id norm[] = {SG_M_EVENT_NORM_S,      SG_M_LAYER_NORM_TRAFFIC, SG_M_LAYER_NORM_ROW_S,
                                         SG_M_LAYER_NORM_REREAD, SG_M_LAYER_NORM_COLUMNS, SG_M_LAYER_NORM_STEEP};
    static const sg_machine_id softmax[] = {SG_M_EVENT_SOFTMAX_S, SG_M_SOFTMAX_TRAFFIC,   SG_M_SOFTMAX_ROW_S,
                                            SG_M_SOFTMAX_REREAD,  SG_M_SOFTMAX_COLUMNS,   SG_M_SOFTMAX_STEEP,
                                            SG_M_SOFTMAX_LOOP,    SG_M_SOFTMAX_UNALIGNED, SG_M_SOFTMAX_BLOCK};
    switch (kind) {
    case SG_ROW_ELEMENTWISE: return *ids = elementwise, sizeof elementwise / sizeof *elementwise;
    case SG_ROW_NORM: return *ids = norm, sizeof norm / sizeof *norm;
    case SG_ROW_SOFTMAX: return *ids = softmax, sizeof softmax / sizeof *softmax;
    default: return *ids = NULL, 0;
    }
}

typedef struct work {
    sg_kernel_row *rows; /* of one kind */
    size_t n, n_terms;
    sg_machine_id term[MOST_TERMS];
    double centre[MOST_TERMS], spread[MOST_TERMS]; /* the prior of log parameters */
    double row_sd;
    sg_machine trial;
} work;

/* A step of the solver may go anywhere; no parameter is further from its prior than this factor. */
static const double FURTHEST_LOG = 6;

/* predicted / measured - 1, but above 1 its logarithm, which has the same slope there: a time that cannot be (a clock that
 * jumped) then pulls no more than its distance in orders of magnitude. */
static double residual_of(double ratio, double *slope) {
    *slope = ratio > 1 ? 1 / ratio : 1;
    return ratio > 1 ? log(ratio) : ratio - 1;
}

static sg_code evaluate(const double *x, double *residual, double *jacobian, void *user, sg_status *status) {
    work *w = user;
    bool bound[MOST_TERMS];
    for (size_t j = 0; j < w->n_terms; j++) {
        double away = x[j] - w->centre[j];
        bound[j] = !(fabs(away) < FURTHEST_LOG);
        w->trial.p[w->term[j]].value = exp(bound[j] ? w->centre[j] + (away > 0 ? FURTHEST_LOG : -FURTHEST_LOG) : x[j]);
    }
    memset(jacobian, 0, (w->n + w->n_terms) * w->n_terms * sizeof *jacobian);
    for (size_t i = 0; i < w->n; i++) {
        double seconds, by_log[SG_M_COUNT], slope;
        sg_code code = sg_machine_price_alone(&w->trial, sg_kernel_row_op(&w->rows[i]), &seconds, by_log, status);
        if (code) return code;
        residual[i] = residual_of(seconds / w->rows[i].seconds, &slope) / w->row_sd;
        for (size_t j = 0; j < w->n_terms; j++)
            if (!bound[j]) jacobian[i * w->n_terms + j] = slope * by_log[w->term[j]] / w->rows[i].seconds / w->row_sd;
    }
    for (size_t j = 0; j < w->n_terms; j++) {
        residual[w->n + j] = (x[j] - w->centre[j]) / w->spread[j];
        jacobian[(w->n + j) * w->n_terms + j] = 1 / w->spread[j];
    }
    return SG_OK;
}

/* Terms that the machine has a prior for; a start and a share of the bandwidth are needed. */
static sg_code choose_terms(work *w, sg_row_kind kind, sg_status *status) {
    const sg_machine_id *ids;
    size_t n = sg_row_terms(kind, &ids);
    for (size_t j = 0; j < n; j++) {
        const sg_machine_parameter *p = &w->trial.p[ids[j]];
        if (!(p->value > 0)) {
            if (j > 1) continue;
            return sg_fail(status, SG_BAD_INPUT,
                           "fitting kernels to machine %s: it states no %s to begin with; add it to the data sheet",
                           w->trial.name, sg_machine_key(ids[j]));
        }
        if (!(p->log_sd > 0)) continue;
        w->term[w->n_terms] = ids[j];
        w->centre[w->n_terms] = log(p->value);
        w->spread[w->n_terms++] = p->log_sd;
    }
    return SG_OK;
}

/* Half of the width that holds 68 % of the residuals: one odd row does not move it. */
static double scatter_of(work *w, const double *x, sg_status *status) {
    size_t rows = w->n + w->n_terms;
    double *residual = malloc(rows * sizeof *residual), *jacobian = malloc(rows * w->n_terms * sizeof *jacobian);
    double scatter = NAN;
    if (residual && jacobian && evaluate(x, residual, jacobian, w, status) == SG_OK) {
        for (size_t i = 0; i < w->n; i++) residual[i] = fabs(residual[i]) * w->row_sd;
        gsl_sort(residual, 1, w->n);
        scatter = gsl_stats_quantile_from_sorted_data(residual, 1, w->n, 0.683);
        /* the residuals of so many rows have lost as many degrees of freedom as there are terms */
        scatter *= sqrt((double)(w->n + w->n_terms) / (double)w->n);
    }
    free(residual);
    free(jacobian);
    return fmax(scatter, LEAST_SCATTER);
}

static void store(const work *w, const double *x, const double *covariance, const char *origin, sg_machine *machine) {
    for (size_t i = 0; i < w->n_terms; i++) {
        sg_machine_parameter *p = &machine->p[w->term[i]];
        p->value = exp(fmax(w->centre[i] - FURTHEST_LOG, fmin(x[i], w->centre[i] + FURTHEST_LOG)));
        p->log_sd = sqrt(covariance[i * w->n_terms + i]);
        p->evidence = SG_EVIDENCE_CALIBRATED;
        p->group = 0;
        (void)snprintf(p->source, sizeof p->source, "%.119s", origin);
        for (int k = 0; k < SG_M_COUNT; k++)
            machine->covariance[(size_t)w->term[i] * SG_M_COUNT + (size_t)k] =
                machine->covariance[(size_t)k * SG_M_COUNT + (size_t)w->term[i]] = 0;
    }
    for (size_t i = 0; i < w->n_terms; i++)
        for (size_t j = 0; j < w->n_terms; j++)
            machine->covariance[(size_t)w->term[i] * SG_M_COUNT + (size_t)w->term[j]] = covariance[i * w->n_terms + j];
}

static sg_code solve(work *w, double *x, double *covariance, sg_status *status) {
    sg_least_squares problem = {
        .rows = w->n + w->n_terms, .robust_rows = w->n, .terms = w->n_terms, .evaluate = evaluate, .user = w};
    return sg_least_squares_solve(&problem, x, covariance, NULL, status);
}

/* Twice: rows weigh against the prior by their own scatter, which the first fit tells. */
static sg_code fit_kind(sg_row_kind kind, const char *origin, work *w, sg_machine *machine, double *scatter,
                        sg_status *status) {
    double x[MOST_TERMS], covariance[MOST_TERMS * MOST_TERMS];
    sg_code code = choose_terms(w, kind, status);
    if (code || w->n_terms == 0) return code;
    for (size_t j = 0; j < w->n_terms; j++) x[j] = w->centre[j];
    w->row_sd = USUAL.log_sd[kind];
    code = solve(w, x, covariance, status);
    /* few rows say little about their scatter */
    if (!code && w->n >= 2 * w->n_terms) {
        w->row_sd = scatter_of(w, x, status);
        code = solve(w, x, covariance, status);
    }
    if (code) return sg_fail_in(status, "fitting %s kernels of %s", sg_row_kind_name(kind), machine->name);
    *scatter = w->row_sd;
    store(w, x, covariance, origin, machine);
    return SG_OK;
}

/* Ops that no table of kernels has run as element-wise ones do: as sure as they were, beside that. */
static void carry_to_kin(sg_machine *machine) {
    static const sg_machine_id kin[] = {SG_M_EFF_COPY,   SG_M_EFF_OPTIMIZER, SG_M_EFF_POOL,
                                        SG_M_EFF_REDUCE, SG_M_EFF_EMBEDDING, SG_M_EFF_RANDOM};
    const sg_machine_parameter *from = &machine->p[SG_M_EFF_ELEMENTWISE];
    for (size_t i = 0; i < sizeof kin / sizeof *kin; i++) {
        sg_machine_parameter *p = &machine->p[kin[i]];
        if (p->evidence < SG_EVIDENCE_DATA_SHEET || !(p->value > 0)) continue; /* measured itself */
        p->value = from->value;
        (void)snprintf(p->source, sizeof p->source, "as element-wise kernels, %.90s", from->source);
    }
}

sg_code sg_fit_rows(const sg_kernel_row *const *rows, size_t n, const char *origin, sg_machine *machine,
                    sg_row_scatter *scatter, sg_status *status) {
    sg_row_scatter found = USUAL;
    sg_code code = sg_machine_covariance_make(machine, status);
    if (code) return code;
    work *w = calloc(1, sizeof *w);
    sg_kernel_row *copy = n <= SIZE_MAX / sizeof *copy ? malloc((n ? n : 1) * sizeof *copy) : NULL;
    if (!w || !copy) {
        free(copy);
        free(w);
        return sg_fail_memory(status, n * sizeof *copy, "the rows of a fit");
    }
    for (int kind = 0; !code && kind < SG_ROW_KIND_COUNT; kind++) {
        *w = (work){.rows = copy, .trial = *machine};
        w->trial.covariance = NULL;
        for (size_t i = 0; i < n; i++)
            if (rows[i]->kind == (sg_row_kind)kind) copy[w->n++] = *rows[i];
        if (w->n) code = fit_kind((sg_row_kind)kind, origin, w, machine, &found.log_sd[kind], status);
        if (w->n && !code && kind == SG_ROW_ELEMENTWISE) carry_to_kin(machine);
    }
    free(copy);
    free(w);
    if (!code && scatter) *scatter = found;
    return code;
}

/* Shares of the bandwidth are fitted to the listed one, whose doubt is in theirs from then on. */
static void fix_bandwidth(sg_machine *machine) {
    sg_machine_parameter *p = &machine->p[SG_M_BANDWIDTH];
    p->log_sd = 0;
    p->group = 0;
    p->evidence = SG_EVIDENCE_CALIBRATED;
    (void)snprintf(p->source, sizeof p->source, "nominal: what is fitted is relative to it");
    for (size_t j = 0; j < SG_M_COUNT; j++)
        machine->covariance[(size_t)SG_M_BANDWIDTH * SG_M_COUNT + j] =
            machine->covariance[j * SG_M_COUNT + (size_t)SG_M_BANDWIDTH] = 0;
}

static void widen_for_steps(sg_machine *machine) {
    for (int kind = 0; kind < SG_ROW_KIND_COUNT; kind++) {
        const sg_machine_id *ids;
        size_t n = sg_row_terms((sg_row_kind)kind, &ids);
        for (size_t i = 0; i < n; i++) {
            sg_machine_parameter *p = &machine->p[ids[i]];
            if (p->evidence >= SG_EVIDENCE_DATA_SHEET) continue;
            p->log_sd = hypot(p->log_sd, STEP_LOG_SD);
            machine->covariance[(size_t)ids[i] * SG_M_COUNT + (size_t)ids[i]] += STEP_LOG_SD * STEP_LOG_SD;
        }
    }
}

void sg_row_doubt_of_kernels(sg_machine *machine) {
    for (int kind = 0; kind < SG_ROW_KIND_COUNT; kind++) {
        const sg_machine_id *ids;
        size_t n = sg_row_terms((sg_row_kind)kind, &ids);
        for (size_t i = 0; i < n; i++) {
            double *log_sd = &machine->p[ids[i]].log_sd;
            *log_sd = sqrt(fmax(0, *log_sd * *log_sd - STEP_LOG_SD * STEP_LOG_SD));
        }
    }
}

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

sg_code sg_fit_kernel_rows(const sg_csv_table *table, const char *device, sg_machine *machine, sg_status *status) {
    sg_code code = sg_kernel_rows_check(table, status);
    if (code) return code;
    size_t n = 0;
    sg_kernel_row *rows = calloc(table->n_rows ? table->n_rows : 1, sizeof *rows);
    const sg_kernel_row **at = calloc(table->n_rows ? table->n_rows : 1, sizeof(const sg_kernel_row *));
    if (!rows || !at) {
        free(rows);
        free((void *)at);
        return sg_fail_memory(status, table->n_rows * sizeof *rows, "the rows of a table");
    }
    for (size_t i = 0; i < table->n_rows; i++) {
        if (device && strcmp(sg_csv_table_text(table, i, "device"), device) != 0) continue;
        if (sg_kernel_row_read(table, i, &rows[n])) continue;
        at[n] = &rows[n];
        n++;
    }
    char origin[120];
    (void)snprintf(origin, sizeof origin, "%.60s: %zu kernels", file_name(table->path), n);
    if (n == 0)
        code = sg_fail(status, SG_BAD_INPUT, "%.200s: no bandwidth-bound kernel of device \"%.80s\"", table->path,
                       device ? device : "any");
    else
        code = sg_fit_rows(at, n, origin, machine, NULL, status);
    if (!code) {
        if (machine->p[SG_M_EFF_ELEMENTWISE].evidence < SG_EVIDENCE_DATA_SHEET) fix_bandwidth(machine);
        widen_for_steps(machine);
    }
    free(rows);
    free((void *)at);
    return code;
}

/* ---- priors from relatives ------------------------------------------------------------------------------------------ */

/* HBM from the V100 on streams at a larger share of its listed rate than GDDR and the P100's do. */
static bool fast_memory(const sg_machine *m) {
    return strncmp(m->memory_type, "hbm", 3) == 0 && m->capability >= 70;
}

static bool related(const sg_machine *a, const sg_machine *b, sg_machine_id id) {
    if (id == SG_M_EFF_ELEMENTWISE) return fast_memory(a) == fast_memory(b);
    return (a->capability >= 80) == (b->capability >= 80);
}

/* What a parameter is carried over relative to: traffic of norms and softmax to that of element-wise kernels, whose share of
 * the bandwidth differs between machines as theirs does, and so does the class's efficiency that it stands beside. */
static double relative_to(const sg_machine *m, sg_machine_id id) {
    sg_machine_id eff = id == SG_M_LAYER_NORM_TRAFFIC ? SG_M_EFF_NORM
                        : id == SG_M_SOFTMAX_TRAFFIC  ? SG_M_EFF_SOFTMAX
                                                      : SG_M_COUNT;
    return eff < SG_M_COUNT ? m->p[eff].value / m->p[SG_M_EFF_ELEMENTWISE].value : 1;
}

static void prior_of(const sg_machine *others, size_t n, sg_machine_id id, sg_machine *machine) {
    const double STRANGER = 0.1; /* weight of a machine of another kind */
    double weight = 0, mean = 0, spread = 0;
    size_t seen = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            const sg_machine_parameter *p = &others[i].p[id];
            if (!(p->value > 0) || p->evidence != SG_EVIDENCE_CALIBRATED || !(relative_to(&others[i], id) > 0))
                continue;
            double w = related(&others[i], machine, id) ? 1 : STRANGER, x = log(p->value / relative_to(&others[i], id));
            if (pass == 0) {
                weight += w;
                seen++;
                mean += w * x;
            } else {
                spread += w * ((x - mean) * (x - mean) + p->log_sd * p->log_sd);
            }
        }
        if (!(weight > 0)) return;
        if (pass == 0) mean /= weight;
    }
    sg_machine_parameter *p = &machine->p[id];
    double sd = sqrt(spread / weight * (1 + 1 / (double)seen)); /* the machine is one more draw */
    *p = (sg_machine_parameter){.value = exp(mean) * relative_to(machine, id),
                                .log_sd = fmin(fmax(sd, 0.02), 2),
                                .evidence = SG_EVIDENCE_DATA_SHEET};
    (void)snprintf(p->source, sizeof p->source, "kernels measured on %zu other GPUs", n);
}

void sg_row_prior_from(const sg_machine *others, size_t n, sg_machine *machine) {
    for (int kind = 0; kind < SG_ROW_KIND_COUNT; kind++) {
        const sg_machine_id *ids;
        size_t terms = sg_row_terms((sg_row_kind)kind, &ids);
        for (size_t j = 0; j < terms; j++) prior_of(others, n, ids[j], machine);
    }
}
