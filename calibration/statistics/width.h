/* width.h: how far predictions of each kind have been from the truth: the model part of an interval, and what a
 * duration rests on. */
#ifndef SG_CALIBRATION_STATISTICS_WIDTH_H
#define SG_CALIBRATION_STATISTICS_WIDTH_H

#include "calibration/statistics/figure.h"

/* What decides a step's time. */
typedef enum sg_limit {
    SG_LIMIT_COMPUTE,
    SG_LIMIT_BANDWIDTH,
    SG_LIMIT_LAUNCH,
    SG_LIMIT_LOADER,
    SG_LIMIT_COMMUNICATION,
    SG_LIMIT_ENVIRONMENT,
    SG_LIMIT_COUNT
} sg_limit;

/* "compute", "memory bandwidth", "launch", "loader", "communication", "environment" */
const char *sg_limit_name(sg_limit limit);

/* Log sd beyond the parameters' own doubt. */
double sg_width(sg_limit limit, sg_evidence evidence);
/* ... of one collective over a vector of this size, beyond the link parameters' own doubt. */
double sg_width_of_collective(const sg_machine *machine, double bytes);

/* Shares of a duration by what it is spent on, from its derivatives by log parameter: share[SG_LIMIT_COUNT], summing to
 * about 1 less what no parameter touches. */
void sg_limit_shares(const double *by_log, double seconds, double *share);
sg_limit sg_limit_largest(const double *share);

/* Evidence of a duration: the weakest tier that, with all weaker ones, makes 10 % of it or more. */
sg_evidence sg_evidence_of(const sg_machine *machine, const double *by_log, double seconds);

#endif
