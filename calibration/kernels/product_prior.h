/* product_prior.h: what the products of several devices have in common: a prior for those that nobody has measured.
 *
 * Hierarchical: the parameters of a device (in the coordinates of product_fit.h) are normal around a common mean; mean and
 * variances by expectation maximisation over each device's own fit, the starting prior weighing as much as a few devices. */
#ifndef SG_CALIBRATION_PRODUCT_PRIOR_H
#define SG_CALIBRATION_PRODUCT_PRIOR_H

#include "calibration/kernels/product_fit.h"

/* Rows of one device and its data sheet (peaks, SMs, tiles ...), whose values are the start of its fit. */
typedef struct sg_product_group {
    const sg_product_row *const *rows;
    size_t n;
    sg_machine machine;
} sg_product_group;

/* Before any device was measured. */
void sg_product_prior_before(sg_product_prior *prior);
/* groups[i].machine gets the device's own fitted values. */
sg_code sg_product_prior_fit(sg_product_group *groups, size_t n, const sg_product_prior *start, sg_product_prior *prior,
                             sg_status *status);

#endif
