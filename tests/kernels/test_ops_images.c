/* cpu against reference: max pooling, resizing, norms of channels. */
#include "tests/support/op_device.h"

static op_bench bench;

static const sg_dtype DTYPES[] = {SG_F32, SG_BF16, SG_F16, SG_F64};
static const op_layout LAYOUTS[] = {OP_PLAIN, OP_CHANNELS_LAST, OP_SLICED};

static void check(op_case *c, op_layout layout) {
    op_case_check(&bench, c, "%s %s, %lld elements, index of %zu bytes", sg_dtype_name((sg_dtype)c->desc[0].dtype),
                  op_layout_name(layout), (long long)sg_desc_count(&c->desc[c->op.n_in]),
                  sg_dtype_bytes((sg_dtype)c->desc[c->op.n_in + c->op.n_out - 1].dtype));
}

static void pool(sg_dtype dtype, op_layout layout, sg_dtype index, const int64_t *size, int kernel, int stride,
                 int pad) {
    int64_t out[4] = {size[0], size[1], (size[2] + 2 * pad - kernel) / stride + 1,
                      (size[3] + 2 * pad - kernel) / stride + 1};
    sg_desc x = op_desc(dtype, layout, 4, size), y = op_desc(dtype, layout, 4, out),
            place = op_desc(index, layout, 4, out);
    sg_attrs attrs = {.kernel = {kernel, kernel}, .stride = {stride, stride}, .pad = {pad, pad}};
    double *values = op_values(&x, -4, 4, 6), *result[2];
    for (int64_t i = 0; i < sg_desc_count(&x); i += 3) values[i] = floor(values[i]); /* ties: the first one counts */
    op_case one;
    for (int pass = 0; pass < 2; pass++) {
        op_case_begin(&one, SG_OP_MAXPOOL, attrs);
        op_case_values(&one, x, values);
        op_case_output(&one, y);
        op_case_output(&one, place);
        if (pass == 0)
            check(&one, layout);
        else
            op_case_solve(&bench, &one, 2, result);
    }
    op_case_begin(&one, SG_OP_MAXPOOL_BWD, attrs);
    op_case_input(&one, y, -1, 1);
    op_case_values(&one, place, result[1]);
    op_case_output(&one, x);
    check(&one, layout);
    free(result[0]);
    free(result[1]);
    free(values);
}

static void test_max_pool(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int l = 0; l < 3; l++)
            for (int byte = 0; byte < 2; byte++) {
                sg_dtype index = byte ? SG_U8 : SG_I64;
                pool(DTYPES[t], LAYOUTS[l], index, (int64_t[]){1, 1, 1, 1}, 1, 1, 0);
                pool(DTYPES[t], LAYOUTS[l], index, (int64_t[]){2, 3, 9, 11}, 3, 2, 1);
                pool(DTYPES[t], LAYOUTS[l], index, (int64_t[]){2, 17, 8, 6}, 2, 2, 0);
                pool(DTYPES[t], LAYOUTS[l], index, (int64_t[]){1, 5, 7, 7}, 3, 1, 1); /* windows overlap */
            }
    pool(SG_F32, OP_CHANNELS_LAST, SG_U8, (int64_t[]){2, 64, 60, 40}, 3, 2, 1);
    pool(SG_F32, OP_PLAIN, SG_I64, (int64_t[]){2, 64, 60, 40}, 3, 2, 1);
    op_bench_expect_all(&bench);
}

static void resize(sg_dtype dtype, op_layout layout, const int64_t *size, int64_t height, int64_t width) {
    op_case one;
    op_case_begin(&one, SG_OP_RESIZE, (sg_attrs){0});
    op_case_input(&one, op_desc(dtype, layout, 4, size), 0, 1);
    op_case_output(&one, op_desc(dtype, layout, 4, (int64_t[]){size[0], size[1], height, width}));
    check(&one, layout);
}

