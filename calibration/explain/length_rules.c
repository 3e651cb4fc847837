/* length_rules.c: how long it will take, and whether it must. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/explain/rules.h"
#include "calibration/forecast/forecast.h"

static const char *unit(const sg_explain_run *r) {
    return r->ppo ? "iterations" : "steps";
}

static double last_place(const sg_explain_run *r) {
    for (size_t i = r->log->n_windows; i > 0; i--) {
        const sg_log_window *w = &r->log->windows[i - 1];
        if (w->summary) continue;
        double place = r->ppo ? w->iteration : w->step;
        if (isfinite(place)) return place;
    }
    return NAN;
}

static bool ended(const sg_log *log) {
    for (size_t i = 0; i < log->n_events; i++)
        if (log->events[i].kind == SG_LOG_END || log->events[i].kind == SG_LOG_CRASH ||
            log->events[i].kind == SG_LOG_OUT_OF_MEMORY)
            return true;
    return isfinite(log->train_s);
}

/* As 'plan --log' tells it. */
static bool by_forecast(const sg_explain_run *r, sg_diagnosis *d) {
    sg_forecast f;
    sg_forecast_options options = {.save_every = r->config->save_every > 0 ? r->config->save_every : 0};
    sg_status ignored;
    if (sg_forecast_make(r->log, &options, &f, &ignored) != SG_OK) return false;
    sg_say_text(d, "%s are left (90 %%: %s to %s)", sg_explain_time_of(f.rest_s.value).s,
                sg_explain_time_of(f.rest_s.low).s, sg_explain_time_of(f.rest_s.high).s);
    const struct {
        const char *name;
        double seconds;
    } parts[] = {{"stalls", f.stalls_s.value},
                 {"checkpoints", f.checkpoints_s.value},
                 {"ends of epochs", f.epochs_s.value},
                 {"evaluations and uploads", f.others_s.value}};
    char others[240] = "";
    for (size_t i = 0, used = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].seconds >= 0.5)
            used += (size_t)snprintf(others + used, sizeof others - used, ", %s %s", parts[i].name,
                                     sg_explain_time_of(parts[i].seconds).s);
    sg_say_evidence(d, "%.0f of %.0f %s done, %s each; of the rest the steps take %s%s", f.at_step, f.to_step, unit(r),
                    sg_explain_time_of(f.pace.steady_s).s, sg_explain_time_of(f.steps_s.value).s, others);
    return true;
}

/* A bar's rate is of the last seconds: one said 14.4 h for a run whose averages give 17 (public log of a Mac). */
bool sg_rule_time_left(const sg_explain_run *r, sg_diagnosis *d) {
    double total = (double)r->config->steps, at = last_place(r);
    double step_s = r->log->mean_step_s > 0 ? r->log->mean_step_s : r->step_s;
    if (!(total > 0) || !(at < total) || !(step_s > 0) || ended(r->log)) return false;
    sg_say_remedy(d, "Set the provider's limit above it; a progress bar shows the rate of its last seconds only");
    if (by_forecast(r, d)) return true;
    if (r->lerobot && !r->means) step_s = r->step_s;
    double left = (total - at) * step_s, pauses = 0;
    if (r->save_interval > 0 && r->timed_checkpoints + r->timed_pushes > 0)
        pauses =
            (total - at) / r->save_interval *
            (r->checkpoint_s / fmax(1, (double)r->timed_checkpoints) + r->push_s / fmax(1, (double)r->timed_pushes));
    sg_say_text(d, "%s are left of %s", sg_explain_time_of(left + pauses).s,
                sg_explain_time_of(total * step_s + pauses * total / (total - at)).s);
    sg_say_evidence(d, "%.0f of %.0f %s done, %s each on average%s%s%s", at, total, unit(r),
                    sg_explain_time_of(step_s).s, r->note, pauses > 0 ? "; saving and pushing as so far: " : "",
                    pauses > 0 ? sg_explain_time_of(pauses).s : "");
    return true;
}

/* Where a frame has been seen this often the default length was longer than needed: 20,000 steps of GR00T saturate early
 * (Isaac-GR00T#399). The bound is a judgement. */
static const double MANY_PASSES = 100;

