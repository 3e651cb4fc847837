/* importing.h: what `import` read, shown. */
#ifndef SG_CLI_IMPORTING_H
#define SG_CLI_IMPORTING_H

#include "calibration/config/train_config.h"
#include "calibration/explain/explain.h"
#include "calibration/log/log.h"
#include "cli/show.h"

/* The runs of one file. */
typedef struct sg_import {
    const char *path;
    sg_logs logs;
    char config_path[512]; /* train_config.json that filled in what the log does not say; "" none */
    bool has_config;
    sg_train_config config;
} sg_import;

/* One run with the command line that would measure it. `import` and `log` outlive it. */
typedef struct sg_import_job {
    const sg_import *import;
    const sg_log *log;
    sg_args args;            /* the options, and for the rest what the log and train_config.json tell */
    const sg_family *family; /* NULL: not told, or no policy of this program */
} sg_import_job;

/* Reads a log, and the train_config.json that is asked for or lies beside it; "-" is standard input. *import is to be cleared
 * in any case. */
sg_code sg_import_read(const sg_args *args, const char *path, sg_import *import, sg_status *status);
void sg_import_clear(sg_import *import);

sg_import_job sg_import_job_of(const sg_args *args, const sg_import *import, const sg_log *log);
/* Options that the run still needs, appended to `text` by commas. */
void sg_import_missing(const sg_import_job *job, char *text, size_t bytes);

/* What the run's point would be on this machine; nothing of it may be missing. */
sg_code sg_import_config(const sg_import_job *job, const sg_machine *machine, sg_point_config *config,
                         sg_status *status);

/* Appends the steady values of every run as an observed point to the run file args->output; *n points. SG_BAD_INPUT: what
 * neither the logs nor the options tell of the configuration, all of it at once; nothing is written then. */
sg_code sg_import_points(const sg_args *args, const sg_import *imports, size_t n_imports, size_t *n, sg_status *status);

/* Explanations of all runs, in the order of files and runs; predictions where --machine and the facts allow them. Each is to
 * be cleared; freed by the caller. */
sg_code sg_import_explain(const sg_args *args, const sg_import *imports, size_t n_imports,
                          sg_explanation **explanations, size_t *n, sg_status *status);

/* {file, format, config, windows, steady, events, warnings} of each run, appended to `list`; with explanations (one a run,
 * else NULL) also {diagnoses, asks}. */
void sg_json_import(const sg_import *import, const sg_explanation *explanations, json_t *list);
void sg_print_import(const sg_import *import, const sg_explanation *explanations);

#endif
