/* elementwise.c: UNARY, UNARY_BWD, BINARY, TERNARY and FOREACH, and COPY between dtypes.
 *
 * All are lists of tuples (of one tuple, but for FOREACH) that are split over threads by elements. Runs of fp32 go straight
 * to a loop; other dtypes and strides pass through buffers that stay in the first cache. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/nest.h"

#include "kernels/cpu/scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1024, MOST_PERIOD = 1024, GRAIN_CHEAP = 16384, GRAIN_COSTLY = 4096, SHORT_RUN = 16, LONG_RUN = 512 };

typedef enum flavour { CONVERT, ONE, SLOPE, TWO, THREE } flavour;

typedef struct tuple {
    sg_nest nest;   /* output, inputs */
    bool in_double; /* an operand is fp64, i32 or i64 */
    bool direct;    /* all runs are contiguous fp32 */
    int64_t period; /* > 0: operands with a period_stride repeat every `period` elements of a run */
    int64_t period_stride[SG_NEST_OPERANDS];
} tuple;

typedef struct elementwise {
    flavour flavour;
    int inputs; /* tensors read per tuple */
    sg_fn fn;
    int64_t count; /* tuples */
    int64_t total; /* elements of all tuples */
    int64_t grain;
    sg_loop1 one;
    sg_loop2 two;
    sg_loop3 three;
    int64_t *first; /* count + 1: elements before each tuple */
    tuple tuples[]; /* count */
} elementwise;

/* One run: addresses and strides (elements) of the output and the inputs; where in the period it begins. */
typedef struct run {
    char *at[SG_NEST_OPERANDS];
    int64_t stride[SG_NEST_OPERANDS];
    int64_t n, phase;
} run;

typedef struct job {
    const sg_call *call;
    const elementwise *e;
    double alpha, beta;
} job;

/* ---- one run -------------------------------------------------------------------------------------------------------- */

static void apply(const job *job, float *w, const float *const *x, int64_t n) {
    const elementwise *e = job->e;
    float a = (float)job->alpha, b = (float)job->beta;
    switch (e->flavour) {
    case ONE: e->one(w, x[0], n, a, b); break;
    case SLOPE:
    case TWO: e->two(w, x[0], x[1], n, a, b); break;
    case THREE: e->three(w, x[0], x[1], x[2], n, a, b); break;
    case CONVERT:
        if (x[0] && w != x[0]) memcpy(w, x[0], (size_t)n * sizeof *w);
        break;
    }
}

/* Buffers of one thread's work on a tuple. Repeated elements are loaded once and kept as long as they stay the same. */
typedef struct buffers {
    float at[SG_NEST_OPERANDS][CHUNK + MOST_PERIOD];
    const char *holds[SG_NEST_OPERANDS]; /* address of what a repeating operand's buffer holds */
    int64_t held[SG_NEST_OPERANDS];      /* elements of it */
} buffers;

/* Fills the buffer of a repeating operand: one value, or one period after the other. */
static void load_repeated(const sg_loops *loops, const tuple *t, int k, const run *r, buffers *b) {
    bool periodic = t->period_stride[k] != 0;
    int64_t wanted = periodic ? CHUNK + t->period : r->n < CHUNK ? r->n : CHUNK;
    if (b->holds[k] == r->at[k] && b->held[k] >= wanted) return;
    b->holds[k] = r->at[k];
    b->held[k] = wanted;
    if (!periodic) {
        float value = 0;
        loops->load[t->nest.dtype[k]](&value, r->at[k], 1, 1);
        loops->fill(b->at[k], wanted, value);
        return;
    }
    loops->load[t->nest.dtype[k]](b->at[k], r->at[k], t->period, t->period_stride[k]);
    for (int64_t at = t->period; at < wanted; at += t->period) {
        int64_t n = wanted - at < t->period ? wanted - at : t->period;
        memcpy(b->at[k] + at, b->at[k], (size_t)n * sizeof(float));
    }
}

/* What is not contiguous fp32 passes through the buffers. */
static void run_buffered(const job *job, const tuple *t, const run *r, buffers *b) {
    const sg_loops *loops = job->call->device->loops;
    const elementwise *e = job->e;
    const sg_nest *nest = &t->nest;
    const float *x[SG_NEST_OPERANDS - 1] = {0};
    bool direct[SG_NEST_OPERANDS] = {false};
    for (int k = 0; k <= e->inputs; k++) {
        direct[k] = nest->dtype[k] == SG_F32 && r->stride[k] == 1;
        if (k > 0 && r->stride[k] == 0) load_repeated(loops, t, k, r, b);
    }
    for (int64_t at = 0; at < r->n; at += CHUNK) {
        int64_t n = r->n - at < CHUNK ? r->n - at : CHUNK;
        for (int k = 1; k <= e->inputs; k++) {
            const char *from = r->at[k] + at * r->stride[k] * nest->bytes[k];
            x[k - 1] = direct[k] ? (const float *)(const void *)from : b->at[k];
            if (t->period > 0 && t->period_stride[k]) x[k - 1] = b->at[k] + (r->phase + at) % t->period;
            if (!direct[k] && r->stride[k] != 0) loops->load[nest->dtype[k]](b->at[k], from, n, r->stride[k]);
        }
        char *to = r->at[0] + at * r->stride[0] * nest->bytes[0];
        if (direct[0]) {
            apply(job, (float *)(void *)to, x, n);
        } else if (e->flavour == CONVERT) {
            loops->store[nest->dtype[0]](to, x[0], n, r->stride[0]);
        } else {
            apply(job, b->at[0], x, n);
            loops->store[nest->dtype[0]](to, b->at[0], n, r->stride[0]);
        }
    }
}

