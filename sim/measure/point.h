/* point.h: one measured point: a configuration, the conditions, and what was seen. The unit of every run file. */
#ifndef SG_SIM_MEASURE_POINT_H
#define SG_SIM_MEASURE_POINT_H

#include "kernels/op.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_statistic {
    double median, mean, low, high; /* low, high: 95 % confidence interval of the median (order statistics) */
} sg_statistic;

typedef enum sg_quantity {
    SG_Q_DATALOADING,
    SG_Q_PREPROCESSING,
    SG_Q_UPDATE,
    SG_Q_STEP,
    SG_Q_FORWARD,
    SG_Q_BACKWARD,
    SG_Q_OPTIMIZER,
    SG_Q_EXPOSED_SYNC,
    SG_Q_PREPROCESSING_DEVICE,
    SG_Q_UPDATE_DEVICE,
    SG_Q_COLLECTION,
    SG_Q_INFERENCE,
    SG_Q_ENVIRONMENT,
    SG_Q_LEARNING,
    SG_Q_ITERATION,
    SG_Q_COUNT
} sg_quantity;
/* "dataloading_s", "preprocessing_s", ... */
const char *sg_quantity_name(sg_quantity q);

enum { SG_NAME_BYTES = 96, SG_PREFETCH = 4 /* LeRobot's prefetch_factor (LeRobot 0.4, 2025) */ };

/* What was asked for. Hashed (FNV-1a over the canonical JSON) to the point's key. */
typedef struct sg_point_config {
    char policy[SG_NAME_BYTES];    /* "act" */
    char framework[SG_NAME_BYTES]; /* "pytorch-eager" */
    char device[16];               /* "cpu" */
    char precision[16];
    char host[16];      /* "native" or "emulated" */
    int64_t host_op_ns; /* emulated: nanoseconds that host takes for a forward op: whose it is; else 0 */
    char execution
        [64]; /* how it ran where it matters: "cuda-graph;heuristic-conv;sharding-full"; "pause=0.05": see sg_point_pauses;
                 "" as the framework runs it */
    char settings[2048]; /* canonical "key=value;key=value" of everything that differs from the defaults */
    int64_t batch, ranks, accumulation, threads, workers;
    int64_t prefetch; /* batches per loader worker, where it is not SG_PREFETCH; else 0 */
    int64_t envs, steps_per_env;
    int64_t cameras, image_height, image_width;
    char dataset
        [160]; /* of real data: "lerobot-v3.0;av1;480x640;gop=2;cameras=2;name=pusht", see sg_catalogue; of a PPO log "environment=NAME"; "" synthetic */
    char layer
        [16]; /* of real data: "cached" (its files were read before) or "cold" (they come from the disk); else "" */
    uint64_t seed;
} sg_point_config;

/* What the loader of a measured point did, over its counted iterations; all 0 where batches were synthetic (but for
 * update_s, the waits and stalled_share where a pause stood in for the update). Seconds of a worker are of one process. */
typedef struct sg_loader_record {
    int64_t batches, frames, frames_decoded; /* decoded: with those on the way from a key frame */
    int64_t bytes_read;                      /* from the data set's files, cached or not */
    double frame_cpu_s,
        frame_s;         /* processor and wall-clock seconds of one frame that was asked for: median over batches */
    double sample_cpu_s; /* processor seconds per sample beside its frames: tables, collation */
    double batch_s, batch_cpu_s; /* means of a worker, per batch */
    double batch_log_sd;         /* of batch_s from batch to batch */
    double first_batch_s;        /* from the start of the workers to the first batch */
    int64_t epochs;              /* boundaries of epochs that were crossed: the queue runs dry at each */
    double epoch_s;              /* mean wait at an epoch's boundary; 0: none was crossed */
    double stalled_share;        /* steps that waited longer than a tenth of the median step */
    double wait_p50_s, wait_p90_s, wait_p99_s, wait_max_s;
    double step_cpu_s;    /* processor seconds of the training process itself, without its workers, per step */
    double update_s;      /* seconds that a given pause stood in for the update (--update-s); else 0 */
    int64_t worker_bytes; /* memory of a worker that it shares with nobody, at the end: the largest */
    int64_t processors;   /* that this process and its workers might run on */
    int64_t prefetch;
} sg_loader_record;

