/* visit.c: a rank looks for rank 0, which may not be there yet, on ports where others may answer. */
#include "kernels/tcp/greet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long one attempt at one address may take: whoever is rank 0 answers at once. */
static const double ATTEMPT_S = 3;

/* Looking for rank 0 for one channel. */
typedef struct sg_tcp_search {
    sg_tcp_world *world;
    const sg_tcp_options *options;
    sg_tcp_key key;
    sg_tcp_channel channel;
    uint64_t visit;
    double end_s;
    int port, ports;     /* where to look */
    bool found, refused; /* refused: by rank 0 of this job itself, for good */
    char why[300];       /* nobody was found so far */
} search;

static bool exchange(int fd, void *data, size_t bytes, bool sends, double end_s) {
    unsigned char *at = data;
    while (bytes > 0) {
        ssize_t n = sends ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
        if (n > 0) {
            at += n;
            bytes -= (size_t)n;
            continue;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) return false;
        double left = end_s - sg_tcp_now_s();
        struct pollfd ready = {.fd = fd, .events = sends ? POLLOUT : POLLIN};
        if (left <= 0 || (poll(&ready, 1, (int)(left * 1000) + 1) < 0 && errno != EINTR)) return false;
    }
    return true;
}

/* Both know the secret and rank 0 wants this rank; else `why`. */
static bool greet(search *s, int fd) {
    sg_tcp_world *w = s->world;
    sg_tcp_peer *first = &w->peer[0];
    sg_tcp_hello hello = {.magic = SG_TCP_MAGIC,
                          .rank = w->base.rank,
                          .ranks = w->base.ranks,
                          .channel = (int32_t)s->channel,
                          .pid = getpid(),
                          .visit = s->visit};
    sg_tcp_reply reply;
    sg_tcp_verdict verdict;
    double end_s = sg_tcp_now_s() + ATTEMPT_S;
    (void)snprintf(hello.host, sizeof hello.host, "%s", w->host);
    if (sg_tcp_random(hello.nonce, sizeof hello.nonce, NULL) != SG_OK) return false;
    (void)snprintf(s->why, sizeof s->why, "what answers there is no rank of stepgauge");
    if (!exchange(fd, &hello, sizeof hello, true, end_s) || !exchange(fd, &reply, sizeof reply, false, end_s) ||
        reply.magic != SG_TCP_MAGIC)
        return false;
    (void)snprintf(s->why, sizeof s->why, "what answers there is rank 0 of another job");
    if (reply.proof != sg_tcp_reply_proof(&s->key, &hello, &reply)) return false;
    sg_tcp_answer answer = {sg_tcp_answer_proof(&s->key, &hello, &reply)};
    (void)snprintf(s->why, sizeof s->why, "rank 0 is there but does not let this rank in");
    if (!exchange(fd, &answer, sizeof answer, true, end_s) || !exchange(fd, &verdict, sizeof verdict, false, end_s))
        return false;
    if (!verdict.accepted) {
        sg_tcp_clean(verdict.why, sizeof verdict.why);
        (void)snprintf(s->why, sizeof s->why, "%s", verdict.why);
        s->refused = true;
        return false;
    }
    sg_tcp_clean(reply.host, sizeof reply.host);
    memcpy(first->host, reply.host, sizeof first->host);
    first->pid = reply.pid;
    return true;
}

static bool attempt(void *user, const struct sockaddr *address, socklen_t bytes) {
    search *s = user;
    double left = s->end_s - sg_tcp_now_s();
    if (left <= 0) return true;
    int fd = sg_tcp_connect(address, bytes, left < ATTEMPT_S ? left : ATTEMPT_S);
    if (fd < 0) {
        (void)snprintf(s->why, sizeof s->why, "%s", strerror(errno));
        return false;
    }
    s->found = greet(s, fd);
    if (s->found)
        s->world->peer[0].fd[s->channel] = fd;
    else
        (void)close(fd);
    return s->found || s->refused;
}

static sg_code find(search *s, sg_status *status) {
    const sg_tcp_options *o = s->options;
    /* the last reason of the first port counts: at the others nobody need be */
    char first_why[sizeof s->why] = "";
    sg_code code = SG_OK;
    while (!s->found && !s->refused && sg_tcp_now_s() < s->end_s) {
        for (int i = 0; i < s->ports && s->port + i <= 65535 && !s->found && !s->refused; i++) {
            code = sg_tcp_each_address(o->address, s->port + i, attempt, s, status);
            if (i == 0) memcpy(first_why, s->why, sizeof first_why);
            /* the other channels lead there too */
            if (s->found) s->port += i, s->ports = 1;
        }
        const struct timespec nap = {0, 30000000};
        if (!s->found && !s->refused) (void)nanosleep(&nap, NULL);
    }
    if (s->found) return SG_OK;
    if (s->refused)
        return sg_fail(status, SG_MACHINE, "rank 0 (%s port %d) refuses rank %d: %s", o->address, o->port,
                       s->world->base.rank, s->why);
    if (code != SG_OK) return code;
    return sg_fail(status, SG_MACHINE, "rank %d cannot reach rank 0 at %.200s port %d within %g s: %s",
                   s->world->base.rank, o->address, o->port, o->timeout_s, first_why);
}

/* Rank 0's word that everyone is there. It gives up later than this rank if it started later. */
static sg_code wait_for_go(sg_tcp_world *world, const sg_tcp_options *o, double end_s, sg_status *status) {
    const sg_tcp_peer *first = &world->peer[0];
    sg_tcp_name name = sg_tcp_name_of(0, first->host, first->pid);
    sg_tcp_head head = {0};
    char text[SG_TCP_WHY_BYTES] = "";
    bool heard = exchange(first->fd[SG_TCP_WATCH], &head, sizeof head, false, end_s + 1);
    if (heard && head.news == SG_TCP_GO && head.bytes == 0) return SG_OK;
    if (heard && head.news == SG_TCP_LOST && head.bytes < sizeof text &&
        exchange(first->fd[SG_TCP_WATCH], text, head.bytes, false, sg_tcp_now_s() + 1)) {
        sg_tcp_clean(text, sizeof text);
        return sg_fail(status, SG_MACHINE, "%s", text);
    }
    if (!heard && sg_tcp_now_s() < end_s)
        return sg_fail(status, SG_MACHINE, "%s ended before all ranks had come: see what it says", name.text);
    return sg_fail(status, SG_MACHINE, "rank %d found %s, but not all of %d ranks came within %g s", world->base.rank,
                   name.text, world->base.ranks, o->timeout_s);
}

sg_code sg_tcp_visit(sg_tcp_world *world, const sg_tcp_options *o, sg_status *status) {
    search s = {.world = world,
                .options = o,
                .key = sg_tcp_key_of(o->secret),
                .port = o->port,
                .ports = o->ports > 1 ? o->ports : 1,
                .end_s = sg_tcp_now_s() + o->timeout_s,
                .why = "nobody answers"};
    sg_code code = sg_tcp_random(&s.visit, sizeof s.visit, status);
    for (int c = 0; code == SG_OK && c < SG_TCP_CHANNELS; c++) {
        s.channel = (sg_tcp_channel)c;
        s.found = false;
        code = find(&s, status);
    }
    return code == SG_OK ? wait_for_go(world, o, s.end_s, status) : code;
}
