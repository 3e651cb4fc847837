/* Hostile bytes as train_config.json. */
#include "calibration/config/train_config.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[SG_MEMORY_PATH];
    sg_status status;
    int fd = sg_memory_file(data, size, ".json", path);
    sg_train_config config;
    if (sg_train_config_read(path, &config, &status) == SG_OK) sg_train_config_clear(&config);
    sg_memory_file_close(fd, path);
    return 0;
}
