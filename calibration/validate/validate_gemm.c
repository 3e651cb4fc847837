/* validate_gemm.c: predicted matrix products beside measured ones. */
#include "calibration/config/config_dir.h"
#include "calibration/kernels/product_model.h"
#include "calibration/kernels/product_prior.h"
#include "calibration/machine/machine_file.h"
#include "calibration/machine/machine_match.h"
#include "calibration/predict/predict.h"
#include "calibration/validate/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of one device, in the order of a hash of their sizes, so that the order of a file decides nothing. */
typedef struct device {
    const char *name;
    sg_machine sheet;
    char missing[160]; /* why there is no machine for it, or empty */
    const sg_product_row **row;
    size_t n;
} device;

typedef struct table {
    const sg_csv_table *file;
    const sg_validate_options *options;
    char config_dir[SG_PATH_BYTES];
    sg_product_row *rows;
    device *devices;
    size_t n_devices;
    sg_product_prior start; /* before any device was measured */
} table;

/* Rows of each other device that a prior is made from. */
enum { PRIOR_ROWS = 200 };

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static const char *file_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static sg_validated describe(const table *t, const device *d, const sg_product_row *row) {
    sg_validated v = {.cls = SG_VALIDATE_GEMM, .line = row->line, .roofline = NAN};
    (void)snprintf(v.device, sizeof v.device, "%.63s", d && !d->missing[0] ? d->sheet.name : row->device);
    (void)snprintf(v.part, sizeof v.part, "%s", row->product.kind == SG_TILES_LINEAR ? "linear" : "bmm");
    (void)snprintf(v.file, sizeof v.file, "%.63s", file_of(t->file->path));
    if (row->seconds > 0)
        sg_product_row_name(row, v.row, sizeof v.row);
    else /* its sizes are none */
        (void)snprintf(v.row, sizeof v.row, "line %zu", row->line);
    v.measured = row->seconds;
    return v;
}

static sg_code skip(const table *t, const device *d, const sg_product_row *row, const char *why, sg_validation *into,
                    sg_status *status) {
    sg_validated v = describe(t, d, row);
    v.predicted = v.low = v.high = NAN;
    (void)snprintf(v.skipped, sizeof v.skipped, "%.159s", why);
    return sg_validation_add(into, &v, status);
}

static int by_hash(const void *a, const void *b) {
    const sg_product_row *x = *(const sg_product_row *const *)a, *y = *(const sg_product_row *const *)b;
    char of_x[96], of_y[96];
    sg_product_row_name(x, of_x, sizeof of_x);
    sg_product_row_name(y, of_y, sizeof of_y);
    int hash_x = sg_validate_fold(of_x, 1 << 30), hash_y = sg_validate_fold(of_y, 1 << 30);
    if (hash_x != hash_y) return hash_x < hash_y ? -1 : 1;
    int names = strcmp(of_x, of_y);
    return names ? names : x->seconds < y->seconds ? -1 : x->seconds > y->seconds;
}

/* The prior of all cards; its tiles of a generation may be this very card's, so that those of all generations are taken. */
static sg_code forget_products(const table *t, sg_machine *sheet, sg_status *status) {
    int capability = sheet->capability;
    sheet->capability = 0;
    sg_code code = sg_machine_prior_load("products", t->config_dir, sheet, status);
    sheet->capability = capability;
    return code;
}

static sg_code find_device(table *t, const char *name, device **out, sg_status *status) {
    for (size_t d = 0; d < t->n_devices; d++)
        if (strcmp(t->devices[d].name, name) == 0) return *out = &t->devices[d], SG_OK;
    device *grown = realloc(t->devices, (t->n_devices + 1) * sizeof *grown);
    if (!grown) return sg_fail_memory(status, (t->n_devices + 1) * sizeof *grown, "the devices of a table");
    t->devices = grown;
    device *d = &grown[t->n_devices++];
    memset(d, 0, sizeof *d);
    d->name = name;
    sg_machine_init(&d->sheet);
    char sheet[64];
    sg_status why;
    sg_code code = sg_machine_name_find(t->config_dir, name, sheet, sizeof sheet, &why);
    if (!code) code = sg_machine_load(sheet, t->config_dir, &d->sheet, &why);
    /* what ships was fitted to rows of this device: a prediction without them starts from what all cards have in common */
    if (!code && t->options->left_out != SG_LEFT_OUT_NOTHING) code = forget_products(t, &d->sheet, &why);
    if (!code && !sg_product_has_tiles(&d->sheet))
        code = sg_fail(&why, SG_NO, "machine %s has no tiles: its products are not priced one by one", sheet);
    if (code) (void)snprintf(d->missing, sizeof d->missing, "%.159s", why.text);
    d->row = calloc(t->file->n_rows, sizeof *d->row);
    return (*out = d)->row ? SG_OK : sg_fail_memory(status, t->file->n_rows * sizeof *d->row, "the rows of a table");
}

