/* attention.c: ATTENTION and ATTENTION_BWD: blocks of queries against all keys, so that the scores of a block stay in cache and
 * are never stored (Dao et al., "FlashAttention", 2022, without the split over keys). Products are oneDNN's sgemm, which runs
 * on one thread inside our threads. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = 64 };

/* Places of the operands among the call's pointers; -1: absent. */
typedef struct attention {
    int q, k, v, o, lse, mask, d_o, dq, dk, dv;
    int64_t batch, heads, t, s, d;
    sg_desc mask_desc; /* four dims, size-1 dims repeated */
    uint64_t part_bytes;
} attention;

typedef struct job {
    const sg_call *call;
    const attention *a;
} job;

/* One head: address and row stride of a [rows, d] matrix. */
typedef struct matrix {
    float *at;
    int64_t stride;
} matrix;

static matrix matrix_of(const job *job, int pointer, int64_t b, int64_t h, int64_t row) {
    const sg_desc *desc = &job->call->plan->op.desc[pointer];
    float *base = job->call->pointers[pointer];
    matrix m = {base + b * desc->stride[0] + h * desc->stride[1] + row * desc->stride[2], desc->stride[2]};
    if (desc->size[2] == 1) m.stride = desc->size[3];
    return m;
}

static float *lse_of(const job *job, int64_t b, int64_t h, int64_t t) {
    const sg_desc *desc = &job->call->plan->op.desc[job->a->lse];
    return (float *)job->call->pointers[job->a->lse] + b * desc->stride[0] + h * desc->stride[1] + t * desc->stride[2];
}

/* c = alpha op(a) op(b) + beta c, row-major. */
static bool multiply(char trans_a, char trans_b, int64_t m, int64_t n, int64_t k, float alpha, matrix a, matrix b,
                     float beta, matrix c) {
    return dnnl_sgemm(trans_a, trans_b, m, n, k, alpha, a.at, a.stride, b.at, b.stride, beta, c.at, c.stride) ==
           dnnl_success;
}

/* Adds the mask's row to the scores of query t. */
static void mask_row(const job *job, float *scores, float *buffer, int64_t b, int64_t h, int64_t t) {
    const attention *a = job->a;
    const sg_desc *m = &a->mask_desc;
    const sg_loops *loops = job->call->device->loops;
    const char *from =
        (const char *)job->call->pointers[a->mask] +
        (b * m->stride[0] + h * m->stride[1] + t * m->stride[2]) * (int64_t)sg_dtype_bytes((sg_dtype)m->dtype);
    loops->load[m->dtype](buffer, from, a->s, m->stride[3]);
    if (m->dtype == SG_BOOL) {
        for (int64_t i = 0; i < a->s; i++) scores[i] = buffer[i] != 0.0f ? scores[i] : -INFINITY;
    } else {
        loops->binary[SG_FN_ADD](scores, scores, buffer, a->s, 1, 0);
    }
}

/* ---- forward ----------------------------------------------------------------------------------------------------------------- */

static bool block_forward(const job *job, float *scratch, int64_t b, int64_t h, int64_t t, int64_t rows) {
    const attention *a = job->a;
    const sg_loops *loops = job->call->device->loops;
    matrix scores = {scratch, a->s};
    float *buffer = scratch + QUERIES * a->s;
    matrix q = matrix_of(job, a->q, b, h, t), k = matrix_of(job, a->k, b, h, 0), v = matrix_of(job, a->v, b, h, 0);
    if (!multiply('N', 'T', rows, a->s, a->d, (float)job->call->plan->op.attrs.alpha, q, k, 0, scores)) return false;
    for (int64_t i = 0; i < rows; i++) {
        float *row = scratch + i * a->s;
        if (a->mask >= 0) mask_row(job, row, buffer, b, h, t + i);
        float largest = loops->max(row, a->s), sum = loops->exp_shifted(row, a->s, largest), scale = 1 / sum;
        loops->unary[SG_FN_AFFINE](row, row, a->s, scale, 0);
        *lse_of(job, b, h, t + i) = largest + logf(sum);
    }
    return multiply('N', 'N', rows, a->d, a->s, 1, scores, v, 0, matrix_of(job, a->o, b, h, t));
}

/* ---- backward ---------------------------------------------------------------------------------------------------------------- */

