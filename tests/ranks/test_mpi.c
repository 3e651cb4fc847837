/* Ranks for real: this program starts itself under mpirun. With arguments it is one of the ranks. */
#include "kernels/module.h"
#include "sim/ranks/launch_ranks.h"
#include "sim/ranks/process_tree.h"
#include "tests/support/transport_checks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* ==== a rank ====================================================================================================== */

static sg_transport *transport;
static int rank, ranks;

static void join(int expected, double timeout_s) {
    char library[96];
    const sg_transport_api *api;
    NEED_OK(sg_module_transport("mpi", &api, &status_));
    NEED_OK(api->join(expected, timeout_s, &transport, library, sizeof library, &status_));
    rank = transport->rank;
    ranks = transport->ranks;
    NEED(ranks == expected && rank >= 0 && rank < ranks);
    NEED(strstr(library, "MPI") != NULL);
}

static void role_reduce(int expected) {
    join(expected, 30);
    sg_check_reductions(transport, INT64_MAX);
    sg_check_parts(transport, 1);
    sg_check_parts(transport, 100003);
    sg_check_control(transport);
    sg_check_refusals(transport);
    sg_status status = {0};
    sg_transport *again;
    NEED(transport->api->join(ranks, 5, &again, NULL, 0, &status) == SG_BAD_INPUT);
    NEED(!again);
    transport->api->leave(transport);
    NEED(transport->api->barrier(transport, &status) == SG_MACHINE); /* MPI's world is the process's own and stays */
}

static void role_threads(int expected) {
    join(expected, 30);
    sg_check_two_threads(transport);
    transport->api->leave(transport);
}

static double clock_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Leaves this rank's pid where the test looks for survivors. */
static void leave_trace(const char *folder) {
    char path[160];
    (void)snprintf(path, sizeof path, "%s/%ld", folder, (long)getpid());
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    NEED(fd >= 0);
    (void)close(fd);
}

/* Rank `who` does `act`; the others wait for it in a barrier. */
static void role_trouble(int expected, const char *act, const char *folder) {
    join(expected, 2); /* patience 20 s */
    leave_trace(folder);
    NEED_OK(transport->api->barrier(transport, &status_));
    if (rank == 1 || strcmp(act, "sleep") == 0) {
        if (strcmp(act, "killed") == 0) (void)raise(SIGKILL);
        if (strcmp(act, "abort") == 0) transport->api->abort(transport, "this is a test");
        if (strcmp(act, "exit") == 0) _exit(2);
        if (strcmp(act, "orphan") == 0) (void)kill(getppid(), SIGKILL);
        (void)sleep(60);
        _exit(8);
    }
    sg_status status = {0};
    sg_code code = transport->api->barrier(transport, &status);
    _exit(code == SG_MACHINE ? 3 : 7);
}

static volatile sig_atomic_t asked_to_finish;

static void on_finish(int signal_number) {
    (void)signal_number;
    asked_to_finish = 1;
}

/* Works until asked to finish, then does what is left to do with the others; or does not care. */
static void role_work(int expected, const char *act, const char *folder) {
    bool stubborn = strcmp(act, "stubborn") == 0;
    (void)signal(SIGUSR1, stubborn ? SIG_IGN : on_finish);
    join(expected, 10);
    leave_trace(folder);
    double end = clock_s() + 60;
    while (!asked_to_finish && clock_s() < end) (void)usleep(10000);
    if (stubborn) _exit(8);
    NEED_OK(transport->api->barrier(transport, &status_));
    char path[160];
    (void)snprintf(path, sizeof path, "%s/finished-%d", folder, rank);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    NEED(fd >= 0);
    (void)close(fd);
    transport->api->leave(transport);
    _exit(130);
}

/* Rank 1 stops answering but lives: the rest must notice by themselves. */
static void role_hang(int expected) {
    join(expected, 0.3); /* patience 3 s */
    if (rank == 1) (void)sleep(60);
    sg_status status = {0};
    NEED(transport->api->barrier(transport, &status) == SG_MACHINE);
    NEED(strstr(status.text, "another rank hangs or is gone"));
    NEED(transport->api->barrier(transport, &status) == SG_MACHINE);
    NEED(strstr(status.text, "lost each other"));
    char why[512];
    NEED(transport->api->lost(transport, why, sizeof why));
    NEED(strstr(why, "another rank hangs or is gone"));
    transport->api->abort(transport, "a rank hangs");
}

