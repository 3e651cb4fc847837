/* Measured shapes: exact where measured, between where not, silent far away; shared by copies of a machine; kept in files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "calibration/predict/predict.h"
#include "kernels/virtual/machine.h"
#include "tests/support/scratch.h"

static sg_measured *make(const sg_measured_shape *shapes, size_t n) {
    sg_measured *m;
    sg_status status = {0};
    if (sg_measured_make(shapes, n, &m, &status)) fail_msg("%s", status.text);
    return m;
}

static void answers(void **unused) {
    (void)unused;
    static const sg_measured_shape shapes[] = {
        {{7, {1, 2}}, 0.4}, {{3, {5, 5}}, -1.0}, {{7, {2, 2}}, 0.1}, {{7, {40, 2}}, 2.0}};
    sg_measured *m = make(shapes, 4);
    for (size_t i = 0; i < 4; i++) /* exact to what the model's own weight leaves */
        assert_true(fabs(sg_measured_log_ratio(m, &shapes[i].shape) - shapes[i].log_ratio) < 2e-3);
    const sg_shape between = {7, {1.5, 2}}, far = {7, {20, 2}}, other = {8, {1, 2}};
    double middle = sg_measured_log_ratio(m, &between);
    assert_true(middle > 0.1 && middle < 0.4);
    assert_true(sg_measured_log_ratio(m, &far) == 0);
    assert_true(sg_measured_log_ratio(m, &other) == 0);
    assert_true(sg_measured_log_ratio(NULL, &between) == 0);
    /* no jumps on the way from one place to the next */
    double before = sg_measured_log_ratio(m, &shapes[0].shape);
    for (int i = 1; i <= 2000; i++) {
        const sg_shape at = {7, {1 + i / 2000.0, 2}};
        double now = sg_measured_log_ratio(m, &at);
        assert_true(fabs(now - before) < 5e-3);
        before = now;
    }
    sg_measured_release(m);
    static const sg_measured_shape bad = {{7, {NAN}}, 0};
    assert_int_equal(sg_measured_make(&bad, 1, &m, NULL), SG_BAD_INPUT);
}

static sg_op product(sg_desc desc[3], int64_t m) {
    desc[0] = sg_desc_make(SG_F32, 2, (int64_t[]){m, 64});
    desc[1] = sg_desc_make(SG_F32, 2, (int64_t[]){64, 96});
    desc[2] = sg_desc_make(SG_F32, 2, (int64_t[]){m, 96});
    return (sg_op){.kind = SG_OP_MATMUL, .n_in = 2, .n_out = 1, .attrs = {.alpha = 1}, .desc = desc};
}

/* A machine answers with what was measured, times its framework factor; without measurements, with its model. */
static void machines_answer(void **unused) {
    (void)unused;
    sg_machine m;
    sg_status status = {0};
    if (sg_machine_load("cpu", SG_SOURCE_DIR "/configs", &m, &status)) fail_msg("%s", status.text);
    sg_desc desc[3];
    sg_op op = product(desc, 128);
    double model, measured, by_log[SG_M_COUNT], plain[SG_M_COUNT];
    assert_int_equal(sg_machine_price(&m, &op, &model, plain, NULL), SG_OK);
    const sg_measured_shape shape = {sg_shape_of_op(&op), log(3)};
    m.measured = make(&shape, 1);
    assert_int_equal(sg_machine_price(&m, &op, &measured, by_log, NULL), SG_OK);
    assert_true(fabs(measured / model - 3) < 3e-3);
    for (int i = 0; i < SG_M_COUNT; i++) assert_true(fabs(by_log[i] - plain[i] * measured / model) <= 1e-9 * measured);

    sg_scratch s = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/m.h5", s.path);
    if (sg_machine_save(path, &m, &status)) fail_msg("%s", status.text);
    sg_machine_clear(&m);
    if (sg_machine_load(path, NULL, &m, &status)) fail_msg("%s", status.text);
    double again;
    assert_int_equal(sg_machine_price(&m, &op, &again, NULL, NULL), SG_OK);
    assert_true(again == measured);
    op = product(desc, 1 << 20); /* nothing near was measured */
    assert_int_equal(sg_machine_price(&m, &op, &again, NULL, NULL), SG_OK);
    sg_measured_release(m.measured);
    m.measured = NULL;
    assert_int_equal(sg_machine_price(&m, &op, &model, NULL, NULL), SG_OK);
    assert_true(again == model);
    sg_machine_clear(&m);
    sg_scratch_free(&s);
}

static void shapes_of_ops(void **unused) {
    (void)unused;
    sg_desc desc[3], other_desc[3];
    sg_op op = product(desc, 128), other = product(other_desc, 256);
    sg_shape a = sg_shape_of_op(&op), b = sg_shape_of_op(&other);
    assert_int_equal(a.family, b.family);
    assert_true(fabs(b.at[1] - a.at[1] - log(2)) < 1e-12 && a.at[2] == b.at[2] && fabs(a.at[3] - log(64)) < 1e-12);
    other.attrs.compute = SG_COMPUTE_BF16;
    assert_int_not_equal(sg_shape_of_op(&other).family, a.family);
    other = product(other_desc, 128);
    other_desc[1].stride[0] = 1, other_desc[1].stride[1] = 64; /* transposed in memory */
    assert_int_not_equal(sg_shape_of_op(&other).family, a.family);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers), cmocka_unit_test(machines_answer),
                                       cmocka_unit_test(shapes_of_ops)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
