#include "kernels/cpu/queue.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 1024 };

typedef struct slot {
    sg_job job;
    _Alignas(16) char bytes[SG_JOB_BYTES];
} slot;

struct sg_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    uint64_t pushed, done; /* tickets are 1, 2, ... */
    bool closing, failed, ended;
    sg_status failure;
    slot slots[SLOTS];
};

static void *work(void *context) {
    sg_queue *q = context;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (q->done == q->pushed && !q->closing) pthread_cond_wait(&q->changed, &q->lock);
        if (q->closing) break;
        slot taken = q->slots[q->done % SLOTS];
        bool skip = q->failed;
        pthread_mutex_unlock(&q->lock);
        sg_status status = {0};
        sg_code code = skip ? SG_OK : taken.job(taken.bytes, &status);
        pthread_mutex_lock(&q->lock);
        if (code != SG_OK && !q->failed) {
            q->failed = true;
            q->failure = status;
        }
        q->done++;
        pthread_cond_broadcast(&q->changed);
    }
    q->ended = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return NULL;
}

sg_code sg_queue_open(sg_queue **queue, sg_status *status) {
    *queue = NULL;
    sg_queue *q = calloc(1, sizeof *q);
    if (!q) return sg_fail_memory(status, sizeof *q, "the communicator thread");
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    int error = pthread_create(&q->thread, NULL, work, q);
    if (error) {
        pthread_cond_destroy(&q->changed);
        pthread_mutex_destroy(&q->lock);
        free(q);
        return sg_fail(status, SG_MACHINE, "cannot start the communicator thread: %s", strerror(error));
    }
    *queue = q;
    return SG_OK;
}

static sg_code report(const sg_queue *q, sg_status *status) {
    return sg_fail(status, q->failure.code, "%s", q->failure.text);
}

sg_code sg_queue_push(sg_queue *queue, sg_job job, const void *bytes, size_t n, uint64_t *ticket, sg_status *status) {
    if (n > SG_JOB_BYTES) return sg_fail(status, SG_MACHINE, "a job of %zu bytes does not fit the queue's slots", n);
    pthread_mutex_lock(&queue->lock);
    while (queue->pushed - queue->done == SLOTS && !queue->failed) pthread_cond_wait(&queue->changed, &queue->lock);
    sg_code code = queue->failed ? report(queue, status) : SG_OK;
    if (code == SG_OK) {
        slot *to = &queue->slots[queue->pushed % SLOTS];
        to->job = job;
        if (n > 0) memcpy(to->bytes, bytes, n);
        queue->pushed++;
        if (ticket) *ticket = queue->pushed;
        pthread_cond_broadcast(&queue->changed);
    }
    pthread_mutex_unlock(&queue->lock);
    return code;
}

uint64_t sg_queue_last(sg_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    uint64_t last = queue->pushed;
    pthread_mutex_unlock(&queue->lock);
    return last;
}

bool sg_queue_is_done(sg_queue *queue, uint64_t ticket) {
    pthread_mutex_lock(&queue->lock);
    bool done = queue->done >= ticket;
    pthread_mutex_unlock(&queue->lock);
    return done;
}

static struct timespec deadline_after(double seconds) {
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    double whole = floor(seconds);
    at.tv_sec += (time_t)whole;
    at.tv_nsec += (long)((seconds - whole) * 1e9);
    if (at.tv_nsec >= 1000000000L) {
        at.tv_nsec -= 1000000000L;
        at.tv_sec++;
    }
    return at;
}

sg_code sg_queue_wait(sg_queue *queue, uint64_t ticket, double timeout_s, sg_status *status) {
    struct timespec deadline = deadline_after(timeout_s > 0 && timeout_s < 1e8 ? timeout_s : 1e8);
    int error = 0;
    pthread_mutex_lock(&queue->lock);
    while (queue->done < ticket && !queue->failed && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
    sg_code code = SG_OK;
    if (queue->failed)
        code = report(queue, status);
    else if (queue->done < ticket)
        code = sg_fail(status, SG_MACHINE,
                       "a collective did not complete within %g s: another rank has died or fallen behind", timeout_s);
    pthread_mutex_unlock(&queue->lock);
    return code;
}

void sg_queue_fail(sg_queue *queue, const char *why) {
    pthread_mutex_lock(&queue->lock);
    if (!queue->failed) {
        queue->failed = true;
        (void)sg_fail(&queue->failure, SG_MACHINE, "%s", why);
    }
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

bool sg_queue_drain(sg_queue *queue, uint64_t ticket, double timeout_s) {
    struct timespec deadline = deadline_after(timeout_s);
    int error = 0;
    pthread_mutex_lock(&queue->lock);
    while (queue->done < ticket && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
    bool done = queue->done >= ticket;
    pthread_mutex_unlock(&queue->lock);
    return done;
}

void sg_queue_close(sg_queue *queue) {
    enum { PATIENCE_S = 2 };
    if (!queue) return;
    struct timespec deadline = deadline_after(PATIENCE_S);
    int error = 0;
    pthread_mutex_lock(&queue->lock);
    queue->closing = true;
    pthread_cond_broadcast(&queue->changed);
    while (!queue->ended && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&queue->changed, &queue->lock, &deadline);
    bool ended = queue->ended;
    pthread_mutex_unlock(&queue->lock);
    if (!ended) {
        pthread_detach(queue->thread);
        return;
    }
    pthread_join(queue->thread, NULL);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}
