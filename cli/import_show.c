/* import_show.c: imported logs as tables. */
#include "cli/importing.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows of windows that are printed: the first and the last ones. */
enum { SHOWN_AT_ENDS = 6 };

static void print_count(const char *label, int64_t value) {
    if (value > 0) printf("  %-22s %s\n", label, sg_show_count(value).s);
}

static void print_config(const sg_log *log) {
    const sg_log_config *c = &log->config;
    if (c->policy[0]) printf("  %-22s %s\n", "policy", c->policy);
    print_count("batch", c->batch);
    print_count("ranks", c->ranks);
    print_count("steps", c->steps);
    print_count("frames", c->frames);
    print_count("episodes", c->episodes);
    print_count("parameters", c->parameters_total);
    print_count("  of them trained", c->parameters_trainable);
    print_count("loader workers", c->workers);
    print_count("env steps / iteration", c->env_steps_per_iteration);
}

static sg_text cell(sg_log_field field, double value) {
    sg_text empty = {"-"};
    if (isnan(value)) return empty;
    if (field == SG_LOG_PEAK_BYTES) return sg_show_bytes(value);
    if (field == SG_LOG_SAMPLES_PER_S || field == SG_LOG_ENV_STEPS_PER_S) return sg_show_si(value, "");
    return sg_show_seconds(value);
}

static const char *label(sg_log_field field) {
    static const char *const labels[SG_LOG_FIELDS] = {"update", "data",       "prep",     "step",      "peak",
                                                      "smp/s",  "collection", "learning", "iteration", "env steps/s"};
    return labels[field];
}

static bool told(const sg_log *log, int field) {
    for (size_t i = 0; i < log->n_windows; i++)
        if (!isnan(log->windows[i].value[field])) return true;
    return !isnan(log->steady[field]);
}

static void print_windows(const sg_log *log) {
    const char *header[SG_LOG_FIELDS + 2] = {!log->n_windows || isnan(log->windows[0].iteration) ? "step"
                                                                                                 : "iteration"};
    int field[SG_LOG_FIELDS];
    size_t columns = 1;
    for (int f = 0; f < SG_LOG_FIELDS; f++) {
        if (!told(log, f) || (f == SG_LOG_STEP_S && told(log, SG_LOG_COLLECTION_S))) continue;
        field[columns - 1] = f;
        header[columns++] = label((sg_log_field)f);
    }
    header[columns++] = "";
    sg_table *table = sg_table_new(columns, header);
    for (size_t i = 0; i < log->n_windows + 1; i++) {
        const bool last = i == log->n_windows;
        if (i == SHOWN_AT_ENDS && log->n_windows > 2 * (size_t)SHOWN_AT_ENDS) i = log->n_windows - SHOWN_AT_ENDS;
        const sg_log_window *w = last ? NULL : &log->windows[i];
        sg_text text[SG_LOG_FIELDS + 2];
        const char *row[SG_LOG_FIELDS + 2];
        double place = w ? isnan(w->iteration) ? w->step : w->iteration : NAN;
        if (last)
            (void)snprintf(text[0].s, sizeof text[0].s, "steady (%llu)", (unsigned long long)log->steady_windows);
        else
            (void)snprintf(text[0].s, sizeof text[0].s, isnan(place) ? "-" : "%s%.0f",
                           w->step_low < w->step_high && isnan(w->iteration) ? "~" : "", place);
        for (size_t c = 0; c + 2 < columns; c++)
            text[c + 1] = cell((sg_log_field)field[c], last ? log->steady[field[c]] : w->value[field[c]]);
        const char *note = last ? "median" : w->summary ? "whole run" : w->stalled ? "stalled" : "";
        if (!last && i == 0 && log->first_dropped) note = "warm-up";
        (void)snprintf(text[columns - 1].s, sizeof text[0].s, "%s", note);
        for (size_t c = 0; c < columns; c++) row[c] = text[c].s;
        sg_table_row(table, row);
    }
    sg_table_print(table);
}

static void print_events(const sg_log *log) {
    size_t shown = log->n_events < 20 ? log->n_events : 20;
    for (size_t i = 0; i < shown; i++) {
        const sg_log_event *e = &log->events[i];
        printf("  %-13s", sg_log_event_name(e->kind));
        if (!isnan(e->step)) printf(" step %.0f", e->step);
        if (!isnan(e->seconds)) printf(" took %s", sg_show_duration(e->seconds).s);
        printf("  %.100s\n", e->text);
    }
    if (shown < log->n_events) printf("  ... %zu more events\n", log->n_events - shown);
}

static void print_diagnosis(const sg_diagnosis *d, size_t number) {
    printf("\n%zu. %s.\n", number, d->text);
    printf("   Cause: %s", d->cause);
    if (isfinite(d->share)) printf(", %.3g %% of the time", 100 * d->share);
    printf(".\n");
    if (d->evidence[0]) printf("   Evidence: %s.\n", d->evidence);
    if (d->remedy[0]) printf("   What to do: %s.\n", d->remedy);
    if (!isfinite(d->gain)) return;
    if (strcmp(d->cause, "length") == 0)
        printf("   Expected: done in %.3g %% of the time.\n", 100 / d->gain);
    else
        printf("   Expected: up to %.2f times as fast.\n", d->gain);
}

static void print_explanation(const sg_explanation *e) {
    printf("\nWhat limits this training\n");
    enum { FIRST = 5 }; /* largest share first */
    for (size_t i = 0; i < e->n; i++) {
        if (i == FIRST) printf("\nLess important\n");
        print_diagnosis(&e->diagnosis[i], i + 1);
    }
    if (!e->n) printf("  Nothing that this log shows: no rule found its numbers in it.\n");
    if (e->n_asks) printf("\nWhat would tell more\n");
    for (size_t i = 0; i < e->n_asks; i++) printf("  %s.\n", e->asks[i]);
}

void sg_print_import(const sg_import *import, const sg_explanation *explanations) {
    for (size_t i = 0; i < import->logs.n; i++) {
        const sg_log *log = &import->logs.logs[i];
        printf("%s%s: %s, %llu window%s\n", i ? "\n" : "", import->path, log->format,
               (unsigned long long)log->windows_seen, log->windows_seen == 1 ? "" : "s");
        if (import->has_config) printf("  %-22s %s\n", "also from", import->config_path);
        print_config(log);
        if (log->n_windows) {
            printf("\n");
            print_windows(log);
        }
        if (!isnan(log->jit_s)) printf("  compilation %s\n", sg_show_duration(log->jit_s).s);
        if (!isnan(log->train_s)) printf("  training %s\n", sg_show_duration(log->train_s).s);
        if (log->stalled)
            printf("  %llu stalled windows left out; with them a step takes %s on average\n",
                   (unsigned long long)log->stalled, sg_show_seconds(log->mean_step_s).s);
        if (log->n_events) printf("\nEvents\n");
        print_events(log);
        for (size_t w = 0; w < log->n_warnings; w++) printf("Note: %s\n", log->warnings[w]);
        if (explanations) print_explanation(&explanations[i]);
    }
}
