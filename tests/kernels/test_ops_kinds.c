/* No kind without a reference, a cpu implementation and a cost. (Gradients: tests/numerics/test_gradients_ops.c.) */
#include "tests/reference/reference.h"
#include "tests/support/op_device.h"
#include "tests/support/op_samples.h"

static op_bench bench;

static void test_every_kind(void **state) {
    (void)state;
    for (int kind = 0; kind < SG_OP_KIND_COUNT; kind++) {
        op_case c;
        if (!op_sample(&c, (sg_op_kind)kind)) fail_msg("%s has no sample", sg_op_kind_name((sg_op_kind)kind));
        c.op.desc = c.desc;
        assert_null(sg_op_check(&c.op));
        sg_cost cost = sg_op_cost(&c.op);
        assert_true(cost.bytes_written > 0 && cost.launches >= 1 && cost.flops >= 0);
        assert_true(c.op.n_in == 0 || cost.bytes_read > 0);
        assert_true(sg_op_class_of(&c.op) < SG_CLASS_COUNT);
        assert_true(sg_reference_has((sg_op_kind)kind));
        op_case_check(&bench, &c, "sample");
    }
    assert_int_equal(bench.cases, SG_OP_KIND_COUNT);
    assert_int_equal(bench.refused, 0);
    op_bench_expect_all(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kind)};
    return op_device_tests(tests, &bench);
}
