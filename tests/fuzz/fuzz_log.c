/* Hostile text as a training log of any format. */
#include <stddef.h>
#include <stdint.h>

#include "calibration/explain/explain.h"
#include "calibration/forecast/forecast.h"
#include "calibration/log/log.h"
#include "calibration/validate/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sg_logs logs;
    sg_status status;
    if (sg_logs_parse((const char *)data, size, "fuzz", &logs, &status) != SG_OK) return 0;
    for (size_t i = 0; i < logs.n; i++) {
        sg_point point;
        sg_point_config config = {.policy = "act", .batch = 1, .ranks = 1};
        sg_forecast forecast;
        (void)sg_forecast_make(&logs.logs[i], &(sg_forecast_options){.to_step = 1e6}, &forecast, &status);
        sg_explanation explanation;
        if (sg_explain(&(sg_explain_facts){.log = &logs.logs[i]}, &explanation, &status) == SG_OK)
            sg_explanation_clear(&explanation);
        if (sg_log_point(&logs.logs[i], &config, "fuzz", &point, &status) == SG_OK) sg_point_clear(&point);
    }
    sg_validation validation = {0};
    (void)sg_validate_logs(&logs, "fuzz", &(sg_validate_options){.interval = 0.9}, &validation, &status);
    sg_validation_clear(&validation);
    sg_logs_clear(&logs);
    return 0;
}
