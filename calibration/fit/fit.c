#include "calibration/fit/fit.h"

#include "calibration/environment/environment_law.h"
#include "calibration/fit/fit_laws.h"
#include "calibration/fit/fit_links.h"
#include "calibration/fit/fit_observed.h"
#include "calibration/fit/fit_probe.h"
#include "calibration/fit/fit_rates.h"
#include "calibration/fit/fit_shapes.h"
#include "calibration/loader/fit_loaders.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void set_parameter(sg_machine *m, sg_machine_id id, double value, double log_sd, sg_evidence evidence,
                          const char *origin) {
    sg_machine_parameter *p = &m->p[id];
    p->value = value;
    p->log_sd = log_sd;
    p->evidence = (uint8_t)evidence;
    p->group = 0;
    (void)snprintf(p->source, sizeof p->source, "%.119s", origin);
    if (!m->covariance) return;
    for (int j = 0; j < SG_M_COUNT; j++)
        m->covariance[(size_t)id * SG_M_COUNT + (size_t)j] = m->covariance[(size_t)j * SG_M_COUNT + (size_t)id] = 0;
    m->covariance[(size_t)id * (SG_M_COUNT + 1)] = log_sd * log_sd;
}

/* Geometric mean and log sd of the values that are positive; false when there is none. */
static bool summarize(const double *values, size_t n, double *mean, double *log_sd) {
    double sum = 0, squares = 0;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!(values[i] > 0) || !isfinite(values[i])) continue;
        double l = log(values[i]);
        sum += l;
        squares += l * l;
        kept++;
    }
    if (!kept) return false;
    double m = sum / (double)kept;
    *mean = exp(m);
    *log_sd = kept > 1 ? sqrt(fmax(squares / (double)kept - m * m, 0) / (double)(kept - 1)) : 0.1;
    *log_sd = fmax(*log_sd, 0.03);
    return true;
}

/* What is read off rather than fitted: decode per frame, environment step, memory beyond the allocator. */
static sg_code read_constants(const sg_point *const *points, size_t n, const char *origin, sg_machine *m,
                              sg_status *status) {
    double *frame = calloc(n, sizeof *frame), *env = calloc(n, sizeof *env), *context = calloc(n, sizeof *context);
    sg_code code = frame && env && context ? SG_OK : sg_fail_memory(status, 3 * n * sizeof *frame, "a fit");
    for (size_t i = 0; code == SG_OK && i < n; i++) {
        const sg_point *p = points[i];
        double pixels = (double)p->config.image_height * (double)p->config.image_width;
        bool synthetic = p->config.dataset[0] == 0; /* real frames are the loaders' */
        if (synthetic && p->frame_s > 0 && pixels > 0) frame[i] = p->frame_s * (480.0 * 640.0) / pixels;
        double env_steps = (double)p->config.envs * (double)p->config.steps_per_env;
        if (env_steps > 0) env[i] = p->q[SG_Q_ENVIRONMENT].median / env_steps;
        bool on_host = strcmp(p->config.device, "cpu") == 0; /* resident: of this process, not of the GPU */
        if (on_host && p->resident_bytes > p->peak_allocated_bytes && p->peak_allocated_bytes > 0)
            context[i] = (double)(p->resident_bytes - p->peak_allocated_bytes);
    }
    double value, log_sd;
    if (code == SG_OK && summarize(frame, n, &value, &log_sd))
        set_parameter(m, SG_M_FRAME_S, value, log_sd, SG_EVIDENCE_CALIBRATED, origin);
    if (code == SG_OK && summarize(env, n, &value, &log_sd))
        set_parameter(m, SG_M_ENV_STEP_S, value, log_sd, SG_EVIDENCE_CALIBRATED, origin);
    if (code == SG_OK && summarize(context, n, &value, &log_sd))
        set_parameter(m, SG_M_CONTEXT_BYTES, value, log_sd, SG_EVIDENCE_CALIBRATED, origin);
    free(frame);
    free(env);
    free(context);
    return code;
}

