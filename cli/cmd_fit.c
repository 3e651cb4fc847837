/* fit: a machine and laws from a run file, a probe of the framework, and training logs. */
#include "calibration/environment/environment_law.h"
#include "calibration/log/log.h"
#include "calibration/machine/machine_match.h"
#include "cli/commands.h"
#include "cli/fitting.h"
#include "cli/measuring.h"
#include "cli/request.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sg_observed {
    sg_point *points;
    size_t n;
} sg_observed;

static sg_code observe(const sg_args *args, const sg_log *log, const char *path, sg_point *point, sg_status *status) {
    sg_request request;
    sg_training *training = NULL;
    sg_device_choice choice;
    sg_code code = sg_device_choose(args, &choice, status);
    if (code == SG_OK) code = sg_request_make(args, choice.device_class, &request, status);
    if (code != SG_OK) return code;
    if (request.policy.batch == 0) request.policy.batch = log->config.batch;
    if (request.policy.batch == 0)
        code = sg_fail(status, SG_BAD_INPUT, "%s does not say the batch size: give --batch", path);
    if (code == SG_OK && log->config.ranks > 1) request.policy.ranks = log->config.ranks;
    if (code == SG_OK) code = sg_policy_build(&request.policy, &training, status);
    sg_point_config config;
    sg_measure_options options = sg_measuring_options(args, &choice, NULL, NULL);
    options.ranks = request.policy.ranks > 0 ? (int)request.policy.ranks : 1;
    if (code == SG_OK) code = sg_measure_config(&request.policy, training, &options, &config, status);
    if (code == SG_OK && config.envs > 0) sg_environment_mark(args->task, config.dataset, sizeof config.dataset);
    if (code == SG_OK) code = sg_log_point(log, &config, path, point, status);
    sg_training_free(training);
    sg_request_clear(&request);
    return code;
}

/* Runs that ended before they were steady tell nothing: a log must have one that did not. */
static sg_code read_log(const sg_args *args, const char *path, sg_observed *observed, sg_status *status) {
    sg_logs logs;
    sg_code code = sg_logs_read(path, &logs, status);
    if (code != SG_OK) return code;
    size_t before = observed->n;
    for (size_t i = 0; i < logs.n && code == SG_OK; i++) {
        if (isnan(logs.logs[i].steady[SG_LOG_STEP_S])) continue;
        sg_point *grown = realloc(observed->points, (observed->n + 1) * sizeof *grown);
        if (!grown) {
            code = sg_fail_memory(status, (observed->n + 1) * sizeof *grown, "logs");
            break;
        }
        observed->points = grown;
        code = observe(args, &logs.logs[i], path, &observed->points[observed->n], status);
        if (code == SG_OK) observed->n++;
    }
    sg_logs_clear(&logs);
    if (code == SG_OK && observed->n == before)
        code = sg_fail(status, SG_BAD_INPUT,
                       "at least two lines with a step time are needed: the first window is warm-up");
    return code;
}

static sg_code read_logs(const sg_args *args, sg_observed *observed, sg_status *status) {
    for (size_t i = 0; i < args->log.n; i++) {
        sg_code code = read_log(args, args->log.value[i], observed, status);
        if (code != SG_OK) return sg_fail_in(status, "log %s", args->log.value[i]);
    }
    return SG_OK;
}

/* The data sheet that the measurements refine: --machine, the one of the GPU that was measured, or a CPU's. */
static sg_code load_prior(const sg_args *args, const sg_run *run, sg_machine *prior, sg_status *status) {
    const sg_point *gpu = NULL;
    for (size_t i = 0; i < run->n_points && !gpu; i++)
        if (strcmp(run->points[i].config.device, "cuda") == 0) gpu = &run->points[i];
    if (args->machine || !gpu) return sg_machine_load(args->machine ? args->machine : "cpu", NULL, prior, status);
    const char *name = gpu->gpu.name[0] ? gpu->gpu.name : run->machine.gpu;
    uint64_t bytes = run->machine.gpu_memory_bytes > 0 ? (uint64_t)run->machine.gpu_memory_bytes : 0;
    sg_code code = sg_machine_match(NULL, "cuda", name, bytes, prior, status);
    if (code == SG_OK) return code;
    return sg_fail(status, SG_BAD_INPUT,
                   "the run file's GPU ('%.90s') has no data sheet of its own: name the nearest with --machine", name);
}

