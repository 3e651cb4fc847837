/* predict.h: what a training needs on a machine: a walk of its program on the virtual device, with intervals. */
#ifndef SG_CALIBRATION_PREDICT_PREDICT_H
#define SG_CALIBRATION_PREDICT_PREDICT_H

#include "calibration/statistics/figure.h"
#include "models/policy.h"

struct sg_fit;               /* calibration/fit/fit.h */
struct sg_law;               /* calibration/fit/fit.h */
struct sg_framework_numbers; /* calibration/machine/framework_file.h */

typedef struct sg_predict_options {
    double interval;    /* 0 = 0.9 */
    int ranks, workers; /* data-parallel processes (0 = 1); loader workers per process */
    int64_t batch;      /* > 0: in place of the request's */
    int prefetch;       /* batches per loader worker; 0 = 4 */
    bool batches_ready; /* the loader keeps up, whatever it has to do: dataloading_s is handing over alone */
    bool cameras_known, host_known, language_known; /* false: widened by the unknown-inputs part */
    const char *config_dir;                         /* NULL: searched (calibration/config/config_dir.h) */
    bool graph;                                     /* the update is captured once and replayed (CUDA graphs) */
    const char *trace; /* a file for the walk call by call (sim/walk/trace.h); NULL: none */
    /* Laws of this machine, or NULL: where one covers the configuration, it stands instead of the walk's update time. */
    const struct sg_fit *fit;
    /* The data that is loaded as sg_catalogue_describe tells it, and whether its files are "cached" or "cold" (NULL: as
     * measured, cached before cold); NULL: AV1 video of the policy's size. */
    const char *dataset, *layer;
    const char *video_backend; /* of the framework's loader: "torchcodec" (NULL), "pyav" */
    double processors;         /* of the host; 0: the machine's vcpus */
    /* PPO: what the simulator needs for a step (calibration/environment/environment_law.h), or NULL: the machine's env_step_s.
     * Where the policy sets env_step_us, that stands. Elsewhere: its logs are of another machine, which widens it as the
     * same simulator on another GPU and CPU. */
    const struct sg_law *environment;
    bool environment_elsewhere;
    bool paused; /* a pause of pause_s stands in place of preprocessing and update: the loader alone */
    double pause_s;
    /* The framework's numbers, or NULL: those of configs/frameworks/. */
    const struct sg_framework_numbers *framework;
} sg_predict_options;

/* What a loader does in steady state (loader/loader_clock.h): of one process, per step. `modelled` false: nothing is decoded. */
typedef struct sg_loader_outlook {
    bool modelled;
    double wait_p50_s, wait_p90_s, wait_p99_s, wait_max_s, stalled_share; /* dataloading_s; steps that stall */
    double stall_every; /* steps from stall to stall, the number of workers where they come in bursts; 0: none */
    double first_batch_s, epoch_end_s;
    sg_figure samples_per_s;     /* that it could feed; all processes */
    double demand_samples_per_s; /* that the device could take; all processes */
    double processors;           /* that one process and its workers have; 0: unknown, as many as they need */
    int workers_needed;          /* on these processors; 0: no number keeps up */
    int processors_needed;       /* of one process, each with a worker; 0: no number keeps up */
    double
        decoded_samples_per_s; /* that decoded frames (raw) in place of this codec would lift it to; 0: they are raw */
    double batch_cpu_s;        /* of a worker that runs alone */
    double update_stretch;     /* update_s / without workers beside it */
    bool by_framework;         /* the framework's own loader: its frame / ours, frame_factor; false: ours */
    double frame_factor;
    char source[256]; /* what the loader's cost rests on */
} sg_loader_outlook;

/* Times are per step as the framework counts them: one micro-batch (accumulation k: k steps to one optimizer step). */
typedef struct sg_prediction {
    sg_figure step_s, update_s, dataloading_s, preprocessing_s, samples_per_s; /* PPO: value NAN */
    sg_figure peak_allocated_bytes, peak_reserved_bytes, device_bytes;
    /* PPO, per iteration; elsewhere value NAN */
    sg_figure collection_s, inference_s, environment_s, learning_s, iteration_s, env_steps_per_s;
    double forward_s, backward_s, optimizer_s, exposed_sync_s, device_busy_share;
    bool captured;                              /* the update is dispatched as one: its parts are not told apart (0) */
    sg_evidence device_evidence, host_evidence; /* of the device's times and of the host's: steps rest on both */
    int64_t batch;                              /* samples per process and micro-step, as built; PPO: of a mini-batch */
    double class_s[SG_CLASS_COUNT];             /* compute stream, per step (PPO: per iteration) */
    double update_by_log[SG_M_COUNT];           /* d update_s (PPO: learning_s) / d log parameter of the machine */
    char limited_by[32];       /* "compute", "memory bandwidth", "launch", "loader", "communication", "environment" */
    char limited_by_text[256]; /* with the share that shows it: "launch-bound: the GPU idles 70 % of the step" */
    sg_loader_outlook loader;
    bool fits; /* device_bytes.high <= memory of the machine; true where that is not stated (warned) */
    char warnings[8][256];
    size_t n_warnings;
} sg_prediction;

/* request->device_class and ->ranks are taken from the machine and the options. SG_NO: the machine lacks a parameter that
 * the training needs. A training that does not fit is no failure: `fits` says so. With a fit, `machine` is its machine. */
sg_code sg_predict(const sg_policy_request *request, const sg_machine *machine, const sg_predict_options *options,
                   sg_prediction *prediction, sg_status *status);

/* The same for many machines, ranks and batches: each batch is built and walked once, its unique ops are priced once for each
 * of the machines asked for lately. One thread at a time. The request and its settings must outlive the predictor, and what
 * a machine points to must stay as it is. */
typedef struct sg_predictor sg_predictor;
sg_code sg_predictor_open(const sg_policy_request *request, const char *config_dir, sg_predictor **predictor,
                          sg_status *status);
sg_code sg_predictor_run(sg_predictor *predictor, const sg_machine *machine, const sg_predict_options *options,
                         sg_prediction *prediction, sg_status *status);
void sg_predictor_close(sg_predictor *predictor);
/* The training with the request's batch, as a machine of this device class runs it; owned by the predictor. */
sg_code sg_predictor_training(sg_predictor *predictor, const sg_machine *machine, const sg_training **training,
                              sg_status *status);

/* Device class whose lowering a machine runs: "cpu" alone is SG_DEVICE_CLASS_CPU. */
sg_device_class sg_machine_device_class(const sg_machine *machine);

/* Machines: by name from the configuration folder (as sg_machine_name_find takes it), or a path to a YAML data sheet or a
 * fitted machine file (.h5). Errors list near names. */
sg_code sg_machine_load(const char *name_or_path, const char *config_dir, sg_machine *machine, sg_status *status);
sg_code sg_machine_save(const char *path, const sg_machine *machine, sg_status *status);

#endif
