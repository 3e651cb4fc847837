/* watch.c: the thread that watches the other ranks. Rank 0's hears of every loss first and tells the rest. */
#include "kernels/tcp/greet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

sg_tcp_name sg_tcp_name_of(int rank, const char *host, int64_t pid) {
    sg_tcp_name name;
    (void)snprintf(name.text, sizeof name.text, "rank %d (%s, pid %lld)", rank, host, (long long)pid);
    return name;
}

static sg_tcp_name name_of(const sg_tcp_peer *p) {
    return sg_tcp_name_of(p->rank, p->host, p->pid);
}

/* ---- what other threads ask and see -------------------------------------------------------------------------------------- */

static void raise_event(int fd) {
    const uint64_t one = 1;
    (void)!write(fd, &one, sizeof one);
}

void sg_tcp_lose(sg_tcp_world *world, const char *why) {
    (void)pthread_mutex_lock(&world->mutex);
    bool first = !world->is_lost;
    if (first) {
        (void)snprintf(world->why, sizeof world->why, "%s", why);
        world->is_lost = true;
    }
    (void)pthread_cond_broadcast(&world->changed);
    (void)pthread_mutex_unlock(&world->mutex);
    if (first) raise_event(world->lost_event);
    raise_event(world->wake_event);
}

bool sg_tcp_lost(sg_transport *self, char *why, size_t bytes) {
    sg_tcp_world *world = (sg_tcp_world *)self;
    if (!world->is_lost) return false;
    (void)pthread_mutex_lock(&world->mutex);
    if (bytes) (void)snprintf(why, bytes, "%s", world->why);
    (void)pthread_mutex_unlock(&world->mutex);
    return true;
}

sg_code sg_tcp_check(sg_tcp_world *world, sg_status *status) {
    char why[SG_TCP_WHY_BYTES];
    if (!sg_tcp_lost(&world->base, why, sizeof why)) return SG_OK;
    return sg_fail(status, SG_MACHINE, "%s", why);
}

/* Waits under the mutex until *done or the time is over. */
static void wait_until(sg_tcp_world *world, const bool *done, double limit_s) {
    struct timespec end;
    (void)clock_gettime(CLOCK_REALTIME, &end);
    double whole = (double)(time_t)limit_s;
    end.tv_sec += (time_t)whole;
    end.tv_nsec += (long)((limit_s - whole) * 1e9);
    if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
    int late = 0;
    while (!*done && late != ETIMEDOUT) late = pthread_cond_timedwait(&world->changed, &world->mutex, &end);
}

void sg_tcp_abort(sg_transport *self, const char *why) {
    sg_tcp_world *world = (sg_tcp_world *)self;
    sg_tcp_name own = sg_tcp_name_of(world->base.rank, world->host, getpid());
    char text[SG_TCP_WHY_BYTES];
    (void)snprintf(text, sizeof text, "%s gave up: %s", own.text, why && *why ? why : "no reason given");
    sg_tcp_clean(text, sizeof text);
    if (world->is_watched) {
        (void)pthread_mutex_lock(&world->mutex);
        if (!world->is_lost && !world->wants_abort) {
            memcpy(world->abort_why, text, sizeof text);
            world->wants_abort = true;
            raise_event(world->wake_event);
        }
        if (world->wants_abort) wait_until(world, &world->has_aborted, 1);
        (void)pthread_mutex_unlock(&world->mutex);
    }
    sg_tcp_lose(world, text); /* also when the watcher did not get to it */
}

void sg_tcp_part(sg_tcp_world *world) {
    (void)pthread_mutex_lock(&world->mutex);
    world->wants_leave = true;
    raise_event(world->wake_event);
    if (!world->is_lost) wait_until(world, &world->has_left, world->timeout_s);
    (void)pthread_mutex_unlock(&world->mutex);
}

/* ---- the watching thread -------------------------------------------------------------------------------------------------- */

typedef struct sg_tcp_watch {
    sg_tcp_world *world;
    struct pollfd *ready; /* the wake event, then the peers */
    double beat_s, next_beat_s;
    bool said_bye;
} watch;

/* What does not fit a peer's buffer is dropped: a peer that reads nothing for so long is silent to us too. */
static void put(sg_tcp_peer *p, sg_tcp_news news, const char *text) {
    sg_tcp_head head = {(uint32_t)news, (uint32_t)strlen(text)};
    if (p->gone || p->n_out + sizeof head + head.bytes > sizeof p->out) return;
    memcpy(p->out + p->n_out, &head, sizeof head);
    memcpy(p->out + p->n_out + sizeof head, text, head.bytes);
    p->n_out += sizeof head + head.bytes;
}

