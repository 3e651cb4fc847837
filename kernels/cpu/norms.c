/* norms.c: NORM_ALL: the 2-norm of every tensor of a list. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/nest.h"

#include <math.h>
#include <stdlib.h>

/* Tensors in pieces of this many elements: sums do not depend on the number of threads. */
enum { PIECE = 65536, CHUNK = 1024 };

typedef struct norms {
    int64_t count, pieces;
    int64_t *first; /* count + 1: pieces before each tensor */
    sg_nest nests[];
} norms;

typedef struct norm_job {
    const sg_call *call;
    const norms *n;
    double *partial;
} norm_job;

static double piece_squares(const norm_job *job, int64_t tensor, int64_t begin, int64_t end) {
    const sg_loops *loops = job->call->device->loops;
    const sg_nest *nest = &job->n->nests[tensor];
    int64_t stride = nest->stride[0][nest->ndim - 1];
    sg_dtype dtype = (sg_dtype)nest->dtype[0];
    double total = 0;
    float buffer[CHUNK];
    sg_nest_place place;
    sg_nest_seek(nest, begin, &place);
    while (begin < end) {
        const char *x = (const char *)sg_in_at(job->call, (int)tensor) + place.offset[0];
        int64_t n = sg_nest_run(nest, &place);
        if (n > end - begin) n = end - begin;
        if (dtype == SG_F32 && stride == 1) {
            total += loops->sum_squares((const float *)(const void *)x, n);
        } else {
            if (n > CHUNK) n = CHUNK;
            loops->load[dtype](buffer, x, n, stride);
            total += loops->sum_squares(buffer, n);
        }
        sg_nest_advance(nest, &place, n);
        begin += n;
    }
    return total;
}

static void norm_work(void *context, int64_t begin, int64_t end, int thread) {
    const norm_job *job = context;
    const norms *n = job->n;
    (void)thread;
    int64_t tensor = 0;
    for (int64_t piece = begin; piece < end; piece++) {
        while (n->first[tensor + 1] <= piece) tensor++;
        int64_t at = (piece - n->first[tensor]) * PIECE, count = n->nests[tensor].count;
        job->partial[piece] = piece_squares(job, tensor, at, at + PIECE < count ? at + PIECE : count);
    }
}

static sg_code run_norms(const sg_call *call) {
    const norms *n = call->plan->state;
    norm_job job = {call, n, (double *)(void *)call->workspace};
    sg_parallel(call->device->threads, n->pieces, 1, norm_work, &job);
    float *y = sg_out_at(call, 0);
    int64_t stride = sg_out(call->plan, 0)->stride[0];
    for (int64_t i = 0; i < n->count; i++) {
        double total = 0;
        for (int64_t piece = n->first[i]; piece < n->first[i + 1]; piece++) total += job.partial[piece];
        y[i * stride] = (float)sqrt(total);
    }
    return SG_OK;
}

static void free_norms(void *state) {
    norms *n = state;
    if (n) free(n->first);
    free(n);
}

sg_code sg_prepare_norm_all(sg_device *device, sg_plan *plan, sg_status *status) {
    int64_t count = plan->op.n_in;
    sg_code code = sg_plan_state(plan, sizeof(norms) + (size_t)count * sizeof(sg_nest), status);
    if (code != SG_OK) return code;
    norms *n = plan->state;
    plan->free_state = free_norms;
    plan->run = run_norms;
    n->count = count;
    n->first = calloc((size_t)count + 1, sizeof *n->first);
    if (!n->first) return sg_fail_memory(status, (size_t)(count + 1) * sizeof *n->first, "a plan of norms");
    for (int64_t i = 0; i < count; i++) {
        const sg_desc *x = sg_in(plan, (int)i);
        if (!device->loops->load[x->dtype]) return sg_refuse(&plan->op, "norms run in fp32, not fp64", status);
        n->nests[i] = sg_nest_make(1, &x);
        n->first[i + 1] = n->first[i] + (n->nests[i].count + PIECE - 1) / PIECE;
    }
    n->pieces = n->first[count];
    plan->workspace_bytes = sg_align((uint64_t)n->pieces * sizeof(double));
    return SG_OK;
}
