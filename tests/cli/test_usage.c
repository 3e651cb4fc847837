/* Usage, help and bad input: what a user gets wrong is answered with exit status 2 and the remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/program.h"

static void expect(sg_said said, int status, const char *in_err) {
    if (said.status != status) fail_msg("exit status %d instead of %d: %s", said.status, status, said.err);
    if (in_err && !strstr(said.err, in_err)) fail_msg("stderr does not say '%s': %s", in_err, said.err);
    sg_said_clear(&said);
}

static void help_and_version(void **state) {
    (void)state;
    static const char *const commands[] = {"gauge", "devices", "inspect", "measure", "fit", "predict", "plan"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        sg_said said = sg_stepgauge(commands[i], "--help", NULL);
        assert_int_equal(said.status, 0);
        assert_non_null(strstr(said.out, "Example:"));
        sg_said_clear(&said);
    }
    sg_said said = sg_stepgauge("import", "--help", NULL); /* an option with several texts is listed once */
    const char *first = strstr(said.out, "--train-config");
    assert_non_null(first);
    assert_null(strstr(first + 1, "--train-config "));
    sg_said_clear(&said);
    said = sg_stepgauge("--version", NULL);
    assert_int_equal(said.status, 0);
    assert_int_equal(strncmp(said.out, "stepgauge ", 10), 0);
    sg_said_clear(&said);
    expect(sg_stepgauge(NULL), 2, NULL);
}

static void unknown_names_are_suggested(void **state) {
    (void)state;
    expect(sg_stepgauge("inspct", "act", NULL), 2, "did you mean 'inspect'");
    expect(sg_stepgauge("inspect", "atc", NULL), 2, "act");
    expect(sg_stepgauge("inspect", "act", "--bacth", "8", NULL), 2, "did you mean '--batch'");
    expect(sg_stepgauge("inspect", "act", "--set", "chunk_sizes=4", NULL), 2, "chunk_size");
    expect(sg_stepgauge("predict", "act", "--machine", "rtx-409", NULL), 2, "rtx-4090");
    expect(sg_stepgauge("inspect", "act", "--framework", "pytorch", NULL), 2, "pytorch-eager");
    expect(sg_stepgauge("inspect", "act", "--framework", "jaxx", NULL), 2,
           "known are pytorch-eager, native, pytorch-compiled, pytorch-cuda-graphs, jax; did you mean 'jax'?");
    expect(sg_stepgauge("measure", "mlp", "--device", "cpu", "--framework", "pytorch-compiled", NULL), 2,
           "can be predicted");
    expect(sg_stepgauge("predict", "mlp", "--machine", "t4", "--host-speed", "0", NULL), 2, "--host-speed");
    expect(sg_stepgauge("plan", "mlp", "--steps", "10", "--host-speed", "2", NULL), 2, "--host-speed");
}

