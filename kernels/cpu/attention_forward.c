/* attention_forward.c: ATTENTION: blocks of queries against all keys, so that scores stay in cache and are never stored (Dao
 * et al., "FlashAttention", 2022, without the split over keys).
 *
 * Each thread has primitives of its own, made for one thread: queries by packed keys, probabilities by packed values. Keys and
 * values are packed once per head. With bf16 operands the products are bf16's, sums and the softmax fp32. */
#include "kernels/cpu/attention.h"
#include "kernels/cpu/primitive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { QUERIES = 128 };

/* A product for blocks of one size. */
typedef struct product {
    sg_primitive p;
    int left, right, out; /* places among its args */
} product;

/* The packing of one head's keys or values; primitive NULL: they are used as they lie. */
typedef struct packing {
    sg_primitive p;
    int from, to;
    uint64_t bytes;
} packing;

/* [0]: whole blocks of QUERIES, [1]: the last block, where it is smaller. */
typedef struct worker {
    product scores[2], outputs[2];
    packing keys, values;
} worker;

/* Offsets in a thread's part of the workspace. */
typedef struct parts {
    uint64_t scores, narrow, output, row, keys, values, scratch, bytes;
} parts;

typedef struct forward {
    sg_attention a;
    int threads;
    parts parts;
    worker workers[]; /* threads */
} forward;

typedef struct job {
    const sg_call *call;
    const forward *f;
    sg_code *codes; /* by thread; the status is that of one that failed */
} job;

/* ---- a block ------------------------------------------------------------------------------------------------------------------ */

static sg_code pack(const sg_call *call, const packing *p, void *from, char *to, char *scratch) {
    if (!p->p.primitive) return SG_OK;
    sg_primitive_point(&p->p, p->from, from);
    sg_primitive_point(&p->p, p->to, to);
    return sg_primitive_run(call, &p->p, scratch);
}

static sg_code multiply(const sg_call *call, const product *p, void *left, void *right, void *out, char *scratch) {
    sg_primitive_point(&p->p, p->left, left);
    sg_primitive_point(&p->p, p->right, right);
    sg_primitive_point(&p->p, p->out, out);
    return sg_primitive_run(call, &p->p, scratch);
}

/* exp(score - largest) of every row, in the dtype of the values, and their sums. */
static void soften(const sg_call *call, const forward *f, char *part, float *sum, int64_t b, int64_t h, int64_t t,
                   int64_t rows) {
    const sg_attention *a = &f->a;
    const sg_loops *loops = call->device->loops;
    int32_t dtype = call->plan->op.desc[a->v].dtype;
    int64_t bytes = (int64_t)sg_dtype_bytes((sg_dtype)dtype);
    for (int64_t i = 0; i < rows; i++) {
        float *row = (float *)(void *)(part + f->parts.scores) + i * a->s;
        if (a->mask >= 0) sg_attention_mask(call, a, row, (float *)(void *)(part + f->parts.row), b, h, t + i);
        float largest = loops->max(row, a->s);
        sum[i] = loops->exp_shifted(row, a->s, largest);
        *(float *)sg_attention_at(call, a->lse, b, h, t + i) = largest + logf(sum[i]);
        if (dtype != SG_F32) loops->store[dtype](part + f->parts.narrow + i * a->s * bytes, row, a->s, 1);
    }
}

static sg_code work_block(const sg_call *call, const forward *f, const worker *w, char *part, int64_t b, int64_t h,
                          int64_t t, int64_t rows) {
    const sg_attention *a = &f->a;
    const sg_loops *loops = call->device->loops;
    const sg_desc *v = &call->plan->op.desc[a->v], *o = &call->plan->op.desc[a->o];
    int which = rows == QUERIES ? 0 : 1;
    float sum[QUERIES];
    void *keys = w->keys.p.primitive ? part + f->parts.keys : sg_attention_at(call, a->k, b, h, 0);
    void *values = w->values.p.primitive ? part + f->parts.values : sg_attention_at(call, a->v, b, h, 0);
    sg_code code = multiply(call, &w->scores[which], sg_attention_at(call, a->q, b, h, t), keys, part + f->parts.scores,
                            part + f->parts.scratch);
    if (code != SG_OK) return code;
    soften(call, f, part, sum, b, h, t, rows);
    code = multiply(call, &w->outputs[which], part + (v->dtype == SG_F32 ? f->parts.scores : f->parts.narrow), values,
                    part + f->parts.output, part + f->parts.scratch);
    if (code != SG_OK) return code;
    for (int64_t i = 0; i < rows; i++) {
        float *row = (float *)(void *)(part + f->parts.output) + i * a->d;
        loops->unary[SG_FN_AFFINE](row, row, a->d, 1 / sum[i], 0);
        loops->store[o->dtype](sg_attention_at(call, a->o, b, h, t + i), row, a->d, o->stride[3]);
    }
    return SG_OK;
}

