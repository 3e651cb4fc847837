/* step_clock.h: how much slower kernels run inside whole steps than alone: the clock that a GPU sustains over a run, learnt
 * from steps that were measured on it. */
#ifndef SG_CALIBRATION_STEP_CLOCK_H
#define SG_CALIBRATION_STEP_CLOCK_H

#include "calibration/steps/step_case.h"

/* What whole steps say of one GPU. */
typedef struct sg_step_clock {
    size_t rows;
    double stretch, log_sd; /* STEP_STRETCH: 1 with the doubt of the prior where there are no rows */
} sg_step_clock;

/* ln stretch = n / (n + 1) of the mean of ln(measured / predicted), over n rows: one row is believed by half. GPUs differ by
 * about 10 % (8 of them, 53 steps), rows of one GPU by about 6 %. */
sg_step_clock sg_step_clock_of(const double *log_ratio, size_t n);

/* Of the cases of this GPU, as predicted with STEP_STRETCH 1. */
sg_code sg_step_clock_fit(sg_step_cases *cases, const char *machine, sg_step_clock *clock, sg_status *status);

#endif
