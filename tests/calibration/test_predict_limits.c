/* What limits a predicted step, in words; the loader as a limit; whether it fits into memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/fit/fit.h"
#include "calibration/machine/framework_file.h"
#include "tests/support/near.h"
#include "tests/support/predicted.h"
#include "tests/support/priced.h"

/* A trainer whose loader does what ours does. */
static void loads_as_we_do(sg_machine *m) {
    static const struct {
        sg_machine_id id;
        double value;
    } same[] = {{SG_M_LOADER_TORCHCODEC, 1},
                {SG_M_LOADER_TORCHCODEC_S, 1e-12},
                {SG_M_LOADER_PYTHON_S, 1e-12},
                {SG_M_LOADER_ROW_S, 1e-12},
                {SG_M_LOADER_COLLATION, 1e18}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        m->p[same[i].id] = (sg_machine_parameter){.value = same[i].value, .evidence = SG_EVIDENCE_OBSERVED};
}

/* A loader whose cost is its frames alone: nothing beside them, no contention. */
static sg_machine frames_alone(const char *sheet) {
    sg_machine m = sg_sheet(sheet);
    loads_as_we_do(&m);
    m.p[SG_M_SAMPLE_S].value = m.p[SG_M_LOADER_SIGMA].value = m.p[SG_M_LOADER_KAPPA].value = 1e-9;
    return m;
}

/* The loader as a rate limit: more workers, until the vCPUs are used up; none: decoding stands between steps. Batches differ
 * from each other by a tenth, so that means of some hundred are not to the last digit. */
static void test_loader(void **state) {
    (void)state;
    sg_machine m = frames_alone("b200");
    sg_policy_request r = {.policy = "act", .batch = 8};
    sg_predict_options o = sg_knowing();
    o.workers = 1;
    sg_prediction one = sg_predicted(&r, &m, &o);
    assert_string_equal(one.limited_by, "loader");
    double frames = 16, frame_s = m.p[SG_M_FRAME_S].value;
    assert_near(one.step_s.value / (frames * frame_s), 1, 0.01);
    assert_near(one.dataloading_s.value, one.step_s.value - one.update_s.value - one.preprocessing_s.value, 1e-9);
    assert_near(one.loader.samples_per_s.value, 8 / (frames * frame_s), 1e-6);
    assert_true(one.loader.stalled_share > 0.99 && one.loader.workers_needed > 2);
    o.workers = 2;
    sg_prediction two = sg_predicted(&r, &m, &o);
    assert_near(two.step_s.value * 2 / one.step_s.value, 1, 0.02);
    assert_near(two.loader.stall_every, 2, 0.2); /* two batches come together */
    m.vcpus = 2;
    o.workers = 16;
    sg_prediction starved = sg_predicted(&r, &m, &o);
    /* the host that starts kernels takes its share of the two */
    assert_true(starved.step_s.value > 0.99 * two.step_s.value && starved.step_s.value < 1.5 * two.step_s.value);
    assert_true(starved.n_warnings >= 1);
    assert_non_null(strstr(starved.warnings[0], "vCPUs"));
    assert_non_null(strstr(starved.limited_by_text, "2 vCPUs feed"));
    assert_non_null(strstr(starved.limited_by_text, "decoded frames would lift it"));
    assert_true(starved.loader.processors_needed > 2);
    m.vcpus = starved.loader.processors_needed;
    o.workers = starved.loader.processors_needed;
    sg_prediction enough = sg_predicted(&r, &m, &o);
    assert_near(enough.step_s.value * enough.loader.demand_samples_per_s / 8, 1, 0.1);
    m.vcpus = 0;
    o.workers = 64;
    sg_prediction many = sg_predicted(&r, &m, &o);
    assert_string_not_equal(many.limited_by, "loader");
    assert_true(many.dataloading_s.high > many.dataloading_s.value); /* the loader may yet be the slower */
    /* taking a ready batch is as little known on a host that was not measured, and nobody observed it */
    assert_true(many.dataloading_s.low < 0.7 * many.dataloading_s.value);
    assert_true(many.dataloading_s.evidence >= SG_EVIDENCE_CALIBRATED);
    o.workers = 0;
    sg_prediction none = sg_predicted(&r, &m, &o);
    assert_true(none.step_s.value > none.update_s.value + 0.99 * frames * frame_s);
    sg_machine_clear(&m);
}

/* More vCPUs and workers never slow a prediction, up to the knee and beyond. */
static void test_monotone(void **state) {
    (void)state;
    sg_machine m = frames_alone("h100-sxm");
    sg_policy_request r = {.policy = "act", .batch = 8};
    sg_predict_options o = sg_knowing();
    double last = INFINITY, compute = 0;
    for (int n = 1; n <= 16; n++) {
        o.workers = n;
        m.vcpus = n;
        sg_prediction p = sg_predicted(&r, &m, &o);
        assert_true(p.step_s.value < 1.001 * last);
        assert_true(p.step_s.low <= p.step_s.value && p.step_s.value <= p.step_s.high);
        assert_true(p.dataloading_s.low <= p.dataloading_s.value && p.dataloading_s.value <= p.dataloading_s.high);
        last = p.step_s.value;
        compute = p.update_s.value + p.preprocessing_s.value;
    }
    assert_near(last / compute, 1, 0.1);
    sg_machine_clear(&m);
}

/* The law of a data set that was measured stands instead of the machine's parameters; of one that differs in its name alone
 * it does too, less sure. */
static void test_measured_loader(void **state) {
    (void)state;
    sg_machine m = frames_alone("b200");
    sg_loader_law law = sg_loader_law_prior();
    (void)snprintf(law.dataset, sizeof law.dataset, "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=mine");
    (void)snprintf(law.layer, sizeof law.layer, "cached");
    law.frame_s = 0.05;
    law.sample_s = 1e-9;
    law.work_log_sd = law.contention_log_sd = law.residual_log_sd = 0.02;
    law.evidence = SG_EVIDENCE_MEASURED;
    sg_fit fit = {.loaders = &law, .n_loaders = 1};
    sg_policy_request r = {.policy = "act", .batch = 8};
    sg_predict_options o = sg_knowing();
    o.workers = 0;
    sg_prediction general = sg_predicted(&r, &m, &o);
    o.fit = &fit;
    o.dataset = law.dataset;
    sg_prediction mine = sg_predicted(&r, &m, &o);
    assert_near(mine.dataloading_s.value / (16 * law.frame_s), 1, 0.02);
    assert_int_equal(mine.dataloading_s.evidence, SG_EVIDENCE_MEASURED);
    assert_int_equal(general.dataloading_s.evidence, SG_EVIDENCE_DATA_SHEET);
    assert_true(mine.dataloading_s.high / mine.dataloading_s.value < 1.2);
    assert_true(general.dataloading_s.high / general.dataloading_s.value > 2);
    o.dataset = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=yours";
    sg_prediction yours = sg_predicted(&r, &m, &o);
    assert_close(yours.dataloading_s.value, mine.dataloading_s.value);
    assert_true(yours.dataloading_s.high > mine.dataloading_s.high);
    o.dataset = "lerobot-v3.0;av1;240x320;gop=2;cameras=2;name=yours"; /* fewer pixels, nobody measured them */
    assert_true(sg_predicted(&r, &m, &o).dataloading_s.value < general.dataloading_s.value);
    sg_machine_clear(&m);
}

static double device_seconds(const sg_prediction *p) {
    double s = 0;
    for (int c = 0; c < SG_CLASS_COUNT; c++) s += p->class_s[c];
    return s;
}

/* "launch-bound: the GPU idles 70 % of the step": the start, and the number before the percent sign. */
static void assert_text(const sg_prediction *p, const char *limit, const char *start, double share) {
    if (strcmp(p->limited_by, limit) != 0 || strncmp(p->limited_by_text, start, strlen(start)) != 0)
        fail_msg("not %s: %s", start, p->limited_by_text);
    const char *percent = strstr(p->limited_by_text, " %");
    assert_non_null(percent);
    while (percent > p->limited_by_text && percent[-1] != ' ') percent--;
    if (fabs(strtod(percent, NULL) - 100 * share) > 0.51) fail_msg("%s, not %.3f", p->limited_by_text, 100 * share);
}

/* What decides, in words, in every regime: one part of a machine is slow at a time. */
static void test_limits_in_words(void **state) {
    (void)state;
    sg_policy_request act = sg_small_act(4), ppo = {.policy = "ppo"};
    sg_predict_options o = sg_knowing();
    sg_machine gpu = sg_sheet("a100-sxm-80gb"), m = gpu, cpu = sg_sheet("cpu");
    o.workers = 512;
    sg_prediction p = sg_predicted(&act, &gpu, &o);
    assert_text(&p, "launch", "launch-bound: the GPU idles ", 1 - device_seconds(&p) / p.step_s.value);
    static const sg_machine_id host_s[] = {SG_M_HOST_OP_S, SG_M_HOST_OPTIMIZER_S, SG_M_HOST_SYNC_S};
    for (int i = 0; i < 3; i++) {
        m.p[host_s[i]].evidence = SG_EVIDENCE_CALIBRATED; /* stays when the framework's numbers are added */
        m.p[host_s[i]].value = 1e-9;
    }
    m.p[SG_M_BANDWIDTH].value *= 1e-3;
    p = sg_predicted(&act, &m, &o);
    assert_text(&p, "memory bandwidth", "memory-bandwidth-bound: ", 1);
    m.p[SG_M_BANDWIDTH].value *= 1e6;
    for (int i = SG_M_PEAK_F32; i <= SG_M_PEAK_F16; i++) m.p[i].value *= 1e-4;
    p = sg_predicted(&act, &m, &o);
    assert_text(&p, "compute", "compute-bound: ", 1);
    for (int i = SG_M_PEAK_F32; i <= SG_M_PEAK_F16; i++) m.p[i].value *= 1e8;
    m.p[SG_M_KERNEL_FLOOR_S].value = m.p[SG_M_KERNEL_START_S].value = 1e-3;
    p = sg_predicted(&act, &m, &o);
    assert_text(&p, "launch", "launch-bound: starting kernels is ", 1);
    m = gpu;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = m.p[SG_M_COLLECTIVE_SMALL_S].value = 0.2;
    o.ranks = 4;
    p = sg_predicted(&act, &m, &o);
    assert_text(&p, "communication", "communication-bound: the GPU waits ", p.exposed_sync_s / p.step_s.value);
    o.ranks = o.workers = 1;
    p = sg_predicted(&act, &gpu, &o);
    assert_text(&p, "loader", "loader-bound: waiting for batches is ", p.dataloading_s.value / p.step_s.value);
    m.p[SG_M_ENV_STEP_S].value = 1e-3;
    p = sg_predicted(&ppo, &m, &o);
    assert_text(&p, "environment", "environment-bound: ", p.environment_s.value / p.iteration_s.value);
    o.workers = 512;
    cpu.p[SG_M_HOST_OP_S].evidence = SG_EVIDENCE_CALIBRATED;
    cpu.p[SG_M_HOST_OP_S].value = 1e-2;
    p = sg_predicted(&act, &cpu, &o);
    assert_text(&p, "launch", "launch-bound: the framework's own work is ", 1 - device_seconds(&p) / p.step_s.value);
    sg_machine_clear(&gpu);
    sg_machine_clear(&cpu);
}

static void test_fits(void **state) {
    (void)state;
    sg_machine m = sg_sheet("rtx-3060");
    sg_policy_request r = {.policy = "act", .batch = 16};
    sg_predict_options o = sg_knowing();
    sg_prediction p = sg_predicted(&r, &m, &o);
    assert_true(p.fits && p.device_bytes.high <= (double)m.memory_bytes);
    r.batch = 64;
    p = sg_predicted(&r, &m, &o);
    assert_false(p.fits);
    m.memory_bytes = (uint64_t)((p.device_bytes.value + p.device_bytes.high) / 2);
    p = sg_predicted(&r, &m, &o);
    assert_false(p.fits); /* the upper bound is what is promised */
    assert_non_null(strstr(p.warnings[0], "upper bound"));
    m.memory_bytes = 0;
    p = sg_predicted(&r, &m, &o);
    assert_true(p.fits);
    assert_non_null(strstr(p.warnings[0], "does not state its memory"));
    sg_machine_clear(&m);
}

static const char *const AV1 = "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=mine";
static const char *const PNG = "lerobot-v3.0;png;480x640;cameras=2;name=mine";

static sg_prediction loading(sg_framework framework, const char *dataset, const char *backend) {
    sg_machine m = sg_sheet("b200");
    sg_loader_law law = sg_loader_law_prior();
    (void)snprintf(law.dataset, sizeof law.dataset, "%s", dataset);
    (void)snprintf(law.layer, sizeof law.layer, "cached");
    law.frame_s = 0.01;
    law.sample_s = 1e-3;
    law.sigma = law.kappa = 0;
    law.work_log_sd = law.contention_log_sd = law.residual_log_sd = 0.02;
    law.evidence = SG_EVIDENCE_MEASURED;
    sg_fit fit = {.loaders = &law, .n_loaders = 1};
    sg_policy_request r = {.policy = "act", .batch = 8, .framework = framework};
    sg_predict_options o = sg_knowing();
    o.fit = &fit;
    o.dataset = dataset;
    o.video_backend = backend;
    o.paused = true;
    sg_prediction p = sg_predicted(&r, &m, &o);
    sg_machine_clear(&m);
    return p;
}

/* Our loader measured a data set: that is our own time. A trainer's takes its frames' factor and its Python on top, with their
 * doubt, and is no longer measured. */
static void test_trainers_loader(void **state) {
    (void)state;
    sg_framework_numbers f;
    sg_status status;
    assert_int_equal(sg_framework_load("pytorch-eager", "cuda", NULL, &f, &status), SG_OK);
    sg_prediction ours = loading(SG_FRAMEWORK_NATIVE, AV1, NULL);
    sg_prediction theirs = loading(SG_FRAMEWORK_PYTORCH_EAGER, AV1, NULL);
    sg_prediction pyav = loading(SG_FRAMEWORK_PYTORCH_EAGER, AV1, "pyav");
    assert_near(ours.loader.batch_cpu_s, 8 * (2 * 0.01 + 1e-3), 1e-9);
    assert_false(ours.loader.by_framework);
    assert_int_equal(ours.dataloading_s.evidence, SG_EVIDENCE_MEASURED);
    double python_s = f.p[SG_M_LOADER_PYTHON_S].value + 100 * f.p[SG_M_LOADER_ROW_S].value +
                      2 * 921600.0 / f.p[SG_M_LOADER_COLLATION].value;
    double frame_s = f.p[SG_M_LOADER_TORCHCODEC].value * 0.01 + f.p[SG_M_LOADER_TORCHCODEC_S].value;
    assert_near(theirs.loader.batch_cpu_s, 8 * (2 * frame_s + python_s), 1e-9);
    assert_true(theirs.loader.by_framework);
    assert_near(theirs.loader.frame_factor, frame_s / 0.01, 1e-9);
    assert_int_equal(theirs.dataloading_s.evidence, SG_EVIDENCE_CALIBRATED);
    assert_true(theirs.dataloading_s.high / theirs.dataloading_s.value >
                1.05 * ours.dataloading_s.high / ours.dataloading_s.value);
    assert_true(pyav.loader.batch_cpu_s > 1.5 * theirs.loader.batch_cpu_s);
    /* a row of tables is read with its images: a chunk of 100 decodes 101 of each camera */
    sg_prediction images = loading(SG_FRAMEWORK_PYTORCH_EAGER, PNG, NULL);
    assert_near(images.loader.frame_factor, 101 * f.p[SG_M_LOADER_IMAGE].value, 1e-9);
    /* as many images in float32 are collated */
    assert_true(images.loader.batch_cpu_s > 8 * 2 * 0.01 * images.loader.frame_factor);
    sg_machine m = sg_sheet("b200");
    sg_policy_request r = {.policy = "act", .batch = 8};
    sg_predict_options o = sg_knowing();
    sg_prediction p;
    o.video_backend = "vhs";
    assert_int_equal(sg_predict(&r, &m, &o, &p, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "vhs"));
    sg_machine_clear(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loader),          cmocka_unit_test(test_monotone), cmocka_unit_test(test_measured_loader),
        cmocka_unit_test(test_trainers_loader), cmocka_unit_test(test_fits),     cmocka_unit_test(test_limits_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
