/* Hostile text as a LeRobot training log. */
#include <stddef.h>
#include <stdint.h>

#include "calibration/log_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sg_log log;
    sg_status status;
    if (sg_log_parse((const char *)data, size, "fuzz", &log, &status) == SG_OK) {
        sg_point point;
        sg_point_config config = {.policy = "act", .batch = log.batch > 0 ? log.batch : 1, .ranks = 1};
        if (sg_log_point(&log, &config, "fuzz", &point, &status) == SG_OK) sg_point_clear(&point);
        sg_log_clear(&log);
    }
    return 0;
}
