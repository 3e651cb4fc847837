/* measure --dataset: a small data set of HDF5 demonstrations, whose frames need no decoder, loaded for real: the keys of the
 * answer, layers, pauses in place of the update, run files, refusals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "datasets/make/make.h"
#include "sim/files/run_file.h"
#include "tests/support/program.h"

static char folder[64], data[96], run_path[96];

static int set_up(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stepgauge-data-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(data, sizeof data, "%s/demos", folder);
    (void)snprintf(run_path, sizeof run_path, "%s/run.h5", folder);
    sg_status status = {0};
    const sg_make_options options = {.kind = "robomimic",
                                     .episodes = 2,
                                     .frames_per_episode = 6,
                                     .cameras = 1,
                                     .height = 32,
                                     .width = 40,
                                     .state_dim = 5,
                                     .action_dim = 4};
    if (sg_dataset_make(data, &options, &status) == SG_OK) return 0;
    print_error("%s\n", status.text);
    return -1;
}

static int tear_down(void **state) {
    (void)state;
    pid_t remover = fork();
    if (remover == 0) {
        (void)execlp("rm", "rm", "-rf", "--", folder, (char *)NULL);
        _exit(127);
    }
    return waitpid(remover, NULL, 0) == remover ? 0 : -1;
}

#define MEASURE "measure", "act", "--dataset", data, "--batch", "2", "--min-iterations", "4", "--time-budget", "0.3"

static const json_t *point(const json_t *root, size_t i) {
    const json_t *p = json_array_get(json_object_get(root, "points"), i);
    if (!p) fail_msg("no point %zu", i);
    return p;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    if (!text) fail_msg("no %s", key);
    return text;
}

/* A pause of 2 ms: each step takes it, and what the loader adds. */
static void workers_are_measured_side_by_side(void **state) {
    (void)state;
    json_t *root = sg_said_answer(sg_stepgauge(MEASURE, "--workers", "0,2", "--update-s", "0.002", "--json", NULL), 0);
    assert_int_equal(json_array_size(json_object_get(root, "points")), 2);
    for (size_t i = 0; i < 2; i++) {
        static const char *const numbers[] = {"frame_cpu_s",   "frame_s",      "sample_cpu_s",
                                              "batch_s",       "batch_cpu_s",  "worker_samples_per_s",
                                              "first_batch_s", "worker_bytes", "step_cpu_s"};
        const json_t *p = point(root, i), *loader = json_object_get(p, "loader");
        assert_string_equal(text_of(p, "execution"), "pause=0.002");
        assert_string_equal(text_of(p, "device"), "cpu");
        assert_string_equal(text_of(loader, "layer"), "cached");
        assert_int_equal(strncmp(text_of(loader, "dataset"), "robomimic;", 10), 0);
        assert_true(sg_json_number(p, "workers") == (i ? 2 : 0));
        assert_true(sg_json_number(loader, "update_s") == 0.002);
        assert_true(sg_json_number(loader, "prefetch") == 4);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            if (!(sg_json_number(loader, numbers[k]) > 0)) fail_msg("%s is not more than 0", numbers[k]);
        double batches = sg_json_number(loader, "batches"), iterations = sg_json_number(p, "iterations");
        assert_true(batches == iterations);
        assert_true(sg_json_number(loader, "frames") == 2 * batches);
        assert_true(sg_json_number(loader, "bytes_read") >= 0); /* what HDF5 keeps in memory is not read again */
        assert_true(sg_json_number(p, "step_s") >= 0.002);
        assert_true(sg_json_number(loader, "wait_p50_s") <= sg_json_number(loader, "wait_p90_s"));
        assert_true(sg_json_number(loader, "wait_p99_s") <= sg_json_number(loader, "wait_max_s"));
        double rate = sg_json_number(p, "samples_per_s"), mean_s = sg_json_number(p, "step_s_mean");
        assert_true(fabs(rate * mean_s - 2) < 1e-6); /* bursts count in full */
        assert_true(json_is_null(json_object_get(p, "forward_s")));
    }
    /* in line a batch is waited for while it is made */
    const json_t *loader = json_object_get(point(root, 0), "loader");
    assert_true(sg_json_number(point(root, 0), "dataloading_s_mean") >= 0.9 * sg_json_number(loader, "batch_s"));
    json_decref(root);
}

/* The table of steps names the layer and the workers where they tell its rows apart. */
static void assert_in_first_line(const char *text, const char *word, bool expected) {
    const char *end = strchr(text, '\n'), *at = strstr(text, word);
    assert_non_null(end);
    assert_int_equal(at && at < end, expected);
}

