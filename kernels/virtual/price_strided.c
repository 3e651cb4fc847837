/* price_strided.c: what is read in vain where neighbours in memory are not read together, and again where an operand that is
 * repeated has left the cache before its next turn.
 *
 * An element-wise kernel runs along its output. An operand whose memory order differs is fetched in pieces of many elements,
 * of which one is used at a time; the others are used later, if the cache still holds the piece by then. T5's position bias
 * is such an operand: memory [query, key, head], read as [head, query, key], so that a piece's heads are a whole plane of
 * queries and keys apart. A mask [batch, 1, query, key] that is added to each head's scores is another: a head's scores pass
 * through the cache between its turns. */
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

/* Bytes that pass, of all operands and the result, between two turns of a repeated element: 0 where none is repeated. */
static double bytes_between_turns(const sg_op *op, const sg_desc *x) {
    const sg_desc *out = &op->desc[op->n_in];
    int repeated = -1;
    double inside = 1, bytes = 0;
    if (x->ndim != out->ndim) return 0;
    for (int d = 0; d < out->ndim; d++)
        if (out->size[d] > 1 && x->stride[d] == 0 && (repeated < 0 || out->stride[d] < out->stride[repeated]))
            repeated = d;
    if (repeated < 0) return 0;
    for (int d = 0; d < out->ndim; d++)
        if (out->stride[d] < out->stride[repeated]) inside *= (double)out->size[d];
    for (int i = 0; i <= op->n_in; i++) bytes += (double)sg_dtype_bytes((sg_dtype)op->desc[i].dtype);
    return inside * bytes;
}

/* Share of what is used again that has left the cache after so many bytes. */
static double lost_after(const sg_machine *m, double bytes) {
    return 1 / (1 + pow(bytes / m->l2_bytes, -4));
}

static double read_again(const sg_machine *m, const sg_op *op, const sg_desc *x) {
    double between = bytes_between_turns(op, x);
    if (!(between > 0)) return 0;
    double more = (double)sg_desc_count(x) - (double)sg_desc_distinct(x);
    return more * (double)sg_dtype_bytes((sg_dtype)x->dtype) * lost_after(m, between);
}

double sg_strided_bytes(const sg_machine *m, const sg_op *op) {
    if (!(m->l2_bytes > 0) || op->n_out < 1) return 0;
    double piece = piece_bytes(m), bytes = 0;
    for (int i = 0; i < op->n_in; i++) {
        const sg_desc *x = &op->desc[i];
        bytes += read_again(m, op, x);
        double between = pieces_between(x, &op->desc[op->n_in]), element = (double)sg_dtype_bytes((sg_dtype)x->dtype);
        if (!(between > 0) || element >= piece) continue;
        bytes += lost_after(m, between * piece) * (double)sg_desc_distinct(x) * (piece - element);
    }
    return bytes;
}
