/* tables.h: columns of Parquet files as numbers, through carquet's shared library (opened on first need) and the Arrow C
 * data interface. Without the library tables are not read, and that is said. */
#ifndef SG_DATASETS_TABLES_H
#define SG_DATASETS_TABLES_H

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
/* Index of a column by its dotted name, or -1. */
int sg_table_column(const sg_table *table, const char *name);
/* One row of a column of numbers or of lists of numbers: at most `room` values; *n as many as there are. SG_BAD_INPUT: another
 * type, or nulls. */
sg_code sg_table_numbers(sg_table *table, int column, int64_t row, double *values, size_t room, size_t *n,
                         sg_status *status);
/* One row of a column of texts or bytes (or of a struct's "bytes"); valid until the next call. */
sg_code sg_table_bytes(sg_table *table, int column, int64_t row, const uint8_t **bytes, size_t *n, sg_status *status);

/* A column to write: numbers (width values per row; 1: plain numbers) as float32 or int64, or texts. */
typedef struct sg_table_column_data {
    const char *name;
    enum {
        SG_COLUMN_FLOAT,
        SG_COLUMN_INT64,
        SG_COLUMN_DOUBLE,
        SG_COLUMN_TEXT,
        SG_COLUMN_IMAGE
    } kind; /* IMAGE: struct {bytes, path} */
    int64_t width;
    const double *numbers;
    const char *const *texts;
    const uint8_t *const *bytes; /* IMAGE */
    const size_t *n_bytes;
} sg_table_column_data;
sg_code sg_table_write(const char *path, const sg_table_column_data *columns, size_t n_columns, int64_t rows,
                       sg_status *status);

#endif
