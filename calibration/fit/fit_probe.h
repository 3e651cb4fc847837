/* fit_probe.h: what the framework itself showed on this machine: the probe's file; used by fit.c. */
#ifndef SG_CALIBRATION_FIT_FIT_PROBE_H
#define SG_CALIBRATION_FIT_FIT_PROBE_H

#include "calibration/fit/fit.h"

/* bench/torch_probe.py's file: framework factors by op class (framework seconds / seconds of the fitted machine for the
 * same ops) and host costs. */
sg_code sg_fit_probe(const char *path, sg_fit *fit, sg_status *status);

#endif
