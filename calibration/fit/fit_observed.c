#include "calibration/fit/fit_observed.h"

#include "calibration/fit/fit_laws.h"
#include "calibration/fit/observed.h"
#include "calibration/machine/framework_file.h"
#include "calibration/predict/predict.h"
#include "calibration/predict/work.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steady windows of one log against those of another day on the same machine: clocks, drivers, other users. */
static const double OBSERVED_LOG_SD = 0.03;
/* A disturbed log: stalls in every fifth window, one rank's times of several, single steps. */
static const double DISTURBED = 3;
/* Waits from this share of the step on are a loader's that limits; below the other it keeps up. */
static const double LIMITS_SHARE = 0.10, KEEPS_UP_SHARE = 0.02;
/* How well one log tells a frame's time: sizes, codecs and the page cache differ from data set to data set. */
static const double FRAME_LOG_SD = 0.15;
/* Of the prior's log sds: farther away, something is other than was said. */
static const double SURPRISE = 3;
/* The walk's peaks against published ones, as in predict_figures.c. */
static const double ALLOCATED_LOG_SD = 0.02;
static const double LEAST_FRAME_S = 1e-6, MOST_FRAME_S = 10;
enum { HALVINGS = 20 };

typedef struct observed {
    sg_fit *fit;
    const sg_point **point; /* those that take part */
    sg_work_request *request;
    sg_predictor **predictor;
    sg_observation *seen;
    size_t n;
    char origin[120];
} observed;

static double seconds_of(const sg_point *p) {
    return p->q[p->config.envs > 0 ? SG_Q_LEARNING : SG_Q_UPDATE].median;
}

/* ---- which points take part ---------------------------------------------------------------------------------------- */

static bool other_gpu(const sg_point *p, const sg_machine *m) {
    return p->gpu.name[0] && m->title[0] && strcmp(m->device_class, "cuda") == 0 && strcmp(p->gpu.name, m->title) != 0;
}

/* Why a point says nothing here; "" where it does. */
static void why_not(const observed *o, const sg_point *p, const sg_point *first, char *why, size_t bytes) {
    const sg_machine *m = &o->fit->machine;
    why[0] = 0;
    if (strcmp(p->config.device, m->device_class) != 0)
        (void)snprintf(why, bytes, "it ran on another device (%s)", p->config.device);
    else if (other_gpu(p, m))
        (void)snprintf(why, bytes, "it ran on another GPU (%.60s)", p->gpu.name);
    else if (first && strcmp(p->config.framework, first->config.framework) != 0)
        (void)snprintf(why, bytes, "its framework (%.40s) is another than the first log's", p->config.framework);
    else if (!(seconds_of(p) > 0))
        (void)snprintf(why, bytes, "it tells no %s, only whole steps or a wall-clock",
                       p->config.envs > 0 ? "learning_s" : "update_s");
}

static double log_sd_of(const sg_point *p) {
    const sg_statistic *s = &p->q[p->config.envs > 0 ? SG_Q_LEARNING : SG_Q_UPDATE];
    double half = s->high > s->low ? (s->high - s->low) / s->median / 3.92 : 0;
    return hypot(OBSERVED_LOG_SD, half) * (p->disturbed ? DISTURBED : 1);
}

static int policy_of(const observed *o, const sg_point *p) {
    for (size_t i = 0; i < o->n; i++)
        if (strcmp(o->point[i]->config.policy, p->config.policy) == 0) return o->seen[i].policy;
    return (int)o->n;
}

