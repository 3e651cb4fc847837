/* csv_table.h: a table from a CSV file (plain or gzip'd) whose first row names the columns. */
#ifndef SG_FORMATS_CSV_TABLE_H
#define SG_FORMATS_CSV_TABLE_H

#include "kernels/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct sg_csv_table {
    char path[512];
    size_t n_columns, n_rows; /* without the header */
    char **cells;             /* [(1 + n_rows) * n_columns]: the header first; "" where a row is short */
    char *text;
} sg_csv_table;

/* At most 256 MiB of text, 4096 columns. SG_BAD_INPUT names the file and what is wrong: no such file, not CSV, empty, a
 * row with more fields than the header, damaged compression. sg_csv_table_clear the table, also after a failure. */
sg_code sg_csv_table_read(const char *path, sg_csv_table *table, sg_status *status);
void sg_csv_table_clear(sg_csv_table *table);

bool sg_csv_table_has(const sg_csv_table *table, const char *column);
/* Cell of row (from 0) and column, "" where the file has no such column. Never NULL. */
const char *sg_csv_table_text(const sg_csv_table *table, size_t row, const char *column);
/* Number in a cell: true and *value when the whole cell is a finite number. */
bool sg_csv_table_number(const sg_csv_table *table, size_t row, const char *column, double *value);
/* SG_BAD_INPUT naming the file and those of these n columns that it lacks. */
sg_code sg_csv_table_need(const sg_csv_table *table, const char *const *columns, size_t n, sg_status *status);

#endif
