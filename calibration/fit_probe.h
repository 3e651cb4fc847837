/* fit_probe.h: what the framework itself showed on this machine: the probe's file, and logs; used by fit.c. */
#ifndef SG_CALIBRATION_FIT_PROBE_H
#define SG_CALIBRATION_FIT_PROBE_H

#include "calibration/fit.h"

/* bench/torch_probe.py's file: framework factors by op class (framework seconds / seconds of the fitted machine for the
 * same ops) and host costs. */
sg_code sg_fit_probe(const char *path, sg_fit *fit, sg_status *status);

/* Observed step times (logs): a common factor on the framework factors and the host cost of this machine, as one Bayesian
 * update of the walk of each observed configuration. */
sg_code sg_fit_observed(const sg_point *points, size_t n, sg_fit *fit, sg_status *status);

#endif
