/* validate_memory.c: bandwidth-bound kernels predicted without the row's part of the measurements, or without its device. */
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/kernels/kernel_fit_rows.h"
#include "calibration/kernels/row_shapes.h"
#include "calibration/machine/machine_file.h"
#include "calibration/machine/machine_match.h"
#include "calibration/predict/predict.h"
#include "calibration/statistics/figure.h"
#include "calibration/validate/validate.h"

enum { MOST_DEVICES = 64 };
/* Rows that a scatter which was not seen counts for, against rows that were. */
static const double USUAL_ROWS = 8;

typedef struct device {
    char name[96], slug[64], why[160]; /* as in the table; of its sheet; why it has none */
    sg_machine base, own;              /* the sheet with the general prior; the sheet as it ships */
    sg_machine fitted;                 /* from all of its rows */
    size_t n;                          /* rows */
} device;

typedef struct job {
    const sg_csv_table *table;
    const sg_validate_options *options;
    sg_validation *into;
    sg_kernel_row *row; /* that can be read, in the order of the table */
    int *of, *fold;     /* device and fold of each */
    size_t n;
    device *devices;
    size_t n_devices;
    /* scratch of as many rows: those that a fit may see, their residuals, and positions of those to predict */
    const sg_kernel_row **seen;
    double *residual, *sorted;
    size_t *wanted;
    size_t n_seen, n_wanted;
} job;

static void keep(char *to, size_t bytes, const char *text) {
    (void)snprintf(to, bytes, "%.*s", (int)bytes - 1, text);
}

static sg_validated blank(const job *j, size_t line, const char *slug) {
    const char *slash = strrchr(j->table->path, '/');
    sg_validated v = {
        .cls = SG_VALIDATE_MEMORY_BOUND, .line = line + 2, .measured = NAN, .predicted = NAN, .roofline = NAN};
    keep(v.file, sizeof v.file, slash ? slash + 1 : j->table->path);
    keep(v.device, sizeof v.device, slug);
    (void)snprintf(v.row, sizeof v.row, "%.12s %.20sx%.20s", sg_csv_table_text(j->table, line, "op"),
                   sg_csv_table_text(j->table, line, "rows"), sg_csv_table_text(j->table, line, "cols"));
    return v;
}

static sg_code skip(job *j, size_t line, const char *slug, const char *why, sg_status *status) {
    sg_validated v = blank(j, line, slug);
    double ms;
    if (sg_csv_table_number(j->table, line, "latency_ms", &ms)) v.measured = ms * 1e-3;
    keep(v.skipped, sizeof v.skipped, why);
    return sg_validation_add(j->into, &v, status);
}

/* ---- devices --------------------------------------------------------------------------------------------------------- */

/* The sheet, and the sheet with what holds for any GPU in place of what was fitted to this one. */
static sg_code load_device(device *d, const char *config_dir, sg_status *status) {
    sg_machine general;
    sg_machine_init(&general);
    sg_code code = sg_machine_match(config_dir, "cuda", d->name, 0, &d->own, status);
    if (!code) code = sg_machine_prior_read("cuda", config_dir, &general, status);
    if (code) return code;
    keep(d->slug, sizeof d->slug, d->own.name);
    d->base = d->own; /* what d->own owns stays there */
    d->base.covariance = NULL;
    d->base.measured = NULL;
    for (int kind = 0; kind < SG_ROW_KIND_COUNT; kind++) {
        const sg_machine_id *ids;
        size_t n = sg_row_terms((sg_row_kind)kind, &ids);
        for (size_t i = 0; i < n; i++) d->base.p[ids[i]] = general.p[ids[i]];
    }
    return SG_OK;
}

static sg_code find_device(job *j, const char *name, const char *folder, int *index, sg_status *status) {
    for (size_t i = 0; i < j->n_devices; i++)
        if (strcmp(j->devices[i].name, name) == 0) return *index = (int)i, SG_OK;
    if (j->n_devices == MOST_DEVICES)
        return sg_fail(status, SG_BAD_INPUT, "%.200s: more than %d devices", j->table->path, MOST_DEVICES);
    device *d = &j->devices[j->n_devices];
    *d = (device){.n = 0};
    sg_machine_init(&d->own);
    sg_machine_init(&d->base);
    sg_machine_init(&d->fitted);
    keep(d->name, sizeof d->name, name);
    sg_status why = {0};
    if (strlen(name) >= sizeof d->name)
        keep(d->why, sizeof d->why, "the name of the device is too long");
    else if (load_device(d, folder, &why))
        keep(d->why, sizeof d->why, why.text);
    if (d->why[0]) keep(d->slug, sizeof d->slug, name);
    *index = (int)j->n_devices++;
    return SG_OK;
}

