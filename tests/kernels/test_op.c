#include "kernels/op.h"
#include "kernels/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SIZE(...)        ((const int64_t[]){__VA_ARGS__})
#define MAKE(dtype, ...) sg_desc_make(dtype, (int)(sizeof(SIZE(__VA_ARGS__)) / sizeof(int64_t)), SIZE(__VA_ARGS__))

static sg_op op_of(sg_op_kind kind, int n_in, int n_out, const sg_desc *desc, sg_attrs attrs) {
    return (sg_op){.kind = kind, .n_in = n_in, .n_out = n_out, .attrs = attrs, .desc = desc};
}

static void test_descriptors(void **state) {
    (void)state;
    sg_desc d = MAKE(SG_F32, 2, 3, 4);
    assert_int_equal(d.stride[0], 12);
    assert_int_equal(sg_desc_count(&d), 24);
    assert_int_equal(sg_desc_span_bytes(&d), 96);
    assert_true(sg_desc_is_contiguous(&d) && sg_desc_is_dense(&d) && !sg_desc_is_channels_last(&d));

    sg_desc repeated = d;
    repeated.stride[0] = 0;
    assert_int_equal(sg_desc_count(&repeated), 24);
    assert_int_equal(sg_desc_distinct(&repeated), 12);
    assert_int_equal(sg_desc_distinct_bytes(&repeated), 48);
    assert_int_equal(sg_desc_span_bytes(&repeated), 48);
    assert_false(sg_desc_is_dense(&repeated));

    sg_desc image = sg_desc_channels_last(SG_BF16, 2, 3, 5, 7);
    assert_true(sg_desc_is_channels_last(&image) && sg_desc_is_dense(&image) && !sg_desc_is_contiguous(&image));
    assert_int_equal(image.stride[1], 1);
    assert_int_equal(image.stride[3], 3);

    sg_desc transposed = MAKE(SG_F32, 4, 3);
    transposed.stride[0] = 1;
    transposed.stride[1] = 4;
    assert_true(sg_desc_is_dense(&transposed) && !sg_desc_is_contiguous(&transposed));
    sg_desc gap = MAKE(SG_F32, 4, 3);
    gap.stride[0] = 5;
    assert_false(sg_desc_is_dense(&gap) || sg_desc_is_contiguous(&gap));

    sg_desc scalar = sg_desc_make(SG_F64, 0, NULL);
    assert_int_equal(sg_desc_count(&scalar), 1);
    assert_int_equal(sg_desc_span_bytes(&scalar), 8);
    assert_true(sg_desc_is_contiguous(&scalar));
    sg_desc huge = MAKE(SG_F32, (int64_t)1 << 40, (int64_t)1 << 40);
    assert_int_equal(sg_desc_count(&huge), INT64_MAX);
    assert_true(sg_desc_span_bytes(&huge) == UINT64_MAX);
}

static void test_names_are_complete(void **state) {
    (void)state;
    for (int kind = 0; kind < SG_OP_KIND_COUNT; kind++) {
        assert_string_not_equal(sg_op_kind_name(kind), "unknown");
        sg_desc d[1] = {MAKE(SG_F32, 2, 2)};
        sg_op op = op_of(kind, 0, 1, d, (sg_attrs){0});
        assert_true(sg_op_class_of(&op) < SG_CLASS_COUNT);
    }
    for (int fn = 0; fn < SG_FN_COUNT; fn++) assert_string_not_equal(sg_fn_name(fn), "unknown");
    for (int cls = 0; cls < SG_CLASS_COUNT; cls++) assert_string_not_equal(sg_op_class_name(cls), "unknown");
    for (int dtype = 0; dtype < SG_DTYPE_COUNT; dtype++) {
        assert_string_not_equal(sg_dtype_name(dtype), "unknown");
        assert_true(sg_dtype_bytes(dtype) > 0);
    }
    assert_int_equal(sg_fn_arity(SG_FN_RELU), 1);
    assert_int_equal(sg_fn_arity(SG_FN_FLOOR), 1);
    assert_int_equal(sg_fn_arity(SG_FN_ADD), 2);
    assert_int_equal(sg_fn_arity(SG_FN_POWV), 2);
    assert_int_equal(sg_fn_arity(SG_FN_WHERE), 3);
    assert_int_equal(sg_fn_arity(SG_FN_MASKED_FILL), 3);
    assert_int_equal(sg_fn_arity(SG_FN_SUM), 0);
}

