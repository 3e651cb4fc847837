/* loader_real.c: see loader_real.h.
 *
 * As PyTorch's loader with persistent workers: batch i of an epoch is made by worker i mod workers, prefetch x workers are under
 * way or ready beside the one in the caller's hands, and an epoch's first batches are asked for when the caller wants the first
 * of them: the queue runs empty at every boundary. On a device with pinned memory a thread copies each batch there as soon as
 * it is made, as pin_memory's thread does. Each worker has places for the batches that it may be ahead, and for one that the caller holds. */
#include "sim/loader/loader_real.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "sim/loader/loader_count.h"
#include "sim/measure/host_state.h"

struct sg_real_loader {
    sg_loader_options options;
    sg_workers *workers;
    int64_t window, epoch_batches;
    int64_t ring, places; /* batches that the memory of one worker holds, and of all */
    int64_t taken, asked; /* batches, counted over all epochs */
    double opened_s, first_batch_s;
    sg_loader_count count;

    /* pinned copies; the thread shares `asked` and what follows, under the mutex */
    void ***pinned;
    sg_made_batch *made; /* by place */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool has_lock, has_thread, stop;
    int64_t copied;
    sg_status failure; /* code not SG_OK: the thread has ended with it */
};

/* ---- life -------------------------------------------------------------------------------------------------------- */

static sg_code check(const sg_loader_options *o, sg_status *status) {
    if (o->source->samples < 1) return sg_fail(status, SG_BAD_INPUT, "opening a loader: the data set holds no samples");
    if (o->training->batch < 1) return sg_fail(status, SG_BAD_INPUT, "opening a loader: the policy takes no batches");
    return SG_OK;
}

/* A worker writes to its own places alone, in turn: it has touched all of them soon. */
static int64_t place_of(const sg_real_loader *l, int64_t batch) {
    int64_t workers = l->options.workers > 0 ? l->options.workers : 1;
    int64_t epoch = batch / l->epoch_batches, index = batch % l->epoch_batches, worker = index % workers;
    int64_t of_epoch = (l->epoch_batches - worker + workers - 1) / workers;
    return worker * l->ring + (epoch * of_epoch + index / workers) % l->ring;
}

static void ask_more(sg_real_loader *l) {
    int64_t end = (l->taken / l->epoch_batches + 1) * l->epoch_batches;
    if (l->taken + l->window < end) end = l->taken + l->window;
    for (; l->asked < end; l->asked++)
        sg_workers_ask(l->workers, l->asked / l->epoch_batches, l->asked % l->epoch_batches, place_of(l, l->asked));
}

sg_code sg_real_loader_open(const sg_loader_options *options, sg_real_loader **loader, sg_status *status) {
    sg_code code = check(options, status);
    if (code) return code;
    sg_real_loader *l = calloc(1, sizeof *l);
    if (!l) return sg_fail_memory(status, sizeof *l, "a loader");
    l->options = *options;
    l->opened_s = sg_clock_s();
    bool in_line = options->workers == 0;
    l->window = in_line ? 1 : (int64_t)options->workers * options->prefetch;
    l->ring = (in_line ? 1 : options->prefetch) + 1;
    l->places = l->ring * (in_line ? 1 : options->workers);
    const sg_workers_options workers = {
        .training = options->training,
        .source = options->source,
        .processes = in_line ? 1 : options->workers,
        .places = l->places,
        .order = {options->source->samples, options->training->batch, options->seed, options->rank, options->ranks},
        .hang_s = options->hang_s,
        .stop = options->stop};
    l->epoch_batches = sg_order_batches(&workers.order);
    code = sg_workers_open(&workers, &l->workers, status);
    if (code) {
        sg_real_loader_close(l);
        return code;
    }
    if (!in_line) ask_more(l);
    *loader = l;
    return SG_OK;
}

