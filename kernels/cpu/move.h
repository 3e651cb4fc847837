/* move.h: copies of strided tensors without conversion, as lists. */
#ifndef SG_KERNELS_CPU_MOVE_H
#define SG_KERNELS_CPU_MOVE_H

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/nest.h"

typedef struct sg_move {
    sg_nest nest;     /* operand 0: to, 1: from */
    int64_t items;    /* units of work: elements, or tiles of a transposition */
    int cross;        /* dim of the nest along which `from` is contiguous while `to` is not, or -1 */
    int64_t to_bytes; /* where in the output it starts */
} sg_move;

/* Both descriptors have one shape and dtype. */
sg_move sg_move_make(const sg_desc *to, const sg_desc *from, int64_t to_bytes);
/* Does items begin..end-1. */
void sg_move_work(const sg_loops *loops, const sg_move *move, char *to, const char *from, int64_t begin, int64_t end);

#endif
