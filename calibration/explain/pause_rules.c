/* pause_rules.c: what stands between the steps: saving, pushing, evaluating, dying. */
#include <math.h>
#include <string.h>

#include "calibration/explain/rules.h"

/* Time over which the pauses were seen: the clock's, else what the steps took. */
static double span_of(const sg_explain_run *r) {
    if (isfinite(r->wall_s)) return r->wall_s;
    double first = NAN, last = NAN;
    for (size_t i = 0; i < r->log->n_windows; i++) {
        const sg_log_window *w = &r->log->windows[i];
        if (w->summary || isnan(w->step)) continue;
        if (isnan(first)) first = w->step - (r->interval > 0 ? r->interval : 0);
        last = w->step;
    }
    double steps_s = (last - first) * r->step_s;
    return steps_s > 0 ? steps_s + r->paused_s : NAN;
}

/* Pauses below this share are not worth a word. */
static const double PAUSE_SHARE = 0.01;

/* Between saving and the end of the next window 27-70 s pass in published runs; the docs' table on 4 H100 leaves 3-7 % of the
 * wall-clock to saving, starting and logging. */
bool sg_rule_checkpoints(const sg_explain_run *r, sg_diagnosis *d) {
    if (!r->timed_checkpoints || !(r->step_s > 0)) return false;
    double each = r->checkpoint_s / (double)r->timed_checkpoints, every = r->save_interval;
    if (!(every > 0)) return false;
    d->share = each / (each + every * r->step_s);
    if (!(d->share >= PAUSE_SHARE)) return d->share = NAN, false;
    d->gain = sg_gain_without(d->share);
    sg_say_text(d, "Saving checkpoints holds the training for %.1f %% of its time", 100 * d->share);
    sg_say_evidence(d, "%zu checkpoint(s) took %s each; one is written at least every %.0f steps of %s",
                    r->timed_checkpoints, sg_explain_time_of(each).s, every, sg_explain_time_of(r->step_s).s);
    sg_say_remedy(d, "Save less often (--save_freq): half as many would win %.1f %%; write to a local disk first",
                  50 * d->share);
    return true;
}

/* A push of 617 MB held a run for 27 s at each save (public notebook log of 2026-08). */
bool sg_rule_hub_pushes(const sg_explain_run *r, sg_diagnosis *d) {
    if (!r->timed_pushes || !(r->push_s > 0)) return false;
    double each = r->push_s / (double)r->timed_pushes, every = r->save_interval;
    if (every > 0 && r->step_s > 0) d->share = each / (each + every * r->step_s);
    d->gain = isfinite(d->share) ? sg_gain_without(d->share) : NAN;
    sg_say_text(d, "Pushes to the hub hold the training");
    sg_say_evidence(d, "%zu push(es) of %zu timed by the log: %s each%s", r->timed_pushes, r->pushes,
                    sg_explain_time_of(each).s, r->checkpoints ? ", beside the saving itself" : "");
    sg_say_remedy(d, "Push once at the end (--policy.push_to_hub), or from another process: %s per save come back",
                  sg_explain_time_of(each).s);
    return true;
}

bool sg_rule_evaluation(const sg_explain_run *r, sg_diagnosis *d) {
    if (!r->evaluations || !(r->evaluate_s > 0)) return false;
    double span = span_of(r);
    if (span < r->evaluate_s) span += r->evaluate_s; /* it stands behind the last line */
    d->share = r->evaluate_s / span;
    if (!(d->share >= PAUSE_SHARE)) d->share = NAN;
    if (isfinite(d->share)) d->gain = sg_gain_without(d->share);
    sg_say_text(d, "Evaluations in the simulator stand between the steps");
    if (isnan(d->share))
        sg_say_evidence(d, "%zu evaluation(s), %s in all", r->evaluations, sg_explain_time_of(r->evaluate_s).s);
    else
        sg_say_evidence(d, "%zu evaluation(s), %s in all, %.0f %% of the %s of log", r->evaluations,
                        sg_explain_time_of(r->evaluate_s).s, 100 * d->share, sg_explain_time_of(span).s);
    sg_say_remedy(d, "Evaluate less often (--eval_freq), fewer or more parallel episodes, or checkpoints elsewhere");
    return true;
}

