/* show.h: how quantities are printed: units, aligned tables, errors, progress. */
#ifndef SG_CLI_SHOW_H
#define SG_CLI_SHOW_H

#include "calibration/statistics/figure.h"
#include "cli/args.h"
#include "sim/measure/point.h"

#include <jansson.h>

/* Quantities as text in buf, which is returned. "1.23 ms", "6.82 GiB", "51,597,190", "73.9 GFLOP", "2 h 05 min". */
enum { SG_SHOW_BYTES = 64 };
typedef struct sg_text {
    char s[SG_SHOW_BYTES];
} sg_text;
sg_text sg_show_seconds(double seconds);
sg_text sg_show_duration(double seconds);
sg_text sg_show_bytes(double bytes);
sg_text sg_show_count(int64_t count);
sg_text sg_show_si(double value, const char *unit);

/* A table of text cells: header row, then rows; the first column is left-aligned, others right. */
typedef struct sg_table sg_table;
sg_table *sg_table_new(size_t columns, const char *const *header);
void sg_table_row(sg_table *table, const char *const *cells);
void sg_table_print(sg_table *table); /* to stdout; frees it */

/* "0.182 s (0.150 .. 0.221, data sheet)" with the given formatter. */
void sg_show_figure(const char *label, const sg_figure *figure, sg_text (*format)(double));

json_t *sg_json_figure(const sg_figure *figure);
/* name: median, name_mean, name_low, name_high */
void sg_json_statistic(json_t *object, const char *name, const sg_statistic *statistic);
/* Prints the object on stdout and frees it. Returns the exit status. */
int sg_json_print(json_t *object, int exit_status);

/* Copies a text that a file or a path may have brought along, as a terminal and JSON can take it: control characters and
 * what is no UTF-8 become '?'. Cut at `bytes`. */
void sg_show_clean(const char *text, char *out, size_t bytes);
/* Prints "stepgauge: text" to stderr; returns the exit status. With --json also {"error": text} on stdout. */
int sg_show_error(const sg_args *args, const sg_status *status);
void sg_show_warning(const char *format, ...) SG_PRINTF(1, 2);

/* Progress bar with time left, on a terminal only. */
typedef struct sg_progress {
    bool on;
    double start_s, shown_s;
} sg_progress;
sg_progress sg_progress_start(const sg_args *args);
void sg_progress_show(sg_progress *progress, double fraction, const char *what);
void sg_progress_end(sg_progress *progress);

#endif