static void test_matmul_check_and_cost(void **state) {
    (void)state;
    sg_desc d[5] = {MAKE(SG_F32, 8, 16), MAKE(SG_F32, 16, 4), MAKE(SG_F32, 4), MAKE(SG_F32, 8, 4), MAKE(SG_F32, 8, 4)};
    sg_attrs attrs = {.alpha = 1, .flags = SG_HAS_BIAS | SG_HAS_RESIDUAL, .act = SG_FN_RELU};
    sg_op op = op_of(SG_OP_MATMUL, 4, 1, d, attrs);
    assert_null(sg_op_check(&op));
    assert_int_equal(sg_op_class_of(&op), SG_CLASS_GEMM);
    sg_cost cost = sg_op_cost(&op);
    assert_true(cost.flops == 2.0 * 8 * 16 * 4);
    assert_true(cost.bytes_read == 4.0 * (8 * 16 + 16 * 4 + 4 + 32));
    assert_true(cost.bytes_written == 4.0 * 32 && cost.launches == 1);

    op.n_in = 3;
    assert_non_null(sg_op_check(&op));
    op.n_in = 4;
    d[1].size[0] = 15;
    assert_non_null(sg_op_check(&op));
    d[1] = MAKE(SG_BF16, 16, 4);
    assert_non_null(sg_op_check(&op));
    d[1] = MAKE(SG_F32, 16, 4);
    d[4].stride[0] = 0;
    assert_non_null(sg_op_check(&op));
    d[4] = MAKE(SG_F32, 8, 4);
    op.attrs.act = SG_FN_EXP;
    assert_non_null(sg_op_check(&op));
    op.attrs.act = SG_FN_NONE;
    d[3].size[3] = 1;
    assert_non_null(sg_op_check(&op));
}

static void test_conv_check_and_cost(void **state) {
    (void)state;
    sg_desc x = sg_desc_channels_last(SG_F32, 2, 3, 20, 30), w = sg_desc_channels_last(SG_F32, 8, 3, 7, 7);
    sg_desc y = sg_desc_channels_last(SG_F32, 2, 8, 10, 15);
    sg_attrs attrs = {.kernel = {7, 7}, .stride = {2, 2}, .pad = {3, 3}};
    double flops = 2.0 * (2 * 8 * 10 * 15) * (3 * 49);
    sg_op forward = op_of(SG_OP_CONV, 2, 1, (sg_desc[]){x, w, y}, attrs);
    sg_op data = op_of(SG_OP_CONV_BWD_DATA, 2, 1, (sg_desc[]){y, w, x}, attrs);
    sg_op weights = op_of(SG_OP_CONV_BWD_WEIGHTS, 2, 1, (sg_desc[]){y, x, w}, attrs);
    assert_null(sg_op_check(&forward));
    assert_null(sg_op_check(&data));
    assert_null(sg_op_check(&weights));
    assert_true(sg_op_cost(&forward).flops == flops);
    assert_true(sg_op_cost(&data).flops == flops);
    assert_true(sg_op_cost(&weights).flops == flops);
    forward.attrs.pad[0] = 2;
    assert_non_null(sg_op_check(&forward));
    weights.attrs.flags = SG_HAS_BIAS;
    assert_non_null(sg_op_check(&weights));
}

