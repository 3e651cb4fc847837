/* Ranks over TCP as threads of this process: all that needs no process to die. */
#include "kernels/tcp/tcp.h"
#include "tests/support/transport_checks.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <cmocka.h>

enum { RANKS_MOST = 8 };

static double clock_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_s(double s) {
    struct timespec pause = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    (void)nanosleep(&pause, NULL);
}

/* One rank: what it joins with, what became of it, what it does. */
typedef struct sg_one_rank {
    pthread_t thread;
    sg_tcp_options options;
    double delay_s;
    void (*body)(sg_transport *transport, void *user);
    void *user;
    sg_code code;
    sg_status status;
    double joined_s;
} one_rank;

static void *run_rank(void *user) {
    one_rank *r = user;
    sg_transport *transport = NULL;
    double start = clock_s();
    sleep_s(r->delay_s);
    r->code = sg_tcp_join(&r->options, &transport, &r->status);
    r->joined_s = clock_s() - start;
    if (r->code != SG_OK) return NULL;
    NEED(transport->rank == r->options.rank && transport->ranks == r->options.ranks);
    if (r->body) r->body(transport, r->user);
    transport->api->leave(transport);
    return NULL;
}

/* A world's options on a fresh port of this host. */
static sg_tcp_options fresh(int ranks) {
    sg_tcp_options o = {.ranks = ranks, .address = "127.0.0.1", .secret = "a test's own", .timeout_s = 20};
    sg_status status;
    if (sg_tcp_listen(o.address, 0, &o.listener, &o.port, &status) != SG_OK) fail_msg("%s", status.text);
    return o;
}

static void make(one_rank *r, const sg_tcp_options *o, int n, void (*body)(sg_transport *, void *), void *user) {
    for (int i = 0; i < n; i++) {
        r[i] = (one_rank){.options = *o, .body = body, .user = user};
        r[i].options.rank = i;
        if (i > 0) r[i].options.listener = 0;
    }
}

static void start(one_rank *r, int n) {
    for (int i = 0; i < n; i++)
        if (pthread_create(&r[i].thread, NULL, run_rank, &r[i]) != 0) fail();
}

static void finish(one_rank *r, int n) {
    for (int i = 0; i < n; i++) (void)pthread_join(r[i].thread, NULL);
}

static void need_ok(const one_rank *r, int n) {
    for (int i = 0; i < n; i++)
        if (r[i].code != SG_OK) fail_msg("rank %d: %s", i, r[i].status.text);
}

static void need_text(const sg_status *status, const char *part) {
    if (!strstr(status->text, part)) fail_msg("'%s' lacks '%s'", status->text, part);
}

static void world_of(const sg_tcp_options *o, void (*body)(sg_transport *, void *), void *user) {
    one_rank r[RANKS_MOST];
    make(r, o, o->ranks, body, user);
    start(r, o->ranks);
    finish(r, o->ranks);
    need_ok(r, o->ranks);
}

/* ---- everyone is well ---------------------------------------------------------------------------------------------------- */

static void do_all(sg_transport *transport, void *user) {
    (void)user;
    sg_check_reductions(transport, 1000003);
    sg_check_parts(transport, 1);
    sg_check_parts(transport, 300007);
    sg_check_control(transport);
    sg_check_refusals(transport);
    sg_check_two_threads(transport);
}

static void ranks_compute_together(void **state) {
    (void)state;
    static const int counts[] = {2, 3, 4};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        sg_tcp_options o = fresh(counts[i]);
        world_of(&o, do_all, NULL);
    }
}

static void one_rank_needs_nobody(void **state) {
    (void)state;
    sg_tcp_options o = {.ranks = 1, .timeout_s = 1};
    world_of(&o, do_all, NULL);
}

static void barrier_once(sg_transport *transport, void *user) {
    (void)user;
    NEED_OK(transport->api->barrier(transport, &status_));
}

