/* rows.c: SOFTMAX, LAYER_NORM, RMS_NORM and their backwards: one row of the last dim at a time.
 *
 * Rows that are not contiguous fp32 pass through buffers in the workspace, one set per thread. Gradients of weights are
 * summed per thread and meet at the end. */
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

enum { GRAIN = 4096, BLOCK_ROWS = 256, CROSSED_ROWS = 32 };

/* Tensors that are walked row by row. */
typedef struct walked {
    int pointer; /* which of the call's pointers */
    bool output;
    bool direct;  /* rows are contiguous fp32 */
    bool crossed; /* an input whose neighbouring rows are contiguous instead: read in blocks of rows */
    sg_dtype dtype;
    int64_t bytes, row_stride[SG_MAX_DIMS], stride; /* elements */
} walked;

/* Vectors of the last dim: weights, read once per thread. */
typedef struct vector {
    int pointer;
    sg_dtype dtype;
    int64_t stride;
} vector;

struct worker;

typedef struct rows {
    int64_t count, n; /* rows, elements of one */
    int ndim;         /* leading dims */
    int64_t size[SG_MAX_DIMS];
    int walked, vectors;
    walked tensor[3];
    vector weight[2];
    int mean, rstd;      /* pointers of the row statistics, or -1 */
    int dx, dw, db;      /* walked index of dx, pointers of dw and db, or -1 */
    uint64_t part_bytes; /* of the workspace, per thread */
    void (*row)(const struct worker *w, int64_t row);
} rows;

typedef struct worker {
    const sg_call *call;
    const rows *r;
    float *x[3];     /* rows of the walked tensors */
    char *block[3];  /* CROSSED_ROWS rows of a crossed tensor, in its dtype */
    int64_t held[3]; /* the first row in the block; rows up to held_end */
    int64_t held_end[3];
    const float *w[2]; /* vectors */
    float *dw, *db;    /* this thread's block sums */
    float *dw_total, *db_total;
} worker;

typedef struct job {
    const sg_call *call;
    const rows *r;
} job;

/* ---- one row ------------------------------------------------------------------------------------------------------------- */

static const sg_loops *loops_of(const worker *w) {
    return w->call->device->loops;
}
static float *statistic(const worker *w, int pointer) {
    return w->call->pointers[pointer];
}
static float eps_of(const worker *w) {
    return (float)w->call->plan->op.attrs.eps;
}

static void softmax_row(const worker *w, int64_t row) {
    (void)row;
    loops_of(w)->softmax(w->x[1], w->x[0], w->r->n);
}

static void softmax_bwd_row(const worker *w, int64_t row) {
    (void)row;
    loops_of(w)->softmax_bwd(w->x[2], w->x[0], w->x[1], w->r->n);
}

static void layer_norm_row(const worker *w, int64_t row) {
    loops_of(w)->layer_norm(w->x[1], w->x[0], w->w[0], w->w[1], w->r->n, eps_of(w), statistic(w, w->r->mean) + row,
                            statistic(w, w->r->rstd) + row);
}

static void rms_norm_row(const worker *w, int64_t row) {
    loops_of(w)->rms_norm(w->x[1], w->x[0], w->w[0], w->r->n, eps_of(w), statistic(w, w->r->rstd) + row);
}

static void layer_norm_bwd_row(const worker *w, int64_t row) {
    float mean = statistic(w, w->r->mean)[row], rstd = statistic(w, w->r->rstd)[row];
    if (w->dw) loops_of(w)->norm_bwd_weights(w->dw, w->db, w->x[0], w->x[1], w->r->n, mean, rstd);
    if (w->r->dx >= 0) loops_of(w)->layer_norm_bwd(w->x[2], w->x[0], w->x[1], w->w[0], w->r->n, mean, rstd);
}

