/* The framework's host time on the cuda device: it is spent, not more and not less, and nothing changes the precision
 * unseen. */
#include "tests/support/op_device.h"

#include <time.h>

static const sg_device_api *cuda;
static const double OP_S = 1e-3;

static double now_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of `n` dispatches and a blocking read. */
static double dispatch(const double *host_s, int n) {
    sg_device *device = NULL;
    sg_status status = {0};
    if (cuda->open(&(sg_device_options){.host_s = host_s}, &device, &status) != SG_OK) fail_msg("%s", status.text);
    double start = now_s();
    for (int i = 0; i < n; i++) {
        assert_int_equal(cuda->host_work(device, SG_HOST_OP_FORWARD, 1, &status), SG_OK);
        if (i % 5 == 4) assert_int_equal(cuda->stream_wait(device, SG_STREAM_COMPUTE, &status), SG_OK);
    }
    double seconds = now_s() - start;
    cuda->close(device);
    return seconds;
}

static void test_host_time_is_spent(void **state) {
    (void)state;
    double host_s[SG_HOST_CLASS_COUNT + 1] = {[SG_HOST_OP_FORWARD] = OP_S};
    double emulated_s = dispatch(host_s, 20), native_s = dispatch(NULL, 20);
    assert_true(emulated_s >= 20 * OP_S);
    assert_true(native_s < emulated_s / 2);
}

/* What our own calls take meanwhile is part of the framework's time, not added to it. */
static void test_own_time_is_part_of_it(void **state) {
    (void)state;
    double host_s[SG_HOST_CLASS_COUNT + 1] = {[SG_HOST_OP_FORWARD] = 10 * OP_S};
    sg_device *device = NULL;
    sg_status status = {0};
    double least = INFINITY;
    if (cuda->open(&(sg_device_options){.host_s = host_s}, &device, &status) != SG_OK) fail_msg("%s", status.text);
    for (int try = 0; try < 5; try++) { /* others use the processor too: the quickest counts */
        double start = now_s();
        for (int i = 0; i < 4; i++) {
            assert_int_equal(cuda->host_work(device, SG_HOST_OP_FORWARD, 1, &status), SG_OK);
            double busy_until = now_s() + 5 * OP_S;
            while (now_s() < busy_until) {
            }
        }
        assert_int_equal(cuda->stream_wait(device, SG_STREAM_COMPUTE, &status), SG_OK);
        least = fmin(least, now_s() - start);
    }
    cuda->close(device);
    assert_true(least >= 40 * OP_S && least < 58 * OP_S); /* 60 if it were added */
}

static void test_no_precision_unseen(void **state) {
    (void)state;
    sg_device *device = NULL;
    sg_status status = {0};
    assert_int_equal(setenv("NVIDIA_TF32_OVERRIDE", "0", 1), 0);
    assert_int_equal(cuda->open(&(sg_device_options){0}, &device, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "NVIDIA_TF32_OVERRIDE"));
    assert_null(device);
    assert_int_equal(unsetenv("NVIDIA_TF32_OVERRIDE"), 0);
}

int main(void) {
    cuda = sg_test_device_api();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host_time_is_spent),
        cmocka_unit_test(test_own_time_is_part_of_it),
        cmocka_unit_test(test_no_precision_unseen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