static sg_code read_rows(table *t, sg_validation *into, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < t->file->n_rows && !code; i++) {
        char why[160];
        device *d = NULL;
        if (!sg_product_row_read(t->file, i, &t->rows[i], why, sizeof why)) {
            code = skip(t, NULL, &t->rows[i], why, into, status);
            continue;
        }
        code = find_device(t, t->rows[i].device, &d, status);
        if (!code && d->missing[0])
            code = skip(t, d, &t->rows[i], d->missing, into, status);
        else if (!code)
            d->row[d->n++] = &t->rows[i];
    }
    for (size_t d = 0; d < t->n_devices && !code; d++)
        qsort(t->devices[d].row, t->devices[d].n, sizeof *t->devices[d].row, by_hash);
    return code;
}

/* ---- predicting ---------------------------------------------------------------------------------------------------- */

/* The larger of FLOP / peak and bytes / bandwidth as listed. */
static double roofline_s(const sg_machine *m, const sg_product *p) {
    return fmax(2 * p->batch * p->m * p->n * p->k / m->p[SG_M_PEAK_F32].value, p->bytes / m->p[SG_M_BANDWIDTH].value);
}

static sg_code predict_row(const table *t, const device *d, const sg_product_model *model, const sg_product_row *row,
                           sg_validation *into, sg_status *status) {
    double interval = t->options->interval > 0 ? t->options->interval : 0.9;
    sg_product_prediction prediction;
    sg_code code = sg_product_model_predict(model, &row->product, interval, &prediction, status);
    if (code) return code;
    sg_validated v = describe(t, d, row);
    v.predicted = prediction.seconds;
    v.low = prediction.low;
    v.high = prediction.high;
    v.roofline = roofline_s(&d->sheet, &row->product);
    return sg_validation_add(into, &v, status);
}

/* Fits the rows of d that `use` marks, predicts those that `score` marks. */
static sg_code fit_and_predict(const table *t, const device *d, const sg_machine *sheet, const sg_product_prior *prior,
                               const bool *use, const bool *score, sg_validation *into, sg_status *status) {
    const sg_product_row **rows = calloc(d->n ? d->n : 1, sizeof *rows);
    sg_machine *lists = calloc(t->n_devices, sizeof *lists);
    sg_product_model model = {0};
    size_t n = 0, n_lists = 0;
    sg_code code = SG_OK;
    if (!rows || !lists) code = sg_fail_memory(status, d->n * sizeof *rows, "the rows of a fit");
    for (size_t i = 0; !code && i < d->n; i++)
        if (use[i]) rows[n++] = d->row[i];
    for (size_t o = 0; !code && o < t->n_devices; o++)
        if (&t->devices[o] != d && !t->devices[o].missing[0]) {
            lists[n_lists] = t->devices[o].sheet;
            for (int k = 0; k < SG_TILE_KIND_COUNT; k++)
                sg_product_rows_tiles(t->devices[o].row, t->devices[o].n, (sg_tile_kind)k, &lists[n_lists].tiles[k]);
            n_lists++;
        }
    if (!code) code = sg_product_model_fit(sheet, rows, n, prior, lists, n_lists, &model, status);
    for (size_t i = 0; i < d->n && !code; i++)
        if (score[i]) code = predict_row(t, d, &model, d->row[i], into, status);
    sg_product_model_clear(&model);
    free(rows);
    free(lists);
    return code;
}

