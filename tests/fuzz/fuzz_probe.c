/* Hostile bytes as the probe's file: it is read onto a machine or the error says where. */
#include "calibration/fit/fit_probe.h"
#include "tests/fuzz/memory_file.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[SG_MEMORY_PATH];
    sg_status status;
    sg_fit fit = {.n_laws = 0};
    sg_machine_init(&fit.machine);
    (void)snprintf(fit.machine.device_class, sizeof fit.machine.device_class, "cpu");
    for (int i = 0; i < SG_M_COUNT; i++) fit.machine.p[i].value = 1;
    int fd = sg_memory_file(data, size, ".json", path);
    if (sg_fit_probe(path, &fit, &status) == SG_OK)
        for (int i = 0; i < SG_M_COUNT; i++)
            if (!(fit.machine.p[i].value > 0) || !isfinite(fit.machine.p[i].value)) abort();
    sg_memory_file_close(fd, path);
    sg_fit_clear(&fit);
    return 0;
}
