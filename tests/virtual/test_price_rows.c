/* Prices of bandwidth-bound ops: derivatives, growth with bytes, edges of shapes, what a missing parameter leaves out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernels/virtual/machine.h"
#include "tests/support/near.h"
#include "tests/support/priced.h"

typedef struct sample {
    sg_op op;
    sg_desc desc[8];
} sample;

/* A GPU with every term, of plausible size. */
static sg_machine whole_machine(void) {
    sg_machine m;
    sg_machine_init(&m);
    m.units = 100;
    m.l2_bytes = 32e6;
    for (int i = 0; i < SG_M_COUNT; i++) m.p[i].value = 0.8 + 0.001 * i;
    m.p[SG_M_BANDWIDTH].value = 1e12;
    m.p[SG_M_FUSED_BYTES].value = 1;
    m.p[SG_M_KERNEL_FLOOR_S].value = 2e-6;
    m.p[SG_M_EVENT_ELEMENTWISE_S].value = 17e-6;
    m.p[SG_M_EVENT_NORM_S].value = 40e-6;
    m.p[SG_M_EVENT_SOFTMAX_S].value = 25e-6;
    m.p[SG_M_LAYER_NORM_ROW_S].value = 1e-9;
    m.p[SG_M_SOFTMAX_ROW_S].value = 0.3e-9;
    m.p[SG_M_LAYER_NORM_REREAD].value = 0.5;
    m.p[SG_M_LAYER_NORM_STEEP].value = 6;
    m.p[SG_M_SOFTMAX_REREAD].value = 0.7;
    m.p[SG_M_SOFTMAX_COLUMNS].value = 2;
    m.p[SG_M_SOFTMAX_STEEP].value = 8;
    m.p[SG_M_SOFTMAX_UNALIGNED].value = 0.05;
    m.p[SG_M_SOFTMAX_LOOP].value = 1.2;
    m.p[SG_M_SOFTMAX_BLOCK].value = 0.3;
    return m;
}

static void make(sample *s, sg_op_kind kind, sg_fn fn, sg_dtype dtype, int64_t rows, int64_t columns) {
    int64_t size[2] = {rows, columns}, vector[1] = {columns}, per_row[1] = {rows};
    memset(s, 0, sizeof *s);
    s->op = (sg_op){.kind = kind, .n_in = 1, .n_out = 1, .desc = s->desc};
    s->op.attrs.fn = fn;
    s->op.attrs.alpha = 3;
    s->op.attrs.eps = 1e-5;
    for (int i = 0; i < 8; i++) s->desc[i] = sg_desc_make(dtype, 2, size);
    if (kind == SG_OP_BINARY) s->op.n_in = 2;
    if (kind == SG_OP_SOFTMAX_BWD || kind == SG_OP_UNARY_BWD) s->op.n_in = 2;
    if (kind == SG_OP_LAYER_NORM) {
        s->op.n_in = s->op.n_out = 3;
        s->desc[1] = s->desc[2] = sg_desc_make(dtype, 1, vector);
        s->desc[4] = s->desc[5] = sg_desc_make(SG_F32, 1, per_row);
    }
    if (kind == SG_OP_LAYER_NORM_BWD) {
        s->op.n_in = 5;
        s->op.n_out = 3;
        s->desc[2] = s->desc[3] = sg_desc_make(SG_F32, 1, per_row);
        s->desc[4] = s->desc[6] = s->desc[7] = sg_desc_make(dtype, 1, vector);
    }
    if (kind == SG_OP_SOFTMAX || kind == SG_OP_SOFTMAX_BWD || kind == SG_OP_LAYER_NORM || kind == SG_OP_LAYER_NORM_BWD)
        s->op.attrs.fn = SG_FN_NONE;
    const char *wrong = sg_op_check(&s->op);
    if (wrong) fail_msg("%s", wrong);
}

static double alone(const sg_machine *m, const sg_op *op) {
    double s;
    sg_status status = {0};
    if (sg_machine_price_alone(m, op, &s, NULL, &status)) fail_msg("%s", status.text);
    return s;
}

