#include "tests/support/op_cpu.h"

void op_cpu_open(op_bench *bench) {
    const sg_device_api *api = NULL;
    sg_status status = {0};
    if (sg_module_device("cpu", &api, &status) != SG_OK) {
        (void)fprintf(stderr, "%s\n", status.text);
        exit(EXIT_FAILURE);
    }
    op_bench_open(bench, api, 2);
}

int op_cpu_close(op_bench *bench, int failed) {
    (void)printf("%d cases, %d refused (dtypes the device does not compute)\n", bench->cases, bench->refused);
    op_bench_close(bench);
    return failed;
}
