/* adamw.c: ADAMW over a list of parameters in one pass, split over threads by elements. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/nest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1024, GRAIN = 8192 };

typedef enum operand { P, G, M, V, OPERANDS } operand;

typedef struct adamw {
    int64_t count, total;
    int64_t *first;
    sg_nest nests[]; /* operands p, g, m, v */
} adamw;

typedef struct job {
    const sg_call *call;
    const adamw *a;
    sg_adamw_step step;
} job;

static void update(const job *job, const sg_nest *nest, char *const *at, const int64_t *stride, int64_t n) {
    const sg_loops *loops = job->call->device->loops;
    float buffer[OPERANDS][CHUNK];
    for (int64_t done = 0; done < n; done += CHUNK) {
        int64_t now = n - done < CHUNK ? n - done : CHUNK;
        float *x[OPERANDS];
        bool direct[OPERANDS];
        for (int k = 0; k < OPERANDS; k++) {
            char *from = at[k] + done * stride[k] * nest->bytes[k];
            direct[k] = nest->dtype[k] == SG_F32 && stride[k] == 1;
            x[k] = direct[k] ? (float *)(void *)from : buffer[k];
            if (!direct[k]) loops->load[nest->dtype[k]](buffer[k], from, now, stride[k]);
        }
        loops->adamw(x[P], x[G], x[M], x[V], now, &job->step);
        for (int k = 0; k < OPERANDS; k++)
            if (!direct[k] && k != G)
                loops->store[nest->dtype[k]](at[k] + done * stride[k] * nest->bytes[k], buffer[k], now, stride[k]);
    }
}

static bool is_one_run(const sg_nest *nest) {
    for (int k = 0; k < OPERANDS; k++)
        if (nest->dtype[k] != SG_F32 || nest->stride[k][0] != 1) return false;
    return nest->ndim == 1;
}

static void work_tensor(const job *job, int64_t tensor, int64_t begin, int64_t end) {
    const sg_nest *nest = &job->a->nests[tensor];
    char *base[OPERANDS];
    for (int k = 0; k < OPERANDS; k++) base[k] = sg_in_at(job->call, (int)(k * job->a->count + tensor));
    if (is_one_run(nest)) {
        float *x[OPERANDS];
        for (int k = 0; k < OPERANDS; k++) x[k] = (float *)(void *)base[k] + begin;
        job->call->device->loops->adamw(x[P], x[G], x[M], x[V], end - begin, &job->step);
        return;
    }
    int64_t stride[OPERANDS];
    for (int k = 0; k < OPERANDS; k++) stride[k] = nest->stride[k][nest->ndim - 1];
    sg_nest_place place;
    sg_nest_seek(nest, begin, &place);
    while (begin < end) {
        int64_t n = sg_nest_run(nest, &place);
        if (n > end - begin) n = end - begin;
        char *at[OPERANDS];
        for (int k = 0; k < OPERANDS; k++) at[k] = base[k] + place.offset[k];
        update(job, nest, at, stride, n);
        sg_nest_advance(nest, &place, n);
        begin += n;
    }
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const adamw *a = job->a;
    (void)thread;
    for (int64_t tensor = 0; tensor < a->count && begin < end; tensor++) {
        if (a->first[tensor + 1] <= begin) continue;
        int64_t stop = a->first[tensor + 1] < end ? a->first[tensor + 1] : end;
        work_tensor(job, tensor, begin - a->first[tensor], stop - a->first[tensor]);
        begin = stop;
    }
}

static sg_adamw_step step_of(const sg_attrs *attrs, uint64_t step) {
    double t = (double)step;
    bool coupled = (attrs->flags & SG_COUPLED_DECAY) != 0;
    sg_adamw_step s = {
        .keep = coupled ? 1 : (float)(1 - attrs->lr * attrs->weight_decay),
        .couple = coupled ? (float)attrs->weight_decay : 0,
        .beta1 = (float)attrs->beta1,
        .one_minus_1 = (float)(1 - attrs->beta1),
        .beta2 = (float)attrs->beta2,
        .one_minus_2 = (float)(1 - attrs->beta2),
        .step_size = (float)(attrs->lr / (1 - pow(attrs->beta1, t))),
        .inverse_correction2 = (float)(1 / sqrt(1 - pow(attrs->beta2, t))),
        .eps = (float)attrs->eps,
    };
    return s;
}

static sg_code run_adamw(const sg_call *call) {
    const adamw *a = call->plan->state;
    if (call->launch->step < 1)
        return sg_fail(call->status, SG_BAD_INPUT, "AdamW was launched for step 0: optimizer steps count from 1");
    job job = {.call = call, .a = a, .step = step_of(&call->plan->op.attrs, call->launch->step)};
    sg_parallel(call->device->threads, a->total, GRAIN, work, &job);
    return SG_OK;
}

static void free_adamw(void *state) {
    adamw *a = state;
    if (a) free(a->first);
    free(a);
}

sg_code sg_prepare_adamw(sg_device *device, sg_plan *plan, sg_status *status) {
    int64_t count = plan->op.attrs.count;
    sg_code code = sg_plan_state(plan, sizeof(adamw) + (size_t)count * sizeof(sg_nest), status);
    if (code != SG_OK) return code;
    adamw *a = plan->state;
    plan->free_state = free_adamw;
    plan->run = run_adamw;
    a->count = count;
    a->first = calloc((size_t)count + 1, sizeof *a->first);
    if (!a->first) return sg_fail_memory(status, (size_t)(count + 1) * sizeof *a->first, "an AdamW plan");
    for (int64_t i = 0; i < count; i++) {
        const sg_desc *descs[OPERANDS];
        for (int k = 0; k < OPERANDS; k++) {
            descs[k] = sg_in(plan, (int)(k * count + i));
            if (!device->loops->load[descs[k]->dtype])
                return sg_refuse(&plan->op, "AdamW runs in fp32, not fp64", status);
        }
        a->nests[i] = sg_nest_make(OPERANDS, descs);
        a->first[i + 1] = a->first[i] + a->nests[i].count;
    }
    a->total = a->first[count];
    return SG_OK;
}