static void test_resize(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int l = 0; l < 3; l++) {
            resize(DTYPES[t], LAYOUTS[l], (int64_t[]){1, 1, 1, 1}, 3, 2);
            resize(DTYPES[t], LAYOUTS[l], (int64_t[]){2, 3, 5, 7}, 9, 16);
            resize(DTYPES[t], LAYOUTS[l], (int64_t[]){2, 3, 24, 32}, 18, 24);
            resize(DTYPES[t], LAYOUTS[l], (int64_t[]){1, 2, 6, 8}, 6, 8);
        }
    resize(SG_F32, OP_PLAIN, (int64_t[]){2, 3, 120, 160}, 128, 170);
    op_bench_expect_all(&bench);
}

/* groups 0: over the batch. The mean lies away from 0 by `offset`. */
static void channel_norm(sg_desc x, op_layout layout, int32_t groups, double offset) {
    sg_desc vector = op_desc((sg_dtype)x.dtype, OP_PLAIN, 1, &x.size[1]);
    sg_desc statistic = op_desc(x.dtype == SG_F64 ? SG_F64 : SG_F32, OP_PLAIN, groups ? 2 : 1,
                                groups ? (int64_t[]){x.size[0], groups} : &x.size[1]);
    sg_attrs attrs = {.eps = 1e-5, .count = groups};
    double *vx = op_values(&x, offset - 2, offset + 2, 1), *vw = op_values(&vector, 0.5, 1.5, 2), *out[3];
    op_case one;
    for (int pass = 0; pass < 2; pass++) {
        op_case_begin(&one, SG_OP_CHANNEL_NORM, attrs);
        op_case_values(&one, x, vx);
        op_case_values(&one, vector, vw);
        op_case_input(&one, vector, -1, 1);
        op_case_output(&one, x);
        for (int i = 0; i < 2; i++) op_case_output(&one, statistic);
        if (pass == 0)
            check(&one, layout);
        else
            op_case_solve(&bench, &one, 3, out);
    }
    static const uint32_t wanted[] = {0, SG_NO_DX, SG_NO_DW};
    for (int f = 0; f < 3; f++) {
        attrs.flags = wanted[f];
        op_case_begin(&one, SG_OP_CHANNEL_NORM_BWD, attrs);
        op_case_input(&one, x, -1, 1);
        op_case_values(&one, x, vx);
        for (int i = 0; i < 2; i++) op_case_values(&one, statistic, out[1 + i]);
        op_case_values(&one, vector, vw);
        if (wanted[f] != SG_NO_DX) op_case_output(&one, x);
        for (int i = 0; i < 2 && wanted[f] != SG_NO_DW; i++) op_case_output(&one, vector);
        check(&one, layout);
    }
    for (int i = 0; i < 3; i++) free(out[i]);
    free(vx);
    free(vw);
}

static void test_channel_norm(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int l = 0; l < 3; l++) {
            channel_norm(op_desc(DTYPES[t], LAYOUTS[l], 4, (int64_t[]){2, 6, 5, 7}), LAYOUTS[l], 0, 0);
            channel_norm(op_desc(DTYPES[t], LAYOUTS[l], 4, (int64_t[]){2, 6, 5, 7}), LAYOUTS[l], 3, 4);
            channel_norm(op_desc(DTYPES[t], LAYOUTS[l], 4, (int64_t[]){3, 37, 2, 3}), LAYOUTS[l], 1, 0);
        }
    for (int t = 0; t < 2; t++) {
        channel_norm(op_desc(DTYPES[t], OP_PLAIN, 3, (int64_t[]){3, 16, 33}), OP_PLAIN, 8, 10);
        channel_norm(op_desc(DTYPES[t], OP_PLAIN, 2, (int64_t[]){9, 4}), OP_PLAIN, 0, 1);
        channel_norm(op_desc(DTYPES[t], OP_PLAIN, 4, (int64_t[]){1, 3, 70, 90}), OP_PLAIN, 0, 1);
        channel_norm(op_desc(DTYPES[t], OP_CHANNELS_LAST, 4, (int64_t[]){2, 18, 40, 21}), OP_CHANNELS_LAST, 2, 1);
    }
    op_bench_expect_all(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_max_pool), cmocka_unit_test(test_resize),
                                       cmocka_unit_test(test_channel_norm)};
    return op_device_tests(tests, &bench);
}
