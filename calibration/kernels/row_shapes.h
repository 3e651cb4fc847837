/* row_shapes.h: what measured shapes say beyond the formula: kernel regression of the log residual of bandwidth-bound kernels.
 *
 * A kernel near measured ones of the same device and op errs as they do: correction = sum(w_i r_i) / (sum(w_i) + shrink),
 * w_i = exp(-d_i^2 / (2 width^2)) over the nearest rows, with d in logs of rows and columns. */
#ifndef SG_CALIBRATION_ROW_SHAPES_H
#define SG_CALIBRATION_ROW_SHAPES_H

#include "calibration/kernels/kernel_rows.h"

/* Measured rows of one device with the log of measured / predicted. */
typedef struct sg_row_shapes {
    const sg_kernel_row *const *rows;
    const double *log_residual;
    size_t n;
} sg_row_shapes;

/* Log correction for a row; rows at position `except` (SIZE_MAX: none) are not looked at. 0 where nothing is near. */
double sg_row_shapes_correction(const sg_row_shapes *shapes, const sg_kernel_row *row, size_t except);

#endif
