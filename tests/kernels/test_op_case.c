/* The comparison itself: a device that is right passes, and one that is slightly wrong, or writes where it must not, fails. */
#include "tests/reference/reference.h"
#include "tests/support/op_device.h"

typedef sg_code (*launch_fn)(sg_device *, sg_plan *, sg_stream, void *const *, void *, const sg_launch *, sg_status *);

static void one_product(op_bench *bench) {
    op_case c;
    op_case_begin(&c, SG_OP_MATMUL, (sg_attrs){.alpha = 1});
    op_case_input(&c, op_desc(SG_F32, OP_PLAIN, 2, (int64_t[]){4, 30}), -1, 1);
    op_case_input(&c, op_desc(SG_F32, OP_PLAIN, 2, (int64_t[]){30, 6}), -1, 1);
    op_case_output(&c, op_desc(SG_F32, OP_SLICED, 2, (int64_t[]){4, 6}));
    op_case_check(bench, &c, "deliberate");
}

static int failures_with(launch_fn launch) {
    sg_device_api api = *sg_reference_device();
    if (launch) api.launch = launch;
    op_bench bench;
    op_bench_open(&bench, &api, 1);
    one_product(&bench);
    int failures = bench.failures;
    op_bench_close(&bench);
    return failures;
}

static sg_code scaled(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                      const sg_launch *launch, sg_status *status) {
    sg_code code = sg_reference_device()->launch(device, plan, stream, pointers, workspace, launch, status);
    float *y = pointers[2];
    y[7] *= 1 + 0x1p-14F;
    return code;
}

static sg_code beyond(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                      const sg_launch *launch, sg_status *status) {
    sg_code code = sg_reference_device()->launch(device, plan, stream, pointers, workspace, launch, status);
    float *y = pointers[2];
    y[6] = 0; /* between two rows */
    return code;
}

static sg_code lazy(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                    const sg_launch *launch, sg_status *status) {
    (void)device;
    (void)plan;
    (void)stream;
    (void)pointers;
    (void)workspace;
    (void)launch;
    (void)status;
    return SG_OK;
}

static void test_right_passes(void **state) {
    (void)state;
    assert_int_equal(failures_with(NULL), 0);
}

static void test_wrong_fails(void **state) {
    (void)state;
    assert_int_equal(failures_with(scaled), 1);
    assert_int_equal(failures_with(beyond), 1);
    assert_int_equal(failures_with(lazy), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right_passes), cmocka_unit_test(test_wrong_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
