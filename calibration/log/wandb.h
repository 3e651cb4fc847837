/* wandb.h: LeRobot's keys ("train/update_s") in what W&B exports: CSV tables and JSON, and the Trainer's own JSON
 * (trainer_state.json). Both are read byte by byte: a line may be of any length. */
#ifndef SG_CALIBRATION_LOG_WANDB_H
#define SG_CALIBRATION_LOG_WANDB_H

#include "calibration/log/build.h"

/* A row or an object as it is read. */
typedef struct sg_wandb_record {
    double field[SG_LOG_FIELDS];
    double step, samples, time_s, eval_s;
    double loss, epoch, learning_rate, runtime, samples_per_s, steps_per_s; /* of the Trainer */
} sg_wandb_record;
sg_wandb_record sg_wandb_none(void);
/* Number of a key of n bytes in the list of those that are known, -1: none. */
int sg_wandb_key(const char *key, size_t n);
/* Takes the number that `text` is into the record; false when it is none, or the record has that key already. */
bool sg_wandb_take(sg_wandb_record *record, int key, const char *text, size_t n);
bool sg_wandb_key_is_time(int key); /* "train/update_s" and the like */
/* As a window or an evaluation. True when the record held one. */
bool sg_wandb_emit(const sg_wandb_record *record, sg_log_builder *builder, bool json, const sg_line *line);

enum { SG_WANDB_COLUMNS = 1024, SG_WANDB_KEY = 192, SG_WANDB_DEEPEST = 8, SG_WANDB_RUNS = 32 };

typedef struct sg_wandb_csv {
    bool header;                         /* one was read: rows follow */
    signed char place[SG_WANDB_COLUMNS]; /* of each column in wandb.c's list of keys, -1: none */
    size_t columns, column;
    sg_wandb_record record;
    char cell[SG_WANDB_KEY];
    size_t n;
    bool row_alone;
    bool quoted, row_open, reading_header;
    /* A chart's table has columns of several runs, "run-name - train/update_s": one run is read at a time. */
    char run[SG_WANDB_RUNS][SG_WANDB_KEY];
    size_t runs, selected;
} sg_wandb_csv;
/* run: which of those in the columns, from 0. */
void sg_wandb_csv_start(sg_wandb_csv *reader, size_t run);
/* True when the line is a row of the table, and nothing else. */
bool sg_wandb_csv_line(sg_wandb_csv *reader, sg_log_builder *builder, const sg_line *line);
void sg_wandb_csv_close(sg_wandb_csv *reader, sg_log_builder *builder);

typedef struct sg_wandb_json {
    bool on, decided; /* the text begins as JSON does */
    bool in_text, escaped, after_colon, in_number;
    char key[SG_WANDB_KEY], text[SG_WANDB_KEY];
    size_t n, key_n;
    size_t depth;
    sg_wandb_record record[SG_WANDB_DEEPEST]; /* of each open object; those that lie deeper hold no records */
} sg_wandb_json;
void sg_wandb_json_start(sg_wandb_json *reader);
/* True when the line is JSON, and nothing else. */
bool sg_wandb_json_line(sg_wandb_json *reader, sg_log_builder *builder, const sg_line *line);

#endif
