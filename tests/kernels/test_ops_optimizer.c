/* cpu against reference: functions on lists of tensors, AdamW, and packed weights that go stale. */
#include "tests/reference/reference.h"
#include "tests/support/op_device.h"

#include <math.h>
#include <stdlib.h>

static op_bench bench;

static const sg_dtype DTYPES[] = {SG_F32, SG_BF16, SG_F16, SG_F64};

static sg_desc listed(int i, sg_dtype dtype, bool strided) {
    int64_t size[2] = {1 + i % 4, i == 0 ? 6007 : 1 + 5 * i};
    return op_desc(dtype, strided && i % 3 == 1 ? OP_TRANSPOSED : OP_PLAIN, 2, size);
}

static void foreach (sg_fn fn, sg_dtype dtype, int count, uint32_t flags, bool strided) {
    double low = 0.25, high = fn == SG_FN_EXP || fn == SG_FN_POW ? 2 : 3;
    sg_attrs attrs = {
        .fn = fn, .count = count, .alpha = 0.75, .beta = 1.5, .flags = flags, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999};
    op_case one;
    op_case_begin(&one, SG_OP_FOREACH, attrs);
    for (int list = 0; list < sg_fn_arity(fn); list++)
        for (int i = 0; i < count; i++) op_case_input(&one, listed(i, dtype, strided), low, high);
    if (flags & SG_SCALAR_TENSOR) op_case_input(&one, op_desc(SG_F32, OP_PLAIN, 0, NULL), 0.5, 1);
    for (int i = 0; i < count; i++) op_case_output(&one, listed(i, dtype, strided));
    op_case_check(&bench, &one, "%s, %d tensors, flags %x%s", sg_dtype_name(dtype), count, flags,
                  strided ? ", strided" : "");
}

static void test_foreach(void **state) {
    (void)state;
    for (int fn = SG_FN_RELU; fn <= SG_FN_MASKED_FILL; fn++) {
        if (fn == SG_FN_CLAMP_BWD || fn == SG_FN_MASKED_FILL || fn == SG_FN_WHERE)
            continue; /* need masks, not numbers */
        for (int t = 0; t < 4; t++) {
            foreach ((sg_fn)fn, DTYPES[t], 7, SG_IN_PLACE, false)
                ;
            foreach ((sg_fn)fn, DTYPES[t], 5, 0, true)
                ;
        }
    }
    static const sg_fn of_adam[] = {SG_FN_AFFINE,  SG_FN_LERP,       SG_FN_ADDCMUL,
                                    SG_FN_ADDCDIV, SG_FN_DIV_SCALAR, SG_FN_ADD};
    for (size_t f = 0; f < sizeof of_adam / sizeof *of_adam; f++) {
        foreach (of_adam[f], SG_F32, 13, SG_IN_PLACE | SG_SCALAR_TENSOR, false)
            ;
        foreach (of_adam[f], SG_F32, 13, SG_IN_PLACE | SG_STEP_SIZE, true)
            ;
        foreach (of_adam[f], SG_F32, 13, SG_IN_PLACE | SG_STEP_SQRT, false)
            ;
    }
    op_bench_expect_all(&bench);
}

static void adamw(sg_dtype dtype, sg_dtype gradient, int count, uint64_t step, double weight_decay, uint32_t flags) {
    sg_attrs attrs = {.flags = flags,
                      .count = count,
                      .lr = 1e-2,
                      .beta1 = 0.9,
                      .beta2 = 0.999,
                      .eps = 1e-8,
                      .weight_decay = weight_decay};
    op_case one;
    op_case_begin(&one, SG_OP_ADAMW, attrs);
    one.launch.step = step;
    for (int list = 0; list < 4; list++)
        for (int i = 0; i < count; i++)
            op_case_input(&one, listed(i, list == 1 ? gradient : dtype, i == 1), list == 3 ? 0.01 : -1, 1);
    for (int list = 0; list < 3; list++)
        for (int i = 0; i < count; i++) op_case_output(&one, listed(i, dtype, i == 1));
    op_case_check(&bench, &one, "%s, gradients %s, %d tensors, step %llu, decay %g, flags %x", sg_dtype_name(dtype),
                  sg_dtype_name(gradient), count, (unsigned long long)step, weight_decay, flags);
}

static void test_adamw(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int decay = 0; decay < 2; decay++) {
            adamw(DTYPES[t], DTYPES[t], 1, 1, decay * 0.01, 0);
            adamw(DTYPES[t], DTYPES[t], 9, 100, decay * 0.01, SG_COUPLED_DECAY);
            adamw(DTYPES[t], DTYPES[t], 20, 100000, decay * 0.01, 0);
        }
    adamw(SG_F32, SG_BF16, 6, 3, 0.01, 0);
    adamw(SG_F32, SG_F32, 6, 3, 0.01, SG_COUPLED_DECAY);
    op_bench_expect_all(&bench);
}

