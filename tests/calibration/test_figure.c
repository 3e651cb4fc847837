/* Intervals: Student t with 4 degrees of freedom in log units, and how figures combine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "calibration/statistics/figure.h"
#include "calibration/statistics/width.h"
#include "tests/support/near.h"

/* Quantiles of t(4) from the tables: 95 %: 2.131847, 97.5 %: 2.776445, 90 %: 1.533206. */
static void test_interval(void **state) {
    (void)state;
    sg_log_sd parts = {0.03, 0.04, 0.12}; /* 0.13 in quadrature */
    sg_figure f = sg_figure_make(2, parts, SG_EVIDENCE_CALIBRATED, 0.9);
    assert_near(f.high, 2 * exp(2.131847 * 0.13), 1e-6);
    assert_near(f.low, 2 / exp(2.131847 * 0.13), 1e-6);
    assert_int_equal(f.evidence, SG_EVIDENCE_CALIBRATED);
    f = sg_figure_make(2, parts, SG_EVIDENCE_CALIBRATED, 0.95);
    assert_near(f.high, 2 * exp(2.776445 * 0.13), 1e-6);
    f = sg_figure_upper(2, parts, SG_EVIDENCE_DATA_SHEET, 0.9);
    assert_near(f.low, 2, 0);
    assert_near(f.high, 2 * exp(1.533206 * 0.13), 1e-6);
    f = sg_figure_make(0, parts, SG_EVIDENCE_OBSERVED, 0.9);
    assert_true(f.value == 0 && f.low == 0 && f.high == 0);
    sg_log_sd exact = {0, 0, 0};
    f = sg_figure_make(3, exact, SG_EVIDENCE_OBSERVED, 0.9);
    assert_true(f.low == 3 && f.high == 3);
}

/* The stated share of draws from a t(4) lies inside, for several widths and intervals. */
static void test_coverage(void **state) {
    (void)state;
    uint64_t seed = 12345;
    const double intervals[2] = {0.8, 0.9};
    for (int k = 0; k < 2; k++) {
        int inside = 0, n = 200000;
        sg_figure f = sg_figure_make(5, (sg_log_sd){0.2, 0, 0}, SG_EVIDENCE_DATA_SHEET, intervals[k]);
        for (int i = 0; i < n; i++) {
            double u[6];
            for (int j = 0; j < 6; j++) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                u[j] = ((double)(seed >> 11) + 0.5) / 0x1p53;
            }
            double z = sqrt(-2 * log(u[0])) * cos(2 * M_PI * u[1]);
            double chi2 = -2 * (log(u[2]) + log(u[3])); /* chi-squared with 4 degrees of freedom */
            double t = z / sqrt(chi2 / 4);
            double truth = 5 * exp(0.2 * t);
            inside += truth >= f.low && truth <= f.high;
        }
        assert_near((double)inside / n, intervals[k], 0.005);
    }
}

static void test_scaled(void **state) {
    (void)state;
    sg_figure f = sg_figure_make(0.5, (sg_log_sd){0.1, 0, 0}, SG_EVIDENCE_MEASURED, 0.9);
    sg_figure g = sg_figure_scaled(&f, 16, -1); /* samples per second */
    assert_near(g.value, 32, 1e-12);
    assert_near(g.low, 16 / f.high, 1e-12);
    assert_near(g.high, 16 / f.low, 1e-12);
    g = sg_figure_scaled(&f, 100, 1);
    assert_near(g.high, 100 * f.high, 1e-12);
    g = sg_figure_shifted(&f, -0.49);
    assert_near(g.value, 0.01, 1e-12);
    assert_true(g.low == 0);
    assert_near(g.high, f.high - 0.49, 1e-12);
}