static double value_of(const job *job, const double *x) {
    const elementwise *e = job->e;
    switch (e->flavour) {
    case ONE: return sg_scalar_unary(e->fn, x[0], job->alpha, job->beta);
    case SLOPE: return x[0] * sg_scalar_slope(e->fn, x[1], job->alpha, job->beta);
    case TWO: return sg_scalar_binary(e->fn, x[0], x[1], job->alpha);
    case THREE: return sg_scalar_ternary(e->fn, x[0], x[1], x[2], job->alpha, job->beta);
    default: return x[0];
    }
}

static void run_in_double(const job *job, const sg_nest *nest, const run *r) {
    for (int64_t i = 0; i < r->n; i++) {
        double x[SG_NEST_OPERANDS - 1] = {0};
        for (int k = 1; k <= job->e->inputs; k++)
            x[k - 1] = sg_scalar_load((sg_dtype)nest->dtype[k], r->at[k] + i * r->stride[k] * nest->bytes[k]);
        sg_scalar_store((sg_dtype)nest->dtype[0], r->at[0] + i * r->stride[0] * nest->bytes[0], value_of(job, x));
    }
}

/* ---- tuples ----------------------------------------------------------------------------------------------------------- */

static void run_direct(const job *job, const run *r) {
    const float *x[SG_NEST_OPERANDS - 1] = {0};
    for (int k = 0; k < job->e->inputs; k++) x[k] = (const float *)(const void *)r->at[k + 1];
    apply(job, (float *)(void *)r->at[0], x, r->n);
}

static void work_tuple(const job *job, int64_t index, int64_t begin, int64_t end, buffers *b) {
    const elementwise *e = job->e;
    const tuple *t = &e->tuples[index];
    const sg_nest *nest = &t->nest;
    int inner = nest->ndim - 1;
    char *base[SG_NEST_OPERANDS] = {0};
    base[0] = sg_out_at(job->call, (int)index);
    for (int k = 0; k < e->inputs; k++) base[k + 1] = sg_in_at(job->call, (int)(k * e->count + index));
    sg_nest_place place;
    sg_nest_seek(nest, begin, &place);
    run r = {.n = 0};
    for (int k = 0; k <= e->inputs; k++) {
        r.stride[k] = nest->stride[k][inner];
        b->holds[k] = NULL;
    }
    for (int64_t at = begin; at < end; at += r.n) {
        r.n = sg_nest_run(nest, &place);
        if (r.n > end - at) r.n = end - at;
        r.phase = t->period ? place.index[inner] % t->period : 0;
        for (int k = 0; k <= e->inputs; k++) r.at[k] = base[k] + place.offset[k];
        if (t->in_double)
            run_in_double(job, nest, &r);
        else if (t->direct)
            run_direct(job, &r);
        else
            run_buffered(job, t, &r, b);
        sg_nest_advance(nest, &place, r.n);
    }
}

