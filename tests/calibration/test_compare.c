/* A log beside a measured point and a prediction: phases, the nearest point, what differences point to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/compare/compare.h"
#include "tests/support/log_checks.h"
#include "tests/support/near.h"

static const char trained[] = "Effective batch size: 8 x 1 = 8\n"
                              "step:200 smpl:1600 data_s:0.020 prep_s:0.001 updt_s:0.300 smp/s:25 mem_gb:4.00\n"
                              "step:400 smpl:3200 data_s:0.020 prep_s:0.001 updt_s:0.200 smp/s:36 mem_gb:4.00\n"
                              "step:600 smpl:4800 data_s:0.020 prep_s:0.001 updt_s:0.200 smp/s:36 mem_gb:4.00\n";

static sg_point_config config_of(int64_t batch, int64_t cameras) {
    sg_point_config c = {.batch = batch,
                         .ranks = 1,
                         .accumulation = 1,
                         .cameras = cameras,
                         .image_height = 480,
                         .image_width = 640,
                         .policy = "act",
                         .framework = "pytorch-eager",
                         .device = "cuda",
                         .precision = "fp32"};
    return c;
}

static sg_figure figure(double value) {
    return (sg_figure){.value = value, .low = value / 1.2, .high = value * 1.2};
}

static sg_prediction prediction(double update_s, double gib, double busy) {
    sg_prediction p = {.dataloading_s = figure(0.02),
                       .preprocessing_s = figure(0.001),
                       .update_s = figure(update_s),
                       .step_s = figure(update_s + 0.021),
                       .samples_per_s = figure(8 / (update_s + 0.021)),
                       .peak_allocated_bytes = figure(gib * 0x1p30),
                       .device_busy_share = busy};
    return p;
}

static sg_comparison compare(const char *text, sg_compare_facts facts) {
    sg_logs logs = sg_logs_of_text(text);
    sg_comparison c;
    sg_status status;
    facts.log = &logs.logs[0];
    if (sg_compare(&facts, &c, &status) != SG_OK) fail_msg("%s", status.text);
    sg_logs_clear(&logs);
    return c;
}

static const sg_compared *phase(const sg_comparison *c, const char *name) {
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->phase[i].name, name) == 0) return &c->phase[i];
    fail_msg("%s is missing", name);
    return NULL;
}

static bool points_to(const sg_comparison *c, const char *part) {
    for (size_t i = 0; i < c->n_findings; i++)
        if (strstr(c->findings[i], part)) return true;
    return false;
}

static void phases(void **state) {
    (void)state;
    sg_point_config config = config_of(8, 2);
    sg_point point = {.config = config, .source = "measured", .peak_allocated_bytes = (uint64_t)4 << 30};
    point.q[SG_Q_UPDATE].median = 0.16;
    point.q[SG_Q_STEP].median = 0.17;
    sg_prediction p = prediction(0.19, 4.1, 0.9);
    sg_comparison c =
        compare(trained, (sg_compare_facts){.config = &config, .measured = &point, .exact = true, .predicted = &p});
    const sg_compared *update = phase(&c, "update_s");
    assert_close(update->log, 0.2);
    assert_close(update->measured, 0.16);
    assert_close(update->by_measured, 1.25);
    assert_close(update->by_predicted, 0.2 / 0.19);
    assert_true(update->inside);
    assert_close(phase(&c, "step_s")->log, 0.221);
    assert_close(phase(&c, "samples_per_s")->log, 8 / 0.221);
    assert_true(phase(&c, "preprocessing_s")->inside && phase(&c, "dataloading_s")->inside);
    assert_close(phase(&c, "peak_allocated_bytes")->by_measured, 1);
    assert_true(points_to(&c, "framework's factor") && points_to(&c, "agrees with the prediction"));
    /* what ran fitted */
    p.peak_allocated_bytes = figure(40 * 0x1p30);
    sg_compare_facts larger = {.config = &config, .predicted = &p, .capacity_bytes = 24 * 0x1p30};
    c = compare(trained, larger);
    assert_true(points_to(&c, "would need 40 GiB, the machine has 24"));
    larger.capacity_bytes = 48 * 0x1p30;
    c = compare(trained, larger);
    assert_false(points_to(&c, "would need"));
    p.peak_allocated_bytes = figure(4.1 * 0x1p30);
    (void)snprintf(point.config.device, sizeof point.config.device, "cpu");
    c = compare(trained, (sg_compare_facts){.config = &config, .measured = &point, .exact = true, .predicted = &p});
    assert_true(points_to(&c, "compares devices, not programs") && !points_to(&c, "framework's factor"));
}