/* Batch norm (no groups) and group norm: three passes over x forward, five over x and dy backward. */
static void test_channel_norm_check_and_cost(void **state) {
    (void)state;
    sg_desc x = MAKE(SG_F32, 2, 6, 5), c = MAKE(SG_F32, 6), of_group = MAKE(SG_F32, 2, 3);
    sg_op batch = op_of(SG_OP_CHANNEL_NORM, 3, 3, (sg_desc[]){x, c, c, x, c, c}, (sg_attrs){.eps = 1e-5});
    assert_null(sg_op_check(&batch));
    assert_int_equal(sg_op_class_of(&batch), SG_CLASS_NORM);
    assert_true(sg_op_cost(&batch).bytes_read == 4.0 * (2 * 60 + 2 * 6));
    assert_true(sg_op_cost(&batch).bytes_written == 4.0 * (60 + 2 * 6));
    sg_desc d[6] = {x, c, c, x, of_group, of_group};
    sg_op group = op_of(SG_OP_CHANNEL_NORM, 3, 3, d, (sg_attrs){.eps = 1e-5, .count = 3});
    assert_null(sg_op_check(&group));
    assert_true(sg_op_cost(&group).launches > sg_op_cost(&batch).launches);
    group.attrs.count = 4; /* does not divide 6 channels */
    assert_non_null(sg_op_check(&group));
    group.attrs.count = 2; /* the statistics are of 3 */
    assert_non_null(sg_op_check(&group));
    group.attrs.count = 0;
    assert_non_null(sg_op_check(&group));
    group.attrs.count = 3;
    d[1] = MAKE(SG_F32, 5);
    assert_non_null(sg_op_check(&group));

    sg_desc b[8] = {x, x, c, c, c, x, c, c};
    sg_op backward = op_of(SG_OP_CHANNEL_NORM_BWD, 5, 3, b, (sg_attrs){0});
    assert_null(sg_op_check(&backward));
    assert_true(sg_op_cost(&backward).bytes_read == 4.0 * (4 * 60 + 3 * 6));
    backward.n_out = 2;
    assert_non_null(sg_op_check(&backward));
    backward.attrs.flags = SG_NO_DX;
    b[5] = c;
    assert_null(sg_op_check(&backward));
    assert_true(sg_op_cost(&backward).bytes_read == 4.0 * (2 * 60 + 3 * 6)); /* the sums alone */
    backward.attrs.flags = SG_NO_DX | SG_NO_DW;
    assert_non_null(sg_op_check(&backward));
}

static void test_in_place_and_broadcast(void **state) {
    (void)state;
    sg_desc d[3] = {MAKE(SG_F32, 4, 5), MAKE(SG_F32, 4, 5), MAKE(SG_F32, 4, 5)};
    d[1].stride[0] = 0;
    sg_op op = op_of(SG_OP_BINARY, 2, 1, d, (sg_attrs){.fn = SG_FN_ADD, .alpha = 1, .flags = SG_IN_PLACE});
    assert_null(sg_op_check(&op));
    assert_true(sg_op_cost(&op).bytes_read == 4.0 * (20 + 5));
    op.attrs.fn = SG_FN_RELU;
    assert_non_null(sg_op_check(&op));
    op.attrs.fn = SG_FN_ADD;
    d[0].stride[0] = 6;
    assert_non_null(sg_op_check(&op));
}

/* 320 blocks of 65,536 elements and 110/64/48/36/30 tensors to a kernel. */
static void test_multi_tensor_launches(void **state) {
    (void)state;
    enum { N = 111 };
    sg_desc d[N + 1];
    for (int i = 0; i < N; i++) d[i] = MAKE(SG_F32, 100);
    d[N] = MAKE(SG_F32, N);
    sg_op norms = op_of(SG_OP_NORM_ALL, N, 1, d, (sg_attrs){.count = N});
    assert_null(sg_op_check(&norms));
    assert_int_equal(sg_op_cost(&norms).launches, 3); /* 110 + 1 tensors, then the final sums */
    sg_desc one[2] = {MAKE(SG_F32, 65536 * 320), MAKE(SG_F32, 1)};
    norms = op_of(SG_OP_NORM_ALL, 1, 1, one, (sg_attrs){.count = 1});
    assert_int_equal(sg_op_cost(&norms).launches, 2);
    one[0] = MAKE(SG_F32, 65536 * 320 + 1);
    assert_int_equal(sg_op_cost(&norms).launches, 3);

    sg_desc lists[7 * 37];
    for (int i = 0; i < 7 * 37; i++) lists[i] = MAKE(SG_F32, 100);
    sg_op adam = op_of(SG_OP_ADAMW, 4 * 37, 3 * 37, lists, (sg_attrs){.count = 37});
    assert_null(sg_op_check(&adam));
    assert_int_equal(sg_op_cost(&adam).launches, 2);
    sg_op foreach = op_of(SG_OP_FOREACH, 2 * 37, 37, lists, (sg_attrs){.count = 37, .fn = SG_FN_MUL});
    assert_null(sg_op_check(&foreach));
    assert_int_equal(sg_op_cost(&foreach).launches, 1); /* 3 lists: up to 48 tensors */
}