/* Wall-clock is 1.0 to 2.6 times the updates' in published runs, 1.05 on machines of one's own. */
bool sg_rule_unaccounted(const sg_explain_run *r, sg_diagnosis *d) {
    if (!r->means || !(r->wall_s > 0) || !(r->step_s > 0) || r->log->every > 1) return false;
    double steps_s = 0; /* of windows between the two ends, by their own means */
    const sg_log_window *before = NULL;
    for (size_t i = 0; i < r->log->n_windows; i++) {
        const sg_log_window *w = &r->log->windows[i];
        if (w->step_low != w->step_high || isnan(w->step) || isnan(w->time_s)) continue;
        double own = sg_log_window_step_s(w);
        if (before) steps_s += (w->step - before->step) * (isnan(own) ? r->step_s : own);
        before = w;
    }
    double left = r->wall_s - steps_s - r->paused_s;
    d->share = left / r->wall_s;
    if (!(d->share >= 0.03) || left < 5) return d->share = NAN, false;
    sg_say_text(d,
                "%.0f %% of the wall-clock is in no phase of the lines: logging, video or metric uploads, saving that "
                "leaves no line",
                100 * d->share);
    sg_say_evidence(d, "%.0f steps took %s by the clock; the lines account for %s, pauses of the log: %s",
                    r->wall_steps, sg_explain_time_of(r->wall_s).s, sg_explain_time_of(steps_s).s,
                    sg_explain_time_of(r->paused_s).s);
    sg_say_remedy(d, "Plan with the clock, not with updt_s alone; log and upload less often");
    d->gain = sg_gain_without(d->share);
    return true;
}

static const sg_log_event *last_of(const sg_log *log, sg_log_event_kind kind) {
    for (size_t i = log->n_events; i > 0; i--)
        if (log->events[i - 1].kind == kind) return &log->events[i - 1];
    return NULL;
}

/* ACT on MPS died near step 8000 of a worker's time-out (lerobot#421); jobs killed at a provider's limit; host memory that
 * grows until the kernel kills (lerobot#2371). */
bool sg_rule_crash(const sg_explain_run *r, sg_diagnosis *d) {
    const sg_log_event *crash = last_of(r->log, SG_LOG_CRASH);
    if (!crash) return false;
    const sg_log_event *saved = last_of(r->log, SG_LOG_CHECKPOINT);
    const sg_log_window *last = r->log->n_windows ? &r->log->windows[r->log->n_windows - 1] : NULL;
    double at = last && isfinite(last->step) ? last->step : last ? last->iteration : NAN;
    double lost =
        isfinite(at) && r->step_s > 0 ? (at - (saved && isfinite(saved->step) ? saved->step : 0)) * r->step_s : NAN;
    sg_say_text(d, "The run died: %.150s", crash->text);
    if (isfinite(lost) && saved && isfinite(saved->step))
        sg_say_evidence(d, "At about step %.0f, the last checkpoint is of step %.0f: %s of work are lost", at,
                        saved->step, sg_explain_time_of(fmax(0, lost)).s);
    else if (isfinite(lost))
        sg_say_evidence(d, "At about step %.0f, with no checkpoint in this log: up to %s of work are lost", at,
                        sg_explain_time_of(fmax(0, lost)).s);
    else
        sg_say_evidence(d, "After %llu lines of times; %zu checkpoint(s) before it",
                        (unsigned long long)r->log->windows_seen, r->checkpoints);
    sg_say_remedy(d, "Resume from the last checkpoint (--resume=true) and save more often than what may be lost; a "
                     "worker that times out: fewer workers, more shared memory");
    return true;
}