static void what_a_command_would_not_read_is_refused(void **state) {
    (void)state;
    expect(sg_stepgauge("predict", "mlp", "--machine", "l4", "--gpus", "1,2,64", NULL), 2, "--gpus 1");
    expect(sg_stepgauge("predict", "mlp", "--machine", "l4", "--ranks", "2,4", NULL), 2, "--ranks 2");
    expect(sg_stepgauge("inspect", "mlp", "--workers", "3,4", NULL), 2, "--workers 3");
    expect(sg_stepgauge("predict", "mlp", "--machine", "l4", "--gpus", "2", "--workers", "3", NULL), 0, NULL);
    expect(sg_stepgauge("inspect", "mlp", "--device", "gpu", NULL), 2, "cpu or cuda");
    expect(sg_stepgauge("inspect", "mlp", "--device", "cpu", NULL), 0, NULL);
    expect(sg_stepgauge("devices", "gpu0", NULL), 2, "leave 'gpu0' out");
    static const char *const commands[] = {"predict", "inspect", "plan", "gauge", "fit"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        expect(sg_stepgauge(commands[i], "mlp", "--batch", "auto", NULL), 2, "'measure'");
    expect(sg_stepgauge("measure", "mlp", "--batch", "auto", "--workers", "1,2", NULL), 2, "--workers 1");
}

static void absurd_numbers(void **state) {
    (void)state;
    expect(sg_stepgauge("inspect", "act", "--batch", "0", NULL), 2, "--batch");
    expect(sg_stepgauge("inspect", "act", "--batch", "-3", NULL), 2, "--batch");
    expect(sg_stepgauge("inspect", "act", "--batch", "1.5", NULL), 2, "--batch");
    expect(sg_stepgauge("inspect", "act", "--batch", "1000000000000", NULL), 2, NULL);
    expect(sg_stepgauge("inspect", "act", "--batch", "99999999999999999999", NULL), 2, "--batch");
    expect(sg_stepgauge("inspect", "act", "--image-size", "480", NULL), 2, "HEIGHTxWIDTH");
    expect(sg_stepgauge("inspect", "act", "--image-size", "1000000000x1000000000", NULL), 2, NULL);
    expect(sg_stepgauge("inspect", "act", "--cameras", "1000000", NULL), 2, NULL);
    expect(sg_stepgauge("inspect", "act", "--set", "dropout=nan", NULL), 2, "dropout");
    expect(sg_stepgauge("inspect", "act", "--set", "n_encoder_layers=99999999", NULL), 2, "n_encoder_layers");
    expect(sg_stepgauge("plan", "act", "--frames", "0", NULL), 2, "--frames");
    expect(sg_stepgauge("predict", "act", "--machine", "l4", "--interval", "1.5", NULL), 2, "--interval");
    expect(sg_stepgauge("inspect", "ppo", "--batch", "64", NULL), 2, "--envs");
    expect(sg_stepgauge("inspect", "act", "--batch", NULL), 2, "needs a value");
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void broken_files(void **state) {
    (void)state;
    char folder[] = "/tmp/stepgauge-test-XXXXXX", path[128];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/config.yaml", folder);
    write_file(path, "policy: act\nchunk_size: [1, 2\n");
    expect(sg_stepgauge("inspect", "--config", path, NULL), 2, "config.yaml:");
    write_file(path, "policy: act\nchunk_size: {a: 1}\n");
    expect(sg_stepgauge("inspect", path, NULL), 2, "config.yaml:2");
    write_file(path, "policy: act\nchunk_sise: 3\n");
    expect(sg_stepgauge("inspect", path, NULL), 2, "chunk_size");
    write_file(path, "policy: act\ncameras: 1\nimage_height: 96\nimage_width: 96\n");
    expect(sg_stepgauge("inspect", path, NULL), 0, NULL);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/run.h5", folder);
    expect(sg_stepgauge("fit", path, NULL), 2, "run.h5");
    write_file(path, "not a run file");
    expect(sg_stepgauge("fit", path, NULL), 2, "run.h5");
    expect(sg_stepgauge("predict", "act", "--machine", path, NULL), 2, "run.h5");
    (void)unlink(path);
    (void)rmdir(folder);
    expect(sg_stepgauge("inspect", "act", "--dataset", "/nonexistent", NULL), 2, "does not exist");
    expect(sg_stepgauge("inspect", "act", "--train-config", "/nonexistent.json", NULL), 2, "/nonexistent.json");
}

static void errors_are_json_too(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("inspect", "nothing", "--json", NULL);
    assert_int_equal(said.status, 2);
    json_t *root = sg_said_json(&said);
    assert_true(json_is_string(json_object_get(root, "error")));
    json_decref(root);
    sg_said_clear(&said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_version),
        cmocka_unit_test(unknown_names_are_suggested),
        cmocka_unit_test(what_a_command_would_not_read_is_refused),
        cmocka_unit_test(absurd_numbers),
        cmocka_unit_test(broken_files),
        cmocka_unit_test(errors_are_json_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
