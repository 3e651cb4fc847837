/* comparing.h: a log beside measurements and a prediction: what `compare` works on, and how it is shown. */
#ifndef SG_CLI_COMPARING_H
#define SG_CLI_COMPARING_H

#include "calibration/compare/compare.h"
#include "cli/importing.h"
#include "cli/predicting.h"
#include "sim/files/run_file.h"

/* What the log is compared with. */
typedef struct sg_compare_with {
    sg_run run;
    bool has_run;
    sg_target target;
    bool has_target;
    bool fitted;       /* target.machine is target.fit's, made here of the run */
    char machine[256]; /* as named, or "fitted to run.h5" */
    char note[320];    /* why there is no prediction; "" there is one */
} sg_compare_with;

/* One run of the log. */
typedef struct sg_compare_answer {
    const sg_log *log;
    sg_point_config config;
    const sg_point *measured; /* or NULL */
    bool exact;
    char differs[256]; /* of the measured point from the log */
    bool predicted;
    sg_comparison comparison;
} sg_compare_answer;

json_t *sg_json_comparison(const sg_import *import, const sg_compare_with *with, const sg_compare_answer *answer);
void sg_print_comparison(const sg_import *import, const sg_compare_with *with, const sg_compare_answer *answer);

#endif