sg_code sg_fitting(const sg_args *args, const sg_run *run, sg_fit *fit, sg_status *status) {
    sg_machine prior;
    sg_code code = load_prior(args, run, &prior, status);
    if (code != SG_OK) return code;
    sg_observed observed = {NULL, 0};
    code = read_logs(args, &observed, status);
    sg_fit_options options = {.probe_file = args->probe, .observed = observed.points, .n_observed = observed.n};
    if (code == SG_OK) code = sg_fit_run(run, &prior, &options, fit, status);
    for (size_t i = 0; i < observed.n; i++) sg_point_clear(&observed.points[i]);
    free(observed.points);
    sg_machine_clear(&prior);
    return code;
}

static json_t *json_law(const sg_law *law) {
    json_t *terms = json_object();
    for (size_t i = 0; i < law->n_terms; i++)
        (void)json_object_set_new(terms, sg_law_term((sg_law_kind)law->kind, i),
                                  json_pack("{s:f, s:f}", "value", law->value[i], "standard_error", law->error[i]));
    json_t *object = json_pack("{s:s, s:s, s:s, s:I, s:s, s:o, s:I, s:f, s:f, s:f, s:s}", "quantity", law->quantity,
                               "policy", law->config.policy, "framework", law->config.framework, "ranks",
                               (json_int_t)law->config.ranks, "formula", sg_law_formula((sg_law_kind)law->kind),
                               "terms", terms, "points", (json_int_t)law->n_points, "low_x", law->low_x, "high_x",
                               law->high_x, "residual_log_sd", law->residual_log_sd, "next_point", law->next_point);
    if (law->config.envs > 0 && sg_environment_task(law->config.dataset)[0])
        (void)json_object_set_new(object, "task", json_string(sg_environment_task(law->config.dataset)));
    if (isfinite(law->left_out_log_sd))
        (void)json_object_set_new(object, "left_out_log_sd", json_real(law->left_out_log_sd));
    return object;
}

static json_t *json_parameters(const sg_machine *m) {
    json_t *object = json_object();
    for (int i = 0; i < SG_M_COUNT; i++) {
        const sg_machine_parameter *p = &m->p[i];
        if (isnan(p->value)) continue;
        (void)json_object_set_new(object, sg_machine_key((sg_machine_id)i),
                                  json_pack("{s:f, s:f, s:s, s:s}", "value", p->value, "log_sd", p->log_sd, "evidence",
                                            sg_evidence_name((sg_evidence)p->evidence), "source", p->source));
    }
    return object;
}

static bool is_decode(const sg_loader_law *law) {
    return strncmp(law->dataset, "decode;", strlen("decode;")) == 0;
}

static json_t *json_loader(const sg_loader_law *law) {
    json_t *object = json_pack("{s:s, s:s, s:s}", "dataset", law->dataset, "layer", law->layer, "evidence",
                               sg_evidence_name((sg_evidence)law->evidence));
#define X(name) (void)json_object_set_new(object, #name, json_real(law->name));
    SG_LOADER_NUMBERS(X)
#undef X
    return object;
}