/* By name, IPv6, and a port that rank 0 opens itself, late. */
static void addresses(void **state) {
    (void)state;
    static const char *const address[] = {"localhost", "::1", "127.0.0.1"};
    for (size_t i = 0; i < sizeof address / sizeof *address; i++) {
        int fd, port;
        sg_status status;
        if (sg_tcp_listen(address[i], 0, &fd, &port, &status) != SG_OK) {
            if (strcmp(address[i], "::1") != 0) fail_msg("%s", status.text);
            print_message("no IPv6 here: %s\n", status.text);
            continue;
        }
        (void)close(fd);
        sg_tcp_options o = {.ranks = 2, .address = address[i], .port = port, .secret = "x", .timeout_s = 20};
        one_rank r[2];
        make(r, &o, 2, barrier_once, NULL);
        r[0].delay_s = 0.3;
        start(r, 2);
        finish(r, 2);
        need_ok(r, 2);
    }
}

/* The first ports are taken by servers that are no ranks: one says nothing, one talks. */
static void next_free_port(void **state) {
    (void)state;
    int fd[2] = {-1, -1}, port = 0, bound;
    sg_status status;
    for (int attempt = 0; attempt < 50 && fd[1] < 0; attempt++) {
        if (fd[0] >= 0) (void)close(fd[0]);
        assert_int_equal(sg_tcp_listen("127.0.0.1", 0, &fd[0], &port, &status), SG_OK);
        if (port < 65000) (void)sg_tcp_listen("127.0.0.1", port + 1, &fd[1], &bound, &status);
    }
    assert_true(fd[1] >= 0);
    sg_tcp_options o = {.ranks = 3, .address = "127.0.0.1", .port = port, .ports = 8, .secret = "x", .timeout_s = 30};
    one_rank r[3];
    make(r, &o, 3, barrier_once, NULL);
    start(r, 3);
    /* the second server talks to whoever comes */
    double end = clock_s() + 2;
    while (clock_s() < end) {
        struct pollfd ready = {.fd = fd[1], .events = POLLIN};
        if (poll(&ready, 1, 50) != 1) continue;
        int visitor = accept(fd[1], NULL, NULL);
        if (visitor < 0) continue;
        static const char greeting[300] = "220 at your service\r\n";
        (void)send(visitor, greeting, sizeof greeting, MSG_NOSIGNAL);
        (void)close(visitor);
    }
    (void)close(fd[0]); /* and the silent one ends */
    finish(r, 3);
    (void)close(fd[1]);
    need_ok(r, 3);
}

/* ---- who does not belong ---------------------------------------------------------------------------------------------------- */

static void other_secret(void **state) {
    (void)state;
    sg_tcp_options o = fresh(3);
    one_rank r[3];
    make(r, &o, 3, barrier_once, NULL);
    r[0].options.timeout_s = r[1].options.timeout_s = r[2].options.timeout_s = 2;
    r[2].options.secret = "another job's";
    start(r, 3);
    finish(r, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(r[i].code, SG_MACHINE);
    need_text(&r[0].status, "rank 2 of 3 did not come");
    need_text(&r[1].status, "rank 2 of 3 did not come");
    need_text(&r[2].status, "rank 0 of another job");
}

static void missing_ranks_are_named(void **state) {
    (void)state;
    sg_tcp_options o = fresh(5);
    one_rank r[5];
    o.timeout_s = 1;
    make(r, &o, 5, barrier_once, NULL);
    one_rank there[2] = {r[0], r[2]};
    start(there, 2);
    finish(there, 2);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(there[i].code, SG_MACHINE);
        need_text(&there[i].status, "ranks 1, 3 and 4 of 5 did not come to rank 0");
        assert_true(there[i].joined_s < 8);
    }
}

static void no_rank_0(void **state) {
    (void)state;
    sg_tcp_options o = fresh(2);
    (void)close(o.listener);
    one_rank r[2];
    o.timeout_s = 0.5;
    make(r, &o, 2, barrier_once, NULL);
    start(r + 1, 1);
    finish(r + 1, 1);
    assert_int_equal(r[1].code, SG_MACHINE);
    need_text(&r[1].status, "rank 1 cannot reach rank 0 at 127.0.0.1");
    need_text(&r[1].status, "refused");
    o.address = "no-such-host.invalid";
    make(r, &o, 2, barrier_once, NULL);
    start(r + 1, 1);
    finish(r + 1, 1);
    assert_int_equal(r[1].code, SG_MACHINE);
    need_text(&r[1].status, "no-such-host.invalid");
}

