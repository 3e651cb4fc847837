#include "calibration/explain/explain.h"

#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/explain/rules.h"
#include "calibration/log/build.h"

static const struct {
    const char *name, *cause;
    sg_explain_rule speaks;
} rules[] = {{"loader-wait", "loader", sg_rule_loader_wait},
             {"loader-bursts", "loader", sg_rule_loader_bursts},
             {"loader-epochs", "loader", sg_rule_loader_epochs},
             {"loader-drift", "loader", sg_rule_loader_drift},
             {"collection", "environment", sg_rule_collection},
             {"learning", "compute", sg_rule_learning},
             {"slow-simulator", "environment", sg_rule_slow_simulator},
             {"few-environments", "environment", sg_rule_few_environments},
             {"rollout-length", "environment", sg_rule_rollout_length},
             {"limit", "compute", sg_rule_limit},
             {"slower-than-machine", "environment", sg_rule_slower},
             {"precision-ignored", "compute", sg_rule_precision_ignored},
             {"communication", "communication", sg_rule_communication},
             {"update", "update", sg_rule_update},
             {"batch-flat", "compute", sg_rule_batch_flat},
             {"step-flat", "launch", sg_rule_step_flat},
             {"gpus-flat", "communication", sg_rule_gpus_flat},
             {"update-drift", "compute", sg_rule_update_drift},
             {"checkpoints", "pauses", sg_rule_checkpoints},
             {"hub-pushes", "pauses", sg_rule_hub_pushes},
             {"evaluation", "pauses", sg_rule_evaluation},
             {"unaccounted", "pauses", sg_rule_unaccounted},
             {"crash", "crash", sg_rule_crash},
             {"out-of-memory", "memory", sg_rule_out_of_memory},
             {"memory-room", "memory", sg_rule_memory_room},
             {"memory-reading", "memory", sg_rule_memory_reading},
             {"first-window", "warm-up", sg_rule_first_window},
             {"compilation", "warm-up", sg_rule_compilation},
             {"time-left", "length", sg_rule_time_left},
             {"passes", "length", sg_rule_passes},
             {"default-iterations", "length", sg_rule_default_iterations},
             {"ranks-same-steps", "length", sg_rule_ranks_same_steps},
             {"checkpoint-storage", "length", sg_rule_checkpoint_storage},
             {"single-steps", "log", sg_rule_single_steps},
             {"rounded-counters", "log", sg_rule_rounded_counters},
             {"rank-counters", "log", sg_rule_rank_counters}};
enum { RULES = sizeof rules / sizeof *rules };

const char *sg_explain_rule_name(size_t i) {
    return i < RULES ? rules[i].name : NULL;
}

/* ---- what rules say ------------------------------------------------------------------------------------------------ */

/* Lines of logs are quoted, and a quotation may end within a character: what JSON cannot hold becomes "?". */
static void say(char *to, size_t room, const char *format, va_list args) {
    char raw[512];
    (void)vsnprintf(raw, sizeof raw, format, args);
    sg_log_copy_text(to, room, raw, strlen(raw));
}

void sg_say_text(sg_diagnosis *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(d->text, sizeof d->text, format, args);
    va_end(args);
}

void sg_say_evidence(sg_diagnosis *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(d->evidence, sizeof d->evidence, format, args);
    va_end(args);
}

void sg_say_remedy(sg_diagnosis *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(d->remedy, sizeof d->remedy, format, args);
    va_end(args);
}

double sg_gain_without(double share) {
    return share > 0 && share < 1 ? 1 / (1 - share) : NAN;
}

size_t sg_explain_values(const sg_log *log, sg_log_field field, size_t first, double *values) {
    size_t n = 0;
    for (size_t i = first; i < log->n_windows; i++) {
        double value = field == SG_LOG_STEP_S ? sg_log_window_step_s(&log->windows[i]) : log->windows[i].value[field];
        if (!log->windows[i].summary && isfinite(value)) values[n++] = value;
    }
    return n;
}

double sg_explain_median(double *values, size_t n) {
    if (!n) return NAN;
    gsl_sort(values, 1, n);
    return gsl_stats_median_from_sorted_data(values, 1, n);
}

