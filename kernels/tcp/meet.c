/* meet.c: rank 0 waits for the others. Anyone may knock meanwhile: each visitor has a fixed-size place, little time, and
 * harms nobody but itself. */
#include "kernels/tcp/greet.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Strangers that may knock at once besides the ranks; seconds that a visitor has to say who it is. */
enum { STRANGERS_MOST = 64 };
static const double VISIT_S = 5;

typedef enum sg_tcp_stage { STAGE_HELLO, STAGE_ANSWER } stage;

typedef struct sg_tcp_visitor {
    int fd; /* -1: no visitor */
    stage stage;
    double end_s;
    size_t n_in;
    sg_tcp_hello hello;
    sg_tcp_reply reply;
    sg_tcp_answer answer;
} visitor;

typedef struct sg_tcp_door {
    sg_tcp_world *world;
    sg_tcp_key key;
    int listener;
    visitor *visitor;
    size_t n_visitors;
    struct pollfd *ready; /* the listener, the visitors, the watch channels of those that are in */
} door;

static void dismiss(visitor *v) {
    if (v->fd >= 0) (void)close(v->fd);
    v->fd = -1;
}

/* Small messages to a fresh connection always fit its buffer; if not, the visitor is none of ours. */
static bool say(int fd, const void *message, size_t bytes) {
    return send(fd, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)bytes;
}

/* ---- one visitor --------------------------------------------------------------------------------------------------------- */

static bool answer_hello(door *d, visitor *v) {
    v->reply = (sg_tcp_reply){.magic = SG_TCP_MAGIC, .pid = getpid()};
    if (v->hello.magic != SG_TCP_MAGIC || sg_tcp_random(v->reply.nonce, sizeof v->reply.nonce, NULL) != SG_OK)
        return false;
    (void)snprintf(v->reply.host, sizeof v->reply.host, "%s", d->world->host);
    v->reply.proof = sg_tcp_reply_proof(&d->key, &v->hello, &v->reply);
    v->stage = STAGE_ANSWER;
    v->n_in = 0;
    return say(v->fd, &v->reply, sizeof v->reply);
}

/* Whether someone who knows the secret fits in; `why` else. */
static bool fits(const door *d, const sg_tcp_hello *h, char *why, size_t bytes) {
    int ranks = d->world->base.ranks;
    if (h->ranks != ranks)
        (void)snprintf(why, bytes, "it was started as one of %d ranks, rank 0 as one of %d", h->ranks, ranks);
    else if (h->rank < 1 || h->rank >= ranks || h->channel < 0 || h->channel >= SG_TCP_CHANNELS)
        (void)snprintf(why, bytes, "there is no place %d among %d ranks", h->rank, ranks);
    else {
        const sg_tcp_peer *p = &d->world->peer[h->rank - 1];
        /* the same visit again: it did not hear that it was let in */
        if (!p->pid || p->visit == h->visit) return true;
        (void)snprintf(why, bytes, "%s is there already", sg_tcp_name_of(p->rank, p->host, p->pid).text);
    }
    return false;
}

static void let_in(door *d, visitor *v) {
    sg_tcp_peer *p = &d->world->peer[v->hello.rank - 1];
    p->pid = v->hello.pid;
    p->visit = v->hello.visit;
    memcpy(p->host, v->hello.host, sizeof p->host);
    if (p->fd[v->hello.channel] >= 0) (void)close(p->fd[v->hello.channel]);
    p->fd[v->hello.channel] = v->fd;
    v->fd = -1;
}

static void judge(door *d, visitor *v) {
    if (v->answer.proof == sg_tcp_answer_proof(&d->key, &v->hello, &v->reply)) {
        sg_tcp_verdict verdict = {0};
        sg_tcp_clean(v->hello.host, sizeof v->hello.host);
        verdict.accepted = fits(d, &v->hello, verdict.why, sizeof verdict.why);
        if (say(v->fd, &verdict, sizeof verdict) && verdict.accepted) let_in(d, v);
    }
    dismiss(v);
}

static void listen_to(door *d, visitor *v) {
    bool hello = v->stage == STAGE_HELLO;
    unsigned char *to = hello ? (unsigned char *)&v->hello : (unsigned char *)&v->answer;
    size_t bytes = hello ? sizeof v->hello : sizeof v->answer;
    ssize_t n = recv(v->fd, to + v->n_in, bytes - v->n_in, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        dismiss(v);
        return;
    }
    v->n_in += (size_t)n;
    /* what does not begin like one of ours need not go on */
    if (hello && v->n_in >= sizeof v->hello.magic && v->hello.magic != SG_TCP_MAGIC) dismiss(v);
    if (v->fd < 0 || v->n_in < bytes) return;
    if (!hello)
        judge(d, v);
    else if (!answer_hello(d, v))
        dismiss(v);
}

/* A place for a new visitor: a free one, or that of whoever has been here longest without a proof. */
static visitor *place_of(door *d) {
    visitor *oldest = &d->visitor[0];
    for (size_t i = 0; i < d->n_visitors; i++) {
        if (d->visitor[i].fd < 0) return &d->visitor[i];
        if (d->visitor[i].end_s < oldest->end_s) oldest = &d->visitor[i];
    }
    dismiss(oldest);
    return oldest;
}