json_t *sg_json_fit(const sg_fit *fit, const sg_run *run) {
    json_t *laws = json_array(), *loaders = json_array(), *notes = json_array(), *residuals = json_array();
    for (size_t i = 0; i < fit->n_loaders; i++) (void)json_array_append_new(loaders, json_loader(&fit->loaders[i]));
    for (size_t i = 0; i < fit->n_laws; i++) (void)json_array_append_new(laws, json_law(&fit->laws[i]));
    for (size_t i = 0; i < fit->n_notes; i++) (void)json_array_append_new(notes, json_string(fit->notes[i]));
    for (size_t i = 0; i < fit->n_residuals && i < run->n_points; i++) {
        const sg_point_config *c = &run->points[i].config;
        json_t *row = json_pack("{s:s, s:I, s:I, s:I}", "policy", c->policy, "batch", (json_int_t)c->batch, "envs",
                                (json_int_t)c->envs, "ranks", (json_int_t)c->ranks);
        if (!isnan(fit->residuals[i])) (void)json_object_set_new(row, "log_residual", json_real(fit->residuals[i]));
        (void)json_array_append_new(residuals, row);
    }
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "machine", fit->machine.name, "title", fit->machine.title,
                     "parameters", json_parameters(&fit->machine), "laws", laws, "loaders", loaders, "residuals",
                     residuals, "notes", notes);
}

static void print_laws(const sg_fit *fit) {
    for (size_t i = 0; i < fit->n_laws; i++) {
        const sg_law *law = &fit->laws[i];
        const char *task = sg_environment_task(law->config.dataset);
        printf("\n%s of %s (%s, ranks %lld%s%s) = %s\n", law->quantity, law->config.policy, law->config.framework,
               (long long)law->config.ranks, task[0] ? ", " : "", task, sg_law_formula((sg_law_kind)law->kind));
        const char *x = law->config.envs > 0 ? "environments" : "batch";
        if (law->n_points == 1)
            printf("  x = %s, one point at %g\n", x, law->low_x);
        else
            printf("  x = %s, %zu points from %g to %g\n", x, law->n_points, law->low_x, law->high_x);
        for (size_t j = 0; j < law->n_terms; j++) {
            printf("  %-3s %12.6g", sg_law_term((sg_law_kind)law->kind, j), law->value[j]);
            if (j < law->n_fitted)
                printf("  +- %.2g\n", law->error[j]);
            else
                printf("  (given)\n");
        }
        printf("  residuals %.1f %%", 100 * law->residual_log_sd);
        if (isfinite(law->left_out_log_sd)) printf(", left out %.1f %%", 100 * law->left_out_log_sd);
        printf("; most worth measuring next: %s\n", law->next_point);
    }
}

static void print_range(const char *what, double low, double high) {
    if (low == high)
        printf("%s %.0f", what, low);
    else
        printf("%s %.0f to %.0f", what, low, high);
}

static void print_loader(const sg_loader_law *law) {
    if (is_decode(law)) {
        printf("\n%s: a frame takes a worker %.4g s +- %.2g\n", law->dataset, law->frame_s,
               law->frame_s * law->work_log_sd);
        return;
    }
    printf(
        "\nloader of %s (%s, %s): a batch takes a worker alone batch x (sample_s + cameras x frames x frame_s)%s\n  ",
        law->dataset, law->layer, sg_evidence_name((sg_evidence)law->evidence),
        law->wait_s > 0 ? " + batch x wait_s" : "");
    print_range("workers", law->low_workers, law->high_workers);
    print_range(", batch", law->low_batch, law->high_batch);
    printf(", %.0f point(s), %.3g processors\n", law->points, law->processors);
    printf("  frame_s    %12.6g\n  sample_s   %12.6g  both together +- %.1f %%\n", law->frame_s, law->sample_s,
           100 * law->work_log_sd);
    if (law->wait_s > 0) printf("  wait_s     %12.6g\n", law->wait_s);
    printf("  sigma      %12.6g%s\n", law->sigma, law->told & SG_LOADER_TOLD_SIGMA ? "" : "  (prior)");
    printf("  kappa      %12.6g%s\n", law->kappa, law->told & SG_LOADER_TOLD_KAPPA ? "" : "  (prior)");
    printf("  handover_s %12.6g%s\n", law->handover_s, law->told & SG_LOADER_TOLD_HANDOVER ? "" : "  (prior)");
    printf("  residuals %.1f %%", 100 * law->residual_log_sd);
    if (law->left_out_log_sd > 0) printf(", worker counts left out %.1f %%", 100 * law->left_out_log_sd);
    printf("\n");
}

