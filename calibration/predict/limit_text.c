/* limit_text.c: what decides a step's time, in words, with the share that shows it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "calibration/predict/predict_work.h"
#include "calibration/statistics/width.h"

typedef struct shares {
    double step_s;                    /* or PPO's iteration */
    double busy, host;                /* of the step: the compute stream works, the host works */
    double on_device[SG_LIMIT_COUNT]; /* of the device's time, without stretch */
} shares;

static shares shares_of(const sg_predict_work *w) {
    const sg_virtual_report *r = &w->walked.report;
    bool ppo = w->training->envs > 0;
    double k = ppo || w->training->accumulation < 1 ? 1 : (double)w->training->accumulation;
    shares s = {.step_s = ppo ? w->out->iteration_s.value : w->out->step_s.value};
    if (s.step_s > 0) {
        s.busy = fmin(1, r->device_busy_s / k / s.step_s);
        s.host = fmin(1, r->host_busy_s / k / s.step_s);
    }
    sg_limit_shares(w->walked.device_by_log, r->device_busy_s, s.on_device);
    return s;
}

static double percent(double share) {
    return 100 * fmin(1, fmax(0, share));
}

/* A host that is slower than the device, or kernels so small that starting them is most of their time. */
static void launch_text(const sg_predict_work *w, const shares *s, const char *device, char *text, size_t bytes) {
    if (sg_machine_device_class(&w->machine) == SG_DEVICE_CLASS_CPU)
        (void)snprintf(text, bytes, "launch-bound: the framework's own work is %.0f %% of the step", percent(s->host));
    else if (s->host < s->busy)
        (void)snprintf(text, bytes, "launch-bound: starting kernels is %.0f %% of the %s's time, they are small",
                       percent(s->on_device[SG_LIMIT_LAUNCH]), device);
    else
        (void)snprintf(text, bytes, "launch-bound: the %s idles %.0f %% of the step", device, percent(1 - s->busy));
}

static void SG_PRINTF(4, 5) append(char *text, size_t bytes, size_t *at, const char *format, ...) {
    va_list args;
    if (*at >= bytes) return;
    va_start(args, format);
    int n = vsnprintf(text + *at, bytes - *at, format, args);
    va_end(args);
    *at += n > 0 ? (size_t)n : 0;
}

/* What would lift it: more vCPUs where they can, workers where vCPUs are left, frames that need no decoding. */
static void remedies(const sg_loader_outlook *l, const sg_predict_work *w, char *text, size_t bytes, size_t *at) {
    const char *before = ";";
    int nodes_share = sg_ranks_of_node(w), workers = w->options->workers;
    if (l->workers_needed > workers && (l->processors == 0 || l->workers_needed <= l->processors)) {
        append(text, bytes, at, "%s %d workers", before, l->workers_needed);
        before = " or";
    } else if (l->processors > 0 && l->processors_needed > l->processors) {
        append(text, bytes, at, "%s %d vCPUs", before, l->processors_needed * nodes_share);
        before = " or";
    }
    if (l->decoded_samples_per_s > 1.1 * l->samples_per_s.value) {
        bool first = before[0] == ';';
        append(text, bytes, at, "%s decoded frames", before);
        if (first || fabs(l->decoded_samples_per_s / l->demand_samples_per_s - 1) < 0.01)
            append(text, bytes, at, " would lift it to %.3g", l->decoded_samples_per_s);
        else
            append(text, bytes, at, " would lift it to %.3g or %.3g", l->demand_samples_per_s,
                   l->decoded_samples_per_s);
    } else if (before[0] != ';') {
        append(text, bytes, at, " would lift it to %.3g", l->demand_samples_per_s);
    }
}

static void loader_text(const sg_predict_work *w, const shares *s, const char *device, char *text, size_t bytes) {
    const sg_loader_outlook *l = &w->out->loader;
    int workers = w->options->workers;
    size_t at = 0;
    append(text, bytes, &at, "loader-bound: waiting for batches is %.0f %% of the step; ",
           percent(w->out->dataloading_s.value / s->step_s));
    if (workers == 0)
        append(text, bytes, &at, "decoding between steps feeds");
    else if (l->processors > 0 && workers >= l->processors)
        append(text, bytes, &at, "%.3g vCPUs feed", l->processors * sg_ranks_of_node(w));
    else
        append(text, bytes, &at, "%d worker%s feed%s", workers, workers > 1 ? "s" : "", workers > 1 ? "" : "s");
    append(text, bytes, &at, " %.3g samples/s, the %s could take %.3g", l->samples_per_s.value, device,
           l->demand_samples_per_s);
    remedies(l, w, text, bytes, &at);
}

void sg_limit_text(const sg_predict_work *w, sg_limit limit, char *text, size_t bytes) {
    const sg_prediction *p = w->out;
    const char *device = sg_machine_device_class(&w->machine) == SG_DEVICE_CLASS_CPU ? "processor" : "GPU";
    shares s = shares_of(w);
    switch (limit) {
    case SG_LIMIT_COMPUTE:
        (void)snprintf(text, bytes, "compute-bound: %.0f %% of the %s's time is arithmetic of products",
                       percent(s.on_device[SG_LIMIT_COMPUTE]), device);
        return;
    case SG_LIMIT_BANDWIDTH:
        (void)snprintf(text, bytes, "memory-bandwidth-bound: %.0f %% of the %s's time moves bytes",
                       percent(s.on_device[SG_LIMIT_BANDWIDTH]), device);
        return;
    case SG_LIMIT_LAUNCH: launch_text(w, &s, device, text, bytes); return;
    case SG_LIMIT_LOADER: loader_text(w, &s, device, text, bytes); return;
    case SG_LIMIT_COMMUNICATION:
        (void)snprintf(text, bytes, "communication-bound: the %s waits for what ranks exchange %.0f %% of the step",
                       device, percent(p->exposed_sync_s / s.step_s));
        return;
    case SG_LIMIT_ENVIRONMENT:
        (void)snprintf(text, bytes,
                       "environment-bound: the simulator takes %.0f %% of the iteration, the %s idles %.0f %%",
                       percent(p->environment_s.value / s.step_s), device, percent(1 - s.busy));
        return;
    default: text[0] = 0;
    }
}
