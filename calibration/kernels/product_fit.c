#include "calibration/kernels/product_fit.h"

#include "calibration/statistics/least_squares.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- terms and their coordinates ----------------------------------------------------------------------------------- */

typedef enum form { FORM_LOG, FORM_SHARE, FORM_ABOVE_ONE } form;

static const struct {
    sg_machine_id id;
    form form;
} terms[SG_PRODUCT_TERMS] = {
    {SG_M_EVENT_PRODUCT_S, FORM_LOG},
    {SG_M_EFF_GEMM, FORM_SHARE},
    {SG_M_EFF_BMM, FORM_SHARE},
    {SG_M_FLOP_ENERGY_J, FORM_LOG},
    {SG_M_NODE_GAIN, FORM_LOG},
    {SG_M_LANE_SHARE, FORM_SHARE},
    {SG_M_TILE_POWER, FORM_LOG},
    {SG_M_TILE_FILL, FORM_LOG},
    {SG_M_WAVE_SHARE, FORM_SHARE},
    {SG_M_PRODUCT_JOIN, FORM_ABOVE_ONE},
    {SG_M_PRODUCT_TRAFFIC_SHARE, FORM_SHARE},
    {SG_M_DRIFT_LENGTH, FORM_LOG},
    {SG_M_DRIFT_SHARE, FORM_SHARE},
    {SG_M_DRIFT_WAVES, FORM_SHARE},
    {SG_M_CLOCK_FADE, FORM_LOG},
    {SG_M_CLOCK_FADE_BMM, FORM_LOG},
    {SG_M_CLOCK_FADE_S, FORM_LOG},
    {SG_M_UNALIGNED, FORM_LOG},
    {SG_M_SPLIT_K_S, FORM_LOG},
};

/* Shares nearer to 0 or 1 than this are not told apart. */
static const double LEAST_SHARE = 1e-6;

sg_machine_id sg_product_term(size_t i) {
    return i < SG_PRODUCT_TERMS ? terms[i].id : SG_M_COUNT;
}

static form form_of(sg_machine_id id) {
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++)
        if (terms[i].id == id) return terms[i].form;
    return FORM_LOG;
}

double sg_product_coordinate(sg_machine_id id, double value) {
    double share = fmin(fmax(value, LEAST_SHARE), 1 - LEAST_SHARE);
    switch (form_of(id)) {
    case FORM_SHARE: return log(share / (1 - share));
    case FORM_ABOVE_ONE: return log(fmax(value - 1, LEAST_SHARE));
    default: return log(value);
    }
}

double sg_product_value(sg_machine_id id, double x) {
    switch (form_of(id)) {
    case FORM_SHARE: return 1 / (1 + exp(-x));
    case FORM_ABOVE_ONE: return 1 + exp(x);
    default: return exp(x);
    }
}

double sg_product_slope(sg_machine_id id, double value) {
    switch (form_of(id)) {
    case FORM_SHARE: return fmax(1 - value, LEAST_SHARE);
    case FORM_ABOVE_ONE: return (value - 1) / value;
    default: return 1;
    }
}

sg_code sg_product_prior_of(const sg_machine *m, sg_product_prior *prior, sg_status *status) {
    memset(prior, 0, sizeof *prior);
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++) {
        const sg_machine_parameter *p = &m->p[terms[i].id];
        prior->mean[i] = NAN;
        if (terms[i].id == SG_M_SPLIT_K_S && !(p->value > 0)) continue;
        if (!(p->value > 0) || !(p->log_sd > 0))
            return sg_fail(status, SG_NO,
                           "fitting the products of machine %s: its data sheet and priors do not state %s "
                           "with its uncertainty",
                           m->name, sg_machine_key(terms[i].id));
        prior->mean[i] = sg_product_coordinate(terms[i].id, p->value);
        double sd = p->log_sd / sg_product_slope(terms[i].id, p->value);
        prior->covariance[i * SG_PRODUCT_TERMS + i] = sd * sd;
    }
    return SG_OK;
}

/* ---- the problem --------------------------------------------------------------------------------------------------- */

typedef struct work {
    const sg_product_row *const *rows;
    size_t n;
    sg_machine machine; /* trial */
    double noise;
    size_t n_terms, of[SG_PRODUCT_TERMS]; /* of[j]: index among all terms */
    double mean[SG_PRODUCT_TERMS];
    double whitening[SG_PRODUCT_TERMS * SG_PRODUCT_TERMS]; /* inverse of the Cholesky factor, n_terms squared */
} work;

static void set_values(work *w, const double *x) {
    for (size_t j = 0; j < w->n_terms; j++) {
        sg_machine_id id = terms[w->of[j]].id;
        w->machine.p[id].value = sg_product_value(id, x[j]);
    }
}

