/* forecast.c: the rest of a training: steps, stalls, boundaries of epochs, checkpoints and what else stops it. */
#include "calibration/forecast/forecast.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LeRobot's TrainPipelineConfig.save_freq and eval_freq (env_eval_freq). */
static const double DEFAULT_SAVE_EVERY = 20000, DEFAULT_EVALUATE_EVERY = 20000;
/* Weights and two moments of AdamW, four bytes each. */
static const double WEIGHT_BYTES = 4, MOMENT_BYTES = 8;
/* As plan has it: 23 MB/s (617 MB to the Hub held a run for 27 s) to the speed of a local disk. */
static const double SAVE_BYTES_PER_S = 60e6, SAVE_LOG_SD = 0.7;
/* Checkpoints of one run: 28-33 s in the published logs that hold several. */
static const double REPEATED_LOG_SD = 0.1, ONE_SEEN_LOG_SD = 0.3;
/* Where the counts of an event or a stall are all that is known of its rate, Poisson's error; never below this. */
static const double RATE_LEAST_LOG_SD = 0.3;

/* Where a run shows neither checkpoint nor evaluation: of three published trainings of 5,000 steps 3 to 7 % of the wall-clock is
 * neither update nor data (LeRobot's hardware guide, 2026). */
static const double UNSEEN_SHARE = 0.07;
/* An evaluation in the training's own environment: 120 s in a published run of 2024 that is too short to be forecast itself; from
 * 50 episodes in parallel to as many one after the other, and from one simulator to another, a factor of three. */
static const double EVALUATION_S = 120, EVALUATION_LOG_SD = 0.7;
/* A policy that the log does not name: geometric mean of the states that ACT (0.6 GB), SmolVLA (2.6), diffusion (3.2) and pi05 (22.9)
 * leave, and the log sd among them. */
static const double ANY_POLICY_BYTES = 3.3e9, ANY_POLICY_LOG_SD = 1.5;
/* Of the bytes a GPU holds at most, weights and moments: gradients are four of sixteen a parameter. */
static const double STATE_SHARE = 0.75;

static void note(sg_forecast *f, const char *format, ...) SG_PRINTF(2, 3);
static void note(sg_forecast *f, const char *format, ...) {
    if (f->n_notes == sizeof f->notes / sizeof *f->notes) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(f->notes[f->n_notes++], sizeof f->notes[0], format, args);
    va_end(args);
}

/* Events of one kind within the evidence: how many tell their time, its mean, and the rhythm of their steps. */
typedef struct rhythm {
    double seen, timed, mean_s, every; /* every 0: not told */
} rhythm;

/* What an event took: alone between two exact windows, what the clock shows beyond the pace of the run. */
static double taken_s(const sg_log *log, const sg_pace *p, const sg_log_event *e) {
    size_t i = (size_t)e->windows;
    double seconds;
    if (!p->by_clock || i == 0 || sg_log_events_before(log, i, &seconds) != 1) return e->seconds;
    const sg_log_window *w = &log->windows[i], *before = &log->windows[i - 1];
    double steps = sg_log_window_position(w) - sg_log_window_position(before);
    double over = w->time_s - before->time_s - steps * p->steady_s;
    bool exact = w->step_low == w->step_high && before->step_low == before->step_high;
    return exact && isfinite(over) ? fmax(0, over) : e->seconds;
}

static rhythm rhythm_of(const sg_log *log, const sg_pace *p, sg_log_event_kind kind) {
    rhythm r = {0};
    double last = NAN, sum = 0;
    for (size_t i = 0; i < log->n_events; i++) {
        const sg_log_event *e = &log->events[i];
        if (e->kind != kind || e->windows >= p->windows) continue;
        r.seen++;
        double seconds = taken_s(log, p, e);
        if (isfinite(seconds)) sum += seconds, r.timed++;
        if (!(e->step > 0)) continue;
        double apart = isnan(last) ? e->step : e->step - last;
        if (apart > 0) r.every = r.every > 0 ? fmin(r.every, apart) : apart;
        last = e->step;
    }
    r.mean_s = r.timed > 0 ? sum / r.timed : NAN;
    return r;
}

