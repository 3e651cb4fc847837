/* measure, as scripts use it: the keys of its answer, run files that grow and survive, interruptions, bad files, ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "formats/durable_file.h"
#include "sim/files/run_file.h"
#include "sim/files/user_block.h"
#include "sim/measure/point_tree.h"
#include "tests/support/program.h"

static char folder[] = "/tmp/stepgauge-measure-XXXXXX", run_path[64];

static const char *const small[] = {
    "--set", "hidden_dims=16", "--min-iterations", "3", "--time-budget", "0.2", "--threads", "1"};
#define SMALL small[0], small[1], small[2], small[3], small[4], small[5], small[6], small[7]

static int fresh_folder(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stepgauge-measure-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(run_path, sizeof run_path, "%s/run.h5", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    (void)unlink(run_path);
    return rmdir(folder); /* fails when a lock or temporary file was left behind */
}

static void expect(sg_said said, int status, const char *in_err) {
    if (said.status != status) fail_msg("exit status %d instead of %d: %s", said.status, status, said.err);
    if (in_err && !strstr(said.err, in_err)) fail_msg("stderr does not say '%s': %s", in_err, said.err);
    sg_said_clear(&said);
}

static size_t points_in(const char *path) {
    sg_run run;
    sg_status status;
    if (sg_run_file_read(path, &run, &status) != SG_OK) return SIZE_MAX;
    size_t n = run.n_points;
    sg_run_clear(&run);
    return n;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static void has_statistic(const json_t *point, const char *name) {
    static const char *const endings[] = {"", "_mean", "_low", "_high"};
    double value[4];
    for (int i = 0; i < 4; i++) {
        char key[96];
        (void)snprintf(key, sizeof key, "%s%s", name, endings[i]);
        value[i] = sg_json_number(point, key);
        if (!(value[i] >= 0)) fail_msg("%s is %g", key, value[i]);
    }
    if (!(value[2] <= value[0] && value[0] <= value[3])) fail_msg("%s lies outside of its interval", name);
}

static const json_t *only_point(const json_t *root) {
    const json_t *points = json_object_get(root, "points");
    assert_int_equal(json_array_size(points), 1);
    return json_array_get(points, 0);
}

static void has_common_keys(const json_t *root) {
    static const char *const texts[] = {"policy", "framework", "device", "precision", "host"};
    static const char *const numbers[] = {"threads",
                                          "batch",
                                          "ranks",
                                          "iterations",
                                          "samples_per_s",
                                          "peak_allocated_bytes",
                                          "peak_reserved_bytes",
                                          "resident_bytes",
                                          "rank_spread"};
    static const char *const times[] = {"dataloading_s", "preprocessing_s", "update_s",    "step_s",
                                        "forward_s",     "backward_s",      "optimizer_s", "exposed_sync_s"};
    const json_t *point = only_point(root);
    assert_true(json_is_object(json_object_get(root, "machine")));
    assert_true(json_is_string(json_object_get(json_object_get(root, "machine"), "cpu")));
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!json_is_string(json_object_get(point, texts[i]))) fail_msg("no %s", texts[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) (void)sg_json_number(point, numbers[i]);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) has_statistic(point, times[i]);
    assert_true(json_is_boolean(json_object_get(point, "disturbed")));
}

static void keys_of_a_supervised_point(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "8", "--json", SMALL, NULL);
    json_t *root = sg_said_json(&said);
    assert_int_equal(said.status, 0);
    has_common_keys(root);
    const json_t *p = only_point(root);
    assert_string_equal(json_string_value(json_object_get(p, "policy")), "mlp");
    assert_string_equal(json_string_value(json_object_get(p, "host")), "native");
    assert_true(sg_json_number(p, "batch") == 8 && sg_json_number(p, "ranks") == 1 &&
                sg_json_number(p, "threads") == 1);
    assert_true(sg_json_number(p, "iterations") >= 3);
    assert_true(sg_json_number(p, "update_s") > 0 && sg_json_number(p, "samples_per_s") > 0);
    assert_true(sg_json_number(p, "step_s") >= sg_json_number(p, "update_s_low"));
    assert_true(sg_json_number(p, "peak_reserved_bytes") >= sg_json_number(p, "peak_allocated_bytes"));
    assert_null(json_object_get(p, "iteration_s"));
    json_decref(root);
    sg_said_clear(&said);
}