static void rms_norm_bwd_row(const worker *w, int64_t row) {
    float rstd = statistic(w, w->r->rstd)[row];
    if (w->dw) loops_of(w)->norm_bwd_weights(w->dw, NULL, w->x[0], w->x[1], w->r->n, 0, rstd);
    if (w->r->dx >= 0) loops_of(w)->rms_norm_bwd(w->x[2], w->x[0], w->x[1], w->w[0], w->r->n, rstd);
}

/* ---- a thread's rows -------------------------------------------------------------------------------------------------------- */

static uint64_t crossed_bytes(const rows *r, const walked *t) {
    return sg_align((uint64_t)(CROSSED_ROWS * r->n * t->bytes));
}

static char *address(const worker *w, const walked *t, int64_t row) {
    int64_t at = 0;
    for (int d = w->r->ndim - 1; d >= 0; d--) {
        at += row % w->r->size[d] * t->row_stride[d];
        row /= w->r->size[d];
    }
    return (char *)w->call->pointers[t->pointer] + at * t->bytes;
}

/* The row of a crossed tensor, from a block of rows that is transposed when the first of them is met. */
static const char *crossed_row(worker *w, int i, int64_t row, int64_t end) {
    const walked *t = &w->r->tensor[i];
    int64_t inner = w->r->size[w->r->ndim - 1];
    if (row < w->held[i] || row >= w->held_end[i]) {
        int64_t rows = inner - row % inner; /* neighbours in memory end with the innermost leading dim */
        if (rows > CROSSED_ROWS) rows = CROSSED_ROWS;
        if (rows > end - row) rows = end - row;
        w->held[i] = row;
        w->held_end[i] = row + rows;
        loops_of(w)->transpose(w->block[i], address(w, t, row), rows, w->r->n, w->r->n, t->stride, (size_t)t->bytes);
    }
    return w->block[i] + (row - w->held[i]) * w->r->n * t->bytes;
}

/* Gives the thread its part of the workspace: buffers of rows, of vectors, and sums. */
static void start_worker(worker *w, const job *job, int thread) {
    const rows *r = job->r;
    char *at = job->call->workspace + (uint64_t)thread * r->part_bytes;
    uint64_t row_bytes = sg_align((uint64_t)r->n * sizeof(float));
    *w = (worker){.call = job->call, .r = r};
    for (int i = 0; i < r->walked; i++) {
        if (r->tensor[i].direct) continue;
        w->x[i] = (float *)(void *)at;
        at += row_bytes;
        if (!r->tensor[i].crossed) continue;
        w->block[i] = at;
        at += crossed_bytes(r, &r->tensor[i]);
    }
    for (int i = 0; i < r->vectors; i++) {
        const vector *v = &r->weight[i];
        const void *from = job->call->pointers[v->pointer];
        w->w[i] = from;
        if (v->dtype == SG_F32 && v->stride == 1) continue;
        loops_of(w)->load[v->dtype]((float *)(void *)at, from, r->n, v->stride);
        w->w[i] = (const float *)(const void *)at;
        at += row_bytes;
    }
    float **sums[4] = {&w->dw, &w->dw_total, &w->db, &w->db_total};
    for (int i = 0; i < (r->db >= 0 ? 4 : r->dw >= 0 ? 2 : 0); i++) {
        *sums[i] = (float *)(void *)at;
        loops_of(w)->fill(*sums[i], r->n, 0);
        at += row_bytes;
    }
}

