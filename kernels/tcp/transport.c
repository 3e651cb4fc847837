#include "kernels/tcp/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A call waits for the slowest rank's whole step; joining only for its start. */
static const double PATIENCE_PER_TIMEOUT = 10, SILENCE_S = 30;

static void destroy(sg_tcp_world *w) {
    sg_tcp_watch_end(w);
    for (int i = 0; w->peer && i < w->n_peers; i++)
        for (int c = 0; c < SG_TCP_CHANNELS; c++)
            if (w->peer[i].fd[c] >= 0) (void)close(w->peer[i].fd[c]);
    if (w->lost_event >= 0) (void)close(w->lost_event);
    if (w->wake_event >= 0) (void)close(w->wake_event);
    (void)pthread_cond_destroy(&w->changed);
    (void)pthread_mutex_destroy(&w->mutex);
    free(w->scratch);
    free(w->peer);
    free(w);
}

static void leave(sg_transport *self) {
    sg_tcp_world *w = (sg_tcp_world *)self;
    if (w->is_watched) sg_tcp_part(w);
    destroy(w);
}

const sg_transport_api *sg_tcp_transport(void) {
    static const sg_transport_api api = {
        .abi = SG_TRANSPORT_ABI,
        .struct_bytes = sizeof(sg_transport_api),
        .all_reduce_mean = sg_tcp_all_reduce_mean,
        .all_gather = sg_tcp_all_gather,
        .reduce_scatter_mean = sg_tcp_reduce_scatter_mean,
        .barrier = sg_tcp_barrier,
        .broadcast = sg_tcp_broadcast,
        .gather_doubles = sg_tcp_gather_doubles,
        .lost = sg_tcp_lost,
        .abort = sg_tcp_abort,
        .leave = leave,
    };
    return &api;
}

static sg_code check_options(const sg_tcp_options *o, sg_status *status) {
    if (o->ranks < 1 || o->ranks > SG_TCP_RANKS_MOST || o->rank < 0 || o->rank >= o->ranks)
        return sg_fail(status, SG_BAD_INPUT, "rank %d of %d ranks cannot be", o->rank, o->ranks);
    if (!(o->timeout_s > 0 && o->timeout_s < 1e6) || !(o->patience_s >= 0 && o->patience_s < 1e7) ||
        !(o->silence_s >= 0 && o->silence_s < 1e6))
        return sg_fail(status, SG_BAD_INPUT, "ranks cannot join within %g s with %g s of patience", o->timeout_s,
                       o->patience_s);
    bool listens = o->rank == 0 && o->listener > 0;
    if (o->ranks > 1 && (!o->address || !*o->address || !o->secret || !*o->secret))
        return sg_fail(status, SG_BAD_INPUT, "%d ranks need an address to meet at and a secret of their own", o->ranks);
    if (o->ranks > 1 && !listens && (o->port < 1 || o->port > 65535 || o->ports < 0 || o->ports > 64))
        return sg_fail(status, SG_BAD_INPUT, "rank %d cannot meet rank 0 at port %d: give 1 to 65535", o->rank,
                       o->port);
    return SG_OK;
}

static sg_code create(const sg_tcp_options *o, sg_tcp_world **world, sg_status *status) {
    sg_tcp_world *w = calloc(1, sizeof *w);
    if (!w) return sg_fail_memory(status, sizeof *w, "joining ranks");
    w->base = (sg_transport){.api = sg_tcp_transport(), .rank = o->rank, .ranks = o->ranks};
    w->n_peers = o->ranks == 1 ? 0 : o->rank == 0 ? o->ranks - 1 : 1;
    w->timeout_s = o->timeout_s;
    w->patience_s = o->patience_s > 0 ? o->patience_s : o->timeout_s * PATIENCE_PER_TIMEOUT;
    /* rank 0 knows who is late; the others wait for its word */
    if (o->rank != 0) w->patience_s += 2;
    w->silence_s = o->silence_s > 0 ? o->silence_s : SILENCE_S;
    (void)pthread_mutex_init(&w->mutex, NULL);
    (void)pthread_cond_init(&w->changed, NULL);
    if (gethostname(w->host, sizeof w->host - 1) != 0 || !w->host[0]) (void)snprintf(w->host, sizeof w->host, "?");
    w->lost_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->wake_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    w->peer = calloc((size_t)w->n_peers + 1, sizeof *w->peer);
    for (int i = 0; w->peer && i < w->n_peers; i++) {
        w->peer[i].rank = o->rank == 0 ? i + 1 : 0;
        for (int c = 0; c < SG_TCP_CHANNELS; c++) w->peer[i].fd[c] = -1;
    }
    *world = w;
    if (!w->peer) return sg_fail_memory(status, (size_t)w->n_peers * sizeof *w->peer, "joining ranks");
    if (w->lost_event < 0 || w->wake_event < 0)
        return sg_fail(status, SG_MACHINE, "cannot watch ranks: %s: allow more open files (ulimit -n)",
                       strerror(errno));
    return SG_OK;
}

static sg_code meet(sg_tcp_world *w, const sg_tcp_options *o, sg_status *status) {
    int listener = o->listener, port = o->port;
    sg_code code = SG_OK;
    if (listener > 0)
        sg_tcp_tune(listener);
    else
        code = sg_tcp_listen_first(o, &listener, &port, status);
    return code == SG_OK ? sg_tcp_meet(w, o, listener, port, status) : code;
}

sg_code sg_tcp_join(const sg_tcp_options *o, sg_transport **self, sg_status *status) {
    *self = NULL;
    sg_code code = check_options(o, status);
    sg_tcp_world *w = NULL;
    if (code == SG_OK) code = create(o, &w, status);
    /* taken over in any case */
    if ((code != SG_OK || o->ranks == 1) && o->rank == 0 && o->listener > 0) (void)close(o->listener);
    if (code == SG_OK && o->ranks > 1) {
        code = o->rank == 0 ? meet(w, o, status) : sg_tcp_visit(w, o, status);
        if (code == SG_OK) code = sg_tcp_watch_start(w, status);
    }
    if (code == SG_OK)
        *self = &w->base;
    else if (w)
        destroy(w);
    return code;
}