/* How far each point's own law is from it; a large residual names a point worth measuring again. */
static sg_code residuals_of(sg_fit *fit, const sg_run *run, sg_status *status) {
    fit->residuals = malloc((run->n_points ? run->n_points : 1) * sizeof *fit->residuals);
    if (!fit->residuals) return sg_fail_memory(status, run->n_points * sizeof *fit->residuals, "residuals");
    fit->n_residuals = run->n_points;
    for (size_t i = 0; i < run->n_points; i++) {
        const sg_point *p = &run->points[i];
        sg_quantity q = p->config.envs > 0 ? SG_Q_LEARNING : SG_Q_UPDATE;
        const sg_law *law = sg_law_find(fit, sg_quantity_name(q), &p->config);
        double value = NAN, log_sd, stretch = 1;
        if (law) sg_law_at(law, (double)(p->config.envs > 0 ? p->config.envs : p->config.batch), &value, &log_sd);
        sg_code code = law ? sg_loader_stretch(fit, p, &stretch, status) : SG_OK;
        if (code) return code;
        bool told = law && p->q[q].median > 0 && !sg_point_is_paused(p);
        fit->residuals[i] = told ? log(p->q[q].median / (value * stretch)) : NAN;
    }
    return SG_OK;
}

static const char *gpu_of(const sg_run *run) {
    for (size_t i = 0; i < run->n_points; i++)
        if (run->points[i].gpu.name[0]) return run->points[i].gpu.name;
    return run->machine.gpu;
}

static sg_code start_machine(const sg_run *run, const sg_machine *prior, sg_machine *m, sg_status *status) {
    *m = *prior;
    m->covariance = NULL;
    m->measured = sg_measured_share(prior->measured);
    if (prior->covariance) {
        size_t bytes = (size_t)SG_M_COUNT * SG_M_COUNT * sizeof(double);
        m->covariance = malloc(bytes);
        if (!m->covariance) return sg_fail_memory(status, bytes, "a covariance");
        memcpy(m->covariance, prior->covariance, bytes);
    }
    const sg_machine_record *r = &run->machine;
    (void)snprintf(m->name, sizeof m->name, "%.63s", r->hostname[0] ? r->hostname : "this-machine");
    if (r->cores > 0) m->vcpus = (double)r->cores;
    if (strcmp(m->device_class, "cuda") == 0) {
        const char *gpu = gpu_of(run);
        if (gpu[0]) (void)snprintf(m->title, sizeof m->title, "%.95s", gpu);
        if (r->gpu_memory_bytes > 0) m->memory_bytes = (uint64_t)r->gpu_memory_bytes;
        return SG_OK;
    }
    (void)snprintf(m->title, sizeof m->title, "%.95s", r->device[0] ? r->device : r->cpu);
    if (r->memory_bytes > 0) m->memory_bytes = (uint64_t)r->memory_bytes;
    if (r->threads > 0) m->units = (int)r->threads;
    return SG_OK;
}

/* The efficiency that most of the measured time rests on is the matrix products' or the convolutions'. */
static void note_doubt(sg_fit *fit) {
    static const sg_machine_id main_rates[] = {SG_M_EFF_GEMM, SG_M_EFF_CONV};
    for (size_t i = 0; i < sizeof main_rates / sizeof main_rates[0]; i++) {
        const sg_machine_parameter *p = &fit->machine.p[main_rates[i]];
        if (p->evidence == SG_EVIDENCE_CALIBRATED && p->log_sd > 0.3)
            sg_fit_note(fit, "%s is known to a factor of %.1f only: measure at least 3 batches, on an idle machine",
                        sg_machine_key(main_rates[i]), exp(1.64 * p->log_sd));
    }
}

/* Of a log: what the framework did, not what this program ran. */
static bool is_observed(const sg_point *point) {
    return strcmp(point->source, "observed") == 0;
}

/* A run file may hold points of the processor and of the GPU: rates of one say nothing of the other's. */
static size_t points_of(const sg_run *run, const sg_machine *machine, const sg_point **points) {
    size_t n = 0, measured = 0;
    for (size_t i = 0; i < run->n_points; i++)
        if (!is_observed(&run->points[i]) && strcmp(run->points[i].config.device, machine->device_class) == 0)
            points[n++] = &run->points[i];
    for (size_t i = 0; n == 0 && i < run->n_points; i++)
        if (!is_observed(&run->points[i])) points[measured++] = &run->points[i];
    return n ? n : measured;
}

/* Number of points that really worked, put before those that paused; each part keeps its order. */
static size_t paused_last(const sg_point **points, size_t n) {
    size_t worked = 0;
    for (size_t i = 0; i < n; i++) {
        const sg_point *p = points[i];
        if (sg_point_is_paused(p)) continue;
        memmove(points + worked + 1, points + worked, (i - worked) * sizeof(const sg_point *));
        points[worked++] = p;
    }
    return worked;
}

