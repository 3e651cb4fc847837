/* Hostile bytes as meta/info.json of a data set. */
#include "datasets/catalogue/dataset.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[SG_MEMORY_PATH];
    sg_status status;
    int fd = sg_memory_file(data, size, ".json", path);
    sg_dataset dataset;
    (void)sg_dataset_read(path, &dataset, &status);
    sg_memory_file_close(fd, path);
    return 0;
}