/* The larger of two: an uncertain loader beside a certain update widens the step upwards, never downwards. */
static void test_max(void **state) {
    (void)state;
    sg_figure update = sg_figure_make(1.0, (sg_log_sd){0, 0.1, 0}, SG_EVIDENCE_MEASURED, 0.9);
    sg_figure loader = sg_figure_make(0.8, (sg_log_sd){0.6, 0, 0}, SG_EVIDENCE_DATA_SHEET, 0.9);
    sg_figure f = sg_figure_max(&update, &loader);
    assert_near(f.value, 1, 0);
    assert_near(f.low, update.low, 0);
    assert_near(f.high, loader.high, 0);
    assert_int_equal(f.evidence, SG_EVIDENCE_DATA_SHEET);
    sg_figure same = sg_figure_max(&loader, &update);
    assert_true(same.value == f.value && same.low == f.low && same.high == f.high);

    sg_figure idle = sg_figure_make(0.01, (sg_log_sd){0.6, 0, 0}, SG_EVIDENCE_DATA_SHEET, 0.9);
    f = sg_figure_max(&update, &idle);
    assert_near(f.high, update.high, 0);
    assert_int_equal(f.evidence, SG_EVIDENCE_MEASURED);

    loader = sg_figure_make(5, (sg_log_sd){0.6, 0, 0}, SG_EVIDENCE_DATA_SHEET, 0.9);
    f = sg_figure_max(&update, &loader);
    assert_near(f.value, 5, 0);
    assert_true(f.low >= update.low && f.low >= loader.low);
    assert_near(f.high, loader.high, 0);
}

static void test_sum(void **state) {
    (void)state;
    sg_figure terms[2] = {sg_figure_make(9, (sg_log_sd){0.1, 0, 0}, SG_EVIDENCE_MEASURED, 0.9),
                          sg_figure_make(0.5, (sg_log_sd){0, 0.6, 0}, SG_EVIDENCE_DATA_SHEET, 0.9)};
    sg_figure f = sg_figure_sum(terms, 2);
    assert_near(f.value, 9.5, 1e-12);
    assert_near(f.high, 9.5 + sqrt(pow(terms[0].high - 9, 2) + pow(terms[1].high - 0.5, 2)), 1e-12);
    assert_true(f.low > terms[0].low && f.low < 9.5);
    assert_near(f.parts.parameters, 0.1 * 9 / 9.5, 1e-12);
    assert_near(f.parts.model, 0.6 * 0.5 / 9.5, 1e-12);
    assert_int_equal(f.evidence, SG_EVIDENCE_MEASURED); /* the other makes 5 % */
    terms[1].value = 1.5;
    assert_int_equal(sg_figure_sum(terms, 2).evidence, SG_EVIDENCE_DATA_SHEET);
    sg_figure nothing = sg_figure_sum(terms, 0);
    assert_true(nothing.value == 0 && nothing.high == 0);
}

/* What a duration is spent on, and the weakest tier that makes a tenth of it. */
static void test_limits_and_evidence(void **state) {
    (void)state;
    sg_machine m;
    sg_machine_init(&m);
    double g[SG_M_COUNT] = {0}, share[SG_LIMIT_COUNT];
    g[SG_M_PEAK_TF32] = g[SG_M_EFF_CONV] = -0.55;
    g[SG_M_BANDWIDTH] = g[SG_M_EFF_ELEMENTWISE] = -0.36;
    g[SG_M_HOST_OP_S] = 0.09;
    for (int i = 0; i < SG_M_COUNT; i++) m.p[i].evidence = SG_EVIDENCE_CALIBRATED, m.p[i].log_sd = 0.1;
    sg_limit_shares(g, 1, share);
    assert_near(share[SG_LIMIT_COMPUTE], 0.55, 1e-12);
    assert_near(share[SG_LIMIT_BANDWIDTH], 0.36, 1e-12);
    assert_near(share[SG_LIMIT_LAUNCH], 0.09, 1e-12);
    assert_string_equal(sg_limit_name(sg_limit_largest(share)), "compute");
    assert_int_equal(sg_evidence_of(&m, g, 1), SG_EVIDENCE_CALIBRATED);
    m.p[SG_M_HOST_OP_S].evidence = SG_EVIDENCE_DATA_SHEET; /* 9 % */
    assert_int_equal(sg_evidence_of(&m, g, 1), SG_EVIDENCE_CALIBRATED);
    g[SG_M_HOST_OP_S] = 0.11;
    assert_int_equal(sg_evidence_of(&m, g, 1), SG_EVIDENCE_DATA_SHEET);
    g[SG_M_HOST_OP_S] = 0.6;
    sg_limit_shares(g, 1, share);
    assert_string_equal(sg_limit_name(sg_limit_largest(share)), "launch");
    for (int l = 0; l < SG_LIMIT_COUNT; l++)
        for (int e = 1; e < SG_EVIDENCE_COUNT; e++)
            assert_true(sg_width((sg_limit)l, (sg_evidence)e) >= sg_width((sg_limit)l, (sg_evidence)(e - 1)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interval), cmocka_unit_test(test_coverage), cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_max),      cmocka_unit_test(test_sum),      cmocka_unit_test(test_limits_and_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