bool sg_rule_passes(const sg_explain_run *r, sg_diagnosis *d) {
    double samples = (double)r->config->steps * (double)r->config->samples_per_step;
    double frames = (double)r->config->frames;
    if (!(samples > 0) || !(frames > 0) || !(samples / frames >= MANY_PASSES) || !(r->step_s > 0)) return false;
    double passes = samples / frames, of_pass = frames / (double)r->config->samples_per_step * r->step_s;
    sg_say_text(d, "The planned length shows each frame %.0f times: it may be far longer than needed", passes);
    sg_say_evidence(d, "%lld steps x %lld samples / %.0f frames; a pass takes %s, all of them %s",
                    (long long)r->config->steps, (long long)r->config->samples_per_step, frames,
                    sg_explain_time_of(of_pass).s, sg_explain_time_of(of_pass * passes).s);
    sg_say_remedy(d, "Evaluate the checkpoints and stop when they no longer improve; %.0f passes would take %s",
                  MANY_PASSES, sg_explain_time_of(of_pass * MANY_PASSES).s);
    d->gain = passes / MANY_PASSES;
    return true;
}

/* mjlab's G1 flat: 30,000 iterations by default, 3,000 suffice (mjlab#287). */
bool sg_rule_default_iterations(const sg_explain_run *r, sg_diagnosis *d) {
    double total = (double)r->config->steps, enough = 3000;
    if (!r->ppo || !(total >= 10 * enough) || !(r->step_s > 0)) return false;
    d->gain = total / enough;
    sg_say_text(d, "%.0f iterations are a default, not a need: a flat velocity task was learnt in %.0f", total, enough);
    sg_say_evidence(d, "At %s per iteration%s: %s for all, %s for %.0f", sg_explain_time_of(r->step_s).s, r->note,
                    sg_explain_time_of(total * r->step_s).s, sg_explain_time_of(enough * r->step_s).s, enough);
    sg_say_remedy(d, "Watch the mean reward and stop when it is flat (--agent.max-iterations); harder tasks need more");
    return true;
}

/* --batch_size is per process, and neither steps nor learning rate are rescaled (lerobot#2254 and its docs). */
bool sg_rule_ranks_same_steps(const sg_explain_run *r, sg_diagnosis *d) {
    double ranks = (double)r->config->ranks, steps = (double)r->config->steps;
    if (r->ppo || !(ranks >= 2) || !(steps > 0) || !(r->step_s > 0)) return false;
    d->gain = ranks;
    sg_say_text(d, "%.0f processes at unchanged steps take the same hours for %.0f times the samples", ranks, ranks);
    sg_say_evidence(d, "%.0f steps of %s are %s with any number of processes; %.0f samples instead of %.0f", steps,
                    sg_explain_time_of(r->step_s).s, sg_explain_time_of(steps * r->step_s).s,
                    steps * (double)r->config->samples_per_step, steps * (double)r->config->samples_per_step / ranks);
    sg_say_remedy(d, "For the samples of one process: --steps=%.0f, and a learning rate that suits the larger batch",
                  ceil(steps / ranks));
    return true;
}

/* Ten checkpoints of pi05 (3.6 billion bf16 parameters) are 229 GB (public file): 6.3 bytes a parameter. fp32 with AdamW: 4
 * bytes each, 8 more of each that is trained. */
bool sg_rule_checkpoint_storage(const sg_explain_run *r, sg_diagnosis *d) {
    double all = (double)r->config->parameters_total, trained = (double)r->config->parameters_trainable;
    double saves = r->config->save_every > 0 ? ceil((double)r->config->steps / (double)r->config->save_every) : 0;
    if (!(all > 0)) all = trained;
    if (!(all > 0) || !(trained > 0) || !(saves > 0)) return false;
    double low = (2 * all + 4 * trained) * saves, high = (4 * all + 8 * trained) * saves;
    if (low < 100e9) return false; /* what a rented disk has left beside the data */
    sg_say_text(d, "The checkpoints need %.0f to %.0f GB of disk", low / 1e9, high / 1e9);
    sg_say_evidence(d,
                    "%.0f saves of %.2f billion parameters with their optimizer state, %.1f GB (bf16) to %.1f GB "
                    "(fp32) each",
                    saves, all / 1e9, low / saves / 1e9, high / saves / 1e9);
    sg_say_remedy(d, "Save less often (--save_freq, now %lld), or delete all but the last",
                  (long long)r->config->save_every);
    return true;
}
