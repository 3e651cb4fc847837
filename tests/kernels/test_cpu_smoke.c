/* Every kind once on the cpu device, then element-wise functions over their range, in every layout. */
#include "tests/support/op_cpu.h"
#include "tests/support/op_samples.h"

static op_bench bench;

static void test_every_kind(void **state) {
    (void)state;
    for (int kind = 0; kind < SG_OP_KIND_COUNT; kind++) {
        op_case c;
        assert_true(op_sample(&c, (sg_op_kind)kind));
        op_case_check(&bench, &c, "sample");
    }
    op_bench_expect_all(&bench);
}

static void test_functions(void **state) {
    (void)state;
    static const sg_dtype dtypes[] = {SG_F32, SG_BF16, SG_F16, SG_F64};
    for (int fn = 0; fn < SG_FN_COUNT; fn++)
        for (int t = 0; t < 4; t++)
            for (int layout = 0; layout < OP_LAYOUT_COUNT; layout++) {
                int arity = sg_fn_arity((sg_fn)fn);
                if (!arity) continue;
                op_case c;
                static const sg_op_kind kinds[] = {SG_OP_UNARY, SG_OP_BINARY, SG_OP_TERNARY};
                op_case_begin(&c, kinds[arity - 1], (sg_attrs){.fn = fn, .alpha = 0.75, .beta = 1.5});
                const int64_t size[4] = {2, 3, 9, 70};
                bool positive =
                    fn == SG_FN_LOG || fn == SG_FN_SQRT || fn == SG_FN_RSQRT || fn == SG_FN_POW || fn == SG_FN_POWV;
                for (int i = 0; i < arity; i++)
                    op_case_input(&c, op_desc(dtypes[t], (op_layout)layout, 4, size), positive ? 0.01 : -6, 6);
                op_case_output(&c,
                               op_desc(dtypes[t], layout < OP_REPEATED_ROWS ? (op_layout)layout : OP_PLAIN, 4, size));
                op_case_check(&bench, &c, "%s %s", sg_dtype_name(dtypes[t]), op_layout_name((op_layout)layout));
            }
    op_bench_expect_all(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kind), cmocka_unit_test(test_functions)};
    return op_cpu_tests(tests, &bench);
}