static sg_code evaluate(const double *x, double *residual, double *jacobian, void *user, sg_status *status) {
    work *w = user;
    size_t n = w->n_terms;
    set_values(w, x);
    for (size_t i = 0; i < w->n; i++) {
        sg_priced price;
        sg_code code = sg_price_tiles(&w->machine, &w->rows[i]->product, SG_PRODUCT_BETWEEN_EVENTS, &price, status);
        if (code) return code;
        double scale = 1 / (w->rows[i]->seconds * w->noise);
        residual[i] = (price.seconds - w->rows[i]->seconds) * scale;
        for (size_t j = 0; j < n; j++) {
            sg_machine_id id = terms[w->of[j]].id;
            jacobian[i * n + j] = price.by_log[id] * sg_product_slope(id, w->machine.p[id].value) * scale;
        }
    }
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++) {
            jacobian[(w->n + i) * n + j] = w->whitening[i * n + j];
            sum += w->whitening[i * n + j] * (x[j] - w->mean[j]);
        }
        residual[w->n + i] = sum;
    }
    return SG_OK;
}

/* Inverse of the lower Cholesky factor of the prior's covariance among the fitted terms. */
static sg_code make_whitening(work *w, const sg_product_prior *prior, sg_status *status) {
    size_t n = w->n_terms;
    memset(w->whitening, 0, sizeof w->whitening);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            w->whitening[i * n + j] = prior->covariance[w->of[i] * SG_PRODUCT_TERMS + w->of[j]];
    gsl_matrix_view matrix = gsl_matrix_view_array(w->whitening, n, n);
    gsl_error_handler_t *before = gsl_set_error_handler_off();
    int failed = gsl_linalg_cholesky_decomp1(&matrix.matrix);
    if (!failed) failed = gsl_linalg_tri_lower_invert(&matrix.matrix);
    (void)gsl_set_error_handler(before);
    if (failed) return sg_fail(status, SG_BAD_INPUT, "the prior covariance of products is not positive definite");
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) w->whitening[i * n + j] = 0;
    return SG_OK;
}

static sg_code store(const work *w, const double *x, const double *covariance, sg_product_fit *fit, sg_status *status) {
    size_t n = w->n_terms;
    fit->n_terms = n;
    for (size_t j = 0; j < n; j++) fit->term[j] = terms[w->of[j]].id;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double slope = sg_product_slope(fit->term[i], sg_product_value(fit->term[i], x[i])) *
                           sg_product_slope(fit->term[j], sg_product_value(fit->term[j], x[j]));
            fit->covariance[i * n + j] = covariance[i * n + j] * slope;
        }
    fit->n_rows = w->n;
    fit->residual_log_sd = 0;
    if (!w->n) return SG_OK;
    double *size = malloc(w->n * sizeof *size);
    if (!size) return sg_fail_memory(status, w->n * sizeof *size, "the residuals of a fit");
    for (size_t i = 0; i < w->n; i++) {
        sg_priced price;
        sg_code code = sg_price_tiles(&w->machine, &w->rows[i]->product, SG_PRODUCT_BETWEEN_EVENTS, &price, status);
        if (code) {
            free(size);
            return code;
        }
        size[i] = fabs(log(price.seconds / w->rows[i]->seconds));
    }
    gsl_sort(size, 1, w->n);
    fit->residual_log_sd = 1.4826 * gsl_stats_median_from_sorted_data(size, 1, w->n);
    free(size);
    return SG_OK;
}

sg_code sg_product_fit_rows(const sg_product_row *const *rows, size_t n, const sg_product_prior *prior, double noise,
                            sg_machine *machine, sg_product_fit *fit, sg_status *status) {
    work w = {.rows = rows, .n = n, .machine = *machine, .noise = noise};
    double x[SG_PRODUCT_TERMS], covariance[SG_PRODUCT_TERMS * SG_PRODUCT_TERMS];
    memset(fit, 0, sizeof *fit);
    for (size_t i = 0; i < SG_PRODUCT_TERMS; i++)
        if (isfinite(prior->mean[i])) {
            w.mean[w.n_terms] = prior->mean[i];
            x[w.n_terms] = prior->mean[i];
            w.of[w.n_terms++] = i;
        }
    sg_code code = make_whitening(&w, prior, status);
    sg_least_squares problem = {
        .rows = n + w.n_terms, .robust_rows = n, .terms = w.n_terms, .evaluate = evaluate, .user = &w};
    if (!code) code = sg_least_squares_solve(&problem, x, covariance, &fit->cost, status);
    if (code) return code;
    set_values(&w, x);
    for (size_t j = 0; j < w.n_terms; j++) machine->p[terms[w.of[j]].id].value = w.machine.p[terms[w.of[j]].id].value;
    return store(&w, x, covariance, fit, status);
}