/* Before August 2026 the wait holds the preprocessing: both are compared as one. */
static void older_formats(void **state) {
    (void)state;
    sg_point_config config = config_of(8, 2);
    sg_prediction p = prediction(0.2, 4, 0.9);
    sg_comparison c =
        compare("step:200 smpl:1600 updt_s:0.3 data_s:0.021\nstep:400 smpl:3200 updt_s:0.2 data_s:0.021\n",
                (sg_compare_facts){.config = &config, .predicted = &p});
    assert_close(phase(&c, "dataloading_s")->predicted.value, 0.021);
    for (size_t i = 0; i < c.n; i++) assert_string_not_equal(c.phase[i].name, "preprocessing_s");
}

static void differences(void **state) {
    (void)state;
    sg_point_config config = config_of(8, 2);
    sg_compare_facts facts = {.config = &config};
    sg_prediction p = prediction(0.1, 4, 0.3);
    facts.predicted = &p;
    sg_comparison c = compare(trained, facts);
    assert_true(points_to(&c, "the host decides it") && points_to(&c, "--host-speed 0.5 would fit"));
    p = prediction(0.1, 2, 0.9);
    c = compare(trained, facts);
    assert_true(points_to(&c, "the device decides it") && points_to(&c, "Memory is 2.00 times"));
    sg_compare_alternative other[2] = {{.what = "batch 4", .predicted = prediction(0.05, 1, 0.9)},
                                       {.what = "4 camera(s)", .predicted = prediction(0.21, 4.05, 0.9)}};
    facts.alternatives = other;
    facts.n_alternatives = 2;
    c = compare(trained, facts);
    assert_true(points_to(&c, "looks like a training with 4 camera(s)") && !points_to(&c, "Memory is"));
    p = prediction(0.2, 4, 0.9);
    p.dataloading_s = figure(0.1);
    c = compare(trained, facts);
    assert_true(points_to(&c, "loader is faster") && !points_to(&c, "looks like"));
    p.dataloading_s = figure(0.002);
    c = compare(trained, facts);
    assert_true(points_to(&c, "loader is slower"));
}

