/* attention.c: ATTENTION and ATTENTION_BWD as products with passes over the scores between them.
 *
 * Batches and heads go through in parts, so that the scores take little memory. Every product is a MATMUL plan, which takes
 * q, k, v and the outputs where they lie. */
#include "kernels/cuda/attention.h"

#include <stdlib.h>

enum { FORWARD_PRODUCTS = 2, BACKWARD_PRODUCTS = 5 };

/* Places of the operands among the call's pointers; -1: absent. */
typedef struct operands {
    int q, k, v, o, lse, mask, d_o, dq, dk, dv;
} operands;

/* One size of part: either some batches with all their heads, or some heads of one batch. */
typedef struct part {
    int64_t batches, heads; /* 0: there is none */
    sg_plan *product[BACKWARD_PRODUCTS];
} part;

typedef struct attention {
    operands at;
    bool backward;
    sg_attention_rows rows; /* batches and heads: all */
    part whole, rest;
    sg_plan *narrow_do;                                        /* do as q's dtype, where it has another */
    sg_desc d_o;                                               /* what the products read of it */
    uint64_t scores, dp, probabilities, ds, d_o_offset, inner; /* places in the workspace */
} attention;

/* ---- launch -------------------------------------------------------------------------------------------------------------- */

/* The operand's first element for batch b and head h. */
static char *operand_at(const sg_call *call, int which, int64_t b, int64_t h) {
    const sg_desc *d = &call->plan->op.desc[which];
    return (char *)call->pointers[which] +
           (b * d->stride[0] + h * d->stride[1]) * (int64_t)sg_dtype_bytes((sg_dtype)d->dtype);
}

static const void *mask_at(const sg_call *call, const attention *a, int64_t b, int64_t h) {
    if (a->at.mask < 0) return NULL;
    const sg_desc *m = &a->rows.mask;
    int64_t offset = b * m->stride[0] + h * m->stride[1];
    return (const char *)call->pointers[a->at.mask] + offset * (int64_t)sg_dtype_bytes((sg_dtype)m->dtype);
}

static sg_code multiply(const sg_call *call, const attention *a, const part *p, int which, void *left, void *right,
                        void *result) {
    return sg_cuda_run_part(call, p->product[which], (void *[]){left, right, result}, call->workspace + a->inner);
}

static sg_code run_forward(const sg_call *call, const attention *a, const part *p, int64_t b, int64_t h) {
    const operands *at = &a->at;
    char *scores = call->workspace + a->scores, *probabilities = call->workspace + a->probabilities;
    sg_attention_rows rows = a->rows;
    rows.batches = p->batches;
    rows.heads = p->heads;
    sg_code code = multiply(call, a, p, 0, operand_at(call, at->q, b, h), operand_at(call, at->k, b, h), scores);
    if (code == SG_OK)
        code = sg_cuda_attention_softmax(call, &rows, (float *)(void *)scores, mask_at(call, a, b, h),
                                         (float *)(void *)operand_at(call, at->lse, b, h), probabilities);
    if (code != SG_OK) return code;
    return multiply(call, a, p, 1, probabilities, operand_at(call, at->v, b, h), operand_at(call, at->o, b, h));
}

/* With P from the saved lse: dS = alpha P (do v^T - do o); dv = P^T do, dq = dS k, dk = dS^T q. */
static sg_code run_backward(const sg_call *call, const attention *a, const part *p, int64_t b, int64_t h) {
    const operands *at = &a->at;
    char *scores = call->workspace + a->scores, *dp = call->workspace + a->dp;
    char *probabilities = call->workspace + a->probabilities, *ds = call->workspace + a->ds;
    char *q = operand_at(call, at->q, b, h), *k = operand_at(call, at->k, b, h), *v = operand_at(call, at->v, b, h);
    char *given = operand_at(call, at->d_o, b, h), *d_o = given;
    if (a->narrow_do)
        d_o = call->workspace + a->d_o_offset +
              (b * a->d_o.stride[0] + h * a->d_o.stride[1]) * (int64_t)sg_dtype_bytes((sg_dtype)a->d_o.dtype);
    sg_attention_rows rows = a->rows;
    rows.batches = p->batches;
    rows.heads = p->heads;
    sg_code code = multiply(call, a, p, 0, q, k, scores);
    if (code == SG_OK) code = multiply(call, a, p, 1, d_o, v, dp);
    if (code == SG_OK)
        code = sg_cuda_attention_slopes(call, &rows, (float *)(void *)scores, (float *)(void *)dp,
                                        mask_at(call, a, b, h), (float *)(void *)operand_at(call, at->lse, b, h), given,
                                        operand_at(call, at->o, b, h), probabilities, ds);
    if (code == SG_OK) code = multiply(call, a, p, 2, probabilities, d_o, operand_at(call, at->dv, b, h));
    if (code == SG_OK) code = multiply(call, a, p, 3, ds, k, operand_at(call, at->dq, b, h));
    return code == SG_OK ? multiply(call, a, p, 4, ds, q, operand_at(call, at->dk, b, h)) : code;
}

