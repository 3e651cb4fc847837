/* tables.h: columns of Parquet files as numbers, through carquet's shared library (opened on first need) and the Arrow C
 * data interface. Without the library tables are not read, and that is said.
 *
 * What a file claims is checked before it is used, but it is the library that decodes it: files that others made are opened
 * in child processes with limits alone, which is the callers' duty. One thread per table. */
#ifndef SG_DATASETS_TABLES_TABLES_H
#define SG_DATASETS_TABLES_TABLES_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether tables can be read here; false: *why (the library's absence and the remedy). */
bool sg_tables_possible(char *why, size_t bytes);

typedef struct sg_table sg_table; /* one open file: its row groups are read when asked for, and kept */
sg_code sg_table_open(const char *path, sg_table **table, sg_status *status);
void sg_table_close(sg_table *table); /* NULL is allowed */
int64_t sg_table_rows(const sg_table *table);
/* Uncompressed size of the row groups that are kept, as the file states it. */
int64_t sg_table_kept_bytes(const sg_table *table);
/* Before another row group is read, those that were not asked for for longest go until all have at most so many bytes (1 GiB
 * unless this says otherwise). */
void sg_table_keep(sg_table *table, int64_t bytes);
/* Index of a column by its dotted name ("observation.state"; of a struct also its parts, "observation.image.bytes"), or -1. */
int sg_table_column(const sg_table *table, const char *name);
/* One row of a column of numbers or of lists of numbers: at most `room` values; *n as many as there are. Integers
 * beyond 2^53 are rounded. SG_BAD_INPUT: another type (nested lists, dates), a null, a damaged file; SG_MACHINE: memory. */
sg_code sg_table_numbers(sg_table *table, int column, int64_t row, double *values, size_t room, size_t *n,
                         sg_status *status);
/* One row of a column of texts or bytes (or of a struct's "bytes"), without a NUL behind it; valid until the next call. */
sg_code sg_table_bytes(sg_table *table, int column, int64_t row, const uint8_t **bytes, size_t *n, sg_status *status);

/* An image {bytes, path} whose bytes are null lies in a file: its path as the table states it (less than `room` bytes), "" for
 * all others. */
sg_code sg_table_image_path(sg_table *table, int column, int64_t row, char *path, size_t room, sg_status *status);

/* A column to write: numbers (width values per row; 1: plain numbers, else lists), texts, or encoded images with their
 * paths. */
typedef struct sg_table_column_data {
    const char *name;
    enum {
        SG_COLUMN_FLOAT,
        SG_COLUMN_INT64,
        SG_COLUMN_DOUBLE,
        SG_COLUMN_TEXT,
        SG_COLUMN_TEXT_LIST,
        SG_COLUMN_IMAGE
    } kind; /* TEXT_LIST: lists of one text each; IMAGE: struct {bytes, path} */
    int64_t width;
    const double *numbers;       /* [rows x width] */
    const char *const *texts;    /* [rows]; IMAGE: paths, NULL: none */
    const uint8_t *const *bytes; /* [rows], IMAGE */
    const size_t *n_bytes;       /* [rows], IMAGE */
} sg_table_column_data;
/* As trainers' frameworks write them: nullable columns, Snappy, one row group (100 rows each where there are images, as
 * Hugging Face's datasets has them). A file at `path` is replaced; none is left on failure. */
sg_code sg_table_write(const char *path, const sg_table_column_data *columns, size_t n_columns, int64_t rows,
                       sg_status *status);
/* The same with notes for frameworks in the file's footer: "pandas" (which column is the index), "huggingface" (features). */
typedef struct sg_table_note {
    const char *key, *value;
} sg_table_note;
sg_code sg_table_write_noted(const char *path, const sg_table_column_data *columns, size_t n_columns, int64_t rows,
                             const sg_table_note *notes, size_t n_notes, sg_status *status);

#endif
