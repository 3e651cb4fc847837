/* log_read.h: LeRobot's training log lines as observed step times.
 *
 * Field names since 2024: updt_s, data_s; since 2026-06-11 also smp/s and mem_gb; since 2026-08-06 data_s, prep_s, updt_s,
 * step_s. Until 2025-02-11 a line held the values of one step, since then the mean of its window. The first window is
 * dropped: it holds compilation and warm-up. */
#ifndef SG_CALIBRATION_LOG_READ_H
#define SG_CALIBRATION_LOG_READ_H

#include "kernels/status.h"
#include "sim/point.h"

typedef struct sg_log_window {
    double data_s, prep_s, update_s, step_s, memory_gib; /* NAN: not in the line */
} sg_log_window;

typedef struct sg_log {
    sg_log_window *windows; /* without the first */
    size_t n_windows;
    int64_t batch, ranks; /* from the banner ("Effective batch size: 32 x 1 = 32") or samples/steps; 0 = not stated */
    int64_t learnable_parameters; /* from the banner; 0 = not stated */
    int64_t steps, frames;        /* cfg.steps, dataset.num_frames; 0 = not stated */
} sg_log;

/* Streams the file in constant memory apart from the windows. SG_BAD_INPUT when it holds fewer than two windows: says what
 * was looked for. NUL bytes, carriage returns and overlong words are skipped. */
sg_code sg_log_read(const char *path, sg_log *log, sg_status *status);
void sg_log_clear(sg_log *log);
/* The same from memory, for tests and fuzzing. */
sg_code sg_log_parse(const char *text, size_t bytes, const char *name, sg_log *log, sg_status *status);

/* An observed point: statistics over the windows. config is copied as given; source "observed". */
sg_code sg_log_point(const sg_log *log, const sg_point_config *config, const char *origin, sg_point *point,
                     sg_status *status);

#endif
