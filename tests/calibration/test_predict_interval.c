/* What widens a prediction's interval: parameters, unknown inputs, two clocks; and whether it holds published steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "calibration/machine/framework_file.h"
#include "tests/support/near.h"
#include "tests/support/predicted.h"
#include "tests/support/priced.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

/* The parameters part is |d log step / d log parameter| x its log sd: against two predictions, one parameter at a time. */
static void test_parameters_part(void **state) {
    (void)state;
    static const int ids[] = {SG_M_PEAK_TF32, SG_M_BANDWIDTH,        SG_M_EFF_CONV,  SG_M_EFF_ELEMENTWISE,
                              SG_M_HOST_OP_S, SG_M_COLLECTIVE_BUSBW, SG_M_HOST_VIEW, SG_M_RANK_JITTER};
    sg_framework_numbers eager;
    assert_int_equal(sg_framework_load("pytorch-eager", "cuda", CONFIGS, &eager, NULL), SG_OK);
    sg_policy_request r = sg_small_act(64);
    sg_predict_options o = sg_knowing();
    o.ranks = 4;
    sg_machine m = sg_sheet("a100-pcie-40gb");
    sg_framework_apply(&eager, &m);
    double seen = 0;
    for (int i = 0; i < SG_M_COUNT; i++) {
        m.p[i].log_sd = 0;
        m.p[i].evidence = SG_EVIDENCE_CALIBRATED;
    }
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        const double h = 1e-4;
        sg_machine up = m, down = m, one = m;
        up.p[ids[k]].value *= exp(h);
        down.p[ids[k]].value *= exp(-h);
        one.p[ids[k]].log_sd = 0.1;
        double slope =
            log(sg_predicted(&r, &up, &o).update_s.value / sg_predicted(&r, &down, &o).update_s.value) / (2 * h);
        sg_prediction p = sg_predicted(&r, &one, &o);
        assert_near(p.update_s.parts.parameters, 0.1 * fabs(slope), 1e-5);
        seen += fabs(slope);
    }
    assert_true(seen > 1); /* the chosen ones make most of the step */
    sg_machine_clear(&m);
}

/* What is not known widens: hosts, cameras, language; and a narrower interval is narrower. */
static void test_unknown_inputs(void **state) {
    (void)state;
    sg_machine m = sg_sheet("h100-sxm");
    sg_policy_request r = sg_small_act(4); /* launch-bound */
    sg_predict_options o = sg_knowing();
    sg_prediction all = sg_predicted(&r, &m, &o);
    assert_string_equal(all.limited_by, "launch");
    assert_true(all.update_s.parts.inputs == 0);
    o.host_known = false;
    sg_prediction host = sg_predicted(&r, &m, &o);
    assert_near(host.update_s.value, all.update_s.value, 0);
    assert_true(host.update_s.parts.inputs > 0.25 && host.update_s.parts.parameters < all.update_s.parts.parameters);
    o.cameras_known = false;
    sg_prediction cameras = sg_predicted(&r, &m, &o);
    assert_near(pow(cameras.update_s.parts.inputs, 2) - pow(host.update_s.parts.inputs, 2), 0.35 * 0.35, 1e-9);
    assert_true(cameras.peak_allocated_bytes.high > host.peak_allocated_bytes.high);
    assert_true(cameras.n_warnings > host.n_warnings);
    o.interval = 0.5;
    sg_prediction half = sg_predicted(&r, &m, &o);
    assert_true(half.update_s.high < cameras.update_s.high && half.update_s.low > cameras.update_s.low);

    sg_policy_request vla = {.policy = "smolvla", .batch = 2};
    o = sg_knowing();
    sg_prediction said = sg_predicted(&vla, &m, &o);
    o.language_known = false;
    sg_prediction unsaid = sg_predicted(&vla, &m, &o);
    assert_true(unsaid.peak_allocated_bytes.high > said.peak_allocated_bytes.high);
    assert_true(unsaid.update_s.high > said.update_s.high);
    sg_machine_clear(&m);
}

/* A launch-bound step is never shorter than what its device has to do, and beside a fast device a slower host than assumed
 * decides: both show in the interval, whatever the derivative at the point says. */
