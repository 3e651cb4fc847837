#include "calibration/reports/report_fit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/machine/machine_file.h"
#include "calibration/statistics/least_squares.h"

#define CONVOLUTIONS                                                                                                   \
    { SG_M_EFF_CONV, SG_M_EFF_CONV_BWD_DATA, SG_M_EFF_CONV_BWD_WEIGHTS }
static const sg_report_term terms[] = {
    {"cuda",
     false,
     {SG_M_EFF_PRODUCT_TF32},
     1,
     0.80,
     0.15,
     "kernel tables, large fp32 products: V100 0.96, A100 0.80-0.89, H100 0.74, P100 0.72"},
    {"cuda",
     false,
     {SG_M_EFF_PRODUCT_BF16, SG_M_EFF_PRODUCT_F16},
     2,
     0.70,
     0.15,
     "matrix products of training steps: 0.65-0.78 of the peak"},
    {"high-rate",
     false,
     {SG_M_EFF_PRODUCT_TF32},
     1,
     0.70,
     0.20,
     "the same, where the listed rate needs more power than there is"},
    {"high-rate", false, {SG_M_EFF_PRODUCT_BF16, SG_M_EFF_PRODUCT_F16}, 2, 0.62, 0.20, "the same"},
    {"cuda", false, CONVOLUTIONS, 3, 0.74, 0.15, "as large products at the fp32 rate, 0.70 in all, idle SMs apart"},
    {"tensor-rich", false, CONVOLUTIONS, 3, 0.45, 0.25,
     "a U-Net policy on A100: convolutions four times faster in tf32, bytes apart"},
    {"cuda", false, {SG_M_EFF_ATTENTION}, 1, 0.40, 0.30, "fused attention with heads of 64, forward and backward"},
    {"cuda",
     false,
     {SG_M_EFF_NORM, SG_M_EFF_SOFTMAX},
     2,
     0.60,
     0.10,
     "kernel tables: layer norm and softmax 0.52-0.79"},
    {"cuda",
     false,
     {SG_M_EFF_ELEMENTWISE, SG_M_EFF_COPY, SG_M_EFF_OPTIMIZER, SG_M_EFF_POOL, SG_M_EFF_REDUCE, SG_M_EFF_EMBEDDING,
      SG_M_EFF_RANDOM},
     7,
     0.87,
     0.06,
     "kernel tables: element-wise 0.76-0.92"},
    {"pytorch-eager",
     true,
     {SG_M_HOST_OP_S},
     1,
     22e-6,
     0.20,
     "PPO learning on six hosts 12-36 us, small transformers on H100 hosts 27-33 us"},
    {"pytorch-compiled",
     true,
     {SG_M_FUSED_BYTES},
     1,
     0.50,
     0.30,
     "a chain of element-wise ops: two or three passes become one"},
    {"pytorch-compiled",
     true,
     {SG_M_HOST_KEPT},
     1,
     0.45,
     0.30,
     "half of the calls, cheaper each; optimizer and reads stay"},
};
enum { TERMS = sizeof terms / sizeof *terms };
_Static_assert((int)TERMS <= (int)SG_REPORT_TERMS, "room for every term");

/* What a prediction with the right parameters is off by: reports are rounded, clocks differ from card to card. */
static const double REPORT_LOG_SD = 0.10;
/* ... and hosts differ in what a call costs them: 12-36 us in launch-bound trainings of nine hosts. */
static const double HOST_LOG_SD = 0.35;
/* n reports of one GPU and policy weigh as much as this many. */
static const double REPEATED_WEIGHT = 2;

const sg_report_term *sg_report_terms(size_t *n) {
    *n = TERMS;
    return terms;
}

/* ---- values in place ----------------------------------------------------------------------------------------------- */

/* Parameters of a file under configs/priors; NAN where it has none. */
static sg_code read_prior(const char *name, const char *config_dir, sg_machine *prior, sg_status *status) {
    char dir[SG_PATH_BYTES], path[SG_PATH_BYTES];
    sg_tree *tree = NULL;
    const sg_node *parameters = NULL;
    sg_machine_init(prior);
    for (int i = 0; i < SG_M_COUNT; i++) prior->p[i].value = NAN;
    sg_code code = sg_config_dir(config_dir, dir, sizeof dir, status);
    if (!code) code = sg_config_find(dir, "priors", name, ".yaml", path, sizeof path, status);
    if (!code) code = sg_tree_read(path, &tree, status);
    if (!code) code = sg_node_child(tree, sg_tree_root(tree), "parameters", SG_NODE_MAP, &parameters, status);
    if (!code) code = sg_machine_parameters_read(tree, parameters, prior, status);
    sg_tree_free(tree);
    return code;
}

