/* log.h: training logs as people have them, read into windows, events and what the log says of its configuration.
 *
 * A file is read once, in memory that does not grow with its size, and holds one or several runs. Formats:
 *   lerobot-2024     "step:.. smpl:.. .. updt_s:.. data_s:..": the values of that one step (before 2025-02-11)
 *   lerobot-2025     the same line: means since the line before; of rank 0
 *   lerobot-2026-06  with smp/s and mem_gb: maximum over ranks; data_s still holds the preprocessing
 *   lerobot-2026-08  "data_s prep_s updt_s step_s": each apart
 *   wandb-csv, wandb-json   exports of the keys "train/update_s", "train/dataloading_s", ...
 *   rsl_rl-old       "Computation: N steps/s (collection: Cs, learning Ls)"; Isaac Lab and legged_gym print it
 *   rsl_rl-new       "Collection time:", "Learning time:" (since 2025-11-28); mjlab and Isaac Lab
 *   rl_games         "fps step: .. fps total: N epoch: i/n"
 *   openpi           "Step N: grad_norm=.., loss=.." with tqdm, tqdm_loggable or "steps_per_sec="; PyTorch: "step=N loss=.. time=Ts"
 *   hf-trainer       {'loss': .., 'epoch': ..} and {'train_runtime': ..} with tqdm
 *   brax             "time to jit:", "time to train:" and metrics "training/sps" */
#ifndef SG_CALIBRATION_LOG_LOG_H
#define SG_CALIBRATION_LOG_LOG_H

#include "kernels/status.h"
#include "sim/measure/point.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a window may tell; NAN where its line does not. */
typedef enum sg_log_field {
    SG_LOG_UPDATE_S,
    SG_LOG_DATALOADING_S,
    SG_LOG_PREPROCESSING_S,
    SG_LOG_STEP_S,
    SG_LOG_PEAK_BYTES,
    SG_LOG_SAMPLES_PER_S,
    SG_LOG_COLLECTION_S,
    SG_LOG_LEARNING_S,
    SG_LOG_ITERATION_S,
    SG_LOG_ENV_STEPS_PER_S,
    SG_LOG_FIELDS
} sg_log_field;
/* "update_s", "dataloading_s", .. as in the JSON. */
const char *sg_log_field_name(sg_log_field field);

typedef struct sg_log_window {
    double value[SG_LOG_FIELDS];
    double step, step_low, step_high; /* equal when the log gives it exactly; rounded counters ("2K") leave a range */
    double samples_low, samples_high; /* samples seen so far */
    double iteration;                 /* PPO */
    double env_steps;                 /* PPO: so far */
    double time_s;                    /* by the clock of the log, seconds since 1970 without time zone */
    bool summary;                     /* the mean of the whole run, no window of it */
    bool stalled;                     /* set by the end of reading: far longer than its neighbours */
} sg_log_window;

typedef enum sg_log_event_kind {
    SG_LOG_CHECKPOINT,
    SG_LOG_EVALUATION,
    SG_LOG_HUB_PUSH,
    SG_LOG_OUT_OF_MEMORY,
    SG_LOG_CRASH,
    SG_LOG_END
} sg_log_event_kind;
/* "checkpoint", "evaluation", "hub-push", "out-of-memory", "crash", "end" */
const char *sg_log_event_name(sg_log_event_kind kind);

typedef struct sg_log_event {
    sg_log_event_kind kind;
    double step;      /* NAN: not told */
    double seconds;   /* what it took where the log tells or its clock shows it, else NAN */
    double time_s;    /* NAN: no clock */
    uint64_t windows; /* windows of the run before it */
    char text[200];   /* the line, UTF-8 */
} sg_log_event;

/* What the log itself says; 0 and "" where it does not. */
typedef struct sg_log_config {
    int64_t batch;        /* per process and micro-step */
    int64_t ranks;        /* data-parallel processes */
    int64_t accumulation; /* micro-steps per optimizer step */
    int64_t samples_per_step;
    int64_t steps; /* of the whole training; PPO: iterations */
    int64_t frames, episodes;
    int64_t parameters_total, parameters_trainable;
    int64_t workers, log_every, save_every, evaluate_every;
    bool environment;                /* it evaluates in one: the configuration names it */
    int64_t env_steps_per_iteration; /* PPO: environments x steps of each, over all processes */
    char policy[64];
    char device[16];
} sg_log_config;

typedef struct sg_log {
    char format[24];
    sg_log_config config;
    sg_log_window *windows;
    size_t n_windows;
    uint64_t windows_seen, every; /* very long runs: every `every`-th window is kept */
    sg_log_event *events;
    size_t n_events;
    uint64_t events_seen;
    char (*warnings)[240];
    size_t n_warnings;
    /* Medians over the windows without the first and without stalled ones; step_s is the sum of its parts where the lines
     * do not give it. NAN where no window has it. */
    double steady[SG_LOG_FIELDS];
    uint64_t steady_windows, first_dropped, stalled;
    double mean_step_s; /* stalled windows included */
    double jit_s, train_s;
} sg_log;

typedef struct sg_logs {
    sg_log *logs;
    size_t n;
    uint64_t bytes; /* uncompressed */
} sg_logs;

/* "-": standard input. SG_BAD_INPUT: no such file, or no log: which formats were looked for and what was missing. *logs is empty on failure. */
sg_code sg_logs_read(const char *path, sg_logs *logs, sg_status *status);
/* The same from memory; `name` stands for the path in messages. */
sg_code sg_logs_parse(const char *text, size_t bytes, const char *name, sg_logs *logs, sg_status *status);
void sg_logs_clear(sg_logs *logs);

/* Step time of a window: what its line says, else the sum of what it tells of the step's parts; PPO: of an iteration. NAN:
 * the window does not tell it. */
double sg_log_window_step_s(const sg_log_window *window);

/* Values that stand for the run: its steady medians; where there are none, those of its only window if that is the mean of
 * 30 steps or more, or an iteration (returns true: the warm-up is in them); else NAN. The step's is given wherever
 * it can be had from its parts. */
bool sg_log_typical(const sg_log *log, double value[SG_LOG_FIELDS]);

/* An observed point of the steady windows. config is copied as given; source "observed". SG_BAD_INPUT: the run has no
 * steady windows with a step time. */
sg_code sg_log_point(const sg_log *log, const sg_point_config *config, const char *origin, sg_point *point,
                     sg_status *status);

#endif