static void keep(observed *o, const sg_point *p, sg_status *status) {
    sg_work_request_of(&p->config, &o->request[o->n]);
    const sg_training *training = NULL;
    sg_code code = sg_predictor_open(&o->request[o->n].policy, NULL, &o->predictor[o->n], status);
    if (!code) code = sg_predictor_training(o->predictor[o->n], &o->fit->machine, &training, status);
    if (code) {
        sg_fit_note(o->fit, "log %.100s is left out: %.120s", p->origin, status->text);
        sg_predictor_close(o->predictor[o->n]);
        o->predictor[o->n] = NULL;
        return;
    }
    if (p->disturbed) sg_fit_note(o->fit, "log %.100s counts less: %.120s", p->origin, p->disturbed_why);
    o->seen[o->n] = (sg_observation){.seconds = seconds_of(p), .log_sd = log_sd_of(p), .policy = policy_of(o, p)};
    o->point[o->n++] = p;
}

static void choose(observed *o, const sg_point *points, size_t n, sg_status *status) {
    char why[120];
    for (size_t i = 0; i < n; i++) {
        why_not(o, &points[i], o->n ? o->point[0] : NULL, why, sizeof why);
        if (why[0])
            sg_fit_note(o->fit, "log %.100s is left out: %s", points[i].origin, why);
        else
            keep(o, &points[i], status);
    }
}

/* ---- walks --------------------------------------------------------------------------------------------------------- */

static sg_code predict(const observed *o, size_t i, const sg_machine *machine, bool by_law, sg_prediction *p,
                       sg_status *status) {
    const sg_point_config *c = &o->point[i]->config;
    const sg_predict_options options = {.interval = 0.9,
                                        .ranks = (int)c->ranks,
                                        .workers = (int)c->workers,
                                        .cameras_known = true,
                                        .host_known = true,
                                        .language_known = true,
                                        .fit = by_law ? o->fit : NULL};
    return sg_predictor_run(o->predictor[i], machine, &options, p, status);
}

/* What was measured here answers by its law; the walk tells how it goes with the machine's parameters. */
static sg_code walk(const sg_machine *machine, size_t i, double *seconds, double *by_log, double *model_log_sd,
                    void *user, sg_status *status) {
    const observed *o = user;
    sg_prediction walked, answered;
    sg_code code = predict(o, i, machine, false, &walked, status);
    answered = walked;
    if (!code && o->fit->n_laws) code = predict(o, i, machine, true, &answered, status);
    if (code) return code;
    bool ppo = o->point[i]->config.envs > 0;
    const sg_figure *plain = ppo ? &walked.learning_s : &walked.update_s;
    const sg_figure *figure = ppo ? &answered.learning_s : &answered.update_s;
    *seconds = figure->value;
    *model_log_sd = figure->parts.model;
    for (int k = 0; k < SG_M_COUNT; k++)
        by_log[k] = plain->value > 0 ? walked.update_by_log[k] * figure->value / plain->value : 0;
    return SG_OK;
}

static void set(const observed *o, sg_machine_id id, double value, double log_sd, const char *origin) {
    sg_machine *m = &o->fit->machine;
    sg_machine_parameter *p = &m->p[id];
    p->value = value;
    p->log_sd = log_sd;
    p->evidence = SG_EVIDENCE_OBSERVED;
    p->group = 0;
    (void)snprintf(p->source, sizeof p->source, "%.119s", origin);
    for (int j = 0; m->covariance && j < SG_M_COUNT; j++)
        m->covariance[(size_t)id * SG_M_COUNT + (size_t)j] = m->covariance[(size_t)j * SG_M_COUNT + (size_t)id] = 0;
    if (m->covariance) m->covariance[(size_t)id * (SG_M_COUNT + 1)] = log_sd * log_sd;
}

/* ---- the loader ---------------------------------------------------------------------------------------------------- */

/* Waiting as the log tells it, without preprocessing where the log counts that with it. */
static double waiting_s(const sg_point *p, const sg_prediction *predicted) {
    double seconds = p->q[SG_Q_DATALOADING].median;
    return p->q[SG_Q_PREPROCESSING].median > 0 ? seconds : fmax(0, seconds - predicted->preprocessing_s.value);
}

