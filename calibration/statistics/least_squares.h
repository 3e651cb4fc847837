/* least_squares.h: robust nonlinear least squares through GSL (trust region, Levenberg-Marquardt).
 *
 * Minimises sum_i rho(r_i(x)): r are residuals already divided by their standard deviations. Robust rows use Huber's loss
 * (k = 1.5) by iterated re-weighting, so that a disturbed measurement does not bend the fit; prior rows stay quadratic. */
#ifndef SG_CALIBRATION_STATISTICS_LEAST_SQUARES_H
#define SG_CALIBRATION_STATISTICS_LEAST_SQUARES_H

#include "kernels/status.h"

#include <stddef.h>

typedef struct sg_least_squares {
    size_t rows, robust_rows; /* the first robust_rows of rows are robust */
    size_t terms;
    size_t iterations; /* of the solver at most, per re-weighting; 0 = 200 */
    /* residual[rows], jacobian[rows * terms] row-major: d residual / d x. Returns SG_OK or fails. */
    sg_code (*evaluate)(const double *x, double *residual, double *jacobian, void *user, sg_status *status);
    void *user;
} sg_least_squares;

/* x[terms]: start in, solution out. covariance[terms * terms] of x for unit residual variance, or NULL. cost: final sum of
 * squared (weighted) residuals, or NULL. */
sg_code sg_least_squares_solve(const sg_least_squares *problem, double *x, double *covariance, double *cost,
                               sg_status *status);

#endif