static void keys_of_a_ppo_point(void **state) {
    (void)state;
    sg_said said =
        sg_stepgauge("measure", "ppo", "--envs", "16", "--steps-per-env", "4", "--mini-batches", "2", "--ppo-epochs",
                     "1", "--env-step-us", "5", "--min-iterations", "3", "--time-budget", "0.5", "--json", NULL);
    json_t *root = sg_said_json(&said);
    assert_int_equal(said.status, 0);
    has_common_keys(root);
    const json_t *p = only_point(root);
    static const char *const times[] = {"collection_s", "inference_s", "environment_s", "learning_s", "iteration_s"};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) has_statistic(p, times[i]);
    assert_true(sg_json_number(p, "env_steps_per_s") > 0);
    assert_true(sg_json_number(p, "iteration_s") >= sg_json_number(p, "learning_s_low"));
    assert_true(sg_json_number(p, "environment_s") >= 0.9 * 16 * 4 * 5e-6);
    json_decref(root);
    sg_said_clear(&said);
    expect(sg_stepgauge("measure", "ppo", "--batch", "64", NULL), 2, "--envs");
}

/* ---- run files --------------------------------------------------------------------------------------------------- */

static double update_of(const sg_said *said) {
    json_t *root = sg_said_json(said);
    double value = sg_json_number(only_point(root), "update_s");
    json_decref(root);
    return value;
}

static void runs_append_and_resume(void **state) {
    (void)state;
    sg_said first = sg_stepgauge("measure", "mlp", "--batch", "2", "-o", run_path, "--json", SMALL, NULL);
    assert_int_equal(first.status, 0);
    assert_int_equal(points_in(run_path), 1);
    /* found again: the answer holds the recorded point */
    sg_said again = sg_stepgauge("measure", "mlp", "--batch", "2", "-o", run_path, "--json", SMALL, NULL);
    assert_int_equal(again.status, 0);
    assert_non_null(strstr(again.err, "in the run file already"));
    assert_true(update_of(&again) == update_of(&first));
    assert_int_equal(points_in(run_path), 1);
    /* measured again: one point all the same, with new times */
    sg_said fresh = sg_stepgauge("measure", "mlp", "--batch", "2", "-o", run_path, "--fresh", "--json", SMALL, NULL);
    assert_int_equal(fresh.status, 0);
    assert_null(strstr(fresh.err, "in the run file already"));
    assert_true(update_of(&fresh) != update_of(&first));
    assert_int_equal(points_in(run_path), 1);
    expect(sg_stepgauge("measure", "mlp", "--batch", "4,2", "-o", run_path, SMALL, NULL), 0,
           "batch 2 is in the run file");
    sg_run run;
    sg_status status;
    assert_int_equal(sg_run_file_read(run_path, &run, &status), SG_OK);
    assert_int_equal(run.n_points, 2);
    assert_int_equal(run.points[0].config.batch, 2);
    assert_int_equal(run.points[1].config.batch, 4);
    sg_run_clear(&run);
    sg_said_clear(&first);
    sg_said_clear(&again);
    sg_said_clear(&fresh);
}

static void a_second_writer_is_told_of_the_first(void **state) {
    (void)state;
    sg_file_lock lock;
    sg_status status;
    char pid[32];
    (void)snprintf(pid, sizeof pid, "process %ld", (long)getpid());
    assert_int_equal(sg_file_lock_take(run_path, &lock, &status), SG_OK);
    expect(sg_stepgauge("measure", "mlp", "--batch", "2", "-o", run_path, SMALL, NULL), 2, pid);
    sg_file_lock_release(&lock);
    expect(sg_stepgauge("measure", "mlp", "--batch", "2", "-o", run_path, SMALL, NULL), 0, NULL);
}

static unsigned char *read_all(const char *path, size_t *n) {
    unsigned char *bytes;
    sg_status status;
    assert_int_equal(sg_file_read(path, 1u << 24, &bytes, n, &status), SG_OK);
    return bytes;
}

