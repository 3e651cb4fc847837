/* Predictions: walks of whole policies, ranks, captured and sharded steps, laws, traces, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "calibration/fit/fit.h"
#include "calibration/machine/framework_file.h"
#include "models/training.h"
#include "sim/measure/measure.h"
#include "tests/support/near.h"
#include "tests/support/predicted.h"
#include "tests/support/priced.h"
#include "tests/support/scratch.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

static void assert_sound(const sg_figure *f) {
    assert_true(isfinite(f->value) && f->value >= 0 && f->low <= f->value && f->value <= f->high);
    assert_true(f->parts.parameters >= 0 && f->parts.model >= 0 && f->parts.inputs >= 0);
}

/* Every family on a GPU and on a CPU: figures are finite, ordered and consistent with each other. */
static void test_all_families(void **state) {
    (void)state;
    static const char *const machines[] = {"rtx-4090", "h100-sxm", "t4", "cpu"};
    size_t n;
    const sg_family *families = sg_families(&n);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof machines / sizeof *machines; k++) {
            sg_machine m = sg_sheet(machines[k]);
            sg_policy_request r = {.policy = families[i].name};
            sg_predict_options o = sg_knowing();
            sg_prediction p = sg_predicted(&r, &m, &o);
            bool ppo = strcmp(families[i].name, "ppo") == 0;
            assert_sound(&p.peak_allocated_bytes);
            assert_sound(&p.peak_reserved_bytes);
            assert_sound(&p.device_bytes);
            assert_true(p.peak_reserved_bytes.value >= p.peak_allocated_bytes.value);
            assert_true(p.device_bytes.value > p.peak_reserved_bytes.value);
            assert_true(p.limited_by[0] != 0);
            assert_in_range((int)(1000 * p.device_busy_share), 1, 1000);
            if (ppo) {
                assert_sound(&p.iteration_s);
                assert_true(isnan(p.step_s.value) && isnan(p.update_s.value));
                assert_near(p.collection_s.value, p.inference_s.value + p.environment_s.value, 1e-12);
                assert_near(p.iteration_s.value / (p.collection_s.value + p.learning_s.value), 1, 1e-9);
                assert_near(p.env_steps_per_s.value * p.iteration_s.value, 4096 * 24, 1e-3);
            } else {
                assert_sound(&p.step_s);
                assert_sound(&p.update_s);
                assert_sound(&p.preprocessing_s);
                assert_sound(&p.dataloading_s);
                assert_true(isnan(p.iteration_s.value));
                assert_true(p.step_s.value >= p.update_s.value);
                assert_near(p.samples_per_s.value * p.step_s.value, (double)p.batch, 1e-9);
                assert_int_equal(p.update_s.evidence, SG_EVIDENCE_DATA_SHEET);
            }
            sg_machine_clear(&m);
        }
}

