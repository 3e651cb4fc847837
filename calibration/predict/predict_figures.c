/* predict_figures.c: from a walk with derivatives to figures with intervals. */
#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "calibration/environment/environment_law.h"
#include "calibration/predict/predict_work.h"
#include "calibration/statistics/width.h"

/* Log sds of what was not said (published configurations): one camera more or less, host costs of another CPU are the
 * machine's own doubt, SmolVLA's instruction of 8 to 48 tokens. */
static const double CAMERAS_LOG_SD = 0.35, LANGUAGE_LOG_SD = 0.02, LANGUAGE_MEMORY_LOG_SD = 0.05;

/* The walk's peaks against published ones, cameras known: 2 % (ACT, diffusion), reserved memory 3 %; readings of the driver 2 %
 * (ACT) to 4 % (pi05, whose allocator keeps gigabytes more or less from one batch to the next). */
static const double ALLOCATED_LOG_SD = 0.02, RESERVED_LOG_SD = 0.03, DRIVER_LOG_SD = 0.04;

void sg_predict_warn(sg_prediction *p, const char *format, ...) {
    if (p->n_warnings == sizeof p->warnings / sizeof *p->warnings) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(p->warnings[p->n_warnings++], sizeof p->warnings[0], format, args);
    va_end(args);
}

/* ---- times --------------------------------------------------------------------------------------------------------- */

static bool is_host(int id) {
    return id >= SG_M_HOST_OP_S && id <= SG_M_HOST_SYNC_S;
}

/* Inputs part of a duration: what the caller does not know. */
static double inputs_log_sd(const sg_predict_work *w, const double *host_by_log, double seconds) {
    double variance = sg_machine_log_variance(&w->machine, host_by_log, seconds);
    if (!w->options->cameras_known && w->training->cameras > 0) variance += CAMERAS_LOG_SD * CAMERAS_LOG_SD;
    if (!w->options->language_known && strcmp(w->training->policy, "smolvla") == 0)
        variance += LANGUAGE_LOG_SD * LANGUAGE_LOG_SD;
    return sqrt(variance);
}

/* A duration of the walk as a figure. by_log and seconds in the same unit. */
static sg_figure time_figure(const sg_predict_work *w, const double *by_log, double seconds, sg_limit *limit) {
    double machine_part[SG_M_COUNT], host_part[SG_M_COUNT] = {0}, share[SG_LIMIT_COUNT];
    memcpy(machine_part, by_log, sizeof machine_part);
    /* on a host that nobody named, its costs are an unknown input, not a property of the GPU */
    for (int i = 0; i < SG_M_COUNT && !w->options->host_known; i++)
        if (is_host(i)) {
            host_part[i] = by_log[i];
            machine_part[i] = 0;
        }
    sg_limit_shares(by_log, seconds, share);
    sg_limit largest = sg_limit_largest(share);
    sg_evidence evidence = sg_evidence_of(&w->machine, by_log, seconds);
    if (limit) *limit = largest;
    sg_log_sd parts = {.parameters = sqrt(sg_machine_log_variance(&w->machine, machine_part, seconds)),
                       .model = sg_width(largest, evidence),
                       .inputs = inputs_log_sd(w, host_part, seconds)};
    return sg_figure_make(seconds, parts, evidence, w->interval);
}

static bool is_factor(int id) {
    return id >= SG_M_FACTOR_GEMM && id <= SG_M_FACTOR_LOW_PRECISION;
}

static double law_x(const sg_predict_work *w) {
    return (double)(w->training->envs > 0 ? w->training->envs : w->training->batch);
}

/* A measured law in place of the walked duration: only the framework's own parameters stay in doubt. */
static sg_figure law_figure(const sg_predict_work *w, const double *by_log, double walked_s, sg_limit *limit) {
    double k = (double)(w->training->accumulation > 0 ? w->training->accumulation : 1);
    double seconds = w->training->envs > 0 ? w->law.seconds : w->law.seconds / k;
    double framework[SG_M_COUNT] = {0}, nothing[SG_M_COUNT] = {0}, share[SG_LIMIT_COUNT];
    for (int i = 0; i < SG_M_COUNT && w->request->framework != SG_FRAMEWORK_NATIVE; i++)
        if (is_host(i) || is_factor(i)) framework[i] = by_log[i] * seconds / walked_s;
    sg_limit_shares(by_log, walked_s, share);
    *limit = sg_limit_largest(share);
    double x = law_x(w);
    bool inside = x >= w->law.low_x && x <= w->law.high_x;
    sg_evidence evidence = inside ? SG_EVIDENCE_MEASURED : SG_EVIDENCE_CALIBRATED;
    sg_log_sd parts = {hypot(sqrt(sg_machine_log_variance(&w->machine, framework, seconds)), w->law.log_sd),
                       sg_width(*limit, evidence), inputs_log_sd(w, nothing, seconds)};
    return sg_figure_make(seconds, parts, evidence, w->interval);
}