static void stop_thread(sg_real_loader *l) {
    if (!l->has_lock) return;
    (void)pthread_mutex_lock(&l->mutex);
    l->stop = true;
    (void)pthread_cond_broadcast(&l->changed);
    (void)pthread_mutex_unlock(&l->mutex);
    if (l->has_thread) (void)pthread_join(l->thread, NULL);
    (void)pthread_cond_destroy(&l->changed);
    (void)pthread_mutex_destroy(&l->mutex);
}

static void free_pinned(sg_real_loader *l) {
    for (int64_t p = 0; l->pinned && p < l->places; p++) {
        for (size_t i = 0; l->pinned[p] && i < l->options.training->n_inputs; i++)
            if (l->pinned[p][i]) l->options.api->host_free(l->options.device, l->pinned[p][i]);
        free(l->pinned[p]);
    }
    free(l->pinned);
    free(l->made);
}

void sg_real_loader_close(sg_real_loader *l) {
    if (!l) return;
    stop_thread(l);
    sg_workers_close(l->workers);
    free_pinned(l);
    free(l);
}

/* ---- pinned memory ----------------------------------------------------------------------------------------------- */

static size_t bytes_of(const sg_real_loader *l, size_t input) {
    const sg_training *t = l->options.training;
    return sg_desc_span_bytes(&t->tensors[t->inputs[input].tensor].desc);
}

static bool is_stopped(void *user) {
    sg_real_loader *l = user;
    (void)pthread_mutex_lock(&l->mutex);
    bool stop = l->stop;
    (void)pthread_mutex_unlock(&l->mutex);
    return stop;
}

static bool wait_until_asked(sg_real_loader *l, int64_t batch) {
    (void)pthread_mutex_lock(&l->mutex);
    while (!l->stop && batch >= l->asked) (void)pthread_cond_wait(&l->changed, &l->mutex);
    bool stop = l->stop;
    (void)pthread_mutex_unlock(&l->mutex);
    return !stop;
}

static void *copy_batches(void *user) {
    sg_real_loader *l = user;
    sg_status status = {0};
    sg_code code = SG_OK;
    for (int64_t batch = 0; !code && wait_until_asked(l, batch); batch++) {
        int64_t place = place_of(l, batch);
        sg_made_batch made;
        code = sg_workers_receive(l->workers, batch % l->epoch_batches, is_stopped, l, &made, &status);
        void *const *from = sg_workers_place(l->workers, place);
        for (size_t i = 0; !code && i < l->options.training->n_inputs; i++)
            if (from[i]) memcpy(l->pinned[place][i], from[i], bytes_of(l, i));
        (void)pthread_mutex_lock(&l->mutex);
        l->made[place] = made;
        l->failure = status;
        l->failure.code = code;
        if (!code) l->copied = batch + 1;
        (void)pthread_cond_broadcast(&l->changed);
        (void)pthread_mutex_unlock(&l->mutex);
    }
    return NULL;
}

static sg_code take_pinned(sg_real_loader *l, sg_status *status) {
    const sg_training *t = l->options.training;
    l->pinned = calloc((size_t)l->places, sizeof *l->pinned);
    l->made = calloc((size_t)l->places, sizeof *l->made);
    if (!l->pinned || !l->made) return sg_fail_memory(status, (size_t)l->places * sizeof *l->made, "a loader's queue");
    for (int64_t p = 0; p < l->places; p++) {
        l->pinned[p] = calloc(t->n_inputs + 1, sizeof **l->pinned);
        if (!l->pinned[p]) return sg_fail_memory(status, t->n_inputs * sizeof **l->pinned, "a loader's queue");
        for (size_t i = 0; i < t->n_inputs; i++) {
            if (t->inputs[i].source == SG_INPUT_STORAGE) continue;
            sg_code code = l->options.api->host_alloc(l->options.device, bytes_of(l, i) ? bytes_of(l, i) : 1,
                                                      &l->pinned[p][i], status);
            if (code) return sg_fail_in(status, "a batch's %s", t->inputs[i].name);
        }
    }
    return SG_OK;
}

