/* Framework profiles: what compiling and capturing leave of a step, and how a profile's file builds upon another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/machine/framework_file.h"
#include "calibration/predict/predict.h"
#include "tests/support/scratch.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

static const sg_setting PUSHT[] = {{"image_height", "96", "test"},
                                   {"image_width", "96", "test"},
                                   {"state_dim", "2", "test"},
                                   {"action_dim", "2", "test"}};

static sg_machine machine_of(const char *name) {
    sg_machine m;
    sg_status status;
    if (sg_machine_load(name, CONFIGS, &m, &status)) fail_msg("%s", status.text);
    return m;
}

static sg_prediction predicted(sg_framework framework, const char *policy, const char *machine, int64_t batch) {
    sg_machine m = machine_of(machine);
    bool pusht = strcmp(policy, "diffusion") == 0;
    sg_policy_request r = {.policy = policy,
                           .framework = framework,
                           .batch = batch,
                           .settings = PUSHT,
                           .n_settings = pusht ? sizeof PUSHT / sizeof *PUSHT : 0};
    sg_predict_options o = {
        .workers = 4, .cameras_known = true, .host_known = true, .language_known = true, .config_dir = CONFIGS};
    sg_prediction p;
    sg_status status;
    if (sg_predict(&r, &m, &o, &p, &status)) fail_msg("%s", status.text);
    sg_machine_clear(&m);
    return p;
}

static double update_s(sg_framework framework, const char *policy, const char *machine, int64_t batch) {
    return predicted(framework, policy, machine, batch).update_s.value;
}

static void test_every_name_has_a_file(void **state) {
    (void)state;
    static const char *const classes[] = {"cuda", "cpu", "mps"};
    for (int f = 0; f < SG_FRAMEWORK_COUNT; f++)
        for (int c = 0; c < 3; c++) {
            sg_framework_numbers numbers;
            sg_status status;
            if (sg_framework_load(sg_framework_name((sg_framework)f), classes[c], CONFIGS, &numbers, &status))
                fail_msg("%s", status.text);
            assert_true(numbers.p[SG_M_HOST_OP_S].value > 0 && numbers.p[SG_M_HOST_SYNC_S].value > 0);
            assert_true(numbers.buckets.bytes > 0);
            assert_int_equal(numbers.factors, f != SG_FRAMEWORK_NATIVE);
        }
}

/* A small policy on a fast GPU waits for its host: compiling leaves part of that, capturing next to none. */
static void test_host_bound(void **state) {
    (void)state;
    double eager = update_s(SG_FRAMEWORK_PYTORCH_EAGER, "act", "b200", 8);
    double compiled = update_s(SG_FRAMEWORK_PYTORCH_COMPILED, "act", "b200", 8);
    sg_prediction graphs = predicted(SG_FRAMEWORK_PYTORCH_CUDA_GRAPHS, "act", "b200", 8);
    double jax = update_s(SG_FRAMEWORK_JAX, "act", "b200", 8);
    assert_true(compiled > 0.38 * eager && compiled < 0.7 * eager);
    assert_true(graphs.update_s.value < compiled && graphs.captured);
    assert_true(graphs.device_busy_share > 0.9);
    assert_true(jax < graphs.update_s.value); /* fused as well */
}

/* A busy device: capturing changes nothing, compiling saves bytes, and more where bytes weigh more. */
static void test_device_bound(void **state) {
    (void)state;
    double eager = update_s(SG_FRAMEWORK_PYTORCH_EAGER, "act", "rtx-3060", 64);
    double graphs = update_s(SG_FRAMEWORK_PYTORCH_CUDA_GRAPHS, "act", "rtx-3060", 64);
    double compiled = update_s(SG_FRAMEWORK_PYTORCH_COMPILED, "act", "rtx-3060", 64);
    assert_true(fabs(graphs / eager - 1) < 0.02);
    assert_true(compiled < 0.95 * eager && compiled > 0.42 * eager);
    double before = update_s(SG_FRAMEWORK_PYTORCH_EAGER, "diffusion", "rtx-3060", 64);
    double after = update_s(SG_FRAMEWORK_PYTORCH_COMPILED, "diffusion", "rtx-3060", 64);
    assert_true(after / before > compiled / eager); /* convolutions and the optimizer are most of it */
}

/* Fewer bytes are priced, not fewer made: memory is as in eager mode, but for results that nobody reads. */
static void test_memory(void **state) {
    (void)state;
    double eager = predicted(SG_FRAMEWORK_PYTORCH_EAGER, "act", "a100-sxm-80gb", 16).peak_allocated_bytes.value;
    double compiled = predicted(SG_FRAMEWORK_PYTORCH_COMPILED, "act", "a100-sxm-80gb", 16).peak_allocated_bytes.value;
    assert_true(compiled <= eager && compiled > 0.95 * eager);
}

/* On a CPU nothing is captured. */
static void test_without_graphs(void **state) {
    (void)state;
    assert_false(predicted(SG_FRAMEWORK_PYTORCH_CUDA_GRAPHS, "act", "cpu", 2).captured);
    double eager = update_s(SG_FRAMEWORK_PYTORCH_EAGER, "act", "cpu", 2);
    assert_true(fabs(update_s(SG_FRAMEWORK_PYTORCH_CUDA_GRAPHS, "act", "cpu", 2) / eager - 1) < 1e-9);
}

