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

enum { CHUNK = 1024, GRAIN_CHEAP = 16384, GRAIN_COSTLY = 4096 };

typedef enum flavour { CONVERT, ONE, SLOPE, TWO, THREE } flavour;

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
    int64_t *first;  /* count + 1: elements before each tuple */
    bool *in_double; /* by tuple */
    sg_nest nests[]; /* count */
} elementwise;

/* One run: addresses and strides (elements) of the output and the inputs. */
typedef struct run {
    char *at[SG_NEST_OPERANDS];
    int64_t stride[SG_NEST_OPERANDS];
    int64_t n;
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
        if (w != x[0]) memcpy(w, x[0], (size_t)n * sizeof *w);
        break;
    }
}

/* Passes buffers through `apply`: what is not contiguous fp32 is loaded, repeated elements once per run. */
static void run_buffered(const job *job, const sg_nest *nest, const run *r) {
    const sg_loops *loops = job->call->device->loops;
    const elementwise *e = job->e;
    float buffer[SG_NEST_OPERANDS][CHUNK];
    const float *x[SG_NEST_OPERANDS - 1] = {0};
    bool direct[SG_NEST_OPERANDS];
    int64_t widest = r->n < CHUNK ? r->n : CHUNK;
    for (int k = 0; k <= e->inputs; k++) {
        direct[k] = nest->dtype[k] == SG_F32 && r->stride[k] == 1;
        if (k == 0 || r->stride[k] != 0) continue;
        float value = 0;
        loops->load[nest->dtype[k]](&value, r->at[k], 1, 1);
        loops->fill(buffer[k], widest, value);
    }
    for (int64_t at = 0; at < r->n; at += CHUNK) {
        int64_t n = r->n - at < CHUNK ? r->n - at : CHUNK;
        for (int k = 1; k <= e->inputs; k++) {
            const char *from = r->at[k] + at * r->stride[k] * nest->bytes[k];
            x[k - 1] = direct[k] ? (const float *)(const void *)from : buffer[k];
            if (!direct[k] && r->stride[k] != 0) loops->load[nest->dtype[k]](buffer[k], from, n, r->stride[k]);
        }
        char *to = r->at[0] + at * r->stride[0] * nest->bytes[0];
        if (direct[0]) {
            apply(job, (float *)(void *)to, x, n);
        } else if (e->flavour == CONVERT) {
            loops->store[nest->dtype[0]](to, x[0], n, r->stride[0]);
        } else {
            apply(job, buffer[0], x, n);
            loops->store[nest->dtype[0]](to, buffer[0], n, r->stride[0]);
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

static bool is_direct(const sg_nest *nest) {
    for (int k = 0; k < nest->operands; k++)
        if (nest->dtype[k] != SG_F32 || nest->stride[k][nest->ndim - 1] != 1) return false;
    return true;
}

/* ---- tuples ----------------------------------------------------------------------------------------------------------- */

static void work_tuple(const job *job, int64_t tuple, int64_t begin, int64_t end) {
    const elementwise *e = job->e;
    const sg_nest *nest = &e->nests[tuple];
    char *base[SG_NEST_OPERANDS];
    base[0] = sg_out_at(job->call, (int)tuple);
    for (int k = 0; k < e->inputs; k++) base[k + 1] = sg_in_at(job->call, (int)(k * e->count + tuple));
    bool direct = is_direct(nest), in_double = e->in_double[tuple];
    sg_nest_place place;
    sg_nest_seek(nest, begin, &place);
    run r;
    for (int k = 0; k <= e->inputs; k++) r.stride[k] = nest->stride[k][nest->ndim - 1];
    for (int64_t at = begin; at < end; at += r.n) {
        r.n = sg_nest_run(nest, &place);
        if (r.n > end - at) r.n = end - at;
        for (int k = 0; k <= e->inputs; k++) r.at[k] = base[k] + place.offset[k];
        if (in_double) {
            run_in_double(job, nest, &r);
        } else if (direct) {
            const float *x[SG_NEST_OPERANDS - 1];
            for (int k = 0; k < e->inputs; k++) x[k] = (const float *)(const void *)r.at[k + 1];
            apply(job, (float *)(void *)r.at[0], x, r.n);
        } else {
            run_buffered(job, nest, &r);
        }
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
    int64_t tuple = tuple_of(e->first, e->count, begin);
    while (begin < end) {
        int64_t stop = e->first[tuple + 1] < end ? e->first[tuple + 1] : end;
        work_tuple(job, tuple, begin - e->first[tuple], stop - e->first[tuple]);
        begin = stop;
        tuple++;
    }
}

static sg_code run_elementwise(const sg_call *call) {
    const elementwise *e = call->plan->state;
    const sg_attrs *attrs = &call->plan->op.attrs;
    job job = {.call = call, .e = e, .alpha = sg_alpha_at(attrs, call->launch), .beta = attrs->beta};
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
    free(e->in_double);
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
    sg_code code = sg_plan_state(plan, sizeof(elementwise) + (size_t)count * sizeof(sg_nest), status);
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
    e->in_double = calloc((size_t)count, sizeof *e->in_double);
    if (!e->first || !e->in_double) return sg_fail_memory(status, (size_t)count * 9, "an element-wise plan");
    for (int64_t i = 0; i < count; i++) {
        const sg_desc *descs[SG_NEST_OPERANDS] = {sg_out(plan, (int)i)};
        for (int k = 0; k < e->inputs; k++) descs[k + 1] = sg_in(plan, (int)(k * count + i));
        e->nests[i] = sg_nest_make(e->inputs + 1, descs);
        e->in_double[i] = needs_double(device->loops, &e->nests[i]);
        e->first[i + 1] = e->first[i] + e->nests[i].count;
    }
    e->total = e->first[count];
    return SG_OK;
}

double sg_alpha_at(const sg_attrs *attrs, const sg_launch *launch) {
    double step = (double)launch->step;
    if (attrs->flags & SG_STEP_SIZE) return -attrs->lr / (1 - pow(attrs->beta1, step));
    if (attrs->flags & SG_STEP_SQRT) return sqrt(1 - pow(attrs->beta2, step));
    return attrs->alpha;
}
