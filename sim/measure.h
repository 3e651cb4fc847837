/* measure.h: the measurement protocol (docs/measurement.md). */
#ifndef SG_SIM_MEASURE_H
#define SG_SIM_MEASURE_H

#include "models/policy.h"
#include "sim/point.h"
#include "sim/walk.h"

struct sg_transport;

typedef struct sg_measure_options {
    const char *device;                             /* "cpu" (module "cpu") */
    int threads;                                    /* 0 = this rank's share of what the affinity mask allows */
    int workers, prefetch;                          /* loader threads; 0 workers = the frames are made in line */
    int64_t min_iterations, max_iterations, warmup; /* counted iterations; warm-up: at least 1 */
    double tight;         /* stop when the median's 95 % interval is within +- this fraction (0.02) */
    double time_budget_s; /* for this point, warm-up included; 0 = none. min_iterations are made all the same */
    uint64_t seed;
    int rank, ranks;
    struct sg_transport *bootstrap; /* what connects the ranks when there are several (kernels/transport.h) */
    volatile const int *stop;       /* set by a signal handler: finish the iteration and return what there is */
    void (*progress)(void *user, double fraction, const char *what);
    void *user;
} sg_measure_options;

/* Builds the policy, runs it and fills *point (sg_point_clear it). SG_NO: does not fit in memory. When *stop was set
 * before min_iterations, SG_MACHINE "interrupted"; the point then holds nothing. With ranks > 1 every rank calls it with
 * equal options; each gets its own times, rank 0 also the spread over the ranks. */
sg_code sg_measure(const sg_policy_request *request, const sg_measure_options *options, sg_point *point,
                   sg_status *status);
/* What sg_measure records as the point's configuration; its key is sg_point_key of it. `training` is the built policy. */
sg_code sg_measure_config(const sg_policy_request *request, const sg_training *training,
                          const sg_measure_options *options, sg_point_config *config, sg_status *status);
/* The part of sg_measure after the policy was built and the device's functions found. */
sg_code sg_measure_training(const sg_training *training, const sg_device_api *api, const sg_point_config *config,
                            const sg_measure_options *options, sg_point *point, sg_status *status);
/* Bytes that all storages of the training take at most, on a device without a caching allocator. */
uint64_t sg_training_peak_bytes(const sg_training *training);

/* This host. What cannot be found out stays empty or zero. */
void sg_machine_describe(sg_machine_record *record);

#endif
