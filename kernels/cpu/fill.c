/* fill.c: FILL, IOTA, PAD and CUMSUM. */
#include "kernels/cpu/move.h"
#include "kernels/cpu/scalar.h"

#include <stdlib.h>
#include <string.h>

enum { GRAIN = 32768 };

/* ---- one value everywhere ------------------------------------------------------------------------------------------------ */

typedef struct filler {
    sg_nest nest;
    char element[8];  /* the value as the dtype holds it */
    sg_move interior; /* PAD */
} filler;

typedef struct fill_job {
    const sg_call *call;
    const filler *f;
} fill_job;

static void fill_run(char *to, const char *element, int64_t n, int64_t step, int64_t bytes) {
    if (bytes == 1 && step == 1) {
        memset(to, element[0], (size_t)n);
        return;
    }
    switch (bytes) {
    case 1:
        for (int64_t i = 0; i < n; i++) to[i * step] = element[0];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * step, element, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * step, element, 4);
        break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * step, element, 8);
        break;
    }
}

static void fill_work(void *context, int64_t begin, int64_t end, int thread) {
    const fill_job *job = context;
    const sg_nest *nest = &job->f->nest;
    (void)thread;
    char *y = sg_out_at(job->call, 0);
    int64_t bytes = nest->bytes[0], stride = nest->stride[0][nest->ndim - 1];
    sg_nest_place place;
    sg_nest_seek(nest, begin, &place);
    while (begin < end) {
        int64_t n = sg_nest_run(nest, &place);
        if (n > end - begin) n = end - begin;
        char *at = y + place.offset[0];
        if (nest->dtype[0] == SG_F32 && stride == 1) {
            float value;
            memcpy(&value, job->f->element, sizeof value);
            job->call->device->loops->fill((float *)(void *)at, n, value);
        } else {
            fill_run(at, job->f->element, n, stride * bytes, bytes);
        }
        sg_nest_advance(nest, &place, n);
        begin += n;
    }
}

static sg_code run_fill(const sg_call *call) {
    fill_job job = {call, call->plan->state};
    sg_parallel(call->device->threads, job.f->nest.count, GRAIN, fill_work, &job);
    return SG_OK;
}

sg_code sg_prepare_fill(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    sg_code code = sg_plan_state(plan, sizeof(filler), status);
    if (code != SG_OK) return code;
    filler *f = plan->state;
    const sg_desc *y = sg_out(plan, 0);
    plan->run = run_fill;
    f->nest = sg_nest_make(1, &y);
    sg_scalar_store((sg_dtype)y->dtype, f->element, plan->op.attrs.alpha);
    return SG_OK;
}

static void pad_work(void *context, int64_t begin, int64_t end, int thread) {
    const fill_job *job = context;
    (void)thread;
    sg_move_work(job->call->device->loops, &job->f->interior, sg_out_at(job->call, 0), sg_in_at(job->call, 0), begin,
                 end);
}

static sg_code run_pad(const sg_call *call) {
    fill_job job = {call, call->plan->state};
    const sg_move *interior = &job.f->interior;
    sg_parallel(call->device->threads, job.f->nest.count, GRAIN, fill_work, &job);
    int64_t per_item = interior->nest.count / interior->items;
    sg_parallel(call->device->threads, interior->items, GRAIN / (per_item < GRAIN ? per_item : GRAIN), pad_work, &job);
    return SG_OK;
}

sg_code sg_prepare_pad(sg_device *device, sg_plan *plan, sg_status *status) {
    sg_code code = sg_prepare_fill(device, plan, status);
    if (code != SG_OK) return code;
    filler *f = plan->state;
    const sg_desc *x = sg_in(plan, 0), *y = sg_out(plan, 0);
    sg_desc part = *y;
    int64_t at = 0;
    memcpy(part.size, x->size, sizeof part.size);
    for (int i = 0; i < 2; i++) at += plan->op.attrs.pad[i] * y->stride[y->ndim - 2 + i];
    f->interior = sg_move_make(&part, x, at * (int64_t)sg_dtype_bytes((sg_dtype)y->dtype));
    plan->run = run_pad;
    return SG_OK;
}

/* ---- along one dim ------------------------------------------------------------------------------------------------------- */

/* All lines of a tensor along one dim. */
typedef struct lines {
    int64_t count, length;
    int64_t to_step, from_step; /* bytes along the line */
    sg_nest starts;             /* of the lines: operand 0 = output, 1 = input */
    double start, step;         /* IOTA */
} lines;

typedef struct line_job {
    const sg_call *call;
    const lines *l;
} line_job;

static void line_work(void *context, int64_t begin, int64_t end, int thread) {
    const line_job *job = context;
    const lines *l = job->l;
    (void)thread;
    const sg_plan *plan = job->call->plan;
    bool sums = plan->op.kind == SG_OP_CUMSUM;
    sg_dtype to_dtype = (sg_dtype)sg_out(plan, 0)->dtype,
             from_dtype = sums ? (sg_dtype)sg_in(plan, 0)->dtype : to_dtype;
    sg_nest_place place;
    sg_nest_seek(&l->starts, begin, &place);
    for (; begin < end; begin++) {
        char *to = (char *)sg_out_at(job->call, 0) + place.offset[0];
        const char *from = sums ? (const char *)sg_in_at(job->call, 0) + place.offset[1] : NULL;
        double sum = 0;
        for (int64_t i = 0; i < l->length; i++) {
            if (sums)
                sum += sg_scalar_load(from_dtype, from + i * l->from_step);
            else
                sum = l->start + l->step * (double)i;
            sg_scalar_store(to_dtype, to + i * l->to_step, sum);
        }
        sg_nest_advance(&l->starts, &place, 1);
    }
}

static sg_code run_lines(const sg_call *call) {
    line_job job = {call, call->plan->state};
    sg_parallel(call->device->threads, job.l->count, GRAIN / 8 / job.l->length, line_work, &job);
    return SG_OK;
}

/* The descriptor without dim `dim`. */
static sg_desc without_dim(const sg_desc *desc, int dim) {
    sg_desc out = {.dtype = desc->dtype, .ndim = desc->ndim - 1};
    for (int d = 0; d < out.ndim; d++) {
        out.size[d] = desc->size[d + (d >= dim)];
        out.stride[d] = desc->stride[d + (d >= dim)];
    }
    return out;
}

static sg_code prepare_lines(sg_plan *plan, int dim, sg_status *status) {
    sg_code code = sg_plan_state(plan, sizeof(lines), status);
    if (code != SG_OK) return code;
    lines *l = plan->state;
    const sg_desc *y = sg_out(plan, 0), *x = plan->op.n_in > 0 ? sg_in(plan, 0) : y;
    sg_desc to = without_dim(y, dim), from = without_dim(x, dim);
    const sg_desc *descs[2] = {&to, &from};
    plan->run = run_lines;
    l->starts = sg_nest_make(2, descs);
    l->count = l->starts.count;
    l->length = y->size[dim];
    l->to_step = y->stride[dim] * (int64_t)sg_dtype_bytes((sg_dtype)y->dtype);
    l->from_step = x->stride[dim] * (int64_t)sg_dtype_bytes((sg_dtype)x->dtype);
    l->start = plan->op.attrs.alpha;
    l->step = plan->op.attrs.beta;
    return SG_OK;
}

sg_code sg_prepare_iota(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    return prepare_lines(plan, sg_out(plan, 0)->ndim - 1, status);
}

sg_code sg_prepare_cumsum(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    return prepare_lines(plan, plan->op.attrs.dim, status);
}