/* The tuple that holds element `at` of the list. */
static int64_t tuple_of(const int64_t *first, int64_t count, int64_t at) {
    int64_t low = 0, high = count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (first[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const elementwise *e = job->e;
    (void)thread;
    buffers b;
    int64_t index = tuple_of(e->first, e->count, begin);
    while (begin < end) {
        int64_t stop = e->first[index + 1] < end ? e->first[index + 1] : end;
        work_tuple(job, index, begin - e->first[index], stop - e->first[index], &b);
        begin = stop;
        index++;
    }
}

/* alpha of an element-wise op: the attribute, or Adam's bias corrections from the step. */
static double alpha_at(const sg_attrs *attrs, const sg_launch *launch) {
    double step = (double)launch->step;
    if (attrs->flags & SG_STEP_SIZE) return -attrs->lr / (1 - pow(attrs->beta1, step));
    if (attrs->flags & SG_STEP_SQRT) return sqrt(1 - pow(attrs->beta2, step));
    return attrs->alpha;
}

static sg_code run_elementwise(const sg_call *call) {
    const elementwise *e = call->plan->state;
    const sg_attrs *attrs = &call->plan->op.attrs;
    job job = {.call = call, .e = e, .alpha = alpha_at(attrs, call->launch), .beta = attrs->beta};
    if (attrs->flags & SG_SCALAR_TENSOR && call->plan->op.kind == SG_OP_FOREACH) {
        int last = call->plan->op.n_in - 1;
        job.alpha = sg_scalar_load((sg_dtype)sg_in(call->plan, last)->dtype, sg_in_at(call, last));
    }
    sg_parallel(call->device->threads, e->total, e->grain, work, &job);
    return SG_OK;
}

/* ---- preparation --------------------------------------------------------------------------------------------------------- */

static bool is_costly(sg_fn fn) {
    switch (fn) {
    case SG_FN_GELU_TANH:
    case SG_FN_GELU_ERF:
    case SG_FN_SILU:
    case SG_FN_MISH:
    case SG_FN_ELU:
    case SG_FN_TANH:
    case SG_FN_SIGMOID:
    case SG_FN_EXP:
    case SG_FN_LOG:
    case SG_FN_SIN:
    case SG_FN_COS:
    case SG_FN_POW:
    case SG_FN_POWV:
    case SG_FN_ATAN2: return true;
    default: return false;
    }
}

static bool needs_double(const sg_loops *loops, const sg_nest *nest) {
    for (int k = 0; k < nest->operands; k++)
        if (!loops->load[nest->dtype[k]]) return true;
    return false;
}

static bool is_direct(const sg_nest *nest) {
    for (int k = 0; k < nest->operands; k++)
        if (nest->dtype[k] != SG_F32 || nest->stride[k][nest->ndim - 1] != 1) return false;
    return true;
}

/* Short runs cost more than the steps between elements: a long dim along which the inputs are contiguous goes inside a
 * short one (three channels of a channels-last image). */
static void lengthen_runs(sg_nest *nest) {
    int inner = nest->ndim - 1;
    if (nest->size[inner] >= SHORT_RUN) return;
    for (int d = inner - 1; d >= 0; d--) {
        if (nest->size[d] < 4 * SHORT_RUN || (nest->operands > 1 && nest->stride[1][d] != 1)) continue;
        sg_nest_move_inside(nest, d);
        return;
    }
}

static void make_tuple(const sg_loops *loops, tuple *t, int operands, const sg_desc *const *descs) {
    t->nest = sg_nest_make(operands, descs);
    t->in_double = needs_double(loops, &t->nest);
    if (t->in_double) return;
    if (t->nest.size[t->nest.ndim - 1] < LONG_RUN)
        t->period = sg_nest_join_periodic(&t->nest, MOST_PERIOD, t->period_stride);
    if (!t->period) lengthen_runs(&t->nest);
    t->direct = is_direct(&t->nest);
}

static void choose_loop(const sg_loops *loops, elementwise *e) {
    switch (e->flavour) {
    case ONE: e->one = loops->unary[e->fn]; break;
    case SLOPE: e->two = loops->unary_bwd[e->fn]; break;
    case TWO: e->two = loops->binary[e->fn]; break;
    case THREE: e->three = loops->ternary[e->fn]; break;
    case CONVERT: break;
    }
}

static void free_elementwise(void *state) {
    elementwise *e = state;
    if (!e) return;
    free(e->first);
    free(e);
}

static flavour flavour_of(const sg_op *op) {
    switch ((sg_op_kind)op->kind) {
    case SG_OP_COPY: return CONVERT;
    case SG_OP_UNARY_BWD: return SLOPE;
    default: return (flavour[]){CONVERT, ONE, TWO, THREE}[sg_fn_arity((sg_fn)op->attrs.fn)];
    }
}

sg_code sg_prepare_elementwise(sg_device *device, sg_plan *plan, sg_status *status) {
    const sg_op *op = &plan->op;
    int64_t count = op->kind == SG_OP_FOREACH ? op->attrs.count : 1;
    sg_code code = sg_plan_state(plan, sizeof(elementwise) + (size_t)count * sizeof(tuple), status);
    if (code != SG_OK) return code;
    elementwise *e = plan->state;
    plan->free_state = free_elementwise;
    plan->run = run_elementwise;
    e->flavour = flavour_of(op);
    e->inputs = e->flavour == CONVERT || e->flavour == ONE ? 1 : e->flavour == THREE ? 3 : 2;
    e->fn = e->flavour == CONVERT ? SG_FN_NONE : (sg_fn)op->attrs.fn;
    e->count = count;
    e->grain = is_costly(e->fn) ? GRAIN_COSTLY : GRAIN_CHEAP;
    choose_loop(device->loops, e);
    e->first = calloc((size_t)count + 1, sizeof *e->first);
    if (!e->first) return sg_fail_memory(status, (size_t)(count + 1) * sizeof *e->first, "an element-wise plan");
    for (int64_t i = 0; i < count; i++) {
        const sg_desc *descs[SG_NEST_OPERANDS] = {sg_out(plan, (int)i)};
        for (int k = 0; k < e->inputs; k++) descs[k + 1] = sg_in(plan, (int)(k * count + i));
        make_tuple(device->loops, &e->tuples[i], e->inputs + 1, descs);
        e->first[i + 1] = e->first[i] + e->tuples[i].nest.count;
    }
    e->total = e->first[count];
    return SG_OK;
}
