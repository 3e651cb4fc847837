/* predict_walk.h: steady iterations of a training on the virtual device, with the derivatives of their phases.
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
    sg_memory_peak peak;                       /* of a steady iteration; everything fits while walking */
} sg_walked;

typedef struct sg_pricer sg_pricer;

/* A walker with a virtual device behind it, for one rank or for several: `several` decides whether gradients are
 * exchanged. The training must outlive the pricer. */
sg_code sg_pricer_open(const sg_training *training, const sg_machine *machine, bool several, sg_bucket_options buckets,
                       double env_step_s, sg_pricer **pricer, sg_status *status);
/* One iteration on this machine (of the device class, and with the kind of allocator, of the first one). */
sg_code sg_pricer_run(sg_pricer *pricer, const sg_machine *machine, int ranks, sg_walked *walked, sg_status *status);
void sg_pricer_close(sg_pricer *pricer);

#endif
