/* inspect and predict with --json: the keys and figures that scripts rely on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tests/support/program.h"

static void near(double value, double truth, double tolerance) {
    if (!(fabs(value / truth - 1) <= tolerance)) fail_msg("%g is not within %g of %g", value, tolerance, truth);
}

static void act(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("inspect", "act", "--cameras", "2", "--batch", "8", "--json", NULL);
    assert_int_equal(said.status, 0);
    json_t *root = sg_said_json(&said);
    assert_true(sg_json_number(root, "parameters.total") == 51597190);
    assert_true(sg_json_number(root, "parameters.trainable") == 51597190);
    near(sg_json_number(root, "flops_per_sample.forward"), 73.89e9, 0.005);
    near(sg_json_number(root, "flops_per_sample.backward"), 144.84e9, 0.005);
    near(sg_json_number(root, "saved_bytes_per_sample"), 409.6e6, 0.03);
    near(sg_json_number(root, "ops.forward"), 683, 0.03);
    near(sg_json_number(root, "ops.backward"), 582, 0.03);
    near(sg_json_number(root, "ops.views_forward"), 584, 0.15);
    near(sg_json_number(root, "ops.views_backward"), 2136, 0.15);
    assert_true(sg_json_number(root, "memory.weights_bytes") >= 51597190.0 * 4);
    assert_true(sg_json_number(root, "memory.optimizer_bytes") == 51597190.0 * 8);
    assert_true(sg_json_number(root, "memory.peak_reserved_bytes") >=
                sg_json_number(root, "memory.peak_allocated_bytes"));
    /* published: mem_gb 3.73 at batch 8 (RTX 5060 Ti, 2026-08-05), which includes cuBLAS workspaces */
    near(sg_json_number(root, "memory.peak_allocated_bytes"), 3.73 * 1073741824, 0.02);
    assert_true(json_is_string(json_object_get(json_object_get(root, "memory"), "peak_at")));
    assert_true(json_array_size(json_object_get(root, "modules")) > 10);
    json_decref(root);
    sg_said_clear(&said);
}

static void ops_are_listed(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("inspect", "mlp", "--ops", NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "MATMUL"));
    sg_said_clear(&said);
}

static void figure_is_sound(const json_t *root, const char *name) {
    char path[64];
    (void)snprintf(path, sizeof path, "%s.value", name);
    double value = sg_json_number(root, path);
    (void)snprintf(path, sizeof path, "%s.low", name);
    double low = sg_json_number(root, path);
    (void)snprintf(path, sizeof path, "%s.high", name);
    double high = sg_json_number(root, path);
    assert_true(low <= value && value <= high);
    assert_true(json_is_string(json_object_get(json_object_get(root, name), "evidence")));
    (void)snprintf(path, sizeof path, "%s.parts.model", name);
    (void)sg_json_number(root, path);
}

static void predict(void **state) {
    (void)state;
    sg_said said =
        sg_stepgauge("predict", "act", "--machine", "rtx-4090", "--batch", "8", "--cameras", "2", "--json", NULL);
    assert_int_equal(said.status, 0);
    json_t *root = sg_said_json(&said);
    static const char *const figures[] = {
        "step_s",        "update_s",     "dataloading_s",        "preprocessing_s",
        "samples_per_s", "device_bytes", "peak_allocated_bytes", "peak_reserved_bytes"};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) figure_is_sound(root, figures[i]);
    assert_true(sg_json_number(root, "interval") == 0.9);
    assert_true(json_is_string(json_object_get(root, "limited_by")));
    assert_true(json_is_array(json_object_get(root, "warnings")));
    json_decref(root);
    sg_said_clear(&said);
}

/* Does not fit: the answer is no. */
static void too_large_is_exit_status_1(void **state) {
    (void)state;
    sg_said said =
        sg_stepgauge("predict", "act", "--machine", "t4", "--batch", "256", "--cameras", "2", "--json", NULL);
    assert_int_equal(said.status, 1);
    json_t *root = sg_said_json(&said);
    assert_true(json_is_false(json_object_get(root, "fits")));
    json_decref(root);
    sg_said_clear(&said);
}

static void ppo(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("predict", "ppo", "--machine", "rtx-4090", "--envs", "4096", "--env-step-us", "10",
                                "--json", NULL);
    assert_int_equal(said.status, 0);
    json_t *root = sg_said_json(&said);
    static const char *const figures[] = {"collection_s", "inference_s", "environment_s", "learning_s", "iteration_s"};
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) figure_is_sound(root, figures[i]);
    near(sg_json_number(root, "environment_s.value"), 10e-6 * 4096 * 24, 1e-6);
    json_decref(root);
    sg_said_clear(&said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(act),     cmocka_unit_test(ops_are_listed),
        cmocka_unit_test(predict), cmocka_unit_test(too_large_is_exit_status_1),
        cmocka_unit_test(ppo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
