/* cpu against reference: reductions over any set of dims, running sums, norms of lists. */
#include "tests/support/op_device.h"

static op_bench bench;

static const sg_dtype DTYPES[] = {SG_F32, SG_BF16, SG_F16, SG_F64};
static const sg_fn REAL_FNS[] = {SG_FN_SUM, SG_FN_MEAN, SG_FN_MAX, SG_FN_MIN, SG_FN_STD};
static const int64_t IMAGE[] = {2, 5, 6, 9}, LARGE[] = {64, 37, 129}, LONG[] = {3, 70001}, TALL[] = {70001, 3};

static void reduce(sg_fn fn, sg_desc x, sg_dtype to, uint32_t mask, const char *what) {
    int64_t size[SG_MAX_DIMS];
    for (int d = 0; d < x.ndim; d++) size[d] = mask >> d & 1 ? 1 : x.size[d];
    op_case one;
    op_case_begin(&one, SG_OP_REDUCE, (sg_attrs){.fn = fn, .dims_mask = mask});
    op_case_input(&one, x, sg_dtype_is_float((sg_dtype)x.dtype) ? -2 : 0, 2);
    op_case_output(&one, op_desc(to, OP_PLAIN, x.ndim, size));
    op_case_check(&bench, &one, "%s->%s of %lld, dims %x, %s", sg_dtype_name((sg_dtype)x.dtype), sg_dtype_name(to),
                  (long long)sg_desc_count(&x), mask, what);
}

static void test_every_set_of_dims(void **state) {
    (void)state;
    for (size_t f = 0; f < 5; f++)
        for (int t = 0; t < 4; t++)
            for (int l = 0; l < OP_LAYOUT_COUNT; l++)
                for (uint32_t mask = 0; mask < 16; mask++) {
                    if (REAL_FNS[f] == SG_FN_STD && mask == 0) continue; /* one element has no spread */
                    reduce(REAL_FNS[f], op_desc(DTYPES[t], (op_layout)l, 4, IMAGE), DTYPES[t], mask,
                           op_layout_name((op_layout)l));
                }
    op_bench_expect_all(&bench);
}

static void test_large(void **state) {
    (void)state;
    for (size_t f = 0; f < 5; f++) {
        for (uint32_t mask = 1; mask < 8; mask++)
            reduce(REAL_FNS[f], op_desc(SG_F32, OP_PLAIN, 3, LARGE), SG_F32, mask, "large");
        for (uint32_t mask = 1; mask < 4; mask++) {
            reduce(REAL_FNS[f], op_desc(SG_F32, OP_PLAIN, 2, LONG), SG_F32, mask, "long");
            reduce(REAL_FNS[f], op_desc(SG_BF16, OP_PLAIN, 2, TALL), SG_BF16, mask, "tall");
        }
    }
    op_bench_expect_all(&bench);
}

static void test_dtypes(void **state) {
    (void)state;
    for (uint32_t mask = 1; mask < 16; mask += 2) {
        reduce(SG_FN_SUM, op_desc(SG_BF16, OP_PLAIN, 4, IMAGE), SG_F32, mask, "wider");
        reduce(SG_FN_MEAN, op_desc(SG_F32, OP_PLAIN, 4, IMAGE), SG_BF16, mask, "narrower");
        reduce(SG_FN_SUM, op_desc(SG_BOOL, OP_PLAIN, 4, IMAGE), SG_I64, mask, "counts");
        reduce(SG_FN_SUM, op_desc(SG_I64, OP_PLAIN, 4, IMAGE), SG_I64, mask, "integers");
        reduce(SG_FN_MAX, op_desc(SG_I32, OP_PLAIN, 4, IMAGE), SG_I32, mask, "integers");
        reduce(SG_FN_ANY, op_desc(SG_BOOL, OP_PLAIN, 4, IMAGE), SG_BOOL, mask, "any");
        reduce(SG_FN_ANY, op_desc(SG_F32, OP_PLAIN, 4, IMAGE), SG_BOOL, mask, "any");
    }
    reduce(SG_FN_SUM, op_desc(SG_F32, OP_PLAIN, 0, NULL), SG_F32, 0, "scalar");
    op_bench_expect_all(&bench);
}

static void test_running_sum(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int l = 0; l < OP_LAYOUT_COUNT; l++)
            for (int dim = 0; dim < 4; dim++) {
                op_case one;
                op_case_begin(&one, SG_OP_CUMSUM, (sg_attrs){.dim = dim});
                op_case_input(&one, op_desc(DTYPES[t], (op_layout)l, 4, IMAGE), -1, 1);
                op_case_output(&one, op_desc(DTYPES[t], OP_PLAIN, 4, IMAGE));
                op_case_check(&bench, &one, "%s %s along %d", sg_dtype_name(DTYPES[t]), op_layout_name((op_layout)l),
                              dim);
            }
    op_case one;
    op_case_begin(&one, SG_OP_CUMSUM, (sg_attrs){.dim = 1});
    op_case_input(&one, op_desc(SG_BOOL, OP_PLAIN, 2, (int64_t[]){3, 200}), 0, 2);
    op_case_output(&one, op_desc(SG_I64, OP_PLAIN, 2, (int64_t[]){3, 200}));
    op_case_check(&bench, &one, "counts");
    op_bench_expect_all(&bench);
}

static void test_norms_of_lists(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int n = 1; n <= 70; n += 23) {
            op_case one;
            op_case_begin(&one, SG_OP_NORM_ALL, (sg_attrs){.count = n});
            for (int i = 0; i < n; i++) {
                int64_t size[2] = {1 + i % 5, i == 0 ? 9001 : 1 + 7 * i};
                op_case_input(&one, op_desc(DTYPES[t], i % 3 == 2 ? OP_TRANSPOSED : OP_PLAIN, 2, size), -1, 1);
            }
            op_case_output(&one, op_desc(DTYPES[t] == SG_F64 ? SG_F64 : SG_F32, OP_PLAIN, 1, (int64_t[]){n}));
            op_case_check(&bench, &one, "%s, %d tensors", sg_dtype_name(DTYPES[t]), n);
        }
    op_bench_expect_all(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_set_of_dims), cmocka_unit_test(test_large),          cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_running_sum),       cmocka_unit_test(test_norms_of_lists),
    };
    return op_device_tests(tests, &bench);
}
