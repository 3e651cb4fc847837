/* work.h: what one iteration of a training runs, as counts of its unique ops, and what that costs by op class. */
#ifndef SG_CALIBRATION_PREDICT_WORK_H
#define SG_CALIBRATION_PREDICT_WORK_H

#include "kernels/virtual/machine.h"
#include "models/policy.h"
#include "sim/measure/point.h"

/* count[training->n_ops]: executions per iteration (all blocks of the schedule once). */
void sg_work_counts(const sg_training *training, double *count);

/* Seconds by op class on a machine, framework factors left out, and d seconds / d log parameter:
 * gradient[SG_CLASS_COUNT * SG_M_COUNT] or NULL. */
sg_code sg_work_class_seconds(const sg_training *training, const double *count, const sg_machine *machine,
                              double *seconds, double *gradient, sg_status *status);

/* The request that a recorded point answered. It points into itself: do not copy it. */
typedef struct sg_work_request {
    sg_policy_request policy;
    char text[sizeof(((sg_point_config *)0)->settings)], name[SG_NAME_BYTES], precision[16];
    sg_setting settings[130];
    char envs[24], steps_per_env[24];
} sg_work_request;
void sg_work_request_of(const sg_point_config *config, sg_work_request *request);

/* The training that a recorded point ran, rebuilt from its configuration. */
sg_code sg_work_rebuild(const sg_point_config *config, sg_training **training, sg_status *status);

#endif