static void test_bad_ops_are_refused(void **state) {
    (void)state;
    sg_desc d[2] = {MAKE(SG_F32, (int64_t)1 << 62, 8), MAKE(SG_F32, (int64_t)1 << 62, 8)};
    sg_op op = op_of(SG_OP_COPY, 1, 1, d, (sg_attrs){0});
    assert_non_null(sg_op_check(&op));
    op.kind = SG_OP_KIND_COUNT;
    assert_non_null(sg_op_check(&op));
    op = op_of(SG_OP_CAT, INT32_MAX, INT32_MAX, d, (sg_attrs){0});
    assert_non_null(sg_op_check(&op));
    d[0] = d[1] = MAKE(SG_F32, 0, 3);
    op = op_of(SG_OP_COPY, 1, 1, d, (sg_attrs){0});
    assert_non_null(sg_op_check(&op));
}

/* Known answers of the authors' reference implementation (Random123, kat_vectors: philox4x32 10). */
static void test_philox_known_answers(void **state) {
    (void)state;
    sg_philox_block zeros = sg_philox_raw((sg_philox_key){{0, 0}}, (sg_philox_block){{0, 0, 0, 0}});
    static const uint32_t want_zeros[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(zeros.word, want_zeros, sizeof want_zeros);
    const uint32_t f = 0xffffffff;
    sg_philox_block ones = sg_philox_raw((sg_philox_key){{f, f}}, (sg_philox_block){{f, f, f, f}});
    static const uint32_t want_ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(ones.word, want_ones, sizeof want_ones);
}

/* Two ranks' shards place their elements where one process with both shards does. */
static void test_random_places_do_not_depend_on_ranks(void **state) {
    (void)state;
    const int64_t whole[3] = {5, 8, 3}, part[3] = {5, 4, 3}; /* dim 1: samples of 2 heads */
    sg_random_split a = sg_random_split_of(3, whole, 1, 1, 2), b = sg_random_split_of(3, part, 1, 1, 2);
    for (uint64_t i = 0; i < 5; i++)
        for (uint64_t j = 0; j < 8; j++)
            for (uint64_t k = 0; k < 3; k++) {
                sg_random_place in_whole = sg_random_place_of(&a, (i * 8 + j) * 3 + k);
                sg_random_place in_part = sg_random_place_of(&b, (i * 4 + j % 4) * 3 + k);
                assert_int_equal(in_whole.sample, in_part.sample + (j / 4) * 2);
                assert_int_equal(in_whole.index, in_part.index);
            }
    int64_t order[100], seen[100] = {0};
    sg_random_permutation(sg_philox_key_of(1, 2, 3), order, 100);
    for (int i = 0; i < 100; i++) seen[order[i]]++;
    for (int i = 0; i < 100; i++) assert_int_equal(seen[i], 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_names_are_complete),
        cmocka_unit_test(test_matmul_check_and_cost),
        cmocka_unit_test(test_conv_check_and_cost),
        cmocka_unit_test(test_in_place_and_broadcast),
        cmocka_unit_test(test_multi_tensor_launches),
        cmocka_unit_test(test_bad_ops_are_refused),
        cmocka_unit_test(test_channel_norm_check_and_cost),
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_random_places_do_not_depend_on_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
