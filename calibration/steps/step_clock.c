/* step_clock.c: the clock that a GPU sustains over a run. */
#include "calibration/steps/step_clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double GPU_LOG_SD = 0.10, ROW_LOG_SD = 0.06;

sg_step_clock sg_step_clock_of(const double *log_ratio, size_t n) {
    sg_step_clock clock = {.rows = n, .stretch = 1, .log_sd = GPU_LOG_SD};
    if (n == 0) return clock;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += log_ratio[i];
    clock.stretch = exp(sum / (double)(n + 1));
    clock.log_sd = 1 / sqrt(1 / (GPU_LOG_SD * GPU_LOG_SD) + (double)n / (ROW_LOG_SD * ROW_LOG_SD));
    return clock;
}

sg_code sg_step_clock_fit(sg_step_cases *cases, const char *machine, sg_step_clock *clock, sg_status *status) {
    double *log_ratio = calloc(cases->n + 1, sizeof *log_ratio);
    if (!log_ratio) return sg_fail_memory(status, cases->n * sizeof *log_ratio, "the clock inside steps");
    size_t n = 0;
    sg_code code = SG_OK;
    for (size_t i = 0; i < cases->n && !code; i++) {
        sg_step_case *one = &cases->items[i];
        double seconds;
        if (one->skipped[0] || strcmp(one->machine.name, machine) != 0) continue;
        sg_machine alone = one->machine;
        alone.p[SG_M_STEP_STRETCH].value = 1;
        code = sg_step_case_predict(one, &alone, &seconds, NULL, status);
        if (!code) log_ratio[n++] = log(one->measured_s / seconds);
    }
    *clock = sg_step_clock_of(log_ratio, n);
    free(log_ratio);
    return code;
}
