/* loader_fit.h: from measured points of one data set to its loader law, by robust nonlinear least squares through the
 * loader's clock. */
#ifndef SG_CALIBRATION_LOADER_FIT_H
#define SG_CALIBRATION_LOADER_FIT_H

#include "calibration/loader/loader_law.h"

/* One measured point. Means per micro-step; what was not recorded is 0. */
typedef struct sg_loader_row {
    sg_loader_load load; /* step_s, step_threads: see below */
    int group;           /* points whose step is the same but for what workers do to it: 0, 1, ... */
    bool disturbed;
    double others;           /* processors that other processes kept busy meanwhile; 0: none, or unknown */
    bool crowded;            /* they took so much that only processor seconds tell of the loader */
    double period_s, step_s; /* from step to step; preprocessing and update */
    double wait_p50_s, stalled_share;
    double batch_s, batch_cpu_s, batch_log_sd; /* of a worker (in line: of the consumer) */
    double frame_cpu_s, sample_cpu_s;
} sg_loader_row;

enum { SG_LOADER_GROUPS_MAX = 32, SG_LOADER_ROWS_MAX = 512 };

/* Fits frame_s, sample_s, wait_s (of cold files alone: the page cache does not wait), contention and the step's weight; reads handover and
 * batch_log_sd off. load.step_s of the rows is not looked at: the step without workers is fitted per group, into
 * step_s[groups] (may be NULL). `law` keeps its dataset and layer. With fewer than three worker counts contention stays near
 * its prior. Disturbed rows tell no wait while others are there; crowded ones tell processor seconds alone, and with nothing else
 * the law is no more than calibrated. law->told says what the rows told. SG_BAD_INPUT: no row, or none with a period. */
sg_code sg_loader_fit(const sg_loader_row *rows, size_t n, sg_loader_law *law, double *step_s, sg_status *status);

#endif
