/* import_json.c: imported logs as JSON. What a log does not tell is absent. */
#include "calibration/log/build.h"
#include "cli/importing.h"

#include <math.h>
#include <string.h>

/* Counters are whole numbers wherever they are exact. */
static void put(json_t *object, const char *name, double value) {
    if (!isfinite(value)) return;
    bool whole = value == floor(value) && fabs(value) < 9e15;
    (void)json_object_set_new(object, name, whole ? json_integer((json_int_t)value) : json_real(value));
}

static void put_real(json_t *object, const char *name, double value) {
    if (isfinite(value)) (void)json_object_set_new(object, name, json_real(value));
}

static void put_text(json_t *object, const char *name, const char *text) {
    if (text[0]) (void)json_object_set_new(object, name, json_string(text));
}

static void put_count(json_t *object, const char *name, int64_t value) {
    if (value > 0) (void)json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *config_of(const sg_log_config *c) {
    json_t *object = json_object();
    put_text(object, "policy", c->policy);
    put_count(object, "batch", c->batch);
    put_count(object, "ranks", c->ranks);
    put_count(object, "accumulation", c->accumulation);
    put_count(object, "samples_per_step", c->samples_per_step);
    put_count(object, "steps", c->steps);
    put_count(object, "frames", c->frames);
    put_count(object, "episodes", c->episodes);
    put_count(object, "parameters_total", c->parameters_total);
    put_count(object, "parameters_trainable", c->parameters_trainable);
    put_count(object, "workers", c->workers);
    put_count(object, "log_every", c->log_every);
    put_count(object, "save_every", c->save_every);
    put_count(object, "env_steps_per_iteration", c->env_steps_per_iteration);
    put_text(object, "device", c->device);
    return object;
}

static void put_fields(json_t *object, const double *value) {
    for (int f = 0; f < SG_LOG_FIELDS; f++) {
        const char *name = sg_log_field_name((sg_log_field)f);
        if (f == SG_LOG_PEAK_BYTES)
            put(object, name, round(value[f]));
        else
            put_real(object, name, value[f]);
    }
}

static json_t *window_of(const sg_log_window *w) {
    json_t *object = json_object();
    put(object, "step", w->step);
    if (w->step_low < w->step_high) {
        put(object, "step_low", w->step_low);
        put(object, "step_high", w->step_high);
    }
    put(object, "iteration", w->iteration);
    put_fields(object, w->value);
    put(object, "env_steps", w->env_steps);
    put(object, "time_s", w->time_s);
    if (w->stalled) (void)json_object_set_new(object, "stalled", json_true());
    if (w->summary) (void)json_object_set_new(object, "summary", json_true());
    return object;
}

static json_t *steady_of(const sg_log *log) {
    json_t *object = json_object();
    put_fields(object, log->steady);
    put_real(object, "mean_step_s", log->mean_step_s);
    (void)json_object_set_new(object, "windows", json_integer((json_int_t)log->steady_windows));
    (void)json_object_set_new(object, "first_dropped", json_integer((json_int_t)log->first_dropped));
    (void)json_object_set_new(object, "stalled", json_integer((json_int_t)log->stalled));
    return object;
}

static json_t *event_of(const sg_log_event *e) {
    json_t *object = json_object();
    put_text(object, "kind", sg_log_event_name(e->kind));
    put(object, "step", e->step);
    put_real(object, "seconds", e->seconds);
    put(object, "time_s", e->time_s);
    (void)json_object_set_new(object, "after_windows", json_integer((json_int_t)e->windows));
    put_text(object, "text", e->text);
    return object;
}

static json_t *diagnosis_of(const sg_diagnosis *d) {
    json_t *object = json_pack("{s:s, s:s}", "rule", d->rule, "cause", d->cause);
    put_real(object, "share", d->share);
    put_text(object, "text", d->text);
    put_text(object, "evidence", d->evidence);
    put_text(object, "remedy", d->remedy);
    put_real(object, "expected_gain", d->gain);
    return object;
}

static void put_explanation(json_t *object, const sg_explanation *e) {
    json_t *diagnoses = json_array(), *asks = json_array();
    for (size_t i = 0; i < e->n; i++) (void)json_array_append_new(diagnoses, diagnosis_of(&e->diagnosis[i]));
    for (size_t i = 0; i < e->n_asks; i++) (void)json_array_append_new(asks, json_string(e->asks[i]));
    (void)json_object_set_new(object, "diagnoses", diagnoses);
    (void)json_object_set_new(object, "asks", asks);
}

static json_t *log_of(const sg_import *import, const sg_log *log, const sg_explanation *explanation) {
    char file[512];
    sg_log_copy_text(file, sizeof file, import->path, strlen(import->path));
    json_t *windows = json_array(), *events = json_array(), *warnings = json_array();
    for (size_t i = 0; i < log->n_windows; i++) (void)json_array_append_new(windows, window_of(&log->windows[i]));
    for (size_t i = 0; i < log->n_events; i++) (void)json_array_append_new(events, event_of(&log->events[i]));
    for (size_t i = 0; i < log->n_warnings; i++) (void)json_array_append_new(warnings, json_string(log->warnings[i]));
    json_t *object = json_pack("{s:s, s:s, s:o, s:I, s:o, s:o, s:o, s:o}", "file", file, "format", log->format,
                               "config", config_of(&log->config), "windows_seen", (json_int_t)log->windows_seen,
                               "windows", windows, "steady", steady_of(log), "events", events, "warnings", warnings);
    if (!object) return NULL;
    put_real(object, "jit_s", log->jit_s);
    put_real(object, "train_s", log->train_s);
    if (import->has_config) put_text(object, "train_config", import->config_path);
    if (explanation) put_explanation(object, explanation);
    return object;
}

void sg_json_import(const sg_import *import, const sg_explanation *explanations, json_t *list) {
    for (size_t i = 0; i < import->logs.n; i++)
        (void)json_array_append_new(list,
                                    log_of(import, &import->logs.logs[i], explanations ? &explanations[i] : NULL));
}
