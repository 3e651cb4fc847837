/* validate_collectives.c: all-reduce times predicted without the row's part of the measurements. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/fit/collective_fit.h"
#include "calibration/predict/predict.h"
#include "calibration/statistics/figure.h"
#include "calibration/statistics/width.h"
#include "calibration/validate/validate.h"
#include "kernels/virtual/price.h"

/* Names of the table's servers: the machine whose data sheet their GPUs have (eight A100 on NVSwitch, eight V100 on the
 * hybrid mesh: rates by number of ranks tell), and the sheet's NVLink rate, one direction. */
static const struct {
    const char *name, *slug;
    double link_rate;
} servers[] = {{"a100", "a100-sxm-40gb", 300e9}, {"v100", "v100-sxm-16gb", 150e9}};

typedef struct server {
    char name[64]; /* in the table */
    sg_machine machine;
    sg_collective_row *row;
    size_t *line; /* of the table, from 0 */
    int *fold;
    size_t n;
} server;

static void keep_name(char *to, size_t bytes, const char *text) {
    (void)snprintf(to, bytes, "%.*s", (int)bytes - 1, text);
}

static const char *slug_of(const char *name) {
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
        if (strcmp(servers[i].name, name) == 0) return servers[i].slug;
    return name;
}

static sg_validated blank(const sg_csv_table *t, size_t line) {
    const char *slash = strrchr(t->path, '/');
    sg_validated v = {
        .cls = SG_VALIDATE_COLLECTIVES, .line = line + 2, .measured = NAN, .predicted = NAN, .roofline = NAN};
    keep_name(v.file, sizeof v.file, slash ? slash + 1 : t->path);
    keep_name(v.device, sizeof v.device, slug_of(sg_csv_table_text(t, line, "device")));
    (void)snprintf(v.row, sizeof v.row, "%.20s ranks, %.20s bytes", sg_csv_table_text(t, line, "ranks"),
                   sg_csv_table_text(t, line, "bytes"));
    return v;
}

/* Wire time at the rate that the sheet states, nothing fitted. */
static double roofline(const char *name, const sg_machine *sheet, const sg_collective_row *row) {
    double rate = sheet->p[SG_M_COLLECTIVE_BUSBW].value;
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
        if (strcmp(servers[i].name, name) == 0) rate = servers[i].link_rate;
    return 2 * row->bytes * (row->ranks - 1) / row->ranks / rate;
}

static void complete(sg_validated *v, const sg_collective_row *row) {
    v->measured = row->seconds;
    (void)snprintf(v->part, sizeof v->part, "%s",
                   row->bytes < 4 * 0x1p20    ? "below 4 MiB"
                   : row->bytes < 64 * 0x1p20 ? "4 to 64 MiB"
                                              : "from 64 MiB");
}

static sg_code skip(const sg_csv_table *t, size_t line, const sg_collective_row *row, const char *why,
                    sg_validation *into, sg_status *status) {
    sg_validated v = blank(t, line);
    if (row) complete(&v, row);
    keep_name(v.skipped, sizeof v.skipped, why);
    return sg_validation_add(into, &v, status);
}

static sg_code add(const sg_csv_table *t, const server *s, size_t i, double predicted, double half_width,
                   sg_validation *into, sg_status *status) {
    sg_validated v = blank(t, s->line[i]);
    complete(&v, &s->row[i]);
    v.predicted = predicted;
    v.low = predicted * exp(-half_width);
    v.high = predicted * exp(half_width);
    v.roofline = roofline(s->name, &s->machine, &s->row[i]);
    return sg_validation_add(into, &v, status);
}

/* ---- predictions --------------------------------------------------------------------------------------------------- */

static sg_code as_shipped(const sg_csv_table *t, const server *s, double interval, sg_validation *into,
                          sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < s->n && !code; i++) {
        const sg_collective_row *r = &s->row[i];
        sg_priced price;
        sg_status why;
        if (sg_price_collective(&s->machine, SG_ALL_REDUCE, r->bytes, r->ranks, &price, &why)) {
            code = skip(t, s->line[i], r, why.text, into, status);
            continue;
        }
        sg_figure f = sg_figure_make(price.seconds, (sg_log_sd){.model = sg_width_of_collective(&s->machine, r->bytes)},
                                     SG_EVIDENCE_CALIBRATED, interval);
        code = add(t, s, i, price.seconds, log(f.high / f.value), into, status);
    }
    return code;
}