/* join() must fail, with `part` in its words, within timeout and a little; ends with status 5 when it does. */
static void role_refused(int expected, double timeout_s, const char *part) {
    sg_status status = {0};
    const sg_transport_api *api;
    NEED_OK(sg_module_transport("mpi", &api, &status_));
    double start = clock_s();
    NEED(api->join(expected, timeout_s, &transport, NULL, 0, &status) == SG_MACHINE);
    NEED(clock_s() - start < timeout_s + 3);
    if (!strstr(status.text, part)) (void)fprintf(stderr, "'%s' lacks '%s'\n", status.text, part);
    NEED(strstr(status.text, part));
    _exit(5);
}

/* Rank 1 never joins; rank 0 must not wait for ever. */
static void role_absent(void) {
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    if (number && strcmp(number, "1") == 0) {
        (void)sleep(60);
        _exit(8);
    }
    role_refused(2, 1, "no answer from the other ranks");
}

static int be_rank(int n, char **argument) {
    const char *role = argument[1];
    int expected = n > 2 ? (int)strtol(argument[2], NULL, 10) : 0;
    if (strcmp(role, "reduce") == 0) role_reduce(expected);
    if (strcmp(role, "threads") == 0) role_threads(expected);
    if (strcmp(role, "trouble") == 0 && n == 5) role_trouble(expected, argument[3], argument[4]);
    if (strcmp(role, "work") == 0 && n == 5) role_work(expected, argument[3], argument[4]);
    if (strcmp(role, "hang") == 0) role_hang(expected);
    if (strcmp(role, "refused") == 0 && n == 4) role_refused(expected, 5, argument[3]);
    if (strcmp(role, "absent") == 0) role_absent();
    return 0;
}

/* ==== the tests =================================================================================================== */

static char self[4096];

/* The words of the latest launch that did not go well. */
static sg_status said;

static int launch(int n, const char *role, const char *expected, const char *act, const char *folder,
                  const sg_launch_ranks_options *options) {
    char *argv[] = {self, (char *)role, (char *)expected, (char *)act, (char *)folder, NULL};
    int exit_status = -1;
    said = (sg_status){0};
    sg_code code = sg_launch_ranks(n, argv, options, &exit_status, &said);
    if (code != SG_OK && exit_status <= 128) fail_msg("%s", said.text);
    return exit_status;
}

static void test_reduce_2(void **state) {
    (void)state;
    assert_int_equal(launch(2, "reduce", "2", NULL, NULL, NULL), 0);
}
static void test_reduce_4(void **state) {
    (void)state;
    assert_int_equal(launch(4, "reduce", "4", NULL, NULL, NULL), 0);
}
static void test_reduce_3(void **state) {
    (void)state;
    assert_int_equal(launch(3, "reduce", "3", NULL, NULL, NULL), 0);
}
static void test_reduce_alone(void **state) {
    (void)state;
    assert_int_equal(launch(1, "reduce", "1", NULL, NULL, NULL), 0);
}
static void test_two_threads(void **state) {
    (void)state;
    assert_int_equal(launch(2, "threads", "2", NULL, NULL, NULL), 0);
}

/* ---- trouble: nobody survives ---- */

static int make_folder(void **state) {
    char *folder = strdup("/tmp/sg_ranks_XXXXXX");
    *state = folder;
    return folder && mkdtemp(folder) ? 0 : -1;
}

static bool gone(long pid) {
    char path[64], text[256];
    (void)snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int fd = open(path, O_RDONLY);
    if (fd < 0) return true;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) return true;
    text[n] = 0;
    const char *end = strrchr(text, ')');
    return end && end[1] && end[2] == 'Z'; /* dead, and somebody else's to reap */
}

/* Number of ranks that left a trace; fails when one of them still lives after `wait_s`. */
static int traces(const char *folder, double wait_s) {
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    int n = 0;
    double end = clock_s() + wait_s;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 0) continue;
        n++;
        while (!gone(pid) && clock_s() < end) (void)usleep(20000);
        if (!gone(pid)) {
            (void)kill((pid_t)pid, SIGKILL);
            fail_msg("rank with pid %ld is still there", pid);
        }
    }
    (void)closedir(dir);
    return n;
}