static void print_machine(const sg_machine *m) {
    printf("%s (%s), %s\n\n", m->title, m->name, m->fitted_from);
    const char *const header[] = {"parameter", "value", "+- %", "evidence", "source"};
    sg_table *table = sg_table_new(5, header);
    for (int i = 0; i < SG_M_COUNT; i++) {
        const sg_machine_parameter *p = &m->p[i];
        if (isnan(p->value) || p->evidence == SG_EVIDENCE_DATA_SHEET) continue;
        char value[32], error[32];
        (void)snprintf(value, sizeof value, "%.4g", p->value);
        (void)snprintf(error, sizeof error, "%.1f", 100 * p->log_sd);
        const char *const row[] = {sg_machine_key((sg_machine_id)i), value, error,
                                   sg_evidence_name((sg_evidence)p->evidence), p->source};
        sg_table_row(table, row);
    }
    sg_table_print(table);
}

void sg_print_fit(const sg_fit *fit, const sg_run *run) {
    print_machine(&fit->machine);
    print_laws(fit);
    for (size_t i = 0; i < fit->n_loaders; i++) print_loader(&fit->loaders[i]);
    bool first = true;
    for (size_t i = 0; i < fit->n_residuals && i < run->n_points; i++) {
        if (isnan(fit->residuals[i])) continue;
        if (first) printf("\nResiduals, measured against fitted\n");
        first = false;
        const sg_point_config *c = &run->points[i].config;
        printf("  %-12s %s %-6lld ranks %lld  %+.1f %%\n", c->policy, c->envs > 0 ? "envs" : "batch",
               (long long)(c->envs > 0 ? c->envs : c->batch), (long long)c->ranks, 100 * fit->residuals[i]);
    }
    if (fit->n_notes) printf("\n");
    for (size_t i = 0; i < fit->n_notes; i++) printf("Note: %s\n", fit->notes[i]);
}

/* fit RUN [POLICY]: the policy is that of the logs. */
static sg_args without_run(const sg_args *args) {
    sg_args shifted = *args;
    shifted.positional.n = args->positional.n ? args->positional.n - 1 : 0;
    for (size_t i = 0; i < shifted.positional.n; i++) shifted.positional.value[i] = args->positional.value[i + 1];
    return shifted;
}

int sg_cmd_fit(const sg_args *args) {
    sg_status status;
    sg_run run;
    sg_fit fit;
    if (args->collectives.n) return sg_fitting_collectives(args);
    if (args->kernels.n) return sg_fitting_kernels(args);
    if (args->reports.n) return sg_fitting_reports(args);
    if (args->step_files.n) return sg_fitting_steps(args);
    if (args->positional.n == 0) {
        (void)sg_fail(&status, SG_BAD_INPUT,
                      "which measurements? Give the run file that 'stepgauge measure -o run.h5' wrote");
        return sg_show_error(args, &status);
    }
    if (sg_run_file_read(args->positional.value[0], &run, &status) != SG_OK) return sg_show_error(args, &status);
    sg_args policy = without_run(args);
    if (sg_fitting(&policy, &run, &fit, &status) != SG_OK) {
        sg_run_clear(&run);
        return sg_show_error(args, &status);
    }
    int result = SG_OK;
    if (args->output && sg_fit_save(args->output, &fit, &status) != SG_OK)
        result = sg_show_error(args, &status);
    else if (args->json)
        result = sg_json_print(sg_json_fit(&fit, &run), SG_OK);
    else {
        sg_print_fit(&fit, &run);
        if (args->output) printf("\nWritten to %s; use it with --machine %s\n", args->output, args->output);
    }
    sg_fit_clear(&fit);
    sg_run_clear(&run);
    return result;
}