/* Of the rows outside of a fold, in the order of their keys' hashes, the first `calibration_rows` (0: all). */
typedef struct seen {
    sg_collective_row *row;
    double *log_residual;
    size_t n;
} seen;

static int by_hash(const void *x, const void *y) {
    const sg_collective_row *a = x, *b = y;
    int of_a = sg_collective_fold(a, 1 << 30), of_b = sg_collective_fold(b, 1 << 30);
    if (of_a != of_b) return (of_a > of_b) - (of_a < of_b);
    return a->ranks != b->ranks ? a->ranks - b->ranks : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static void see(const server *s, int fold, int calibration_rows, seen *known) {
    known->n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (s->fold[i] != fold) known->row[known->n++] = s->row[i];
    if (calibration_rows <= 0 || known->n <= (size_t)calibration_rows) return;
    qsort(known->row, known->n, sizeof *known->row, by_hash);
    known->n = (size_t)calibration_rows;
}

/* Every k-th row, so that a table of millions does not take its square in time; 4,000 tell the spread well enough. */
static void thin_out(seen *known) {
    enum { ENOUGH = 4000 };
    size_t step = (known->n + ENOUGH - 1) / ENOUGH, kept = 0;
    for (size_t i = 0; i<known->n; i += step> 1 ? step : 1, kept++) {
        known->row[kept] = known->row[i];
        known->log_residual[kept] = known->log_residual[i];
    }
    known->n = kept;
}

static sg_code without_fold(const sg_csv_table *t, const server *s, int fold, const sg_validate_options *options,
                            seen *known, sg_validation *into, sg_status *status) {
    sg_machine fitted = s->machine;
    /* a prior that knew these rows would know the left-out ones too */
    sg_collective_forget(&fitted);
    see(s, fold, options->calibration_rows, known);
    sg_code code = sg_collective_fit(known->row, known->n, "all-reduce times", &fitted, status);
    sg_priced price;
    for (size_t i = 0; i < known->n && !code; i++) {
        code = sg_price_collective(&fitted, SG_ALL_REDUCE, known->row[i].bytes, known->row[i].ranks, &price, status);
        if (!code) known->log_residual[i] = log(price.seconds / known->row[i].seconds);
    }
    thin_out(known);
    for (size_t i = 0; i < s->n && !code; i++) {
        const sg_collective_row *r = &s->row[i];
        if (s->fold[i] != fold) continue;
        code = sg_price_collective(&fitted, SG_ALL_REDUCE, r->bytes, r->ranks, &price, status);
        double half = sg_collective_spread(known->row, known->log_residual, known->n, r->ranks, r->bytes,
                                           options->interval > 0 ? options->interval : 0.9);
        if (!code) code = add(t, s, i, price.seconds, half, into, status);
    }
    return code;
}

static sg_code rows_left_out(const sg_csv_table *t, const server *s, const sg_validate_options *options,
                             sg_validation *into, sg_status *status) {
    int folds = options->folds > 0 ? options->folds : 5;
    seen known = {.row = calloc(s->n, sizeof *known.row), .log_residual = calloc(s->n, sizeof(double))};
    sg_code code = SG_OK;
    if (!known.row || !known.log_residual) code = sg_fail_memory(status, s->n * sizeof *known.row, "the rows of a fit");
    for (int fold = 0; fold < folds && !code; fold++) {
        size_t inside = 0;
        for (size_t i = 0; i < s->n; i++) inside += s->fold[i] == fold;
        if (!inside) continue;
        if (inside < s->n) {
            code = without_fold(t, s, fold, options, &known, into, status);
            continue;
        }
        for (size_t i = 0; i < s->n && !code; i++)
            code = skip(t, s->line[i], &s->row[i], "no row of this device remains when its part is left out", into,
                        status);
    }
    free(known.row);
    free(known.log_residual);
    return code;
}

/* ---- a table ------------------------------------------------------------------------------------------------------- */

static void server_clear(server *s) {
    sg_machine_clear(&s->machine);
    free(s->row);
    free(s->line);
    free(s->fold);
}

/* Rows of one device; those that cannot be read are passed on with their reason. */
static sg_code gather(const sg_csv_table *t, const char *name, const sg_validate_options *options, server *s,
                      sg_validation *into, sg_status *status) {
    s->row = calloc(t->n_rows, sizeof *s->row);
    s->line = calloc(t->n_rows, sizeof *s->line);
    s->fold = calloc(t->n_rows, sizeof *s->fold);
    if (!s->row || !s->line || !s->fold) return sg_fail_memory(status, t->n_rows * sizeof *s->row, "a table's rows");
    sg_code code = SG_OK;
    int per_node = s->machine.link.gpus_per_node;
    for (size_t i = 0; i < t->n_rows && !code; i++) {
        if (strcmp(sg_csv_table_text(t, i, "device"), name) != 0) continue;
        sg_collective_row *r = &s->row[s->n];
        const char *why = sg_collective_row_read(t, i, r);
        if (why) {
            code = skip(t, i, NULL, why, into, status);
            continue;
        }
        if (options->left_out != SG_LEFT_OUT_NOTHING && r->ranks > (per_node > 0 ? per_node : SG_LINK_RANKS)) {
            code = skip(t, i, r, "more ranks than one node: no law over nodes is fitted", into, status);
            continue;
        }
        s->fold[s->n] = sg_collective_fold(r, options->folds > 0 ? options->folds : 5);
        s->line[s->n++] = i;
    }
    return code;
}

static sg_code validate_device(const sg_csv_table *t, const char *name, const sg_validate_options *options,
                               sg_validation *into, sg_status *status) {
    server s = {0};
    keep_name(s.name, sizeof s.name, name);
    sg_status why;
    sg_code code = SG_OK;
    if (sg_machine_load(slug_of(name), options->config_dir, &s.machine, &why)) {
        for (size_t i = 0; i < t->n_rows && !code; i++)
            if (strcmp(sg_csv_table_text(t, i, "device"), name) == 0)
                code = skip(t, i, NULL, "no machine of this name is known", into, status);
        return code;
    }
    code = gather(t, name, options, &s, into, status);
    if (!code && options->left_out == SG_LEFT_OUT_NOTHING)
        code = as_shipped(t, &s, options->interval > 0 ? options->interval : 0.9, into, status);
    else if (!code && options->left_out == SG_LEFT_OUT_ROWS)
        code = s.n ? rows_left_out(t, &s, options, into, status) : SG_OK;
    else
        for (size_t i = 0; i < s.n && !code; i++)
            code =
                skip(t, s.line[i], &s.row[i], "the server itself is all that was measured of its links", into, status);
    server_clear(&s);
    return code;
}

static int by_text(const void *x, const void *y) {
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

sg_code sg_validate_collectives(const sg_csv_table *rows, const sg_validate_options *options, sg_validation *into,
                                sg_status *status) {
    static const char *const columns[] = {"device", "ranks", "bytes", "time_us"};
    enum { DEVICES_MAX = 256 };
    sg_code code = sg_csv_table_need(rows, columns, sizeof columns / sizeof *columns, status);
    if (code || !rows->n_rows) return code;
    const char **device = calloc(rows->n_rows, sizeof *device);
    if (!device) return sg_fail_memory(status, rows->n_rows * sizeof *device, "the devices of a table");
    for (size_t i = 0; i < rows->n_rows; i++) device[i] = sg_csv_table_text(rows, i, "device");
    qsort(device, rows->n_rows, sizeof(const char *), by_text);
    size_t n = 0;
    for (size_t i = 0; i < rows->n_rows; i++)
        if (!i || strcmp(device[i], device[i - 1]) != 0) device[n++] = device[i];
    if (n > DEVICES_MAX) code = sg_fail(status, SG_BAD_INPUT, "%s: more than %d devices", rows->path, DEVICES_MAX);
    for (size_t i = 0; i < n && !code; i++) code = validate_device(rows, device[i], options, into, status);
    free(device);
    return code ? sg_fail_in(status, "%s", rows->path) : SG_OK;
}