/* What the driver told of this rank's GPU while its iterations were counted. What it did not tell is 0 or
 * "": everything on a device that is no GPU, and in files older than these fields. */
typedef struct sg_gpu_conditions {
    double sm_clock_mhz, memory_clock_mhz; /* medians of the samples */
    double temperature_c;                  /* highest */
    double power_w, power_limit_w;         /* mean, and what is allowed */
    int64_t samples;                       /* times that it was asked */
    int64_t other_processes;               /* at most, beside this one */
    int64_t pcie_generation, pcie_width;   /* highest seen: an idle link goes down by itself */
    char name[SG_NAME_BYTES];
    char driver[32], bus[32]; /* "580.65.06", "00000000:3B:00.0" */
    char libraries[160];      /* "CUDA 13.0, cuBLAS 13.0.2, ..." as the device tells */
    char throttle[160];       /* why clocks were held back, every reason seen: "power cap, thermal (hardware)" */
} sg_gpu_conditions;

typedef struct sg_point {
    sg_point_config config;
    uint64_t key;
    int64_t iterations, warmup;
    sg_statistic q[SG_Q_COUNT]; /* seconds */
    double *raw[SG_Q_COUNT];    /* per iteration, this rank's; NULL when not recorded */
    /* update_s of every rank, rank by rank: config.ranks x iterations; NULL with one rank or when not recorded */
    double *rank_update_s;
    double samples_per_s, env_steps_per_s;
    uint64_t peak_allocated_bytes, peak_reserved_bytes, resident_bytes;
    double rank_spread; /* (slowest - fastest) / median of ranks' update_s */
    bool disturbed;
    char disturbed_why[256];
    bool fits_rates; /* false: bf16 computed in fp32 and the like, never used to fit rates */
    double load_average, clock_mhz;
    double other_processors, withheld_share; /* as sg_host_others; 0 in older files */
    char source[16];                         /* "measured", "observed" (a log, the probe) */
    char origin[256];                        /* file, date */
    /* the program's work per optimizer step, so that a fit needs no policy: by op class */
    double flops, bytes;
    int64_t ops_forward, ops_backward;
    /* Seconds per iteration spent in ops of each class, from iterations in which every op was timed; NAN: not recorded.
     * What the machine's efficiencies are fitted to. */
    double class_s[SG_CLASS_COUNT];
    /* The same by unique op, in the order of the program whose hash is ops_hash (sg_training_ops_hash): seconds of one
     * execution, NAN where an op is not executed. NULL: not recorded. */
    double *op_s;
    int64_t n_ops;
    uint64_t ops_hash;
    double frame_s; /* decode of one camera frame by one loader worker, NAN: none */
    sg_loader_record loader;
    sg_gpu_conditions gpu;
} sg_point;

/* Nothing was computed: a given pause stood in for preprocessing and update (execution "pause=SECONDS"). Such a point tells of
 * a loader, and nothing of a machine's rates or a policy's update. */
bool sg_point_pauses(const sg_point_config *config);

void sg_point_clear(sg_point *point); /* frees raw, rank_update_s and op_s */
uint64_t sg_point_key(const sg_point_config *config);
/* Median, mean and 95 % interval of the median of n values; n >= 1. */
sg_statistic sg_statistic_of(const double *values, size_t n);

typedef struct sg_machine_record {
    char hostname[SG_NAME_BYTES], cpu[SG_NAME_BYTES], device[SG_NAME_BYTES], os[SG_NAME_BYTES];
    char library[SG_NAME_BYTES], program_version[32];
    int64_t cores, threads, memory_bytes;
    double clock_mhz;
    /* GPUs as the driver tells of them; 0 and "" where there are none */
    int64_t gpus, gpu_memory_bytes;                            /* memory: of the smallest */
    char gpu[SG_NAME_BYTES], gpu_driver[32], gpu_topology[32]; /* names, connections: each once, by commas */
} sg_machine_record;

#endif