/* With P from the saved lse: dv += P^T do, dP = do v^T, dS = alpha P (dP - rowsum(do o)), dq = dS k, dk += dS^T q. */
static bool block_backward(const job *job, float *scratch, int64_t b, int64_t h, int64_t t, int64_t rows) {
    const attention *a = job->a;
    const sg_loops *loops = job->call->device->loops;
    float alpha = (float)job->call->plan->op.attrs.alpha, seen = t > 0 ? 1.0f : 0.0f;
    matrix p = {scratch, a->s}, dp = {scratch + QUERIES * a->s, a->s};
    float *buffer = scratch + 2 * QUERIES * a->s;
    matrix q = matrix_of(job, a->q, b, h, t), k = matrix_of(job, a->k, b, h, 0), v = matrix_of(job, a->v, b, h, 0);
    matrix d_o = matrix_of(job, a->d_o, b, h, t), o = matrix_of(job, a->o, b, h, t);
    if (!multiply('N', 'T', rows, a->s, a->d, alpha, q, k, 0, p)) return false;
    for (int64_t i = 0; i < rows; i++) {
        if (a->mask >= 0) mask_row(job, p.at + i * a->s, buffer, b, h, t + i);
        (void)loops->exp_shifted(p.at + i * a->s, a->s, *lse_of(job, b, h, t + i));
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

/* ---- threads ------------------------------------------------------------------------------------------------------------------ */

enum { MOST_PARTS = 256 };

typedef struct shared_job {
    job job;
    bool failed[MOST_PARTS]; /* by thread */
} shared_job;

static int64_t blocks_of(const attention *a) {
    return (a->t + QUERIES - 1) / QUERIES;
}

/* Forward items: blocks of queries of a head. Backward items: heads, because dk and dv are sums over blocks. */
static void work(void *context, int64_t begin, int64_t end, int thread) {
    shared_job *shared = context;
    const job *job = &shared->job;
    const attention *a = job->a;
    bool backward = a->dq >= 0;
    float *scratch = (float *)(void *)(job->call->workspace + (uint64_t)thread * a->part_bytes);
    int64_t blocks = blocks_of(a);
    begin *= backward ? blocks : 1;
    end *= backward ? blocks : 1;
    for (int64_t item = begin; item < end; item++) {
        int64_t head = item / blocks, t = item % blocks * QUERIES, rows = a->t - t < QUERIES ? a->t - t : QUERIES;
        bool done =
            (backward ? block_backward : block_forward)(job, scratch, head / a->heads, head % a->heads, t, rows);
        if (!done) shared->failed[thread] = true;
    }
}

static sg_code run_attention(const sg_call *call) {
    const attention *a = call->plan->state;
    int threads = call->device->threads < MOST_PARTS ? call->device->threads : MOST_PARTS;
    shared_job shared = {.job = {call, a}};
    int64_t items = a->batch * a->heads * (a->dq >= 0 ? 1 : blocks_of(a));
    sg_parallel(threads, items, 1, work, &shared);
    for (int i = 0; i < threads; i++)
        if (shared.failed[i]) return sg_fail(call->status, SG_MACHINE, "oneDNN's sgemm failed inside an attention");
    return SG_OK;
}

/* ---- preparation ---------------------------------------------------------------------------------------------------------------- */

static sg_desc broadcast_mask(const sg_desc *mask) {
    sg_desc out = {.dtype = mask->dtype, .ndim = 4, .size = {1, 1, 1, 1}};
    for (int d = 0; d < mask->ndim; d++) {
        int to = 4 - mask->ndim + d;
        out.size[to] = mask->size[d];
        out.stride[to] = mask->size[d] == 1 ? 0 : mask->stride[d];
    }
    return out;
}

static sg_code prepare(sg_device *device, sg_plan *plan, bool backward, sg_status *status) {
    const sg_op *op = &plan->op;
    if (sg_has_narrow_floats(op) || sg_has_loose_rows(op)) return sg_prepare_widened(device, plan, status);
    for (int i = 0; i < op->n_in + op->n_out; i++)
        if (op->desc[i].dtype == SG_F64) return sg_refuse(op, "attention runs in fp32, not fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(attention), status);
    if (code != SG_OK) return code;
    attention *a = plan->state;
    int first = backward ? 1 : 0, n_in = op->n_in;
    const sg_desc *q = sg_in(plan, first), *k = sg_in(plan, first + 1);
    *a = (attention){.q = first,
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
    if (a->mask >= 0) a->mask_desc = broadcast_mask(sg_in(plan, a->mask));
    uint64_t floats = (uint64_t)(backward ? 2 : 1) * QUERIES * (uint64_t)a->s + (uint64_t)a->s;
    a->part_bytes = sg_align(floats * sizeof(float));
    plan->workspace_bytes = (uint64_t)device->threads * a->part_bytes;
    plan->run = run_attention;
    return SG_OK;
}

sg_code sg_prepare_attention(sg_device *device, sg_plan *plan, sg_status *status) {
    return prepare(device, plan, false, status);
}

sg_code sg_prepare_attention_bwd(sg_device *device, sg_plan *plan, sg_status *status) {
    return prepare(device, plan, true, status);
}
