/* Summaries of validations against numbers worked out by hand, whatever the order of the rows; folds by key alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/validate/validate.h"

static sg_validated row(sg_validate_class cls, const char *device, const char *part, double measured,
                        double predicted) {
    sg_validated r = {.cls = cls,
                      .measured = measured,
                      .predicted = predicted,
                      .low = predicted * 0.9,
                      .high = predicted * 1.1,
                      .roofline = measured / 2};
    (void)snprintf(r.device, sizeof r.device, "%s", device);
    (void)snprintf(r.part, sizeof r.part, "%s", part);
    return r;
}

static void add(sg_validation *v, sg_validated r) {
    sg_status status;
    assert_int_equal(sg_validation_add(v, &r, &status), SG_OK);
}

/* Device x: errors 0.10 (above), 0.20 (below), 0.30 (above), 0.40 (below), one skipped. Device y: 0.05 (above). */
static sg_validation sample(const int *order) {
    sg_validation v = {0};
    sg_validated rows[7] = {
        row(SG_VALIDATE_GEMM, "x", "bmm", 1, 1.1),    row(SG_VALIDATE_GEMM, "x", "bmm", 2, 1.6),
        row(SG_VALIDATE_GEMM, "x", "linear", 1, 1.3), row(SG_VALIDATE_GEMM, "x", "linear", 1, 0.6),
        row(SG_VALIDATE_GEMM, "x", "linear", 1, 1),   row(SG_VALIDATE_GEMM, "y", "linear", 10, 10.5),
        row(SG_VALIDATE_COLLECTIVES, "x", "", 4, 4),
    };
    (void)snprintf(rows[4].skipped, sizeof rows[4].skipped, "it has no shape");
    rows[5].roofline = NAN;
    for (int i = 0; i < 7; i++) add(&v, rows[order[i]]);
    return v;
}

static void near(double value, double wanted) {
    if (!(fabs(value - wanted) < 1e-12)) fail_msg("%.15g instead of %.15g", value, wanted);
}

static const sg_validate_summary *find(const sg_validate_summary *s, size_t n, sg_validate_class cls,
                                       const char *device, const char *part) {
    const sg_validate_summary *found = NULL;
    for (size_t i = 0; i < n; i++)
        if (s[i].cls == cls && strcmp(s[i].device, device) == 0 && strcmp(s[i].part, part) == 0) {
            assert_null(found);
            found = &s[i];
        }
    if (!found) fail_msg("no summary of %s, %s", device, part);
    return found;
}

static void by_hand(void **state) {
    (void)state;
    static const int orders[3][7] = {{0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {3, 5, 0, 6, 2, 4, 1}};
    for (int o = 0; o < 3; o++) {
        sg_validation v = sample(orders[o]);
        sg_validate_summary *s;
        size_t n;
        sg_status status;
        assert_int_equal(sg_validate_summarise(&v, &s, &n, &status), SG_OK);
        assert_int_equal(n, 9); /* gemm: all and its two parts, x and its two parts, y; collectives: all, x */
        assert_string_equal(s[0].device, "all");
        assert_string_equal(s[0].part, "");
        const sg_validate_summary *x = find(s, n, SG_VALIDATE_GEMM, "x", "");
        assert_int_equal(x->n, 4);
        assert_int_equal(x->skipped, 1);
        near(x->mean, 0.25);
        near(x->median, 0.25);
        near(x->p90, 0.37); /* 0.3 + 0.7 of the way to 0.4 */
        near(x->max, 0.4);
        near(x->coverage, 0.25); /* 1 lies within 1.1 x (0.9 .. 1.1) */
        near(x->roofline_mean, 0.5);
        assert_int_equal(x->under_estimates, 2);
        assert_int_equal(x->above_interval, 2);
        const sg_validate_summary *all = find(s, n, SG_VALIDATE_GEMM, "all", "");
        assert_int_equal(all->n, 5);
        near(all->mean, 0.21);
        near(all->median, 0.2);
        near(all->mean_of_devices, 0.15); /* of 0.25 and 0.05 */
        near(all->p90_of_devices, 0.21);  /* of 0.37 and 0.05 */
        near(all->roofline_mean, 0.5);    /* y states none */
        const sg_validate_summary *linear = find(s, n, SG_VALIDATE_GEMM, "all", "linear");
        near(linear->mean, 0.25);           /* 0.3, 0.4, 0.05 */
        near(linear->mean_of_devices, 0.2); /* of 0.35 and 0.05 */
        assert_true(isnan(find(s, n, SG_VALIDATE_GEMM, "y", "")->roofline_mean));
        assert_true(isnan(x->mean_of_devices));
        near(find(s, n, SG_VALIDATE_COLLECTIVES, "all", "")->max, 0);
        free(s);
        sg_validation_clear(&v);
    }
}

static void nothing_scored(void **state) {
    (void)state;
    sg_validation v = {0};
    sg_validate_summary *s;
    size_t n;
    sg_status status;
    assert_int_equal(sg_validate_summarise(&v, &s, &n, &status), SG_OK);
    assert_int_equal(n, 0);
    assert_null(s);
    add(&v, row(SG_VALIDATE_REPORTS_STEP, "t4", "", 0, 1)); /* nothing measured */
    add(&v, row(SG_VALIDATE_REPORTS_STEP, "t4", "", NAN, 1));
    add(&v, row(SG_VALIDATE_REPORTS_STEP, "t4", "", 1, NAN));
    assert_int_equal(sg_validate_summarise(&v, &s, &n, &status), SG_OK);
    assert_int_equal(n, 2);
    assert_int_equal(s[0].n, 0);
    assert_int_equal(s[0].skipped, 3);
    assert_true(isnan(s[0].mean) && isnan(s[0].coverage) && isnan(s[0].mean_of_devices));
    free(s);
    sg_validation_clear(&v);
}

static void folds(void **state) {
    (void)state;
    size_t in_fold[5] = {0};
    char key[64];
    for (int i = 0; i < 5000; i++) {
        (void)snprintf(key, sizeof key, "linear 1 %d 1024 1024", i);
        int fold = sg_validate_fold(key, 5);
        assert_in_range(fold, 0, 4);
        assert_int_equal(fold, sg_validate_fold(key, 5));
        in_fold[fold]++;
    }
    for (int f = 0; f < 5; f++) assert_in_range(in_fold[f], 900, 1100);
    assert_int_equal(sg_validate_fold("x", 1), 0);
    assert_int_equal(sg_validate_fold("", 0), 0);
}

static void names(void **state) {
    (void)state;
    assert_string_equal(sg_validate_class_name(SG_VALIDATE_GEMM), "gemm");
    assert_string_equal(sg_validate_class_name(SG_VALIDATE_STEPS_INFERENCE), "steps_inference");
    assert_string_equal(sg_validate_class_name(SG_VALIDATE_REPORTS_MEMORY), "reports_memory");
    assert_string_equal(sg_validate_class_name(SG_VALIDATE_CLASS_COUNT), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(nothing_scored),
                                       cmocka_unit_test(folds), cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
