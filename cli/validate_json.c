/* validate_json.c: what validate says to scripts: JSON, and a CSV line per row. */
#include "cli/show.h"
#include "cli/validating.h"
#include "formats/durable_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

/* Text of other people's files need not be UTF-8: what is not becomes '?'. */
static json_t *text(const char *value) {
    json_t *string = json_string(value);
    if (string) return string;
    char plain[192];
    size_t n = 0;
    for (; value[n] && n < sizeof plain - 1; n++) plain[n] = (unsigned char)value[n] < 0x80 ? value[n] : '?';
    plain[n] = '\0';
    return json_string(plain);
}

static json_t *skipped_row(const sg_validated *r) {
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:I, s:o}", "class", sg_validate_class_name(r->cls), "device",
                     text(r->device), "part", text(r->part), "row", text(r->row), "file", text(r->file), "line",
                     (json_int_t)r->line, "reason", text(r->skipped[0] ? r->skipped : "nothing was measured"));
}

static json_t *summary(const sg_validating *v, const sg_validate_summary *s) {
    json_t *object = json_pack("{s:s, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o}", "class", sg_validate_class_name(s->cls),
                               "device", text(s->device), "part", text(s->part), "n", (json_int_t)s->n, "mean",
                               number(s->mean), "median", number(s->median), "p90", number(s->p90), "max",
                               number(s->max), "roofline_mean", number(s->roofline_mean));
    char coverage[32];
    (void)snprintf(coverage, sizeof coverage, "coverage_%.10g", 100 * v->options.interval);
    (void)json_object_set_new(object, coverage, number(s->coverage));
    (void)json_object_set_new(object, "under_estimates", json_integer((json_int_t)s->under_estimates));
    (void)json_object_set_new(object, "above_interval", json_integer((json_int_t)s->above_interval));
    if (strcmp(s->device, "all") == 0) {
        (void)json_object_set_new(object, "mean_of_devices", number(s->mean_of_devices));
        (void)json_object_set_new(object, "p90_of_devices", number(s->p90_of_devices));
    }
    return object;
}

/* Entries of classes[]: one per class, with parts[] and skipped[] inside. */
typedef struct entry {
    const sg_validate_summary *of;
    json_t *object, *parts, *skipped; /* borrowed */
} entry;

static int by_class_and_device(const void *x, const void *y) {
    const sg_validate_summary *a = ((const entry *)x)->of, *b = ((const entry *)y)->of;
    return a->cls != b->cls ? (int)a->cls - (int)b->cls : strcmp(a->device, b->device);
}

static size_t add_entries(const sg_validating *v, json_t *classes, entry *entries) {
    size_t n = 0;
    for (size_t i = 0; i < v->n_summaries; i++) {
        const sg_validate_summary *s = &v->summary[i];
        json_t *object = summary(v, s);
        if (s->part[0] && n) {
            (void)json_array_append_new(entries[n - 1].parts, object);
            continue;
        }
        json_t *parts = json_array(), *skipped = json_array();
        (void)json_object_set_new(object, "parts", parts);
        (void)json_object_set_new(object, "skipped", skipped);
        (void)json_array_append_new(classes, object);
        entries[n++] = (entry){s, object, parts, skipped};
    }
    return n;
}

static void add_skipped(const sg_validating *v, entry *entries, size_t n, json_t *everything) {
    qsort(entries, n, sizeof *entries, by_class_and_device);
    for (size_t i = 0; i < v->validation.n; i++) {
        const sg_validated *r = &v->validation.rows[i];
        if (sg_validated_scored(r)) continue;
        json_t *row = skipped_row(r);
        sg_validate_summary wanted = {.cls = r->cls};
        const char *const device[2] = {r->device, "all"};
        for (int k = 0; k < 2; k++) {
            memcpy(wanted.device, device[k], strnlen(device[k], sizeof wanted.device - 1) + 1);
            const entry key = {.of = &wanted};
            entry *found = bsearch(&key, entries, n, sizeof *entries, by_class_and_device);
            if (found) (void)json_array_append(found->skipped, row);
        }
        (void)json_array_append_new(everything, row);
    }
}

