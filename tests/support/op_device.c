#include "tests/support/op_device.h"

enum { SKIPPED = 77 };

const char *sg_test_device(void) {
    const char *name = getenv("SG_TEST_DEVICE");
    return name && *name ? name : "cpu";
}

static _Noreturn void give_up(const sg_status *status) {
    bool skip = strcmp(sg_test_device(), "cuda") == 0;
    (void)fprintf(stderr, "%s%s\n", skip ? "skipped: " : "", status->text);
    exit(skip ? SKIPPED : EXIT_FAILURE);
}

const sg_device_api *sg_test_device_api(void) {
    const sg_device_api *api = NULL;
    sg_device *device = NULL;
    sg_status status = {0};
    if (sg_module_device(sg_test_device(), &api, &status) != SG_OK) give_up(&status);
    if (api->open(&(sg_device_options){.threads = 2}, &device, &status) != SG_OK) give_up(&status);
    api->close(device);
    return api;
}

void op_device_open(op_bench *bench) {
    op_bench_open(bench, sg_test_device_api(), 2);
}

int op_device_close(op_bench *bench, int failed) {
    (void)printf("%d cases, %d refused (dtypes the device does not compute)\n", bench->cases, bench->refused);
    op_bench_close(bench);
    return failed;
}
