/* predict_walk.h: one steady iteration of a training on the virtual device, with the derivatives of its phases.
 * For predict.c alone. */
#ifndef SG_CALIBRATION_PREDICT_WALK_H
#define SG_CALIBRATION_PREDICT_WALK_H

#include "kernels/virtual/machine.h"
#include "models/training.h"
#include "sim/phases.h"
#include "sim/walk.h"

typedef struct sg_walked {
    sg_step_times times; /* of one iteration */
    sg_virtual_report report;
    double by_log[SG_PHASE_COUNT][SG_M_COUNT]; /* d host seconds of the phase / d log parameter */
    sg_memory_peak peak;
} sg_walked;

/* Everything fits while walking: peaks are what the training asks for. ranks >= 1. The first iteration brings the
 * optimizer's state into being, so that peaks are those of the second; times and derivatives are the same in both: with
 * `peaks` false one iteration is walked and peak stays zero. */
sg_code sg_predict_walk(const sg_training *training, const sg_machine *machine, sg_bucket_options buckets, int ranks,
                        double env_step_s, bool peaks, sg_walked *walked, sg_status *status);

#endif