static sg_code run_attention(const sg_call *call) {
    const attention *a = call->plan->state;
    int64_t batches = a->rows.batches, heads = a->rows.heads;
    sg_code code = SG_OK;
    if (a->narrow_do)
        code = sg_cuda_run_part(call, a->narrow_do,
                                (void *[]){sg_in_at(call, a->at.d_o), call->workspace + a->d_o_offset}, NULL);
    for (int64_t b = 0; b < batches && code == SG_OK; b += a->whole.batches)
        for (int64_t h = 0; h < heads && code == SG_OK; h += a->whole.heads) {
            bool last = b + a->whole.batches > batches || h + a->whole.heads > heads;
            const part *p = last ? &a->rest : &a->whole;
            code = a->backward ? run_backward(call, a, p, b, h) : run_forward(call, a, p, b, h);
        }
    return code;
}

static void free_attention(void *state) {
    attention *a = state;
    if (!a) return;
    for (int i = 0; i < BACKWARD_PRODUCTS; i++) {
        sg_cuda_plan_free(a->whole.product[i]);
        sg_cuda_plan_free(a->rest.product[i]);
    }
    sg_cuda_plan_free(a->narrow_do);
    free(a);
}

/* ---- preparation --------------------------------------------------------------------------------------------------------- */

static operands operands_of(const sg_plan *plan, bool backward) {
    int n_in = plan->op.n_in, first = backward ? 1 : 0, mask = sg_flag(plan, SG_HAS_MASK) ? n_in - 1 : -1;
    if (!backward)
        return (operands){
            .q = 0, .k = 1, .v = 2, .o = n_in, .lse = n_in + 1, .mask = mask, .d_o = -1, .dq = -1, .dk = -1, .dv = -1};
    return (operands){.q = first,
                      .k = first + 1,
                      .v = first + 2,
                      .o = 4,
                      .lse = 5,
                      .mask = mask,
                      .d_o = 0,
                      .dq = n_in,
                      .dk = n_in + 1,
                      .dv = n_in + 2};
}

/* Strides over [b, h, t, s]; what the mask has not, or has once, repeats. */
static sg_desc broadcast_mask(const sg_desc *mask) {
    sg_desc out = {.dtype = mask->dtype, .ndim = 4, .size = {1, 1, 1, 1}};
    for (int d = 0; d < mask->ndim; d++) {
        int to = 4 - mask->ndim + d;
        out.size[to] = mask->size[d];
        out.stride[to] = mask->size[d] == 1 ? 0 : mask->stride[d];
    }
    return out;
}

static sg_attention_rows rows_of(const sg_plan *plan, const attention *a) {
    const sg_desc *desc = plan->op.desc, *q = &desc[a->at.q], *k = &desc[a->at.k], *lse = &desc[a->at.lse];
    sg_attention_rows rows = {.batches = q->size[0],
                              .heads = q->size[1],
                              .t = q->size[2],
                              .s = k->size[2],
                              .d = q->size[3],
                              .alpha = plan->op.attrs.alpha,
                              .lse = {lse->stride[0], lse->stride[1], lse->stride[2]},
                              .o = desc[a->at.o],
                              .narrow_dtype = q->dtype};
    if (a->at.mask >= 0) rows.mask = broadcast_mask(&desc[a->at.mask]);
    if (a->backward) rows.d_o = desc[a->at.d_o];
    return rows;
}

/* [batches, heads, rows, columns] of an operand, for one part. */
static sg_desc of_part(sg_desc d, const part *p) {
    d.size[0] = p->batches;
    d.size[1] = p->heads;
    return d;
}

static sg_desc transposed(sg_desc d) {
    int64_t size = d.size[2], stride = d.stride[2];
    d.size[2] = d.size[3];
    d.stride[2] = d.stride[3];
    d.size[3] = size;
    d.stride[3] = stride;
    return d;
}

static sg_code new_product(sg_device *device, const sg_plan *plan, double alpha, sg_desc left, sg_desc right,
                           sg_desc result, sg_plan **product, sg_status *status) {
    sg_desc descs[3] = {left, right, result};
    sg_op op = {.kind = SG_OP_MATMUL,
                .n_in = 2,
                .n_out = 1,
                .attrs = {.alpha = alpha, .compute = plan->op.attrs.compute},
                .desc = descs};
    return sg_cuda_plan_new(device, &op, product, status);
}

static sg_code prepare_part(sg_device *device, const sg_plan *plan, const attention *a, part *p, sg_status *status) {
    if (p->batches == 0) return SG_OK;
    const sg_desc *desc = plan->op.desc;
    const operands *at = &a->at;
    const int64_t shape[4] = {p->batches, p->heads, a->rows.t, a->rows.s};
    sg_desc q = of_part(desc[at->q], p), k = of_part(desc[at->k], p), v = of_part(desc[at->v], p);
    sg_desc scores = sg_desc_make(SG_F32, 4, shape), weights = sg_desc_make((sg_dtype)a->rows.narrow_dtype, 4, shape);
    sg_code code = new_product(device, plan, plan->op.attrs.alpha, q, transposed(k), scores, &p->product[0], status);
    if (code != SG_OK) return code;
    if (!a->backward) return new_product(device, plan, 1, weights, v, of_part(desc[at->o], p), &p->product[1], status);
    sg_desc d_o = of_part(a->d_o, p);
    code = new_product(device, plan, 1, d_o, transposed(v), scores, &p->product[1], status);
    if (code == SG_OK)
        code = new_product(device, plan, 1, transposed(weights), d_o, of_part(desc[at->dv], p), &p->product[2], status);
    if (code == SG_OK)
        code = new_product(device, plan, 1, weights, k, of_part(desc[at->dq], p), &p->product[3], status);
    return code == SG_OK
               ? new_product(device, plan, 1, transposed(weights), q, of_part(desc[at->dk], p), &p->product[4], status)
               : code;
}

