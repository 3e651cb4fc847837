/* kernel_fit_rows.h: a machine's bandwidth-bound parameters from kernels measured alone (kernels/virtual/price_rows.c). */
#ifndef SG_CALIBRATION_KERNEL_FIT_ROWS_H
#define SG_CALIBRATION_KERNEL_FIT_ROWS_H

#include "calibration/kernels/kernel_rows.h"
#include "formats/csv_table.h"
#include "kernels/virtual/machine.h"

/* Log sd of a kernel's time about the fitted formula, by kind of row: where nothing was fitted, what rows that were left out
 * of a fit scatter by. */
typedef struct sg_row_scatter {
    double log_sd[SG_ROW_KIND_COUNT];
} sg_row_scatter;
sg_row_scatter sg_row_scatter_usual(void);

/* Fits the rows of the table whose device is `device` (its text in the file; NULL: every row): element-wise share of the
 * bandwidth, the row models of layer norm and softmax, starts from event to event. Maximum a posteriori with robust
 * residuals; the machine's values and log sds are the prior, the listed bandwidth, eff_norm and eff_softmax stay. Sets values,
 * log sds, evidence, source and covariance. SG_BAD_INPUT: no such rows, or the machine lacks a prior. */
sg_code sg_fit_kernel_rows(const sg_csv_table *rows, const char *device, sg_machine *machine, sg_status *status);

/* The same from rows that were read, and how they scatter; `origin` is kept as source. Kinds without rows keep their prior. */
sg_code sg_fit_rows(const sg_kernel_row *const *rows, size_t n, const char *origin, sg_machine *machine,
                    sg_row_scatter *scatter, sg_status *status);

/* Takes out of the log sds what sg_fit_kernel_rows adds for steps: a kernel measured alone is what the fit was made from. For
 * machines without covariance (data sheets). */
void sg_row_doubt_of_kernels(sg_machine *machine);

/* Prior of a machine from fits of others: log parameters are averaged over them, near relatives (the same kind of memory for
 * the share of the bandwidth, the same side of compute capability 8.0 for the rest) with more weight; the doubt is the
 * spread between them. Values that no other machine has stay. */
void sg_row_prior_from(const sg_machine *others, size_t n, sg_machine *machine);

/* The parameters of one kind of row. */
size_t sg_row_terms(sg_row_kind kind, const sg_machine_id **ids);

#endif