static void test_gradients(void **state) {
    (void)state;
    sg_machine m = whole_machine();
    static const struct {
        sg_op_kind kind;
        sg_fn fn;
        int64_t rows, columns;
    } cases[] = {
        {SG_OP_UNARY, SG_FN_RELU, 4096, 4096},        {SG_OP_UNARY, SG_FN_POW, 4096, 2048},
        {SG_OP_UNARY, SG_FN_RELU, 100, 3000},         {SG_OP_UNARY, SG_FN_RELU, 1500, 1400}, /* about the cache */
        {SG_OP_BINARY, SG_FN_ADD, 4096, 4096},        {SG_OP_BINARY, SG_FN_POWV, 70, 3},
        {SG_OP_LAYER_NORM, SG_FN_NONE, 8192, 512},    {SG_OP_LAYER_NORM, SG_FN_NONE, 8192, 4100},
        {SG_OP_LAYER_NORM, SG_FN_NONE, 512, 65536},   {SG_OP_LAYER_NORM_BWD, SG_FN_NONE, 8192, 1024},
        {SG_OP_SOFTMAX, SG_FN_NONE, 65536, 602},      {SG_OP_SOFTMAX, SG_FN_NONE, 65536, 1024},
        {SG_OP_SOFTMAX, SG_FN_NONE, 65536, 1025},     {SG_OP_SOFTMAX, SG_FN_NONE, 300, 40000},
        {SG_OP_SOFTMAX_BWD, SG_FN_NONE, 65536, 1024},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        sample s;
        make(&s, cases[k].kind, cases[k].fn, SG_F32, cases[k].rows, cases[k].columns);
        sg_expect_price_gradient(&m, &s.op, sg_machine_price);
        sg_expect_price_gradient(&m, &s.op, sg_machine_price_alone);
    }
}

/* More bytes never take less time, nor do more columns of the same bytes take less than half of it. */
static void test_growth(void **state) {
    (void)state;
    sg_machine m = whole_machine();
    static const sg_op_kind kinds[] = {SG_OP_UNARY, SG_OP_BINARY, SG_OP_LAYER_NORM, SG_OP_LAYER_NORM_BWD,
                                       SG_OP_SOFTMAX};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        sg_fn fn = kinds[k] == SG_OP_BINARY ? SG_FN_ADD : SG_FN_RELU;
        double before = 0;
        for (int64_t rows = 1; rows <= (int64_t)1 << 22; rows *= 2) {
            sample s;
            make(&s, kinds[k], fn, SG_F32, rows, 768);
            double now = sg_op_price_s(&m, &s.op);
            assert_true(now >= before);
            assert_true(alone(&m, &s.op) > now * 0.99 || rows > 4096);
            before = now;
        }
        before = 0;
        for (int64_t columns = 4; columns <= 1 << 16; columns *= 2) {
            sample s;
            make(&s, kinds[k], fn, SG_F32, 4096, columns);
            double now = sg_op_price_s(&m, &s.op);
            assert_true(now >= before);
            before = now;
        }
    }
}

/* Bytes at the share of the bandwidth, on top the fixed time of a step or the start of the class alone. */
static void test_forms(void **state) {
    (void)state;
    sg_machine m = whole_machine();
    for (int c = 0; c < SG_CLASS_COUNT; c++) m.p[sg_machine_factor_of((sg_op_class)c)].value = 1;
    sample s;
    double rate = m.p[SG_M_EFF_ELEMENTWISE].value * 1e12;
    make(&s, SG_OP_UNARY, SG_FN_RELU, SG_F32, 1 << 16, 1 << 12);
    assert_near((sg_op_price_s(&m, &s.op) - 2e-6) / (8 * 0x1p28 / rate), 1, 1e-4);
    assert_near(alone(&m, &s.op) - sg_op_price_s(&m, &s.op), 15e-6, 1e-12);
    make(&s, SG_OP_BINARY, SG_FN_ADD, SG_F32, 1 << 16, 1 << 12);
    assert_near((sg_op_price_s(&m, &s.op) - 2e-6) / (12 * 0x1p28 / (rate * m.p[SG_M_ELEMENTWISE_TWO].value)), 1, 1e-4);
    make(&s, SG_OP_UNARY, SG_FN_POW, SG_F32, 1 << 16, 1 << 12);
    assert_near((sg_op_price_s(&m, &s.op) - 2e-6) / (8 * 0x1p28 / rate * m.p[SG_M_POWER_TRAFFIC].value), 1, 1e-4);
    s.op.attrs.alpha = 2; /* a square is a product */
    assert_near((sg_op_price_s(&m, &s.op) - 2e-6) / (8 * 0x1p28 / rate), 1, 1e-4);
    make(&s, SG_OP_UNARY, SG_FN_RELU, SG_F32, 4, 4);
    assert_near(sg_op_price_s(&m, &s.op), 2e-6, 1e-9);
    assert_near(alone(&m, &s.op), 17e-6, 1e-8);

    /* a broadcast operand is not a second tensor */
    make(&s, SG_OP_BINARY, SG_FN_ADD, SG_F32, 1 << 16, 1 << 12);
    s.desc[1].stride[0] = 0;
    assert_null(sg_op_check(&s.op));
    assert_near((sg_op_price_s(&m, &s.op) - 2e-6) / (8 * 0x1p28 / rate), 1, 1e-3);
}

