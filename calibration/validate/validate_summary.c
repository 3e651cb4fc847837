/* validate_summary.c: rows of predictions beside measurements, and their summary by class, device and part. */
#include "calibration/validate/validate.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *sg_validate_class_name(sg_validate_class cls) {
    static const char *const names[SG_VALIDATE_CLASS_COUNT] = {
        "gemm",         "memory_bound",   "steps_train", "steps_inference", "parallel_dp",       "collectives",
        "reports_step", "reports_memory", "logs",        "batches",         "batches_as_shipped"};
    return (unsigned)cls < SG_VALIDATE_CLASS_COUNT ? names[cls] : "";
}

sg_code sg_validation_add(sg_validation *validation, const sg_validated *row, sg_status *status) {
    if (validation->n == validation->room) {
        size_t room = validation->room ? 2 * validation->room : 256;
        sg_validated *grown = room > SIZE_MAX / sizeof *grown ? NULL : realloc(validation->rows, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "the rows of a validation");
        validation->rows = grown;
        validation->room = room;
    }
    validation->rows[validation->n++] = *row;
    return SG_OK;
}

void sg_validation_clear(sg_validation *validation) {
    free(validation->rows);
    *validation = (sg_validation){0};
}

int sg_validate_fold(const char *key, int folds) {
    /* FNV-1a (offset basis and prime of the 64-bit variant), then a final mix so that its low bits depend on all bytes */
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *c = key; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    hash ^= hash >> 32;
    return folds > 1 ? (int)(hash % (uint64_t)folds) : 0;
}

bool sg_validated_scored(const sg_validated *row) {
    return !row->skipped[0] && isfinite(row->measured) && row->measured > 0 && isfinite(row->predicted);
}

/* ---- groups -------------------------------------------------------------------------------------------------------- */

/* Rows in an order in which each group lies together. */
typedef struct ordered {
    const sg_validated *row;
    size_t index;
} ordered;

static int by_index(const ordered *a, const ordered *b) {
    return (a->index > b->index) - (a->index < b->index);
}

static int by_device(const void *x, const void *y) {
    const ordered *a = x, *b = y;
    int order = (int)a->row->cls - (int)b->row->cls;
    if (!order) order = strcmp(a->row->device, b->row->device);
    if (!order) order = strcmp(a->row->part, b->row->part);
    return order ? order : by_index(a, b);
}

static int by_part(const void *x, const void *y) {
    const ordered *a = x, *b = y;
    int order = (int)a->row->cls - (int)b->row->cls;
    if (!order) order = strcmp(a->row->part, b->row->part);
    if (!order) order = strcmp(a->row->device, b->row->device);
    return order ? order : by_index(a, b);
}

typedef struct summing {
    ordered *rows;
    double *error; /* scratch for as many rows */
    sg_validate_summary *out;
    size_t n, room;
    sg_status *status;
} summing;

static sg_validate_summary summary_of(const summing *s, const ordered *rows, size_t n, const char *device,
                                      const char *part) {
    sg_validate_summary sum = {.cls = rows[0].row->cls, .mean_of_devices = NAN, .p90_of_devices = NAN};
    (void)memccpy(sum.device, device, 0, sizeof sum.device - 1);
    (void)memccpy(sum.part, part, 0, sizeof sum.part - 1);
    size_t inside = 0, rooflines = 0;
    double roofline = 0;
    for (size_t i = 0; i < n; i++) {
        const sg_validated *r = rows[i].row;
        if (!sg_validated_scored(r)) {
            sum.skipped++;
            continue;
        }
        s->error[sum.n++] = fabs(r->predicted / r->measured - 1);
        if (r->predicted < r->measured) sum.under_estimates++;
        if (r->measured > r->high) sum.above_interval++;
        if (r->low <= r->measured && r->measured <= r->high) inside++;
        if (!isfinite(r->roofline)) continue;
        roofline += fabs(r->roofline / r->measured - 1);
        rooflines++;
    }
    sum.roofline_mean = rooflines ? roofline / (double)rooflines : NAN;
    sum.mean = sum.median = sum.p90 = sum.max = sum.coverage = NAN;
    if (!sum.n) return sum;
    sum.coverage = (double)inside / (double)sum.n;
    gsl_sort(s->error, 1, sum.n);
    sum.mean = gsl_stats_mean(s->error, 1, sum.n);
    sum.median = gsl_stats_median_from_sorted_data(s->error, 1, sum.n);
    sum.p90 = gsl_stats_quantile_from_sorted_data(s->error, 1, sum.n, 0.9);
    sum.max = s->error[sum.n - 1];
    return sum;
}