/* The walk's derivatives hold near its own regime, but a step is never shorter than what its device and its host each have
 * to do: a launch-bound step has the device's time below it, and beside a fast device an unknown host may be the slower.
 * share: of the iteration's work. */
static sg_figure within_clocks(const sg_predict_work *w, sg_figure f, double share) {
    const sg_virtual_report *r = &w->walked.report;
    const double *by_log[2] = {w->walked.device_by_log, w->walked.host_by_log};
    double busy_s[2] = {r->device_busy_s, r->host_busy_s};
    for (int k = 0; k < 2; k++) {
        double scale = busy_s[k] > 0 ? fmin(share * busy_s[k], f.value) / busy_s[k] : 0, scaled[SG_M_COUNT];
        for (int i = 0; i < SG_M_COUNT; i++) scaled[i] = scale * by_log[k][i];
        sg_figure clock = time_figure(w, scaled, scale * busy_s[k], NULL);
        f = sg_figure_max(&f, &clock);
    }
    return f;
}

/* The slowest of several ranks decides: the expected maximum of so many normal draws (Blom's approximation). */
static void add_jitter(const sg_predict_work *w, double *by_log, double *seconds) {
    double jitter = w->machine.p[SG_M_RANK_JITTER].value;
    if (w->ranks < 2 || !isfinite(jitter)) return;
    double n = w->ranks, expected = gsl_cdf_ugaussian_Pinv((n - 0.375) / (n + 0.25));
    double factor = 1 + jitter * expected;
    for (int i = 0; i < SG_M_COUNT; i++) by_log[i] *= factor;
    by_log[SG_M_RANK_JITTER] += *seconds * jitter * expected;
    *seconds *= factor;
}

double sg_cameras_log_sd(const sg_predict_work *w) {
    return !w->options->cameras_known && w->training->cameras > 0 ? CAMERAS_LOG_SD : 0;
}

int sg_ranks_of_node(const sg_predict_work *w) {
    int per_node = w->machine.link.gpus_per_node;
    return per_node > 0 && w->ranks > per_node ? per_node : w->ranks;
}

static sg_code supervised_times(sg_predict_work *w, sg_status *status) {
    sg_prediction *p = w->out;
    const sg_step_times *times = &w->walked.times;
    double k = (double)(w->training->accumulation > 0 ? w->training->accumulation : 1);
    double update[SG_M_COUNT], preprocess[SG_M_COUNT], both[SG_M_COUNT];
    double update_s = times->update_s / k, preprocess_s = times->preprocessing_s / k;
    for (int i = 0; i < SG_M_COUNT; i++) {
        update[i] = w->walked.by_log[SG_PHASE_UPDATE][i] / k;
        preprocess[i] = w->walked.by_log[SG_PHASE_PREPROCESSING][i] / k;
    }
    add_jitter(w, update, &update_s);
    memcpy(p->update_by_log, update, sizeof p->update_by_log);
    for (int i = 0; i < SG_M_COUNT; i++) both[i] = update[i] + preprocess[i];
    sg_limit limit;
    double share = update_s > 0 ? update_s / (update_s + preprocess_s) : 0;
    p->update_s = within_clocks(w, time_figure(w, update, update_s, NULL), share / k);
    p->preprocessing_s = time_figure(w, preprocess, preprocess_s, NULL);
    sg_figure compute = within_clocks(w, time_figure(w, both, update_s + preprocess_s, &limit), 1 / k);
    if (w->law.found) {
        p->update_s = law_figure(w, update, update_s, &limit);
        sg_figure parts[2] = {p->update_s, p->preprocessing_s};
        compute = sg_figure_sum(parts, 2);
    }

    bool loader_limits = false;
    sg_code code = sg_predict_loader(w, &compute, &loader_limits, status);
    if (code) return code;
    if (loader_limits) limit = SG_LIMIT_LOADER;
    p->samples_per_s = sg_figure_scaled(&p->step_s, (double)w->training->batch * w->ranks, -1);
    w->limit = limit;
    p->forward_s = times->forward_s / k;
    p->backward_s = times->backward_s / k;
    p->optimizer_s = times->optimizer_s / k;
    p->exposed_sync_s = times->exposed_sync_s / k;
    for (int c = 0; c < SG_CLASS_COUNT; c++) p->class_s[c] = w->walked.report.class_s[c] / k;
    return SG_OK;
}

