/* fit_observed.h: training logs as evidence on the machine they ran on; used by fit.c. */
#ifndef SG_CALIBRATION_FIT_FIT_OBSERVED_H
#define SG_CALIBRATION_FIT_FIT_OBSERVED_H

#include "calibration/fit/fit.h"

/* Observed points adjust fit->machine (calibration/fit/observed.h): efficiencies and host costs by update_s (PPO: learning_s), the
 * time of a frame by dataloading_s where the loader limits (a bound where it keeps up), workspaces by the allocator's peak.
 * Points of other machines or frameworks, without an update's time, or of policies that cannot be built are left out, and
 * disturbed ones count less; notes say which and why. */
sg_code sg_fit_observed(const sg_point *points, size_t n, sg_fit *fit, sg_status *status);

#endif