/* Where the loader explains the step, nothing else is guessed at. */
static void the_loader_first(void **state) {
    (void)state;
    static const char starved[] = "Effective batch size: 8 x 1 = 8\n"
                                  "step:200 smpl:1600 data_s:2.070 prep_s:0.001 updt_s:0.300 smp/s:4 mem_gb:4.00\n"
                                  "step:400 smpl:3200 data_s:2.070 prep_s:0.001 updt_s:0.200 smp/s:4 mem_gb:4.00\n"
                                  "step:600 smpl:4800 data_s:2.070 prep_s:0.001 updt_s:0.200 smp/s:4 mem_gb:4.00\n";
    sg_point_config config = config_of(8, 2);
    sg_prediction p = prediction(0.11, 4, 0.9);
    sg_compare_alternative other = {.what = "batch 16", .predicted = prediction(0.2, 4, 0.9)};
    sg_compare_facts facts = {.config = &config, .predicted = &p, .alternatives = &other, .n_alternatives = 1};
    p.dataloading_s = figure(0.01);
    sg_comparison c = compare(starved, facts);
    assert_int_equal(c.n_findings, 1);
    assert_non_null(strstr(c.findings[0], "loader is slower"));
    /* what is left is told as it is: without a memory, another training would be a guess */
    static const char slow[] = "Effective batch size: 8 x 1 = 8\n"
                               "step:200 smpl:1600 data_s:0.750 prep_s:0.001 updt_s:0.300 smp/s:8\n"
                               "step:400 smpl:3200 data_s:0.750 prep_s:0.001 updt_s:0.200 smp/s:8\n"
                               "step:600 smpl:4800 data_s:0.750 prep_s:0.001 updt_s:0.200 smp/s:8\n";
    p = prediction(0.08, 4, 0.9);
    p.dataloading_s = figure(0.01);
    c = compare(slow, facts);
    assert_true(strstr(c.findings[0], "loader is slower") && points_to(&c, "the device decides it"));
    assert_false(points_to(&c, "looks like"));
    p = prediction(0.11, 4, 0.9);
    p.dataloading_s = figure(0.01);
    /* what the loader leaves is much, or memory is another */
    c = compare(trained, facts);
    assert_true(points_to(&c, "looks like a training with batch 16") && strstr(c.findings[0], "loader is slower"));
    p = prediction(0.11, 2, 0.9);
    p.dataloading_s = figure(0.01);
    c = compare(starved, facts);
    assert_true(points_to(&c, "looks like a training with batch 16"));
}

static void ppo(void **state) {
    (void)state;
    sg_point_config config = {.envs = 4096, .steps_per_env = 24, .ranks = 1, .policy = "ppo"};
    sg_prediction p = {.collection_s = figure(0.5),
                       .inference_s = figure(0.1),
                       .learning_s = figure(0.1),
                       .iteration_s = figure(0.6),
                       .env_steps_per_s = figure(4096 * 24 / 0.6)};
    sg_comparison c = compare("Learning iteration 5/10\nCollection time: 1.0s\nLearning time: 0.1s\n"
                              "Mean surrogate loss: -0.1\n",
                              (sg_compare_facts){.config = &config, .predicted = &p});
    assert_true(c.only_window);
    assert_close(phase(&c, "collection_s")->by_predicted, 2);
    assert_close(phase(&c, "env_steps_per_s")->log, 4096 * 24 / 1.1);
    assert_true(points_to(&c, "--env-step-us 9.16")); /* 0.9 s / 98304 */
}

static void nearest_points(void **state) {
    (void)state;
    sg_point points[3] = {{.config = config_of(4, 2)}, {.config = config_of(8, 1)}, {.config = config_of(8, 2)}};
    sg_point_config wanted = config_of(8, 2);
    char differs[256];
    bool exact;
    points[2].config.threads = 6;
    points[2].config.seed = 5;
    assert_ptr_equal(sg_compare_nearest(points, 3, &wanted, &exact, differs, sizeof differs), &points[2]);
    assert_true(exact && !differs[0]);
    assert_ptr_equal(sg_compare_nearest(points, 2, &wanted, &exact, differs, sizeof differs), &points[0]);
    assert_true(!exact);
    assert_string_equal(differs, "batch 4 (log: 8)");
    (void)snprintf(points[2].config.settings, sizeof points[2].config.settings, "chunk_size=10");
    assert_ptr_equal(sg_compare_nearest(points + 2, 1, &wanted, &exact, differs, sizeof differs), &points[2]);
    assert_true(!exact && strstr(differs, "other settings"));
    (void)snprintf(wanted.policy, sizeof wanted.policy, "smolvla");
    assert_null(sg_compare_nearest(points, 3, &wanted, &exact, differs, sizeof differs));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(phases),           cmocka_unit_test(older_formats), cmocka_unit_test(differences),
        cmocka_unit_test(the_loader_first), cmocka_unit_test(ppo),           cmocka_unit_test(nearest_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
