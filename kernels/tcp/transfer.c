#include "kernels/tcp/world.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* How long the watching thread may take to tell why a connection broke. */
static const double REASON_S = 2;

typedef enum sg_tcp_step { STEP_MOVED, STEP_WAITS, STEP_BROKEN } step;

static step advance(sg_tcp_channel channel, sg_tcp_transfer *t) {
    unsigned char *at = t->data + t->done;
    size_t left = t->bytes - t->done;
    int fd = t->peer->fd[channel];
    ssize_t n = t->sends ? send(fd, at, left, MSG_NOSIGNAL | MSG_DONTWAIT) : recv(fd, at, left, MSG_DONTWAIT);
    if (n > 0) {
        t->done += (size_t)n;
        return STEP_MOVED;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? STEP_WAITS : STEP_BROKEN;
}

/* A data connection broke: the watching thread knows better why, or will in a moment. */
static sg_code broken(sg_tcp_world *world, const sg_tcp_peer *peer, sg_status *status) {
    struct pollfd ready = {.fd = world->lost_event, .events = POLLIN};
    (void)poll(&ready, 1, (int)(REASON_S * 1000));
    char why[SG_TCP_WHY_BYTES];
    (void)snprintf(why, sizeof why, "%s closed its connection", sg_tcp_name_of(peer->rank, peer->host, peer->pid).text);
    sg_tcp_abort(&world->base, why);
    return sg_tcp_check(world, status);
}

static sg_code too_slow(sg_tcp_world *world, const sg_tcp_transfer *transfer, int n, const char *what,
                        sg_status *status) {
    char why[SG_TCP_WHY_BYTES];
    size_t used = (size_t)snprintf(why, sizeof why, "%s took longer than %g s, waiting for", what, world->patience_s);
    int named = 0;
    for (int i = 0; i < n && named < 3; i++) {
        const sg_tcp_peer *p = transfer[i].peer;
        if (transfer[i].done == transfer[i].bytes) continue;
        int more = snprintf(why + used, sizeof why - used, "%s%s", named ? ", " : " ",
                            sg_tcp_name_of(p->rank, p->host, p->pid).text);
        if (more > 0 && (size_t)more < sizeof why - used) used += (size_t)more;
        named++;
    }
    sg_tcp_abort(&world->base, why);
    return sg_tcp_check(world, status);
}

/* Moves what can be moved; *moved: something was. */
static sg_code pass(sg_tcp_world *world, sg_tcp_channel channel, sg_tcp_transfer *transfer, int n, bool *moved,
                    bool *done, sg_status *status) {
    *done = true;
    for (int i = 0; i < n; i++) {
        sg_tcp_transfer *t = &transfer[i];
        while (t->done < t->bytes) {
            step s = advance(channel, t);
            if (s == STEP_BROKEN) return broken(world, t->peer, status);
            if (s == STEP_WAITS) break;
            *moved = true;
        }
        *done = *done && t->done == t->bytes;
    }
    return SG_OK;
}

sg_code sg_tcp_move(sg_tcp_world *world, sg_tcp_channel channel, sg_tcp_transfer *transfer, int n, const char *what,
                    sg_status *status) {
    struct pollfd few[16], *ready = few;
    if (n + 1 > (int)(sizeof few / sizeof *few)) {
        ready = calloc((size_t)n + 1, sizeof *ready);
        if (!ready) return sg_fail_memory(status, ((size_t)n + 1) * sizeof *ready, what);
    }
    sg_code code = SG_OK;
    double end = sg_tcp_now_s() + world->patience_s;
    for (;;) {
        bool moved = false, done = false;
        code = sg_tcp_check(world, status);
        if (code == SG_OK) code = pass(world, channel, transfer, n, &moved, &done, status);
        if (code != SG_OK || done) break;
        double now = sg_tcp_now_s();
        if (moved) end = now + world->patience_s;
        if (now >= end) {
            code = too_slow(world, transfer, n, what, status);
            break;
        }
        ready[0] = (struct pollfd){.fd = world->lost_event, .events = POLLIN};
        for (int i = 0; i < n; i++) {
            bool open = transfer[i].done < transfer[i].bytes;
            ready[1 + i] = (struct pollfd){.fd = open ? transfer[i].peer->fd[channel] : -1,
                                           .events = transfer[i].sends ? POLLOUT : POLLIN};
        }
        double left = end - now;
        (void)poll(ready, (nfds_t)n + 1, left < 3600 ? (int)(left * 1000) + 1 : 3600000);
    }
    if (ready != few) free(ready);
    return code;
}
