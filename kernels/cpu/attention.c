#include "kernels/cpu/attention.h"

#include <math.h>

/* Where an operand is a matrix [rows, d] per head, rows of size-1 tensors included. */
void *sg_attention_at(const sg_call *call, int pointer, int64_t b, int64_t h, int64_t row) {
    const sg_desc *desc = &call->plan->op.desc[pointer];
    int64_t at = b * desc->stride[0] + h * desc->stride[1] + row * desc->stride[2];
    return (char *)call->pointers[pointer] + at * (int64_t)sg_dtype_bytes((sg_dtype)desc->dtype);
}

void sg_attention_mask(const sg_call *call, const sg_attention *a, float *scores, float *buffer, int64_t b, int64_t h,
                       int64_t t) {
    const sg_desc *m = &a->mask_desc;
    const sg_loops *loops = call->device->loops;
    int64_t at = b * m->stride[0] + h * m->stride[1] + t * m->stride[2];
    const char *from = (const char *)call->pointers[a->mask] + at * (int64_t)sg_dtype_bytes((sg_dtype)m->dtype);
    loops->load[m->dtype](buffer, from, a->s, m->stride[3]);
    if (m->dtype == SG_BOOL) {
        for (int64_t i = 0; i < a->s; i++) scores[i] = buffer[i] != 0.0f ? scores[i] : -INFINITY;
    } else {
        loops->binary[SG_FN_ADD](scores, scores, buffer, a->s, 1, 0);
    }
}

static sg_desc broadcast_mask(const sg_desc *mask) {
    sg_desc out = {.dtype = mask->dtype, .ndim = 4, .size = {1, 1, 1, 1}};
    for (int d = 0; d < mask->ndim; d++) {
        int to = 4 - mask->ndim + d;
        out.size[to] = mask->size[d];
        out.stride[to] = mask->size[d] == 1 ? 0 : mask->stride[d];
    }
    return out;
}

sg_attention sg_attention_of(const sg_plan *plan) {
    const sg_op *op = &plan->op;
    bool backward = op->kind == SG_OP_ATTENTION_BWD;
    int first = backward ? 1 : 0, n_in = op->n_in;
    const sg_desc *q = sg_in(plan, first), *k = sg_in(plan, first + 1);
    sg_attention a = {.q = first,
                      .k = first + 1,
                      .v = first + 2,
                      .o = backward ? 4 : n_in,
                      .lse = backward ? 5 : n_in + 1,
                      .mask = sg_flag(plan, SG_HAS_MASK) ? n_in - 1 : -1,
                      .d_o = backward ? 0 : -1,
                      .dq = backward ? n_in : -1,
                      .dk = backward ? n_in + 1 : -1,
                      .dv = backward ? n_in + 2 : -1,
                      .batch = q->size[0],
                      .heads = q->size[1],
                      .t = q->size[2],
                      .s = k->size[2],
                      .d = q->size[3]};
    if (a.mask >= 0) a.mask_desc = broadcast_mask(sg_in(plan, a.mask));
    return a;
}