static void flush(sg_tcp_peer *p) {
    while (p->n_out > 0 && !p->gone) {
        ssize_t n = send(p->fd[SG_TCP_WATCH], p->out, p->n_out, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return; /* full: later; broken: reading finds out */
        memmove(p->out, p->out + n, p->n_out - (size_t)n);
        p->n_out -= (size_t)n;
    }
}

static void put_all(sg_tcp_world *world, sg_tcp_news news, const char *text) {
    for (int i = 0; i < world->n_peers; i++) {
        put(&world->peer[i], news, text);
        flush(&world->peer[i]);
    }
}

/* The others hear of it before this rank's own calls end, for this process may then end too. */
static void lose(watch *w, const char *why) {
    if (w->world->is_lost) return;
    if (w->world->base.rank == 0) put_all(w->world, SG_TCP_LOST, why);
    sg_tcp_lose(w->world, why);
}

static void lose_peer(watch *w, sg_tcp_peer *p, const char *how) {
    char why[SG_TCP_WHY_BYTES];
    p->gone = true;
    (void)snprintf(why, sizeof why, "%s %s", name_of(p).text, how);
    lose(w, why);
}

static void take_news(watch *w, sg_tcp_peer *p, sg_tcp_head head, char *text) {
    text[head.bytes] = 0;
    sg_tcp_clean(text, head.bytes + 1);
    switch (head.news) {
    case SG_TCP_BYE: p->said_bye = true; break;
    case SG_TCP_LOST:
    case SG_TCP_ABORT: lose(w, text); break;
    default: break;
    }
}

/* Complete messages of the peer's buffer. False: this is no message of ours. */
static bool take_all_news(watch *w, sg_tcp_peer *p) {
    sg_tcp_head head;
    while (p->n_in >= sizeof head) {
        memcpy(&head, p->in, sizeof head);
        if (head.news < SG_TCP_ALIVE || head.news > SG_TCP_BYE || head.bytes >= SG_TCP_WHY_BYTES) return false;
        size_t whole = sizeof head + head.bytes;
        if (p->n_in < whole) return true;
        char text[SG_TCP_WHY_BYTES];
        memcpy(text, p->in + sizeof head, head.bytes);
        memmove(p->in, p->in + whole, p->n_in - whole);
        p->n_in -= whole;
        take_news(w, p, head, text);
    }
    return true;
}

/* A rank that said goodbye may go; one that did not is lost. */
static void closed(watch *w, sg_tcp_peer *p) {
    if (p->said_bye)
        p->gone = true;
    else
        lose_peer(w, p, "is gone: its connection was closed, so it ended or was killed; see what it or its host says");
}

static void hear(watch *w, sg_tcp_peer *p) {
    for (;;) {
        ssize_t n = recv(p->fd[SG_TCP_WATCH], p->in + p->n_in, sizeof p->in - p->n_in, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            closed(w, p);
            return;
        }
        p->n_in += (size_t)n;
        p->heard_s = sg_tcp_now_s();
        if (!take_all_news(w, p)) {
            lose_peer(w, p, "sent what is no message of a rank: do both run the same version?");
            return;
        }
    }
}

static void judge_silence(watch *w, double now) {
    for (int i = 0; i < w->world->n_peers; i++) {
        sg_tcp_peer *p = &w->world->peer[i];
        if (p->gone || now - p->heard_s < w->world->silence_s) continue;
        char how[96];
        (void)snprintf(how, sizeof how, "hangs: nothing was heard of it for %.3g s; it or its host has stopped",
                       w->world->silence_s);
        lose_peer(w, p, how);
    }
}

static bool all_said_bye(const sg_tcp_world *world) {
    for (int i = 0; i < world->n_peers; i++)
        if (!world->peer[i].said_bye && !world->peer[i].gone) return false;
    return true;
}

static bool all_is_sent(const sg_tcp_world *world) {
    for (int i = 0; i < world->n_peers; i++)
        if (world->peer[i].n_out > 0 && !world->peer[i].gone) return false;
    return true;
}

/* Does what other threads want; false when the watch is over. */
static bool serve(watch *w) {
    sg_tcp_world *world = w->world;
    (void)pthread_mutex_lock(&world->mutex);
    bool wants_end = world->wants_end, wants_leave = world->wants_leave;
    bool aborts = world->wants_abort && !world->has_aborted;
    (void)pthread_mutex_unlock(&world->mutex);
    if (wants_end) return false;
    bool may_go = world->base.rank != 0 || all_said_bye(world);
    if (wants_leave && may_go && !w->said_bye) {
        put_all(world, SG_TCP_BYE, "");
        w->said_bye = true;
    }
    if (aborts) {
        put_all(world, world->base.rank == 0 ? SG_TCP_LOST : SG_TCP_ABORT, world->abort_why);
        sg_tcp_lose(world, world->abort_why); /* before others end because of it, and look like the reason */
    }
    bool has_left = w->said_bye && all_said_bye(world) && all_is_sent(world);
    (void)pthread_mutex_lock(&world->mutex);
    world->has_aborted = world->has_aborted || aborts;
    world->has_left = has_left;
    (void)pthread_cond_broadcast(&world->changed);
    (void)pthread_mutex_unlock(&world->mutex);
    return true;
}

static void beat(watch *w, double now) {
    if (now < w->next_beat_s) return;
    w->next_beat_s = now + w->beat_s;
    put_all(w->world, SG_TCP_ALIVE, "");
}

static void wait_for_news(watch *w) {
    sg_tcp_world *world = w->world;
    w->ready[0] = (struct pollfd){.fd = world->wake_event, .events = POLLIN};
    for (int i = 0; i < world->n_peers; i++) {
        const sg_tcp_peer *p = &world->peer[i];
        short events = (short)(POLLIN | (p->n_out > 0 ? POLLOUT : 0));
        w->ready[1 + i] = (struct pollfd){.fd = p->gone ? -1 : p->fd[SG_TCP_WATCH], .events = events};
    }
    double nap_s = w->next_beat_s - sg_tcp_now_s();
    (void)poll(w->ready, (nfds_t)world->n_peers + 1, nap_s > 0 ? (int)(nap_s * 1000) + 1 : 0);
    uint64_t count;
    if (w->ready[0].revents) (void)!read(world->wake_event, &count, sizeof count);
    for (int i = 0; i < world->n_peers; i++) {
        if (w->ready[1 + i].revents & POLLOUT) flush(&world->peer[i]);
        if (w->ready[1 + i].revents & ~POLLOUT) hear(w, &world->peer[i]);
    }
}

static void *run(void *user) {
    watch w = *(watch *)user;
    free(user);
    double before = sg_tcp_now_s();
    while (serve(&w)) {
        double now = sg_tcp_now_s();
        /* a host that slept, or was too busy to run even this thread, has heard nobody; that is not their silence */
        if (now - before > 0.5 * w.world->silence_s)
            for (int i = 0; i < w.world->n_peers; i++) w.world->peer[i].heard_s = now;
        before = now;
        beat(&w, now);
        judge_silence(&w, now);
        wait_for_news(&w);
    }
    free(w.ready);
    return NULL;
}

sg_code sg_tcp_watch_start(sg_tcp_world *world, sg_status *status) {
    watch *w = calloc(1, sizeof *w);
    struct pollfd *ready = calloc((size_t)world->n_peers + 1, sizeof *ready);
    if (!w || !ready) {
        free(w);
        free(ready);
        return sg_fail_memory(status, sizeof *w, "watching the other ranks");
    }
    *w = (watch){.world = world, .ready = ready, .beat_s = world->silence_s / 5 < 1 ? world->silence_s / 5 : 1};
    for (int i = 0; i < world->n_peers; i++) world->peer[i].heard_s = sg_tcp_now_s();
    /* signals are for the threads that know what to do with them */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    world->is_watched = pthread_create(&world->watcher, NULL, run, w) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (world->is_watched) return SG_OK;
    free(w);
    free(ready);
    return sg_fail(status, SG_MACHINE, "cannot start the thread that watches the other ranks: close other programs");
}

void sg_tcp_watch_end(sg_tcp_world *world) {
    if (!world->is_watched) return;
    (void)pthread_mutex_lock(&world->mutex);
    world->wants_end = true;
    (void)pthread_mutex_unlock(&world->mutex);
    raise_event(world->wake_event);
    (void)pthread_join(world->watcher, NULL);
    world->is_watched = false;
}