/* ---- PPO ----------------------------------------------------------------------------------------------------------- */

static bool sets(const sg_policy_request *request, const char *name) {
    for (size_t i = 0; i < request->n_settings; i++)
        if (strcmp(request->settings[i].name, name) == 0) return true;
    return false;
}

/* Known to the user (--env-step-us): then it is the training's; else the machine's, with its doubt. */
static const sg_law *environment_law(const sg_predict_work *w) {
    return sets(w->request, "env_step_us") ? NULL : w->options->environment;
}

double sg_predict_env_step_s(const sg_predict_work *w) {
    if (sets(w->request, "env_step_us") && w->training->env_step_us > 0) return 1e-6 * w->training->env_step_us;
    const sg_law *law = environment_law(w);
    if (law && w->training->envs > 0) {
        double step_s, log_sd;
        sg_law_at(law, (double)w->training->envs, &step_s, &log_sd);
        return step_s / (double)w->training->envs;
    }
    double of_machine = w->machine.p[SG_M_ENV_STEP_S].value;
    return isfinite(of_machine) ? of_machine : 1e-6 * w->training->env_step_us;
}

static sg_figure environment_figure(const sg_predict_work *w) {
    double seconds = w->walked.times.environment_s;
    const sg_machine_parameter *p = &w->machine.p[SG_M_ENV_STEP_S];
    bool given = sets(w->request, "env_step_us");
    sg_evidence evidence = given ? SG_EVIDENCE_MEASURED : (sg_evidence)p->evidence;
    sg_log_sd parts = {given ? 0 : p->log_sd, sg_width(SG_LIMIT_ENVIRONMENT, evidence), 0};
    return sg_figure_make(seconds, parts, evidence, w->interval);
}

/* Published runs of other simulators or tasks: log sd 0.7 (a judgement from their spread). */
static const double OTHER_TASK_LOG_SD = 0.7;
/* Over several nodes all wait for the slowest: three published tasks on four nodes are 3, 5 and (with cameras that render) 29 % off what
 * one node's logs say; root mean square. */
static const double NODES_LOG_SD = 0.15;

/* The whole of the collection, the policy's inference in it. */
static sg_figure collection_by_law(const sg_predict_work *w, const sg_law *law) {
    double step_s, log_sd;
    sg_law_at(law, (double)w->training->envs, &step_s, &log_sd);
    sg_evidence evidence = law->n_points == 0 || w->options->environment_elsewhere ? SG_EVIDENCE_DATA_SHEET
                           : (double)w->training->envs < law->low_x || (double)w->training->envs > law->high_x
                               ? SG_EVIDENCE_CALIBRATED
                               : SG_EVIDENCE_OBSERVED;
    double width = law->n_points ? sg_width(SG_LIMIT_ENVIRONMENT, evidence) : OTHER_TASK_LOG_SD;
    if (sg_ranks_of_node(w) < w->ranks) width = hypot(width, NODES_LOG_SD);
    sg_log_sd parts = {log_sd, width, 0};
    return sg_figure_make((double)w->training->steps_per_env * step_s, parts, evidence, w->interval);
}