static void write_all(const char *path, const void *bytes, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Refused by readers and by writers, and left as it is. */
static void is_refused(const unsigned char *bytes, size_t n, const char *why) {
    write_all(run_path, bytes, n);
    expect(sg_stepgauge("measure", "mlp", "--batch", "4", "-o", run_path, SMALL, NULL), 2, why);
    expect(sg_stepgauge("fit", run_path, NULL), 2, why);
    size_t left;
    unsigned char *after = read_all(run_path, &left);
    assert_int_equal(left, n);
    assert_memory_equal(after, bytes, n);
    free(after);
}

static void damaged_files_are_refused(void **state) {
    (void)state;
    expect(sg_stepgauge("measure", "mlp", "--batch", "2", "-o", run_path, SMALL, NULL), 0, NULL);
    size_t n;
    unsigned char *good = read_all(run_path, &n);
    assert_true(n > SG_USER_BLOCK_BYTES);
    is_refused(good, n - 100, "run.h5");
    is_refused(good, 100, "run.h5");
    is_refused((const unsigned char *)"batch,update_s\n2,0.1\n", 21, "run.h5");
    good[n / 2] ^= 1;
    is_refused(good, n, "run.h5");
    good[n / 2] ^= 1;
    sg_file_format newer = sg_run_format;
    newer.version++;
    sg_user_block_make(&newer, good + SG_USER_BLOCK_BYTES, n - SG_USER_BLOCK_BYTES, good);
    is_refused(good, n, "version");
    free(good);
}

static void the_disk_fills_up(void **state) {
    (void)state;
    expect(sg_stepgauge("measure", "mlp", "--batch", "2", "-o", run_path, SMALL, NULL), 0, NULL);
    size_t n, left;
    unsigned char *before = read_all(run_path, &n);
    struct rlimit usual, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    tight = usual;
    tight.rlim_cur = n;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    sg_said said = sg_stepgauge("measure", "mlp", "--batch", "4", "-o", run_path, SMALL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
    expect(said, 3, "untouched");
    unsigned char *after = read_all(run_path, &left);
    assert_int_equal(left, n);
    assert_memory_equal(after, before, n);
    free(after);
    free(before);
}

static void unwritable_folders(void **state) {
    (void)state;
    expect(sg_stepgauge("measure", "mlp", "--batch", "2", "-o", "/nonexistent/run.h5", SMALL, NULL), 2,
           "does not exist");
    const char *path = "/sys/run.h5"; /* nobody can make a file there, root included */
    if (access("/sys", F_OK) != 0) skip();
    expect(sg_stepgauge("measure", "mlp", "--batch", "2", "-o", path, SMALL, NULL), 3, path);
}

/* ---- interruptions ----------------------------------------------------------------------------------------------- */

static void pause_briefly(void) {
    const struct timespec pause = {0, 1000000};
    (void)nanosleep(&pause, NULL);
}

/* Until the run file holds this many points; fails after a minute. */
static void wait_for_points(size_t least) {
    for (int i = 0; i < 60000; i++) {
        size_t n = points_in(run_path);
        if (n != SIZE_MAX && n >= least) return;
        pause_briefly();
    }
    fail_msg("the run file never held %zu points", least);
}

static void interrupted_in_the_middle(void **state) {
    (void)state;
    sg_running running = sg_stepgauge_start(
        "measure", "mlp", "--batch",
        "2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32", "-o", run_path,
        "--json", "--set", "hidden_dims=256,256", "--min-iterations", "100", "--time-budget", "5", NULL);
    wait_for_points(1);
    assert_int_equal(kill(running.pid, SIGINT), 0);
    sg_said said = sg_running_wait(&running);
    if (said.status != 130) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    size_t told = json_array_size(json_object_get(root, "points")), kept = points_in(run_path);
    assert_true(kept >= 1 && kept < 31);
    assert_int_equal(told, kept);
    assert_non_null(strstr(said.err, "is kept"));
    json_decref(root);
    sg_said_clear(&said);
}

static void interrupted_before_anything(void **state) {
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        sg_running running =
            sg_stepgauge_start("measure", "mlp", "--batch", "512", "-o", run_path, "--set", "hidden_dims=512,512,512",
                               "--min-iterations", "200", "--time-budget", "60", NULL);
        wait_for_points(0);
        assert_int_equal(kill(running.pid, signals[i]), 0);
        sg_said said = sg_running_wait(&running);
        assert_null(strstr(said.err, "is kept"));
        expect(said, 130, "before anything was measured");
        assert_int_equal(points_in(run_path), 0);
        assert_int_equal(unlink(run_path), 0); /* its appearing tells that the next one is under way */
    }
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

static bool can_launch(void) {
    const char *modules = getenv("STEPGAUGE_MODULES");
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/stepgauge_mpi.so", modules ? modules : SG_BINARY_DIR "/modules");
    if (access(path, R_OK) != 0) {
        print_message("the mpi module was not built: skipped\n");
        return false;
    }
    if (access("/usr/bin/mpirun", X_OK) == 0 || access("/usr/local/bin/mpirun", X_OK) == 0) return true;
    print_message("there is no mpirun: skipped\n");
    return false;
}

static void two_ranks_are_two_processes(void **state) {
    (void)state;
    if (!can_launch()) skip();
    /* Open MPI leaks by itself, which would end ranks with an error under the leak checker. */
    const char *options = getenv("ASAN_OPTIONS");
    char before[512];
    (void)snprintf(before, sizeof before, "%s", options ? options : "");
    assert_int_equal(setenv("ASAN_OPTIONS", "detect_leaks=0:intercept_tls_get_addr=0", 1), 0);
    sg_said said =
        sg_stepgauge("measure", "mlp", "--batch", "8", "--ranks", "2", "-o", run_path, "--json", SMALL, NULL);
    assert_int_equal(setenv("ASAN_OPTIONS", before, 1), 0);
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    has_common_keys(root);
    const json_t *p = only_point(root);
    assert_true(sg_json_number(p, "ranks") == 2);
    assert_true(sg_json_number(p, "rank_spread") >= 0);
    json_decref(root);
    sg_said_clear(&said);
    sg_run run;
    sg_status status;
    assert_int_equal(sg_run_file_read(run_path, &run, &status), SG_OK);
    assert_int_equal(run.n_points, 1);
    assert_non_null(run.points[0].rank_update_s);
    assert_true(run.points[0].q[SG_Q_EXPOSED_SYNC].median >= 0);
    sg_run_clear(&run);
}

static sg_said two_ranks_without_mpirun(const char *batch) {
    const char *usual = getenv("PATH");
    char *path = strdup(usual ? usual : "/usr/bin:/bin");
    assert_non_null(path);
    assert_int_equal(setenv("PATH", "/nonexistent", 1), 0);
    sg_said said =
        sg_stepgauge("measure", "mlp", "--batch", batch, "--ranks", "2", "-o", run_path, "--json", SMALL, NULL);
    assert_int_equal(setenv("PATH", path, 1), 0);
    free(path);
    return said;
}

/* The ranks start by themselves and meet over TCP; what the run file holds is not measured again; a batch that does not fit is
 * one answer of all ranks and does not end the rest. */
static void ranks_need_no_mpirun(void **state) {
    (void)state;
    sg_said said = two_ranks_without_mpirun("8");
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    assert_true(sg_json_number(only_point(root), "ranks") == 2);
    json_decref(root);
    sg_said_clear(&said);
    said = two_ranks_without_mpirun("8");
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    assert_non_null(strstr(said.err, "batch 8 is in the run file already"));
    sg_said_clear(&said);
    expect(two_ranks_without_mpirun("16777216,16"), 1, "take a smaller batch");
    sg_run run;
    sg_status status;
    assert_int_equal(sg_run_file_read(run_path, &run, &status), SG_OK);
    assert_int_equal(run.n_points, 2);
    assert_int_equal(run.points[1].config.batch, 16);
    sg_run_clear(&run);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void options_of_other_commands_are_refused(void **state) {
    (void)state;
    expect(sg_stepgauge("inspect", "act", "--budget", "3", NULL), 2, "plan");
    expect(sg_stepgauge("--fresh", "gauge", "mlp", NULL), 2, "measure");
    expect(sg_stepgauge("devices", "--batch", "3", NULL), 2, "'devices' takes no --batch");
    expect(sg_stepgauge("measure", "mlp", "--offers=x.csv", NULL), 2, "plan");
    expect(sg_stepgauge("inspect", "mlp", "--quiet", NULL), 0, NULL);
}

int main(void) {
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, fresh_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_a_supervised_point),
        cmocka_unit_test(keys_of_a_ppo_point),
        WITH_FOLDER(runs_append_and_resume),
        WITH_FOLDER(a_second_writer_is_told_of_the_first),
        WITH_FOLDER(damaged_files_are_refused),
        WITH_FOLDER(the_disk_fills_up),
        cmocka_unit_test(unwritable_folders),
        WITH_FOLDER(interrupted_in_the_middle),
        WITH_FOLDER(interrupted_before_anything),
        WITH_FOLDER(two_ranks_are_two_processes),
        WITH_FOLDER(ranks_need_no_mpirun),
        cmocka_unit_test(options_of_other_commands_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
