/* kernel_fit.h: a machine from tables of kernels measured alone on it: products, and bandwidth-bound ops. */
#ifndef SG_CALIBRATION_KERNEL_FIT_H
#define SG_CALIBRATION_KERNEL_FIT_H

#include "calibration/kernels/product_model.h"

typedef struct sg_kernel_fit {
    sg_machine machine;    /* the sheet with what was fitted: values, covariance, tiles, measured products */
    size_t products, rows; /* rows of each kind that were read */
    size_t unreadable;
    double scatter;           /* log sd of products about the formula and their neighbours; 0: none */
    double mean, median, p90; /* errors of products, each predicted without itself: |predicted / measured - 1| */
    bool fitted[SG_M_COUNT];
} sg_kernel_fit;

/* device: text in the tables' column "device", or a name of the machine (its sheet, or as people write it): rows of that
 * machine. Products start from configs/priors/products.yaml, whatever the sheet says of them; bandwidth-bound rows from the
 * sheet. SG_BAD_INPUT: no such machine, no row of it, a table of neither kind. sg_kernel_fit_clear it, also after a failure. */
sg_code sg_kernel_fit_files(const char *const *paths, size_t n, const char *device, const char *config_dir,
                            sg_kernel_fit *fit, sg_status *status);
void sg_kernel_fit_clear(sg_kernel_fit *fit);

/* The machine as a data sheet of its own (configs/machines/), without the topology of its links. Lines of configs/priors/ are
 * those whose evidence is "calibrated". */
sg_code sg_kernel_fit_write(const char *path, const sg_kernel_fit *fit, sg_status *status);

#endif
