/* What launchers say in variables: who this process is among the ranks, and where they meet. */
#include "sim/ranks/rank_variables.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Every variable that a test may set. */
static const char *const names[] = {"STEPGAUGE_RANK",
                                    "STEPGAUGE_RANKS",
                                    "STEPGAUGE_LOCAL_RANK",
                                    "STEPGAUGE_LOCAL_RANKS",
                                    "STEPGAUGE_ADDRESS",
                                    "STEPGAUGE_PORT",
                                    "STEPGAUGE_SECRET",
                                    "STEPGAUGE_LISTENER",
                                    "OMPI_COMM_WORLD_RANK",
                                    "OMPI_COMM_WORLD_SIZE",
                                    "OMPI_COMM_WORLD_LOCAL_RANK",
                                    "OMPI_COMM_WORLD_LOCAL_SIZE",
                                    "PMI_RANK",
                                    "PMI_SIZE",
                                    "SLURM_PROCID",
                                    "SLURM_STEP_NUM_TASKS",
                                    "SLURM_NTASKS",
                                    "SLURM_LOCALID",
                                    "SLURM_STEP_ID",
                                    "SLURM_JOB_ID",
                                    "SLURM_STEP_NODELIST",
                                    "PMIX_RANK",
                                    "PMIX_NAMESPACE",
                                    "RANK",
                                    "WORLD_SIZE",
                                    "LOCAL_RANK",
                                    "LOCAL_WORLD_SIZE",
                                    "MASTER_ADDR",
                                    "MASTER_PORT",
                                    "TORCHELASTIC_RUN_ID",
                                    "TORCHELASTIC_RESTART_COUNT"};

static void clear_all(void) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) (void)unsetenv(names[i]);
}

/* Sets name, value, name, value ... NULL, and nothing else. */
static void only(const char *name, ...) {
    va_list rest;
    clear_all();
    va_start(rest, name);
    for (const char *n = name; n; n = va_arg(rest, const char *)) {
        bool known = false;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) known = known || strcmp(n, names[i]) == 0;
        if (!known) fail_msg("%s would stay set", n);
        assert_int_equal(setenv(n, va_arg(rest, const char *), 1), 0);
    }
    va_end(rest);
}

static sg_rank_variables read_well(void) {
    sg_rank_variables v;
    sg_status status = {0};
    if (sg_rank_variables_read(&v, &status) != SG_OK) fail_msg("%s", status.text);
    return v;
}

static void refused(const char *part) {
    sg_rank_variables v;
    sg_status status = {0};
    assert_int_equal(sg_rank_variables_read(&v, &status), SG_BAD_INPUT);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
}

static int clean(void **state) {
    (void)state;
    clear_all();
    return 0;
}

static void nobody_started_this(void **state) {
    (void)state;
    clear_all();
    assert_false(read_well().found);
    only("SLURM_PROCID", "0", "SLURM_JOB_ID", "7", NULL); /* a batch script is no rank */
    assert_false(read_well().found);
    only("MASTER_ADDR", "here", NULL);
    assert_false(read_well().found);
}

static void by_mpirun(void **state) {
    (void)state;
    only("OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_RANK", "0",
         "OMPI_COMM_WORLD_LOCAL_SIZE", "2", NULL);
    sg_rank_variables v = read_well();
    assert_true(v.found && v.rank == 2 && v.ranks == 4 && v.local_rank == 0 && v.local_ranks == 2);
    assert_true(v.meeting == SG_MEET_MPI);
    assert_string_equal(v.launcher, "mpirun");
    only("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_SIZE", "2", NULL);
    assert_int_equal(read_well().local_rank, 1);
    only("OMPI_COMM_WORLD_RANK", "2", "OMPI_COMM_WORLD_SIZE", "four", NULL);
    refused("OMPI_COMM_WORLD_SIZE=four");
    only("OMPI_COMM_WORLD_RANK", "4", "OMPI_COMM_WORLD_SIZE", "4", NULL);
    refused("rank 4 of 4");
    only("OMPI_COMM_WORLD_SIZE", "4", NULL);
    refused("OMPI_COMM_WORLD_RANK is not");
}

static void by_this_program(void **state) {
    (void)state;
    only("STEPGAUGE_RANK", "0", "STEPGAUGE_RANKS", "2", "STEPGAUGE_LOCAL_RANK", "0", "STEPGAUGE_LOCAL_RANKS", "2",
         "STEPGAUGE_ADDRESS", "127.0.0.1", "STEPGAUGE_PORT", "4711", "STEPGAUGE_SECRET", "abc", "STEPGAUGE_LISTENER",
         "5", "OMPI_COMM_WORLD_RANK", "7", NULL);
    sg_rank_variables v = read_well();
    assert_true(v.found && v.rank == 0 && v.ranks == 2 && v.meeting == SG_MEET_TCP);
    assert_true(v.port == 4711 && v.ports == 1 && v.listener == 5);
    assert_string_equal(v.address, "127.0.0.1");
    assert_string_equal(v.secret, "abc");
    assert_int_equal(setenv("STEPGAUGE_RANK", "1", 1), 0); /* the socket is rank 0's */
    assert_int_equal(read_well().listener, 0);
    assert_int_equal(setenv("STEPGAUGE_PORT", "70000", 1), 0);
    refused("STEPGAUGE_PORT (1 to 65535)");
    only("STEPGAUGE_RANK", "1", "STEPGAUGE_RANKS", "2", NULL);
    refused("STEPGAUGE_ADDRESS");
    only("STEPGAUGE_RANK", "1", NULL);
    refused("how many ranks");
    only("STEPGAUGE_RANK", "0", "STEPGAUGE_RANKS", "1", NULL); /* alone: nobody to meet */
    assert_int_equal(read_well().ranks, 1);
    char secret[2000];
    memset(secret, 'x', sizeof secret - 1);
    secret[sizeof secret - 1] = 0;
    only("STEPGAUGE_RANK", "0", "STEPGAUGE_RANKS", "2", "STEPGAUGE_ADDRESS", "h", "STEPGAUGE_PORT", "1",
         "STEPGAUGE_SECRET", secret, NULL);
    refused("longer than 511 characters");
}

