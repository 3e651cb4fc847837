/* measure.h: the measurement protocol (docs/measurement.md). */
#ifndef SG_SIM_MEASURE_MEASURE_H
#define SG_SIM_MEASURE_MEASURE_H

#include "models/policy.h"
#include "sim/measure/point.h"
#include "sim/walk/walk.h"

struct sg_catalogue; /* datasets/catalogue/catalogue.h */
struct sg_transport;

typedef struct sg_measure_options {
    const char *device;      /* "cpu" or "cuda": the module */
    int device_index;        /* cuda: which GPU */
    const double *host_s;    /* cuda: the framework's host time, see sg_device_options; NULL: this program's own host */
    bool heuristic_conv;     /* cuda: convolutions by cuDNN's first proposal; false: the fastest of several, timed */
    bool graph;              /* cuda: the update is recorded once and replayed */
    const char *library_dir; /* cuda: where the CUDA libraries are looked for first; NULL: none */
    int threads;             /* 0 = this rank's share of what the affinity mask allows */
    int workers, prefetch;   /* loader threads; 0 workers = the frames are made in line */
    int64_t min_iterations, max_iterations, warmup; /* counted iterations; warm-up: at least 1 */
    double tight;         /* stop when the median's 95 % interval is within +- this fraction (0.02) */
    double time_budget_s; /* for this point, warm-up included; 0 = none. min_iterations are made all the same */
    /* One rank: what warm-up and min_iterations give way to; 0 = none. One iteration and one in which each op is timed are
     * made in any case; where there is no time for a third, the first of the warm-up is the one that counts. */
    double time_limit_s;
    uint64_t seed;
    /* batches are this data set's, read by worker processes; NULL: synthetic ones */
    const struct sg_catalogue *catalogue;
    const char
        *layer; /* of a data set: "cached" (NULL: too) or "cold", whose files are dropped from the page cache at the
                          start and between epochs. What is said here is done by sg_measure_training but for reading the
                          files once: sg_dataset_make_cached */
    bool pause; /* nothing is computed: the host waits for update_s instead of preprocessing and update */
    double update_s;
    const char *trace; /* JSON file for one traced iteration behind the measured ones (sim/walk/trace.h); NULL: none */
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
/* The same with options.pause: the loader alone, no device. */
sg_code sg_measure_pause(const sg_training *training, const sg_point_config *config, const sg_measure_options *options,
                         sg_point *point, sg_status *status);
/* Bytes that all storages of the training take at most, on a device without a caching allocator. */
uint64_t sg_training_peak_bytes(const sg_training *training);
/* Bytes that a caching allocator reserves for it at most, gradient buckets of several ranks included, without the
 * device's own workspaces: a walk in which nothing is computed. */
sg_code sg_training_reserved_bytes(const sg_training *training, int ranks, uint64_t *bytes, sg_status *status);
/* The largest batch from 1 to `most` that reserves at most `bytes`, by sg_training_reserved_bytes of the policy at several
 * batches; *batch 0: not even 1 does. SG_BAD_INPUT: the policy's batch follows from other settings. */
sg_code sg_measure_largest_batch(const sg_policy_request *request, uint64_t bytes, int64_t most, int64_t *batch,
                                 sg_status *status);

/* Threads of this process when none were asked for: its share of the processors. Ranks whose launcher does not say how many
 * of them are here are taken to be all here; srun gives each task processors of its own. */
int sg_share_of_processors(int ranks);

/* This host. What cannot be found out stays empty or zero. */
void sg_machine_describe(sg_machine_record *record);

#endif
