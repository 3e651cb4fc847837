/* walk.h: executes (or prices) the schedule of a training on a device. The walker never asks which device it has. */
#ifndef SG_SIM_WALK_WALK_H
#define SG_SIM_WALK_WALK_H

#include "kernels/device.h"
#include "models/training.h"

struct sg_loader;      /* sim/loader/loader.h; NULL: batches are ready at once */
struct sg_environment; /* sim/walk/environment.h; PPO on an executing device */

/* Gradient buckets as DDP makes them (facts: 1 MiB first, then 25 MiB, registration order reversed). */
typedef struct sg_bucket_options {
    uint64_t first_bytes, bytes;
} sg_bucket_options;

typedef struct sg_walk_options {
    const sg_device_api *api;
    sg_device *device;
    uint64_t seed;
    int rank, ranks;
    sg_comm *comm;             /* NULL with one rank */
    sg_bucket_options buckets; /* zeros: the defaults above */
    struct sg_loader *loader;
    struct sg_environment *environment;
    bool
        placed_storages; /* storages have fixed places in one segment (sim/walk/placement.h) instead of the framework's allocator;
                             reserved bytes are then what is held, and nothing can be kept */
    bool
        graph; /* the main program is recorded once, when optimizer state exists, and replayed from then on (CUDA graphs) */
    bool random_weights;  /* tests: constant weights get a random part too, so that no gradient vanishes by symmetry */
    bool fixed_random;    /* tests: every step sees the batch, noise, time and dropout masks of the first */
    double learning_rate; /* > 0: overrides every optimizer op's lr (tests) */
    /* Called after each reading of the host clock with the sg_phase (sim/walk/phases.h) that the time since the reading before
     * belongs to (-1: to none) and whether the schedule's block collects. May be NULL. */
    void (*phase_passed)(void *user, int phase, bool collecting);
    void *user;
} sg_walk_options;

/* Host intervals between the points where the framework reads the clock, and device intervals. Seconds. */
typedef struct sg_step_times {
    double dataloading_s, preprocessing_s, update_s, step_s;
    double forward_s, backward_s, optimizer_s;      /* device intervals; need not add up */
    double preprocessing_device_s, update_device_s; /* device intervals from the phase's first mark to its last */
    double exposed_sync_s;                          /* time compute waited for gradient buckets */
    /* PPO, per iteration */
    double collection_s, inference_s, environment_s, learning_s, iteration_s;
} sg_step_times;

typedef struct sg_memory_peak {
    uint64_t allocated_bytes, reserved_bytes; /* peaks since the last reset; a CPU has no caching allocator: equal */
    uint64_t largest_free_bytes;              /* largest cached block that is free now */
    uint64_t workspace_bytes; /* the device's own, one buffer for all plans; in neither figure: it differs by device */
    /* where the peak of allocated was */
    int32_t program;
    int64_t entry;
    int32_t module;
    uint8_t pass;
    uint64_t by_role[SG_ROLE_COUNT]; /* allocated by role at that moment */
} sg_memory_peak;

/* What became of the recording of the main program. */
typedef struct sg_walk_graph {
    int64_t recordings, replays;
    int64_t
        moved_waits; /* blocking reads inside the program: they come behind each replay, as a recording cannot wait */
    uint64_t
        reserved_bytes; /* memory of the recordings, held until the walker closes; part of the peak's reserved bytes */
} sg_walk_graph;

typedef struct sg_walker sg_walker;

/* Prepares every unique op, allocates and fills what persists (optimizer state is born in the first optimizer step, as in
 * PyTorch: peaks are steady from the second iteration on). The training, device, comm and loader must outlive it.
 * SG_NO: the persistent part does not fit, or the device refuses an op. */
sg_code sg_walker_open(const sg_training *training, const sg_walk_options *options, sg_walker **walker,
                       sg_status *status);
void sg_walker_close(sg_walker *walker);
/* One training iteration: all blocks of the schedule once. SG_NO when memory ran out. After any failure everything that
 * does not persist has been given back; the walker can be closed, or tried again. times may be NULL. */
sg_code sg_walker_iteration(sg_walker *walker, sg_step_times *times, sg_status *status);
/* Runs one program once (tests, exposed sync without communication). */
sg_code sg_walker_program(sg_walker *walker, size_t program, sg_status *status);
/* With communication off, gradients stay local: the same iteration without the exchange. */
void sg_walker_set_communication(sg_walker *walker, bool on);
void sg_walker_peak(const sg_walker *walker, sg_memory_peak *peak);
/* Marks (sim/walk/phases.h) of the last iteration, in order, with the events that tell when they happened on the compute stream;
 * valid until the next iteration. */
const struct sg_mark_event *sg_walker_marks(const sg_walker *walker, size_t *n);
/* Zeros without options.graph. Replayed iterations have no forward_s, backward_s and optimizer_s: the parts of a recording
 * are not timed; update_device_s is. */
void sg_walker_graph(const sg_walker *walker, sg_walk_graph *graph);
void sg_walker_reset_peak(sg_walker *walker);
/* Cached memory goes back to the device (torch.cuda.empty_cache()): what comes next allocates anew. */
void sg_walker_trim(sg_walker *walker);
/* Reads or writes a live tensor as doubles in row-major order (executing devices). SG_BAD_INPUT when it is not live. */
sg_code sg_walker_read(sg_walker *walker, int32_t tensor, double *out, size_t count, sg_status *status);
sg_code sg_walker_write(sg_walker *walker, int32_t tensor, const double *values, size_t count, sg_status *status);
/* Keeps a storage alive from its allocation until the next iteration or program starts so that tests can read it.
 * SG_BAD_INPUT where storages have fixed places or are recorded. */
sg_code sg_walker_keep(sg_walker *walker, int32_t tensor, sg_status *status);
/* Seconds and executions of one iteration by unique op: [training->n_ops] each, set by sg_walker_profile. */
typedef struct sg_op_profile {
    double *seconds, *runs;
} sg_op_profile;
/* One iteration in which every op is waited for and timed. Slower than a plain one. */
sg_code sg_walker_profile(sg_walker *walker, const sg_op_profile *profile, sg_status *status);
/* Wall-clock seconds that the walker itself spent (walking, allocating), not the device's functions. An estimate: one
 * stretch between two launches in 17 is timed. */
double sg_walker_own_s(const sg_walker *walker);
/* Trace of (entry, pointer-independent) visits as a 64-bit hash: equal walks visit the same entries in the same order. */
uint64_t sg_walker_visit_hash(const sg_walker *walker);

#endif