static void layers_stand_side_by_side(void **state) {
    (void)state;
    sg_said said = sg_stepgauge(MEASURE, "--loader-only", "--workers", "1", NULL);
    if (said.status != 0) fail_msg("%s", said.err);
    assert_non_null(strstr(said.out, "Loaders"));
    assert_in_first_line(said.out, "layer", true);
    assert_in_first_line(said.out, "workers", false);
    assert_non_null(strstr(said.out, "synthetic"));
    assert_non_null(strstr(said.out, "cached"));
    if (!strstr(said.out, "cold")) assert_non_null(strstr(said.err, "layer cold is left out"));
    sg_said_clear(&said);
    json_t *root = sg_said_answer(
        sg_stepgauge(MEASURE, "--loader-only", "--workers", "1,2", "--layers", "synthetic", "--json", NULL), 0);
    assert_int_equal(json_array_size(json_object_get(root, "points")), 2);
    assert_string_equal(text_of(json_object_get(point(root, 1), "loader"), "layer"), "synthetic");
    json_decref(root);
}

/* The policy's step itself, which a data set's sizes make small. */
static void steps_run_on_real_batches(void **state) {
    (void)state;
    static const char *const small[] = {"--set", "dim_model=32", "--set",     "dim_feedforward=32",
                                        "--set", "chunk_size=8", "--threads", "1"};
    for (int again = 0; again < 2; again++) {
        sg_said said = sg_stepgauge(MEASURE, "--workers", "2", "--layers", "cached", "-o", run_path, "--json", small[0],
                                    small[1], small[2], small[3], small[4], small[5], small[6], small[7], NULL);
        if (again) assert_non_null(strstr(said.err, "in the run file already"));
        json_t *root = sg_said_answer(said, 0);
        const json_t *p = point(root, 0);
        assert_true(sg_json_number(p, "update_s") > 0 && sg_json_number(p, "preprocessing_s") > 0);
        assert_string_equal(text_of(json_object_get(p, "loader"), "layer"), "cached");
        json_decref(root);
    }
    sg_run run;
    sg_status status;
    assert_int_equal(sg_run_file_read(run_path, &run, &status), SG_OK);
    assert_int_equal(run.n_points, 1);
    const sg_point *kept = &run.points[0];
    assert_string_equal(kept->config.layer, "cached");
    assert_int_equal(strncmp(kept->config.dataset, "robomimic;", 10), 0);
    assert_int_equal(kept->config.image_height, 32);
    assert_true(kept->fits_rates && kept->loader.batches > 0 && kept->loader.frame_cpu_s > 0);
    sg_run_clear(&run);
}

/* A policy that looks at no camera has nothing to load. */
static void without_cameras_batches_are_synthetic(void **state) {
    (void)state;
    json_t *root =
        sg_said_answer(sg_stepgauge("measure", "mlp", "--dataset", data, "--batch", "4", "--set", "hidden_dims=16",
                                    "--min-iterations", "3", "--time-budget", "0.1", "--json", NULL),
                       0);
    assert_int_equal(json_array_size(json_object_get(root, "points")), 1);
    assert_null(json_object_get(point(root, 0), "loader"));
    json_decref(root);
}

static void an_interrupt_ends_it(void **state) {
    (void)state;
    sg_running running = sg_stepgauge_start("measure", "act", "--dataset", data, "--batch", "2", "--workers", "2",
                                            "--update-s", "0.5", "--layers", "cached", NULL);
    const struct timespec a_while = {.tv_nsec = 300000000};
    (void)nanosleep(&a_while, NULL);
    assert_int_equal(kill(running.pid, SIGINT), 0);
    sg_said said = sg_running_wait(&running);
    assert_int_equal(said.status, 130);
    assert_non_null(strstr(said.err, "interrupted"));
    sg_said_clear(&said);
}

static void refused(sg_said said, const char *why) {
    if (said.status != 2) fail_msg("exit status %d instead of 2: %s", said.status, said.err);
    if (!strstr(said.err, why)) fail_msg("stderr does not say '%s': %s", why, said.err);
    sg_said_clear(&said);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    refused(sg_stepgauge("measure", "act", "--layers", "chached", NULL), "did you mean 'cached'");
    refused(sg_stepgauge("measure", "act", "--layers", "cached", NULL), "--dataset DIR");
    refused(sg_stepgauge(MEASURE, "--update-s", "1", "--device", "cuda", NULL), "leave out --device");
    refused(sg_stepgauge(MEASURE, "--update-s", "1", "--loader-only", NULL), "leave out one of them");
    refused(sg_stepgauge(MEASURE, "--update-s", "-1", NULL), "at least 0");
    char unwritten[600];
    (void)snprintf(unwritten, sizeof unwritten, "%s.none", run_path);
    refused(sg_stepgauge(MEASURE, "--cameras", "2", "--layers", "synthetic,cached", "-o", unwritten, NULL),
            "--cameras 1");
    assert_int_equal(access(unwritten, F_OK), -1); /* nothing was measured before */
    refused(sg_stepgauge("measure", "ppo", "--update-s", "1", NULL), "environment");
    refused(sg_stepgauge("inspect", "act", "--loader-only", NULL), "measure");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_measured_side_by_side),
        cmocka_unit_test(layers_stand_side_by_side),
        cmocka_unit_test(without_cameras_batches_are_synthetic),
        cmocka_unit_test(steps_run_on_real_batches),
        cmocka_unit_test(an_interrupt_ends_it),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