/* Without host costs a step is its prices; without prices it is its host costs: nothing else makes time pass. */
static void test_two_sums(void **state) {
    (void)state;
    sg_framework_numbers eager;
    assert_int_equal(sg_framework_load("pytorch-eager", "cuda", CONFIGS, &eager, NULL), SG_OK);
    sg_policy_request r = sg_small_act(8);
    sg_predict_options o = sg_knowing();
    sg_machine m = sg_sheet("rtx-3090");
    sg_framework_apply(&eager, &m);
    for (int i = SG_M_HOST_OP_S; i <= SG_M_HOST_SYNC_S; i++) m.p[i].evidence = SG_EVIDENCE_CALIBRATED; /* stays */

    sg_machine no_host = m;
    no_host.p[SG_M_HOST_OP_S].value = no_host.p[SG_M_HOST_OPTIMIZER_S].value = no_host.p[SG_M_HOST_SYNC_S].value =
        1e-15;
    no_host.p[SG_M_COPY_BANDWIDTH].value = 1e18;
    sg_prediction p = sg_predicted(&r, &no_host, &o);
    double prices = 0;
    for (int c = 0; c < SG_CLASS_COUNT; c++) prices += p.class_s[c];
    assert_near((p.update_s.value + p.preprocessing_s.value) / prices, 1, 1e-6);

    sg_machine no_prices = m;
    for (int i = SG_M_PEAK_F32; i <= SG_M_BANDWIDTH; i++) no_prices.p[i].value = 1e18;
    no_prices.p[SG_M_KERNEL_START_S].value = no_prices.p[SG_M_KERNEL_FLOOR_S].value = 1e-15;
    no_prices.p[SG_M_COPY_BANDWIDTH].value = 1e18;
    p = sg_predicted(&r, &no_prices, &o);
    sg_training *t;
    sg_policy_request cuda = r;
    cuda.device_class = SG_DEVICE_CLASS_CUDA;
    assert_int_equal(sg_policy_build(&cuda, &t, NULL), SG_OK);
    const sg_machine_parameter *q = m.p;
    double op = q[SG_M_HOST_OP_S].value, host = 0;
    int64_t updated = 0;
    for (size_t i = 0; i < t->n_parameters; i++) updated += t->parameters[i].gradient >= 0;
    for (size_t g = 0; g < t->n_programs; g++)
        for (size_t i = 0; i < t->programs[g].n_entries; i++) {
            const sg_entry *e = &t->programs[g].entries[i];
            bool backward = e->pass == SG_PASS_BACKWARD;
            if (e->kind == SG_ENTRY_OP && !(e->flags & SG_ENTRY_SAME_DISPATCH))
                host += backward ? op * q[SG_M_HOST_BACKWARD].value : op;
            if (e->kind == SG_ENTRY_VIEW && !backward && !(e->flags & SG_ENTRY_SAME_DISPATCH))
                host += op * q[SG_M_HOST_VIEW].value;
            if (e->kind == SG_ENTRY_WAIT) host += q[SG_M_HOST_SYNC_S].value;
            if (e->kind == SG_ENTRY_MARK && e->index == SG_MARK_OPTIMIZER)
                host += op * q[SG_M_HOST_OPTIMIZER_OPS].value * (double)updated + q[SG_M_HOST_OPTIMIZER_S].value;
        }
    assert_near((p.update_s.value + p.preprocessing_s.value) / host, 1, 1e-6);
    sg_training_free(t);
    sg_machine_clear(&m);
}

/* Ranks: samples go up, never more than in proportion; slower links cost more; a machine without links is refused. */
static void test_ranks(void **state) {
    (void)state;
    sg_machine fast = sg_sheet("a100-sxm-80gb"), slow = sg_sheet("a100-sxm-80gb");
    slow.p[SG_M_COLLECTIVE_BUSBW].value = 1e9;
    sg_policy_request r = {.policy = "act", .batch = 16};
    sg_predict_options o = sg_knowing();
    o.workers = 64;
    double before = 0, one = 0, before_sync = -1;
    for (int n = 1; n <= 8; n *= 2) {
        o.ranks = n;
        sg_prediction p = sg_predicted(&r, &fast, &o), q = sg_predicted(&r, &slow, &o);
        if (n == 1) one = p.samples_per_s.value;
        assert_true(p.samples_per_s.value > before && p.samples_per_s.value <= n * one * (1 + 1e-9));
        before = p.samples_per_s.value;
        if (n == 1)
            assert_near(p.update_s.value, q.update_s.value, 0);
        else
            assert_true(q.update_s.value > 1.2 * p.update_s.value);
        assert_true(q.exposed_sync_s >= before_sync);
        before_sync = q.exposed_sync_s;
        if (n == 8) assert_string_equal(q.limited_by, "communication");
        if (n > 1) assert_true(p.peak_allocated_bytes.value > 50e6 * 4); /* buckets: one more copy of the gradients */
    }
    sg_machine without = sg_sheet("mi300x");
    sg_prediction p;
    sg_status status;
    o.ranks = 2;
    assert_int_equal(sg_predict(&r, &without, &o, &p, &status), SG_NO);
    assert_non_null(strstr(status.text, "collective_busbw"));
    o.ranks = -1;
    assert_int_equal(sg_predict(&r, &fast, &o, &p, &status), SG_BAD_INPUT);
    sg_machine_clear(&fast);
    sg_machine_clear(&slow);
    sg_machine_clear(&without);
}

/* One predictor for many machines, ranks and batches answers what predictions on their own answer, in any order; a machine of
 * the same name with another number is another machine. */
