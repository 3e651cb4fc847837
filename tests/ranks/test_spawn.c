/* Ranks as processes that nobody but this program starts: this program starts itself. With arguments it is one of the ranks. */
#include "kernels/tcp/tcp.h"
#include "sim/ranks/process_tree.h"
#include "sim/ranks/rank_variables.h"
#include "sim/ranks/spawn_ranks.h"
#include "tests/support/transport_checks.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

static double clock_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ==== a rank ====================================================================================================== */

static sg_transport *transport;

static void join(double silence_s) {
    sg_rank_variables v;
    NEED_OK(sg_rank_variables_read(&v, &status_));
    NEED(v.found && v.meeting == SG_MEET_TCP && v.local_rank == v.rank && v.local_ranks == v.ranks);
    const sg_tcp_options o = {.rank = v.rank,
                              .ranks = v.ranks,
                              .address = v.address,
                              .port = v.port,
                              .ports = v.ports,
                              .listener = v.listener,
                              .secret = v.secret,
                              .timeout_s = 30,
                              .silence_s = silence_s};
    NEED_OK(sg_tcp_join(&o, &transport, &status_));
}

/* The others are in the middle of an all-reduce without end when rank 2 comes to harm; each ends within 2 s with the name, host
 * and pid of rank 2. */
static void suffer(const char *act, double silence_s) {
    enum { COUNT = 300000 };
    join(silence_s);
    double pid = (double)getpid(), pids[8];
    NEED_OK(transport->api->gather_doubles(transport, &pid, 1, pids, &status_));
    NEED_OK(transport->api->broadcast(transport, pids, sizeof pids, 0, &status_));
    float *buffer = calloc(COUNT, sizeof *buffer);
    NEED(buffer);
    double latest = clock_s();
    if (transport->rank == 2) {
        for (int i = 0; i < 3; i++)
            NEED_OK(transport->api->all_reduce_mean(transport, buffer, COUNT, SG_F32, &status_));
        if (strcmp(act, "kill") == 0) (void)raise(SIGKILL);
        if (strcmp(act, "stop") == 0) (void)raise(SIGSTOP);
        if (strcmp(act, "exit") == 0) _exit(5);
        transport->api->abort(transport, "no more room in the attic");
        _exit(SG_MACHINE);
    }
    sg_status status = {0};
    sg_code code = SG_OK;
    for (int i = 0; code == SG_OK && i < 1000; i++) {
        latest = clock_s();
        code = transport->api->all_reduce_mean(transport, buffer, COUNT, SG_F32, &status);
    }
    free(buffer);
    char host[64] = "", who[128];
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(who, sizeof who, "rank 2 (%s, pid %.0f)", host, pids[2]);
    NEED(code == SG_MACHINE && clock_s() - latest < 2 + silence_s);
    if (!strstr(status.text, who)) (void)fprintf(stderr, "'%s' lacks '%s'\n", status.text, who);
    NEED(strstr(status.text, who));
    NEED(strstr(status.text, strcmp(act, "stop") == 0    ? "hangs"
                             : strcmp(act, "abort") == 0 ? "gave up: no more room in the attic"
                                                         : "is gone"));
    transport->api->leave(transport);
    _exit(SG_MACHINE);
}

static volatile sig_atomic_t asked_to_finish;

static void on_finish(int signal_number) {
    (void)signal_number;
    asked_to_finish = 1;
}

/* Works until asked to finish. */
static void work(const char *folder) {
    (void)signal(SIGUSR1, on_finish);
    join(10);
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%d", folder, transport->rank);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    NEED(fd >= 0);
    (void)close(fd);
    double end = clock_s() + 60;
    while (!asked_to_finish && clock_s() < end) (void)usleep(10000);
    NEED_OK(transport->api->barrier(transport, &status_));
    transport->api->leave(transport);
    _exit(asked_to_finish ? 130 : 8);
}

/* A rank whose own child does not care for it. */
static void breed(void) {
    join(10);
    if (fork() == 0) {
        (void)setsid();
        (void)sleep(60);
        _exit(0);
    }
    NEED_OK(transport->api->barrier(transport, &status_));
    transport->api->leave(transport);
    _exit(0);
}

static int be_rank(char **argument) {
    const char *role = argument[1];
    if (strcmp(role, "reduce") == 0) {
        join(10);
        sg_check_reductions(transport, 262144);
        sg_check_parts(transport, 1003);
        sg_check_control(transport);
        sg_check_refusals(transport);
        transport->api->leave(transport);
        return 0;
    }
    if (strcmp(role, "suffer") == 0) suffer(argument[2], strcmp(argument[2], "stop") == 0 ? 2 : 0);
    if (strcmp(role, "work") == 0) work(argument[2]);
    if (strcmp(role, "breed") == 0) breed();
    if (strcmp(role, "deaf") == 0) {
        (void)signal(SIGTERM, SIG_IGN);
        (void)sleep(60);
    }
    return 0;
}

/* ==== the tests =================================================================================================== */

static char self[4096];
static sg_status said;

static int spawn(int n, const char *role, const char *act, const sg_launch_ranks_options *options, sg_code *code) {
    char *argv[] = {self, (char *)(uintptr_t)role, (char *)(uintptr_t)act, NULL};
    int exit_status = -1;
    said = (sg_status){0};
    sg_code got = sg_spawn_ranks(n, argv, options, &exit_status, &said);
    if (code) *code = got;
    if (!code && got != SG_OK) fail_msg("%s", said.text);
    return exit_status;
}

