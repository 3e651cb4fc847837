/* Prices of a machine: formulas, derivatives, what is missing, the stretch of a step, their variance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/near.h"
#include "tests/support/priced.h"
#include "tests/support/round_machine.h"

/* Far from the knee a price is the plain formula of its class. */
static void test_price_formulas(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    sg_sample_op s;
    sg_make_matmul(&s, 4096, 4096, 4096, SG_COMPUTE_BF16);
    double flops = 2.0 * 4096 * 4096 * 4096;
    double eff = m.p[SG_M_EFF_GEMM].value;
    assert_near(sg_op_price_s(&m, &s.op) / (flops / (eff * 40e12) + 4e-6), 1, 1e-3);
    sg_make_matmul(&s, 4096, 4096, 4096, SG_COMPUTE_F32);
    assert_near(sg_op_price_s(&m, &s.op) / (flops / (eff * 10e12) + 4e-6), 1, 1e-3);

    /* a thin product is bound by its bytes, at the element-wise efficiency */
    sg_make_matmul(&s, 1, 8192, 8192, SG_COMPUTE_BF16);
    double bytes = 4.0 * (8192.0 * 8192 + 8192 + 8192);
    double eff_e = m.p[SG_M_EFF_ELEMENTWISE].value;
    assert_near(sg_op_price_s(&m, &s.op) / (bytes / (eff_e * 1e12) + 4e-6), 1, 1e-3);

    /* a 2-D convolution pays for both */
    sg_make_conv(&s, 64);
    flops = 2.0 * 4 * 60 * 80 * 64 * 64 * 9;
    bytes = 4.0 * (2 * 4 * 64 * 60 * 80 + 64 * 64 * 9);
    double both = flops / (m.p[SG_M_EFF_CONV].value * 20e12) + bytes / (eff_e * 1e12) + 4e-6;
    assert_near(sg_op_price_s(&m, &s.op) / (both * m.p[SG_M_FACTOR_CONV].value), 1, 1e-9);

    /* element-wise: bytes, and a fixed time per kernel */
    double factor = m.p[SG_M_FACTOR_ELEMENTWISE].value;
    sg_make_unary(&s, 1 << 26);
    assert_near(sg_op_price_s(&m, &s.op) / (factor * (8 * 0x1p26 / (eff_e * 1e12) + 2e-6)), 1, 1e-9);
    sg_make_unary(&s, 16);
    assert_near(sg_op_price_s(&m, &s.op) / (factor * 2e-6), 1, 1e-3);

    /* a list costs it per launch */
    sg_make_foreach(&s, 10);
    sg_cost cost = sg_op_cost(&s.op);
    assert_true(cost.launches >= 1);
    assert_near(sg_op_price_s(&m, &s.op) / (m.p[SG_M_FACTOR_OPTIMIZER].value * (double)cost.launches * 2e-6), 1, 1e-3);
}

/* The gradient is the derivative: central differences in every log parameter, below, at and above the knee. */
static void test_price_gradient(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    sg_sample_op samples[9];
    sg_make_matmul(&samples[0], 4096, 4096, 4096, SG_COMPUTE_BF16);
    sg_make_matmul(&samples[1], 1, 4096, 4096, SG_COMPUTE_TF32);
    sg_make_matmul(&samples[2], 64, 512, 64, SG_COMPUTE_F16);
    sg_make_matmul(&samples[3], 20, 4096, 4096, SG_COMPUTE_F32); /* near the knee */
    sg_make_conv(&samples[4], 64);
    sg_make_conv(&samples[5], 3);
    sg_make_unary(&samples[6], 1 << 24);
    sg_make_unary(&samples[7], 140000); /* near the floor */
    sg_make_foreach(&samples[8], 1 << 20);
    for (size_t k = 0; k < sizeof samples / sizeof *samples; k++) {
        double gradient[SG_M_COUNT], s;
        samples[k].op.desc = samples[k].desc;
        assert_int_equal(sg_machine_price(&m, &samples[k].op, &s, gradient, NULL), SG_OK);
        int depends = 0;
        for (int i = 0; i < SG_M_COUNT; i++) {
            const double h = 1e-5;
            sg_machine up = m, down = m;
            up.p[i].value *= exp(h);
            down.p[i].value *= exp(-h);
            double numeric = (sg_op_price_s(&up, &samples[k].op) - sg_op_price_s(&down, &samples[k].op)) / (2 * h);
            assert_near(gradient[i] / s, numeric / s, 1e-6);
            depends += gradient[i] != 0;
        }
        assert_in_range(depends, 4, 7);
    }
}