static void test_predictor(void **state) {
    (void)state;
    static const char *const names[] = {"t4", "h200", "cpu", "t4", "rtx-3060", "h200"};
    sg_policy_request r = sg_small_act(4);
    sg_predict_options o = sg_knowing();
    sg_predictor *predictor;
    sg_status status;
    assert_int_equal(sg_predictor_open(&r, CONFIGS, &predictor, &status), SG_OK);
    for (size_t i = 0; i < 2 * sizeof names / sizeof *names; i++) {
        sg_machine m = sg_sheet(names[i / 2]);
        o.ranks = i % 2 ? 1 + (int)i : 1;
        o.batch = i % 3 ? 0 : 2;
        if (i % 4 == 3) m.p[SG_M_BANDWIDTH].value *= 0.7;
        sg_prediction p;
        if (sg_predictor_run(predictor, &m, &o, &p, &status)) fail_msg("%s", status.text);
        assert_int_equal(p.batch, i % 3 ? 4 : 2);
        sg_policy_request alone = sg_small_act(p.batch);
        o.batch = 0;
        sg_prediction q = sg_predicted(&alone, &m, &o);
        assert_memory_equal(&p.update_s, &q.update_s, sizeof p.update_s);
        assert_memory_equal(&p.step_s, &q.step_s, sizeof p.step_s);
        assert_near(p.peak_allocated_bytes.value, q.peak_allocated_bytes.value, 0);
        assert_near(p.peak_reserved_bytes.value, q.peak_reserved_bytes.value, 0);
        sg_machine_clear(&m);
    }
    sg_predictor_close(predictor);
}

/* A trace's phases add up to the step that was predicted. */
static void test_trace(void **state) {
    (void)state;
    sg_scratch scratch = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/trace.json", scratch.path);
    sg_policy_request r = sg_small_act(4);
    sg_machine m = sg_sheet("rtx-4090");
    sg_predict_options o = sg_knowing();
    o.trace = path;
    sg_prediction p = sg_predicted(&r, &m, &o);
    json_t *root = json_load_file(path, 0, NULL), *event;
    size_t i;
    double sum_us = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        const char *category = json_string_value(json_object_get(event, "cat"));
        if (category && strcmp(category, "phase") == 0) sum_us += json_number_value(json_object_get(event, "dur"));
    }
    assert_near(1e-6 * sum_us, p.step_s.value, 1e-8);
    json_decref(root);
    (void)remove(path);
    sg_scratch_free(&scratch);
    sg_machine_clear(&m);
}

/* Captured, an update costs the host one dispatch: what launches limited is as fast as the device, with a pool of memory of
 * its own; a processor captures nothing. */
static void test_captured(void **state) {
    (void)state;
    sg_policy_request r = sg_small_act(4);
    sg_machine m = sg_sheet("rtx-4090"), cpu = sg_sheet("cpu");
    sg_predict_options o = sg_knowing();
    sg_prediction eager = sg_predicted(&r, &m, &o), p;
    o.graph = true;
    sg_prediction captured = sg_predicted(&r, &m, &o);
    double prices = 0;
    for (int c = 0; c < SG_CLASS_COUNT; c++) prices += captured.class_s[c];
    assert_string_equal(eager.limited_by, "launch");
    assert_true(captured.update_s.value < 0.5 * eager.update_s.value);
    assert_near(captured.update_s.value / prices, 1, 0.2);
    assert_true(captured.peak_reserved_bytes.value > eager.peak_reserved_bytes.value);
    sg_status status;
    assert_int_equal(sg_predict(&r, &cpu, &o, &p, &status), SG_NO);
    assert_non_null(strstr(status.text, "cuda-graph"));
    sg_machine_clear(&m);
    sg_machine_clear(&cpu);
}

/* Sharded, each rank holds its part: the more ranks, the less memory. */
static void test_sharded_ranks(void **state) {
    (void)state;
    sg_policy_request r = sg_small_act(2);
    r.sharding = "full";
    sg_machine m = sg_sheet("h100-sxm");
    sg_predict_options o = sg_knowing();
    double before = INFINITY;
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        o.ranks = ranks;
        sg_prediction p = sg_predicted(&r, &m, &o);
        assert_true(p.peak_allocated_bytes.value < before);
        before = p.peak_allocated_bytes.value;
    }
    sg_machine_clear(&m);
}

/* Accumulation: a step is a micro-batch, so an optimizer's share is spread over k of them. */
static void test_accumulation(void **state) {
    (void)state;
    sg_machine m = sg_sheet("rtx-4090");
    sg_predict_options o = sg_knowing();
    sg_policy_request r = sg_small_act(8);
    sg_prediction one = sg_predicted(&r, &m, &o);
    r.accumulation = 4;
    sg_prediction four = sg_predicted(&r, &m, &o);
    assert_true(four.update_s.value < one.update_s.value && four.update_s.value > 0.5 * one.update_s.value);
    assert_near(four.samples_per_s.value * four.step_s.value, 8, 1e-9);
    sg_machine_clear(&m);
}

