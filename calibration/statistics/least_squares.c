#include "calibration/statistics/least_squares.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { REWEIGHTINGS = 5, ITERATIONS = 200 };
static const double HUBER_K = 1.5;

typedef struct work {
    const sg_least_squares *problem;
    double *residual, *jacobian, *weight; /* weight: sqrt of the Huber weight by row */
    double at[64];                        /* where residual and jacobian are known: the solver asks for both in turn */
    bool known;
    sg_status *status;
    sg_code code;
} work;

static int call(const gsl_vector *x, work *w) {
    double local[64];
    for (size_t j = 0; j < w->problem->terms; j++) local[j] = gsl_vector_get(x, j);
    size_t bytes = w->problem->terms * sizeof *local;
    if (w->known && memcmp(local, w->at, bytes) == 0) return GSL_SUCCESS;
    w->known = false;
    w->code = w->problem->evaluate(local, w->residual, w->jacobian, w->problem->user, w->status);
    if (w->code != SG_OK) return GSL_EFAILED;
    for (size_t i = 0; i < w->problem->rows; i++)
        if (!isfinite(w->residual[i])) return GSL_EDOM;
    memcpy(w->at, local, bytes);
    w->known = true;
    return GSL_SUCCESS;
}

static int residuals(const gsl_vector *x, void *user, gsl_vector *f) {
    work *w = user;
    int failed = call(x, w);
    for (size_t i = 0; !failed && i < w->problem->rows; i++) gsl_vector_set(f, i, w->weight[i] * w->residual[i]);
    return failed;
}

static int derivatives(const gsl_vector *x, void *user, gsl_matrix *jacobian) {
    work *w = user;
    size_t terms = w->problem->terms;
    int failed = call(x, w);
    for (size_t i = 0; !failed && i < w->problem->rows; i++)
        for (size_t j = 0; j < terms; j++) gsl_matrix_set(jacobian, i, j, w->weight[i] * w->jacobian[i * terms + j]);
    return failed;
}

static void reweight(work *w) {
    for (size_t i = 0; i < w->problem->robust_rows; i++) {
        double size = fabs(w->residual[i]);
        w->weight[i] = size <= HUBER_K ? 1 : sqrt(HUBER_K / size);
    }
}

static sg_code solve_with(gsl_multifit_nlinear_workspace *solver, gsl_multifit_nlinear_fdf *fdf, work *w, double *x,
                          double *covariance, double *cost) {
    size_t terms = w->problem->terms;
    gsl_vector_view start = gsl_vector_view_array(x, terms);
    for (int round = 0; round < REWEIGHTINGS; round++) {
        int info;
        if (gsl_multifit_nlinear_init(&start.vector, fdf, solver) != GSL_SUCCESS)
            return w->code != SG_OK ? w->code
                                    : sg_fail(w->status, SG_BAD_INPUT, "the fit cannot start from these measurements");
        /* Running out of iterations near the minimum is no failure: the covariance tells how good the place is. */
        size_t most = w->problem->iterations ? w->problem->iterations : ITERATIONS;
        (void)gsl_multifit_nlinear_driver(most, 1e-9, 1e-9, 0, NULL, NULL, &info, solver);
        if (w->code != SG_OK) return w->code;
        const gsl_vector *best = gsl_multifit_nlinear_position(solver);
        for (size_t j = 0; j < terms; j++) x[j] = gsl_vector_get(best, j);
        (void)call(best, w);
        reweight(w);
        if (w->problem->robust_rows == 0) break;
    }
    if (cost) (void)gsl_blas_ddot(gsl_multifit_nlinear_residual(solver), gsl_multifit_nlinear_residual(solver), cost);
    if (covariance) {
        gsl_matrix_view into = gsl_matrix_view_array(covariance, terms, terms);
        if (gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(solver), 0, &into.matrix) != GSL_SUCCESS)
            return sg_fail(w->status, SG_BAD_INPUT,
                           "the measurements do not determine the fit: measure more configurations");
    }
    return SG_OK;
}

static sg_code solve(work *w, double *x, double *covariance, double *cost) {
    const sg_least_squares *p = w->problem;
    gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_fdf fdf = {
        .f = residuals, .df = derivatives, .fvv = NULL, .n = p->rows, .p = p->terms, .params = w};
    gsl_multifit_nlinear_workspace *solver =
        gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, p->rows, p->terms);
    if (!solver) return sg_fail_memory(w->status, p->rows * p->terms * sizeof(double), "a fit");
    sg_code code = solve_with(solver, &fdf, w, x, covariance, cost);
    gsl_multifit_nlinear_free(solver);
    return code;
}

sg_code sg_least_squares_solve(const sg_least_squares *problem, double *x, double *covariance, double *cost,
                               sg_status *status) {
    if (problem->terms == 0 || problem->terms > 64 || problem->rows < problem->terms)
        return sg_fail(status, SG_BAD_INPUT, "%zu equations cannot determine %zu parameters", problem->rows,
                       problem->terms);
    work w = {.problem = problem, .status = status, .code = SG_OK};
    w.residual = calloc(problem->rows, sizeof(double));
    w.jacobian = calloc(problem->rows * problem->terms, sizeof(double));
    w.weight = malloc(problem->rows * sizeof(double));
    sg_code code = SG_OK;
    if (!w.residual || !w.jacobian || !w.weight)
        code = sg_fail_memory(status, problem->rows * (problem->terms + 2) * sizeof(double), "a fit");
    if (code == SG_OK) {
        for (size_t i = 0; i < problem->rows; i++) w.weight[i] = 1;
        /* GSL's default handler aborts the program; its return codes are all that is needed. */
        gsl_error_handler_t *before = gsl_set_error_handler_off();
        code = solve(&w, x, covariance, cost);
        (void)gsl_set_error_handler(before);
    }
    free(w.residual);
    free(w.jacobian);
    free(w.weight);
    return code;
}
