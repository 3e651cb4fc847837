/* import_points.c: runs of training logs as observed points of a run file: what their lines tell, and for the rest what the
 * options say. Nothing is guessed. */
#include "calibration/environment/environment_law.h"
#include "calibration/predict/predict.h"
#include "cli/importing.h"
#include "cli/measuring.h"
#include "cli/request.h"
#include "formats/durable_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool usable(const sg_log *log) {
    return !isnan(log->steady[SG_LOG_STEP_S]);
}

static sg_code check(const sg_import_job *jobs, size_t n, sg_status *status) {
    char missing[256] = "";
    for (size_t i = 0; i < n; i++) {
        const char *name = jobs[i].args.positional.n ? jobs[i].args.positional.value[0] : NULL;
        if (name && !jobs[i].family)
            return sg_fail(
                status, SG_BAD_INPUT,
                "%.200s trains '%.64s', which is no policy of this program: name the nearest with --policy, or "
                "import it without -o",
                jobs[i].import->path, name);
        sg_import_missing(&jobs[i], missing, sizeof missing);
    }
    if (!missing[0]) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "a point needs what neither the log nor a train_config.json tells: give %s%s (nothing was written)",
                   missing, strstr(missing, "--machine") ? " (unknown-gpu where nobody knows it)" : "");
}

sg_code sg_import_config(const sg_import_job *j, const sg_machine *machine, sg_point_config *config,
                         sg_status *status) {
    sg_request request;
    sg_training *training = NULL;
    sg_device_choice choice = {.device = machine->device_class, .device_class = sg_machine_device_class(machine)};
    sg_code code = sg_request_make(&j->args, choice.device_class, &request, status);
    if (code != SG_OK) return code;
    sg_measure_options options = sg_measuring_options(&j->args, &choice, NULL, NULL);
    options.ranks = request.policy.ranks > 0 ? (int)request.policy.ranks : 1;
    options.threads = 1; /* whose, the log does not tell */
    code = sg_policy_build(&request.policy, &training, status);
    if (code == SG_OK) code = sg_measure_config(&request.policy, training, &options, config, status);
    /* The framework's own host and kernels: never the point of a measurement here. */
    if (code == SG_OK) (void)snprintf(config->host, sizeof config->host, "framework");
    if (code == SG_OK && config->envs > 0) sg_environment_mark(j->args.task, config->dataset, sizeof config->dataset);
    sg_training_free(training);
    sg_request_clear(&request);
    return code;
}

static sg_code make_point(const sg_import_job *j, const sg_machine *machine, sg_point *point, sg_status *status) {
    sg_point_config config;
    sg_code code = sg_import_config(j, machine, &config, status);
    if (code == SG_OK) code = sg_log_point(j->log, &config, j->import->path, point, status);
    if (code != SG_OK) return sg_fail_in(status, "%.200s", j->import->path);
    (void)snprintf(point->gpu.name, sizeof point->gpu.name, "%.95s", machine->title);
    return SG_OK;
}

/* Of the run file that is there already, else of the machine that the logs are of. */
static sg_code record_of(const char *path, const sg_machine *machine, sg_machine_record *record, sg_status *status) {
    bool exists;
    sg_code code = sg_file_exists(path, &exists, status);
    memset(record, 0, sizeof *record);
    if (code == SG_OK && exists) {
        sg_run run;
        code = sg_run_file_read(path, &run, status);
        if (code != SG_OK) return code;
        *record = run.machine;
        bool whole = run.n_points || run.n_micros;
        sg_run_clear(&run);
        if (whole) return SG_OK;
    }
    (void)snprintf(record->device, sizeof record->device, "%.95s", machine->title);
    (void)snprintf(record->program_version, sizeof record->program_version, "%s", SG_VERSION);
    if (strcmp(machine->device_class, "cuda") != 0) return code;
    record->gpus = 1;
    record->gpu_memory_bytes = (int64_t)machine->memory_bytes;
    (void)snprintf(record->gpu, sizeof record->gpu, "%.95s", machine->title);
    return code;
}

static sg_code write_points(const sg_args *args, const sg_import_job *jobs, size_t n, const sg_machine *machine,
                            size_t *written, sg_status *status) {
    sg_machine_record record;
    sg_run_writer *writer = NULL;
    sg_point *points = calloc(n, sizeof *points);
    sg_code code = points ? SG_OK : sg_fail_memory(status, n * sizeof *points, "observed points");
    for (size_t i = 0; code == SG_OK && i < n; i++) code = make_point(&jobs[i], machine, &points[i], status);
    if (code == SG_OK) code = record_of(args->output, machine, &record, status);
    if (code == SG_OK) code = sg_run_writer_open(args->output, &record, &writer, status);
    for (size_t i = 0; code == SG_OK && i < n; i++) {
        code = sg_run_writer_append(writer, &points[i], status);
        *written += code == SG_OK;
    }
    sg_run_writer_close(writer);
    for (size_t i = 0; points && i < n; i++) sg_point_clear(&points[i]);
    free(points);
    return code;
}

sg_code sg_import_points(const sg_args *args, const sg_import *imports, size_t n_imports, size_t *n,
                         sg_status *status) {
    size_t count = 0, made = 0;
    *n = 0;
    for (size_t i = 0; i < n_imports; i++)
        for (size_t k = 0; k < imports[i].logs.n; k++) count += usable(&imports[i].logs.logs[k]);
    if (!count)
        return sg_fail(status, SG_BAD_INPUT,
                       "no run of these logs has a steady step time: at least two windows are needed, the first is "
                       "warm-up (nothing was written)");
    sg_import_job *jobs = calloc(count, sizeof *jobs);
    if (!jobs) return sg_fail_memory(status, count * sizeof *jobs, "runs");
    for (size_t i = 0; i < n_imports; i++)
        for (size_t k = 0; k < imports[i].logs.n; k++)
            if (usable(&imports[i].logs.logs[k]))
                jobs[made++] = sg_import_job_of(args, &imports[i], &imports[i].logs.logs[k]);
    sg_machine machine;
    sg_code code = check(jobs, made, status);
    if (code == SG_OK) {
        code = sg_machine_load(args->machine, NULL, &machine, status);
        if (code == SG_OK) {
            code = write_points(args, jobs, made, &machine, n, status);
            sg_machine_clear(&machine);
        }
    }
    free(jobs);
    return code;
}
