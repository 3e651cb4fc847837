/* run_end.c: format, configuration and warnings of a run, when all its windows are there. */
#include "calibration/log/bars.h"
#include "calibration/log/rsl_rl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* 2025-02-11: lines hold means of their window from then on (LeRobot pull request 670). */
static const double MEANS_SINCE_S = 1739232000;

static const char *lerobot_format(const sg_log_traits *t) {
    if (t->prep_s || t->step_s) return "lerobot-2026-08";
    if (t->smp_s || t->mem_gb) return "lerobot-2026-06";
    return t->hydra || t->first_time_s < MEANS_SINCE_S ? "lerobot-2024" : "lerobot-2025";
}

static const char *format_of(sg_log_family family, const sg_log_traits *t) {
    switch (family) {
    case SG_LOG_LEROBOT: return lerobot_format(t);
    case SG_LOG_WANDB: return t->json ? "wandb-json" : "wandb-csv";
    case SG_LOG_RSL_RL: return t->computation ? "rsl_rl-old" : "rsl_rl-new";
    case SG_LOG_RL_GAMES: return "rl_games";
    case SG_LOG_OPENPI: return "openpi";
    case SG_LOG_HF: return "hf-trainer";
    case SG_LOG_BRAX: return "brax";
    default: return "unknown";
    }
}

/* Samples per step where both counters are exact; 2024 counted the samples of the step that was under way too. 0: none. */
static double exact_samples_per_step(const sg_log *log, bool of_2024) {
    for (size_t i = 0; i < log->n_windows; i++) {
        const sg_log_window *w = &log->windows[i];
        if (w->step_low != w->step_high || w->samples_low != w->samples_high || !(w->samples_low >= 1)) continue;
        double first = w->step + (of_2024 || w->step == 0 ? 1 : 0), second = w->step + (of_2024 ? 0 : 1);
        if (fmod(w->samples_low, first) == 0) return w->samples_low / first;
        if (second >= 1 && fmod(w->samples_low, second) == 0) return w->samples_low / second;
    }
    return 0;
}

/* The one whole number in [low, high]; 0: none, or several. */
static double only_whole(double low, double high) {
    double whole = ceil(low);
    return isfinite(high) && whole >= 1 && whole <= high && whole + 1 > high ? whole : 0;
}

/* Samples per step that every line's rounded counters allow ("step:7K smpl:29K": 4). */
static double samples_per_step_by_counters(const sg_log *log) {
    double low = 0, high = INFINITY;
    for (size_t i = 0; i < log->n_windows; i++) {
        const sg_log_window *w = &log->windows[i];
        if (!(w->step_low >= 1) || isnan(w->samples_low)) continue;
        low = fmax(low, w->samples_low / (w->step_high + 1)); /* 2024 counts the step under way */
        high = fmin(high, w->samples_high / w->step_low);
    }
    return only_whole(low, high);
}

/* ... that every line's smp/s x step time allows. One line alone is no proof: a fork may round otherwise. */
static double samples_per_step_by_rate(const sg_log *log) {
    double low = 0, high = INFINITY;
    size_t n = 0;
    for (size_t i = 0; i < log->n_windows; i++) {
        const sg_log_window *w = &log->windows[i];
        double rate = w->value[SG_LOG_SAMPLES_PER_S], step_s = sg_log_window_step_s(w);
        if (isnan(rate) || isnan(step_s)) continue;
        double parts = isnan(w->value[SG_LOG_STEP_S]) ? 2 : 1; /* each rounded to a millisecond, the rate to a whole */
        low = fmax(low, (rate - 0.5) * (step_s - 0.0005 * parts));
        high = fmin(high, (rate + 0.5) * (step_s + 0.0005 * parts));
        n++;
    }
    return n >= 2 ? only_whole(low, high) : 0;
}