sg_code sg_real_loader_use_device(sg_real_loader *l, const sg_device_api *api, sg_device *device, sg_status *status) {
    if (!api || !api->host_alloc) return SG_OK;
    l->options.api = api;
    l->options.device = device;
    sg_code code = take_pinned(l, status);
    if (code) return code;
    if (pthread_mutex_init(&l->mutex, NULL)) return sg_fail(status, SG_MACHINE, "a loader: no mutex");
    if (pthread_cond_init(&l->changed, NULL)) {
        (void)pthread_mutex_destroy(&l->mutex);
        return sg_fail(status, SG_MACHINE, "a loader: no condition variable");
    }
    l->has_lock = true;
    int error = pthread_create(&l->thread, NULL, copy_batches, l);
    if (error) return sg_fail(status, SG_MACHINE, "starting a loader's copying thread: %s", strerror(error));
    l->has_thread = true;
    return SG_OK;
}

static sg_code wait_for_copy(sg_real_loader *l, sg_made_batch *made, sg_status *status) {
    (void)pthread_mutex_lock(&l->mutex);
    (void)pthread_cond_broadcast(&l->changed); /* more was asked for */
    while (l->copied <= l->taken && !l->failure.code) (void)pthread_cond_wait(&l->changed, &l->mutex);
    sg_code code = l->copied > l->taken ? SG_OK : l->failure.code;
    if (code) *status = l->failure;
    *made = l->made[place_of(l, l->taken)];
    (void)pthread_mutex_unlock(&l->mutex);
    return code;
}

/* ---- the caller's side ------------------------------------------------------------------------------------------- */

static void ask(sg_real_loader *l) {
    if (l->has_lock) (void)pthread_mutex_lock(&l->mutex);
    ask_more(l);
    if (!l->has_lock) return;
    (void)pthread_cond_broadcast(&l->changed);
    (void)pthread_mutex_unlock(&l->mutex);
}

static void account(sg_real_loader *l, const sg_made_batch *made, double wait_s) {
    if (l->taken == 0) l->first_batch_s = made->end_s - l->opened_s;
    if (l->taken > 0 && l->taken % l->epoch_batches == 0) {
        l->count.epochs++;
        l->count.epoch_wait_s += wait_s;
    }
    sg_loader_count_batch(&l->count, made);
}

sg_code sg_real_loader_next(sg_real_loader *l, void *const **data, sg_status *status) {
    double start = sg_clock_s();
    sg_made_batch made;
    int64_t place = place_of(l, l->taken);
    ask(l);
    sg_code code = l->has_thread
                       ? wait_for_copy(l, &made, status)
                       : sg_workers_receive(l->workers, l->taken % l->epoch_batches, NULL, NULL, &made, status);
    if (code) return code;
    account(l, &made, sg_clock_s() - start);
    *data = l->has_thread ? l->pinned[place] : sg_workers_place(l->workers, place);
    l->taken++;
    if (l->options.workers > 0 && l->taken % l->epoch_batches != 0) ask(l);
    return SG_OK;
}

int64_t sg_real_loader_epoch(const sg_real_loader *l) {
    return l->taken / l->epoch_batches;
}

const sg_workers *sg_real_loader_workers(const sg_real_loader *l) {
    return l->workers;
}

/* ---- what it cost ------------------------------------------------------------------------------------------------ */

void sg_real_loader_count_from_here(sg_real_loader *l) {
    l->count = (sg_loader_count){0};
}

void sg_real_loader_tell(const sg_real_loader *l, sg_loader_record *record) {
    sg_loader_count_tell(&l->count, record);
    record->first_batch_s = l->first_batch_s;
    record->worker_bytes = sg_workers_private_bytes(l->workers);
    record->processors = sg_host_processors();
    record->prefetch = l->options.prefetch;
}
