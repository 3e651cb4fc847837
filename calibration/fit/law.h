/* law.h: fitting laws; used by fit.c. */
#ifndef SG_CALIBRATION_FIT_LAW_H
#define SG_CALIBRATION_FIT_LAW_H

#include "calibration/fit/fit.h"

/* One measured pair of a law: x, y > 0, log sd of y. */
typedef struct sg_law_point {
    double x, y, log_sd;
} sg_law_point;

/* Chooses among `kinds` (bit k = sg_law_kind k) the one whose left-out error is least, among those with two points more
 * than fitted terms. shape: w0, w1 of SG_LAW_WALK, or NULL. False when none has enough points: *needed is how many. */
bool sg_law_choose(const sg_law_point *points, size_t n, unsigned kinds, const double *shape, sg_law *law,
                   size_t *needed);

#endif