/* What compiling leaves is the framework's, whatever a fitted machine has in its file. */
static void test_a_machine_knows_nothing_of_compiling(void **state) {
    (void)state;
    sg_machine m = machine_of("t4");
    sg_framework_numbers eager, compiled;
    assert_int_equal(sg_framework_load("pytorch-eager", "cuda", CONFIGS, &eager, NULL), SG_OK);
    assert_int_equal(sg_framework_load("pytorch-compiled", "cuda", CONFIGS, &compiled, NULL), SG_OK);
    m.p[SG_M_HOST_KEPT] = (sg_machine_parameter){.value = 0.7, .evidence = SG_EVIDENCE_MEASURED};
    m.p[SG_M_HOST_OP_S] = (sg_machine_parameter){.value = 11e-6, .evidence = SG_EVIDENCE_MEASURED};
    sg_framework_apply(&compiled, &m);
    assert_true(m.p[SG_M_HOST_KEPT].value == compiled.p[SG_M_HOST_KEPT].value);
    assert_true(m.p[SG_M_FUSED_BYTES].value == compiled.p[SG_M_FUSED_BYTES].value);
    assert_true(m.p[SG_M_HOST_OP_S].value == 11e-6); /* measured on this host, in eager mode: kept */
    double host_s[SG_HOST_CLASS_COUNT + 1], eager_s[SG_HOST_CLASS_COUNT + 1];
    assert_int_equal(sg_machine_host_s(&m, host_s, NULL), SG_OK);
    sg_framework_apply(&eager, &m);
    assert_int_equal(sg_machine_host_s(&m, eager_s, NULL), SG_OK);
    assert_true(fabs(host_s[SG_HOST_OP_FORWARD] / eager_s[SG_HOST_OP_FORWARD] - compiled.p[SG_M_HOST_KEPT].value) <
                1e-12);
    assert_true(host_s[SG_HOST_OPTIMIZER] == eager_s[SG_HOST_OPTIMIZER]); /* outside of what is compiled */
    assert_true(host_s[SG_HOST_SYNC] == eager_s[SG_HOST_SYNC]);
    sg_machine_clear(&m);
}

/* All of a host's work, but for the driver's, goes with its speed. */
static void test_host_speed(void **state) {
    (void)state;
    sg_machine m = machine_of("b200");
    sg_framework_numbers eager;
    assert_int_equal(sg_framework_load("pytorch-eager", "cuda", CONFIGS, &eager, NULL), SG_OK);
    sg_policy_request r = {.policy = "act", .batch = 8};
    sg_predict_options o = {.workers = 4, .cameras_known = true, .host_known = true, .config_dir = CONFIGS};
    sg_prediction usual, slow;
    sg_status status;
    if (sg_predict(&r, &m, &o, &usual, &status)) fail_msg("%s", status.text);
    m.p[SG_M_HOST_SPEED].value = 0.5;
    if (sg_predict(&r, &m, &o, &slow, &status)) fail_msg("%s", status.text);
    double ratio = slow.update_s.value / usual.update_s.value; /* launch-bound */
    assert_true(ratio > 1.7 && ratio < 2.01);
    /* host times of this very machine are taken as they are */
    sg_framework_apply(&eager, &m);
    assert_true(m.p[SG_M_HOST_SPEED].value == 0.5);
    m.p[SG_M_HOST_OP_S] = (sg_machine_parameter){.value = 11e-6, .evidence = SG_EVIDENCE_MEASURED};
    sg_framework_apply(&eager, &m);
    assert_true(m.p[SG_M_HOST_SPEED].value == 1);
    sg_machine_clear(&m);
}

static void refuses(const sg_scratch *dir, const char *name, const char *part) {
    sg_framework_numbers numbers;
    sg_status status;
    assert_int_equal(sg_framework_load(name, "cuda", dir->path, &numbers, &status), SG_BAD_INPUT);
    if (!strstr(status.text, part)) fail_msg("'%s' expected in: %s", part, status.text);
}

static void test_bases(void **state) {
    (void)state;
    sg_scratch dir = sg_scratch_new();
    sg_scratch_file(&dir, "frameworks/first.yaml",
                    "buckets: {first_bytes: 10, bytes: 20}\nframework_factors: true\n"
                    "cuda:\n  host_op_s: {value: 1e-6, log_sd: 0.1, source: \"a\"}\n  host_sync_s: {value: 2e-6, "
                    "log_sd: 0.1, source: \"a\"}\n");
    sg_scratch_file(
        &dir, "frameworks/second.yaml",
        "base: first\nframework_factors: false\ncuda:\n  host_sync_s: {value: 5e-6, log_sd: 0.1, source: \"b\"}\n");
    sg_scratch_file(&dir, "frameworks/around.yaml", "base: about\n");
    sg_scratch_file(&dir, "frameworks/about.yaml", "base: around\n");
    sg_scratch_file(&dir, "frameworks/nowhere.yaml", "base: nothing\n");
    sg_scratch_file(&dir, "frameworks/bare.yaml", "framework_factors: true\n");
    sg_framework_numbers numbers;
    sg_status status;
    if (sg_framework_load("second", "cuda", dir.path, &numbers, &status)) fail_msg("%s", status.text);
    assert_int_equal(numbers.buckets.first_bytes, 10);
    assert_int_equal(numbers.buckets.bytes, 20);
    assert_false(numbers.factors);
    assert_true(numbers.p[SG_M_HOST_OP_S].value == 1e-6 && numbers.p[SG_M_HOST_SYNC_S].value == 5e-6);
    assert_true(isnan(numbers.p[SG_M_HOST_VIEW].value));
    refuses(&dir, "around", "bases, one upon the other");
    refuses(&dir, "nowhere", "nothing");
    refuses(&dir, "bare", "buckets");
    sg_scratch_free(&dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_name_has_a_file),
        cmocka_unit_test(test_host_bound),
        cmocka_unit_test(test_device_bound),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_without_graphs),
        cmocka_unit_test(test_a_machine_knows_nothing_of_compiling),
        cmocka_unit_test(test_host_speed),
        cmocka_unit_test(test_bases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
