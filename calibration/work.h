/* work.h: what one iteration of a training runs, as counts of its unique ops, and what that costs by op class. */
#ifndef SG_CALIBRATION_WORK_H
#define SG_CALIBRATION_WORK_H

#include "kernels/virtual/machine.h"
#include "models/training.h"
#include "sim/point.h"

/* count[training->n_ops]: executions per iteration (all blocks of the schedule once). */
void sg_work_counts(const sg_training *training, double *count);

/* Seconds by op class on a machine, framework factors left out, and d seconds / d log parameter:
 * gradient[SG_CLASS_COUNT * SG_M_COUNT] or NULL. */
sg_code sg_work_class_seconds(const sg_training *training, const double *count, const sg_machine *machine,
                              double *seconds, double *gradient, sg_status *status);

/* The training that a recorded point ran, rebuilt from its configuration. */
sg_code sg_work_rebuild(const sg_point_config *config, sg_training **training, sg_status *status);

#endif