static sg_code gather(job *j, const char *folder, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t line = 0; line < j->table->n_rows && !code; line++) {
        int index = 0;
        code = find_device(j, sg_csv_table_text(j->table, line, "device"), folder, &index, status);
        if (code) return code;
        device *d = &j->devices[index];
        const char *why = d->why[0] ? d->why : sg_kernel_row_read(j->table, line, &j->row[j->n]);
        if (why) {
            code = skip(j, line, d->slug, why, status);
            continue;
        }
        char key[96];
        (void)snprintf(key, sizeof key, "%.40s %s %ld %ld", d->slug, j->row[j->n].name, (long)j->row[j->n].rows,
                       (long)j->row[j->n].columns);
        j->fold[j->n] = sg_validate_fold(key, j->options->folds > 0 ? j->options->folds : 5);
        j->of[j->n++] = index;
        d->n++;
    }
    return code;
}

/* ---- predictions ------------------------------------------------------------------------------------------------------- */

/* Parameters of rows are relative to the listed bandwidth and to eff_norm and eff_softmax: the doubt of those is in theirs. */
static double own_log_sd(const sg_machine *machine, sg_row_kind kind, const double *slope, double seconds) {
    double own[SG_M_COUNT] = {0};
    const sg_machine_id *ids;
    size_t n = sg_row_terms(kind, &ids);
    for (size_t i = 0; i < n; i++) own[ids[i]] = slope[ids[i]];
    return sqrt(sg_machine_log_variance(machine, own, seconds));
}

static sg_code predict(const sg_machine *machine, const sg_kernel_row *row, double *seconds, double *log_sd,
                       sg_status *status) {
    sg_kernel_row copy = *row;
    double slope[SG_M_COUNT];
    sg_code code = sg_machine_price_alone(machine, sg_kernel_row_op(&copy), seconds, slope, status);
    if (!code && log_sd) *log_sd = own_log_sd(machine, row->kind, slope, *seconds);
    return code;
}

/* Log sd of rows about prediction and correction: so wide that nine of ten seen rows, each corrected by the others, lie in an
 * interval of 90 %. Few rows lean on what is usual. */
static double scatter(job *j, const sg_row_shapes *shapes, sg_row_kind kind) {
    double usual = sg_row_scatter_usual().log_sd[kind];
    size_t n = 0;
    for (size_t i = 0; i < shapes->n; i++)
        if (shapes->rows[i]->kind == kind)
            j->sorted[n++] = fabs(shapes->log_residual[i] - sg_row_shapes_correction(shapes, shapes->rows[i], i));
    gsl_sort(j->sorted, 1, n);
    double reach = gsl_cdf_tdist_Pinv(0.95, 4),
           seen = n ? gsl_stats_quantile_from_sorted_data(j->sorted, 1, n, 0.9) / reach : usual;
    return exp(((double)n * log(fmax(seen, 1e-4)) + USUAL_ROWS * log(usual)) / ((double)n + USUAL_ROWS));
}

static sg_code add(job *j, const device *d, size_t i, const sg_machine *machine, double correction, double model_log_sd,
                   sg_status *status) {
    const sg_kernel_row *row = &j->row[i];
    sg_validated v = blank(j, row->line, d->slug);
    double seconds, log_sd;
    sg_status why = {0};
    keep(v.part, sizeof v.part, sg_row_kind_name(row->kind));
    if (predict(machine, row, &seconds, &log_sd, &why)) return skip(j, row->line, d->slug, why.text, status);
    sg_figure f = sg_figure_make(seconds * exp(correction), (sg_log_sd){.parameters = log_sd, .model = model_log_sd},
                                 SG_EVIDENCE_CALIBRATED, j->options->interval);
    sg_kernel_row copy = *row;
    sg_cost cost = sg_op_cost(sg_kernel_row_op(&copy));
    v.measured = row->seconds;
    v.predicted = f.value;
    v.low = f.low;
    v.high = f.high;
    v.roofline = (cost.bytes_read + cost.bytes_written) / d->own.p[SG_M_BANDWIDTH].value;
    return sg_validation_add(j->into, &v, status);
}

