/* fit_loaders.h: loader laws of a run's measured points, and the machine's loader parameters from them; used by fit.c. */
#ifndef SG_CALIBRATION_FIT_LOADERS_H
#define SG_CALIBRATION_FIT_LOADERS_H

#include "calibration/fit/fit.h"

/* One law per data set and layer into fit->loaders. Where the codec's cost is known (configs/loaders.yaml) the machine's
 * frame_s, sample_s, contention and handover follow, so that other data sets are predicted too. */
sg_code sg_fit_loaders(const sg_point *const *points, size_t n, const char *origin, sg_fit *fit, sg_status *status);

/* What `bench decode` timed, each codec, size and distance of key frames a law (sg_loader_decode_text), behind those of data
 * sets. Where no data set was measured, the machine's frame_s and loader_sigma follow from it. */
sg_code sg_fit_decodes(const sg_run *run, const char *origin, sg_fit *fit, sg_status *status);

/* update_s of the point / what it would be had no worker run beside it. 1 where workers cannot slow it. */
sg_code sg_loader_stretch(const sg_fit *fit, const sg_point *point, double *stretch, sg_status *status);

/* A pause stood in for the update: the point tells of its loader alone. */
bool sg_point_is_paused(const sg_point *point);

#endif