static int remove_folder(void **state) {
    char *folder = *state;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir) (void)closedir(dir);
    int left = rmdir(folder);
    free(folder);
    return left;
}

static void trouble(void **state, const char *act, int want) {
    double start = clock_s();
    assert_int_equal(launch(3, "trouble", "3", act, *state, NULL), want);
    assert_true(clock_s() - start < 15);
    assert_int_equal(traces(*state, 0), 3);
}

static void test_killed_rank(void **state) {
    trouble(state, "killed", 128 + SIGKILL);
    assert_non_null(strstr(said.text, "a rank was killed by SIGKILL"));
}
static void test_aborting_rank(void **state) {
    trouble(state, "abort", SG_MACHINE);
}
static void test_failing_rank(void **state) {
    trouble(state, "exit", 2);
}
static void test_killed_mpirun(void **state) {
    trouble(state, "orphan", 128 + SIGKILL);
    assert_non_null(strstr(said.text, "mpirun was killed by SIGKILL"));
}

static void test_hanging_rank(void **state) {
    (void)state;
    double start = clock_s();
    assert_int_equal(launch(2, "hang", "2", NULL, NULL, NULL), SG_MACHINE);
    assert_true(clock_s() - start < 15);
}

static void test_time_over(void **state) {
    char *argv[] = {self, "trouble", "2", "sleep", *state, NULL};
    int exit_status;
    sg_status status = {0};
    sg_launch_ranks_options options = {.timeout_s = 2, .grace_s = 3};
    double start = clock_s();
    assert_int_equal(sg_launch_ranks(2, argv, &options, &exit_status, &status), SG_MACHINE);
    assert_non_null(strstr(status.text, "did not end within 2 s"));
    assert_true(clock_s() - start < 12);
    assert_int_equal(traces(*state, 0), 2);
}

static int count_files(const char *folder) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) n += entry->d_name[0] != '.';
    if (dir) (void)closedir(dir);
    return n;
}

