/* Ranks on two hosts: two network namespaces with one cable between them, which is cut in the end. This program starts itself in
 * each of them; with arguments it is a rank. Needs root and ip(8). */
#include "kernels/tcp/tcp.h"
#include "sim/ranks/rank_variables.h"
#include "tests/support/transport_checks.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>

static char self[4096];

/* ==== a rank ====================================================================================================== */

/* Computes with the other; with "cut", waits until that is out of reach: no packet tells, only silence. */
static int be_rank(const char *role) {
    sg_transport *transport = NULL;
    sg_rank_variables v;
    NEED_OK(sg_rank_variables_read(&v, &status_));
    const sg_tcp_options o = {.rank = v.rank,
                              .ranks = v.ranks,
                              .address = v.address,
                              .port = v.port,
                              .secret = v.secret,
                              .timeout_s = 20,
                              .silence_s = 1.5};
    NEED_OK(sg_tcp_join(&o, &transport, &status_));
    sg_check_reductions(transport, 1000);
    sg_check_control(transport);
    if (strcmp(role, "cut") == 0) {
        sg_status status = {0};
        sg_code code = SG_OK;
        for (int i = 0; code == SG_OK && i < 200; i++) {
            code = transport->api->barrier(transport, &status);
            (void)usleep(50000);
        }
        NEED(code == SG_MACHINE && strstr(status.text, transport->rank ? "rank 0 (" : "rank 1 ("));
        NEED(strstr(status.text, "hangs"));
    }
    transport->api->leave(transport);
    return 0;
}

/* ==== the tests =================================================================================================== */

/* Starts a program; its output goes nowhere when `quiet`. */
static pid_t begin(bool quiet, const char *const argv[]) {
    pid_t child = fork();
    if (child != 0) return child;
    int nothing = open("/dev/null", O_WRONLY);
    if (quiet && nothing >= 0) (void)dup2(nothing, STDERR_FILENO);
    (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int end(pid_t child) {
    int how = 0;
    if (child < 0 || waitpid(child, &how, 0) != child) return -1;
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

#define IP(...) end(begin(true, (const char *const[]){"ip", __VA_ARGS__, NULL}))

typedef struct sg_two_hosts {
    char name[2][24], port[2][16];
} two_hosts;

static bool make_hosts(two_hosts *h) {
    static const char *const address[] = {"10.213.7.1/24", "10.213.7.2/24"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(h->name[i], sizeof h->name[i], "sgtest%ld%c", (long)getpid() % 1000000, 'a' + i);
        (void)snprintf(h->port[i], sizeof h->port[i], "sg%ld%c", (long)getpid() % 1000000, 'a' + i);
    }
    bool well = IP("netns", "add", h->name[0]) == 0 && IP("netns", "add", h->name[1]) == 0;
    well = well && IP("-n", h->name[0], "link", "add", h->port[0], "type", "veth", "peer", "name", h->port[1], "netns",
                      h->name[1]) == 0;
    for (int i = 0; well && i < 2; i++)
        well = IP("-n", h->name[i], "addr", "add", address[i], "dev", h->port[i]) == 0 &&
               IP("-n", h->name[i], "link", "set", h->port[i], "up") == 0;
    return well;
}

static void remove_hosts(const two_hosts *h) {
    for (int i = 0; i < 2; i++) (void)IP("netns", "del", h->name[i]);
}

static pid_t begin_rank(const two_hosts *h, int rank, const char *role) {
    char number[4];
    (void)snprintf(number, sizeof number, "%d", rank);
    (void)setenv("STEPGAUGE_RANK", number, 1);
    return begin(false, (const char *const[]){"ip", "netns", "exec", h->name[rank], self, role, NULL});
}

static void across_hosts(void **state) {
    (void)state;
    two_hosts h;
    if (!make_hosts(&h)) {
        remove_hosts(&h);
        print_message("no network namespaces here (root, ip(8) and the kernel's leave are needed): skipped\n");
        skip();
    }
    (void)setenv("STEPGAUGE_RANKS", "2", 1);
    (void)setenv("STEPGAUGE_ADDRESS", "10.213.7.1", 1);
    (void)setenv("STEPGAUGE_PORT", "23456", 1);
    (void)setenv("STEPGAUGE_SECRET", "between two hosts", 1);
    pid_t one = begin_rank(&h, 1, "compute"), zero = begin_rank(&h, 0, "compute");
    int status[2][2] = {{end(zero), end(one)}, {0}};
    one = begin_rank(&h, 1, "cut");
    zero = begin_rank(&h, 0, "cut");
    (void)usleep(1500000);
    int cut = IP("-n", h.name[1], "link", "set", h.port[1], "down");
    status[1][0] = end(zero);
    status[1][1] = end(one);
    remove_hosts(&h);
    assert_int_equal(cut, 0);
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < 2; r++) assert_int_equal(status[i][r], 0);
}

int main(int n, char **argument) {
    if (n > 1) return be_rank(argument[1]);
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(across_hosts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
