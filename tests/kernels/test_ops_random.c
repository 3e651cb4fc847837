/* cpu against reference: random tensors and dropout; and what their numbers must be like. */
#include "tests/reference/reference.h"
#include "tests/support/op_device.h"

static op_bench bench;

static const sg_dtype DTYPES[] = {SG_F32, SG_BF16, SG_F16, SG_F64};
static const int64_t SHAPE[] = {6, 5, 7}, LARGE[] = {4, 333, 65};

static sg_attrs random_attrs(sg_fn fn) {
    sg_attrs attrs = {.fn = fn, .alpha = fn == SG_FN_BERNOULLI ? 0.3 : -2, .beta = 3};
    return attrs;
}

static void check(op_case *c, op_layout layout) {
    const sg_desc *y = &c->desc[c->op.n_in];
    op_case_check(&bench, c, "%s of %lld, %s, dim %d group %d flags %x", sg_dtype_name((sg_dtype)y->dtype),
                  (long long)sg_desc_count(y), op_layout_name(layout), c->op.attrs.dim, c->op.attrs.sample_group,
                  c->op.attrs.flags);
}

static void draw(sg_attrs attrs, sg_desc y, op_layout layout, sg_launch launch) {
    op_case one;
    op_case_begin(&one, SG_OP_RANDOM, attrs);
    one.launch = launch;
    op_case_output(&one, y);
    check(&one, layout);
}

static void drop(sg_attrs attrs, sg_desc x, op_layout layout, sg_launch launch) {
    sg_desc mask = op_desc(SG_BOOL, layout, x.ndim, x.size);
    op_case one;
    op_case_begin(&one, SG_OP_DROPOUT, attrs);
    one.launch = launch;
    op_case_input(&one, x, -1, 1);
    op_case_output(&one, x);
    op_case_output(&one, mask);
    check(&one, layout);
    op_case_begin(&one, SG_OP_DROPOUT_BWD, attrs);
    op_case_input(&one, x, -1, 1);
    op_case_input(&one, mask, 0, 2);
    op_case_output(&one, x);
    check(&one, layout);
}

static const sg_launch LAUNCHES[] = {
    {1, 1, 0, 0}, {UINT64_MAX, 1000, 77, 12}, {7, UINT64_C(1) << 40, 3, INT64_C(1) << 35}};

static void test_random(void **state) {
    (void)state;
    static const sg_fn fns[] = {SG_FN_UNIFORM, SG_FN_NORMAL, SG_FN_INTEGER, SG_FN_BERNOULLI};
    for (int f = 0; f < 4; f++)
        for (int t = 0; t < 4; t++)
            for (int l = 0; l < OP_REPEATED_ROWS; l++)
                for (int n = 0; n < 3; n++) {
                    sg_attrs attrs = random_attrs(fns[f]);
                    sg_desc y = op_desc(DTYPES[t], (op_layout)l, 3, SHAPE);
                    draw(attrs, y, (op_layout)l, LAUNCHES[n]);
                    attrs.flags = SG_PER_SAMPLE;
                    for (int dim = 0; dim < 3; dim++) {
                        attrs.dim = dim;
                        attrs.sample_group = 1;
                        draw(attrs, y, (op_layout)l, LAUNCHES[n]);
                    }
                    attrs.dim = 0;
                    attrs.sample_group = 3;
                    draw(attrs, y, (op_layout)l, LAUNCHES[n]);
                }
    for (int f = 0; f < 4; f++) draw(random_attrs(fns[f]), op_desc(SG_F32, OP_PLAIN, 3, LARGE), OP_PLAIN, LAUNCHES[0]);
    draw((sg_attrs){.fn = SG_FN_INTEGER, .alpha = 0, .beta = 256}, op_desc(SG_U8, OP_PLAIN, 3, LARGE), OP_PLAIN,
         LAUNCHES[1]);
    draw((sg_attrs){.fn = SG_FN_INTEGER, .alpha = -5, .beta = 4e9}, op_desc(SG_I64, OP_PLAIN, 3, SHAPE), OP_PLAIN,
         LAUNCHES[1]);
    draw((sg_attrs){.fn = SG_FN_PERMUTATION}, op_desc(SG_I64, OP_PLAIN, 1, (int64_t[]){1}), OP_PLAIN, LAUNCHES[1]);
    draw((sg_attrs){.fn = SG_FN_PERMUTATION}, op_desc(SG_I64, OP_PLAIN, 1, (int64_t[]){1001}), OP_PLAIN, LAUNCHES[1]);
    op_bench_expect_all(&bench);
}

