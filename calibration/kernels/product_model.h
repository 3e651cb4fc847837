/* product_model.h: everything that measured products say of a machine: parameters, tiles, the shapes themselves, and how far
 * predictions of other shapes err. */
#ifndef SG_CALIBRATION_PRODUCT_MODEL_H
#define SG_CALIBRATION_PRODUCT_MODEL_H

#include "calibration/kernels/product_fit.h"
#include "kernels/virtual/measured.h"

typedef struct sg_product_model {
    sg_machine machine;      /* values and tiles; no covariance of its own */
    sg_product_prior prior;  /* of the terms that the fit leaves open, and of a machine without rows */
    sg_product_fit fit;      /* n_rows 0: none, the prior alone */
    sg_neighbours *measured; /* the rows, or NULL */
    double *residual;        /* by row: log(measured / predicted without it) */
    double scatter;          /* robust log sd of these */
    double width;            /* 90 % of rows lie within so many local scatters */
} sg_product_model;

/* Model of a machine that nobody has measured: the prior. */
void sg_product_model_unmeasured(const sg_machine *sheet, const sg_product_prior *prior, sg_product_model *model);
/* Fits rows under the prior. Tiles: as the rows' kernel names tell, else the list of `lists` (and the sheet's own) that fits
 * best. sg_product_model_clear it, also after a failure. */
sg_code sg_product_model_fit(const sg_machine *sheet, const sg_product_row *const *rows, size_t n,
                             const sg_product_prior *prior, const sg_machine *lists, size_t n_lists,
                             sg_product_model *model, sg_status *status);
/* A machine as it is, with its measured shapes; `own`: its parameters and their uncertainty. Without measured products it is
 * sg_product_model_unmeasured. sg_product_model_clear it, also after a failure. */
sg_code sg_product_model_shipped(const sg_machine *machine, const sg_product_prior *own, sg_product_model *model,
                                 sg_status *status);
/* Family of a measured product among a machine's shapes (kernels/virtual/measured.h): an fp32 layer with bias, or a batched
 * product. */
uint32_t sg_product_family(sg_tile_kind kind);
/* Measured shapes of a fitted model for its machine. */
sg_code sg_product_model_shapes(const sg_product_model *model, sg_measured **measured, sg_status *status);
void sg_product_model_clear(sg_product_model *model);

typedef struct sg_product_prediction {
    double seconds, low, high; /* event to event */
} sg_product_prediction;
/* interval: 0.9 = 90 %. */
sg_code sg_product_model_predict(const sg_product_model *model, const sg_product *product, double interval,
                                 sg_product_prediction *prediction, sg_status *status);

/* Rows to measure for a calibration: of the first 4 n rows the n that lie farthest apart in log sizes, at first both kinds.
 * chosen[n_rows]: set. Returns how many. */
size_t sg_product_calibration_rows(const sg_product_row *const *rows, size_t n_rows, size_t n, bool *chosen);

#endif