/* Fits a machine to the rows seen (none: it stays), and predicts those wanted with what their neighbours err by. */
static sg_code fit_and_predict(job *j, const device *d, sg_machine *machine, sg_status *status) {
    sg_code code = j->n_seen ? sg_fit_rows(j->seen, j->n_seen, "rows seen", machine, NULL, status) : SG_OK;
    for (size_t i = 0; i < j->n_seen && !code; i++) {
        double seconds;
        code = predict(machine, j->seen[i], &seconds, NULL, status);
        if (!code) j->residual[i] = log(j->seen[i]->seconds / seconds);
    }
    sg_row_shapes shapes = {j->seen, j->residual, j->n_seen};
    double model[SG_ROW_KIND_COUNT];
    for (int k = 0; k < SG_ROW_KIND_COUNT && !code; k++) model[k] = scatter(j, &shapes, (sg_row_kind)k);
    for (size_t i = 0; i < j->n_wanted && !code; i++) {
        const sg_kernel_row *row = &j->row[j->wanted[i]];
        code = add(j, d, j->wanted[i], machine, sg_row_shapes_correction(&shapes, row, SIZE_MAX), model[row->kind],
                   status);
    }
    return code;
}

typedef struct ranked {
    size_t row;
    int order;
} ranked;

static int by_order(const void *x, const void *y) {
    const ranked *a = x, *b = y;
    return a->order != b->order ? (a->order > b->order) - (a->order < b->order) : (a->row > b->row) - (a->row < b->row);
}

/* Of the rows seen only so many, as many of each kind where there are, in the order of their hashes. */
static sg_code thin_out(job *j, int most, sg_status *status) {
    if (most <= 0 || j->n_seen <= (size_t)most) return SG_OK;
    ranked *rank = calloc(j->n_seen, sizeof *rank);
    const sg_kernel_row **kept = calloc((size_t)most, sizeof(const sg_kernel_row *));
    if (rank && kept) {
        for (size_t i = 0; i < j->n_seen; i++) {
            char key[80];
            const sg_kernel_row *r = j->seen[i];
            (void)snprintf(key, sizeof key, "%ld %ld %s", (long)r->columns, (long)r->rows, r->name);
            rank[i] = (ranked){i, sg_validate_fold(key, 1 << 30)};
        }
        qsort(rank, j->n_seen, sizeof *rank, by_order);
        size_t n = 0;
        for (size_t round = 0; n < (size_t)most; round++)
            for (int kind = 0; kind < SG_ROW_KIND_COUNT && n < (size_t)most; kind++) {
                size_t before = 0;
                for (size_t i = 0; i < j->n_seen; i++) {
                    if (j->seen[rank[i].row]->kind != (sg_row_kind)kind || before++ != round) continue;
                    kept[n++] = j->seen[rank[i].row];
                    break;
                }
            }
        memcpy((void *)j->seen, (const void *)kept, n * sizeof(const sg_kernel_row *));
        j->n_seen = n;
    }
    bool failed = !rank || !kept;
    free(rank);
    free((void *)kept);
    return failed ? sg_fail_memory(status, j->n_seen * sizeof *rank, "the rows of a calibration") : SG_OK;
}

/* What the other devices of the table say; the general prior where there are none. */
static sg_machine prior_of(const job *j, size_t index, sg_machine *others) {
    size_t n = 0;
    for (size_t i = 0; i < j->n_devices; i++)
        if (i != index && j->devices[i].n && strcmp(j->devices[i].slug, j->devices[index].slug) != 0)
            others[n++] = j->devices[i].fitted;
    sg_machine m = j->devices[index].base;
    m.covariance = NULL;
    if (n >= 2) sg_row_prior_from(others, n, &m);
    return m;
}

static sg_code without_rows(job *j, size_t index, sg_machine *others, sg_status *status) {
    int folds = j->options->folds > 0 ? j->options->folds : 5;
    sg_code code = SG_OK;
    for (int fold = 0; fold < folds && !code; fold++) {
        j->n_seen = j->n_wanted = 0;
        for (size_t i = 0; i < j->n; i++) {
            if (j->of[i] != (int)index) continue;
            if (j->fold[i] == fold)
                j->wanted[j->n_wanted++] = i;
            else
                j->seen[j->n_seen++] = &j->row[i];
        }
        if (!j->n_wanted) continue;
        sg_machine m = prior_of(j, index, others);
        code = thin_out(j, j->options->calibration_rows, status);
        if (!code) code = fit_and_predict(j, &j->devices[index], &m, status);
        sg_machine_clear(&m);
    }
    return code;
}

