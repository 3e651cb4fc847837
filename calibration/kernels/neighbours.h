/* neighbours.h: what a fitted formula misses at shapes that were measured, and how far measured times scatter there.
 *
 * A point is the kind of a shape, the logarithms of its sizes and log(measured / formula). What is asked is the log ratio at a
 * shape: kernel regression over points of the same kind,
 *   sum w r / (sum w + s),  w = exp(-d^2 / 2 h^2) (1 + (e / d)^2),  s = S (1 - exp(-(d0 / e)^2))
 * with d the Euclidean distance of log sizes, d0 that of the nearest point, h = 0.35, e = 0.03, S = 0.5: a measured shape
 * answers exactly, one e away the formula begins to count, and far from all points the ratio is 0. (Widths of 0.3 to 0.5 and S of
 * 0.3 to 1 left out as well on kernel tables of 8 GPUs.) Unlike the table of a machine (kernels/virtual/measured.h) it can
 * leave points out and judge itself. */
#ifndef SG_CALIBRATION_NEIGHBOURS_H
#define SG_CALIBRATION_NEIGHBOURS_H

#include "kernels/status.h"

#include <stddef.h>

enum { SG_NEIGHBOUR_SIZES = 4, SG_NEIGHBOURS_MAX = 1 << 20 };

typedef struct sg_neighbour {
    int kind; /* only points of one kind are compared */
    int n;    /* sizes */
    float log_size[SG_NEIGHBOUR_SIZES];
    float log_ratio;
} sg_neighbour;

typedef struct sg_neighbours {
    size_t n, room;
    sg_neighbour *point;
} sg_neighbours;

/* A new table, or NULL. */
sg_neighbours *sg_neighbours_new(sg_status *status);
void sg_neighbours_free(sg_neighbours *table);
sg_code sg_neighbours_add(sg_neighbours *table, const sg_neighbour *point, sg_status *status);

/* log(measured / model) at a shape (its log_ratio is not read). *support, where wanted: how much points say of it, 0 (none) to
 * 1 (measured). Points `without` (index + 1; 0: none) is left out, for judging. NULL table: 0. */
double sg_neighbours_log_ratio(const sg_neighbours *table, const sg_neighbour *shape, size_t without, double *support);
/* Root mean square of log ratios about the regression near a shape, with `prior` (log sd) as so many points of weight
 * `weight`: how far measured times scatter there. */
double sg_neighbours_scatter(const sg_neighbours *table, const double *residual, const sg_neighbour *shape,
                             double prior, double weight);

#endif