static sg_code add(summing *s, const sg_validate_summary *sum) {
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 32;
        sg_validate_summary *grown = realloc(s->out, room * sizeof *grown);
        if (!grown) return sg_fail_memory(s->status, room * sizeof *grown, "the summary of a validation");
        s->out = grown;
        s->room = room;
    }
    s->out[s->n++] = *sum;
    return SG_OK;
}

/* How many of the rows from 0 on belong to the group of the first. */
static size_t same(const ordered *rows, size_t n, bool device, bool part) {
    size_t k = 1;
    while (k < n && rows[k].row->cls == rows[0].row->cls &&
           (!device || strcmp(rows[k].row->device, rows[0].row->device) == 0) &&
           (!part || strcmp(rows[k].row->part, rows[0].row->part) == 0))
        k++;
    return k;
}

/* Mean over devices of their means and ninetieth percentiles; the rows of a device lie together. */
static void over_devices(const summing *s, sg_validate_summary *all, const ordered *rows, size_t n) {
    double mean = 0, p90 = 0;
    size_t devices = 0;
    for (size_t i = 0, k; i < n; i += k) {
        k = same(rows + i, n - i, true, false);
        sg_validate_summary sum = summary_of(s, rows + i, k, "", "");
        if (!sum.n) continue;
        mean += sum.mean;
        p90 += sum.p90;
        devices++;
    }
    if (!devices) return;
    all->mean_of_devices = mean / (double)devices;
    all->p90_of_devices = p90 / (double)devices;
}

/* Parts of one device's rows, or of all devices' ("all"). */
static sg_code add_parts(summing *s, const ordered *rows, size_t n, const char *device) {
    sg_code code = SG_OK;
    if (same(rows, n, false, true) == n) return code; /* one part: the whole says it already */
    for (size_t i = 0, k; i < n && !code; i += k) {
        k = same(rows + i, n - i, false, true);
        if (!rows[i].row->part[0]) continue; /* rows of no part count in the whole alone */
        sg_validate_summary sum = summary_of(s, rows + i, k, device, rows[i].row->part);
        if (strcmp(device, "all") == 0) over_devices(s, &sum, rows + i, k);
        code = add(s, &sum);
    }
    return code;
}

/* One class; rows lie by device, then part. */
static sg_code summarise_class(summing *s, ordered *rows, size_t n) {
    sg_validate_summary all = summary_of(s, rows, n, "all", "");
    over_devices(s, &all, rows, n);
    sg_code code = add(s, &all);
    qsort(rows, n, sizeof *rows, by_part);
    if (!code) code = add_parts(s, rows, n, "all");
    qsort(rows, n, sizeof *rows, by_device);
    for (size_t i = 0, k; i < n && !code; i += k) {
        k = same(rows + i, n - i, true, false);
        sg_validate_summary sum = summary_of(s, rows + i, k, rows[i].row->device, "");
        code = add(s, &sum);
        if (!code) code = add_parts(s, rows + i, k, rows[i].row->device);
    }
    return code;
}

sg_code sg_validate_summarise(const sg_validation *validation, sg_validate_summary **summaries, size_t *n,
                              sg_status *status) {
    *summaries = NULL;
    *n = 0;
    size_t rows = validation->n;
    if (!rows) return SG_OK;
    summing s = {.rows = calloc(rows, sizeof *s.rows), .error = calloc(rows, sizeof *s.error), .status = status};
    if (!s.rows || !s.error) {
        free(s.rows);
        free(s.error);
        return sg_fail_memory(status, rows * sizeof *s.rows, "the summary of a validation");
    }
    sg_code code = SG_OK;
    for (size_t i = 0; i < rows; i++) s.rows[i] = (ordered){&validation->rows[i], i};
    qsort(s.rows, rows, sizeof *s.rows, by_device);
    for (size_t i = 0, k; i < rows && !code; i += k) {
        k = same(s.rows + i, rows - i, false, false);
        code = summarise_class(&s, s.rows + i, k);
    }
    free(s.rows);
    free(s.error);
    if (code) {
        free(s.out);
        return code;
    }
    *summaries = s.out;
    *n = s.n;
    return SG_OK;
}
