/* measured.h: what a machine's price model misses at shapes that were measured there.
 *
 * A shape has a family (what can be compared at all: kind of op, precision, layout) and a place in it (logs of its sizes). At
 * a measured place the answer is exact; between places of the same family it is a kernel regression of log(measured / model):
 * weights exp(-d^2 / (2 h^2)) / (d^2 / h^2 + 0.001), h = 0.5, and a weight of 0.5 on "nothing is missed", so that far from
 * everything measured the model stands as it is (Nadaraya, Watson, 1964, with Shepard's inverse distances near the places). */
#ifndef SG_KERNELS_VIRTUAL_MEASURED_H
#define SG_KERNELS_VIRTUAL_MEASURED_H

#include "kernels/op.h"
#include "kernels/status.h"

enum { SG_SHAPE_PLACES = 5 };

typedef struct sg_shape {
    uint32_t family;
    double at[SG_SHAPE_PLACES]; /* the rest zero */
} sg_shape;

typedef struct sg_measured_shape {
    sg_shape shape;
    double log_ratio; /* log(measured seconds / model's seconds) */
} sg_measured_shape;

/* Measured shapes, shared between copies of a machine; never changed once made. */
typedef struct sg_measured sg_measured;

/* Takes a copy. n may be 0. SG_BAD_INPUT: a number that is not finite. */
sg_code sg_measured_make(const sg_measured_shape *shapes, size_t n, sg_measured **measured, sg_status *status);
/* One more owner; NULL stays NULL. */
sg_measured *sg_measured_share(sg_measured *measured);
/* One owner less; the last one frees. */
void sg_measured_release(sg_measured *measured);
/* In order of family; *n = 0 for NULL. */
const sg_measured_shape *sg_measured_shapes(const sg_measured *measured, size_t *n);

/* log(truth / model) expected at a shape; 0 for NULL or where nothing of the family is near. */
double sg_measured_log_ratio(const sg_measured *measured, const sg_shape *shape);

/* Family of the op's kind, function, precision, dtypes, layouts and, for convolutions, kernel and stride; place: batched products log
 * batch, m, n, k; all others log FLOP, log bytes, log of the last dimension. */
sg_shape sg_shape_of_op(const sg_op *op);

#endif