/* A second rank 1, and a rank of a smaller world: both are told, the others go on. */
static void ranks_that_do_not_fit(void **state) {
    (void)state;
    sg_tcp_options o = fresh(3);
    one_rank r[5];
    make(r, &o, 5, barrier_once, NULL);
    r[3].options.rank = 1;
    r[3].delay_s = 0.5;
    r[4].options.rank = 1;
    r[4].options.ranks = 2;
    r[2].delay_s = 1.5;
    for (int i = 3; i < 5; i++) r[i].body = NULL;
    start(r, 5);
    finish(r, 5);
    need_ok(r, 3);
    assert_int_equal(r[3].code, SG_MACHINE);
    need_text(&r[3].status, "is there already");
    assert_int_equal(r[4].code, SG_MACHINE);
    need_text(&r[4].status, "one of 2 ranks, rank 0 as one of 3");
}

static int knock(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &at.sin_addr), 1);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* Port scanners, other protocols, garbage that begins well, connections that say nothing: joining goes on. */
static void strangers_do_no_harm(void **state) {
    (void)state;
    enum { STRANGERS = 300 };
    sg_tcp_options o = fresh(3);
    one_rank r[3];
    int fd[STRANGERS];
    make(r, &o, 3, barrier_once, NULL);
    r[1].delay_s = 0.6;
    r[2].delay_s = 0.8;
    start(r, 3);
    uint64_t seed = 12345;
    for (int i = 0; i < STRANGERS; i++) {
        unsigned char bytes[4096];
        for (size_t k = 0; k < sizeof bytes; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bytes[k] = (unsigned char)(seed >> 56);
        }
        const uint64_t magic = UINT64_C(0x6b6e617267732f32);
        fd[i] = knock(o.port);
        if (i % 4 == 1) (void)send(fd[i], "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL);
        if (i % 4 == 2) (void)send(fd[i], bytes, sizeof bytes, MSG_NOSIGNAL);
        if (i % 4 == 3) {
            memcpy(bytes, &magic, sizeof magic);
            (void)send(fd[i], bytes, sizeof bytes, MSG_NOSIGNAL);
        }
        if (i % 8 >= 4) (void)close(fd[i]), fd[i] = -1;
    }
    finish(r, 3);
    for (int i = 0; i < STRANGERS; i++)
        if (fd[i] >= 0) (void)close(fd[i]);
    need_ok(r, 3);
}

static void options_that_cannot_be(void **state) {
    (void)state;
    const sg_tcp_options good = {.rank = 1, .ranks = 2, .address = "::1", .port = 9, .secret = "s", .timeout_s = 1};
    sg_tcp_options o;
    sg_transport *transport;
    sg_status status;
#define REFUSED(field, value)                                                                                          \
    o = good;                                                                                                          \
    o.field = value;                                                                                                   \
    assert_int_equal(sg_tcp_join(&o, &transport, &status), SG_BAD_INPUT);                                              \
    assert_null(transport)
    REFUSED(rank, 2);
    REFUSED(rank, -1);
    REFUSED(ranks, 0);
    REFUSED(ranks, 1 << 20);
    REFUSED(port, 0);
    REFUSED(port, 65536);
    REFUSED(ports, 1000);
    REFUSED(secret, NULL);
    REFUSED(secret, "");
    REFUSED(address, NULL);
    REFUSED(timeout_s, 0);
    REFUSED(timeout_s, -1);
    REFUSED(silence_s, -1);
}

/* ---- what goes wrong later ---------------------------------------------------------------------------------------------------- */

/* Rank `who` gives up; all the others are in a call. */
static void give_up(sg_transport *transport, void *user) {
    const int *who = user;
    sg_status status = {0};
    char want[64], why[512];
    (void)snprintf(want, sizeof want, "rank %d (", *who);
    NEED_OK(transport->api->barrier(transport, &status_));
    double start_s = clock_s();
    if (transport->rank == *who) {
        sleep_s(0.2);
        transport->api->abort(transport, "the disk is full\n");
    } else if (transport->rank % 2) {
        NEED(transport->api->barrier(transport, &status) == SG_MACHINE);
    } else {
        float x[100] = {0};
        NEED(transport->api->all_reduce_mean(transport, x, 100, SG_F32, &status) == SG_MACHINE);
    }
    NEED(clock_s() - start_s < 3);
    NEED(transport->api->lost(transport, why, sizeof why));
    NEED(strstr(why, "gave up: the disk is full") && strstr(why, want));
    NEED(transport->rank == *who || strcmp(status.text, why) == 0);
    NEED(transport->api->broadcast(transport, why, 1, 0, &status) == SG_MACHINE);
    NEED(strstr(status.text, want));
}

static void reasons_arrive(void **state) {
    (void)state;
    for (int who = 0; who < 4; who++) {
        sg_tcp_options o = fresh(4);
        world_of(&o, give_up, &who);
    }
}

/* Rank 2 of 3 never comes to the barrier, but lives. */
static void be_late(sg_transport *transport, void *user) {
    (void)user;
    sg_status status = {0};
    if (transport->rank == 2) {
        sleep_s(1.5);
    } else {
        NEED(transport->api->barrier(transport, &status) == SG_MACHINE);
        NEED(strstr(status.text, "a barrier took longer than 0.5 s, waiting for rank 2 ("));
    }
    char why[512];
    NEED(transport->api->lost(transport, why, sizeof why));
}

static void patience_ends(void **state) {
    (void)state;
    sg_tcp_options o = fresh(3);
    o.patience_s = 0.5;
    world_of(&o, be_late, NULL);
}

static void be_out_of_step(sg_transport *transport, void *user) {
    (void)user;
    sg_status status = {0};
    float x[8] = {0};
    sg_code code = transport->rank == 1 ? transport->api->all_reduce_mean(transport, x, 4, SG_F32, &status)
                                        : transport->api->all_reduce_mean(transport, x, 8, SG_F32, &status);
    NEED(code == SG_MACHINE);
    NEED(strstr(status.text, "out of step: rank 1 ("));
    NEED(strstr(status.text, "is in call 1, an all-reduce of 16 bytes, rank 0 in call 1, an all-reduce of 32 bytes"));
}

static void out_of_step(void **state) {
    (void)state;
    sg_tcp_options o = fresh(3);
    world_of(&o, be_out_of_step, NULL);
}

/* Heartbeats alone keep ranks alive that have nothing to say for longer than the allowed silence. */
static void be_quiet(sg_transport *transport, void *user) {
    (void)user;
    char why[512] = "";
    sleep_s(1.2);
    if (transport->api->lost(transport, why, sizeof why)) (void)fprintf(stderr, "lost: %s\n", why);
    NEED(!*why);
    NEED_OK(transport->api->barrier(transport, &status_));
}

static void silence_is_no_loss(void **state) {
    (void)state;
    sg_tcp_options o = fresh(3);
    o.silence_s = 0.6;
    world_of(&o, be_quiet, NULL);
}

/* Ranks leave at different times; nobody takes that for a loss. */
static void leave_late(sg_transport *transport, void *user) {
    (void)user;
    char why[512];
    sleep_s(0.2 * transport->rank);
    NEED(!transport->api->lost(transport, why, sizeof why));
}

static void leaving_waits(void **state) {
    (void)state;
    for (int i = 0; i < 5; i++) {
        sg_tcp_options o = fresh(4);
        double begin = clock_s();
        world_of(&o, leave_late, NULL);
        assert_true(clock_s() - begin < 5);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute_together),
        cmocka_unit_test(one_rank_needs_nobody),
        cmocka_unit_test(addresses),
        cmocka_unit_test(next_free_port),
        cmocka_unit_test(other_secret),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(no_rank_0),
        cmocka_unit_test(ranks_that_do_not_fit),
        cmocka_unit_test(strangers_do_no_harm),
        cmocka_unit_test(options_that_cannot_be),
        cmocka_unit_test(reasons_arrive),
        cmocka_unit_test(patience_ends),
        cmocka_unit_test(out_of_step),
        cmocka_unit_test(silence_is_no_loss),
        cmocka_unit_test(leaving_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
