/* price_strided.c: what is read in vain where neighbours in memory are not read together.
 *
 * An element-wise kernel runs along its output. An operand whose memory order differs is fetched in pieces of many elements,
 * of which one is used at a time; the others are used later, if the cache still holds the piece by then. T5's position bias
 * is such an operand: memory [query, key, head], read as [head, query, key], so that a piece's heads are a whole plane of
 * queries and keys apart. */
#include "kernels/virtual/price.h"

#include <math.h>

/* Bytes that come from memory for one that is missing: 64 from compute capability 8.0 on (the default of
 * cudaLimitMaxL2FetchGranularity), a sector of 32 before. */
static double piece_bytes(const sg_machine *m) {
    return m->capability >= 80 ? 64 : 32;
}

static int innermost(const sg_desc *desc) {
    int found = -1;
    for (int d = 0; d < desc->ndim; d++)
        if (desc->size[d] > 1 && (found < 0 || desc->stride[d] < desc->stride[found])) found = d;
    return found;
}

/* Pieces of x that are touched before the neighbour of an element is: 0 where neighbours follow each other. */
static double pieces_between(const sg_desc *x, const sg_desc *out) {
    int first = innermost(out), next = -1;
    if (first < 0 || x->ndim != out->ndim || x->stride[first] <= 1) return 0;
    for (int d = 0; d < x->ndim; d++)
        if (x->size[d] > 1 && x->stride[d] == 1) next = d;
    if (next < 0) return 0;
    double pieces = 1;
    for (int d = 0; d < out->ndim; d++)
        if (out->stride[d] < out->stride[next] && x->stride[d] != 0) pieces *= (double)out->size[d];
    return pieces;
}

double sg_strided_bytes(const sg_machine *m, const sg_op *op) {
    if (!(m->l2_bytes > 0) || op->n_out < 1) return 0;
    double piece = piece_bytes(m), bytes = 0;
    for (int i = 0; i < op->n_in; i++) {
        const sg_desc *x = &op->desc[i];
        double between = pieces_between(x, &op->desc[op->n_in]), element = (double)sg_dtype_bytes((sg_dtype)x->dtype);
        if (!(between > 0) || element >= piece) continue;
        double lost = 1 / (1 + pow(between * piece / m->l2_bytes, -4));
        bytes += lost * (double)sg_desc_distinct(x) * (piece - element);
    }
    return bytes;
}