/* The second read of a long row comes from memory; half precision has twice the columns in the same cache. */
static void test_second_read(void **state) {
    (void)state;
    sg_machine m = whole_machine();
    m.p[SG_M_KERNEL_FLOOR_S].value = 1e-15;
    for (int c = 0; c < SG_CLASS_COUNT; c++) m.p[sg_machine_factor_of((sg_op_class)c)].value = 1;
    m.p[SG_M_LAYER_NORM_ROW_S].value = 1e-15;
    double cached = m.l2_bytes / (64 * 100.0) * m.p[SG_M_LAYER_NORM_COLUMNS].value; /* about 4,100 columns */
    sample s;
    double per_byte[3];
    const int64_t columns[3] = {512, (int64_t)cached, 1 << 16};
    for (int i = 0; i < 3; i++) {
        make(&s, SG_OP_LAYER_NORM, SG_FN_NONE, SG_F32, 1 << 14, columns[i]);
        sg_cost cost = sg_op_cost(&s.op);
        per_byte[i] = sg_op_price_s(&m, &s.op) / (cost.bytes_read + cost.bytes_written);
    }
    assert_near(per_byte[1] / per_byte[0], 1.25, 0.01);
    assert_near(per_byte[2] / per_byte[0], 1.5, 0.01);
    make(&s, SG_OP_LAYER_NORM, SG_FN_NONE, SG_BF16, 1 << 14, 2 * (int64_t)cached);
    sg_cost cost = sg_op_cost(&s.op);
    assert_near(sg_op_price_s(&m, &s.op) / (cost.bytes_read + cost.bytes_written) / per_byte[0], 1.25, 0.01);
    m.l2_bytes = 0; /* unknown: no such term */
    make(&s, SG_OP_LAYER_NORM, SG_FN_NONE, SG_F32, 1 << 14, 1 << 16);
    cost = sg_op_cost(&s.op);
    assert_near(sg_op_price_s(&m, &s.op) / (cost.bytes_read + cost.bytes_written) / per_byte[0], 1, 0.01);
}

/* Softmax: rows beyond 1,024 columns are looped over, well filled blocks are faster, 16-byte rows too. */
static void test_softmax_shapes(void **state) {
    (void)state;
    sg_machine m = whole_machine();
    m.p[SG_M_KERNEL_FLOOR_S].value = 1e-15;
    m.l2_bytes = 0;
    m.p[SG_M_SOFTMAX_ROW_S].value = 1e-15;
    sample s;
    double per_column[6];
    const int64_t columns[6] = {1020, 1021, 1024, 2048, 2052, 4096};
    for (int i = 0; i < 6; i++) {
        make(&s, SG_OP_SOFTMAX, SG_FN_NONE, SG_F32, 1 << 14, columns[i]);
        per_column[i] = sg_op_price_s(&m, &s.op) / (double)columns[i];
    }
    assert_near(per_column[1] / per_column[0], 1.05, 1e-6);
    assert_near(per_column[2] / per_column[0], 1, 1e-6);
    assert_near(per_column[3] / per_column[2], 1.2, 1e-6); /* 256 threads x 4 columns divide 2,048 */
    /* one piece of 4 columns more: 512 threads, whose second round is almost empty */
    assert_near(per_column[4] / per_column[3], pow(2052.0 / 4096, -0.3), 1e-6);
    assert_near(per_column[5] / per_column[3], 1, 1e-6);
}