/* Multiples of `every` that are still to come; the one at the last step comes behind its line. */
static double to_come(const sg_forecast *f, double every, bool to_line) {
    if (!(every > 0)) return 0;
    double end = to_line ? ceil(f->to_step / every) - 1 : floor(f->to_step / every);
    return fmax(0, end - ceil(f->at_step / every) + 1);
}

static sg_figure figure(const sg_forecast_options *o, double seconds, double log_sd, sg_evidence evidence) {
    return sg_figure_make(seconds, (sg_log_sd){.model = log_sd}, evidence, o->interval);
}

static double checkpoint_bytes(const sg_log *log, const sg_forecast_options *o) {
    const sg_log_config *c = &log->config;
    if (o->checkpoint_bytes > 0) return o->checkpoint_bytes;
    double all = (double)(c->parameters_total > 0 ? c->parameters_total : c->parameters_trainable);
    return WEIGHT_BYTES * all + MOMENT_BYTES * (double)c->parameters_trainable;
}

/* The most that the state of a run can be, by what its GPU held; INFINITY: not told. */
static double most_bytes(const sg_log *log, const sg_pace *p) {
    double peak = 0;
    for (size_t i = 0; i < p->windows; i++)
        if (log->windows[i].value[SG_LOG_PEAK_BYTES] > peak) peak = log->windows[i].value[SG_LOG_PEAK_BYTES];
    return peak > 0 ? STATE_SHARE * peak : INFINITY;
}

/* One checkpoint that nothing has timed yet: by the parameters, else by what LeRobot's policies leave. */
static sg_figure checkpoint_prior(const sg_log *log, const sg_forecast_options *o, const sg_pace *p) {
    double bytes = checkpoint_bytes(log, o), log_sd = SAVE_LOG_SD;
    bool known = bytes > 0;
    if (!known) bytes = fmin(ANY_POLICY_BYTES, most_bytes(log, p)), log_sd = hypot(SAVE_LOG_SD, ANY_POLICY_LOG_SD);
    sg_figure f = figure(o, bytes / SAVE_BYTES_PER_S, log_sd, SG_EVIDENCE_DATA_SHEET);
    double most_s = figure(o, most_bytes(log, p) / SAVE_BYTES_PER_S, SAVE_LOG_SD, SG_EVIDENCE_DATA_SHEET).high;
    if (!known && most_s < f.high) f.high = most_s;
    return f;
}

static bool is_lerobot(const sg_log *log) {
    return strncmp(log->format, "lerobot", 7) == 0;
}

static void schedule(const sg_log *log, const sg_forecast_options *o, const rhythm *r, sg_forecast *f) {
    if (o->save_every < 0)
        f->save_every = 0;
    else if (o->save_every > 0)
        f->save_every = (double)o->save_every;
    else if (log->config.save_every > 0)
        f->save_every = (double)log->config.save_every;
    else if (r->every > 0)
        f->save_every = r->every;
    else if (is_lerobot(log)) {
        f->save_every = DEFAULT_SAVE_EVERY;
        note(f, "Nothing tells how often it saves: taken as LeRobot's default, every %.0f steps", f->save_every);
    }
    f->checkpoints = to_come(f, f->save_every, o->to_line);
    bool saves = f->save_every > 0 || o->save_every < 0;
    if (saves && !o->to_line && !(f->save_every > 0 && fmod(f->to_step, f->save_every) == 0))
        f->checkpoints++; /* the trainer keeps its last state whatever the rhythm */
}