static void lerobot_samples(sg_log *log, bool of_2024) {
    sg_log_config *c = &log->config;
    double counted = exact_samples_per_step(log, of_2024);
    if (c->samples_per_step) {
        if (counted && counted != (double)c->samples_per_step)
            sg_log_warn(
                log,
                "The counters smpl, ep and epch say %.4g samples per step, the banner %lld: counters of several "
                "processes differ between versions and are not used",
                counted, (long long)c->samples_per_step);
    } else if (c->batch && c->ranks) {
        c->samples_per_step = c->batch * c->ranks;
    } else if (counted) {
        c->samples_per_step = (int64_t)counted;
    } else {
        double derived = samples_per_step_by_counters(log);
        if (!derived) derived = samples_per_step_by_rate(log);
        c->samples_per_step = (int64_t)derived;
        if (derived)
            sg_log_warn(log, "%.0f samples per step is what the rounded numbers leave: no line tells it", derived);
    }
    if (!c->samples_per_step) return;
    if (!c->batch && !c->ranks) {
        c->batch = c->samples_per_step;
        sg_log_warn(log,
                    "The number of processes is not told: the %lld samples of a step are taken as the batch of one",
                    (long long)c->batch);
    }
}

static void lerobot_warnings(sg_log *log, const sg_log_traits *t) {
    bool means = strcmp(log->format, "lerobot-2024") != 0;
    bool before_2026 = strcmp(log->format, "lerobot-2025") == 0 || !means;
    if (!means)
        sg_log_warn(log, "updt_s and data_s are the values of single steps (before 2025-02-11), not means of a window");
    if (means && before_2026 && isnan(t->first_time_s))
        sg_log_warn(log, "No line has a date: the values are taken as means, as since 2025-02-11");
    if (log->config.ranks > 1) {
        sg_log_warn(log, "Counters of samples and episodes of several processes cannot be trusted across versions");
        if (before_2026) sg_log_warn(log, "Times are of rank 0: the slowest rank may be about 20 %% slower");
    }
    if (strcmp(log->format, "lerobot-2026-08") != 0 && log->n_windows)
        sg_log_warn(log, "dataloading_s includes preprocessing (before 2026-08-06)");
}

void sg_log_end_run(sg_log *log, sg_log_family family, const sg_log_traits *t) {
    (void)snprintf(log->format, sizeof log->format, "%s", format_of(family, t));
    if (family == SG_LOG_LEROBOT || family == SG_LOG_WANDB)
        lerobot_samples(log, strcmp(log->format, "lerobot-2024") == 0);
    if (family == SG_LOG_LEROBOT) lerobot_warnings(log, t);
    if (family == SG_LOG_RSL_RL) sg_rsl_rl_facts(log);
    if (family == SG_LOG_HF) sg_dicts_facts(log, t);
    sg_log_resolve_steps(log);
    sg_log_steady(log);
    sg_log_time_events(log);
    if (t->negative_eta) sg_log_warn(log, "The time left is negative (a resumed run counts from its first iteration)");
    if (t->repeated)
        sg_log_warn(log,
                    "%llu lines repeat the counters of the line before (further processes): the first of each is kept",
                    (unsigned long long)t->repeated);
    if (t->run[0]) sg_log_warn(log, "These are the table's columns of run '%s'", t->run);
    if (t->not_finite) sg_log_warn(log, "The loss became NaN or infinite: the times still hold");
    if (log->every > 1)
        sg_log_warn(log, "Of %llu windows every %llu-th is kept", (unsigned long long)log->windows_seen,
                    (unsigned long long)log->every);
    if (log->events_seen > log->n_events)
        sg_log_warn(log, "Of %llu events %zu are kept", (unsigned long long)log->events_seen, log->n_events);
    if (log->windows_seen == 1 && log->steady_windows == 0)
        sg_log_warn(log, "There is one window, and the first is warm-up: nothing is steady");
    else if (log->windows_seen == 0 && isnan(log->train_s))
        sg_log_warn(log, "The run has no windows: it ended, or the log does, before its first line of times");
}
