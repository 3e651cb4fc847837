/* cpu against reference: copies, fills, joins, padding and table look-ups. */
#include "tests/support/op_device.h"

static op_bench bench;

static const int64_t ODD[] = {3, 5, 7}, IMAGE[] = {2, 5, 6, 9}, LARGE[] = {9, 211, 173};
static const sg_dtype FLOATS[] = {SG_F32, SG_BF16, SG_F16, SG_F64};

static void check(op_case *c, const char *what) {
    const sg_desc *y = &c->desc[c->op.n_in];
    op_case_check(&bench, c, "%s, %s->%s %dd of %lld", what, sg_dtype_name((sg_dtype)c->desc[0].dtype),
                  sg_dtype_name((sg_dtype)y->dtype), y->ndim, (long long)sg_desc_count(y));
}

static void copy(sg_desc x, sg_desc y, double low, double high, const char *what) {
    op_case one;
    op_case_begin(&one, SG_OP_COPY, (sg_attrs){0});
    op_case_input(&one, x, low, high);
    op_case_output(&one, y);
    check(&one, what);
}

static void test_copy_dtypes(void **state) {
    (void)state;
    for (int from = 0; from < SG_DTYPE_COUNT; from++)
        for (int to = 0; to < SG_DTYPE_COUNT; to++) {
            bool sign = from != SG_U8 && from != SG_BOOL && to != SG_U8; /* a negative number has no place in a u8 */
            double high = from == SG_BOOL ? 2 : 100;
            copy(op_desc((sg_dtype)from, OP_PLAIN, 3, ODD), op_desc((sg_dtype)to, OP_PLAIN, 3, ODD), sign ? -high : 0,
                 high, "dtypes");
            copy(op_desc((sg_dtype)from, OP_TRANSPOSED, 3, ODD), op_desc((sg_dtype)to, OP_SLICED, 3, ODD),
                 sign ? -high : 0, high, "dtypes and layouts");
        }
    op_bench_expect_all(&bench);
}

static void test_copy_layouts(void **state) {
    (void)state;
    for (int t = 0; t < 2; t++)
        for (int from = 0; from < OP_LAYOUT_COUNT; from++)
            for (int to = 0; to < OP_REPEATED_ROWS; to++) {
                copy(op_desc(FLOATS[t], (op_layout)from, 4, IMAGE), op_desc(FLOATS[t], (op_layout)to, 4, IMAGE), -1, 1,
                     op_layout_name((op_layout)from));
                copy(op_desc(FLOATS[t], (op_layout)from, 3, LARGE), op_desc(FLOATS[t], (op_layout)to, 3, LARGE), -1, 1,
                     op_layout_name((op_layout)from));
            }
    copy(op_desc(SG_F32, OP_PLAIN, 0, NULL), op_desc(SG_BF16, OP_PLAIN, 0, NULL), -1, 1, "scalar");
    copy(op_desc(SG_F32, OP_PLAIN, 6, (int64_t[]){2, 3, 1, 2, 3, 2}),
         op_desc(SG_F32, OP_TRANSPOSED, 6, (int64_t[]){2, 3, 1, 2, 3, 2}), -1, 1, "six dims");
    op_bench_expect_all(&bench);
}

/* To nearest, ties to even; overflow to infinity; infinities and subnormals keep. */
static void test_copy_rounding(void **state) {
    (void)state;
    const double values[] = {1 + 0x1p-8, 1 + 0x1.8p-7, 1 + 0x1.0002p-8, -0x1.FFp127, 0x1.FEFFp127, INFINITY, -INFINITY,
                             0x1p-130,   0x1p-134,     0x1.8p-133,      0,           65519,        65520,    0x1p-24};
    int64_t n = sizeof values / sizeof *values;
    for (int to = 0; to < 4; to++) {
        op_case one;
        op_case_begin(&one, SG_OP_COPY, (sg_attrs){0});
        op_case_values(&one, op_desc(SG_F32, OP_PLAIN, 1, &n), values);
        op_case_output(&one, op_desc(FLOATS[to], OP_PLAIN, 1, &n));
        check(&one, "rounding");
    }
    op_bench_expect_all(&bench);
}

static void test_fill_and_iota(void **state) {
    (void)state;
    for (int t = 0; t < SG_DTYPE_COUNT; t++)
        for (int l = 0; l < OP_REPEATED_ROWS; l++) {
            op_case one;
            op_case_begin(&one, SG_OP_FILL, (sg_attrs){.alpha = t == SG_BOOL ? 1 : 42});
            op_case_output(&one, op_desc((sg_dtype)t, (op_layout)l, 4, IMAGE));
            check(&one, op_layout_name((op_layout)l));
            if (t == SG_BOOL) continue;
            op_case_begin(&one, SG_OP_IOTA, (sg_attrs){.alpha = 3, .beta = 2});
            op_case_output(&one, op_desc((sg_dtype)t, (op_layout)l, 4, IMAGE));
            check(&one, op_layout_name((op_layout)l));
        }
    op_case one;
    op_case_begin(&one, SG_OP_IOTA, (sg_attrs){.alpha = 0.1, .beta = 0.37});
    op_case_output(&one, op_desc(SG_F32, OP_PLAIN, 1, (int64_t[]){1000}));
    check(&one, "fractions");
    op_bench_expect_all(&bench);
}