static void checkpoints(const sg_log *log, const sg_forecast_options *o, sg_forecast *f) {
    rhythm r = rhythm_of(log, &f->pace, SG_LOG_CHECKPOINT), push = rhythm_of(log, &f->pace, SG_LOG_HUB_PUSH);
    schedule(log, o, &r, f);
    double log_sd = r.timed > 1 ? REPEATED_LOG_SD : ONE_SEEN_LOG_SD, bytes = checkpoint_bytes(log, o);
    f->checkpoint_seen = r.timed > 0;
    f->checkpoint_s = r.mean_s;
    /* A push that follows each checkpoint is timed with it, as one gap of the clock. */
    if (!f->checkpoint_seen && r.seen > 0 && push.timed > 0) f->checkpoint_s = push.mean_s, f->checkpoint_seen = true;
    if (!f->checkpoint_seen && f->checkpoints > 0) {
        const sg_figure one = checkpoint_prior(log, o, &f->pace);
        f->checkpoint_s = one.value;
        log_sd = one.parts.model;
        note(f, "No checkpoint was timed yet: %.1f GB%s at %.0f MB/s each", one.value * SAVE_BYTES_PER_S * 1e-9,
             bytes > 0 ? "" : " (its parameters are not told: LeRobot's policies leave 0.6 to 23 GB)",
             SAVE_BYTES_PER_S * 1e-6);
    }
    double seconds = f->checkpoints > 0 ? f->checkpoints * f->checkpoint_s : 0;
    f->checkpoints_s = figure(o, seconds, log_sd, f->checkpoint_seen ? SG_EVIDENCE_OBSERVED : SG_EVIDENCE_DATA_SHEET);
}

static void others(const sg_log *log, const sg_forecast_options *o, sg_forecast *f) {
    double seconds = 0, seen = 0;
    rhythm evaluation = rhythm_of(log, &f->pace, SG_LOG_EVALUATION);
    rhythm push = rhythm_of(log, &f->pace, SG_LOG_HUB_PUSH);
    double every = log->config.evaluate_every > 0 ? (double)log->config.evaluate_every : evaluation.every;
    if (evaluation.timed > 0) {
        seconds += evaluation.mean_s * to_come(f, every, o->to_line);
        seen += evaluation.timed;
    } else if (log->config.environment) {
        double expected = to_come(f, every > 0 ? every : DEFAULT_EVALUATE_EVERY, o->to_line);
        seconds += EVALUATION_S * expected;
        if (expected > 0)
            note(f,
                 "It evaluates in an environment and none was timed yet: %.0f evaluation(s) of %.0f s each, %s %.0f "
                 "steps",
                 expected, EVALUATION_S, every > 0 ? "every" : "by LeRobot's default every",
                 every > 0 ? every : DEFAULT_EVALUATE_EVERY);
    }
    rhythm saved = rhythm_of(log, &f->pace, SG_LOG_CHECKPOINT);
    if (push.timed > 0 && saved.timed > 0) {
        seconds += push.mean_s * push.seen / fmax(1, saved.seen) * f->checkpoints;
        seen += push.timed;
    }
    double log_sd = seen > 0 ? fmax(RATE_LEAST_LOG_SD, 1 / sqrt(seen)) : EVALUATION_LOG_SD;
    f->others_s = figure(o, seconds, log_sd, seen > 0 ? SG_EVIDENCE_OBSERVED : SG_EVIDENCE_DATA_SHEET);
}

static void epochs(const sg_forecast_options *o, sg_forecast *f) {
    const sg_pace *p = &f->pace;
    f->epochs = 0;
    if (isfinite(p->epoch_s) && p->samples_per_step > 0 && p->frames > 0)
        f->epochs =
            floor(f->to_step * p->samples_per_step / p->frames) - floor(f->at_step * p->samples_per_step / p->frames);
    double seconds = f->epochs > 0 ? f->epochs * p->epoch_s : 0;
    f->epochs_s = figure(o, seconds, ONE_SEEN_LOG_SD, SG_EVIDENCE_OBSERVED);
}

/* Upper bounds of what may come that nothing has shown yet and nothing tells of; its value is nothing. */
typedef struct unseen {
    sg_figure pauses, checkpoint, evaluation;
} unseen;

/* A rhythm that is not told may be shorter than the default. One pause more of each kind, and the share of a training's time
 * that pauses take; whether they come, no line says. */
