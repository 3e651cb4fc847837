/* report_row.h: one row of a table of published trainings, as written by people, to a training that can be predicted.
 *
 * Columns (any may be missing or empty): id, policy, policy_details, dataset, hardware, gpu_count, batch_per_gpu,
 * num_workers, steps, update_s, data_s, step_s, wall_clock, samples_per_s, vram_gb, gpu_util_pct, framework, date, note.
 * Cells are free text. docs/reports.md states the rules that read them (report_row.c, report_case.c, report_figures.c);
 * they know words of the field, no row. What is not stated and cannot be derived is not guessed: the row says so. */
#ifndef SG_CALIBRATION_REPORT_ROW_H
#define SG_CALIBRATION_REPORT_ROW_H

#include "formats/csv_table.h"
#include "models/policy.h"

enum { SG_REPORT_TEXT = 512, SG_REPORT_REASON = 160, SG_REPORT_SETTINGS = 24 };

/* What a time in a report is. */
typedef enum sg_report_time {
    SG_REPORT_NO_TIME,
    SG_REPORT_UPDATE, /* the update alone */
    SG_REPORT_STEP,   /* update, preprocessing and whatever waiting there was */
    SG_REPORT_WALL    /* a whole run divided by its steps: loading, saving and start-up are in it */
} sg_report_time;

typedef struct sg_report_row {
    char id[64];
    char details[3 * SG_REPORT_TEXT], hardware[SG_REPORT_TEXT], note[SG_REPORT_TEXT],
        framework[SG_REPORT_TEXT]; /* folded */

    /* The training. request.settings points into this struct: sg_report_row_bind after copying. */
    sg_policy_request request;
    char policy[24], precision[16], key[SG_REPORT_SETTINGS][48], value[SG_REPORT_SETTINGS][24];
    sg_setting settings[SG_REPORT_SETTINGS];
    size_t n_settings;
    int ranks;
    bool cameras_known, size_known, named_sizes; /* named_sizes: the policy has cameras at all; size_known: the frames'
                                                    size is stated, or the policy resizes them itself */
    bool compiled, checkpointed, graphs;
    double parameters, trainable;       /* stated; 0: not */
    char no_training[SG_REPORT_REASON]; /* why it cannot be set up; empty: it can */

    /* The machine. */
    uint64_t memory_bytes;    /* stated beside the GPU's name; 0: not */
    bool unified;             /* memory shared with the CPU's cores: data sheets tell less of these */
    const char *device_class; /* "cuda", "mps" */
    char no_machine[SG_REPORT_REASON];

    /* Figures. A range gives both ends; measured is their geometric mean. */
    sg_report_time time;
    double low_s, high_s;
    double update_s, data_s; /* as stated; 0: not */
    double run_step_s;       /* the run's wall-clock over its steps; 0: not stated */
    char no_time[SG_REPORT_REASON];
    double busy_share;                    /* of the GPU; 0: not stated */
    double allocated_bytes, driver_bytes; /* 0: not stated */
    char no_memory[SG_REPORT_REASON];     /* a memory figure is there, but not one of a peak */
    bool has_memory;                      /* any memory figure is there */
    char sign[SG_REPORT_REASON];          /* what the row itself shows against its time; empty: nothing */
} sg_report_row;

/* Reads row `index` of the table. Never fails: whatever cannot be read is a reason in *row. */
void sg_report_row_read(const sg_csv_table *table, size_t index, sg_report_row *row);
void sg_report_row_bind(sg_report_row *row);
/* Sets a key of the row's policy, in place of an earlier value; ignored where the family has no such key. True: set. */
bool sg_report_row_set(sg_report_row *row, const char *key, const char *value);

/* report_figures.c: the row's times and memory; needs batch and ranks. */
void sg_report_figures_read(const sg_csv_table *table, size_t index, sg_report_row *row);

#endif