/* do goes through products with v and P, which have q's dtype. */
static sg_code prepare_do(sg_device *device, const sg_plan *plan, attention *a, sg_status *status) {
    if (!a->backward) return SG_OK;
    a->d_o = plan->op.desc[a->at.d_o];
    if (a->d_o.dtype == a->rows.narrow_dtype) return SG_OK;
    sg_desc pair[2] = {a->d_o, sg_desc_make((sg_dtype)a->rows.narrow_dtype, 4, a->d_o.size)};
    sg_op copy = {.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = pair};
    a->d_o = pair[1];
    return sg_cuda_plan_new(device, &copy, &a->narrow_do, status);
}

/* Bytes per score: the scores and, backward, do v^T in fp32; what is made of both in 16 bits where q has 16. */
static uint64_t bytes_per_score(const attention *a) {
    uint64_t wide = sizeof(float), narrow = a->rows.narrow_dtype == SG_F32 ? 0 : sizeof(uint16_t);
    return (a->backward ? 2 : 1) * (wide + narrow);
}

/* One head may need more than the device's part. */
static void choose_parts(const sg_device *device, attention *a) {
    const sg_attention_rows *r = &a->rows;
    double fit = (double)device->part_bytes / ((double)r->t * (double)r->s * (double)bytes_per_score(a));
    int64_t heads = fit < 1 ? 1 : fit > 0x1p62 ? INT64_MAX / 2 : (int64_t)fit;
    if (heads >= r->heads) {
        int64_t batches = heads / r->heads < r->batches ? heads / r->heads : r->batches;
        a->whole = (part){.batches = batches, .heads = r->heads};
        if (r->batches % batches) a->rest = (part){.batches = r->batches % batches, .heads = r->heads};
    } else {
        a->whole = (part){.batches = 1, .heads = heads};
        if (r->heads % heads) a->rest = (part){.batches = 1, .heads = r->heads % heads};
    }
}

static uint64_t take(sg_plan *plan, uint64_t bytes) {
    uint64_t at = plan->workspace_bytes;
    plan->workspace_bytes += sg_cuda_align(bytes);
    return at;
}

static void place(sg_plan *plan) {
    attention *a = plan->state;
    uint64_t scores = (uint64_t)(a->whole.batches * a->whole.heads) * (uint64_t)(a->rows.t * a->rows.s), inner = 0;
    bool narrow = a->rows.narrow_dtype != SG_F32;
    a->scores = take(plan, scores * sizeof(float));
    a->probabilities = narrow ? take(plan, scores * sizeof(uint16_t)) : a->scores;
    if (a->backward) {
        a->dp = take(plan, scores * sizeof(float));
        a->ds = narrow ? take(plan, scores * sizeof(uint16_t)) : a->dp;
    }
    if (a->narrow_do) a->d_o_offset = take(plan, sg_desc_span_bytes(&a->d_o));
    for (int i = 0; i < BACKWARD_PRODUCTS; i++) {
        const sg_plan *products[2] = {a->whole.product[i], a->rest.product[i]};
        for (int j = 0; j < 2; j++)
            if (products[j] && products[j]->workspace_bytes > inner) inner = products[j]->workspace_bytes;
    }
    a->inner = take(plan, inner);
}

sg_code sg_cuda_attention(sg_device *device, sg_plan *plan, sg_status *status) {
    const sg_op *op = &plan->op;
    for (int i = 0; i < op->n_in + op->n_out; i++)
        if (op->desc[i].dtype == SG_F64) return sg_cuda_refuse(op, "attention runs in fp32, not fp64", status);
    sg_code code = sg_cuda_plan_state(plan, sizeof(attention), status);
    if (code != SG_OK) return code;
    attention *a = plan->state;
    plan->free_state = free_attention;
    plan->run = run_attention;
    a->backward = op->kind == SG_OP_ATTENTION_BWD;
    a->at = operands_of(plan, a->backward);
    a->rows = rows_of(plan, a);
    if ((double)a->rows.t * (double)a->rows.s > 0x1p40)
        return sg_cuda_refuse(op, "the scores of one head take more than a TiB", status);
    code = prepare_do(device, plan, a, status);
    choose_parts(device, a);
    if (code == SG_OK) code = prepare_part(device, plan, a, &a->whole, status);
    if (code == SG_OK) code = prepare_part(device, plan, a, &a->rest, status);
    if (code == SG_OK) place(plan);
    return code;
}
