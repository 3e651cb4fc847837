/* args.h: the command line, parsed against one table. Policy options are the same on every command. */
#ifndef SG_CLI_ARGS_H
#define SG_CLI_ARGS_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SG_LIST_MAX = 64, SG_REPEAT_MAX = 64 };

typedef struct sg_int_list {
    int64_t value[SG_LIST_MAX];
    size_t n;
} sg_int_list;

typedef struct sg_repeat {
    const char *value[SG_REPEAT_MAX];
    size_t n;
} sg_repeat;

/* Unset numbers are -1, unset texts NULL. Texts point into argv. */
typedef struct sg_args {
    int argc;
    char *const *argv; /* as given */
    const char *command;
    sg_repeat positional; /* after the command */

    /* policy */
    sg_int_list batch;
    int64_t cameras, image_height, image_width, state_dim, action_dim, chunk_size, accumulation;
    int64_t envs, steps_per_env, mini_batches, ppo_epochs, iterations;
    double env_step_us;
    const char *sharding, *precision, *framework, *config, *dataset, *train_config;
    const char *policy; /* import */
    bool explain;       /* import */
    const char *task;   /* PPO: simulator and task whose steps a log shows */
    sg_repeat set;

    /* where and how */
    const char *machine, *device, *host, *conv, *cuda_libs;
    int64_t gpus_per_node;
    sg_int_list ranks, gpus, workers; /* gpus: as given; ranks then has the same values */
    bool batch_auto, cuda_graph, loader_only;
    const char *layers;
    double update_s; /* < 0: not given */
    double vcpus;
    const char *video_backend;
    int64_t prefetch, threads, seed;
    double time_budget_s, interval, host_speed;
    int64_t min_iterations;
    sg_int_list sizes; /* bench */

    /* dataset make */
    const char *kind, *codec;
    int64_t episodes, frames_per_episode, gop;
    double fps;

    /* plan */
    int64_t frames, steps, save_every;
    double epochs, budget_usd, deadline_h;
    const char *offers;

    /* validate; collectives and reports: fit too */
    sg_repeat collectives, reports;
    sg_repeat kernels, step_files, parallel, logs;
    const char *step_configs;
    const char *cross_validate, *rows_file, *config_dir; /* cross_validate: "rows", "devices" or "batches" */
    int64_t folds, calibrate;
    bool markdown;

    /* files and output */
    const char *output, *probe, *trace;
    sg_repeat log;
    bool json, ops, help, version, quiet, fresh;
} sg_args;

/* SG_BAD_INPUT names the argument, what is expected and the nearest known option. argv must outlive args. */
sg_code sg_args_parse(int argc, char **argv, sg_args *args, sg_status *status);

/* What `stepgauge COMMAND --help` and `stepgauge --help` say. */
typedef struct sg_command {
    const char *name, *usage, *summary, *example;
    const char *groups; /* option groups it takes, one letter each, see args.c */
    int (*run)(const sg_args *args);
} sg_command;
const sg_command *sg_commands(size_t *count);
/* word: the first argument, whose own options are told where the command has verbs ("make" of dataset), or NULL. */
void sg_help_command(const sg_command *command, const char *word);
void sg_help(void);

#endif