/* Observed points of the run file and of the options, in one array that shares what they hold. NULL: no memory. */
static sg_point *observed_of(const sg_run *run, const sg_fit_options *options, size_t *n) {
    sg_point *all = calloc(run->n_points + options->n_observed + 1, sizeof *all);
    *n = 0;
    if (!all) return NULL;
    for (size_t i = 0; i < options->n_observed; i++) all[(*n)++] = options->observed[i];
    for (size_t i = 0; i < run->n_points; i++)
        if (is_observed(&run->points[i])) all[(*n)++] = run->points[i];
    return all;
}

static sg_code fit_machine(sg_fit *fit, const sg_run *run, const sg_point *const *points, size_t n, const char *origin,
                           sg_status *status) {
    sg_code code = n ? sg_fit_rates(points, n, origin, &fit->machine, status) : SG_OK;
    if (code == SG_OK && n) code = sg_fit_shapes(points, n, &fit->machine, status);
    size_t shapes = 0;
    (void)sg_measured_shapes(fit->machine.measured, &shapes);
    if (code == SG_OK && shapes) sg_fit_note(fit, "%zu measured shapes of operations answer as measured", shapes);
    if (code == SG_OK && n) code = read_constants(points, n, origin, &fit->machine, status);
    return code == SG_OK ? sg_fit_links(run, origin, &fit->machine, status) : code;
}

/* all: with those in which a pause stood in for the update, which tell of loaders alone and come last; n without them. */
static sg_code fit_points(sg_fit *fit, const sg_run *run, const sg_point *const *all, size_t n_all, size_t n,
                          const sg_fit_options *options, sg_status *status) {
    const sg_point *const *points = all;
    char date[16], origin[120];
    time_t now = time(NULL);
    struct tm day;
    (void)strftime(date, sizeof date, "%Y-%m-%d", gmtime_r(&now, &day));
    if (n_all)
        (void)snprintf(origin, sizeof origin, "fit of %zu measured point(s), %s", n_all, date);
    else
        (void)snprintf(origin, sizeof origin, "fit of %zu training log(s), %s", options->n_observed, date);
    (void)snprintf(fit->machine.fitted_from, sizeof fit->machine.fitted_from, "%s", origin);
    sg_code code = fit_machine(fit, run, points, n, origin, status);
    if (code == SG_OK) code = sg_fit_loaders(all, n_all, origin, fit, status);
    if (code == SG_OK) code = sg_fit_decodes(run, origin, fit, status);
    if (code == SG_OK && options->probe_file) code = sg_fit_probe(options->probe_file, fit, status);
    if (code == SG_OK) code = sg_fit_laws(fit, points, n, status);
    if (code == SG_OK) code = sg_fit_observed(options->observed, options->n_observed, fit, status);
    if (code == SG_OK) code = sg_fit_environments(options->observed, options->n_observed, fit, status);
    if (code == SG_OK) code = residuals_of(fit, run, status);
    if (code == SG_OK) note_doubt(fit);
    return code;
}

sg_code sg_fit_run(const sg_run *run, const sg_machine *prior, const sg_fit_options *options, sg_fit *fit,
                   sg_status *status) {
    memset(fit, 0, sizeof *fit);
    if (run->n_points == 0)
        return sg_fail(status, SG_BAD_INPUT,
                       "the run file holds no point: measure first, with 'stepgauge measure act --batch 1,2,4 -o "
                       "run.h5'");
    sg_code code = start_machine(run, prior, &fit->machine, status);
    const sg_point **points = malloc(run->n_points * sizeof(const sg_point *));
    sg_fit_options all = *options;
    sg_point *observed = observed_of(run, options, &all.n_observed);
    all.observed = observed;
    if ((!points || !observed) && code == SG_OK) code = sg_fail_memory(status, run->n_points * sizeof *points, "a fit");
    size_t n = points ? points_of(run, prior, points) : 0;
    if (code == SG_OK && n == 0)
        sg_fit_note(fit,
                    "there are points of training logs alone: the data sheet is what they adjust; measuring on that "
                    "machine would tell more");
    size_t other = run->n_points - n - (all.n_observed - options->n_observed);
    if (code == SG_OK && other)
        sg_fit_note(fit, "%zu point(s) of another device than %s are left out", other, prior->device_class);
    size_t worked = code == SG_OK ? paused_last(points, n) : 0;
    if (code == SG_OK) code = fit_points(fit, run, points, n, worked, &all, status);
    free(observed);
    free(points);
    if (code != SG_OK) sg_fit_clear(fit);
    return code;
}