static unseen unseen_of(const sg_log *log, const sg_forecast_options *o, sg_forecast *f) {
    const sg_figure none = {.evidence = SG_EVIDENCE_OBSERVED};
    unseen u = {none, none, none};
    bool saves = o->save_every != 0 || log->config.save_every > 0, evaluates = log->config.evaluate_every > 0;
    bool any = saves;
    for (size_t i = 0; i < log->n_events; i++) {
        if (log->events[i].windows >= f->pace.windows || log->events[i].kind > SG_LOG_HUB_PUSH) continue;
        any = true;
        saves = saves || log->events[i].kind == SG_LOG_CHECKPOINT;
        evaluates = evaluates || log->events[i].kind == SG_LOG_EVALUATION;
    }
    if (!is_lerobot(log)) return u;
    if (!any) u.pauses.high = UNSEEN_SHARE * f->steps_s.value;
    if (!saves) u.checkpoint.high = checkpoint_prior(log, o, &f->pace).high;
    if (!evaluates && log->config.environment)
        u.evaluation.high = figure(o, EVALUATION_S, EVALUATION_LOG_SD, SG_EVIDENCE_DATA_SHEET).high;
    if (u.checkpoint.high > 0 || u.evaluation.high > 0)
        note(f,
             "How often it %s is not told: the upper bound allows for one more than the default (%.0f s)%s; "
             "--save-every N tells",
             u.evaluation.high > 0 ? "saves and evaluates" : "saves", u.checkpoint.high + u.evaluation.high,
             u.pauses.high > 0 ? ", and for pauses of 7 % of the steps' time" : "");
    return u;
}

static sg_code horizon(const sg_log *log, const sg_forecast_options *o, sg_forecast *f, sg_status *status) {
    f->at_step = f->pace.to;
    f->to_step = o->to_step > 0 ? o->to_step : (double)log->config.steps;
    if (!(f->to_step > 0))
        return sg_fail(status, SG_NO, "the log does not tell how many steps the training has: give --steps");
    if (!(f->to_step > f->at_step))
        return sg_fail(status, SG_NO, "nothing is left: step %.0f of %.0f is done", f->at_step, f->to_step);
    return SG_OK;
}

static void doubts(const sg_log *log, sg_forecast *f) {
    const sg_pace *p = &f->pace;
    if (p->intervals < 2) note(f, "One interval between two lines is all there is: the pace is a guess by it");
    if (isfinite(p->drift) && fabs(p->drift) > 0.03)
        note(f, "The pace changed by %+.0f %% from the first half of these lines to the second", 100 * expm1(p->drift));
    if (log->config.ranks > 1 && !p->by_clock)
        note(f, "Times are of one of %lld processes: the slowest decides", (long long)log->config.ranks);
}

sg_code sg_forecast_make(const sg_log *log, const sg_forecast_options *options, sg_forecast *forecast,
                         sg_status *status) {
    sg_forecast_options o = *options;
    if (!(o.interval > 0 && o.interval < 1)) o.interval = 0.9;
    memset(forecast, 0, sizeof *forecast);
    sg_code code = sg_pace_of(log, o.windows ? o.windows : log->n_windows, &forecast->pace, status);
    if (!code) code = horizon(log, &o, forecast, status);
    if (code) return code;
    const sg_pace *p = &forecast->pace;
    double steps = forecast->to_step - forecast->at_step;
    forecast->steps_s = figure(&o, steps * p->steady_s, p->log_sd, SG_EVIDENCE_OBSERVED);
    forecast->stalls_s =
        figure(&o, steps * p->stall_s, fmax(RATE_LEAST_LOG_SD, 1 / sqrt(fmax(1, p->stalled))), SG_EVIDENCE_OBSERVED);
    epochs(&o, forecast);
    checkpoints(log, &o, forecast);
    others(log, &o, forecast);
    const unseen u = unseen_of(log, &o, forecast);
    const sg_figure terms[] = {forecast->steps_s,  forecast->stalls_s, forecast->epochs_s, forecast->checkpoints_s,
                               forecast->others_s, u.pauses,           u.checkpoint,       u.evaluation};
    forecast->rest_s = sg_figure_sum(terms, sizeof terms / sizeof *terms);
    forecast->loader_s = steps * p->dataloading_s;
    if (strcmp(log->format, "lerobot-2024") == 0) forecast->loader_s = NAN; /* single steps tell no mean */
    doubts(log, forecast);
    return SG_OK;
}
