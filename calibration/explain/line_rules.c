/* line_rules.c: what the lines of a log mean, where they are easily misread. */
#include <math.h>
#include <string.h>

#include "calibration/explain/rules.h"

/* First windows of published logs against their medians: ACT, batch 128: 2.958 s and 0.497; batch 8: data_s 0.196 s and
 * 0.003; pi05 13.567 s and 12.703. */
bool sg_rule_first_window(const sg_explain_run *r, sg_diagnosis *d) {
    if (!r->log->first_dropped || r->log->n_windows < 2) return false;
    const sg_log_window *w = &r->log->windows[0];
    double first_s = sg_log_window_step_s(w), steady_s = r->line_step_s;
    bool begins = isnan(w->step) ? w->iteration <= 1 || isnan(w->iteration)
                                 : !(w->step_low > 1.5 * r->interval) && w->step_low < 1000;
    if (!begins || !(first_s > 1.05 * steady_s)) return false;
    double steps = isfinite(w->step) && w->step > 0 && r->means ? w->step : 1;
    sg_say_text(d,
                "The first line is warm-up (library choices, caches, empty queues): it reads %.2g times a "
                "steady step",
                first_s / steady_s);
    sg_say_evidence(d, "%s per %s in the first line, %s in the %llu steady ones; the start cost about %s",
                    sg_explain_time_of(first_s).s, r->ppo ? "iteration" : "step", sg_explain_time_of(steady_s).s,
                    (unsigned long long)r->log->steady_windows, sg_explain_time_of((first_s - steady_s) * steps).s);
    sg_say_remedy(d, "Leave it out when estimating; it is paid once per start");
    return true;
}

/* Until 2025-02-11 (lerobot#670) a line holds the values of that one step. A published run's lines say 0.44 s a step, its
 * clock 0.15. */
bool sg_rule_single_steps(const sg_explain_run *r, sg_diagnosis *d) {
    double lines = r->line_step_s, clock = r->step_s;
    if (!r->lerobot || r->means || !(clock > 0) || !(fabs(log(lines / clock)) >= 0.1)) return false;
    sg_say_text(d, "These lines hold the values of single steps, not means: they %s a step %.2g-fold",
                lines > clock ? "overstate" : "understate", lines > clock ? lines / clock : clock / lines);
    sg_say_evidence(d, "The lines say %s per step, their time stamps %s", sg_explain_time_of(lines).s,
                    sg_explain_time_of(clock).s);
    sg_say_remedy(d, "Reckon with the time stamps; the step that prints waits for the device, others do not");
    return true;
}

/* "step:2K" stands for 1500 to 2499. */
bool sg_rule_rounded_counters(const sg_explain_run *r, sg_diagnosis *d) {
    size_t rounded = 0;
    double widest = 0;
    for (size_t i = 0; i < r->log->n_windows; i++) {
        const sg_log_window *w = &r->log->windows[i];
        if (!(w->step_high > w->step_low)) continue;
        rounded++;
        widest = fmax(widest, w->step_high - w->step_low);
    }
    if (!rounded) return false;
    sg_say_text(d, "The step counter is rounded: time per step cannot be had from counters and clock");
    sg_say_evidence(d, "%zu of %zu lines leave a range of steps, the widest of %.0f", rounded, r->log->n_windows,
                    widest + 1);
    sg_say_remedy(d, "Trust updt_s and data_s of the line; keep the progress bar in the log, it counts exactly");
    return true;
}

/* smpl, ep and epch of several processes differ between versions: an eight-process run was misread because its epoch counter
 * sums all of them. Rank 0 alone is shown before 2026-06-11 (lerobot#3773); its maintainers put the slowest rank about 20 %
 * higher (lerobot#1488). */
bool sg_rule_rank_counters(const sg_explain_run *r, sg_diagnosis *d) {
    if (!r->lerobot || r->config->ranks < 2) return false;
    bool first_rank = strcmp(r->log->format, "lerobot-2025") == 0 || strcmp(r->log->format, "lerobot-2024") == 0;
    sg_say_text(d, "The counters smpl, ep and epch of %lld processes cannot be trusted%s", (long long)r->config->ranks,
                first_rank ? ", and times are of rank 0 alone: the slowest may take 20 % more" : "");
    sg_say_evidence(d, "%lld processes x batch %lld = %lld samples per step; format %s", (long long)r->config->ranks,
                    (long long)r->config->batch, (long long)r->config->samples_per_step, r->log->format);
    sg_say_remedy(d, "Count samples as steps x %lld", (long long)r->config->samples_per_step);
    return true;
}

/* JAX compiles before the first step: 31 s of a notebook's 146, 3-5 minutes for a duck (public logs); torch.compile autotunes
 * for minutes and looks like a hang (lerobot#2471). */
bool sg_rule_compilation(const sg_explain_run *r, sg_diagnosis *d) {
    double jit = r->log->jit_s, train = r->log->train_s;
    if (!(jit > 0) || !(train > 0)) return false;
    d->share = jit / (jit + train);
    if (d->share < 0.01) return false;
    sg_say_text(d, "Compiling takes %.0f %% of this run before its first step", 100 * d->share);
    sg_say_evidence(d, "time to jit %s, time to train %s", sg_explain_time_of(jit).s, sg_explain_time_of(train).s);
    sg_say_remedy(d, "It is paid once, so longer runs dilute it; a persistent compilation cache (JAX: "
                     "jax_compilation_cache_dir) spares it at the next start");
    d->gain = sg_gain_without(d->share);
    return true;
}