static void flush_sums(const worker *w) {
    float *part[2] = {w->dw, w->db}, *total[2] = {w->dw_total, w->db_total};
    for (int i = 0; i < 2; i++) {
        if (!part[i]) continue;
        loops_of(w)->add_rows(total[i], part[i], 1, w->r->n, 0);
        loops_of(w)->fill(part[i], w->r->n, 0);
    }
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const rows *r = job->r;
    worker w;
    start_worker(&w, job, thread);
    for (int64_t row = begin; row < end; row++) {
        char *at[3] = {0};
        for (int i = 0; i < r->walked; i++) {
            const walked *t = &r->tensor[i];
            at[i] = address(&w, t, row);
            if (t->direct)
                w.x[i] = (float *)(void *)at[i];
            else if (t->crossed)
                loops_of(&w)->load[t->dtype](w.x[i], crossed_row(&w, i, row, end), r->n, 1);
            else if (!t->output)
                loops_of(&w)->load[t->dtype](w.x[i], at[i], r->n, t->stride);
        }
        r->row(&w, row);
        for (int i = 0; i < r->walked; i++)
            if (r->tensor[i].output && !r->tensor[i].direct)
                loops_of(&w)->store[r->tensor[i].dtype](at[i], w.x[i], r->n, r->tensor[i].stride);
        if (w.dw && (row - begin) % BLOCK_ROWS == BLOCK_ROWS - 1) flush_sums(&w);
    }
    flush_sums(&w);
}

/* The sums of all threads, into dw and db. The sums of a part are its last rows of the workspace. */
static void gather_sums(const job *job, int parts) {
    const rows *r = job->r;
    const sg_loops *loops = job->call->device->loops;
    uint64_t row_bytes = sg_align((uint64_t)r->n * sizeof(float));
    for (int which = 0; which < (r->db >= 0 ? 2 : 1); which++) {
        float *total = NULL;
        for (int thread = 0; thread < parts; thread++) {
            char *part = job->call->workspace + (uint64_t)thread * r->part_bytes + r->part_bytes;
            int from_end = r->db >= 0 ? (which == 0 ? 3 : 1) : 1;
            float *sum = (float *)(void *)(part - (uint64_t)from_end * row_bytes);
            if (thread == 0)
                total = sum;
            else
                loops->add_rows(total, sum, 1, r->n, 0);
        }
        int pointer = which == 0 ? r->dw : r->db;
        const sg_desc *desc = &job->call->plan->op.desc[pointer];
        loops->store[desc->dtype](job->call->pointers[pointer], total, r->n, desc->stride[0]);
    }
}

static sg_code run_rows(const sg_call *call) {
    job job = {call, call->plan->state};
    int64_t grain = job.r->n < GRAIN ? GRAIN / job.r->n : 1;
    sg_parallel(call->device->threads, job.r->count, grain, work, &job);
    if (job.r->dw >= 0) gather_sums(&job, sg_parallel_parts(call->device->threads, job.r->count, grain));
    return SG_OK;
}

/* ---- preparation -------------------------------------------------------------------------------------------------------------- */

static void add_walked(rows *r, const sg_plan *plan, int pointer) {
    const sg_desc *desc = &plan->op.desc[pointer];
    walked *t = &r->tensor[r->walked++];
    int last = desc->ndim - 1;
    *t = (walked){.pointer = pointer,
                  .output = pointer >= plan->op.n_in,
                  .dtype = (sg_dtype)desc->dtype,
                  .bytes = (int64_t)sg_dtype_bytes((sg_dtype)desc->dtype),
                  .stride = desc->stride[last]};
    t->direct = t->dtype == SG_F32 && (t->stride == 1 || desc->size[last] == 1);
    memcpy(t->row_stride, desc->stride, (size_t)last * sizeof(int64_t));
}

static void add_vector(rows *r, const sg_plan *plan, int pointer) {
    const sg_desc *desc = &plan->op.desc[pointer];
    r->weight[r->vectors++] = (vector){pointer, (sg_dtype)desc->dtype, desc->stride[0]};
}

/* Leading dims, joined where every walked tensor allows it. */
static void set_leading_dims(rows *r, const sg_desc *shape) {
    r->ndim = shape->ndim - 1;
    memcpy(r->size, shape->size, (size_t)r->ndim * sizeof(int64_t));
    for (int d = r->ndim - 2; d >= 0; d--) {
        bool joins = true;
        for (int i = 0; i < r->walked; i++) {
            const int64_t *stride = r->tensor[i].row_stride;
            if (stride[d] != stride[d + 1] * r->size[d + 1]) joins = false;
        }
        if (!joins) continue;
        r->size[d + 1] *= r->size[d];
        r->ndim--;
        size_t tail = (size_t)(r->ndim - d) * sizeof(int64_t);
        memmove(&r->size[d], &r->size[d + 1], tail);
        for (int i = 0; i < r->walked; i++) memmove(&r->tensor[i].row_stride[d], &r->tensor[i].row_stride[d + 1], tail);
    }
}

