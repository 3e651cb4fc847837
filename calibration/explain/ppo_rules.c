/* ppo_rules.c: where an iteration of PPO goes. */
#include <math.h>
#include <string.h>

#include "calibration/environment/environment_law.h"
#include "calibration/explain/rules.h"

/* Learning is 3-13 % of the iteration in published logs; the simulator is the rest. It wants one fast CPU core: a 5090 sits at
 * 80 % and half its power with one core at 100 % (IsaacLab#3043); 115k to 89k steps/s by an upgrade (IsaacLab#3556). */
bool sg_rule_collection(const sg_explain_run *r, sg_diagnosis *d) {
    double whole = r->collection_s + r->learning_s;
    if (!(r->collection_s >= 0.6 * whole) || !(whole > 0)) return false;
    d->share = r->collection_s / whole;
    d->gain = sg_gain_without(d->share / 2);
    sg_say_text(d, "The simulator limits this training: collecting takes %.0f %% of each iteration", 100 * d->share);
    if (r->env_steps > 0)
        sg_say_evidence(d, "collection %s, learning %s%s; %.0f environment steps per iteration, %.0f a second",
                        sg_explain_time_of(r->collection_s).s, sg_explain_time_of(r->learning_s).s, r->note,
                        r->env_steps, r->env_steps / whole);
    else
        sg_say_evidence(d, "collection %s, learning %s%s", sg_explain_time_of(r->collection_s).s,
                        sg_explain_time_of(r->learning_s).s, r->note);
    sg_say_remedy(d,
                  "A faster CPU core, headless, CUDA graphs on (driver 12.4 or later); more environments while the GPU "
                  "has room; more GPUs scale it well. Collecting twice as fast would make it %.2f times as fast",
                  d->gain);
    return true;
}

/* 16 devices: learning with its exchange of gradients takes longer than collecting (public log, 0.671 and 1.348 s). */
bool sg_rule_learning(const sg_explain_run *r, sg_diagnosis *d) {
    double whole = r->collection_s + r->learning_s;
    if (!(r->learning_s > 0.4 * whole) || !(whole > 0)) return false;
    d->share = r->learning_s / whole;
    sg_say_text(d, "Learning takes %.0f %% of each iteration, where 3 to 13 %% are usual%s", 100 * d->share,
                r->config->ranks > 1 ? ": the processes exchange gradients at every mini-batch" : "");
    sg_say_evidence(d, "learning %s, collection %s%s", sg_explain_time_of(r->learning_s).s,
                    sg_explain_time_of(r->collection_s).s, r->note);
    d->gain = sg_gain_without(d->share - 0.13);
    sg_say_remedy(
        d,
        "Fewer, larger mini-batches launch and exchange less; a small network is bound by its launches: fewer "
        "epochs, CUDA graphs. At 13 %% of today's iteration it would be %.2f times as fast",
        d->gain);
    return true;
}

/* Seconds that one step of all environments takes, and how many of them a process has. */
static bool per_step(const sg_explain_run *r, double *envs, double *seconds) {
    double steps = (double)r->facts->steps_per_env;
    *envs = (double)r->facts->envs;
    if (!(*envs > 0) && r->env_steps > 0 && steps > 0)
        *envs = r->env_steps / steps / (double)(r->config->ranks > 0 ? r->config->ranks : 1);
    *seconds = r->collection_s / steps;
    return *envs > 0 && steps > 0 && r->collection_s > 0;
}

/* 22.5 s of collection on an A100 against 3.6 s on a 4070 Ti, with CUDA graphs off (mjlab#1056); 63 s on rough terrain
 * (mjlab#719): 0.9 and 2.6 s per step, far beyond what any published run of its kind needs. Those scatter by log sd 0.7 between
 * simulators and tasks (a judgement), beside the prior's own doubt; 95 % of them lie below the bound. */
static const double KINDS_LOG_SD = 0.7;

bool sg_rule_slow_simulator(const sg_explain_run *r, sg_diagnosis *d) {
    double envs, seconds, usual_s, log_sd;
    sg_law kind;
    sg_status ignored;
    if (!per_step(r, &envs, &seconds)) return false;
    if (sg_environment_fit(r->facts->task, NULL, 0, &kind, &ignored) != SG_OK) return false;
    sg_law_at(&kind, envs, &usual_s, &log_sd);
    double most_s = sg_figure_make(usual_s, (sg_log_sd){log_sd, KINDS_LOG_SD, 0}, SG_EVIDENCE_DATA_SHEET, 0.9).high;
    if (!(seconds > most_s)) return false;
    d->share = 1 - most_s / seconds;
    d->gain = r->step_s / (r->step_s - r->collection_s * d->share);
    sg_say_text(d, "The simulator is far slower than its kind");
    sg_say_evidence(d,
                    "%s per step of %.0f environments; published runs of its kind need about %s, 95 %% of them at "
                    "most %s",
                    sg_explain_time_of(seconds).s, envs, sg_explain_time_of(usual_s).s, sg_explain_time_of(most_s).s);
    sg_say_remedy(
        d, "See the start of the log for disabled CUDA graphs (driver below 12.4, no memory pool), a simulator on "
           "the CPU, a viewer or cameras left on");
    return true;
}

/* 64 environments took nearly the time of 4,096 (1,073 and 44,003 steps/s in two Isaac Gym logs): the fixed part of a step
 * decides. How large it is here the log's one point and the simulator's prior tell together. */
bool sg_rule_few_environments(const sg_explain_run *r, sg_diagnosis *d) {
    double envs, seconds, many_s, log_sd;
    const double many = 4096;
    sg_law law;
    sg_status ignored;
    if (!per_step(r, &envs, &seconds) || envs > 512) return false;
    sg_environment_point here = {envs, seconds};
    if (sg_environment_fit(r->facts->task, &here, 1, &law, &ignored) != SG_OK) return false;
    sg_law_at(&law, many, &many_s, &log_sd);
    double more = many / many_s / (envs / seconds);
    if (more < 1.5) return false;
    sg_say_text(d, "Few environments: most of a simulator's step does not depend on their number");
    sg_say_evidence(d,
                    "%.0f environments, %s per step of all of them, %.4g environment steps a second while collecting",
                    envs, sg_explain_time_of(seconds).s, envs / seconds);
    sg_say_remedy(d,
                  "4,096 environments are expected to take %s per step: %.0f times the environment steps a second (GPU "
                  "memory permitting), so fewer iterations for as many samples",
                  sg_explain_time_of(many_s).s, more);
    return true; /* the gain is in samples, not in iterations */
}

/* 20-60 s per iteration because of the rollout's length, cured with 24 steps (HIMLoco#27). */
bool sg_rule_rollout_length(const sg_explain_run *r, sg_diagnosis *d) {
    double steps = (double)r->facts->steps_per_env;
    if (!(steps >= 48) || !(r->collection_s > 0) || !(r->step_s > 0)) return false;
    double saved = r->collection_s * (1 - 24 / steps);
    sg_say_text(d, "Long rollouts make long iterations: %.0f steps of each environment where 24 are usual", steps);
    sg_say_evidence(d, "collection %s of an iteration of %s", sg_explain_time_of(r->collection_s).s,
                    sg_explain_time_of(r->step_s).s);
    sg_say_remedy(d, "num_steps_per_env=24: iterations of about %s, each with fewer samples",
                  sg_explain_time_of(r->step_s - saved).s);
    d->gain = r->step_s / (r->step_s - saved);
    return true;
}