sg_explain_time sg_explain_time_of(double seconds) {
    sg_explain_time t;
    double minutes = floor(seconds / 60 + 0.5);
    if (seconds == 0 || isnan(seconds)) return (sg_explain_time){"none"};
    if (seconds < 1)
        (void)snprintf(t.s, sizeof t.s, "%.3g ms", 1e3 * seconds);
    else if (seconds < 100)
        (void)snprintf(t.s, sizeof t.s, "%.3g s", seconds);
    else if (minutes < 60)
        (void)snprintf(t.s, sizeof t.s, "%.0f min", minutes);
    else if (minutes < 72 * 60)
        (void)snprintf(t.s, sizeof t.s, "%.0f h %02.0f min", floor(minutes / 60), fmod(minutes, 60));
    else
        (void)snprintf(t.s, sizeof t.s, "%.3g days", seconds / 86400);
    return t;
}

/* ---- a run, once --------------------------------------------------------------------------------------------------- */

static bool is_exact(const sg_log_window *w) {
    return !w->summary && isfinite(w->step) && w->step_low == w->step_high;
}

/* The only distance between neighbouring exact counters; NAN: none, or several. */
static double interval_of(const sg_log *log) {
    if (log->config.log_every > 0) return (double)log->config.log_every;
    double found = NAN;
    for (size_t i = 1; i < log->n_windows && log->every <= 1; i++) {
        const sg_log_window *a = &log->windows[i - 1], *b = &log->windows[i];
        if (!is_exact(a) || !is_exact(b) || !(b->step > a->step)) continue;
        if (isnan(found) || b->step - a->step < found) found = b->step - a->step;
    }
    return found;
}

/* First and last window whose counters are exact and which have a time. */
static void wall_of(sg_explain_run *run) {
    const sg_log_window *first = NULL, *last = NULL;
    for (size_t i = 0; i < run->log->n_windows; i++) {
        const sg_log_window *w = &run->log->windows[i];
        if (!is_exact(w) || !isfinite(w->time_s)) continue;
        if (!first) first = w;
        last = w;
    }
    run->wall_s = run->wall_steps = NAN;
    if (!first || first == last || !(last->time_s > first->time_s) || !(last->step > first->step)) return;
    run->wall_s = last->time_s - first->time_s;
    run->wall_steps = last->step - first->step;
}

static void events_of(sg_explain_run *run) {
    for (size_t i = 0; i < run->log->n_events; i++) {
        const sg_log_event *e = &run->log->events[i];
        bool timed = isfinite(e->seconds);
        double seconds = timed ? e->seconds : 0;
        bool pause = true;
        switch (e->kind) {
        case SG_LOG_CHECKPOINT:
            run->checkpoints++;
            run->timed_checkpoints += timed;
            run->checkpoint_s += seconds;
            break;
        case SG_LOG_EVALUATION:
            run->evaluations++;
            run->evaluate_s += seconds;
            break;
        case SG_LOG_HUB_PUSH:
            run->pushes++;
            run->timed_pushes += timed;
            run->push_s += seconds;
            break;
        default: pause = false;
        }
        if (pause) run->paused_s += seconds;
    }
}

/* Least time per step between two neighbouring exact lines, so that what happened between others does not count. */
static double clock_step_s(const sg_log *log) {
    double least = NAN;
    for (size_t i = 1; i < log->n_windows && log->every <= 1; i++) {
        const sg_log_window *a = &log->windows[i - 1], *b = &log->windows[i];
        double steps = b->step - a->step, seconds = b->time_s - a->time_s;
        if (!is_exact(a) || !is_exact(b) || !(steps > 0) || !(seconds > 0)) continue;
        if (isnan(least) || seconds / steps < least) least = seconds / steps;
    }
    return least;
}

/* Steps between two checkpoints: as told, else the least distance between those seen, else the step of the only one. */
static double save_interval_of(const sg_log *log) {
    if (log->config.save_every > 0) return (double)log->config.save_every;
    double least = NAN, before = NAN;
    for (size_t i = 0; i < log->n_events; i++) {
        const sg_log_event *e = &log->events[i];
        if (e->kind != SG_LOG_CHECKPOINT || !(e->step > 0)) continue;
        double distance = isnan(before) ? e->step : e->step - before;
        if (distance > 0 && !(distance >= least)) least = distance;
        before = e->step;
    }
    return least;
}