/* A parameter that is unknown is named, and only where it is needed. */
static void test_missing_parameter(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    m.p[SG_M_PEAK_BF16].value = NAN;
    sg_sample_op s;
    sg_status status;
    double seconds;
    sg_make_matmul(&s, 8, 8, 8, SG_COMPUTE_BF16);
    assert_int_equal(sg_machine_price(&m, &s.op, &seconds, NULL, &status), SG_NO);
    assert_non_null(strstr(status.text, "peak_bf16_flops"));
    assert_non_null(strstr(status.text, "round"));
    sg_make_matmul(&s, 8, 8, 8, SG_COMPUTE_F32);
    assert_int_equal(sg_machine_price(&m, &s.op, &seconds, NULL, &status), SG_OK);
    sg_make_matmul(&s, 8, 8, 8, SG_COMPUTE_F64);
    for (int d = 0; d < 3; d++) s.desc[d].dtype = SG_F64;
    assert_int_equal(sg_machine_price(&m, &s.op, &seconds, NULL, &status), SG_NO);
}

/* Inside a step kernels take their price times the stretch. */
static void test_step_stretch(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    sg_sample_op s;
    sg_make_unary(&s, 1 << 20);
    double alone, inside, gradient[SG_M_COUNT];
    m.p[SG_M_STEP_STRETCH].value = 1.25;
    assert_int_equal(sg_machine_price(&m, &s.op, &alone, NULL, NULL), SG_OK);
    assert_int_equal(sg_machine_step_price(&m, &s.op, &inside, gradient, NULL), SG_OK);
    assert_near(inside / alone, 1.25, 1e-12);
    assert_near(gradient[SG_M_STEP_STRETCH] / inside, 1, 1e-12);
    assert_near(gradient[SG_M_BANDWIDTH] / inside, -1, 0.2);
    m.p[SG_M_STEP_STRETCH].value = NAN;
    assert_int_equal(sg_machine_step_price(&m, &s.op, &inside, gradient, NULL), SG_NO);
}

/* Variance in log units: independent parameters in quadrature, groups linearly, a covariance as it is. */
static void test_variance(void **state) {
    (void)state;
    sg_machine m = sg_round_machine();
    double g[SG_M_COUNT] = {0};
    g[SG_M_PEAK_F32] = -0.6;
    g[SG_M_BANDWIDTH] = -0.4;
    m.p[SG_M_PEAK_F32].log_sd = 0.1;
    m.p[SG_M_BANDWIDTH].log_sd = 0.2;
    assert_near(sg_machine_log_variance(&m, g, 1), 0.06 * 0.06 + 0.08 * 0.08, 1e-12);
    assert_near(sg_machine_log_variance(&m, g, 2), (0.06 * 0.06 + 0.08 * 0.08) / 4, 1e-12);
    m.p[SG_M_PEAK_F32].group = m.p[SG_M_BANDWIDTH].group = 3;
    assert_near(sg_machine_log_variance(&m, g, 1), 0.14 * 0.14, 1e-12);
    m.covariance = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof *m.covariance);
    assert_non_null(m.covariance);
    m.covariance[SG_M_PEAK_F32 * SG_M_COUNT + SG_M_PEAK_F32] = 0.04;
    m.covariance[SG_M_PEAK_F32 * SG_M_COUNT + SG_M_BANDWIDTH] = -0.01;
    m.covariance[SG_M_BANDWIDTH * SG_M_COUNT + SG_M_PEAK_F32] = -0.01;
    m.covariance[SG_M_BANDWIDTH * SG_M_COUNT + SG_M_BANDWIDTH] = 0.02;
    double expected = 0.36 * 0.04 + 2 * 0.24 * -0.01 + 0.16 * 0.02;
    assert_near(sg_machine_log_variance(&m, g, 1), expected, 1e-12);
    sg_machine_clear(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_price_formulas),    cmocka_unit_test(test_price_gradient),
        cmocka_unit_test(test_missing_parameter), cmocka_unit_test(test_step_stretch),
        cmocka_unit_test(test_variance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
