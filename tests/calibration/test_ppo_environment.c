/* What a simulator needs for a step, by its number of environments: priors, logs, published scaling, predictions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/environment/environment_law.h"
#include "tests/support/near.h"
#include "tests/support/predicted.h"
#include "tests/support/priced.h"

static sg_law fitted(const char *task, const sg_environment_point *points, size_t n) {
    sg_law law;
    sg_status status;
    if (sg_environment_fit(task, points, n, &law, &status) != SG_OK) fail_msg("%s", status.text);
    return law;
}

static double at(const sg_law *law, double envs, double *log_sd) {
    double value, sd;
    sg_law_at(law, envs, &value, &sd);
    if (log_sd) *log_sd = sd;
    return value;
}

static void names(void **state) {
    (void)state;
    assert_string_equal(sg_environment_simulator("isaac-lab/g1-rough"), "isaac-lab");
    assert_string_equal(sg_environment_simulator("Isaac_Lab"), "isaac-lab");
    assert_string_equal(sg_environment_simulator("mjlab-go1"), "mjlab");
    assert_string_equal(sg_environment_simulator("mjlabor"), "");
    assert_string_equal(sg_environment_simulator(""), "");
    assert_string_equal(sg_environment_simulator(NULL), "");
    char dataset[160] = "";
    sg_environment_mark(NULL, dataset, sizeof dataset);
    assert_string_equal(dataset, "");
    sg_environment_mark("mjlab-go1", dataset, sizeof dataset);
    assert_string_equal(sg_environment_task(dataset), "mjlab-go1");
    assert_string_equal(sg_environment_task("lerobot-v3.0;av1"), "");
}

static void prior_alone(void **state) {
    (void)state;
    sg_law slow = fitted("isaac-lab/a", NULL, 0), fast = fitted("mjlab", NULL, 0), any = fitted(NULL, NULL, 0);
    assert_close(slow.value[0], 25e-3);
    assert_close(fast.value[0], 5e-3);
    assert_close(slow.error[0] / slow.value[0], 0.5);
    assert_true(any.error[0] / any.value[0] > 0.9);
    assert_int_equal(slow.n_points, 0);
    assert_true(at(&slow, 4096, NULL) > at(&fast, 4096, NULL));
}

/* A log of few environments asks for one of many, a log of many for one of fewer. */
static void next_log_tells_the_other_constant(void **state) {
    (void)state;
    sg_environment_point few = {16, 6e-3}, many = {65536, 0.32};
    sg_law low = fitted("isaac-lab/a", &few, 1), high = fitted("isaac-lab/a", &many, 1);
    assert_string_equal(low.next_point, "a log with 128 environments");
    assert_string_equal(high.next_point, "a log with 8192 environments");
}

/* Points of a known law, its constants away from the prior's: two numbers of environments tell them apart. */
static void points_decide(void **state) {
    (void)state;
    const double c0 = 40e-3, c1 = 12e-6;
    sg_environment_point points[3] = {{256, c0 + c1 * 256}, {4096, c0 + c1 * 4096}, {16384, c0 + c1 * 16384}};
    sg_law law = fitted("isaac-lab/x", points, 3);
    assert_true(fabs(log(law.value[0] / c0)) < 0.02 && fabs(log(law.value[1] / c1)) < 0.05);
    assert_true(fabs(log(at(&law, 1024, NULL) / (c0 + c1 * 1024))) < 0.02);
    assert_close(law.low_x, 256);
    assert_close(law.high_x, 16384);
    double inside, outside, one;
    (void)at(&law, 4096, &inside);
    (void)at(&law, 131072, &outside);
    assert_true(inside < outside);
    /* One point: itself is met, another number of environments is in more doubt. */
    law = fitted("isaac-lab/x", points + 1, 1);
    assert_true(fabs(log(at(&law, 4096, &one) / points[1].step_s)) < 0.03);
    (void)at(&law, 64, &outside);
    assert_true(one < 0.12 && outside > 2 * one);
    /* From here on a doubling of the environments brings less than 10 %. */
    double n = sg_environment_saturation(&law);
    assert_true(2 * at(&law, n, NULL) / at(&law, 2 * n, NULL) < 1.1);
}

/* Published collection rates (G1 rough, RTX 5090, two versions of the simulator; mjlab's whole iterations less 0.1 s of
 * learning): 8,192 environments from 4,096. */
static void published_scaling(void **state) {
    (void)state;
    const struct {
        const char *task;
        double step_4096, step_8192;
    } rows[] = {{"isaac-lab/g1-rough", 4096 / 115e3, 8192 / 177286.18},
                {"isaac-lab/g1-rough", 4096 / 89e3, 8192 / 144376.27},
                {"mjlab-g1", (24 * 4096 / 125e3 - 0.1) / 24, (24 * 8192 / 135e3 - 0.2) / 24}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sg_environment_point seen = {4096, rows[i].step_4096};
        sg_law law = fitted(rows[i].task, &seen, 1);
        double sd, error = log(at(&law, 8192, &sd) / rows[i].step_8192);
        if (fabs(error) > 0.16 || fabs(error) > 2 * sd) fail_msg("%zu: off by %g, sd %g", i, error, sd);
    }
}

