/* loader.c: see loader.h.
 *
 * Batch i is made by worker i mod workers, in slot i mod (window + 1): `window` = prefetch x workers batches may be under
 * way or ready, and one more is in the caller's hands. One mutex guards everything but the slot's contents, which belong
 * to the worker until it says that they are ready. */
#include "sim/loader/loader.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim/loader/batch_maker.h"
#include "sim/loader/loader_real.h"
#include "sim/measure/point.h"

typedef struct slot {
    void **data;
    int64_t ready; /* batch that it holds; -1: none */
} slot;

typedef struct worker {
    struct sg_loader *loader;
    pthread_t thread;
    int number;
    sg_batch_hand hand;
} worker;

struct sg_loader {
    sg_loader_options options;
    int64_t window;
    sg_batch_maker maker;
    slot *slots;
    worker *workers; /* at least one: in line it has no thread */
    int started;     /* threads */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool has_lock, stop;
    int64_t taken; /* batches that the caller has got */
    double frame_s[SG_BATCH_FRAMES_KEPT];
    int64_t frames;

    /* simulated */
    double *worker_free_s; /* when each worker is free */
    double *taken_s;       /* when the last `window` batches were taken */
    double last_s;         /* the caller's clock at the last call */

    sg_real_loader *real; /* real batches: it does everything */
};

/* ---- simulated --------------------------------------------------------------------------------------------------- */

static double batch_s(const sg_loader *l) {
    const sg_training *t = l->options.training;
    double frames = (double)t->batch * (double)t->cameras * (double)t->frames_per_sample;
    return frames * l->options.frame_s + (double)t->batch * l->options.sample_s;
}

/* A virtual clock was set back: what was under way goes back with it. */
static void set_back(sg_loader *l, double seconds) {
    for (int i = 0; i < l->options.workers; i++) l->worker_free_s[i] -= seconds;
    for (int64_t i = 0; i < l->window; i++) l->taken_s[i] -= seconds;
}

/* A batch starts when its worker is free and the batch `window` before it has been taken. */
static double simulate(sg_loader *l, double now) {
    if (l->options.workers == 0) return batch_s(l);
    if (now < l->last_s) set_back(l, l->last_s - now);
    if (l->taken == 0)
        for (int i = 0; i < l->options.workers; i++) l->worker_free_s[i] = now;
    double *free_s = &l->worker_free_s[l->taken % l->options.workers], *taken_s = &l->taken_s[l->taken % l->window];
    double start = l->taken < l->window ? *free_s : fmax(*free_s, *taken_s);
    *free_s = start + batch_s(l);
    double wait = fmax(0, *free_s - now);
    *taken_s = l->last_s = now + wait;
    l->taken++;
    return wait;
}

