/* loader.c: see loader.h. Batches in line, and the simulated queue. */
#include "sim/loader.h"

#include <math.h>
#include <stdlib.h>

#include "sim/synthetic.h"

struct sg_loader {
    sg_loader_options options;
    void **batch; /* per input */
    int64_t next; /* batch */
    /* simulated */
    double *worker_free_s; /* clock at which each worker is free */
    double *taken_s;       /* when the last prefetch x workers batches were taken */
    int64_t queue;
};

/* A loader's prefetch of 4 is LeRobot's default (facts: policies, loader defaults). */
static const int PREFETCH = 4;

static double batch_s(const sg_loader *l) {
    const sg_training *t = l->options.training;
    double frames = (double)t->batch * (double)t->cameras * (double)t->frames_per_sample;
    return frames * l->options.frame_s + (double)t->batch * l->options.sample_s;
}

/* Batch i is made by worker i % workers as soon as that worker is free and batch i - queue has been taken. */
static double simulate(sg_loader *l, double now) {
    if (l->options.workers == 0) return batch_s(l);
    if (l->next == 0)
        for (int i = 0; i < l->options.workers; i++) l->worker_free_s[i] = now;
    int64_t slot = l->next % l->queue;
    double *free_s = &l->worker_free_s[l->next % l->options.workers];
    double start = l->next < l->queue ? *free_s : fmax(*free_s, l->taken_s[slot]);
    double ready = start + batch_s(l);
    *free_s = ready;
    double wait = fmax(0, ready - now);
    l->taken_s[slot] = now + wait;
    l->next++;
    return wait;
}

static sg_code check(const sg_loader_options *o, sg_status *status) {
    if (!o->training) return sg_fail(status, SG_BAD_INPUT, "opening a loader: no training was given");
    if (o->workers < 0 || o->workers > 1024)
        return sg_fail(status, SG_BAD_INPUT, "opening a loader: %d workers, must be 0 to 1024", o->workers);
    if (o->prefetch < 0 || o->prefetch > 1024)
        return sg_fail(status, SG_BAD_INPUT, "opening a loader: prefetch of %d batches, must be 0 to 1024",
                       o->prefetch);
    if (o->ranks < 0 || (o->ranks > 0 && (o->rank < 0 || o->rank >= o->ranks)))
        return sg_fail(status, SG_BAD_INPUT, "opening a loader: rank %d of %d", o->rank, o->ranks);
    if (!(o->frame_s >= 0) || !(o->sample_s >= 0))
        return sg_fail(status, SG_BAD_INPUT, "opening a loader: a frame of %g s, a sample of %g s", o->frame_s,
                       o->sample_s);
    return SG_OK;
}

static sg_code open_simulated(sg_loader *l, sg_status *status) {
    l->queue = (int64_t)l->options.workers * l->options.prefetch;
    l->worker_free_s = calloc((size_t)l->options.workers + 1, sizeof(double));
    l->taken_s = calloc((size_t)l->queue + 1, sizeof(double));
    if (!l->worker_free_s || !l->taken_s) return sg_fail_memory(status, (uint64_t)l->queue * 8, "a loader's queue");
    return SG_OK;
}

static sg_code open_in_line(sg_loader *l, sg_status *status) {
    const sg_training *t = l->options.training;
    l->batch = calloc(t->n_inputs + 1, sizeof *l->batch);
    if (!l->batch) return sg_fail_memory(status, t->n_inputs * sizeof *l->batch, "a batch");
    for (size_t i = 0; i < t->n_inputs; i++) {
        if (t->inputs[i].source == SG_INPUT_STORAGE) continue;
        uint64_t bytes = sg_desc_span_bytes(&t->tensors[t->inputs[i].tensor].desc);
        l->batch[i] = calloc(1, bytes ? bytes : 1);
        if (!l->batch[i]) return sg_fail_memory(status, bytes, t->inputs[i].name);
    }
    return SG_OK;
}

sg_code sg_loader_open(const sg_loader_options *options, sg_loader **loader, sg_status *status) {
    *loader = NULL;
    sg_code code = check(options, status);
    if (code) return code;
    sg_loader *l = calloc(1, sizeof *l);
    if (!l) return sg_fail_memory(status, sizeof *l, "a loader");
    l->options = *options;
    if (!l->options.prefetch) l->options.prefetch = PREFETCH;
    if (!l->options.ranks) l->options.ranks = 1;
    code = options->simulated ? open_simulated(l, status) : open_in_line(l, status);
    if (code) {
        sg_loader_close(l);
        return code;
    }
    *loader = l;
    return SG_OK;
}

void sg_loader_close(sg_loader *l) {
    if (!l) return;
    for (size_t i = 0; l->batch && i < l->options.training->n_inputs; i++) free(l->batch[i]);
    free(l->batch);
    free(l->worker_free_s);
    free(l->taken_s);
    free(l);
}

sg_code sg_loader_next(sg_loader *l, double now, void *const **data, double *wait_s, sg_status *status) {
    (void)status;
    *wait_s = 0;
    *data = NULL;
    if (l->options.simulated) {
        *wait_s = simulate(l, now);
        return SG_OK;
    }
    const sg_training *t = l->options.training;
    for (size_t i = 0; i < t->n_inputs; i++) {
        if (!l->batch[i]) continue;
        const sg_input *in = &t->inputs[i];
        const sg_desc *d = &t->tensors[in->tensor].desc;
        sg_synthetic what = {.kind = SG_SYNTHETIC_UNIFORM,
                             .low = in->low,
                             .high = in->high,
                             .key = sg_synthetic_key(l->options.seed, l->options.fixed ? 0 : (uint64_t)l->next, i),
                             .first_sample = l->options.rank * (d->ndim ? d->size[0] : 1)};
        sg_synthetic_fill(l->batch[i], d, &what);
    }
    l->next++;
    *data = l->batch;
    return SG_OK;
}

double sg_loader_frame_s(const sg_loader *l) {
    return l->options.frame_s;
}