static bool was_seen(const job *j, const sg_kernel_row *row) {
    for (size_t i = 0; i < j->n_seen; i++)
        if (j->seen[i] == row) return true;
    return false;
}

static sg_code without_device(job *j, size_t index, sg_machine *others, sg_status *status) {
    j->n_seen = j->n_wanted = 0;
    for (size_t i = 0; i < j->n; i++)
        if (j->of[i] == (int)index) j->seen[j->n_seen++] = &j->row[i];
    sg_code code = thin_out(j, j->options->calibration_rows, status);
    if (j->options->calibration_rows <= 0) j->n_seen = 0;
    for (size_t i = 0; i < j->n; i++)
        if (j->of[i] == (int)index && !was_seen(j, &j->row[i])) j->wanted[j->n_wanted++] = i;
    sg_machine m = prior_of(j, index, others);
    if (!code) code = fit_and_predict(j, &j->devices[index], &m, status);
    sg_machine_clear(&m);
    return code;
}

static sg_code as_shipped(job *j, size_t index, sg_status *status) {
    const device *d = &j->devices[index];
    sg_machine m = d->own;
    sg_code code = SG_OK;
    if (!m.covariance) sg_row_doubt_of_kernels(&m);
    for (size_t i = 0; i < j->n && !code; i++)
        if (j->of[i] == (int)index) code = add(j, d, i, &m, 0, sg_row_scatter_usual().log_sd[j->row[i].kind], status);
    return code;
}

/* Every device from all of its rows, as relatives of the others. */
static sg_code fit_all(job *j, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t d = 0; d < j->n_devices && !code; d++) {
        if (!j->devices[d].n) continue;
        j->n_seen = 0;
        for (size_t i = 0; i < j->n; i++)
            if (j->of[i] == (int)d) j->seen[j->n_seen++] = &j->row[i];
        j->devices[d].fitted = j->devices[d].base;
        code = sg_fit_rows(j->seen, j->n_seen, "rows seen", &j->devices[d].fitted, NULL, status);
    }
    return code;
}

static sg_code run(job *j, const char *folder, sg_status *status) {
    sg_code code = gather(j, folder, status);
    bool fits = j->options->left_out != SG_LEFT_OUT_NOTHING;
    if (!code && fits) code = fit_all(j, status);
    sg_machine *others = fits ? calloc(MOST_DEVICES, sizeof *others) : NULL;
    if (!code && fits && !others)
        code = sg_fail_memory(status, MOST_DEVICES * sizeof *others, "machines of a validation");
    for (size_t d = 0; d < j->n_devices && !code; d++) {
        if (!j->devices[d].n) continue;
        switch (j->options->left_out) {
        case SG_LEFT_OUT_ROWS: code = without_rows(j, d, others, status); break;
        case SG_LEFT_OUT_DEVICES: code = without_device(j, d, others, status); break;
        default: code = as_shipped(j, d, status);
        }
    }
    free(others);
    return code;
}

sg_code sg_validate_memory_bound(const sg_csv_table *kernels, const sg_validate_options *options, sg_validation *into,
                                 sg_status *status) {
    char folder[SG_PATH_BYTES];
    sg_code code = sg_kernel_rows_check(kernels, status);
    if (!code) code = sg_config_dir(options->config_dir, folder, sizeof folder, status);
    if (code) return code;
    size_t n = kernels->n_rows ? kernels->n_rows : 1;
    job j = {.table = kernels, .options = options, .into = into};
    j.row = calloc(n, sizeof *j.row);
    j.of = calloc(n, sizeof *j.of);
    j.fold = calloc(n, sizeof *j.fold);
    j.devices = calloc(MOST_DEVICES, sizeof *j.devices);
    j.seen = calloc(n, sizeof(const sg_kernel_row *));
    j.residual = calloc(n, sizeof *j.residual);
    j.sorted = calloc(n, sizeof *j.sorted);
    j.wanted = calloc(n, sizeof *j.wanted);
    if (!j.row || !j.of || !j.fold || !j.devices || !j.seen || !j.residual || !j.sorted || !j.wanted)
        code = sg_fail_memory(status, n * sizeof *j.row, "the rows of a table");
    else
        code = run(&j, folder, status);
    for (size_t d = 0; d < j.n_devices; d++) {
        sg_machine_clear(&j.devices[d].own);
        sg_machine_clear(&j.devices[d].fitted);
    }
    free(j.row);
    free(j.of);
    free(j.fold);
    free(j.devices);
    free((void *)j.seen);
    free(j.residual);
    free(j.sorted);
    free(j.wanted);
    return code;
}