static void test_cat(void **state) {
    (void)state;
    static const int64_t lengths[] = {4, 1, 7, 2};
    static const sg_dtype dtypes[] = {SG_F32, SG_BF16, SG_I64, SG_BOOL, SG_F16, SG_F64};
    for (int t = 0; t < 6; t++)
        for (int dim = 0; dim < 4; dim++)
            for (int n = 1; n <= 4; n++)
                for (int l = 0; l < OP_REPEATED_ROWS; l++) {
                    int64_t size[4] = {2, 3, 5, 6}, total = 0;
                    op_case one;
                    op_case_begin(&one, SG_OP_CAT, (sg_attrs){.dim = dim});
                    for (int i = 0; i < n; i++) {
                        size[dim] = lengths[i];
                        total += lengths[i];
                        op_case_input(&one, op_desc(dtypes[t], i % 2 ? OP_PLAIN : (op_layout)l, 4, size), 0,
                                      dtypes[t] == SG_BOOL ? 2 : 100);
                    }
                    size[dim] = total;
                    op_case_output(&one, op_desc(dtypes[t], (op_layout)l, 4, size));
                    check(&one, op_layout_name((op_layout)l));
                }
    op_bench_expect_all(&bench);
}

static void test_cat_large(void **state) {
    (void)state;
    int64_t part[3] = {16, 300, 40}, whole[3] = {16, 300, 80};
    op_case one;
    op_case_begin(&one, SG_OP_CAT, (sg_attrs){.dim = 2});
    op_case_input(&one, op_desc(SG_F32, OP_PLAIN, 3, part), -1, 1);
    op_case_input(&one, op_desc(SG_F32, OP_REPEATED_ROWS, 3, part), -1, 1);
    op_case_output(&one, op_desc(SG_F32, OP_PLAIN, 3, whole));
    check(&one, "large");
    op_bench_expect_all(&bench);
}

static void test_pad(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int l = 0; l < OP_REPEATED_ROWS; l++) {
            int64_t x[4] = {2, 3, 5, 6}, y[4] = {2, 3, 9, 13};
            op_case one;
            op_case_begin(&one, SG_OP_PAD, (sg_attrs){.alpha = -1, .pad = {1, 4}});
            op_case_input(&one, op_desc(FLOATS[t], (op_layout)l, 4, x), -1, 1);
            op_case_output(&one, op_desc(FLOATS[t], (op_layout)l, 4, y));
            check(&one, op_layout_name((op_layout)l));
            op_case_begin(&one, SG_OP_PAD, (sg_attrs){.alpha = 0, .pad = {0, 0}});
            op_case_input(&one, op_desc(FLOATS[t], (op_layout)l, 2, x + 2), -1, 1);
            op_case_output(&one, op_desc(FLOATS[t], OP_PLAIN, 2, y + 2));
            check(&one, "after only");
        }
    op_bench_expect_all(&bench);
}

static void embedding(sg_dtype dtype, sg_dtype index_dtype, op_layout layout, int64_t rows, int64_t width, int ndim,
                      const int64_t *index_size) {
    int64_t size[SG_MAX_DIMS];
    memcpy(size, index_size, (size_t)ndim * sizeof *size);
    size[ndim] = width;
    sg_desc table = op_desc(dtype, layout, 2, (int64_t[]){rows, width}),
            index = op_desc(index_dtype, OP_PLAIN, ndim, index_size);
    sg_desc y = op_desc(dtype, OP_PLAIN, ndim + 1, size);
    op_case one;
    op_case_begin(&one, SG_OP_EMBEDDING, (sg_attrs){0});
    op_case_input(&one, table, -1, 1);
    op_case_input(&one, index, 0, (double)rows);
    op_case_output(&one, y);
    check(&one, op_layout_name(layout));
    if (!sg_dtype_is_float(dtype)) return;
    op_case_begin(&one, SG_OP_EMBEDDING_BWD, (sg_attrs){0});
    op_case_input(&one, y, -1, 1);
    op_case_input(&one, index, 0, (double)rows);
    op_case_output(&one, op_desc(dtype, OP_PLAIN, 2, table.size));
    check(&one, op_layout_name(layout));
}

static void test_embedding(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int index = SG_I64; index <= SG_I32; index++) {
            embedding(FLOATS[t], (sg_dtype)index, OP_PLAIN, 11, 7, 1, (int64_t[]){5});
            embedding(FLOATS[t], (sg_dtype)index, OP_PLAIN, 3, 1, 2, (int64_t[]){9, 40}); /* every row many times */
            embedding(FLOATS[t], (sg_dtype)index, OP_SLICED, 50, 33, 3, (int64_t[]){2, 3, 4});
            embedding(FLOATS[t], (sg_dtype)index, OP_TRANSPOSED, 50, 33, 1, (int64_t[]){4});
        }
    embedding(SG_F32, SG_I64, OP_PLAIN, 2000, 96, 2, (int64_t[]){16, 250});
    embedding(SG_I64, SG_I64, OP_PLAIN, 20, 3, 1, (int64_t[]){16});
    op_bench_expect_all(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copy_dtypes),   cmocka_unit_test(test_copy_layouts), cmocka_unit_test(test_copy_rounding),
        cmocka_unit_test(test_fill_and_iota), cmocka_unit_test(test_cat),          cmocka_unit_test(test_cat_large),
        cmocka_unit_test(test_pad),           cmocka_unit_test(test_embedding),
    };
    return op_device_tests(tests, &bench);
}