static sg_explain_run run_of(const sg_explain_facts *facts) {
    const sg_log *log = facts->log;
    double value[SG_LOG_FIELDS];
    bool one = sg_log_typical(log, value);
    sg_explain_run run = {.facts = facts, .log = log, .config = &log->config, .note = ""};
    if (one) run.note = " (of the log's only window, warm-up in it)";
    run.step_s = value[SG_LOG_STEP_S];
    run.update_s = value[SG_LOG_UPDATE_S];
    run.data_s = value[SG_LOG_DATALOADING_S];
    run.prep_s = value[SG_LOG_PREPROCESSING_S];
    run.collection_s = value[SG_LOG_COLLECTION_S];
    run.learning_s = value[SG_LOG_LEARNING_S];
    run.lerobot = strncmp(log->format, "lerobot", 7) == 0 || strncmp(log->format, "wandb", 5) == 0;
    run.ppo = strncmp(log->format, "rsl_rl", 6) == 0 || strcmp(log->format, "rl_games") == 0;
    run.means = run.lerobot && strcmp(log->format, "lerobot-2024") != 0;
    run.peak_bytes = NAN;
    for (size_t i = 0; i < log->n_windows; i++)
        if (log->windows[i].value[SG_LOG_PEAK_BYTES] > 0)
            run.peak_bytes = fmax(run.peak_bytes, log->windows[i].value[SG_LOG_PEAK_BYTES]);
    run.env_steps = log->config.env_steps_per_iteration > 0 ? (double)log->config.env_steps_per_iteration : NAN;
    if (isnan(run.env_steps) && facts->envs > 0 && facts->steps_per_env > 0)
        run.env_steps = (double)facts->envs * (double)facts->steps_per_env *
                        (double)(log->config.ranks > 0 ? log->config.ranks : 1);
    run.interval = interval_of(log);
    run.save_interval = save_interval_of(log);
    run.line_step_s = run.step_s;
    double clock_s = run.lerobot && !run.means && run.interval > 1 ? clock_step_s(log) : NAN;
    if (clock_s > 0 && run.step_s > 0) {
        run.step_s = clock_s;
        run.update_s = fmin(run.update_s, clock_s);
        run.data_s = clock_s - run.update_s;
    }
    wall_of(&run);
    events_of(&run);
    return run;
}

/* ---- the whole ----------------------------------------------------------------------------------------------------- */

static double weight(const sg_diagnosis *d) {
    return isfinite(d->share) ? d->share : -1;
}

/* By share; the table's order else. */
static void sort(sg_explanation *e) {
    for (size_t i = 1; i < e->n; i++) {
        sg_diagnosis d = e->diagnosis[i];
        size_t at = i;
        for (; at > 0 && weight(&e->diagnosis[at - 1]) < weight(&d); at--) e->diagnosis[at] = e->diagnosis[at - 1];
        e->diagnosis[at] = d;
    }
}

static void SG_PRINTF(2, 3) ask(sg_explanation *e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(e->asks[e->n_asks++], sizeof e->asks[0], format, args);
    va_end(args);
}

static void ask_for_more(const sg_explain_run *run, sg_explanation *e) {
    const sg_explain_facts *f = run->facts;
    if (!f->predicted && isfinite(run->step_s))
        ask(e, "Whether launches, arithmetic, memory bandwidth or the exchange between GPUs limit the update, and what "
               "another precision would bring, only the machine tells: --machine NAME and the policy's options");
    if (run->ppo && isfinite(run->collection_s) && !f->envs)
        ask(e, "Whether the simulator is slow against its kind: --envs N --steps-per-env T");
    if (run->lerobot && run->log->n_windows && !run->config->frames)
        ask(e, "How often each frame is seen: the lines dataset.num_frames and cfg.steps, from the top of the log");
}

sg_code sg_explain(const sg_explain_facts *facts, sg_explanation *e, sg_status *status) {
    memset(e, 0, sizeof *e);
    e->asks = calloc(4, sizeof *e->asks);
    if (!e->asks) return sg_fail_memory(status, 4 * sizeof *e->asks, "an explanation");
    sg_explain_run run = run_of(facts);
    _Static_assert((int)RULES <= (int)SG_DIAGNOSES_MOST, "every rule may speak");
    for (size_t i = 0; i < RULES; i++) {
        sg_diagnosis *d = &e->diagnosis[e->n];
        *d = (sg_diagnosis){.rule = rules[i].name, .cause = rules[i].cause, .share = NAN, .gain = NAN};
        if (!rules[i].speaks(&run, d)) continue;
        if (!(d->gain >= 1.01)) d->gain = NAN; /* too little to speak of */
        e->n++;
    }
    sort(e);
    ask_for_more(&run, e);
    return SG_OK;
}

void sg_explanation_clear(sg_explanation *e) {
    free(e->asks);
    memset(e, 0, sizeof *e);
}