static void open_door(door *d) {
    for (int i = 0; i < 64; i++) {
        int fd = accept(d->listener, NULL, NULL);
        if (fd < 0) return;
        sg_tcp_tune(fd);
        *place_of(d) = (visitor){.fd = fd, .end_s = sg_tcp_now_s() + VISIT_S};
    }
}

/* ---- everyone ------------------------------------------------------------------------------------------------------------ */

static bool is_in(const sg_tcp_peer *p) {
    for (int c = 0; c < SG_TCP_CHANNELS; c++)
        if (p->fd[c] < 0) return false;
    return true;
}

/* A rank that ended before the others came; it may come again. */
static void forget(sg_tcp_peer *p) {
    for (int c = 0; c < SG_TCP_CHANNELS; c++) {
        if (p->fd[c] >= 0) (void)close(p->fd[c]);
        p->fd[c] = -1;
    }
    p->pid = 0;
}

static size_t watched_of(door *d) {
    size_t n = 0;
    d->ready[n++] = (struct pollfd){.fd = d->listener, .events = POLLIN};
    for (size_t i = 0; i < d->n_visitors; i++)
        d->ready[n++] = (struct pollfd){.fd = d->visitor[i].fd, .events = POLLIN};
    for (int i = 0; i < d->world->n_peers; i++)
        d->ready[n++] = (struct pollfd){.fd = d->world->peer[i].fd[SG_TCP_WATCH], .events = POLLIN};
    return n;
}

static bool wait_for_all(door *d, double end_s) {
    for (;;) {
        int missing = 0;
        for (int i = 0; i < d->world->n_peers; i++) missing += !is_in(&d->world->peer[i]);
        if (missing == 0) return true;
        double now = sg_tcp_now_s();
        if (now >= end_s) return false;
        for (size_t i = 0; i < d->n_visitors; i++)
            if (d->visitor[i].fd >= 0 && now > d->visitor[i].end_s) dismiss(&d->visitor[i]);
        double nap_s = end_s - now < 0.25 ? end_s - now : 0.25;
        size_t n = watched_of(d);
        if (poll(d->ready, n, (int)(nap_s * 1000) + 1) <= 0) continue;
        for (int i = 0; i < d->world->n_peers; i++)
            if (d->ready[1 + d->n_visitors + (size_t)i].revents) forget(&d->world->peer[i]);
        for (size_t i = 0; i < d->n_visitors; i++)
            if (d->visitor[i].fd >= 0 && d->ready[1 + i].revents) listen_to(d, &d->visitor[i]);
        if (d->ready[0].revents) open_door(d);
    }
}

/* "ranks 1, 3 and 5 of 8"; the first few of many. */
static void name_missing(const sg_tcp_world *world, char *text, size_t bytes) {
    int missing = 0, named = 0;
    for (int i = 0; i < world->n_peers; i++) missing += !is_in(&world->peer[i]);
    size_t used = (size_t)snprintf(text, bytes, missing > 1 ? "ranks" : "rank");
    for (int i = 0; i < world->n_peers && named < 8; i++) {
        if (is_in(&world->peer[i])) continue;
        const char *before = named == 0 ? " " : named == missing - 1 ? " and " : ", ";
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", before, world->peer[i].rank);
        named++;
    }
    (void)snprintf(text + used, bytes - used, "%s of %d", missing > named ? " and more" : "", world->base.ranks);
}

static void tell_all(sg_tcp_world *world, sg_tcp_news news, const char *text) {
    unsigned char message[SG_TCP_NEWS_BYTES];
    sg_tcp_head head = {(uint32_t)news, (uint32_t)strlen(text)};
    memcpy(message, &head, sizeof head);
    memcpy(message + sizeof head, text, head.bytes);
    for (int i = 0; i < world->n_peers; i++)
        if (world->peer[i].fd[SG_TCP_WATCH] >= 0)
            (void)say(world->peer[i].fd[SG_TCP_WATCH], message, sizeof head + head.bytes);
}

sg_code sg_tcp_meet(sg_tcp_world *world, const sg_tcp_options *o, int listener, int port, sg_status *status) {
    door d = {.world = world, .listener = listener, .key = sg_tcp_key_of(o->secret)};
    d.n_visitors = (size_t)world->n_peers * SG_TCP_CHANNELS + STRANGERS_MOST;
    d.visitor = calloc(d.n_visitors, sizeof *d.visitor);
    d.ready = calloc(1 + d.n_visitors + (size_t)world->n_peers, sizeof *d.ready);
    sg_code code = SG_OK;
    if (!d.visitor || !d.ready) {
        code = sg_fail_memory(status, d.n_visitors * sizeof *d.visitor, "ranks that join");
    } else {
        for (size_t i = 0; i < d.n_visitors; i++) d.visitor[i].fd = -1;
        char missing[128];
        if (wait_for_all(&d, sg_tcp_now_s() + o->timeout_s)) {
            tell_all(world, SG_TCP_GO, "");
        } else {
            sg_status why;
            name_missing(world, missing, sizeof missing);
            code =
                sg_fail(&why, SG_MACHINE,
                        "%s did not come to rank 0 (host %s, port %d) within %g s: see whether they run and can reach "
                        "that port",
                        missing, world->host, port, o->timeout_s);
            tell_all(world, SG_TCP_LOST, why.text);
            if (status) *status = why;
        }
        for (size_t i = 0; i < d.n_visitors; i++) dismiss(&d.visitor[i]);
    }
    (void)close(listener);
    free(d.visitor);
    free(d.ready);
    return code;
}