/* Which term each parameter of a machine came from: the file whose value and source it carries. */
typedef struct origin {
    sg_machine prior[TERMS]; /* of the term's file */
} origin;

static sg_code read_origin(const char *config_dir, origin *o, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t t = 0; t < TERMS && !code; t++) {
        sg_machine_init(&o->prior[t]);
        if (!terms[t].of_framework) code = read_prior(terms[t].file, config_dir, &o->prior[t], status);
    }
    return code;
}

static bool came_from(const sg_machine_parameter *p, const sg_machine_parameter *prior) {
    return p->value == prior->value && strcmp(p->source, prior->source) == 0;
}

/* found[TERMS * SG_M_COUNT]: the parameter is the term's on this machine, or in this profile. */
static void find_terms(const origin *o, const sg_machine *machine, const sg_framework_numbers *framework, bool *found) {
    memset(found, 0, (size_t)TERMS * SG_M_COUNT * sizeof *found);
    for (size_t t = 0; t < TERMS; t++)
        for (size_t i = 0; i < terms[t].n_ids; i++) {
            sg_machine_id id = terms[t].ids[i];
            found[t * SG_M_COUNT + id] = terms[t].of_framework ? isfinite(framework->p[id].value)
                                                               : came_from(&machine->p[id], &o->prior[t].p[id]);
        }
}

static void put(const double *value, const bool *found, sg_machine *machine, sg_framework_numbers *framework) {
    for (size_t t = 0; t < TERMS; t++)
        for (size_t i = 0; i < terms[t].n_ids; i++) {
            sg_machine_id id = terms[t].ids[i];
            if (!found[t * SG_M_COUNT + id]) continue;
            if (!terms[t].of_framework)
                machine->p[id].value = value[t];
            else
                framework->p[id].value = value[t];
        }
}

/* Numbers of the case's own profile. */
static sg_code numbers_of(const sg_report_case *one, const char *config_dir, sg_framework_numbers *numbers,
                          sg_status *status) {
    return sg_framework_load(sg_framework_name(one->row.request.framework), one->machine.device_class, config_dir,
                             numbers, status);
}

sg_code sg_report_fit_apply(const sg_report_fit *fit, const char *config_dir, sg_machine *machine,
                            sg_framework_numbers *framework, sg_status *status) {
    bool *found = calloc((size_t)TERMS * SG_M_COUNT, sizeof *found);
    origin *o = calloc(1, sizeof *o);
    if (!found || !o) {
        free(found);
        free(o);
        return sg_fail_memory(status, sizeof *o, "a fit");
    }
    sg_code code = read_origin(config_dir, o, status);
    if (!code) {
        find_terms(o, machine, framework, found);
        put(fit->value, found, machine, framework);
    }
    free(o);
    free(found);
    return code;
}

/* ---- the fit ------------------------------------------------------------------------------------------------------- */

typedef struct fit_row {
    const sg_report_case *one;
    sg_framework_numbers framework;
    double log_s, log_sd;
    bool found[TERMS * SG_M_COUNT];
} fit_row;

typedef struct fit_work {
    fit_row *rows;
    size_t n;
    const char *config_dir;
} fit_work;

/* Shares are of tensor rates: GPUs without them have their own parameters. Replayed graphs of small models are made of gaps
 * between kernels, which no term stands for. */
static bool takes_part(const sg_report_case *one, const char *without) {
    const sg_report_row *row = &one->row;
    return one->has_machine && one->machine.tf32 && !row->unified && one->n_candidates == 1 && one->cameras_known &&
           !row->no_training[0] && !row->graphs && (row->time == SG_REPORT_UPDATE || row->time == SG_REPORT_STEP) &&
           !(without && strcmp(one->machine.name, without) == 0);
}

static sg_code price_row(const fit_work *w, const fit_row *row, const double *value, sg_prediction *p,
                         sg_status *status) {
    sg_machine machine = row->one->machine;
    sg_framework_numbers framework = row->framework;
    put(value, row->found, &machine, &framework);
    return sg_report_case_predict(row->one, 0, &machine, &framework, w->config_dir, 0, p, status);
}

