/* measure_profile.h: iterations in which each op is timed by itself. */
#ifndef SG_SIM_MEASURE_PROFILE_H
#define SG_SIM_MEASURE_PROFILE_H

#include "sim/measure/point.h"
#include "sim/walk/walk.h"

enum { SG_PROFILES_MOST = 3 };

/* Runs 1 to SG_PROFILES_MOST such iterations and sets the point's class_s and op_s (seconds, medians over them), n_ops and
 * ops_hash. SG_MACHINE: no memory, or the device failed. */
sg_code sg_measure_profile(sg_walker *walker, const sg_training *training, int n, sg_point *point, sg_status *status);

#endif