/* Starts ranks from a child, waits until they are there and sends the child `signal`, `times` times; its exit status. */
static int interrupt(const char *folder, const char *role, const char *act, int signal, int times) {
    pid_t child = fork();
    if (child == 0) _exit(launch(2, role, "2", act, folder, NULL));
    double end = clock_s() + 20;
    while (count_files(folder) < 2 && clock_s() < end) (void)usleep(20000);
    for (int i = 0; i < times; i++) {
        (void)usleep(200000);
        assert_int_equal(kill(child, signal), 0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);
}

static void test_interrupt_lets_ranks_finish(void **state) {
    assert_int_equal(interrupt(*state, "work", "willing", SIGINT, 1), 130);
    assert_int_equal(traces(*state, 0), 2);
    assert_int_equal(count_files(*state), 4); /* each finished */
}
static void test_second_interrupt_ends_them(void **state) {
    double start = clock_s();
    assert_int_equal(interrupt(*state, "work", "stubborn", SIGINT, 2), 130);
    assert_int_equal(traces(*state, 0), 2);
    assert_true(clock_s() - start < 20);
}
static void test_terminate(void **state) {
    assert_int_equal(interrupt(*state, "trouble", "sleep", SIGTERM, 1), 128 + SIGTERM);
    assert_int_equal(traces(*state, 0), 2);
}
static void test_killed_launcher(void **state) {
    assert_int_equal(interrupt(*state, "trouble", "sleep", SIGKILL, 1), 128 + SIGKILL);
    assert_int_equal(traces(*state, 10), 2);
}

/* ---- joining without peers ---- */

static void test_absent_peer(void **state) {
    (void)state;
    double start = clock_s();
    assert_int_equal(launch(2, "absent", NULL, NULL, NULL, NULL), 5);
    assert_true(clock_s() - start < 15);
}

static void test_other_number_of_ranks(void **state) {
    (void)state;
    assert_int_equal(launch(2, "refused", "3", "3 ranks are expected, but 2 are there", NULL, NULL), 5);
}

/* Runs a rank without mpirun under the given variables; its exit status. */
static int alone(const char *const variables[], const char *part) {
    pid_t child = fork();
    if (child == 0) {
        for (size_t i = 0; variables[i]; i++) (void)putenv((char *)variables[i]);
        char *argv[] = {self, "refused", "4", (char *)part, NULL};
        (void)execv(self, argv);
        _exit(99);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static void test_variables_without_peers(void **state) {
    (void)state;
    const char *const none[] = {NULL}, *const open_mpi[] = {"OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK=0", NULL},
                      *const slurm[] = {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", NULL},
                      *const torchrun[] = {"RANK=0", "WORLD_SIZE=4", NULL},
                      *const gone_launcher[] = {"PMIX_RANK=0",
                                                "PMIX_NAMESPACE=1",
                                                "PMIX_SECURITY_MODE=native",
                                                "PMIX_SERVER_URI2=pmix-server.9;tcp4://127.0.0.1:9",
                                                "OMPI_COMM_WORLD_SIZE=4",
                                                NULL},
                      *const no_server[] = {"PMIX_RANK=0", "PMIX_NAMESPACE=1", "SLURM_PROCID=0", NULL};
    assert_int_equal(alone(none, "started alone"), 5);
    assert_int_equal(alone(open_mpi, "OMPI_COMM_WORLD_SIZE=4 is set, but no launcher"), 5);
    assert_int_equal(alone(slurm, "srun --mpi=pmix"), 5);
    assert_int_equal(alone(torchrun, "WORLD_SIZE=4 is set, but no launcher"), 5);
    assert_int_equal(alone(gone_launcher, "OMPI_COMM_WORLD_SIZE=4 is set, but no launcher that Open MPI knows answers"),
                     5);
    assert_int_equal(alone(no_server, "srun --mpi=pmix"), 5);
}

/* ---- launching ---- */

static void test_missing_mpirun(void **state) {
    (void)state;
    char *path = strdup(getenv("PATH")), *argv[] = {self, "nothing", NULL};
    assert_non_null(path);
    int exit_status;
    sg_status status = {0};
    (void)setenv("PATH", "/nowhere", 1);
    sg_code code = sg_launch_ranks(2, argv, NULL, &exit_status, &status);
    (void)setenv("PATH", path, 1);
    free(path);
    assert_int_equal(code, SG_MACHINE);
    assert_non_null(strstr(status.text, "apt install openmpi-bin"));
    assert_int_equal(sg_launch_ranks(0, argv, NULL, &exit_status, &status), SG_BAD_INPUT);
}

/* A child that the caller had before is neither killed nor reaped. */
static void test_other_children_stay(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    assert_int_equal(launch(2, "nothing", NULL, NULL, NULL, NULL), 0);
    assert_int_equal(kill(child, 0), 0);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

int main(int n, char **argument) {
    if (n > 1) return be_rank(n, argument);
    if (readlink("/proc/self/exe", self, sizeof self - 1) <= 0) return 1;
    /* Open MPI leaves memory behind; in the ranks it is not ours to report. */
    (void)setenv("LSAN_OPTIONS", "detect_leaks=0:intercept_tls_get_addr=0", 1);
    (void)setenv("ASAN_OPTIONS", "detect_leaks=0:intercept_tls_get_addr=0", 1);
#define SCENE(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_mpirun),
        cmocka_unit_test(test_other_children_stay),
        cmocka_unit_test(test_reduce_alone),
        cmocka_unit_test(test_reduce_2),
        cmocka_unit_test(test_reduce_3),
        cmocka_unit_test(test_reduce_4),
        cmocka_unit_test(test_two_threads),
        cmocka_unit_test(test_variables_without_peers),
        cmocka_unit_test(test_other_number_of_ranks),
        cmocka_unit_test(test_absent_peer),
        cmocka_unit_test(test_hanging_rank),
        SCENE(test_killed_rank),
        SCENE(test_aborting_rank),
        SCENE(test_failing_rank),
        SCENE(test_killed_mpirun),
        SCENE(test_time_over),
        SCENE(test_interrupt_lets_ranks_finish),
        SCENE(test_second_interrupt_ends_them),
        SCENE(test_terminate),
        SCENE(test_killed_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