/* Marks calibration rows among the rows of `from` (marked), as many as asked for. */
static sg_code choose_rows(const device *d, const bool *from, size_t n, bool *chosen, sg_status *status) {
    const sg_product_row **rows = calloc(d->n, sizeof *rows);
    bool *among = calloc(d->n, sizeof *among);
    size_t n_rows = 0;
    if (!rows || !among) {
        free(rows);
        free(among);
        return sg_fail_memory(status, d->n * sizeof *rows, "the rows of a calibration");
    }
    for (size_t i = 0; i < d->n; i++)
        if (from[i]) rows[n_rows++] = d->row[i];
    (void)sg_product_calibration_rows(rows, n_rows, n, among);
    for (size_t i = 0, j = 0; i < d->n; i++) chosen[i] = from[i] && among[j++];
    free(rows);
    free(among);
    return SG_OK;
}

static sg_code fold_of_device(const table *t, const device *d, const sg_product_prior *prior, int fold, bool *use,
                              bool *score, sg_validation *into, sg_status *status) {
    int folds = t->options->folds > 0 ? t->options->folds : 5;
    size_t n = 0, inside = 0;
    for (size_t i = 0; i < d->n; i++) {
        char key[96];
        sg_product_row_name(d->row[i], key, sizeof key);
        score[i] = sg_validate_fold(key, folds) == fold;
        use[i] = !score[i];
        inside += score[i];
        n += use[i];
    }
    if (!inside) return SG_OK;
    sg_code code = SG_OK;
    for (size_t i = 0; i < d->n && !n && !code; i++)
        if (score[i])
            code = skip(t, d, d->row[i], "no row of this device remains when its part is left out", into, status);
    if (!n || code) return code;
    if (t->options->calibration_rows > 0) code = choose_rows(d, use, (size_t)t->options->calibration_rows, use, status);
    return code ? code : fit_and_predict(t, d, &d->sheet, prior, use, score, into, status);
}

/* The prior from the rows of all devices but one; *own where there are no others. */
static sg_code prior_without(const table *t, const device *without, sg_product_prior *prior, sg_status *status) {
    sg_product_group *groups = calloc(t->n_devices, sizeof *groups);
    size_t n = 0;
    if (!groups) return sg_fail_memory(status, t->n_devices * sizeof *groups, "a prior over devices");
    for (size_t i = 0; i < t->n_devices; i++) {
        const device *d = &t->devices[i];
        if (d == without || d->missing[0] || !d->n) continue;
        groups[n] = (sg_product_group){d->row, d->n < PRIOR_ROWS ? d->n : PRIOR_ROWS, d->sheet};
        for (int k = 0; k < SG_TILE_KIND_COUNT; k++)
            sg_product_rows_tiles(d->row, d->n, (sg_tile_kind)k, &groups[n].machine.tiles[k]);
        n++;
    }
    sg_code code = SG_NO;
    if (n)
        code = sg_product_prior_fit(groups, n, &t->start, prior, status);
    else
        (void)sg_fail(status, SG_NO, "no other device in the file: nothing to make a prior from");
    free(groups);
    return code;
}

/* Tiles of cards of the same generation (compute capability 8.x and so on), whose libraries have the same kernels; without any,
 * those of all cards. */
static sg_code tiles_of_generation(const table *t, const device *d, sg_machine *machine, sg_status *status) {
    size_t n = 0;
    for (size_t i = 0; i < t->n_devices; i++) n += t->devices[i].n;
    const sg_product_row **rows = calloc(n ? n : 1, sizeof *rows);
    if (!rows) return sg_fail_memory(status, n * sizeof *rows, "the rows of a generation");
    n = 0;
    for (size_t i = 0; i < t->n_devices; i++) {
        const device *o = &t->devices[i];
        if (o == d || o->missing[0] || o->sheet.capability / 10 != d->sheet.capability / 10) continue;
        memcpy(rows + n, o->row, o->n * sizeof *rows);
        n += o->n;
    }
    for (int k = 0; k < SG_TILE_KIND_COUNT && n; k++) {
        sg_product_rows_tiles(rows, n, (sg_tile_kind)k, &machine->tiles[k]);
        sg_tiles_add(&machine->tiles[k], 128, 128); /* no library is without */
    }
    free(rows);
    return SG_OK;
}

static sg_code skip_device(const table *t, const device *d, const char *why, sg_validation *into, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < d->n && !code; i++) code = skip(t, d, d->row[i], why, into, status);
    return code;
}