static void test_errors(void **state) {
    (void)state;
    sg_machine m = sg_sheet("rtx-4090");
    sg_predict_options o = sg_knowing();
    sg_prediction p;
    sg_status status;
    sg_policy_request r = {.policy = "akt", .batch = 8};
    assert_int_equal(sg_predict(&r, &m, &o, &p, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "act"));
    r = sg_small_act(1000000000000);
    assert_int_equal(sg_predict(&r, &m, &o, &p, &status), SG_BAD_INPUT);
    o.config_dir = "/nowhere";
    r = sg_small_act(8);
    assert_int_equal(sg_predict(&r, &m, &o, &p, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "/nowhere"));
    o = sg_knowing();
    m.p[SG_M_EFF_CONV].value = NAN;
    assert_int_equal(sg_predict(&r, &m, &o, &p, &status), SG_NO);
    assert_non_null(strstr(status.text, "eff_conv"));
    m = sg_sheet("t4");
    sg_policy_request vla = {.policy = "smolvla", .batch = 1};
    p = sg_predicted(&vla, &m, &o);
    assert_non_null(strstr(p.warnings[0], "no bf16"));
}

/* A law of this machine stands instead of the walk: as it is for our engine, scaled by what the framework adds for the
 * framework, and flagged outside of its range. Configurations without a law are walked. */
static void test_law(void **state) {
    (void)state;
    sg_machine m = sg_sheet("cpu");
    sg_predict_options o = sg_knowing();
    double update_s[2], parameters[2];
    o.workers = 0; /* a law is of steps that no worker slows */
    for (int framework = 0; framework < 2; framework++) {
        sg_policy_request r = sg_small_act(4);
        r.framework = framework ? SG_FRAMEWORK_NATIVE : SG_FRAMEWORK_PYTORCH_EAGER;
        r.device_class = SG_DEVICE_CLASS_CPU;
        sg_training *t;
        assert_int_equal(sg_policy_build(&r, &t, NULL), SG_OK);
        sg_law law = {.quantity = "update_s",
                      .kind = SG_LAW_AFFINE,
                      .n_terms = 2,
                      .n_fitted = 2,
                      .value = {0.01, 0.02},
                      .low_x = 1,
                      .high_x = 8,
                      .residual_log_sd = 0.015,
                      .left_out_log_sd = 0.02};
        sg_measure_options how = {.device = "cpu", .ranks = 1};
        assert_int_equal(sg_measure_config(&r, t, &how, &law.config, NULL), SG_OK);
        sg_training_free(t);
        sg_fit fit = {.laws = &law, .n_laws = 1};
        sg_prediction walked = sg_predicted(&r, &m, &o);
        o.fit = &fit;
        sg_prediction p = sg_predicted(&r, &m, &o);
        update_s[framework] = p.update_s.value;
        parameters[framework] = p.update_s.parts.parameters;
        assert_int_equal(p.update_s.evidence, SG_EVIDENCE_MEASURED);
        assert_int_equal(walked.update_s.evidence, SG_EVIDENCE_DATA_SHEET);
        assert_true(p.update_s.high / p.update_s.low < walked.update_s.high / walked.update_s.low);
        size_t warnings = p.n_warnings;
        r.batch = 64;
        p = sg_predicted(&r, &m, &o);
        assert_int_equal(p.n_warnings, warnings + 1);
        (void)snprintf(law.config.policy, sizeof law.config.policy, "mlp");
        r.batch = 4;
        p = sg_predicted(&r, &m, &o);
        assert_near(p.update_s.value, walked.update_s.value, 0);
        o.fit = NULL;
    }
    assert_near(update_s[1], 0.01 + 4 * 0.02, 1e-12);
    assert_near(parameters[1], 0.02, 1e-9);
    assert_true(update_s[0] > update_s[1]);         /* PyTorch's host costs */
    assert_true(parameters[0] > 5 * parameters[1]); /* its kernels are not ours */
    sg_machine_clear(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_families),  cmocka_unit_test(test_two_sums),     cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_predictor),     cmocka_unit_test(test_accumulation), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_law),           cmocka_unit_test(test_trace),        cmocka_unit_test(test_captured),
        cmocka_unit_test(test_sharded_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
