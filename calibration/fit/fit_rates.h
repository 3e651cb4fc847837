/* fit_rates.h: the machine's efficiencies from measured class times; used by fit.c. */
#ifndef SG_CALIBRATION_FIT_FIT_RATES_H
#define SG_CALIBRATION_FIT_FIT_RATES_H

#include "calibration/fit/fit.h"

/* Maximum a posteriori: log parameters have the machine's values as prior means and its log sds as prior sds; each
 * (point, class) with at least 0.2 % of the point's time is an observation. Sets values, log sds, evidence and the
 * covariance of *machine. `points` without class times are passed over; SG_BAD_INPUT when none has any. */
sg_code sg_fit_rates(const sg_point *const *points, size_t n, const char *origin, sg_machine *machine,
                     sg_status *status);

#endif