static sg_code waiting_at(const observed *o, size_t i, sg_machine *trial, double frame_s, double *seconds,
                          sg_prediction *p, sg_status *status) {
    trial->p[SG_M_FRAME_S].value = frame_s;
    sg_code code = predict(o, i, trial, false, p, status);
    *seconds = code ? NAN : p->dataloading_s.value;
    return code;
}

/* The time of a frame at which the predicted wait is the observed one. */
static sg_code frame_of(const observed *o, size_t i, double *frame_s, sg_status *status) {
    *frame_s = NAN;
    double low = log(LEAST_FRAME_S), high = log(MOST_FRAME_S), seconds;
    sg_prediction p;
    sg_machine trial = o->fit->machine;
    sg_code code = waiting_at(o, i, &trial, o->fit->machine.p[SG_M_FRAME_S].value, &seconds, &p, status);
    double wanted = code ? 0 : waiting_s(o->point[i], &p);
    for (int k = 0; k < HALVINGS && !code; k++) {
        double middle = 0.5 * (low + high);
        code = waiting_at(o, i, &trial, exp(middle), &seconds, &p, status);
        if (seconds > wanted)
            high = middle;
        else
            low = middle;
    }
    bool found = low > log(LEAST_FRAME_S) && high < log(MOST_FRAME_S); /* else no frame's time explains the wait */
    if (found) *frame_s = exp(0.5 * (low + high));
    return code;
}

static bool tells_loader(const sg_point *p) {
    return p->config.envs == 0 && p->config.workers > 0 && p->config.cameras > 0 && p->q[SG_Q_DATALOADING].median > 0 &&
           p->q[SG_Q_STEP].median > 0;
}

