/* Hostile text as a training log of any format. */
#include <stddef.h>
#include <stdint.h>

#include "calibration/log/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sg_logs logs;
    sg_status status;
    if (sg_logs_parse((const char *)data, size, "fuzz", &logs, &status) != SG_OK) return 0;
    for (size_t i = 0; i < logs.n; i++) {
        sg_point point;
        sg_point_config config = {.policy = "act", .batch = 1, .ranks = 1};
        if (sg_log_point(&logs.logs[i], &config, "fuzz", &point, &status) == SG_OK) sg_point_clear(&point);
    }
    sg_logs_clear(&logs);
    return 0;
}
