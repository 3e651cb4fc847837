/* product_fit.h: the parameters of a machine's products (product.h) from measured ones, by robust least squares (GSL).
 *
 * Maximum a posteriori: the machine given is the prior, with its values and log_sd (or the prior's own covariance). Shares are
 * fitted as logits and product_join as log(join - 1), so that they keep their meaning; what is stored is the value and the
 * covariance of its logarithm. */
#ifndef SG_CALIBRATION_PRODUCT_FIT_H
#define SG_CALIBRATION_PRODUCT_FIT_H

#include "calibration/kernels/product_rows.h"

enum { SG_PRODUCT_TERMS = 19 };

typedef struct sg_product_fit {
    size_t n_rows, n_terms;
    sg_machine_id term[SG_PRODUCT_TERMS];
    double covariance[SG_PRODUCT_TERMS * SG_PRODUCT_TERMS]; /* of log values, n_terms squared */
    double residual_log_sd;                                 /* robust: 1.48 x median absolute log residual */
    double cost;                                            /* robust, of rows and prior */
} sg_product_fit;

/* The coordinates in which terms are fitted and priors over devices are normal: value -> x and back. slope: d log value / dx
 * at the value. */
double sg_product_coordinate(sg_machine_id id, double value);
double sg_product_value(sg_machine_id id, double coordinate);
double sg_product_slope(sg_machine_id id, double value);
/* Parameters of products, in order. */
sg_machine_id sg_product_term(size_t i);

typedef struct sg_product_prior {
    /* by sg_product_term, in coordinates; NULL covariance: from the machine's log_sd */
    double mean[SG_PRODUCT_TERMS];
    double covariance[SG_PRODUCT_TERMS * SG_PRODUCT_TERMS];
} sg_product_prior;
/* The prior that a machine's values and log_sd state. Parameters that it lacks: SG_NO. */
sg_code sg_product_prior_of(const sg_machine *machine, sg_product_prior *prior, sg_status *status);

/* Fits *machine (in: sheet, tiles; out: its values, not its other fields) to the rows under the prior. noise: log sd of one
 * row around the model. Rows of tiles: the machine's list. */
sg_code sg_product_fit_rows(const sg_product_row *const *rows, size_t n, const sg_product_prior *prior, double noise,
                            sg_machine *machine, sg_product_fit *fit, sg_status *status);

#endif