static void test_two_clocks(void **state) {
    (void)state;
    sg_machine m = sg_sheet("a100-sxm-80gb");
    sg_predict_options o = sg_knowing();
    o.host_known = false;
    sg_policy_request r = {.policy = "act"};
    double widest = 0;
    for (int64_t batch = 4; batch <= 64; batch *= 2) {
        r.batch = batch;
        sg_prediction p = sg_predicted(&r, &m, &o);
        double device_s = 0;
        for (int c = 0; c < SG_CLASS_COUNT; c++) device_s += p.class_s[c];
        assert_true(p.update_s.low > 0.6 * device_s && p.update_s.low < p.update_s.value);
        widest = fmax(widest, p.update_s.high / p.update_s.low);
        if (batch == 4) assert_string_equal(p.limited_by, "launch");
        if (batch == 64) assert_true(p.update_s.high < 2 * p.update_s.value); /* no host is that slow */
    }
    assert_true(widest > 2.5); /* at the crossing and below it */
    sg_machine_clear(&m);
}

/* Update times and memory that people published (LeRobot logs and model cards, 2026): GPU, batch and cameras are stated or
 * follow from the memory. Known beforehand are the data sheets alone; 90 % intervals should hold 9 of 10. */
static void test_published_steps(void **state) {
    (void)state;
    static const struct {
        const char *what, *policy, *machine;
        int64_t batch;
        const char *cameras;
        bool unfrozen;
        double update_s, allocated_gib, driver_gib; /* 0: not stated */
    } rows[] = {
        {"ACT b8, RTX 5060 Ti", "act", "rtx-5060-ti", 8, "2", false, 0.182, 3.73, 4.61},
        {"ACT b16, RTX 5060 Ti", "act", "rtx-5060-ti", 16, "2", false, 0.360, 6.85, 8.01},
        {"ACT b32, RTX 5060 Ti", "act", "rtx-5060-ti", 32, "2", false, 0.704, 13.10, 14.51},
        {"ACT b32, RTX 3090", "act", "rtx-3090", 32, "2", false, 0.47, 0, 0},
        {"ACT b16, T4", "act", "t4", 16, "2", false, 0.969, 6.86, 0},
        {"ACT b8, 8 x B200", "act", "b200", 8, "1", false, 0.0285, 0, 0},
        {"ACT b1, H100", "act", "h100-sxm", 1, "2", false, 0, 1.03, 0},
        {"SmolVLA b64, RTX 3090", "smolvla", "rtx-3090", 64, "2", false, 1.19, 0, 0},
        {"SmolVLA b64, RTX PRO 6000", "smolvla", "rtx-pro-6000", 64, "2", false, 0.318, 0, 0},
        {"SmolVLA unfrozen b32, H100", "smolvla", "h100-sxm", 32, "3", true, 0.312, 0, 0},
    };
    int times = 0, inside = 0;
    double sum = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sg_setting settings[3] = {{"cameras", rows[i].cameras, "test"},
                                  {"freeze_vision_encoder", "false", "test"},
                                  {"train_expert_only", "false", "test"}};
        sg_policy_request r = {.policy = rows[i].policy,
                               .batch = rows[i].batch,
                               .settings = settings,
                               .n_settings = rows[i].unfrozen ? 3 : 1};
        sg_machine m = sg_sheet(rows[i].machine);
        sg_predict_options o = sg_knowing();
        o.host_known = o.language_known = false;
        sg_prediction p = sg_predicted(&r, &m, &o);
        if (rows[i].update_s > 0) {
            times++;
            inside += rows[i].update_s >= p.update_s.low && rows[i].update_s <= p.update_s.high;
            sum += fabs(log(p.update_s.value / rows[i].update_s));
        }
        if (rows[i].allocated_gib > 0 && rows[i].batch > 1)
            assert_near(p.peak_allocated_bytes.value / (rows[i].allocated_gib * 0x1p30), 1, 0.03);
        if (rows[i].driver_gib > 0) {
            assert_near(p.device_bytes.value / (rows[i].driver_gib * 0x1p30), 1, 0.05);
            assert_true(p.device_bytes.high >= rows[i].driver_gib * 0x1p30);
        }
        if (rows[i].allocated_gib > 0) assert_true(p.peak_allocated_bytes.high >= rows[i].allocated_gib * 0x1p30);
        sg_machine_clear(&m);
    }
    assert_true(10 * inside >= 9 * times);
    assert_true(sum / times < log(1.2)); /* mean absolute log error below 20 % */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters_part),
        cmocka_unit_test(test_unknown_inputs),
        cmocka_unit_test(test_two_clocks),
        cmocka_unit_test(test_published_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
