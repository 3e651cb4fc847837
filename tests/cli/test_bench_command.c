/* bench, as scripts use it: its answer as JSON, the run file it leaves, bad input, ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/files/run_file.h"
#include "tests/support/program.h"

static char folder[] = "/tmp/stepgauge-bench-XXXXXX", run_path[64];

static int fresh_folder(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/stepgauge-bench-XXXXXX");
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
    if (said.status != status) fail_msg("exit status %d instead of %d: %s%s", said.status, status, said.err, said.out);
    if (in_err && !strstr(said.err, in_err)) fail_msg("stderr does not say '%s': %s", in_err, said.err);
    sg_said_clear(&said);
}

#define SMALL "--device", "cpu", "--threads", "1", "--time-budget", "0.5", "--min-iterations", "3"

static const json_t *result(const json_t *root, size_t i) {
    return json_array_get(json_object_get(root, "results"), i);
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "(none)";
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static void products_as_json_and_in_the_run_file(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("bench", "gemm", "--sizes", "32,96", "--precision", "fp32,bf16", "-o", run_path,
                                "--json", SMALL, NULL);
    assert_int_equal(said.status, 0);
    json_t *root = sg_said_json(&said);
    assert_string_equal(text(root, "bench"), "gemm");
    assert_int_equal(json_array_size(json_object_get(root, "results")), 8);
    const json_t *first = result(root, 0);
    assert_string_equal(text(first, "what"), "product");
    assert_string_equal(text(first, "device"), "cpu");
    assert_true(sg_json_number(first, "flops") == 2.0 * 32 * 32 * 32);
    assert_true(sg_json_number(first, "seconds_low") <= sg_json_number(first, "seconds_median"));
    assert_true(sg_json_number(first, "seconds_p99") >= sg_json_number(first, "seconds_median"));
    assert_true(json_is_true(json_object_get(first, "checked")));
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "summary"), "ceiling")), 2);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "summary"), "precision_factor")), 2);
    sg_run run;
    sg_status status = {0};
    if (sg_run_file_read(run_path, &run, &status) != SG_OK) fail_msg("%s", status.text);
    assert_int_equal(run.n_micros, 8);
    for (size_t i = 0; i < 8; i++) {
        assert_true(run.micros[i].s.median > 0);
        assert_string_equal(run.micros[i].config.what, text(result(root, i), "what"));
    }
    sg_run_clear(&run);
    json_decref(root);
    sg_said_clear(&said);
    /* other commands read such a file; it has no points yet */
    expect(sg_stepgauge("fit", run_path, NULL), 2, "measure");
}

static void every_benchmark_prints_a_table(void **state) {
    (void)state;
    static const char *const in_table[][3] = {
        {"memory", "8K", "of the copy"}, {"copy", "8K", "to the device"}, {"gemm", "48", "TFLOP/s"}};
    for (size_t i = 0; i < 3; i++) {
        sg_said said = sg_stepgauge("bench", in_table[i][0], "--sizes", in_table[i][1], SMALL, NULL);
        assert_int_equal(said.status, 0);
        if (!strstr(said.out, in_table[i][2])) fail_msg("no '%s' in: %s", in_table[i][2], said.out);
        sg_said_clear(&said);
    }
    sg_said said = sg_stepgauge("bench", "launch", SMALL, NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "launched and waited for"));
    sg_said_clear(&said);
}

