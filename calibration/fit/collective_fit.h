/* collective_fit.h: the law of a server's collectives (kernels/virtual/price_collective.c) from measured all-reduce times. */
#ifndef SG_CALIBRATION_FIT_COLLECTIVE_FIT_H
#define SG_CALIBRATION_FIT_COLLECTIVE_FIT_H

#include "formats/csv_table.h"
#include "kernels/virtual/machine.h"

typedef struct sg_collective_row {
    int ranks;
    double bytes, seconds;
} sg_collective_row;

/* Why a row of a table (columns device, ranks, bytes, time_us) is none that can be fitted or predicted, or NULL. */
const char *sg_collective_row_read(const sg_csv_table *table, size_t line, sg_collective_row *row);

/* Fits the law over all numbers of ranks, and what each number differs from it by, to rows of one node. machine: the prior
 * in, the fitted one out: its bus bandwidth, latency, per-rank start, local rate and power get values, log sds and this
 * source; link.by_ranks the rest, with the low-latency protocol and the switch's own addition left out: their share is in
 * by_ranks. Rows beyond SG_LINK_RANKS are passed over. SG_BAD_INPUT: nothing to fit, or it cannot be determined. */
sg_code sg_collective_fit(const sg_collective_row *rows, size_t n, const char *source, sg_machine *machine,
                          sg_status *status);

/* The machine's link.spread, from fits without each of five folds of the rows (sg_validate_fold by ranks and bytes). Sizes
 * with fewer than ten rows stay 0, unknown. machine: the prior. */
sg_code sg_collective_left_out(const sg_collective_row *rows, size_t n, const sg_machine *machine,
                               double spread[SG_LINK_SIZES], sg_status *status);

/* The machine without anything that a fit of collectives finds out, as a prior that does not know these rows. */
void sg_collective_forget(sg_machine *machine);
/* A row's fold of so many. */
int sg_collective_fold(const sg_collective_row *row, int folds);

/* Half width, in log units, that holds a share `interval` of the residuals of those rows that are nearest to (ranks, bytes)
 * among n rows. log_residual[n]: log(fitted / measured). NAN without rows. */
double sg_collective_spread(const sg_collective_row *rows, const double *log_residual, size_t n, int ranks,
                            double bytes, double interval);

#endif
