/* What an op reads in vain where an operand's neighbours in memory are not read together. */
#include "kernels/virtual/price.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { HEADS = 8, TOKENS = 1024 };

/* scores[1, h, t, t] plus what lies in memory as [t, t, h], or as the scores do. */
static double extra(const sg_machine *m, bool permuted) {
    sg_desc desc[3];
    desc[0] = desc[1] = desc[2] = sg_desc_make(SG_F32, 4, (const int64_t[]){1, HEADS, TOKENS, TOKENS});
    const int64_t stride[4] = {(int64_t)HEADS * TOKENS * TOKENS, 1, (int64_t)HEADS * TOKENS, HEADS};
    if (permuted) memcpy(desc[1].stride, stride, sizeof stride);
    const sg_op op = {
        .kind = SG_OP_BINARY, .n_in = 2, .n_out = 1, .attrs = {.fn = SG_FN_ADD, .alpha = 1}, .desc = desc};
    assert_null(sg_op_check(&op));
    return sg_strided_bytes(m, &op);
}

static sg_machine machine_of(int capability, double l2_bytes) {
    sg_machine m;
    sg_machine_init(&m);
    m.capability = capability;
    m.l2_bytes = l2_bytes;
    return m;
}

static void test_neighbours_far_apart(void **state) {
    (void)state;
    const double count = (double)HEADS * TOKENS * TOKENS;
    sg_machine small = machine_of(80, 4 << 20), old = machine_of(70, 4 << 20), large = machine_of(80, 4e9);
    assert_true(extra(&small, false) == 0);
    assert_true(fabs(extra(&small, true) / (count * 60) - 1) < 0.01);
    assert_true(fabs(extra(&old, true) / (count * 28) - 1) < 0.01);
    assert_true(extra(&large, true) < 0.01 * count);
    sg_machine unknown = machine_of(80, 0);
    assert_true(extra(&unknown, true) == 0);
}

/* A key is transposed for each head: neighbours lie one row of tokens apart, which the cache holds. */
static void test_neighbours_soon_after(void **state) {
    (void)state;
    sg_desc desc[2];
    desc[0] = desc[1] = sg_desc_make(SG_F32, 4, (const int64_t[]){4, HEADS, 64, TOKENS});
    const int64_t stride[4] = {(int64_t)TOKENS * HEADS * 64, 64, 1, HEADS * 64};
    memcpy(desc[0].stride, stride, sizeof stride);
    const sg_op op = {.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = desc};
    assert_null(sg_op_check(&op));
    sg_machine m = machine_of(80, 4 << 20);
    assert_true(sg_strided_bytes(&m, &op) < 0.01 * (double)sg_desc_count(&desc[0]));
}

/* A mask over queries and keys is the same for each head: read anew once a head's scores no longer fit the cache. */
static void test_repeated_operands(void **state) {
    (void)state;
    sg_desc desc[3];
    desc[0] = desc[1] = desc[2] = sg_desc_make(SG_F32, 4, (const int64_t[]){2, HEADS, TOKENS, TOKENS});
    desc[1].stride[0] = (int64_t)TOKENS * TOKENS;
    desc[1].stride[1] = 0;
    const sg_op op = {
        .kind = SG_OP_BINARY, .n_in = 2, .n_out = 1, .attrs = {.fn = SG_FN_ADD, .alpha = 1}, .desc = desc};
    assert_null(sg_op_check(&op));
    sg_machine small = machine_of(80, 4 << 20), large = machine_of(80, 1e9);
    const double again = 4.0 * 2 * (HEADS - 1) * TOKENS * TOKENS;
    assert_true(fabs(sg_strided_bytes(&small, &op) / again - 1) < 0.02);
    assert_true(sg_strided_bytes(&large, &op) < 0.01 * again);
    /* a bias of the last dim comes again at once */
    memset(desc[1].stride, 0, sizeof desc[1].stride);
    desc[1].stride[3] = 1;
    assert_null(sg_op_check(&op));
    assert_true(sg_strided_bytes(&small, &op) < 0.01 * again);
}

static void test_price_has_them(void **state) {
    (void)state;
    sg_machine m = machine_of(80, 4 << 20);
    for (int i = 0; i < SG_M_COUNT; i++)
        if (i != SG_M_CACHE_GAIN) m.p[i].value = 1;
    m.p[SG_M_BANDWIDTH].value = 1e12;
    m.p[SG_M_KERNEL_FLOOR_S].value = 1e-9;
    sg_desc desc[2];
    desc[0] = desc[1] = sg_desc_make(SG_F32, 4, (const int64_t[]){1, HEADS, TOKENS, TOKENS});
    const int64_t stride[4] = {(int64_t)HEADS * TOKENS * TOKENS, 1, (int64_t)HEADS * TOKENS, HEADS};
    const sg_op op = {.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = desc};
    double near, far;
    assert_int_equal(sg_machine_price(&m, &op, &near, NULL, NULL), SG_OK);
    memcpy(desc[0].stride, stride, sizeof stride);
    assert_int_equal(sg_machine_price(&m, &op, &far, NULL, NULL), SG_OK);
    assert_true(fabs(far / near / ((64 + 4) / 8.0) - 1) < 0.02);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_neighbours_far_apart),
        cmocka_unit_test(test_neighbours_soon_after),
        cmocka_unit_test(test_repeated_operands),
        cmocka_unit_test(test_price_has_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