/* Which pointers play which part. Outputs are dx, then dw and db, as far as they are wanted. */
static void set_parts(rows *r, const sg_plan *plan) {
    int n_in = plan->op.n_in;
    r->mean = r->rstd = r->dx = r->dw = r->db = -1;
    bool dx = !sg_flag(plan, SG_NO_DX), dw = !sg_flag(plan, SG_NO_DW);
    switch ((sg_op_kind)plan->op.kind) {
    case SG_OP_SOFTMAX:
        add_walked(r, plan, 0);
        add_walked(r, plan, n_in);
        r->row = softmax_row;
        return;
    case SG_OP_SOFTMAX_BWD:
        add_walked(r, plan, 0);
        add_walked(r, plan, 1);
        add_walked(r, plan, n_in);
        r->row = softmax_bwd_row;
        return;
    case SG_OP_LAYER_NORM:
    case SG_OP_RMS_NORM:
        add_walked(r, plan, 0);
        add_walked(r, plan, n_in);
        for (int i = 1; i < n_in; i++) add_vector(r, plan, i);
        r->mean = plan->op.kind == SG_OP_LAYER_NORM ? n_in + 1 : -1;
        r->rstd = n_in + (plan->op.kind == SG_OP_LAYER_NORM ? 2 : 1);
        r->row = plan->op.kind == SG_OP_LAYER_NORM ? layer_norm_row : rms_norm_row;
        return;
    default: break;
    }
    bool layer = plan->op.kind == SG_OP_LAYER_NORM_BWD;
    add_walked(r, plan, 0);
    add_walked(r, plan, 1);
    add_vector(r, plan, layer ? 4 : 3);
    r->mean = layer ? 2 : -1;
    r->rstd = layer ? 3 : 2;
    r->row = layer ? layer_norm_bwd_row : rms_norm_bwd_row;
    if (dx) {
        r->dx = r->walked;
        add_walked(r, plan, n_in);
    }
    if (dw) r->dw = n_in + dx;
    if (dw && layer) r->db = n_in + dx + 1;
}

sg_code sg_prepare_rows(sg_device *device, sg_plan *plan, sg_status *status) {
    for (int i = 0; i < plan->op.n_in + plan->op.n_out; i++)
        if (!device->loops->load[plan->op.desc[i].dtype])
            return sg_refuse(&plan->op, "softmax and norms run in fp32, not fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(rows), status);
    if (code != SG_OK) return code;
    rows *r = plan->state;
    const sg_desc *x = sg_in(plan, 0);
    plan->run = run_rows;
    r->n = x->size[x->ndim - 1];
    r->count = sg_desc_count(x) / r->n;
    set_parts(r, plan);
    set_leading_dims(r, x);
    int buffers = r->db >= 0 ? 4 : r->dw >= 0 ? 2 : 0;
    uint64_t blocks = 0;
    for (int i = 0; i < r->walked; i++) {
        walked *t = &r->tensor[i];
        buffers += !t->direct;
        t->crossed = !t->direct && !t->output && t->stride > 1 && r->ndim > 0 && t->row_stride[r->ndim - 1] == 1;
        if (t->crossed) blocks += crossed_bytes(r, t);
    }
    for (int i = 0; i < r->vectors; i++) buffers += !(r->weight[i].dtype == SG_F32 && r->weight[i].stride == 1);
    r->part_bytes = blocks + (uint64_t)buffers * sg_align((uint64_t)r->n * sizeof(float));
    plan->workspace_bytes = (uint64_t)device->threads * r->part_bytes;
    return SG_OK;
}