static void unscale(sg_dtype dtype, int count, double bad, int at, double found) {
    op_case one;
    op_case_begin(&one, SG_OP_AMP_UNSCALE, (sg_attrs){.count = count, .flags = SG_IN_PLACE});
    for (int i = 0; i < count; i++) {
        sg_desc desc = listed(i, dtype, i == 1);
        if (i == at) {
            double *values = op_values(&desc, -1, 1, 77);
            values[sg_desc_count(&desc) - 1] = bad;
            op_case_values(&one, desc, values);
            free(values);
        } else {
            op_case_input(&one, desc, -1, 1);
        }
    }
    op_case_values(&one, op_desc(SG_F32, OP_PLAIN, 0, NULL), &found);
    op_case_values(&one, op_desc(SG_F32, OP_PLAIN, 0, NULL), (const double[]){0x1p-4});
    for (int i = 0; i < count; i++) op_case_output(&one, listed(i, dtype, i == 1));
    op_case_output(&one, op_desc(SG_F32, OP_PLAIN, 0, NULL));
    op_case_check(&bench, &one, "%s, %d gradients, %g in number %d, found %g", sg_dtype_name(dtype), count, bad, at,
                  found);
}

static void update_scale(double scale, double steps, double found) {
    op_case one;
    op_case_begin(&one, SG_OP_AMP_UPDATE, (sg_attrs){.alpha = 2, .beta = 0.5, .count = 10, .flags = SG_IN_PLACE});
    op_case_values(&one, op_desc(SG_F32, OP_PLAIN, 0, NULL), &scale);
    op_case_values(&one, op_desc(SG_I32, OP_PLAIN, 0, NULL), &steps);
    op_case_values(&one, op_desc(SG_F32, OP_PLAIN, 0, NULL), &found);
    op_case_output(&one, op_desc(SG_F32, OP_PLAIN, 0, NULL));
    op_case_output(&one, op_desc(SG_I32, OP_PLAIN, 0, NULL));
    op_case_check(&bench, &one, "scale %g after %g steps, found %g", scale, steps, found);
}

static void test_loss_scaler(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++) {
        unscale(DTYPES[t], 9, 0, -1, 0);
        unscale(DTYPES[t], 9, 0, -1, 1);
        unscale(DTYPES[t], 3, INFINITY, 0, 0);
        unscale(DTYPES[t], 40, -INFINITY, 1, 0);
        unscale(DTYPES[t], 5, NAN, 4, 0);
    }
    for (int found = 0; found < 2; found++) {
        update_scale(65536, 0, found);
        update_scale(65536, 8, found);
        update_scale(65536, 9, found);
        update_scale(0x1p127, 9, found);
    }
    op_bench_expect_all(&bench);
}

static void copy_now(void *to, const void *from, uint64_t bytes, sg_copy_kind kind) {
    sg_status status = {0};
    assert_int_equal(bench.api->copy(bench.device, to, from, bytes, kind, SG_STREAM_COMPUTE, &status), SG_OK);
    assert_int_equal(bench.api->stream_wait(bench.device, SG_STREAM_COMPUTE, &status), SG_OK);
}

/* The same plan and pointers after the weights were written: the device must not use what it packed before. */
static void test_packed_weights_follow(void **state) {
    (void)state;
    enum { M = 5, K = 64, N = 48 };
    const sg_device_api *api = bench.api;
    sg_status status = {0};
    sg_plan *plan = NULL;
    sg_desc desc[3] = {op_desc(SG_F32, OP_PLAIN, 2, (int64_t[]){M, K}),
                       op_desc(SG_F32, OP_TRANSPOSED, 2, (int64_t[]){K, N}),
                       op_desc(SG_F32, OP_PLAIN, 2, (int64_t[]){M, N})};
    sg_op op = {SG_OP_MATMUL, 2, 1, {.alpha = 1, .flags = SG_WEIGHT_B}, desc};
    static float tensors[3][K * N];
    void *pointers[3], *workspace = NULL;
    assert_int_equal(api->prepare(bench.device, &op, 1, &plan, &status), SG_OK);
    uint64_t bytes = api->plan_workspace_bytes(plan);
    if (bytes) assert_int_equal(api->segment_alloc(bench.device, bytes, &workspace, &status), SG_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(api->segment_alloc(bench.device, sizeof tensors[i], &pointers[i], &status), SG_OK);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            double *values = op_values(&desc[i], -1, 1, (uint64_t)(10 * round + i));
            sg_reference_write(&desc[i], tensors[i], values);
            copy_now(pointers[i], tensors[i], sg_desc_span_bytes(&desc[i]), SG_COPY_TO_DEVICE);
            free(values);
        }
        if (api->weights_changed) api->weights_changed(bench.device);
        assert_int_equal(
            api->launch(bench.device, plan, SG_STREAM_COMPUTE, pointers, workspace, &(sg_launch){0}, &status), SG_OK);
        copy_now(tensors[2], pointers[2], sg_desc_span_bytes(&desc[2]), SG_COPY_TO_HOST);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                double sum = 0;
                for (int k = 0; k < K; k++) sum += (double)tensors[0][i * K + k] * (double)tensors[1][j * K + k];
                assert_true(fabs(sum - (double)tensors[2][i * N + j]) < 4 * K * 0x1p-24);
            }
    }
    for (int i = 0; i < 3; i++) api->segment_free(bench.device, pointers[i], sizeof tensors[i]);
    if (workspace) api->segment_free(bench.device, workspace, bytes);
    api->plans_free(bench.device, &plan, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_foreach),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_loss_scaler),
        cmocka_unit_test(test_packed_weights_follow),
    };
    return op_device_tests(tests, &bench);
}
