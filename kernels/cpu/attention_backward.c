/* attention_backward.c: ATTENTION_BWD, head by head: blocks of queries against all keys, so that probabilities stay in cache
 * and are never stored. Products are oneDNN's sgemm, which runs on one thread inside our threads. */
#include "kernels/cpu/attention.h"

#include <stdlib.h>
#include <string.h>

enum { QUERIES = 64, MOST_PARTS = 256 };

typedef struct backward {
    sg_attention a;
    uint64_t part_bytes;
} backward;

typedef struct job {
    const sg_call *call;
    const sg_attention *a;
    uint64_t part_bytes;
    bool failed[MOST_PARTS]; /* by thread */
} job;

/* A [rows, d] matrix of one head. */
typedef struct matrix {
    float *at;
    int64_t stride;
} matrix;

static matrix matrix_of(const job *job, int pointer, int64_t b, int64_t h, int64_t row) {
    const sg_desc *desc = &job->call->plan->op.desc[pointer];
    matrix m = {sg_attention_at(job->call, pointer, b, h, row), desc->stride[2]};
    if (desc->size[2] == 1) m.stride = desc->size[3];
    return m;
}

/* c = alpha op(a) op(b) + beta c, row-major. */
static bool multiply(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, matrix a, matrix b,
                     float beta, matrix c) {
    return dnnl_sgemm(trans_a, trans_b, m, n, k, alpha, a.at, a.stride, b.at, b.stride, beta, c.at, c.stride) ==
           dnnl_success;
}

/* With P from the saved lse: dv += P^T do, dP = do v^T, dS = alpha P (dP - rowsum(do o)), dq = dS k, dk += dS^T q. */
static bool work_block(const job *job, float *scratch, int64_t b, int64_t h, int64_t t, int64_t rows) {
    const sg_attention *a = job->a;
    const sg_loops *loops = job->call->device->loops;
    float alpha = (float)job->call->plan->op.attrs.alpha, seen = t > 0 ? 1.0f : 0.0f;
    matrix p = {scratch, a->s}, dp = {scratch + QUERIES * a->s, a->s};
    float *buffer = scratch + 2 * QUERIES * a->s;
    matrix q = matrix_of(job, a->q, b, h, t), k = matrix_of(job, a->k, b, h, 0), v = matrix_of(job, a->v, b, h, 0);
    matrix d_o = matrix_of(job, a->d_o, b, h, t), o = matrix_of(job, a->o, b, h, t);
    if (!multiply('N', 'T', rows, a->s, a->d, alpha, q, k, 0, p)) return false;
    for (int64_t i = 0; i < rows; i++) {
        if (a->mask >= 0) sg_attention_mask(job->call, a, p.at + i * a->s, buffer, b, h, t + i);
        float lse = *(float *)sg_attention_at(job->call, a->lse, b, h, t + i);
        (void)loops->exp_shifted(p.at + i * a->s, a->s, lse);
    }
    if (!multiply('T', 'N', a->s, a->d, rows, 1, p, d_o, seen, matrix_of(job, a->dv, b, h, 0))) return false;
    if (!multiply('N', 'T', rows, a->s, a->d, 1, d_o, v, 0, dp)) return false;
    for (int64_t i = 0; i < rows; i++) {
        float dot = (float)loops->dot(d_o.at + i * d_o.stride, o.at + i * o.stride, a->d);
        float *row = dp.at + i * a->s;
        loops->unary[SG_FN_AFFINE](row, row, a->s, alpha, -alpha * dot);
        loops->binary[SG_FN_MUL](row, row, p.at + i * a->s, a->s, 0, 0);
    }
    return multiply('N', 'N', rows, a->d, a->s, 1, dp, k, 0, matrix_of(job, a->dq, b, h, t)) &&
           multiply('T', 'N', a->s, a->d, rows, 1, dp, q, seen, matrix_of(job, a->dk, b, h, 0));
}

/* Items: heads, because dk and dv are sums over all queries. */
static void work(void *context, int64_t begin, int64_t end, int thread) {
    job *job = context;
    const sg_attention *a = job->a;
    float *scratch = (float *)(void *)(job->call->workspace + (uint64_t)thread * job->part_bytes);
    for (int64_t head = begin; head < end; head++)
        for (int64_t t = 0; t < a->t; t += QUERIES)
            if (!work_block(job, scratch, head / a->heads, head % a->heads, t, a->t - t < QUERIES ? a->t - t : QUERIES))
                job->failed[thread] = true;
}

static sg_code run_backward(const sg_call *call) {
    const backward *state = call->plan->state;
    int threads = call->device->threads < MOST_PARTS ? call->device->threads : MOST_PARTS;
    job job = {.call = call, .a = &state->a, .part_bytes = state->part_bytes};
    sg_parallel(threads, state->a.batch * state->a.heads, 1, work, &job);
    for (int i = 0; i < threads; i++)
        if (job.failed[i])
            return sg_fail(call->status, SG_MACHINE, "oneDNN's sgemm failed inside an attention's backward");
    return SG_OK;
}

sg_code sg_prepare_attention_bwd(sg_device *device, sg_plan *plan, sg_status *status) {
    const sg_op *op = &plan->op;
    if (sg_has_narrow_floats(op) || sg_has_loose_rows(op)) return sg_prepare_widened(device, plan, status);
    for (int i = 0; i < op->n_in + op->n_out; i++)
        if (op->desc[i].dtype == SG_F64) return sg_refuse(op, "attention runs in fp32, not fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(backward), status);
    if (code != SG_OK) return code;
    backward *state = plan->state;
    plan->run = run_backward;
    state->a = sg_attention_of(plan);
    state->part_bytes = sg_align((2 * QUERIES + 1) * (uint64_t)state->a.s * sizeof(float));
    plan->workspace_bytes = (uint64_t)device->threads * state->part_bytes;
    return SG_OK;
}