static sg_code fit_loader(const observed *o, sg_status *status) {
    double sum = 0, limited = 0, bound = INFINITY, known = o->fit->machine.p[SG_M_FRAME_S].value;
    sg_code code = SG_OK;
    if (!(known > 0)) return code;
    for (size_t i = 0; i < o->n && !code; i++) {
        const sg_point *p = o->point[i];
        double frame_s, share = p->q[SG_Q_DATALOADING].median / p->q[SG_Q_STEP].median;
        bool limits = share > LIMITS_SHARE, keeps_up = share < KEEPS_UP_SHARE;
        if (!tells_loader(p) || (!limits && !keeps_up)) continue;
        code = frame_of(o, i, &frame_s, status);
        if (!isfinite(frame_s)) continue;
        if (limits) sum += log(frame_s), limited++;
        if (keeps_up) bound = fmin(bound, frame_s);
    }
    if (code) return code;
    if (limited > 0) {
        double frame_s = exp(sum / limited);
        set(o, SG_M_FRAME_S, frame_s, FRAME_LOG_SD, o->origin);
        sg_fit_note(o->fit, "logs: the loader limits %.0f of them: a 480x640 frame would take a worker of ours %.3g ms",
                    limited, 1e3 * frame_s);
    } else if (bound < known) {
        set(o, SG_M_FRAME_S, bound, o->fit->machine.p[SG_M_FRAME_S].log_sd, o->origin);
        sg_fit_note(o->fit, "logs: the loader keeps up: a 480x640 frame would take a worker of ours at most %.3g ms",
                    1e3 * bound);
    }
    return code;
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* What the allocator held beyond the walk's peak are libraries' workspaces, as far as the walk's own error leaves it. */
static sg_code fit_memory(const observed *o, sg_status *status) {
    sg_machine_parameter *w = &o->fit->machine.p[SG_M_WORKSPACE_BYTES];
    double precision = 0, sum = 0;
    sg_code code = SG_OK;
    for (size_t i = 0; i < o->n && !code; i++) {
        double bytes = (double)o->point[i]->peak_allocated_bytes;
        sg_prediction p;
        if (!(bytes > 0) || !(w->value > 0)) continue;
        code = predict(o, i, &o->fit->machine, false, &p, status);
        if (code) return code;
        double peak = p.peak_allocated_bytes.value, sd = ALLOCATED_LOG_SD * peak;
        if (fabs(log(bytes / peak)) > 5 * ALLOCATED_LOG_SD)
            sg_fit_note(o->fit,
                        "log %.80s: its peak is %.2f GiB, the program's %.2f GiB: cameras, image size or precision may "
                        "be other than said",
                        o->point[i]->origin, bytes * 0x1p-30, peak * 0x1p-30);
        precision += 1 / (sd * sd);
        sum += (w->value + bytes - peak) / (sd * sd);
    }
    if (code || precision == 0) return code;
    double prior_sd = w->value * fmax(w->log_sd, 0.05), prior = 1 / (prior_sd * prior_sd);
    double value = fmax(1e6, (prior * w->value + sum) / (prior + precision));
    set(o, SG_M_WORKSPACE_BYTES, value, fmin(w->log_sd, sqrt(1 / (prior + precision)) / value), o->origin);
    return SG_OK;
}

/* ---- all ----------------------------------------------------------------------------------------------------------- */

static sg_code fit_times(observed *o, sg_status *status) {
    sg_machine *m = &o->fit->machine;
    sg_framework_numbers numbers;
    sg_code code = sg_framework_load(o->point[0]->config.framework, m->device_class, NULL, &numbers, status);
    if (code) return code;
    if (numbers.factors) sg_framework_apply(&numbers, m);
    sg_observed_fit_result r;
    code = sg_observed_fit(m, o->seen, o->n, walk, o, o->origin, &r, status);
    if (code) return code;
    sg_fit_note(
        o->fit,
        "logs: a step took %.3g times as long as predicted before the fit; the fitted machine predicts it within "
        "%.1f %%, by its parameters and a factor of %.3f that multiplies every predicted time",
        r.shift, 100 * r.left_log, r.factor);
    for (size_t i = 0; i < o->n; i++) {
        double off = log(o->seen[i].seconds / o->seen[i].predicted_s);
        if (fabs(off) > SURPRISE * o->seen[i].doubt)
            sg_fit_note(
                o->fit,
                "log %.80s is %+.0f %% off the prediction, more than the data sheet leaves open: machine, cameras, "
                "image size or precision may be other than said",
                o->point[i]->origin, 100 * expm1(off));
    }
    for (size_t i = 0; i < o->n; i++)
        if (o->seen[i].weight < 0.5)
            sg_fit_note(o->fit, "log %.100s stands apart from the others and counts %.0f %%", o->point[i]->origin,
                        100 * o->seen[i].weight);
    return SG_OK;
}

static sg_code fit_all(observed *o, const sg_point *points, size_t n, sg_status *status) {
    choose(o, points, n, status);
    if (o->n == 0) return SG_OK;
    (void)snprintf(o->origin, sizeof o->origin, "%zu training log(s) of this machine", o->n);
    sg_code code = fit_times(o, status);
    if (!code) code = fit_loader(o, status);
    return code ? code : fit_memory(o, status);
}

sg_code sg_fit_observed(const sg_point *points, size_t n, sg_fit *fit, sg_status *status) {
    if (n == 0) return SG_OK;
    observed o = {.fit = fit};
    o.point = calloc(n, sizeof(const sg_point *));
    o.request = calloc(n, sizeof *o.request);
    o.predictor = calloc(n, sizeof(sg_predictor *));
    o.seen = calloc(n, sizeof *o.seen);
    sg_code code = o.point && o.request && o.predictor && o.seen
                       ? fit_all(&o, points, n, status)
                       : sg_fail_memory(status, n * sizeof *o.request, "observed steps");
    for (size_t i = 0; i < n && o.predictor; i++) sg_predictor_close(o.predictor[i]);
    free(o.seen);
    free(o.predictor);
    free(o.request);
    free(o.point);
    return code;
}