static void what_does_not_fit_is_an_answer(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("bench", "memory", "--sizes", "8K,4000G", "--json", SMALL, NULL);
    assert_int_equal(said.status, 1);
    json_t *root = sg_said_json(&said);
    assert_true(json_array_size(json_object_get(root, "results")) > 0);
    assert_true(json_array_size(json_object_get(root, "left_out")) > 0);
    assert_non_null(strstr(text(json_array_get(json_object_get(root, "left_out"), 0), "why"), "GiB"));
    json_decref(root);
    sg_said_clear(&said);
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void bad_input_is_told_at_once(void **state) {
    (void)state;
    expect(sg_stepgauge("bench", NULL), 2, "gemm, memory, copy, launch, collective, decode or ops");
    expect(sg_stepgauge("bench", "gem", NULL), 2, "did you mean 'gemm'");
    expect(sg_stepgauge("bench", "quantum", NULL), 2, "there is no benchmark 'quantum'");
    expect(sg_stepgauge("bench", "gemm", "copy", NULL), 2, "one benchmark at a time");
    expect(sg_stepgauge("bench", "gemm", "--sizes", "0", NULL), 2, "at least 1");
    expect(sg_stepgauge("bench", "gemm", "--sizes=-4", NULL), 2, "at least 1");
    expect(sg_stepgauge("bench", "copy", "--sizes", "9000000G", NULL), 2, "--sizes");
    expect(sg_stepgauge("bench", "copy", "--sizes", "16X", NULL), 2, "separated by commas");
    expect(sg_stepgauge("bench", "memory", "--sizes", "3", "--device", "cpu", NULL), 2, "at least 4");
    expect(sg_stepgauge("bench", "gemm", "--sizes", "2000000", "--device", "cpu", NULL), 2, "1 to 1048576");
    expect(sg_stepgauge("bench", "gemm", "--precision", "fp8", NULL), 2, "fp32, tf32, bf16 or fp16");
    expect(sg_stepgauge("bench", "copy", "--precision", "fp32", NULL), 2, "takes no --precision");
    expect(sg_stepgauge("bench", "launch", "--sizes", "4", NULL), 2, "takes no --sizes");
    expect(sg_stepgauge("bench", "gemm", "--ranks", "2", NULL), 2, "for 'bench collective'");
    expect(sg_stepgauge("bench", "gemm", "--batch", "2", NULL), 2, "takes no --batch");
    expect(sg_stepgauge("bench", "gemm", "--device", "abacus", NULL), 3, "abacus");
    expect(sg_stepgauge("bench", "decode", "--device", "cpu", NULL), 2, "takes no --device");
    expect(sg_stepgauge("bench", "decode", "--ranks", "2", NULL), 2, "for 'bench collective'");
    expect(sg_stepgauge("bench", "decode", "--sizes", "97", NULL), 2, "even heights");
    expect(sg_stepgauge("bench", "collective", NULL), 2, "at least two ranks");
    expect(sg_stepgauge("bench", "collective", "--ranks", "1", NULL), 2, "2 or more");
    expect(sg_stepgauge("bench", "collective", "--ranks", "2", "--precision", "fp16", NULL), 2, "fp32 or bf16");
}

/* The file is refused before anything is measured: the default sizes would take a minute. */
static void an_output_that_cannot_be_is_told_before_measuring(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("bench", "gemm", "-o", "/nonexistent/folder/run.h5", NULL);
    assert_true(said.status == 2 || said.status == 3);
    assert_non_null(strstr(said.err, "/nonexistent/folder"));
    assert_true(said.seconds < 5);
    sg_said_clear(&said);
}

/* ---- ranks ------------------------------------------------------------------------------------------------------- */

static bool can_launch(void) {
    if (access("/usr/bin/mpirun", X_OK) == 0 || access("/usr/local/bin/mpirun", X_OK) == 0) return true;
    print_message("there is no mpirun: skipped\n");
    return false;
}

static void collectives_of_two_ranks(void **state) {
    (void)state;
    if (!can_launch()) skip();
    /* Open MPI leaks by itself, which would end ranks with an error under the leak checker. */
    const char *options = getenv("ASAN_OPTIONS");
    char before[512];
    (void)snprintf(before, sizeof before, "%s", options ? options : "");
    assert_int_equal(setenv("ASAN_OPTIONS", "detect_leaks=0:intercept_tls_get_addr=0", 1), 0);
    sg_said said = sg_stepgauge("bench", "collective", "--ranks", "2", "--sizes", "4K,100001", "-o", run_path, "--json",
                                "--threads", "1", "--time-budget", "4", "--min-iterations", "3", NULL);
    assert_int_equal(setenv("ASAN_OPTIONS", before, 1), 0);
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    size_t n = json_array_size(json_object_get(root, "results"));
    assert_true(n >= 9 && n % 3 == 0); /* the second size may find no time */
    for (size_t i = 0; i < n; i++) {
        const json_t *r = result(root, i);
        assert_true(sg_json_number(r, "ranks") == 2 && sg_json_number(r, "seconds_median") > 0);
        assert_true((int64_t)sg_json_number(r, "bytes") % 8 == 0); /* whole floats for both */
        if (strcmp(text(r, "what"), "gemm") == 0) continue;
        double algbw = sg_json_number(r, "algbw"), busbw = sg_json_number(r, "busbw");
        assert_float_equal(algbw, sg_json_number(r, "bytes") / sg_json_number(r, "seconds_median"), 1e-6 * algbw);
        assert_float_equal(busbw, strcmp(text(r, "what"), "all_reduce") ? algbw / 2 : algbw, 1e-6 * algbw);
        assert_true(json_is_true(json_object_get(r, "checked")));
        if (*text(r, "beside")) assert_true(sg_json_number(r, "alone_s") > 0);
    }
    json_decref(root);
    sg_said_clear(&said);
    sg_run run;
    assert_int_equal(sg_run_file_read(run_path, &run, NULL), SG_OK);
    assert_int_equal(run.n_micros, n);
    sg_run_clear(&run);
}

/* Operations become points, points shapes of a machine, and the machine answers near what was measured: a twin. */
static void operations_make_a_twin(void **state) {
    (void)state;
    expect(sg_stepgauge("bench", "ops", "--sizes", "64", NULL), 2, "takes no");
    sg_said said = sg_stepgauge("bench", "ops", "-o", run_path, "--device", "cpu", "--threads", "1", "--time-budget",
                                "0.5", "--json", "--quiet", NULL);
    assert_int_equal(said.status, 0);
    json_t *root = sg_said_json(&said);
    const json_t *first = json_array_get(json_object_get(root, "points"), 0);
    assert_string_equal(text(first, "policy"), "ppo");
    double measured_s = sg_json_number(first, "learning_s");
    assert_true(measured_s > 0 && sg_json_number(root, "left_out") > 0);
    json_decref(root);
    sg_said_clear(&said);
    char machine[80];
    (void)snprintf(machine, sizeof machine, "%s/here.h5", folder);
    said = sg_stepgauge("fit", run_path, "-o", machine, "--quiet", NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "measured shapes"));
    sg_said_clear(&said);
    said = sg_stepgauge("predict", "ppo", "--machine", machine, "--framework", "native", "--envs", "1024",
                        "--steps-per-env", "4", "--ppo-epochs", "1", "--json", NULL);
    assert_int_equal(said.status, 0);
    root = sg_said_json(&said);
    double ratio = sg_json_number(root, "learning_s.value") / measured_s;
    if (!(ratio > 0.3 && ratio < 3)) fail_msg("predicted %.3g of what was measured", ratio);
    json_decref(root);
    sg_said_clear(&said);
    (void)unlink(machine);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

static void frames_as_json_and_in_the_run_file(void **state) {
    (void)state;
    assert_int_equal(setenv("TMPDIR", folder, 1), 0); /* where clips must not stay */
    json_t *root = sg_said_answer(sg_stepgauge("bench", "decode", "--sizes", "96", "--threads", "2", "--time-budget",
                                               "0.1", "--min-iterations", "1", "--json", "-o", run_path, NULL),
                                  0);
    const json_t *rows = json_object_get(json_object_get(root, "summary"), "decode"), *row = json_array_get(rows, 1);
    size_t n = json_array_size(rows);
    assert_true(n >= 4 && n == json_array_size(json_object_get(root, "results")));
    assert_true(n + json_array_size(json_object_get(root, "left_out")) >= 7); /* of as many clips */
    assert_string_equal(text(row, "codec"), "av1");
    assert_string_equal(text(row, "access"), "sequential");
    assert_true(sg_json_number(row, "frames_per_s_per_process") > 0);
    assert_float_equal(sg_json_number(row, "decoded_per_frame"), 1, 1e-9);
    json_decref(root);
    sg_run run;
    assert_int_equal(sg_run_file_read(run_path, &run, NULL), SG_OK);
    assert_int_equal(run.n_micros, n);
    const sg_micro_config *first = &run.micros[0].config;
    assert_string_equal(first->access, "shuffled");
    assert_true(first->m == 96 && first->n == 128 && first->k == 2 && first->ranks == 1);
    sg_run_clear(&run);
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

static void an_interrupt_leaves_no_clips(void **state) {
    (void)state;
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    sg_running running = sg_stepgauge_start("bench", "decode", "--sizes", "480", "--json", NULL);
    assert_int_equal(usleep(300000), 0);
    assert_int_equal(kill(running.pid, SIGINT), 0);
    sg_said said = sg_running_wait(&running);
    assert_int_equal(said.status, 130);
    sg_said_clear(&said);
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

int main(void) {
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, fresh_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(products_as_json_and_in_the_run_file),
        cmocka_unit_test(every_benchmark_prints_a_table),
        cmocka_unit_test(what_does_not_fit_is_an_answer),
        IN_FOLDER(operations_make_a_twin),
        cmocka_unit_test(bad_input_is_told_at_once),
        cmocka_unit_test(an_output_that_cannot_be_is_told_before_measuring),
        IN_FOLDER(collectives_of_two_ranks),
        IN_FOLDER(frames_as_json_and_in_the_run_file),
        IN_FOLDER(an_interrupt_leaves_no_clips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