/* Residuals: reports, then the prior; x: log(value / textbook). */
static sg_code evaluate(const double *x, double *residual, double *jacobian, void *user, sg_status *status) {
    fit_work *w = user;
    double value[TERMS];
    memset(jacobian, 0, (w->n + TERMS) * TERMS * sizeof *jacobian);
    for (size_t t = 0; t < TERMS; t++) {
        value[t] = terms[t].textbook * exp(x[t]);
        residual[w->n + t] = x[t] / terms[t].log_sd;
        jacobian[(w->n + t) * TERMS + t] = 1 / terms[t].log_sd;
    }
    for (size_t r = 0; r < w->n; r++) {
        fit_row *row = &w->rows[r];
        sg_prediction p;
        sg_code code = price_row(w, row, value, &p, status);
        if (code) return code;
        bool update = row->one->row.time == SG_REPORT_UPDATE;
        double seconds = update ? p.update_s.value : p.step_s.value;
        residual[r] = (log(seconds) - row->log_s) / row->log_sd;
        for (size_t t = 0; t < TERMS; t++)
            for (size_t i = 0; i < terms[t].n_ids; i++)
                if (row->found[t * SG_M_COUNT + terms[t].ids[i]])
                    jacobian[r * TERMS + t] += p.update_by_log[terms[t].ids[i]] / seconds / row->log_sd;
    }
    return SG_OK;
}

static bool same_configuration(const sg_report_case *a, const sg_report_case *b) {
    return strcmp(a->machine.name, b->machine.name) == 0 && strcmp(a->row.policy, b->row.policy) == 0 &&
           a->row.request.framework == b->row.request.framework;
}

/* What a report is off by with the right parameters: the more, the more of its time is its host's. */
static sg_code doubt(const fit_work *w, fit_row *row, double same, sg_status *status) {
    double value[TERMS], host = 0;
    sg_prediction p;
    for (size_t t = 0; t < TERMS; t++) value[t] = terms[t].textbook;
    sg_code code = price_row(w, row, value, &p, status);
    if (code) return code;
    for (int i = SG_M_HOST_OP_S; i <= SG_M_HOST_SYNC_S; i++)
        if (i == SG_M_HOST_OP_S || i == SG_M_HOST_OPTIMIZER_S || i == SG_M_HOST_SYNC_S)
            host += p.update_by_log[i] / p.update_s.value;
    row->log_sd = hypot(REPORT_LOG_SD, HOST_LOG_SD * host) * sqrt(fmax(1, same / REPEATED_WEIGHT));
    return SG_OK;
}

static sg_code collect(const sg_report_cases *cases, const char *without, const origin *o, fit_work *w,
                       sg_report_fit *fit, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < cases->n && !code; i++) {
        const sg_report_case *one = &cases->items[i];
        if (!takes_part(one, without)) continue;
        size_t same = 0, before = 0;
        for (size_t k = 0; k < cases->n; k++) {
            bool also = takes_part(&cases->items[k], without) && same_configuration(one, &cases->items[k]);
            same += also;
            before += also && k < i;
        }
        fit_row *row = &w->rows[w->n++];
        row->one = one;
        row->log_s = 0.5 * (log(one->row.low_s) + log(one->row.high_s));
        code = numbers_of(one, w->config_dir, &row->framework, status);
        find_terms(o, &one->machine, &row->framework, row->found);
        fit->configurations += before == 0;
        if (!code) code = doubt(w, row, (double)same, status);
    }
    fit->rows = w->n;
    return code;
}

static sg_code solve(fit_work *w, sg_report_fit *fit, sg_status *status) {
    double x[TERMS] = {0}, covariance[TERMS * TERMS] = {0};
    sg_least_squares problem = {
        .rows = w->n + TERMS, .robust_rows = w->n, .terms = TERMS, .evaluate = evaluate, .user = w};
    double *residual = malloc((w->n + TERMS) * sizeof *residual);
    double *jacobian = malloc((w->n + TERMS) * TERMS * sizeof *jacobian);
    if (!residual || !jacobian) {
        free(residual);
        free(jacobian);
        return sg_fail_memory(status, (w->n + TERMS) * TERMS * sizeof(double), "a fit");
    }
    sg_code code = sg_least_squares_solve(&problem, x, covariance, NULL, status);
    if (!code) code = evaluate(x, residual, jacobian, w, status);
    double sum = 0;
    for (size_t r = 0; !code && r < w->n; r++) sum += pow(residual[r] * w->rows[r].log_sd, 2);
    for (size_t t = 0; !code && t < TERMS; t++) {
        fit->value[t] = terms[t].textbook * exp(x[t]);
        fit->log_sd[t] = sqrt(covariance[t * TERMS + t]);
        if (terms[t].ids[0] == SG_M_HOST_OP_S)
            fit->log_sd[t] = hypot(fit->log_sd[t], HOST_LOG_SD); /* the next host is another one */
    }
    fit->rms_log = w->n ? sqrt(sum / (double)w->n) : 0;
    free(residual);
    free(jacobian);
    return code;
}

