/* compare: a training log beside what was measured here and what is predicted. */
#include "cli/commands.h"
#include "cli/comparing.h"
#include "cli/fitting.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_h5(const char *name) {
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".h5") == 0;
}

static sg_code load_machine(const sg_args *args, const char *name, sg_compare_with *with, sg_status *status) {
    if (with->has_target)
        return sg_fail(status, SG_BAD_INPUT, "'%.100s': one machine at a time is expected, %.100s was given already",
                       name, with->machine);
    sg_args of = *args;
    of.machine = name;
    sg_code code = sg_target_load(&of, &with->target, status);
    if (code != SG_OK) return code;
    with->has_target = true;
    (void)snprintf(with->machine, sizeof with->machine, "%s", name);
    return SG_OK;
}

/* A run file, a fitted machine file, or a machine's name. */
static sg_code load_one(const sg_args *args, const char *name, sg_compare_with *with, sg_status *status) {
    if (!is_h5(name)) return load_machine(args, name, with, status);
    sg_run run;
    sg_status no_machine;
    sg_code code = sg_run_file_read(name, &run, status);
    /* When it is neither, what was said of it as a run file stands. */
    if (code != SG_OK) return load_machine(args, name, with, &no_machine) == SG_OK ? SG_OK : code;
    if (!with->has_run) {
        with->run = run;
        with->has_run = true;
        return SG_OK;
    }
    sg_run_clear(&run);
    return sg_fail(status, SG_BAD_INPUT, "'%.200s': one run file at a time is expected", name);
}

/* The machine of a run file that no other was named for: fitted to its points. */
static void fit_run(const sg_args *args, const char *name, sg_compare_with *with) {
    sg_args of = *args;
    sg_status status;
    of.positional.n = 0;
    if (sg_fitting(&of, &with->run, &with->target.fit, &status) != SG_OK) {
        (void)snprintf(with->note, sizeof with->note,
                       "no machine was named and none can be fitted to the run file: %.200s", status.text);
        return;
    }
    with->target.has_fit = with->has_target = with->fitted = true;
    with->target.machine = with->target.fit.machine; /* which owns what they share */
    with->target.device_class = sg_machine_device_class(&with->target.machine);
    (void)snprintf(with->machine, sizeof with->machine, "the machine fitted to %.200s", name);
}

static sg_code load(const sg_args *args, sg_compare_with *with, sg_status *status) {
    sg_code code = SG_OK;
    const char *run = NULL;
    if (args->machine) code = load_machine(args, args->machine, with, status);
    for (size_t i = 1; code == SG_OK && i < args->positional.n; i++) {
        code = load_one(args, args->positional.value[i], with, status);
        if (code == SG_OK && with->has_run && !run) run = args->positional.value[i];
    }
    if (code == SG_OK && with->has_run && !with->has_target) fit_run(args, run, with);
    return code;
}

static void unload(sg_compare_with *with) {
    if (with->fitted)
        sg_fit_clear(&with->target.fit);
    else if (with->has_target)
        sg_target_clear(&with->target);
    if (with->has_run) sg_run_clear(&with->run);
}

/* ---- one run of the log -------------------------------------------------------------------------------------------- */

static bool predict(const sg_args *args, const sg_target *target, sg_prediction *prediction) {
    sg_request request;
    sg_status ignored;
    if (sg_request_make(args, target->device_class, &request, &ignored) != SG_OK) return false;
    sg_code code = sg_predict_for(args, &request, target, prediction, &ignored);
    sg_request_clear(&request);
    return code == SG_OK;
}

enum { ALTERNATIVES = 6 };
typedef struct alternatives {
    sg_compare_alternative at[ALTERNATIVES];
    size_t n;
} alternatives;

static void SG_PRINTF(4, 5) try(alternatives *a, const sg_args *args, const sg_target *target, const char *what, ...) {
    va_list list;
    if (a->n == ALTERNATIVES || !predict(args, target, &a->at[a->n].predicted)) return;
    va_start(list, what);
    (void)vsnprintf(a->at[a->n++].what, sizeof a->at[0].what, what, list);
    va_end(list);
}

/* What people get wrong about a training: its cameras, its batch (per process or of all), its precision. */
static void try_others(const sg_args *args, const sg_point_config *config, const sg_target *target, alternatives *a) {
    for (int64_t more = -1; more <= 1; more += 2) {
        sg_args other = *args;
        if (config->cameras < 1 || config->cameras + more < 1) continue;
        other.cameras = config->cameras + more;
        try(a, &other, target, "%lld camera(s)", (long long)other.cameras);
    }
    for (int doubled = 0; doubled < 2; doubled++) {
        sg_args other = *args;
        int64_t batch = doubled ? 2 * config->batch : config->batch / 2;
        if (config->envs > 0 || batch < 1 || batch > INT32_MAX) continue;
        other.batch.value[0] = batch;
        other.batch.n = 1;
        try(a, &other, target, "batch %lld", (long long)batch);
    }
    sg_args other = *args;
    bool low = strncmp(config->precision, "bf16", 4) == 0 || strncmp(config->precision, "fp16", 4) == 0;
    other.precision = low ? "fp32" : "bf16";
    try(a, &other, target, "precision %s", other.precision);
}

