/* nest.h: element-wise walks over strided tensors of one shape. Dims are sorted by the strides of operand 0 (the output) and
 * joined where all operands allow it, so that most ops become one contiguous run. */
#ifndef SG_KERNELS_CPU_NEST_H
#define SG_KERNELS_CPU_NEST_H

#include "kernels/op.h"

enum { SG_NEST_OPERANDS = 4 };

typedef struct sg_nest {
    int operands, ndim; /* ndim >= 1; the last dim is the innermost */
    int64_t size[SG_MAX_DIMS];
    int64_t stride[SG_NEST_OPERANDS][SG_MAX_DIMS]; /* elements */
    int64_t count;
    int32_t dtype[SG_NEST_OPERANDS];
    int64_t bytes[SG_NEST_OPERANDS]; /* of one element */
} sg_nest;

/* descs[0] is the output; all have its shape. */
sg_nest sg_nest_make(int operands, const sg_desc *const *descs);
/* Makes dim d the innermost; the others keep their order. */
void sg_nest_move_inside(sg_nest *nest, int d);
/* Joins the two innermost dims where every operand either runs on or repeats the inner one (a vector added to each row);
 * the repeating ones get stride 0 in the joined dim, and their stride within the period in stride[]. Returns the period, the
 * inner dim's size, or 0 where it cannot be done or the period is above `most`. */
int64_t sg_nest_join_periodic(sg_nest *nest, int64_t most, int64_t stride[SG_NEST_OPERANDS]);
/* The same without sorting: positions are row-major positions of the tensors. */
sg_nest sg_nest_make_in_order(int operands, const sg_desc *const *descs);

/* A place in a nest: the run of the innermost dim that starts there. */
typedef struct sg_nest_place {
    int64_t index[SG_MAX_DIMS];
    int64_t offset[SG_NEST_OPERANDS]; /* bytes */
} sg_nest_place;

void sg_nest_seek(const sg_nest *nest, int64_t position, sg_nest_place *place);
/* Elements from the place to the end of its run. */
static inline int64_t sg_nest_run(const sg_nest *nest, const sg_nest_place *place) {
    return nest->size[nest->ndim - 1] - place->index[nest->ndim - 1];
}
/* Steps over n elements of the current run, into the next one at its end. */
void sg_nest_advance(const sg_nest *nest, sg_nest_place *place, int64_t n);

#endif