static void by_torchrun(void **state) {
    (void)state;
    only("RANK", "5", "WORLD_SIZE", "8", "LOCAL_RANK", "1", "LOCAL_WORLD_SIZE", "4", "MASTER_ADDR", "node1",
         "MASTER_PORT", "29500", "TORCHELASTIC_RUN_ID", "job7", "TORCHELASTIC_RESTART_COUNT", "0", "SLURM_PROCID", "1",
         "SLURM_STEP_ID", "0", NULL);
    sg_rank_variables v = read_well();
    assert_string_equal(v.launcher, "torchrun");
    assert_true(v.rank == 5 && v.ranks == 8 && v.local_rank == 1 && v.local_ranks == 4 && v.meeting == SG_MEET_TCP);
    assert_string_equal(v.address, "node1");
    assert_true(v.port == 29501 && v.ports > 1); /* torchrun's own store is at MASTER_PORT */
    char secret[sizeof v.secret];
    memcpy(secret, v.secret, sizeof secret);
    assert_int_equal(setenv("TORCHELASTIC_RESTART_COUNT", "1", 1), 0);
    sg_rank_variables again = read_well();
    assert_string_not_equal(again.secret, secret);
    assert_int_equal(setenv("MASTER_PORT", "65534", 1), 0);
    v = read_well();
    assert_true(v.port > 0 && v.port + v.ports <= 65534);
    assert_int_equal(setenv("STEPGAUGE_PORT", "4000", 1), 0);
    v = read_well();
    assert_true(v.port == 4000 && v.ports == 1);
    only("RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "node1", "MASTER_PORT", "29500", NULL);
    assert_true(read_well().found);
    only("RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "node1", NULL);
    refused("STEPGAUGE_PORT");
}

static void by_slurm(void **state) {
    (void)state;
    only("SLURM_PROCID", "3", "SLURM_STEP_NUM_TASKS", "4", "SLURM_LOCALID", "1", "SLURM_STEP_ID", "2", "SLURM_JOB_ID",
         "1234567", "SLURM_STEP_NODELIST", "gpu[07-08,11],login", NULL);
    sg_rank_variables v = read_well();
    assert_string_equal(v.launcher, "srun");
    assert_true(v.rank == 3 && v.ranks == 4 && v.local_rank == 1 && v.meeting == SG_MEET_TCP);
    assert_string_equal(v.address, "gpu07");
    /* a GPU for each task: every one sees its own as the first */
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "0,1", 1), 0);
    assert_int_equal(read_well().local_rank, 1);
    assert_int_equal(setenv("CUDA_VISIBLE_DEVICES", "1", 1), 0);
    assert_int_equal(read_well().local_rank, 0);
    assert_int_equal(unsetenv("CUDA_VISIBLE_DEVICES"), 0);
    assert_true(v.port >= 20000 && v.port + v.ports <= 30000 && v.ports > 1);
    int port = v.port;
    assert_int_equal(setenv("SLURM_STEP_ID", "3", 1), 0);
    assert_int_not_equal(read_well().port, port); /* steps of one job beside each other */
    assert_int_equal(setenv("MASTER_ADDR", "other", 1), 0);
    assert_int_equal(setenv("MASTER_PORT", "5000", 1), 0);
    v = read_well();
    assert_string_equal(v.address, "other");
    assert_true(v.port == 5000 && v.ports == 1);
    assert_int_equal(setenv("PMIX_RANK", "3", 1), 0);
    assert_int_equal(setenv("PMIX_NAMESPACE", "slurm", 1), 0);
    assert_true(read_well().meeting == SG_MEET_EITHER);
    only("SLURM_PROCID", "0", "SLURM_NTASKS", "2", "SLURM_STEP_ID", "0", "SLURM_STEP_NODELIST", "[", NULL);
    refused("node list");
}

static void first_hosts(void **state) {
    (void)state;
    static const char *const lists[][2] = {{"one", "one"},
                                           {"a,b", "a"},
                                           {"n[1-3]", "n1"},
                                           {"n[003,9]", "n003"},
                                           {"r[1-2]n[05-08]", "r1n05"},
                                           {"n[1-3].cluster.org,x", "n1.cluster.org"}};
    char host[64];
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        assert_true(sg_slurm_first_host(lists[i][0], host, sizeof host));
        assert_string_equal(host, lists[i][1]);
    }
    static const char *const none[] = {"", ",a", "n[", "n[]", "n[-3]", "n[3"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (sg_slurm_first_host(none[i], host, sizeof host)) fail_msg("'%s' has host '%s'", none[i], host);
    assert_false(sg_slurm_first_host("toolong", host, 7));
    assert_true(sg_slurm_first_host("toolong", host, 8));
    assert_false(sg_slurm_first_host("n[123456]", host, 6));
}

int main(void) {
#define SCENE(test) cmocka_unit_test_setup_teardown(test, clean, clean)
    const struct CMUnitTest tests[] = {
        SCENE(nobody_started_this), SCENE(by_mpirun), SCENE(by_this_program),
        SCENE(by_torchrun),         SCENE(by_slurm),  SCENE(first_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