/* Rows outside of their interval, each with the cause that it states itself (or null). */
static json_t *outside(const sg_validating *v) {
    json_t *rows = json_array();
    for (size_t i = 0; i < v->validation.n; i++) {
        const sg_validated *r = &v->validation.rows[i];
        if (!r->cause[0] && r->cls != SG_VALIDATE_REPORTS_STEP) continue;
        if (!sg_validated_scored(r) || (r->measured >= r->low && r->measured <= r->high)) continue;
        (void)json_array_append_new(rows, json_pack("{s:s, s:o, s:o, s:f, s:f, s:f, s:f, s:o}", "class",
                                                    sg_validate_class_name(r->cls), "device", text(r->device), "row",
                                                    text(r->row), "measured", r->measured, "predicted", r->predicted,
                                                    "low", r->low, "high", r->high, "cause",
                                                    r->cause[0] ? text(r->cause) : json_null()));
    }
    return rows;
}

json_t *sg_validating_json(const sg_validating *v) {
    static const char *const left_out[] = {"nothing", "rows", "batches", "devices"};
    entry *entries = calloc(v->n_summaries ? v->n_summaries : 1, sizeof *entries);
    if (!entries) return NULL;
    json_t *classes = json_array(), *skipped = json_array();
    size_t n = add_entries(v, classes, entries);
    add_skipped(v, entries, n, skipped);
    free(entries);
    return json_pack("{s:s, s:I, s:I, s:f, s:o, s:o, s:o}", "left_out", left_out[v->options.left_out], "folds",
                     (json_int_t)v->options.folds, "calibration_rows", (json_int_t)v->options.calibration_rows,
                     "interval", v->options.interval, "classes", classes, "skipped", skipped, "outside", outside(v));
}

/* ---- a line per row ------------------------------------------------------------------------------------------------ */

static void csv_text(FILE *file, const char *value) {
    if (!strpbrk(value, ",\"\r\n")) {
        (void)fputs(value, file);
        return;
    }
    (void)fputc('"', file);
    for (const char *c = value; *c; c++) {
        if (*c == '"') (void)fputc('"', file);
        (void)fputc(*c, file);
    }
    (void)fputc('"', file);
}

static void csv_number(FILE *file, double value) {
    (void)fputc(',', file);
    if (isfinite(value)) (void)fprintf(file, "%.9g", value);
}

static void csv_row(FILE *file, const sg_validated *r) {
    (void)fputs(sg_validate_class_name(r->cls), file);
    const char *const texts[] = {r->device, r->part, r->row, r->file};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        (void)fputc(',', file);
        csv_text(file, texts[i]);
    }
    bool scored = sg_validated_scored(r);
    (void)fprintf(file, ",%zu", r->line);
    csv_number(file, r->measured);
    csv_number(file, scored ? r->predicted : NAN);
    csv_number(file, scored ? r->low : NAN);
    csv_number(file, scored ? r->high : NAN);
    csv_number(file, r->roofline);
    (void)fputc(',', file);
    csv_text(file, scored ? "" : r->skipped[0] ? r->skipped : "nothing was measured");
    (void)fputc(',', file);
    csv_text(file, r->cause);
    (void)fputc('\n', file);
}

sg_code sg_validating_write_rows(const sg_validating *v, const char *path, sg_status *status) {
    sg_text_writer rows;
    sg_code code = sg_text_open(path, &rows, status);
    if (code) return code;
    (void)fputs("class,device,part,row,file,line,measured,predicted,low,high,roofline,skipped,cause\n", rows.file);
    for (size_t i = 0; i < v->validation.n; i++) csv_row(rows.file, &v->validation.rows[i]);
    return sg_text_close(path, &rows, status);
}
