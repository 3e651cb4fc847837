/* measure.h: the measurement protocol (docs/measurement.md). */
#ifndef SG_SIM_MEASURE_H
#define SG_SIM_MEASURE_H

#include "models/policy.h"
#include "sim/point.h"
#include "sim/walk.h"

typedef struct sg_measure_options {
    const char *device;    /* "cpu" (module "cpu") */
    int threads;           /* 0 = all that the affinity mask allows */
    int workers, prefetch; /* loader threads; 0 workers = the frames are made in line */
    int64_t min_iterations, max_iterations, warmup;
    double tight;         /* stop when the median's 95 % interval is within +- this fraction (0.02) */
    double time_budget_s; /* for this point, warm-up included; 0 = none */
    uint64_t seed;
    int rank, ranks;
    const void *bootstrap;    /* communicator bootstrap when ranks > 1 */
    volatile const int *stop; /* set by a signal handler: finish the iteration and return what there is */
    void (*progress)(void *user, double fraction, const char *what);
    void *user;
} sg_measure_options;

/* The configuration under which a point of this request is filed (its key), without running it: so that a resumed
 * measurement knows what it has, and a log's step times can be filed beside ours. `training` is the request built;
 * settings are made canonical: only what differs from the defaults, sorted by key, numbers in shortest form. */
sg_code sg_measure_config(const sg_policy_request *request, const sg_training *training,
                          const sg_measure_options *options, sg_point_config *config, sg_status *status);

/* Builds the policy, runs it and fills *point (sg_point_clear it). SG_NO: does not fit in memory. When *stop was set
 * before min_iterations, SG_MACHINE "interrupted"; the point then holds nothing. */
sg_code sg_measure(const sg_policy_request *request, const sg_measure_options *options, sg_point *point,
                   sg_status *status);
void sg_machine_describe(sg_machine_record *record);

#endif
