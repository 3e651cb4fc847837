/* environment_law.h: what a simulator needs for one step of all environments of a process, as a law over their number.
 *
 * collection_s = steps_per_env x (c0 + c1 x environments), the policy's inference in it: c0 is the part of a step that does not
 * depend on their number (one CPU core, launches), 1 / c1 the environment steps a second that it comes to at most. c0 and c1
 * are found together: the simulator's prior and the logs' points, maximum a posteriori in logs. So one point alone moves both
 * by what the prior leaves open, and two or more tell them apart. Facts and widths: published PPO logs and scaling tables of
 * Isaac Lab, mjlab and Isaac Gym, 2024 to 2026. */
#ifndef SG_CALIBRATION_ENVIRONMENT_ENVIRONMENT_LAW_H
#define SG_CALIBRATION_ENVIRONMENT_ENVIRONMENT_LAW_H

#include "calibration/fit/fit.h"

/* One number of environments per process, as a log shows it. */
typedef struct sg_environment_point {
    double envs, step_s; /* collection_s / steps_per_env */
} sg_environment_point;

/* Simulator that a task's name begins with ("isaac-lab/g1-rough", "mjlab-go1"): "isaac-lab", "mjlab" or "isaac-gym"; "" none of
 * them. */
const char *sg_environment_simulator(const char *task);

/* Law of quantity "collection_step_s" over environments per process. n = 0: the prior alone. SG_BAD_INPUT: a point that is
 * not positive. */
sg_code sg_environment_fit(const char *task, const sg_environment_point *points, size_t n, sg_law *law,
                           sg_status *status);

/* A law for each task among the observed PPO points (sg_point_config.dataset "environment=NAME"), appended to fit->laws. */
sg_code sg_fit_environments(const sg_point *observed, size_t n, sg_fit *fit, sg_status *status);

/* The fit's law of this task; task NULL: of the only one it has. NULL: none. */
const sg_law *sg_environment_find(const sg_fit *fit, const char *task);

/* "environment=NAME" for sg_point_config.dataset, and back; "" where there is none. */
void sg_environment_mark(const char *task, char *dataset, size_t bytes);
const char *sg_environment_task(const char *dataset);

/* Environments from which on the fixed part is less than a tenth of a step: more of them bring hardly more a second. */
double sg_environment_saturation(const sg_law *law);

#endif
