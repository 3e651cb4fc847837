/* validate.h: stepgauge's own error: predictions beside measurements, row by row, and their summary by class and device.
 *
 * A validator turns the rows of one kind of file into sg_validated rows; validate_summary.c sums them up. Whoever predicts
 * never sees the measured value of a row it predicts: with cross-validation, parameters are fitted without the row's fold
 * (or without its whole device). */
#ifndef SG_CALIBRATION_VALIDATE_H
#define SG_CALIBRATION_VALIDATE_H

#include "formats/csv_table.h"
#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum sg_validate_class {
    SG_VALIDATE_GEMM,
    SG_VALIDATE_MEMORY_BOUND,
    SG_VALIDATE_STEPS_TRAIN,
    SG_VALIDATE_STEPS_INFERENCE,
    SG_VALIDATE_PARALLEL_DP,
    SG_VALIDATE_COLLECTIVES,
    SG_VALIDATE_REPORTS_STEP,
    SG_VALIDATE_REPORTS_MEMORY,
    SG_VALIDATE_LOGS,
    SG_VALIDATE_BATCHES,
    SG_VALIDATE_BATCHES_SHIPPED, /* the same rows by the data sheet alone */
    SG_VALIDATE_CLASS_COUNT
} sg_validate_class;
/* "gemm", "memory_bound", "steps_train", "steps_inference", "parallel_dp", "collectives", "reports_step", "reports_memory",
 * "logs", "batches", "batches_as_shipped" */
const char *sg_validate_class_name(sg_validate_class cls);

/* One row of a file. Values in seconds (memory: bytes). */
typedef struct sg_validated {
    sg_validate_class cls;
    char device[64]; /* slug of the machine; where none is known, the file's own name for it */
    char part[24];   /* within the class: "linear", "bmm", "softmax", "64 gpus"; may be empty */
    char row[96];    /* what a reader finds the row by: "linear 4096x1024x1024", "R108" */
    char file[64];   /* name of the file without its folder */
    size_t line;     /* of the file, from 2 */
    double measured, predicted, low, high;
    double roofline;   /* larger of FLOP/peak and bytes/bandwidth from the data sheet, nothing fitted; NAN: none */
    char skipped[160]; /* why the row was not predicted; empty: it was */
    char
        cause[160]; /* what the row itself shows that explains a measured value outside of the interval; may be empty */
} sg_validated;

typedef struct sg_validation {
    sg_validated *rows;
    size_t n, room;
} sg_validation;

sg_code sg_validation_add(sg_validation *validation, const sg_validated *row, sg_status *status);
void sg_validation_clear(sg_validation *validation);
/* The row counts towards a summary: it was predicted, and measured as more than nothing. */
bool sg_validated_scored(const sg_validated *row);

typedef enum sg_left_out {
    SG_LEFT_OUT_NOTHING, /* the machines as they are shipped (or given) */
    SG_LEFT_OUT_ROWS,    /* refit without each of `folds` folds of rows in turn */
    SG_LEFT_OUT_BATCHES, /* reports: a training's batch sizes, each from the others of the same training */
    SG_LEFT_OUT_DEVICES  /* refit without each device (GPU model) in turn */
} sg_left_out;

typedef struct sg_validate_options {
    const char *config_dir; /* NULL: searched */
    double interval;        /* 0 = 0.9 */
    sg_left_out left_out;
    int folds; /* 0 = 5 */
    /* Rows of the left-out device that its calibration may see (30 or 10 in docs/accuracy.md); these rows are not scored.
     * 0: none. With SG_LEFT_OUT_ROWS: each fold is fitted to this many rows and the prior alone. */
    int calibration_rows;
} sg_validate_options;

/* Fold of a row: a hash of its key and of nothing else, so that it does not depend on the order of a file. */
int sg_validate_fold(const char *key, int folds);

/* Validators, one per kind of file; each adds a row for every row of the table (skipped ones with their reason) and fails
 * only where the table is none of its kind or a fit fails. validate_gemm.c, validate_memory.c, ... */
sg_code sg_validate_gemm(const sg_csv_table *kernels, const sg_validate_options *options, sg_validation *into,
                         sg_status *status);
sg_code sg_validate_memory_bound(const sg_csv_table *kernels, const sg_validate_options *options, sg_validation *into,
                                 sg_status *status);
sg_code sg_validate_steps(const sg_csv_table *steps, const sg_csv_table *configs, const sg_validate_options *options,
                          sg_validation *into, sg_status *status);
sg_code sg_validate_parallel(const sg_csv_table *rows, const sg_validate_options *options, sg_validation *into,
                             sg_status *status);
sg_code sg_validate_collectives(const sg_csv_table *rows, const sg_validate_options *options, sg_validation *into,
                                sg_status *status);
sg_code sg_validate_reports(const sg_csv_table *rows, const sg_validate_options *options, sg_validation *into,
                            sg_status *status);

/* Batch sizes of reported trainings from others of the same (SG_LEFT_OUT_BATCHES); sg_validate_reports calls it. */
sg_code sg_validate_batches(const sg_csv_table *rows, const sg_validate_options *options, sg_validation *into,
                            sg_status *status);
struct sg_logs; /* calibration/log/log.h */
/* Each run of a training log: the wall-clock of its rest from its first windows. `device` is the log's format. */
sg_code sg_validate_logs(const struct sg_logs *logs, const char *path, const sg_validate_options *options,
                         sg_validation *into, sg_status *status);

/* Summary of one class on one device ("all": every device of the class; mean_of_devices then holds the mean over devices
 * of their means). Errors are |predicted / measured - 1|; NAN where there is no row to tell. */
typedef struct sg_validate_summary {
    sg_validate_class cls;
    char device[64], part[24]; /* part empty: all parts */
    size_t n, skipped;
    size_t under_estimates; /* predicted < measured */
    size_t above_interval;  /* measured > high: the promised upper bound was too low */
    double mean, median, p90, max, roofline_mean, coverage;
    double mean_of_devices, p90_of_devices; /* device "all" */
} sg_validate_summary;

/* Summaries: per class "all" first, then its parts over all devices, then by device, each with its parts behind it (none
 * where there is one part only). Caller frees *summaries. */
sg_code sg_validate_summarise(const sg_validation *validation, sg_validate_summary **summaries, size_t *n,
                              sg_status *status);

#endif