static sg_code device_left_out(const table *t, const device *d, bool *use, bool *score, sg_validation *into,
                               sg_status *status) {
    sg_product_prior prior;
    sg_code code = prior_without(t, d, &prior, status);
    if (code == SG_NO) return skip_device(t, d, status->text, into, status);
    for (size_t i = 0; i < d->n; i++) use[i] = true;
    if (!code)
        code = choose_rows(d, use, (size_t)(t->options->calibration_rows > 0 ? t->options->calibration_rows : 0), use,
                           status);
    for (size_t i = 0; i < d->n; i++) score[i] = !use[i];
    sg_machine sheet = d->sheet;
    if (!code) code = tiles_of_generation(t, d, &sheet, status);
    return code ? code : fit_and_predict(t, d, &sheet, &prior, use, score, into, status);
}

static sg_code rows_left_out(const table *t, const device *d, bool *use, bool *score, sg_validation *into,
                             sg_status *status) {
    sg_product_prior prior = t->start;
    sg_code code = SG_OK;
    /* few rows lean on the prior, which must not have seen the device */
    if (t->options->calibration_rows > 0) code = prior_without(t, d, &prior, status);
    if (code == SG_NO) return skip_device(t, d, status->text, into, status);
    int folds = t->options->folds > 0 ? t->options->folds : 5;
    for (int fold = 0; fold < folds && !code; fold++)
        code = fold_of_device(t, d, &prior, fold, use, score, into, status);
    return code;
}

/* As shipped: the machine's own parameters and measured shapes, and their uncertainty. */
static sg_code as_shipped(const table *t, const device *d, sg_validation *into, sg_status *status) {
    sg_product_prior own;
    sg_status why;
    if (sg_product_prior_of(&d->sheet, &own, &why)) return skip_device(t, d, why.text, into, status);
    sg_product_model model;
    sg_code code = sg_product_model_shipped(&d->sheet, &own, &model, status);
    for (size_t i = 0; i < d->n && !code; i++) code = predict_row(t, d, &model, d->row[i], into, status);
    sg_product_model_clear(&model);
    return code;
}

static sg_code validate_device(const table *t, const device *d, sg_validation *into, sg_status *status) {
    bool *use = calloc(d->n, sizeof *use), *score = calloc(d->n, sizeof *score);
    sg_code code;
    if (!use || !score)
        code = sg_fail_memory(status, d->n * sizeof *use, "the rows of a device");
    else if (t->options->left_out == SG_LEFT_OUT_DEVICES)
        code = device_left_out(t, d, use, score, into, status);
    else if (t->options->left_out == SG_LEFT_OUT_ROWS)
        code = rows_left_out(t, d, use, score, into, status);
    else
        code = as_shipped(t, d, into, status);
    free(use);
    free(score);
    return code ? sg_fail_in(status, "products of %.80s", d->name) : SG_OK;
}

sg_code sg_validate_gemm(const sg_csv_table *kernels, const sg_validate_options *options, sg_validation *into,
                         sg_status *status) {
    static const char *const columns[] = {"device", "op", "batch", "m", "n", "k", "latency_ms"};
    sg_code code = sg_csv_table_need(kernels, columns, sizeof columns / sizeof *columns, status);
    if (code || !kernels->n_rows) return code;
    table t = {.file = kernels, .options = options, .rows = calloc(kernels->n_rows, sizeof *t.rows)};
    if (!t.rows) return sg_fail_memory(status, kernels->n_rows * sizeof *t.rows, "the rows of a table");
    code = sg_config_dir(options->config_dir, t.config_dir, sizeof t.config_dir, status);
    if (!code) code = read_rows(&t, into, status);
    sg_product_prior_before(&t.start);
    for (size_t d = 0; d < t.n_devices && !code; d++)
        if (!t.devices[d].missing[0] && t.devices[d].n) code = validate_device(&t, &t.devices[d], into, status);
    for (size_t d = 0; d < t.n_devices; d++) {
        sg_machine_clear(&t.devices[d].sheet);
        free(t.devices[d].row);
    }
    free(t.devices);
    free(t.rows);
    return code ? sg_fail_in(status, "%s", kernels->path) : SG_OK;
}