static void ppo_times(sg_predict_work *w) {
    sg_prediction *p = w->out;
    const sg_step_times *times = &w->walked.times;
    double learning[SG_M_COUNT], learning_s = times->learning_s;
    for (int i = 0; i < SG_M_COUNT; i++)
        learning[i] = w->walked.by_log[SG_PHASE_PREPROCESSING][i] + w->walked.by_log[SG_PHASE_UPDATE][i] +
                      w->walked.by_log[SG_PHASE_OTHER][i];
    add_jitter(w, learning, &learning_s);
    memcpy(p->update_by_log, learning, sizeof p->update_by_log);
    double both[SG_M_COUNT];
    const double *inference = w->walked.by_log[SG_PHASE_INFERENCE];
    for (int i = 0; i < SG_M_COUNT; i++) both[i] = inference[i] + learning[i];
    sg_limit limit;
    p->inference_s = time_figure(w, inference, times->inference_s, NULL);
    const sg_law *environment = environment_law(w);
    p->environment_s = environment_figure(w);
    if (environment) {
        p->collection_s = collection_by_law(w, environment);
        p->environment_s = sg_figure_shifted(&p->collection_s, -p->inference_s.value);
    }
    p->learning_s = time_figure(w, learning, learning_s, NULL);
    sg_figure collection[2] = {p->inference_s, p->environment_s};
    if (!environment) p->collection_s = sg_figure_sum(collection, 2);
    sg_figure iteration[3] = {time_figure(w, both, times->inference_s + learning_s, &limit), p->environment_s};
    p->iteration_s = sg_figure_sum(iteration, 2);
    if (w->law.found) {
        p->learning_s = law_figure(w, learning, learning_s, &limit);
        iteration[0] = p->inference_s;
        iteration[2] = p->learning_s;
        p->iteration_s = sg_figure_sum(iteration, 3);
    }
    if (p->environment_s.value > 0.5 * p->iteration_s.value) limit = SG_LIMIT_ENVIRONMENT;
    w->limit = limit;
    double env_steps = (double)w->training->envs * (double)w->training->steps_per_env * w->ranks;
    p->env_steps_per_s = sg_figure_scaled(&p->iteration_s, env_steps, -1);
    p->forward_s = times->forward_s;
    p->backward_s = times->backward_s;
    p->optimizer_s = times->optimizer_s;
    p->exposed_sync_s = times->exposed_sync_s;
    memcpy(p->class_s, w->walked.report.class_s, sizeof p->class_s);
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

static double known(const sg_machine *m, sg_machine_id id) {
    return isfinite(m->p[id].value) ? m->p[id].value : 0;
}

/* Of the peak, what can grow with the cameras: all but weights and optimizer state. */
static double share_of_batch(const sg_memory_peak *peak) {
    double fixed = (double)peak->by_role[SG_ROLE_WEIGHT] + (double)peak->by_role[SG_ROLE_OPTIMIZER];
    return peak->allocated_bytes > 0 ? fmax(0, 1 - fixed / (double)peak->allocated_bytes) : 1;
}

static sg_figure memory_figure(const sg_predict_work *w, double bytes, double walk_log_sd, bool with_context) {
    const sg_machine *m = &w->machine;
    double by_log[SG_M_COUNT] = {0};
    by_log[SG_M_WORKSPACE_BYTES] = known(m, SG_M_WORKSPACE_BYTES);
    if (with_context) by_log[SG_M_CONTEXT_BYTES] = known(m, SG_M_CONTEXT_BYTES);
    double total = bytes + by_log[SG_M_WORKSPACE_BYTES] + by_log[SG_M_CONTEXT_BYTES];
    double inputs = 0, of_cameras = CAMERAS_LOG_SD * share_of_batch(&w->walked.peak);
    if (!w->options->cameras_known && w->training->cameras > 0) inputs += of_cameras * of_cameras;
    if (!w->options->language_known && strcmp(w->training->policy, "smolvla") == 0)
        inputs += LANGUAGE_MEMORY_LOG_SD * LANGUAGE_MEMORY_LOG_SD;
    sg_log_sd parts = {sqrt(sg_machine_log_variance(m, by_log, total)), walk_log_sd, sqrt(inputs)};
    /* the bytes are the walk's, whatever the machine: only constants beside it have a tier, and where they are small the
     * figure is as good as a calibrated one */
    sg_evidence evidence = SG_EVIDENCE_CALIBRATED, of_constants = sg_evidence_of(m, by_log, total);
    return sg_figure_upper(total, parts, of_constants > evidence ? of_constants : evidence, w->interval);
}

static void memory(sg_predict_work *w) {
    sg_prediction *p = w->out;
    const sg_memory_peak *peak = &w->walked.peak;
    p->peak_allocated_bytes = memory_figure(w, (double)peak->allocated_bytes, ALLOCATED_LOG_SD, false);
    p->peak_reserved_bytes = memory_figure(w, (double)peak->reserved_bytes, RESERVED_LOG_SD, false);
    p->device_bytes = memory_figure(w, (double)peak->reserved_bytes, DRIVER_LOG_SD, true);
    p->fits = w->machine.memory_bytes == 0 || p->device_bytes.high <= (double)w->machine.memory_bytes;
    if (w->machine.memory_bytes == 0)
        sg_predict_warn(p, "machine %s does not state its memory: whether the training fits was not checked",
                        w->machine.name);
    else if (!p->fits && p->device_bytes.value <= (double)w->machine.memory_bytes)
        sg_predict_warn(
            p, "memory: the expected %.2f GiB fit, the upper bound of %.2f GiB does not; a smaller batch is safer",
            p->device_bytes.value / 0x1p30, p->device_bytes.high / 0x1p30);
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

static bool forms_products_in(const sg_training *t, sg_compute compute) {
    for (size_t i = 0; i < t->n_ops; i++)
        if (sg_op_class_of(&t->ops[i]) <= SG_CLASS_ATTENTION && t->ops[i].attrs.compute == (int32_t)compute)
            return true;
    return false;
}

static void environment_warning(sg_predict_work *w, const sg_law *law) {
    if (!law) return;
    if (law->n_points == 0) {
        char known[128] = "";
        size_t used = 0;
        for (size_t i = 0; w->options->fit && i < w->options->fit->n_laws && used < sizeof known; i++) {
            const sg_law *other = &w->options->fit->laws[i];
            if (strcmp(other->quantity, "collection_step_s") == 0)
                used +=
                    (size_t)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "; there are logs of ",
                                     sg_environment_task(other->config.dataset));
        }
        sg_predict_warn(w->out, "no log of %s was fitted%s: its step is what published runs of that simulator need",
                        sg_environment_task(law->config.dataset), known);
        return;
    }
    if ((double)w->training->envs >= law->low_x && (double)w->training->envs <= law->high_x) return;
    char seen[64];
    if (law->high_x > law->low_x)
        (void)snprintf(seen, sizeof seen, "%.0f to %.0f", law->low_x, law->high_x);
    else
        (void)snprintf(seen, sizeof seen, "%.0f", law->low_x);
    sg_predict_warn(w->out, "logs of this task hold %s environments; from about %.3g on more of them bring little",
                    seen, sg_environment_saturation(law));
}

static void general_warnings(sg_predict_work *w) {
    if (!w->machine.bf16 && forms_products_in(w->training, SG_COMPUTE_BF16))
        sg_predict_warn(w->out, "%s has no bf16: such products are emulated and slow; fp32 or fp16 may be faster",
                        w->machine.name);
    if (w->law.found && (law_x(w) < w->law.low_x || law_x(w) > w->law.high_x))
        sg_predict_warn(w->out, "%s %.0f lies outside of what was measured here, %.0f to %.0f",
                        w->training->envs > 0 ? "environments" : "batch", law_x(w), w->law.low_x, w->law.high_x);
    if (w->training->envs > 0) environment_warning(w, environment_law(w));
    int per_node = w->machine.link.gpus_per_node;
    double network = w->machine.p[SG_M_NETWORK].value;
    if (per_node > 0 && w->ranks > per_node && isfinite(network))
        sg_predict_warn(w->out, "%d GPUs are taken as %d nodes of %d, each with %.3g GB/s to the others", w->ranks,
                        (w->ranks + per_node - 1) / per_node, per_node, network / 1e9);
    if (!w->options->cameras_known && w->training->cameras > 0)
        sg_predict_warn(w->out, "the number of cameras was not given: %lld assumed", (long long)w->training->cameras);
}

sg_code sg_predict_figures(sg_predict_work *w, sg_status *status) {
    sg_prediction *p = w->out;
    sg_figure nothing = {NAN, NAN, NAN, {0, 0, 0}, SG_EVIDENCE_OBSERVED};
    p->step_s = p->update_s = p->dataloading_s = p->preprocessing_s = p->samples_per_s = nothing;
    p->collection_s = p->inference_s = p->environment_s = p->learning_s = p->iteration_s = p->env_steps_per_s = nothing;
    general_warnings(w);
    sg_code code = SG_OK;
    if (w->training->envs > 0)
        ppo_times(w);
    else
        code = supervised_times(w, status);
    if (code) return code;
    (void)snprintf(p->limited_by, sizeof p->limited_by, "%s", sg_limit_name(w->limit));
    sg_limit_text(w, w->limit, p->limited_by_text, sizeof p->limited_by_text);
    const sg_virtual_report *r = &w->walked.report;
    p->device_busy_share = r->host_s > 0 ? fmin(1, r->device_busy_s / r->host_s) : 0;
    p->device_evidence = sg_evidence_of(&w->machine, w->walked.device_by_log, r->device_busy_s);
    p->host_evidence = sg_evidence_of(&w->machine, w->walked.host_by_log, r->host_busy_s);
    if (w->law.found) /* it stands instead of the walk: what measured the step measured both */
        p->device_evidence = p->host_evidence = (w->training->envs > 0 ? p->learning_s : p->update_s).evidence;
    memory(w);
    return SG_OK;
}
