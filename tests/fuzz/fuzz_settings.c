/* Hostile bytes as a policy configuration in YAML. */
#include "calibration/config/settings.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[SG_MEMORY_PATH];
    sg_status status;
    int fd = sg_memory_file(data, size, ".yaml", path);
    sg_settings settings;
    if (sg_settings_read(path, &settings, &status) == SG_OK) sg_settings_clear(&settings);
    sg_memory_file_close(fd, path);
    return 0;
}
