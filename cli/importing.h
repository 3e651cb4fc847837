/* importing.h: what `import` read, shown. */
#ifndef SG_CLI_IMPORTING_H
#define SG_CLI_IMPORTING_H

#include "calibration/log/log.h"
#include "calibration/train_config.h"
#include "cli/show.h"

/* The runs of one file. */
typedef struct sg_import {
    const char *path;
    sg_logs logs;
    char config_path[512]; /* train_config.json that filled in what the log does not say; "" none */
    bool has_config;
    sg_train_config config;
} sg_import;

/* Reads a log, and the train_config.json of --train-config or beside it. *import: zeros at first; sg_import_clear it, also on
 * failure. */
sg_code sg_import_read(const sg_args *args, const char *path, sg_import *import, sg_status *status);
void sg_import_clear(sg_import *import);

/* Appends the steady values of every run as an observed point to the run file args->output; *n points. SG_BAD_INPUT: what
 * neither the logs nor the options tell of the configuration, all of it at once; nothing is written then. */
sg_code sg_import_points(const sg_args *args, const sg_import *imports, size_t n_imports, size_t *n, sg_status *status);

/* {file, format, config, windows, steady, events, warnings} of each run, appended to `list`. */
void sg_json_import(const sg_import *import, json_t *list);
void sg_print_import(const sg_import *import);

#endif