/* ---- threads ------------------------------------------------------------------------------------------------------------------- */

static int64_t blocks_of(const sg_attention *a) {
    return (a->t + QUERIES - 1) / QUERIES;
}

/* Items: blocks of queries, head after head. */
static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const forward *f = job->f;
    const sg_attention *a = &f->a;
    const worker *w = &f->workers[thread];
    char *part = job->call->workspace + (uint64_t)thread * f->parts.bytes, *scratch = part + f->parts.scratch;
    int64_t blocks = blocks_of(a), packed = -1;
    sg_code code = SG_OK;
    for (int64_t item = begin; item < end && code == SG_OK; item++) {
        int64_t head = item / blocks, b = head / a->heads, h = head % a->heads, t = item % blocks * QUERIES;
        if (head != packed) {
            code = pack(job->call, &w->keys, sg_attention_at(job->call, a->k, b, h, 0), part + f->parts.keys, scratch);
            if (code == SG_OK)
                code = pack(job->call, &w->values, sg_attention_at(job->call, a->v, b, h, 0), part + f->parts.values,
                            scratch);
            packed = head;
        }
        if (code == SG_OK) code = work_block(job->call, f, w, part, b, h, t, a->t - t < QUERIES ? a->t - t : QUERIES);
    }
    job->codes[thread] = code;
}

static sg_code run_forward(const sg_call *call) {
    const forward *f = call->plan->state;
    sg_code *codes = (sg_code *)(void *)(call->workspace + (uint64_t)f->threads * f->parts.bytes);
    memset(codes, 0, (size_t)f->threads * sizeof *codes);
    job job = {call, f, codes};
    int64_t items = f->a.batch * f->a.heads * blocks_of(&f->a);
    bool alone = sg_parallel_parts(f->threads, items, 1) == 1;
    if (alone) sg_parallel_set_threads(1); /* the primitives were made for one */
    sg_parallel(f->threads, items, 1, work, &job);
    if (alone) sg_parallel_set_threads(call->device->threads);
    for (int i = 0; i < f->threads; i++)
        if (codes[i] != SG_OK) return codes[i];
    return SG_OK;
}

static void free_forward(void *state) {
    forward *f = state;
    if (!f) return;
    for (int i = 0; i < f->threads; i++) {
        worker *w = &f->workers[i];
        for (int which = 0; which < 2; which++) {
            sg_primitive_free(&w->scores[which].p);
            sg_primitive_free(&w->outputs[which].p);
        }
        sg_primitive_free(&w->keys.p);
        sg_primitive_free(&w->values.p);
    }
    free(f);
}

/* ---- preparation ---------------------------------------------------------------------------------------------------------------- */

static sg_desc matrix(int32_t dtype, int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
    return (sg_desc){.dtype = dtype, .ndim = 2, .size = {rows, columns}, .stride = {row_stride, column_stride}};
}

/* out = scale left right, with the right factor in the layout that oneDNN likes, or in the given one. */
static sg_code make_product(sg_device *device, const sg_op *op, const sg_desc *left, const sg_desc *right,
                            const dnnl_memory_desc_t *layout, const sg_desc *out, double scale, product *p,
                            sg_status *status) {
    dnnl_memory_desc_t a, b = layout ? *layout : sg_dnnl_any_layout(right), c;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_attr_t attributes = NULL;
    sg_code code = sg_dnnl_layout(op, left, &a, status);
    if (code == SG_OK) code = sg_dnnl_layout(op, out, &c, status);
    if (code != SG_OK) return code;
    dnnl_status_t result = dnnl_matmul_desc_init(&desc, &a, &b, NULL, &c);
    if (result != dnnl_success) return sg_dnnl_fail(op, result, "describing a product", status);
    code = sg_dnnl_attributes(op, NULL, scale, &attributes, status);
    if (code == SG_OK) code = sg_primitive_make(device, op, &desc, attributes, NULL, NULL, &p->p, status);
    if (code == SG_OK) code = sg_primitive_add(device, op, &p->p, DNNL_ARG_SRC, &a, &p->left, status);
    if (code == SG_OK)
        code = sg_primitive_add(device, op, &p->p, DNNL_ARG_WEIGHTS, sg_primitive_layout(&p->p, DNNL_ARG_WEIGHTS),
                                &p->right, status);
    return code == SG_OK ? sg_primitive_add(device, op, &p->p, DNNL_ARG_DST, &c, &p->out, status) : code;
}