static void test_dropout(void **state) {
    (void)state;
    static const double drops[] = {0, 0.1, 0.5, 0.99};
    for (int p = 0; p < 4; p++)
        for (int t = 0; t < 4; t++)
            for (int l = 0; l < OP_REPEATED_ROWS; l++)
                for (int n = 0; n < 3; n++) {
                    sg_desc x = op_desc(DTYPES[t], (op_layout)l, 3, SHAPE);
                    drop((sg_attrs){.alpha = drops[p]}, x, (op_layout)l, LAUNCHES[n]);
                    drop((sg_attrs){.alpha = drops[p], .flags = SG_PER_SAMPLE, .dim = 0, .sample_group = 2}, x,
                         (op_layout)l, LAUNCHES[n]);
                    drop(
                        (sg_attrs){
                            .alpha = drops[p], .flags = SG_PER_SAMPLE | SG_IN_PLACE, .dim = 1, .sample_group = 1},
                        x, (op_layout)l, LAUNCHES[n]);
                }
    drop((sg_attrs){.alpha = 0.1}, op_desc(SG_F32, OP_PLAIN, 3, LARGE), OP_PLAIN, LAUNCHES[1]);
    op_bench_expect_all(&bench);
}

/* Two shards of three samples are the whole batch of six, wherever the batch dim is. */
static void test_shards_make_the_batch(void **state) {
    (void)state;
    for (int group = 1; group <= 2; group++)
        for (int dim = 0; dim < 3; dim++) {
            int64_t size[3] = {5, 5, 5}, half[3] = {5, 5, 5};
            size[dim] = 6 * group;
            half[dim] = 3 * group;
            sg_attrs attrs = {.fn = SG_FN_NORMAL, .beta = 1, .flags = SG_PER_SAMPLE, .dim = dim, .sample_group = group};
            double *whole[1], *part[1];
            op_case one;
            op_case_begin(&one, SG_OP_RANDOM, attrs);
            op_case_output(&one, op_desc(SG_F32, OP_PLAIN, 3, size));
            op_case_solve(&bench, &one, 1, whole);
            for (int shard = 0; shard < 2; shard++) {
                op_case_begin(&one, SG_OP_RANDOM, attrs);
                one.launch.sample_offset = 3 * shard;
                op_case_output(&one, op_desc(SG_F32, OP_PLAIN, 3, half));
                op_case_solve(&bench, &one, 1, part);
                for (int64_t i = 0; i < half[0]; i++)
                    for (int64_t j = 0; j < half[1]; j++)
                        for (int64_t k = 0; k < half[2]; k++) {
                            int64_t at[3] = {i, j, k};
                            at[dim] += shard * half[dim];
                            assert_true(part[0][(i * half[1] + j) * half[2] + k] ==
                                        whole[0][(at[0] * size[1] + at[1]) * size[2] + at[2]]);
                        }
                free(part[0]);
            }
            free(whole[0]);
        }
}

/* Mean and variance within five standard errors; different launches differ. */
static void test_moments(void **state) {
    (void)state;
    enum { N = 40000 };
    static const struct {
        sg_attrs attrs;
        double mean, variance, fourth; /* central moments */
    } wants[] = {
        {{.fn = SG_FN_UNIFORM, .alpha = -2, .beta = 4}, 1, 3, 16.2},
        {{.fn = SG_FN_NORMAL, .alpha = 1, .beta = 2}, 1, 4, 48},
        {{.fn = SG_FN_INTEGER, .alpha = 0, .beta = 2}, 0.5, 0.25, 0.0625},
        {{.fn = SG_FN_BERNOULLI, .alpha = 0.5}, 0.5, 0.25, 0.0625},
    };
    for (size_t w = 0; w < sizeof wants / sizeof *wants; w++) {
        double *value[1], *other[1], mean = 0, variance = 0;
        for (int launch = 0; launch < 2; launch++) {
            op_case one;
            op_case_begin(&one, SG_OP_RANDOM, wants[w].attrs);
            one.launch.step = (uint64_t)launch + 1;
            op_case_output(&one, op_desc(SG_F32, OP_PLAIN, 1, (int64_t[]){N}));
            op_case_solve(&bench, &one, 1, launch ? other : value);
        }
        int same = 0;
        for (int i = 0; i < N; i++) {
            mean += value[0][i] / N;
            same += value[0][i] == other[0][i];
        }
        for (int i = 0; i < N; i++) variance += (value[0][i] - mean) * (value[0][i] - mean) / N;
        assert_true(fabs(mean - wants[w].mean) < 5 * sqrt(wants[w].variance / N));
        assert_true(fabs(variance - wants[w].variance) <
                    5 * sqrt((wants[w].fourth - wants[w].variance * wants[w].variance) / N) + 1e-3);
        assert_true(same < N * 6 / 10);
        free(value[0]);
        free(other[0]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_shards_make_the_batch),
        cmocka_unit_test(test_moments),
    };
    return op_device_tests(tests, &bench);
}
