/* attention.h: what the two directions of ATTENTION share. */
#ifndef SG_KERNELS_CPU_ATTENTION_H
#define SG_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/cpu.h"

/* Places of the operands among the call's pointers (-1: absent) and the sizes. */
typedef struct sg_attention {
    int q, k, v, o, lse, mask, d_o, dq, dk, dv;
    int64_t batch, heads, t, s, d;
    sg_desc mask_desc; /* four dims; dims that the mask has not or has once are repeated by stride 0 */
} sg_attention;

sg_attention sg_attention_of(const sg_plan *plan);

/* Address of row `row` of a head's matrix. */
void *sg_attention_at(const sg_call *call, int pointer, int64_t b, int64_t h, int64_t row);
/* Adds the mask to the scores of query t; `buffer` holds a row. */
void sg_attention_mask(const sg_call *call, const sg_attention *a, float *scores, float *buffer, int64_t b, int64_t h,
                       int64_t t);

#endif
