/* observed.h: what trainings took on a machine, as evidence on its parameters.
 *
 * Maximum a posteriori in log parameters: the machine's values are the prior's means, its covariance (or log sds and groups)
 * the prior's; each observation is one walk's duration. One more number is fitted beside the parameters: a factor on all
 * of the walk's time (framework factors and host costs), whose prior is the model's own error. Where few observations meet
 * many parameters, each moves by its share of the doubt. */
#ifndef SG_CALIBRATION_FIT_OBSERVED_H
#define SG_CALIBRATION_FIT_OBSERVED_H

#include "kernels/virtual/machine.h"

typedef struct sg_observation {
    double seconds;      /* of a step's update (PPO: of learning) */
    double log_sd;       /* of the observation itself */
    int policy;          /* observations of one policy share what the model misses of it */
    double model_log_sd; /* what the model misses of it; by sg_observed_fit */
    double predicted_s;  /* with the prior; by sg_observed_fit */
    double doubt;        /* log sd of it as the prior has it, its own included; by sg_observed_fit */
    double weight;       /* 1, less where it stands apart from all others; by sg_observed_fit */
} sg_observation;

/* Seconds of observation i on this machine, d seconds / d log parameter (SG_M_COUNT), and the model's log sd. */
typedef sg_code (*sg_observed_walk)(const sg_machine *machine, size_t i, double *seconds, double *by_log,
                                    double *model_log_sd, void *user, sg_status *status);

typedef struct sg_observed_fit_result {
    double factor, factor_log_sd; /* on all of the time */
    double shift;                 /* geometric mean of observed / predicted with the prior */
    double left_log;              /* rms of log(observed / fitted) */
} sg_observed_fit_result;

/* *machine: prior in, posterior out, with a covariance; parameters that the observations speak of are "calibrated", framework
 * factors and host costs "observed", with `origin` as source. Host costs take the host's speed into them. */
sg_code sg_observed_fit(sg_machine *machine, sg_observation *observations, size_t n, sg_observed_walk walk, void *user,
                        const char *origin, sg_observed_fit_result *result, sg_status *status);

#endif