static sg_code make_packing(sg_device *device, const sg_op *op, const sg_desc *user, const product *p, packing *packing,
                            sg_status *status) {
    dnnl_memory_desc_t from;
    const dnnl_memory_desc_t *to = sg_primitive_layout(&p->p, DNNL_ARG_WEIGHTS);
    sg_code code = sg_dnnl_layout(op, user, &from, status);
    if (code != SG_OK || dnnl_memory_desc_equal(&from, to)) return code;
    packing->bytes = dnnl_memory_desc_get_size(to);
    code = sg_primitive_make_reorder(device, op, &from, to, &packing->p, status);
    if (code == SG_OK) code = sg_primitive_add(device, op, &packing->p, DNNL_ARG_FROM, &from, &packing->from, status);
    if (code == SG_OK) code = sg_primitive_add(device, op, &packing->p, DNNL_ARG_TO, to, &packing->to, status);
    return code;
}

static const dnnl_memory_desc_t *right_layout(const product *p) {
    return p ? sg_primitive_layout(&p->p, DNNL_ARG_WEIGHTS) : NULL;
}

/* A last block that is smaller takes keys and values as the whole blocks take them. */
static sg_code make_worker(sg_device *device, const sg_plan *plan, const sg_attention *a, worker *w,
                           sg_status *status) {
    const sg_op *op = &plan->op;
    const sg_desc *q = &op->desc[a->q], *k = &op->desc[a->k], *v = &op->desc[a->v];
    sg_desc keys = matrix(k->dtype, a->d, a->s, 1, k->stride[2]),
            values = matrix(v->dtype, a->s, a->d, v->stride[2], 1);
    const int64_t sizes[2] = {a->t < QUERIES ? 0 : QUERIES, a->t % QUERIES};
    sg_code code = SG_OK;
    const product *scores_made = NULL, *outputs_made = NULL;
    for (int which = 0; which < 2 && code == SG_OK; which++) {
        int64_t rows = sizes[which];
        if (rows == 0) continue;
        sg_desc queries = matrix(q->dtype, rows, a->d, q->stride[2], 1), scores = matrix(SG_F32, rows, a->s, a->s, 1);
        sg_desc weights = matrix(v->dtype, rows, a->s, a->s, 1), out = matrix(SG_F32, rows, a->d, a->d, 1);
        code = make_product(device, op, &queries, &keys, right_layout(scores_made), &scores, op->attrs.alpha,
                            &w->scores[which], status);
        if (code == SG_OK)
            code = make_product(device, op, &weights, &values, right_layout(outputs_made), &out, 1, &w->outputs[which],
                                status);
        scores_made = &w->scores[which];
        outputs_made = &w->outputs[which];
    }
    if (code == SG_OK) code = make_packing(device, op, &keys, scores_made, &w->keys, status);
    if (code == SG_OK) code = make_packing(device, op, &values, outputs_made, &w->values, status);
    return code;
}

static uint64_t most(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static parts parts_of(const sg_attention *a, const worker *w) {
    parts p = {0};
    uint64_t at = 0, rows = QUERIES, scratch = most(w->keys.p.scratch_bytes, w->values.p.scratch_bytes);
    for (int which = 0; which < 2; which++)
        scratch = most(scratch, most(w->scores[which].p.scratch_bytes, w->outputs[which].p.scratch_bytes));
    const struct {
        uint64_t *offset, bytes;
    } wanted[] = {
        {&p.scores, rows * (uint64_t)a->s * sizeof(float)},
        {&p.narrow, rows * (uint64_t)a->s * sizeof(uint16_t)},
        {&p.output, rows * (uint64_t)a->d * sizeof(float)},
        {&p.row, (uint64_t)a->s * sizeof(float)},
        {&p.keys, w->keys.bytes},
        {&p.values, w->values.bytes},
        {&p.scratch, scratch},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        *wanted[i].offset = at;
        at += sg_align(wanted[i].bytes);
    }
    p.bytes = at;
    return p;
}

sg_code sg_prepare_attention(sg_device *device, sg_plan *plan, sg_status *status) {
    const sg_op *op = &plan->op;
    if (sg_must_widen(device, op) || sg_has_loose_rows(op)) return sg_prepare_widened(device, plan, status);
    for (int i = 0; i < op->n_in + op->n_out; i++)
        if (op->desc[i].dtype == SG_F64) return sg_refuse(op, "attention runs in fp32, not fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(forward) + (size_t)device->threads * sizeof(worker), status);
    if (code != SG_OK) return code;
    forward *f = plan->state;
    plan->free_state = free_forward;
    plan->run = run_forward;
    f->a = sg_attention_of(plan);
    sg_parallel_set_threads(1);
    for (; f->threads < device->threads && code == SG_OK; f->threads++)
        code = make_worker(device, plan, &f->a, &f->workers[f->threads], status);
    sg_parallel_set_threads(device->threads);
    if (code != SG_OK) return code;
    f->parts = parts_of(&f->a, &f->workers[0]);
    plan->workspace_bytes = (uint64_t)f->threads * (f->parts.bytes + sizeof(sg_code));
    return SG_OK;
}
