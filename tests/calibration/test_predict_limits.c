/* What limits a predicted step, in words; the loader as a limit; whether it fits into memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/near.h"
#include "tests/support/predicted.h"
#include "tests/support/priced.h"

/* The loader as a rate limit: more workers, until the vCPUs are used up; none: decoding stands between steps. */
static void test_loader(void **state) {
    (void)state;
    sg_machine m = sg_sheet("b200");
    sg_policy_request r = {.policy = "act", .batch = 8};
    sg_predict_options o = sg_knowing();
    o.workers = 1;
    sg_prediction one = sg_predicted(&r, &m, &o);
    assert_string_equal(one.limited_by, "loader");
    double frames = 16, frame_s = m.p[SG_M_FRAME_S].value;
    assert_near(one.step_s.value / (frames * frame_s), 1, 1e-9);
    assert_near(one.dataloading_s.value, one.step_s.value - one.update_s.value - one.preprocessing_s.value, 1e-9);
    o.workers = 2;
    sg_prediction two = sg_predicted(&r, &m, &o);
    assert_near(two.step_s.value * 2, one.step_s.value, 1e-9);
    m.vcpus = 2;
    o.workers = 16;
    sg_prediction starved = sg_predicted(&r, &m, &o);
    assert_near(starved.step_s.value, two.step_s.value, 1e-9);
    assert_true(starved.n_warnings >= 1);
    assert_non_null(strstr(starved.warnings[0], "vCPUs"));
    m.vcpus = 0;
    o.workers = 64;
    sg_prediction many = sg_predicted(&r, &m, &o);
    assert_string_not_equal(many.limited_by, "loader");
    assert_true(many.dataloading_s.high > many.dataloading_s.value); /* the loader may yet be the slower */
    o.workers = 0;
    sg_prediction none = sg_predicted(&r, &m, &o);
    assert_true(none.step_s.value > none.update_s.value + frames * frame_s);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loader),
        cmocka_unit_test(test_fits),
        cmocka_unit_test(test_limits_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
