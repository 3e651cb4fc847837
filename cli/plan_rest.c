/* plan_rest.c: what is left of a training under way, from its own log. */
#include "calibration/forecast/forecast.h"
#include "cli/importing.h"
#include "cli/planning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The log is the policy, its machine and its data set: what would say them again is refused, not left unread. */
static sg_code check(const sg_args *args, sg_status *status) {
    if (args->log.n > 1)
        return sg_fail(status, SG_BAD_INPUT, "--log %.200s: one training at a time", args->log.value[1]);
    const struct {
        const char *name;
        bool given;
    } others[] = {{"a policy", args->positional.n > 0}, {"--dataset", args->dataset != NULL},
                  {"--frames", args->frames > 0},       {"--epochs", args->epochs > 0},
                  {"--budget", args->budget_usd > 0},   {"--offers", args->offers != NULL},
                  {"--machine", args->machine != NULL}, {"--batch", args->batch.n > 0},
                  {"--gpus", args->ranks.n > 0},        {"--workers", args->workers.n > 0}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].given)
            return sg_fail(
                status, SG_BAD_INPUT,
                "--log tells what is left of the training that wrote it: leave out %s (--steps, --save-every "
                "and --deadline may stand beside it)",
                others[i].name);
    return SG_OK;
}

/* The last run of the file that has windows. */
static const sg_log *last_run(const sg_logs *logs) {
    for (size_t i = logs->n; i-- > 0;)
        if (logs->logs[i].n_windows) return &logs->logs[i];
    return NULL;
}

static sg_code forecast_of(const sg_args *args, const sg_import *import, const sg_log **log, sg_forecast *f,
                           sg_status *status) {
    *log = last_run(&import->logs);
    if (!*log) return sg_fail(status, SG_NO, "%.200s has no windows yet", import->path);
    const sg_forecast_options options = {.to_step = args->steps > 0 ? (double)args->steps : 0,
                                         .save_every = args->save_every > 0    ? args->save_every
                                                       : args->save_every == 0 ? -1
                                                                               : 0,
                                         .interval = args->interval > 0 ? args->interval : 0.9};
    sg_code code = sg_forecast_make(*log, &options, f, status);
    return code ? sg_fail_in(status, "the rest of %.200s", import->path) : SG_OK;
}

static void set_real(json_t *object, const char *name, double value) {
    if (isfinite(value)) (void)json_object_set_new(object, name, json_real(value));
}

static json_t *json_rest(const char *path, const sg_log *log, const sg_forecast *f) {
    const sg_pace *p = &f->pace;
    json_t *notes = json_array(),
           *pace = json_pack("{s:I, s:b}", "windows", (json_int_t)p->windows, "by_clock", (int)p->by_clock);
    for (size_t i = 0; i < f->n_notes; i++) (void)json_array_append_new(notes, json_string(f->notes[i]));
    const struct {
        const char *name;
        double value;
    } reals[] = {{"steady_s", p->steady_s},
                 {"log_sd", p->log_sd},
                 {"stall_s", p->stall_s},
                 {"epoch_s", p->epoch_s},
                 {"warmup_s", p->warmup_s},
                 {"drift", p->drift},
                 {"update_s", p->update_s},
                 {"dataloading_s", p->dataloading_s},
                 {"preprocessing_s", p->preprocessing_s},
                 {"collection_s", p->collection_s},
                 {"learning_s", p->learning_s}};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) set_real(pace, reals[i].name, reals[i].value);
    json_t *object = json_pack("{s:s, s:s, s:f, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:o, s:o}", "log", path,
                               "format", log->format, "step", f->at_step, "steps", f->to_step, "rest_s",
                               sg_json_figure(&f->rest_s), "steps_s", sg_json_figure(&f->steps_s), "stalls_s",
                               sg_json_figure(&f->stalls_s), "epochs_s", sg_json_figure(&f->epochs_s), "checkpoints_s",
                               sg_json_figure(&f->checkpoints_s), "others_s", sg_json_figure(&f->others_s),
                               "checkpoints", f->checkpoints, "epochs", f->epochs, "pace", pace, "notes", notes);
    set_real(object, "loader_s", f->loader_s);
    set_real(object, "checkpoint_s", f->checkpoint_s);
    return object;
}

static void print_part(const char *name, const sg_figure *figure, const char *how) {
    if (!(figure->value > 0)) return;
    printf("  %-24s %-12s %s\n", name, sg_show_duration(figure->value).s, how);
}

static void print_rest(const char *path, const sg_log *log, const sg_forecast *f, double interval) {
    char how[160];
    const sg_pace *p = &f->pace;
    printf("%s (%s): at step %.0f of %.0f\n", path, log->format, f->at_step, f->to_step);
    printf("To go: %s (%.3g %%: %s .. %s)\n", sg_show_duration(f->rest_s.value).s, 100 * interval,
           sg_show_duration(f->rest_s.low).s, sg_show_duration(f->rest_s.high).s);
    (void)snprintf(how, sizeof how, "%.0f of %s each, by %s", f->to_step - f->at_step, sg_show_seconds(p->steady_s).s,
                   p->by_clock ? "the clock of the log" : "the times in its lines");
    print_part("steps", &f->steps_s, how);
    if (f->loader_s > 0)
        printf("    %-22s %-12s %s of each step\n", "waiting for the loader", sg_show_duration(f->loader_s).s,
               sg_show_seconds(p->dataloading_s).s);
    (void)snprintf(how, sizeof how, "%.0f of %zu intervals between lines stalled", p->stalled, p->intervals);
    print_part("stalls", &f->stalls_s, how);
    (void)snprintf(how, sizeof how, "%.0f of %s each", f->epochs, sg_show_seconds(p->epoch_s).s);
    print_part("ends of epochs", &f->epochs_s, how);
    (void)snprintf(how, sizeof how, "%.0f of %s each, %s", f->checkpoints, sg_show_seconds(f->checkpoint_s).s,
                   f->checkpoint_seen ? "as those before" : "not seen yet");
    print_part("checkpoints", &f->checkpoints_s, how);
    print_part("evaluations and uploads", &f->others_s, "as often as before");
    for (size_t i = 0; i < f->n_notes; i++) printf("Note: %s\n", f->notes[i]);
}

/* A deadline that the upper bound breaks is answered with "no". */
static int show(const sg_args *args, const char *path, const sg_log *log, const sg_forecast *f) {
    double interval = args->interval > 0 ? args->interval : 0.9, deadline_s = args->deadline_h * 3600;
    bool late = args->deadline_h > 0 && f->rest_s.high > deadline_s;
    int result = late ? SG_NO : SG_OK;
    if (args->json) return sg_json_print(json_rest(path, log, f), result);
    print_rest(path, log, f, interval);
    if (args->deadline_h > 0)
        printf("%s %s: %s.\n", late ? "NOT safely within" : "Within", sg_show_duration(deadline_s).s,
               late ? "the upper bound is later" : "the upper bound counted");
    return result;
}

int sg_planning_rest(const sg_args *args) {
    sg_status status;
    sg_import import = {0};
    sg_forecast f = {0};
    const sg_log *log = NULL;
    sg_code code = check(args, &status);
    if (!code) code = sg_import_read(args, args->log.value[0], &import, &status);
    if (!code) code = forecast_of(args, &import, &log, &f, &status);
    int result = code ? sg_show_error(args, &status) : show(args, args->log.value[0], log, &f);
    sg_import_clear(&import);
    return result;
}