static void nothing_is_left(void) {
    pid_t child;
    assert_int_equal(sg_process_children(getpid(), &child, 1), 0);
}

static void ranks_compute(void **state) {
    (void)state;
    static const int counts[] = {2, 4};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        assert_int_equal(spawn(counts[i], "reduce", NULL, NULL, NULL), 0);
    nothing_is_left();
}

static void suffers(const char *act, int want_status, const char *want_words) {
    sg_code code;
    double start = clock_s();
    assert_int_equal(spawn(4, "suffer", act, NULL, &code), want_status);
    assert_true(clock_s() - start < 25);
    assert_int_equal(code, want_words ? SG_MACHINE : SG_OK);
    if (want_words && !strstr(said.text, want_words)) fail_msg("'%s' lacks '%s'", said.text, want_words);
    nothing_is_left();
}

static void a_killed_rank_is_named(void **state) {
    (void)state;
    suffers("kill", 128 + SIGKILL, "rank 2 was killed by SIGKILL");
}
static void a_rank_that_ends_is_missed(void **state) {
    (void)state;
    suffers("exit", 5, NULL);
}
static void a_reason_arrives(void **state) {
    (void)state;
    suffers("abort", SG_MACHINE, NULL);
}
/* The others end with 3 when they find that rank 2 hangs; the launcher then ends rank 2. */
static void a_stopped_rank_is_ended(void **state) {
    (void)state;
    suffers("stop", SG_MACHINE, NULL);
}

static void time_over(void **state) {
    (void)state;
    sg_code code;
    double start = clock_s();
    (void)spawn(2, "deaf", NULL, &(sg_launch_ranks_options){.timeout_s = 0.5, .grace_s = 0.5}, &code);
    assert_int_equal(code, SG_MACHINE);
    assert_non_null(strstr(said.text, "did not end within 0.5 s"));
    assert_true(clock_s() - start < 8);
    nothing_is_left();
}

static void children_of_ranks_end_too(void **state) {
    (void)state;
    assert_int_equal(spawn(2, "breed", NULL, NULL, NULL), 0);
    nothing_is_left();
}

static int make_folder(void **state) {
    static char folder[40];
    (void)snprintf(folder, sizeof folder, "/tmp/sg_spawn_XXXXXX");
    *state = folder;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    char path[80];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%d", (const char *)*state, i);
        (void)unlink(path);
    }
    return rmdir(*state);
}

static bool both_are_there(const char *folder) {
    char path[80];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%d", folder, i);
        if (access(path, F_OK) != 0) return false;
    }
    return true;
}

/* The exit status of a launcher that gets `number` once its ranks work; its ranks' pids are gone then. */
static int signalled(const char *folder, int number, int times) {
    pid_t child = fork(), ranks[8];
    if (child == 0) _exit(spawn(2, "work", folder, NULL, &(sg_code){SG_OK}));
    double end = clock_s() + 20;
    while (!both_are_there(folder) && clock_s() < end) (void)usleep(20000);
    size_t n = sg_process_children(child, ranks, 8);
    for (int i = 0; i < times; i++) {
        if (i) (void)usleep(100000);
        (void)kill(child, number);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(n >= 2);
    end = clock_s() + 5;
    for (size_t i = 0; i < n; i++) {
        while (kill(ranks[i], 0) == 0 && clock_s() < end) (void)usleep(20000);
        assert_int_equal(kill(ranks[i], 0), -1);
    }
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static void interrupt_lets_ranks_finish(void **state) {
    assert_int_equal(signalled(*state, SIGINT, 1), 130);
}
static void terminate_ends_them(void **state) {
    assert_int_equal(signalled(*state, SIGTERM, 1), 128 + SIGTERM);
}
static void a_killed_launcher_takes_them_along(void **state) {
    assert_int_equal(signalled(*state, SIGKILL, 1), 128 + SIGKILL);
}

static void what_cannot_start(void **state) {
    (void)state;
    char *argv[] = {(char *)(uintptr_t) "/nowhere/at-all", NULL};
    int exit_status;
    sg_status status;
    assert_int_equal(sg_spawn_ranks(2, argv, NULL, &exit_status, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "cannot start rank 0 of 2 (/nowhere/at-all)"));
    assert_int_equal(sg_spawn_ranks(0, argv, NULL, &exit_status, &status), SG_BAD_INPUT);
    assert_int_equal(sg_spawn_ranks(5000, argv, NULL, &exit_status, &status), SG_BAD_INPUT);
    nothing_is_left();
}

int main(int n, char **argument) {
    if (n > 1) return be_rank(argument);
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
#define SCENE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_compute),
        cmocka_unit_test(a_killed_rank_is_named),
        cmocka_unit_test(a_rank_that_ends_is_missed),
        cmocka_unit_test(a_reason_arrives),
        cmocka_unit_test(a_stopped_rank_is_ended),
        cmocka_unit_test(time_over),
        cmocka_unit_test(children_of_ranks_end_too),
        SCENE(interrupt_lets_ranks_finish),
        SCENE(terminate_ends_them),
        SCENE(a_killed_launcher_takes_them_along),
        cmocka_unit_test(what_cannot_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
