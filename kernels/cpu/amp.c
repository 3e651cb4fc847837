/* amp.c: the passes of a loss scaler: gradients are freed of the scale and looked at, then the scale is adapted. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/nest.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { CHUNK = 1024, GRAIN = 16384 };

typedef struct unscale {
    int64_t count, total;
    int64_t *first; /* count + 1: elements before each tensor */
    sg_nest nests[];
} unscale;

typedef struct job {
    const sg_call *call;
    const unscale *u;
    float inverse;
    atomic_bool found;
} job;

static bool all_finite(const float *x, int64_t n) {
    bool finite = true;
    for (int64_t i = 0; i < n; i++) finite = finite && isfinite(x[i]);
    return finite;
}

static bool multiply(const job *job, const sg_nest *nest, char *at, int64_t stride, int64_t n) {
    const sg_loops *loops = job->call->device->loops;
    float buffer[CHUNK];
    bool finite = true;
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t now = n - done < CHUNK ? n - done : CHUNK;
        char *from = at + done * stride * nest->bytes[0];
        loops->load[nest->dtype[0]](buffer, from, now, stride);
        finite = all_finite(buffer, now) && finite;
        for (int64_t i = 0; i < now; i++) buffer[i] *= job->inverse;
        loops->store[nest->dtype[0]](from, buffer, now, stride);
    }
    return finite;
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    job *job = context;
    const unscale *u = job->u;
    bool finite = true;
    (void)thread;
    for (int64_t tensor = 0; tensor < u->count && begin < end; tensor++) {
        const sg_nest *nest = &u->nests[tensor];
        int64_t stop = u->first[tensor + 1] < end ? u->first[tensor + 1] : end;
        if (stop <= begin) continue;
        sg_nest_place place;
        sg_nest_seek(nest, begin - u->first[tensor], &place);
        while (begin < stop) {
            int64_t n = sg_nest_run(nest, &place);
            if (n > stop - begin) n = stop - begin;
            char *at = (char *)sg_in_at(job->call, (int)tensor) + place.offset[0];
            finite = multiply(job, nest, at, nest->stride[0][nest->ndim - 1], n) && finite;
            sg_nest_advance(nest, &place, n);
            begin += n;
        }
    }
    if (!finite) atomic_store(&job->found, true);
}

static sg_code run_unscale(const sg_call *call) {
    const unscale *u = call->plan->state;
    const float *inverse = sg_in_at(call, (int)u->count + 1);
    float *found = sg_in_at(call, (int)u->count);
    job job = {.call = call, .u = u, .inverse = *inverse};
    sg_parallel(call->device->threads, u->total, GRAIN, work, &job);
    if (atomic_load(&job.found)) *found = 1;
    return SG_OK;
}

static void free_unscale(void *state) {
    unscale *u = state;
    if (u) free(u->first);
    free(u);
}

sg_code sg_prepare_amp_unscale(sg_device *device, sg_plan *plan, sg_status *status) {
    int64_t count = plan->op.attrs.count;
    sg_code code = sg_plan_state(plan, sizeof(unscale) + (size_t)count * sizeof(sg_nest), status);
    if (code != SG_OK) return code;
    unscale *u = plan->state;
    plan->free_state = free_unscale;
    plan->run = run_unscale;
    u->count = count;
    u->first = calloc((size_t)count + 1, sizeof *u->first);
    if (!u->first) return sg_fail_memory(status, (size_t)(count + 1) * sizeof *u->first, "a plan of the loss scaler");
    for (int64_t i = 0; i < count; i++) {
        const sg_desc *desc = sg_in(plan, (int)i);
        if (!device->loops->load[desc->dtype])
            return sg_refuse(&plan->op, "the loss scaler runs in fp32, not fp64", status);
        u->nests[i] = sg_nest_make(1, &desc);
        u->first[i + 1] = u->first[i] + u->nests[i].count;
    }
    u->total = u->first[count];
    return SG_OK;
}

static sg_code run_update(const sg_call *call) {
    const sg_attrs *a = &call->plan->op.attrs;
    float *scale = sg_in_at(call, 0);
    int32_t *tracker = sg_in_at(call, 1);
    const float *found = sg_in_at(call, 2);
    if (*found != 0) {
        *scale *= (float)a->beta;
        *tracker = 0;
    } else if (++*tracker == a->count) {
        float grown = *scale * (float)a->alpha;
        if (isfinite(grown)) *scale = grown;
        *tracker = 0;
    }
    return SG_OK;
}

sg_code sg_prepare_amp_update(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run_update;
    return SG_OK;
}