static sg_code open_simulated(sg_loader *l, sg_status *status) {
    l->worker_free_s = calloc((size_t)l->options.workers + 1, sizeof(double));
    l->taken_s = calloc((size_t)l->window + 1, sizeof(double));
    if (!l->worker_free_s || !l->taken_s) return sg_fail_memory(status, (uint64_t)l->window * 8, "a loader's queue");
    return SG_OK;
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static bool is_stopped(void *user) {
    sg_loader *l = user;
    (void)pthread_mutex_lock(&l->mutex);
    bool stop = l->stop;
    (void)pthread_mutex_unlock(&l->mutex);
    return stop;
}

/* The lock is held. */
static void record_frames(sg_loader *l, const sg_batch_hand *hand, int64_t before) {
    int64_t first = hand->frames - before > SG_BATCH_FRAMES_KEPT ? hand->frames - SG_BATCH_FRAMES_KEPT : before;
    for (int64_t i = first; i < hand->frames; i++)
        l->frame_s[l->frames++ % SG_BATCH_FRAMES_KEPT] = hand->frame_s[i % SG_BATCH_FRAMES_KEPT];
}

static void *work(void *user) {
    worker *w = user;
    sg_loader *l = w->loader;
    for (int64_t i = w->number;; i += l->options.workers) {
        slot *s = &l->slots[i % (l->window + 1)];
        (void)pthread_mutex_lock(&l->mutex);
        while (!l->stop && i >= l->taken + l->window) (void)pthread_cond_wait(&l->changed, &l->mutex);
        bool stop = l->stop;
        (void)pthread_mutex_unlock(&l->mutex);
        if (stop) return NULL;
        int64_t before = w->hand.frames;
        sg_batch_make(&l->maker, &w->hand, i, s->data, is_stopped, l);
        (void)pthread_mutex_lock(&l->mutex);
        s->ready = i;
        record_frames(l, &w->hand, before);
        (void)pthread_cond_broadcast(&l->changed);
        (void)pthread_mutex_unlock(&l->mutex);
    }
}

static sg_code open_slots(sg_loader *l, sg_status *status) {
    int64_t n = l->window + 1;
    int hands = l->options.workers > 0 ? l->options.workers : 1;
    l->slots = calloc((size_t)n, sizeof *l->slots);
    l->workers = calloc((size_t)hands, sizeof *l->workers);
    if (!l->slots || !l->workers) return sg_fail_memory(status, (uint64_t)n * sizeof *l->slots, "a loader's queue");
    for (int64_t i = 0; i < n; i++) l->slots[i].ready = -1;
    sg_code code = SG_OK;
    for (int64_t i = 0; i < n && !code; i++) code = sg_batch_new(&l->maker, &l->slots[i].data, status);
    for (int i = 0; i < hands && !code; i++) {
        l->workers[i].loader = l;
        l->workers[i].number = i;
        code = sg_batch_hand_open(&l->maker, &l->workers[i].hand, status);
    }
    return code;
}

static sg_code open_running(sg_loader *l, sg_status *status) {
    const sg_loader_options *o = &l->options;
    sg_code code = sg_batch_maker_open(o->training, o->seed, o->rank, o->ranks, &l->maker, status);
    l->maker.fixed = o->fixed;
    l->maker.api = o->api;
    l->maker.device = o->device;
    if (!code) code = open_slots(l, status);
    if (code) return code;
    if (pthread_mutex_init(&l->mutex, NULL)) return sg_fail(status, SG_MACHINE, "a loader: no mutex");
    if (pthread_cond_init(&l->changed, NULL)) {
        (void)pthread_mutex_destroy(&l->mutex);
        return sg_fail(status, SG_MACHINE, "a loader: no condition variable");
    }
    l->has_lock = true;
    for (; l->started < o->workers; l->started++) {
        int error = pthread_create(&l->workers[l->started].thread, NULL, work, &l->workers[l->started]);
        if (error)
            return sg_fail(status, SG_MACHINE, "starting worker %d of %d of a loader: %s", l->started + 1, o->workers,
                           strerror(error));
    }
    return SG_OK;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static sg_code check(const sg_loader_options *o, sg_status *status) {
    if (!o->training) return sg_fail(status, SG_BAD_INPUT, "opening a loader: no training was given");
    if (o->workers < 0 || o->workers > 1024)
        return sg_fail(status, SG_BAD_INPUT, "opening a loader: %d workers, must be 0 to 1024", o->workers);
    if (o->prefetch < 0 || o->prefetch > SG_PREFETCH_MAX)
        return sg_fail(status, SG_BAD_INPUT, "opening a loader: prefetch of %d batches, must be 0 to %d", o->prefetch,
                       SG_PREFETCH_MAX);
    if (o->ranks < 0 || o->rank < 0 || o->rank >= (o->ranks ? o->ranks : 1))
        return sg_fail(status, SG_BAD_INPUT, "opening a loader: rank %d of %d", o->rank, o->ranks);
    if (o->source && (o->simulated || o->fixed))
        return sg_fail(status, SG_BAD_INPUT,
                       "opening a loader: real batches are neither simulated nor always the same");
    if (!(o->frame_s >= 0) || !(o->sample_s >= 0))
        return sg_fail(status, SG_BAD_INPUT, "opening a loader: a frame of %g s, a sample of %g s", o->frame_s,
                       o->sample_s);
    return SG_OK;
}

sg_code sg_loader_open(const sg_loader_options *options, sg_loader **loader, sg_status *status) {
    *loader = NULL;
    sg_status unheard;
    if (!status) status = &unheard;
    sg_code code = check(options, status);
    if (code) return code;
    sg_loader *l = calloc(1, sizeof *l);
    if (!l) return sg_fail_memory(status, sizeof *l, "a loader");
    l->options = *options;
    if (!l->options.prefetch) l->options.prefetch = SG_PREFETCH;
    if (!l->options.ranks) l->options.ranks = 1;
    l->window = (int64_t)l->options.workers * l->options.prefetch;
    code = options->source      ? sg_real_loader_open(&l->options, &l->real, status)
           : options->simulated ? open_simulated(l, status)
                                : open_running(l, status);
    if (code) {
        sg_loader_close(l);
        return code;
    }
    *loader = l;
    return SG_OK;
}

static void stop_workers(sg_loader *l) {
    (void)pthread_mutex_lock(&l->mutex);
    l->stop = true;
    (void)pthread_cond_broadcast(&l->changed);
    (void)pthread_mutex_unlock(&l->mutex);
    for (int i = 0; i < l->started; i++) (void)pthread_join(l->workers[i].thread, NULL);
    (void)pthread_cond_destroy(&l->changed);
    (void)pthread_mutex_destroy(&l->mutex);
}

void sg_loader_close(sg_loader *l) {
    if (!l) return;
    sg_real_loader_close(l->real);
    if (l->has_lock) stop_workers(l);
    int hands = l->options.workers > 0 ? l->options.workers : 1;
    for (int i = 0; l->workers && i < hands; i++) sg_batch_hand_close(&l->maker, &l->workers[i].hand);
    for (int64_t i = 0; l->slots && i <= l->window; i++) sg_batch_free(&l->maker, l->slots[i].data);
    sg_batch_maker_close(&l->maker);
    free(l->worker_free_s);
    free(l->taken_s);
    free(l->workers);
    free(l->slots);
    free(l);
}

/* ---- the caller's side ------------------------------------------------------------------------------------------- */

static void make_in_line(sg_loader *l) {
    sg_batch_hand *hand = &l->workers[0].hand;
    int64_t before = hand->frames;
    sg_batch_make(&l->maker, hand, l->taken, l->slots[0].data, NULL, NULL);
    record_frames(l, hand, before);
    l->taken++;
}

sg_code sg_loader_next(sg_loader *l, double now, void *const **data, double *wait_s, sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    *wait_s = 0;
    *data = NULL;
    if (l->real) return sg_real_loader_next(l->real, data, status);
    if (l->options.simulated) {
        *wait_s = simulate(l, now);
        return SG_OK;
    }
    if (l->options.workers == 0) {
        make_in_line(l);
        *data = l->slots[0].data;
        return SG_OK;
    }
    slot *s = &l->slots[l->taken % (l->window + 1)];
    (void)pthread_mutex_lock(&l->mutex);
    while (s->ready != l->taken) (void)pthread_cond_wait(&l->changed, &l->mutex);
    l->taken++;
    (void)pthread_cond_broadcast(&l->changed);
    (void)pthread_mutex_unlock(&l->mutex);
    *data = s->data;
    return SG_OK;
}

static int ascending(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

sg_code sg_loader_use_device(sg_loader *l, const sg_device_api *api, sg_device *device, sg_status *status) {
    return l->real ? sg_real_loader_use_device(l->real, api, device, status) : SG_OK;
}

int64_t sg_loader_epoch(const sg_loader *l) {
    return l->real ? sg_real_loader_epoch(l->real) : 0;
}

void sg_loader_count_from_here(sg_loader *l) {
    if (l->real) sg_real_loader_count_from_here(l->real);
}

void sg_loader_tell(const sg_loader *l, sg_loader_record *record) {
    *record = (sg_loader_record){0};
    if (l->real) sg_real_loader_tell(l->real, record);
}

double sg_loader_processes_s(const sg_loader *l) {
    return l->real ? sg_workers_cpu_s(sg_real_loader_workers(l->real)) : 0;
}

int sg_loader_process(const sg_loader *l, int worker) {
    return l->real ? sg_workers_process(sg_real_loader_workers(l->real), worker) : 0;
}

double sg_loader_frame_s(sg_loader *l) {
    if (l->options.simulated) return l->options.frame_s;
    if (l->real) {
        sg_loader_record record;
        sg_loader_tell(l, &record);
        return record.frame_cpu_s;
    }
    double sorted[SG_BATCH_FRAMES_KEPT];
    (void)pthread_mutex_lock(&l->mutex);
    size_t n = l->frames < SG_BATCH_FRAMES_KEPT ? (size_t)l->frames : SG_BATCH_FRAMES_KEPT;
    memcpy(sorted, l->frame_s, n * sizeof *sorted);
    (void)pthread_mutex_unlock(&l->mutex);
    if (n == 0) return 0;
    qsort(sorted, n, sizeof *sorted, ascending);
    return sorted[n / 2];
}
