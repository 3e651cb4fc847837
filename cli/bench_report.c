#include "cli/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/measuring.h"
#include "sim/bench/micro_tree.h"

/* ---- looking things up ------------------------------------------------------------------------------------------- */

static bool text_fits(const char *wanted, const char *text) {
    return !*wanted || strcmp(wanted, text) == 0;
}

const sg_micro *sg_bench_find(const sg_bench_report *report, const char *device, const char *what, const char *compute,
                              int64_t n, int64_t bytes) {
    for (size_t i = 0; i < report->n_micros; i++) {
        const sg_micro_config *c = &report->micros[i].config;
        if (text_fits(device, c->device) && text_fits(what, c->what) && text_fits(compute, c->compute) &&
            (!n || n == c->n) && (!bytes || bytes == c->bytes))
            return &report->micros[i];
    }
    return NULL;
}

const char *sg_bench_remark(const sg_micro *micro) {
    if (!micro->fits_rates) return micro->disturbed ? "computed as fp32, disturbed" : "computed as fp32";
    return micro->disturbed ? "disturbed" : "";
}

sg_text sg_bench_percent(double share) {
    sg_text t;
    if (isfinite(share))
        (void)snprintf(t.s, sizeof t.s, "%.3g %%", 100 * share);
    else
        (void)snprintf(t.s, sizeof t.s, "-");
    return t;
}

sg_text sg_bench_spread(const sg_micro *micro) {
    sg_text t;
    (void)snprintf(t.s, sizeof t.s, "%.1f %%",
                   micro->s.median > 0 ? 50 * (micro->s.high - micro->s.low) / micro->s.median : 0);
    return t;
}

const char *sg_bench_precision_name(const char *compute) {
    return strcmp(compute, "f32") == 0 ? "fp32" : strcmp(compute, "f16") == 0 ? "fp16" : compute;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

enum { NOTES_SHOWN = 5, OMISSIONS_SHOWN = 3 };

static void print_disturbed(const sg_bench_report *report) {
    size_t n = 0;
    for (size_t i = 0; i < report->n_micros; i++) {
        const sg_micro *m = &report->micros[i];
        if (!m->disturbed || ++n > NOTES_SHOWN) continue;
        char size[SG_SHOW_BYTES + 8] = "";
        if (m->config.n) (void)snprintf(size, sizeof size, " n = %lld", (long long)m->config.n);
        if (m->config.bytes) (void)snprintf(size, sizeof size, " %s", sg_show_bytes((double)m->config.bytes).s);
        printf("  note: %s%s was disturbed: %s\n", m->config.what, size, m->disturbed_why);
    }
    if (n > NOTES_SHOWN) printf("  note: %zu more were disturbed, --json tells why\n", n - NOTES_SHOWN);
}

/* What was left out for the same reason stands on one line. */
static void print_omissions(const sg_bench_report *report) {
    for (size_t i = 0; i < report->n_omissions; i++) {
        const sg_bench_omission *o = &report->omissions[i];
        bool told = false;
        for (size_t j = 0; j < i; j++) told = told || strcmp(report->omissions[j].why, o->why) == 0;
        if (told) continue;
        size_t n = 1;
        printf("  left out: %s", o->what);
        for (size_t j = i + 1; j < report->n_omissions; j++)
            if (strcmp(report->omissions[j].why, o->why) == 0 && n++ < OMISSIONS_SHOWN)
                printf("; %s", report->omissions[j].what);
        if (n > OMISSIONS_SHOWN) printf(" and %zu more (--json names them)", n - OMISSIONS_SHOWN);
        printf(": %s\n", o->why);
    }
}

void sg_print_bench(const sg_bench_report *report) {
    static void (*const print[SG_BENCH_KINDS])(const sg_bench_report *) = {
        sg_print_bench_gemm,   sg_print_bench_memory,     sg_print_bench_copy,
        sg_print_bench_launch, sg_print_bench_collective, sg_print_bench_decode};
    for (size_t d = 0; d < report->n_devices; d++) {
        const sg_device_info *info = &report->device[d];
        printf("%s: %s, %s%s%s\n", info->kind, info->name, info->library, *info->driver ? ", driver " : "",
               info->driver);
    }
    if (report->n_micros) print[report->kind](report);
    print_disturbed(report);
    print_omissions(report);
    if (*report->missing) printf("  %s\n", report->missing);
    if (report->args->output && report->n_micros && !report->is_rank) printf("\nWritten to %s\n", report->args->output);
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static void add_fields(json_t *object, sg_fields fields, const void *from) {
    for (size_t i = 0; i < fields.n; i++) {
        const sg_field *field = &fields.field[i];
        const char *at = (const char *)from + field->offset;
        int64_t whole = 0;
        double real = 0;
        bool flag = false;
        json_t *value;
        switch (field->kind) {
        case SG_FIELD_TEXT: value = json_string(at); break;
        case SG_FIELD_F64:
            memcpy(&real, at, sizeof real);
            value = number(real);
            break;
        case SG_FIELD_BOOL:
            memcpy(&flag, at, sizeof flag);
            value = json_boolean(flag);
            break;
        default:
            memcpy(&whole, at, sizeof whole);
            value = json_integer((json_int_t)whole);
            break;
        }
        (void)json_object_set_new(object, field->name, value);
    }
}

static json_t *json_results(const sg_bench_report *report) {
    json_t *list = json_array();
    for (size_t i = 0; i < report->n_micros; i++) {
        json_t *one = json_object();
        add_fields(one, sg_micro_config_fields(), &report->micros[i].config);
        add_fields(one, sg_micro_fields(), &report->micros[i]);
        (void)json_array_append_new(list, one);
    }
    return list;
}

static json_t *json_devices(const sg_bench_report *report) {
    json_t *list = json_array();
    for (size_t i = 0; i < report->n_devices; i++) {
        const sg_device_info *d = &report->device[i];
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:i, s:I}", "device", d->kind, "name",
                                                    d->name, "library", d->library, "driver", d->driver, "units",
                                                    d->units, "memory_bytes", (json_int_t)d->memory_bytes));
    }
    return list;
}

json_t *sg_json_bench(const sg_bench_report *report) {
    json_t *omitted = json_array(), *summary = json_object();
    for (size_t i = 0; i < report->n_omissions; i++)
        (void)json_array_append_new(
            omitted, json_pack("{s:s, s:s}", "what", report->omissions[i].what, "why", report->omissions[i].why));
    if (report->kind == SG_BENCH_GEMM || report->kind == SG_BENCH_MEMORY) {
        json_decref(summary);
        summary = report->kind == SG_BENCH_GEMM ? sg_json_bench_gemm(report) : sg_json_bench_memory(report);
    }
    if (report->kind == SG_BENCH_DECODE) {
        json_decref(summary);
        summary = sg_json_bench_decode(report);
    }
    if (*report->missing) (void)json_object_set_new(summary, "missing", json_string(report->missing));
    return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "bench", sg_bench_name(report->kind), "machine",
                     sg_json_machine(&report->machine), "devices", json_devices(report), "results",
                     json_results(report), "left_out", omitted, "summary", summary);
}
