/* fit_laws.h: the laws of a run's configurations; used by fit.c. */
#ifndef SG_CALIBRATION_FIT_FIT_LAWS_H
#define SG_CALIBRATION_FIT_FIT_LAWS_H

#include "calibration/fit/fit.h"

/* fit->machine is fitted already: the walk's shape comes from it. What has too few points becomes a note. */
sg_code sg_fit_laws(sg_fit *fit, const sg_point *const *points, size_t n, sg_status *status);
void sg_fit_note(sg_fit *fit, const char *format, ...) SG_PRINTF(2, 3);

#endif