static sg_code check_facts(const sg_import_job *job, sg_status *status) {
    char missing[256] = "";
    if (job->args.positional.n && !job->family)
        return sg_fail(status, SG_BAD_INPUT,
                       "%.200s trains '%.64s', which is no policy of this program: name the nearest with --policy",
                       job->import->path, job->args.positional.value[0]);
    sg_import_missing(job, missing, sizeof missing);
    if (!missing[0]) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "a comparison needs what neither the log nor a train_config.json tells: give %s", missing);
}

/* The machine of the log where none can be predicted for: only its kind of device is asked of it. */
static sg_code config_of(const sg_import_job *job, const sg_compare_with *with, sg_point_config *config,
                         sg_status *status) {
    if (with->has_target) return sg_import_config(job, &with->target.machine, config, status);
    sg_machine machine = {0};
    const sg_point *point = with->run.n_points ? &with->run.points[0] : NULL;
    (void)snprintf(machine.device_class, sizeof machine.device_class, "%.7s", point ? point->config.device : "cpu");
    return sg_import_config(job, &machine, config, status);
}

static sg_code answer_run(const sg_import_job *job, const sg_compare_with *with, sg_compare_answer *answer,
                          sg_status *status) {
    sg_prediction prediction;
    sg_code code = config_of(job, with, &answer->config, status);
    if (code != SG_OK) return code;
    alternatives *others = calloc(1, sizeof *others);
    if (!others) return sg_fail_memory(status, sizeof *others, "predictions");
    answer->predicted = with->has_target && predict(&job->args, &with->target, &prediction);
    if (answer->predicted) try_others(&job->args, &answer->config, &with->target, others);
    if (with->has_run)
        answer->measured = sg_compare_nearest(with->run.points, with->run.n_points, &answer->config, &answer->exact,
                                              answer->differs, sizeof answer->differs);
    sg_compare_facts facts = {.log = job->log,
                              .config = &answer->config,
                              .measured = answer->exact ? answer->measured : NULL,
                              .exact = answer->exact,
                              .predicted = answer->predicted ? &prediction : NULL,
                              .alternatives = others->at,
                              .n_alternatives = others->n,
                              .capacity_bytes = with->has_target ? (double)with->target.machine.memory_bytes : 0};
    code = sg_compare(&facts, &answer->comparison, status);
    free(others);
    return code;
}

/* ---- all runs of it ------------------------------------------------------------------------------------------------ */

static bool has_times(const sg_log *log) {
    double value[SG_LOG_FIELDS];
    (void)sg_log_typical(log, value);
    return value[SG_LOG_STEP_S] > 0;
}

static sg_code answer_all(const sg_args *args, const sg_import *import, const sg_compare_with *with, json_t *list,
                          sg_status *status) {
    size_t runs = 0;
    for (size_t i = 0; i < import->logs.n; i++) {
        if (!has_times(&import->logs.logs[i])) continue;
        sg_import_job job = sg_import_job_of(args, import, &import->logs.logs[i]);
        job.args.machine = with->machine; /* whatever it is: nothing is missing there */
        sg_compare_answer answer = {.log = job.log};
        sg_code code = check_facts(&job, status);
        if (code == SG_OK) code = answer_run(&job, with, &answer, status);
        if (code != SG_OK) return code;
        if (list)
            (void)json_array_append_new(list, sg_json_comparison(import, with, &answer));
        else {
            if (runs) printf("\n");
            sg_print_comparison(import, with, &answer);
        }
        runs++;
    }
    if (runs) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "%.200s: no run has a steady step time: at least two windows are needed, the first is warm-up",
                   import->path);
}

int sg_cmd_compare(const sg_args *args) {
    sg_status status;
    sg_compare_with with = {0};
    sg_import import = {0};
    if (args->positional.n < 2 && !args->machine) {
        (void)sg_fail(&status, SG_BAD_INPUT,
                      "which log, and what to compare it with? Such as 'stepgauge compare train.log run.h5', a machine "
                      "file or a machine's name");
        return sg_show_error(args, &status);
    }
    if (args->positional.n == 0) {
        (void)sg_fail(&status, SG_BAD_INPUT, "which log? Give the console output of a training");
        return sg_show_error(args, &status);
    }
    sg_code code = load(args, &with, &status);
    if (code == SG_OK) code = sg_import_read(args, args->positional.value[0], &import, &status);
    json_t *list = code == SG_OK && args->json ? json_array() : NULL;
    if (code == SG_OK) code = answer_all(args, &import, &with, list, &status);
    int result = code == SG_OK ? SG_OK : sg_show_error(args, &status);
    if (code == SG_OK && args->json) result = sg_json_print(json_pack("{s:O}", "comparisons", list), SG_OK);
    json_decref(list);
    sg_import_clear(&import);
    unload(&with);
    return result;
}