static void bad_points(void **state) {
    (void)state;
    const sg_environment_point bad[] = {{0, 0.1}, {64, 0}, {64, -1}, {NAN, 0.1}, {64, INFINITY}, {1e300, 0.1}};
    sg_law law;
    sg_status status;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(sg_environment_fit("mjlab", &bad[i], 1, &law, &status), SG_BAD_INPUT);
    const sg_environment_point wild[] = {{1, 1e8}, {1e11, 1e-8}}; /* nothing fits these: still finite */
    law = fitted("mjlab", wild, 2);
    assert_true(isfinite(law.value[0]) && law.value[0] > 0 && isfinite(law.value[1]) && law.value[1] > 0);
}

static sg_point point_of(const char *task, int64_t envs, double collection_s, const char *source) {
    sg_point p = {.config = {.envs = envs, .steps_per_env = 24, .ranks = 1, .policy = "ppo"}};
    sg_environment_mark(task, p.config.dataset, sizeof p.config.dataset);
    (void)snprintf(p.source, sizeof p.source, "%s", source);
    p.q[SG_Q_COLLECTION].median = collection_s;
    return p;
}

static void laws_of_a_fit(void **state) {
    (void)state;
    sg_point points[] = {point_of("mjlab-g1", 1024, 0.5, "observed"), point_of("mjlab-go1", 64, 0.3, "observed"),
                         point_of("mjlab-g1", 4096, 0.9, "observed"), point_of("mjlab-g1", 8192, 9.9, "measured"),
                         point_of("mjlab-g1", 2048, 0, "observed")};
    sg_fit fit = {0};
    sg_status status;
    assert_int_equal(sg_fit_environments(points, 5, &fit, &status), SG_OK);
    assert_int_equal(fit.n_laws, 2);
    const sg_law *law = sg_environment_find(&fit, "mjlab-g1");
    assert_non_null(law);
    assert_int_equal(law->n_points, 2); /* neither what was measured here nor what has no collection */
    assert_close(law->high_x, 4096);
    assert_null(sg_environment_find(&fit, "mjlab"));
    assert_null(sg_environment_find(&fit, NULL)); /* which of the two? */
    fit.n_laws = 1;
    assert_ptr_equal(sg_environment_find(&fit, NULL), &fit.laws[0]);
    free(fit.laws);
}

static void predictions(void **state) {
    (void)state;
    sg_machine m = sg_sheet("rtx-4090");
    sg_environment_point seen[2] = {{1024, 20e-3}, {4096, 40e-3}};
    sg_law law = fitted("isaac-lab/x", seen, 2);
    sg_setting envs = {"envs", "2048", "--envs"}, own[2] = {envs, {"env_step_us", "1", "--env-step-us"}};
    sg_policy_request r = {.policy = "ppo", .settings = &envs, .n_settings = 1};
    sg_predict_options o = sg_knowing();
    sg_prediction without = sg_predicted(&r, &m, &o);
    o.environment = &law;
    sg_prediction p = sg_predicted(&r, &m, &o);
    assert_near(p.collection_s.value, 24 * at(&law, 2048, NULL), 1e-9);
    assert_near(p.environment_s.value, p.collection_s.value - p.inference_s.value, 1e-9);
    assert_near(p.iteration_s.value, p.collection_s.value + p.learning_s.value, 1e-9);
    assert_near(p.learning_s.value, without.learning_s.value, 1e-9);
    assert_int_equal(p.collection_s.evidence, SG_EVIDENCE_OBSERVED);
    envs.value = "16384"; /* no log had so many */
    sg_prediction more = sg_predicted(&r, &m, &o);
    envs.value = "2048";
    assert_int_equal(more.collection_s.evidence, SG_EVIDENCE_CALIBRATED);
    assert_true(more.collection_s.high / more.collection_s.value > p.collection_s.high / p.collection_s.value);
    o.environment_elsewhere = true;
    sg_prediction elsewhere = sg_predicted(&r, &m, &o);
    assert_true(elsewhere.collection_s.high > p.collection_s.high);
    sg_law prior = fitted("isaac-lab/x", NULL, 0);
    o.environment = &prior;
    sg_prediction guessed = sg_predicted(&r, &m, &o);
    assert_true(guessed.collection_s.high / guessed.collection_s.value >
                elsewhere.collection_s.high / elsewhere.collection_s.value);
    assert_true(guessed.n_warnings > 0);
    r.settings = own;
    r.n_settings = 2;
    assert_near(sg_predicted(&r, &m, &o).environment_s.value, 2048 * 24 * 1e-6, 1e-6); /* what was given stands */
    sg_machine_clear(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(prior_alone),
        cmocka_unit_test(next_log_tells_the_other_constant),
        cmocka_unit_test(points_decide),
        cmocka_unit_test(published_scaling),
        cmocka_unit_test(bad_points),
        cmocka_unit_test(laws_of_a_fit),
        cmocka_unit_test(predictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