/* Backward of a norm by both kernels or one of them. */
static void test_norm_backward(void **state) {
    (void)state;
    sg_machine m = whole_machine();
    m.p[SG_M_KERNEL_FLOOR_S].value = 1e-15;
    sample s;
    make(&s, SG_OP_LAYER_NORM_BWD, SG_FN_NONE, SG_F32, 1 << 14, 1024);
    sg_cost cost = sg_op_cost(&s.op);
    double eff = m.p[SG_M_EFF_NORM].value, factor = m.p[SG_M_FACTOR_NORM].value,
           bytes = cost.bytes_read + cost.bytes_written;
    assert_near(sg_op_price_s(&m, &s.op) / (factor * bytes * m.p[SG_M_LAYER_NORM_BACKWARD].value / (eff * 1e12)), 1,
                1e-3);
    m.p[SG_M_LAYER_NORM_BACKWARD].value = NAN; /* not known: the nominal bytes */
    assert_near(sg_op_price_s(&m, &s.op) / (factor * bytes / (eff * 1e12)), 1, 1e-3);
}

/* Registers hold rows of 1,024 columns: their backward reads both operands once, longer rows' twice. */
static void test_softmax_backward_in_registers(void **state) {
    (void)state;
    sg_machine m;
    sg_machine_init(&m);
    m.p[SG_M_BANDWIDTH].value = 1e11;
    m.p[SG_M_KERNEL_FLOOR_S].value = 1e-9;
    m.p[SG_M_EFF_SOFTMAX].value = 0.5;
    m.p[SG_M_SOFTMAX_BACKWARD].value = 20.0 / 12;
    sample held, looped;
    make(&held, SG_OP_SOFTMAX_BWD, SG_FN_NONE, SG_F32, 1 << 12, 1024);
    make(&looped, SG_OP_SOFTMAX_BWD, SG_FN_NONE, SG_F32, 1 << 11, 2048);
    assert_near(sg_op_price_s(&m, &held.op) / (12.0 * (1 << 22) / 0.5e11), 1, 1e-4);
    assert_near(sg_op_price_s(&m, &looped.op) / (20.0 * (1 << 22) / 0.5e11), 1, 1e-4);
}

/* Without any of the terms a price is bytes at the efficiency; none of them is needed in a step, the start is alone. */
static void test_terms_that_are_missing(void **state) {
    (void)state;
    sg_machine m;
    sg_machine_init(&m);
    m.units = 10;
    m.l2_bytes = 4e6;
    m.p[SG_M_BANDWIDTH].value = 1e11;
    m.p[SG_M_KERNEL_FLOOR_S].value = 1e-9;
    m.p[SG_M_EFF_NORM].value = m.p[SG_M_EFF_SOFTMAX].value = m.p[SG_M_EFF_ELEMENTWISE].value = 0.5;
    static const sg_op_kind kinds[] = {SG_OP_UNARY,          SG_OP_BINARY,  SG_OP_LAYER_NORM,
                                       SG_OP_LAYER_NORM_BWD, SG_OP_SOFTMAX, SG_OP_SOFTMAX_BWD};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        sample s;
        sg_status status = {0};
        double seconds;
        make(&s, kinds[k], kinds[k] == SG_OP_BINARY ? SG_FN_ADD : SG_FN_RELU, SG_F32, 1 << 12, 5000);
        sg_cost cost = sg_op_cost(&s.op);
        assert_near(sg_op_price_s(&m, &s.op) / ((cost.bytes_read + cost.bytes_written) / 0.5e11), 1, 1e-4);
        assert_int_equal(sg_machine_price_alone(&m, &s.op, &seconds, NULL, &status), SG_NO);
        assert_non_null(strstr(status.text, "event_"));
    }
    /* ops of other classes have no start of their own */
    sample s;
    sg_status status = {0};
    double seconds;
    make(&s, SG_OP_COPY, SG_FN_NONE, SG_F32, 64, 64);
    m.p[SG_M_EFF_COPY].value = 0.5;
    assert_int_equal(sg_machine_price_alone(&m, &s.op, &seconds, NULL, &status), SG_NO);
    assert_non_null(strstr(status.text, "COPY"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_second_read),
        cmocka_unit_test(test_softmax_shapes),
        cmocka_unit_test(test_norm_backward),
        cmocka_unit_test(test_softmax_backward_in_registers),
        cmocka_unit_test(test_terms_that_are_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