sg_code sg_report_fit_make(const sg_report_cases *cases, const char *config_dir, const char *without,
                           sg_report_fit *fit, sg_status *status) {
    fit_work w = {.config_dir = config_dir};
    *fit = (sg_report_fit){0};
    origin *o = calloc(1, sizeof *o);
    w.rows = calloc(cases->n ? cases->n : 1, sizeof *w.rows);
    if (!o || !w.rows) {
        free(o);
        free(w.rows);
        return sg_fail_memory(status, cases->n * sizeof *w.rows, "a fit to reports");
    }
    sg_code code = read_origin(config_dir, o, status);
    if (!code) {
        code = collect(cases, without, o, &w, fit, status);
        if (!code) code = solve(&w, fit, status);
    }
    free(w.rows);
    free(o);
    return code ? sg_fail_in(status, "fitting priors to %zu reports", w.n) : SG_OK;
}

static void write_term(FILE *file, const sg_report_fit *fit, size_t t) {
    for (size_t i = 0; i < terms[t].n_ids; i++)
        (void)fprintf(
            file,
            "    %s: {value: %.4g, log_sd: %.3f, source: \"fit to %zu published trainings (%zu configurations)\"}\n",
            sg_machine_key(terms[t].ids[i]), fit->value[t], fit->log_sd[t], fit->rows, fit->configurations);
}

sg_code sg_report_fit_save(FILE *file, const sg_report_fit *fit, sg_status *status) {
    (void)fprintf(file,
                  "# Priors fitted to %zu published trainings of %zu GPUs and policies; rms of the logarithms %.3f.\n",
                  fit->rows, fit->configurations, fit->rms_log);
    for (size_t t = 0; t < TERMS; t++) {
        bool first = true;
        for (size_t k = 0; k < t; k++) first = first && strcmp(terms[k].file, terms[t].file) != 0;
        if (!first) continue;
        (void)fprintf(file, "%s/%s.yaml:\n  %s:\n", terms[t].of_framework ? "frameworks" : "priors", terms[t].file,
                      terms[t].of_framework ? "cuda" : "parameters");
        for (size_t k = t; k < TERMS; k++)
            if (strcmp(terms[k].file, terms[t].file) == 0) write_term(file, fit, k);
    }
    return ferror(file) ? sg_fail(status, SG_MACHINE, "the fitted priors cannot be written: %s", strerror(errno))
                        : SG_OK;
}

/* ---- leaving devices out ------------------------------------------------------------------------------------------- */

static sg_code fit_without(const sg_report_cases *cases, const sg_validate_options *options, size_t at,
                           sg_report_fits *fits, sg_status *status) {
    const char *device = cases->items[at].machine.name;
    sg_report_fit fit;
    sg_code code = sg_report_fit_make(cases, options->config_dir, device, &fit, status);
    for (size_t i = at; i < cases->n && !code; i++)
        if (strcmp(cases->items[i].machine.name, device) == 0)
            code = sg_report_fit_apply(&fit, options->config_dir, &fits->machine[i], &fits->framework[i], status);
    return code;
}

static bool is_predicted(const sg_report_case *one) {
    return one->has_machine && one->n_candidates > 0;
}

static bool seen_before(const sg_report_cases *cases, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (is_predicted(&cases->items[i]) && strcmp(cases->items[i].machine.name, cases->items[at].machine.name) == 0)
            return true;
    return false;
}

sg_code sg_report_fits_make(const sg_report_cases *cases, const sg_validate_options *options, sg_report_fits *fits,
                            sg_status *status) {
    size_t room = cases->n ? cases->n : 1;
    *fits = (sg_report_fits){.n = cases->n};
    fits->machine = calloc(room, sizeof *fits->machine);
    fits->framework = calloc(room, sizeof *fits->framework);
    if (!fits->machine || !fits->framework)
        return sg_fail_memory(status, room * sizeof *fits->machine, "fits to reports");
    sg_code code = SG_OK;
    for (size_t i = 0; i < cases->n && !code; i++) {
        fits->machine[i] = cases->items[i].machine;
        code = numbers_of(&cases->items[i], options->config_dir, &fits->framework[i], status);
    }
    for (size_t i = 0; i < cases->n && !code && options->left_out != SG_LEFT_OUT_NOTHING; i++)
        if (is_predicted(&cases->items[i]) && !seen_before(cases, i))
            code = fit_without(cases, options, i, fits, status);
    if (code) sg_report_fits_clear(fits);
    return code;
}

void sg_report_fits_clear(sg_report_fits *fits) {
    free(fits->machine);
    free(fits->framework);
    *fits = (sg_report_fits){0};
}
