/* Laws: recover what made the data, prefer what predicts the unseen, say how many points are missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "calibration/fit/law.h"

static const unsigned ALL = 1u << SG_LAW_WALK | 1u << SG_LAW_AFFINE | 1u << SG_LAW_KNEE;

static void fill(sg_law_point *points, size_t n, double (*law)(double), const double *x) {
    for (size_t i = 0; i < n; i++) points[i] = (sg_law_point){x[i], law(x[i]), 0.01};
}

static double affine(double x) {
    return 0.05 + 0.3 * x;
}
static double knee(double x) {
    return pow(pow(0.08, 6) + pow(0.004 + 0.01 * x, 6), 1.0 / 6);
}

static void affine_is_recovered(void **state) {
    (void)state;
    const double x[] = {1, 2, 4, 8, 16};
    sg_law_point points[5];
    fill(points, 5, affine, x);
    sg_law law = {.kind = 0};
    size_t needed;
    assert_true(sg_law_choose(points, 5, 1u << SG_LAW_AFFINE, NULL, &law, &needed));
    assert_true(fabs(law.value[0] / 0.05 - 1) < 1e-4);
    assert_true(fabs(law.value[1] / 0.3 - 1) < 1e-4);
    double value, log_sd;
    sg_law_at(&law, 32, &value, &log_sd);
    assert_true(fabs(value / affine(32) - 1) < 1e-4);
    double inside;
    sg_law_at(&law, 8, &value, &inside);
    assert_true(log_sd > inside);
}

static void launch_bound_data_choose_the_knee(void **state) {
    (void)state;
    const double x[] = {1, 2, 4, 8, 16, 32, 64};
    sg_law_point points[7];
    fill(points, 7, knee, x);
    sg_law law = {.kind = 0};
    size_t needed;
    assert_true(sg_law_choose(points, 7, ALL, NULL, &law, &needed));
    assert_int_equal(law.kind, SG_LAW_KNEE);
    assert_true(fabs(law.value[0] / 0.08 - 1) < 1e-2);
}

/* Points of several worker counts at few batches: two batches are a line and no knee, one is neither. */
static void a_law_wants_as_many_batches_as_terms(void **state) {
    (void)state;
    const double one[] = {4, 4, 4, 4, 4, 4}, two[] = {2, 2, 2, 8, 8, 8};
    sg_law_point points[6];
    sg_law law = {.kind = 0};
    size_t needed;
    fill(points, 6, affine, one);
    assert_false(sg_law_choose(points, 6, 1u << SG_LAW_AFFINE | 1u << SG_LAW_KNEE, NULL, &law, &needed));
    fill(points, 6, affine, two);
    assert_false(sg_law_choose(points, 6, 1u << SG_LAW_KNEE, NULL, &law, &needed));
    assert_true(sg_law_choose(points, 6, 1u << SG_LAW_AFFINE, NULL, &law, &needed));
    assert_true(fabs(law.value[1] / 0.3 - 1) < 1e-4);
}

/* Three points leave no room for two terms and a check: only the walk, scaled by one. */
static void three_points_scale_the_walk(void **state) {
    (void)state;
    const double x[] = {1, 2, 4}, shape[] = {0.025, 0.15};
    sg_law_point points[3];
    fill(points, 3, affine, x);
    sg_law law = {.kind = 0};
    size_t needed;
    assert_true(sg_law_choose(points, 3, ALL, shape, &law, &needed));
    assert_int_equal(law.kind, SG_LAW_WALK);
    assert_true(fabs(law.value[0] / 2 - 1) < 1e-6);
    assert_false(sg_law_choose(points, 3, 1u << SG_LAW_AFFINE, NULL, &law, &needed));
    assert_int_equal(needed, 4);
}

/* One disturbed measurement among seven moves the law by far less than its own error. */
static void an_outlier_is_weighed_down(void **state) {
    (void)state;
    const double x[] = {1, 2, 4, 6, 8, 12, 16};
    sg_law_point points[7];
    fill(points, 7, affine, x);
    points[3].y *= 1.5;
    sg_law law = {.kind = 0};
    size_t needed;
    assert_true(sg_law_choose(points, 7, 1u << SG_LAW_AFFINE, NULL, &law, &needed));
    double value, log_sd;
    sg_law_at(&law, 10, &value, &log_sd);
    assert_true(fabs(value / affine(10) - 1) < 0.05);
    assert_true(law.residual_log_sd > 0.1);
}

/* Waits that do not grow with the batch, or fall with it, have no slope: no formula with one may be chosen, and what is chosen
 * has terms that are there. */
static void vanishing_terms_make_no_law(void **state) {
    (void)state;
    const double x[] = {16, 32, 64, 128};
    static const double y[][4] = {{1e-5, 1e-5, 1e-5, 1e-5}, {4e-5, 2e-5, 1e-5, 5e-6}, {1e-7, 3e-4, 1e-7, 2e-7}};
    for (int k = 0; k < 3; k++) {
        sg_law_point points[4];
        for (int i = 0; i < 4; i++) points[i] = (sg_law_point){x[i], y[k][i], 0.01};
        sg_law law = {.kind = 0};
        size_t needed;
        if (!sg_law_choose(points, 4, 1u << SG_LAW_LINEAR | 1u << SG_LAW_AFFINE, NULL, &law, &needed)) continue;
        for (size_t i = 0; i < law.n_fitted; i++) assert_true(law.value[i] > 0 && isfinite(law.error[i]));
        double value, log_sd;
        sg_law_at(&law, 48, &value, &log_sd);
        assert_true(value > 0 && isfinite(log_sd));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vanishing_terms_make_no_law),       cmocka_unit_test(affine_is_recovered),
        cmocka_unit_test(launch_bound_data_choose_the_knee), cmocka_unit_test(a_law_wants_as_many_batches_as_terms),
        cmocka_unit_test(three_points_scale_the_walk),       cmocka_unit_test(an_outlier_is_weighed_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
