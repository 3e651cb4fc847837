/* compare_show.c: a comparison as a table and as JSON. */
#include "cli/comparing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/log/build.h"

static json_t *number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *phase_of(const sg_compared *p) {
    json_t *object = json_pack("{s:o, s:o, s:o, s:o, s:o}", "log", number(p->log), "measured", number(p->measured),
                               "predicted", sg_json_figure(&p->predicted), "log_over_measured", number(p->by_measured),
                               "log_over_predicted", number(p->by_predicted));
    if (object && isfinite(p->by_predicted)) (void)json_object_set_new(object, "inside", json_boolean(p->inside));
    return object;
}

json_t *sg_json_comparison(const sg_import *import, const sg_compare_with *with, const sg_compare_answer *a) {
    char file[512];
    sg_log_copy_text(file, sizeof file, import->path, strlen(import->path));
    json_t *phases = json_object(), *findings = json_array();
    const sg_comparison *c = &a->comparison;
    for (size_t i = 0; i < c->n; i++) (void)json_object_set_new(phases, c->phase[i].name, phase_of(&c->phase[i]));
    for (size_t i = 0; i < c->n_findings; i++) (void)json_array_append_new(findings, json_string(c->findings[i]));
    const sg_point_config *k = &a->config;
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:o, s:o}", "file", file, "format",
                               a->log->format, "policy", k->policy, "framework", k->framework, "precision",
                               k->precision, "batch", (json_int_t)k->batch, "ranks", (json_int_t)k->ranks, "cameras",
                               (json_int_t)k->cameras, "phases", phases, "findings", findings);
    if (!object) return NULL;
    if (k->envs > 0) (void)json_object_set_new(object, "envs", json_integer((json_int_t)k->envs));
    if (c->only_window) (void)json_object_set_new(object, "only_window", json_true());
    if (a->predicted) (void)json_object_set_new(object, "machine", json_string(with->machine));
    if (with->note[0]) (void)json_object_set_new(object, "not_predicted", json_string(with->note));
    if (!a->measured) return object;
    json_t *point =
        json_pack("{s:s, s:s, s:I, s:b}", "device", a->measured->config.device, "source", a->measured->source, "batch",
                  (json_int_t)a->measured->config.batch, "same_configuration", a->exact);
    if (point && a->differs[0]) (void)json_object_set_new(point, "differs", json_string(a->differs));
    (void)json_object_set_new(object, "nearest_point", point);
    return object;
}

static sg_text value_of(const char *name, double value) {
    sg_text empty = {"-"};
    if (!isfinite(value)) return empty;
    if (strcmp(name, "peak_allocated_bytes") == 0) return sg_show_bytes(value);
    size_t n = strlen(name);
    return n > 6 && strcmp(name + n - 6, "_per_s") == 0 ? sg_show_si(value, "/s") : sg_show_seconds(value);
}

static void ratio(char *text, size_t bytes, double value) {
    (void)snprintf(text, bytes, isfinite(value) ? "%.2f" : "-", value);
}

static void print_phases(const sg_compare_answer *a) {
    const char *const header[] = {"phase",     "log",      "measured here",   "log / measured",
                                  "predicted", "interval", "log / predicted", ""};
    sg_table *table = sg_table_new(8, header);
    for (size_t i = 0; i < a->comparison.n; i++) {
        const sg_compared *p = &a->comparison.phase[i];
        sg_text log = value_of(p->name, p->log), ours = value_of(p->name, a->exact ? p->measured : NAN);
        sg_text predicted = value_of(p->name, p->predicted.value);
        char interval[2 * SG_SHOW_BYTES] = "-", by_ours[24], by_predicted[24];
        if (isfinite(p->predicted.value))
            (void)snprintf(interval, sizeof interval, "%.40s .. %.40s", value_of(p->name, p->predicted.low).s,
                           value_of(p->name, p->predicted.high).s);
        ratio(by_ours, sizeof by_ours, a->exact ? p->by_measured : NAN);
        ratio(by_predicted, sizeof by_predicted, p->by_predicted);
        const char *inside = !isfinite(p->by_predicted) ? "" : p->inside ? "inside" : "OUTSIDE";
        const char *const row[] = {p->name, log.s, ours.s, by_ours, predicted.s, interval, by_predicted, inside};
        sg_table_row(table, row);
    }
    sg_table_print(table);
}

void sg_print_comparison(const sg_import *import, const sg_compare_with *with, const sg_compare_answer *a) {
    const sg_point_config *k = &a->config;
    printf("%s (%s) as %s, %s, %s", import->path, a->log->format, k->policy, k->framework, k->precision);
    if (k->envs > 0)
        printf(", %lld environments of %lld steps", (long long)k->envs, (long long)k->steps_per_env);
    else
        printf(", batch %lld", (long long)k->batch);
    if (k->cameras > 0)
        printf(", %lld cameras of %lldx%lld", (long long)k->cameras, (long long)k->image_height,
               (long long)k->image_width);
    if (k->ranks > 1) printf(", %lld ranks", (long long)k->ranks);
    printf("\n");
    if (a->predicted) printf("Predicted for %s\n", with->machine);
    printf("\n");
    print_phases(a);
    printf("\n");
    if (a->comparison.only_window)
        printf("Note: the log has no steady windows; these are the values of its only one, warm-up included\n");
    if (with->note[0]) printf("Note: %s\n", with->note);
    if (with->has_run && !a->measured) printf("Note: the run file holds no point of %s\n", k->policy);
    if (a->measured && !a->exact)
        printf(
            "Note: the run file holds no point of this configuration, so only the prediction is compared; the nearest "
            "has %s\n",
            a->differs);
    for (size_t i = 0; i < a->comparison.n_findings; i++) printf("- %s.\n", a->comparison.findings[i]);
}
