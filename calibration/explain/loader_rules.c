/* loader_rules.c: waiting for batches: how much, in bursts, at the ends of epochs, and growing. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "calibration/explain/rules.h"

/* Below a tenth of the step a wait is not what limits: handing over a ready batch takes 7-15 ms in published logs. */
static const double WAIT_SHARE = 0.10;

/* Half of the wrong estimates people report are this: 100,000 ACT steps in 13 h instead of 1.5 (lerobot#1592), SmolVLA with
 * four cameras waiting 1 s for an update of 0.7 s (lerobot#1623), 31-39 % of the step on an RTX 3090. What helped there:
 * workers up to the number of vCPUs, and never beyond (two vCPUs: no gain, lerobot#1592); decoded frames kept
 * uncompressed 1.9 times (tuning guide for 8 A100); parallel decode and uint8 transport (lerobot#3406). */
bool sg_rule_loader_wait(const sg_explain_run *r, sg_diagnosis *d) {
    if (!(r->step_s > 0) || !(r->data_s >= WAIT_SHARE * r->step_s)) return false;
    d->share = fmin(1, r->data_s / r->step_s);
    d->gain = sg_gain_without(d->share);
    bool with_prep = isnan(r->prep_s);
    sg_say_text(d, "The loader limits this training: %.0f %% of each step waits for the next batch%s", 100 * d->share,
                with_prep ? " (the format counts preprocessing into the wait)" : "");
    sg_say_evidence(d, "data_s %s of a step of %s%s, update_s %s", sg_explain_time_of(r->data_s).s,
                    sg_explain_time_of(r->step_s).s, r->note, sg_explain_time_of(r->update_s).s);
    const sg_prediction *p = r->facts->predicted;
    if (p && isfinite(p->dataloading_s.value))
        sg_say_evidence(d, "data_s %s of a step of %s%s, update_s %s; predicted data_s %s (%s to %s)",
                        sg_explain_time_of(r->data_s).s, sg_explain_time_of(r->step_s).s, r->note,
                        sg_explain_time_of(r->update_s).s, sg_explain_time_of(p->dataloading_s.value).s,
                        sg_explain_time_of(p->dataloading_s.low).s, sg_explain_time_of(p->dataloading_s.high).s);
    char workers[64] = "--num_workers (4 by default)";
    if (r->config->workers > 0)
        (void)snprintf(workers, sizeof workers, "--num_workers (now %lld)", (long long)r->config->workers);
    sg_say_remedy(
        d,
        "Raise %s up to the vCPUs of a process, not beyond; keep decoded frames or smaller videos; 'stepgauge "
        "measure --dataset' finds what this host can feed. Without the wait a step would take %s",
        workers, sg_explain_time_of(r->step_s - r->data_s).s);
    return true;
}

/* One step waits 13.33 s, the next seven 1 ms (lerobot#1488, H100, 12 workers, batch 64): each worker makes whole batches, and all
 * of them are ready at about the same time. A mean over few steps hides or invents it. The first line is never counted: queues
 * fill there, or a stall ends in it that began before the log does. */
bool sg_rule_loader_bursts(const sg_explain_run *r, sg_diagnosis *d) {
    size_t room = r->log->n_windows;
    double *wait = room > 2 ? malloc(room * sizeof *wait) : NULL;
    if (!wait) return false;
    size_t n = sg_explain_values(r->log, SG_LOG_DATALOADING_S, 1, wait);
    double sum = 0, most = 0, burst = 0;
    size_t bursts = 0;
    double median = sg_explain_median(wait, n); /* sorted now */
    for (size_t i = 0; i < n; i++) sum += wait[i];
    for (size_t i = 0; i < n; i++) {
        /* Ten times the median and a tenth of a step: beyond what batches differ by. */
        if (wait[i] <= 10 * median || wait[i] <= 0.1 * r->step_s) continue;
        burst += wait[i];
        bursts++;
        most = wait[i];
    }
    free(wait);
    double others = r->step_s - r->data_s; /* medians: prep and update */
    if (n < 3 || !bursts || burst < 0.5 * sum || !(others > 0)) return false;
    double mean = sum / (double)n, start_s = r->log->windows[0].value[SG_LOG_DATALOADING_S];
    char first[80] = "";
    if (start_s > 10 * mean)
        (void)snprintf(first, sizeof first, "; the first line (%s) is not counted", sg_explain_time_of(start_s).s);
    d->share = mean / (mean + others);
    if (d->share < 0.02) return false;
    d->gain = sg_gain_without(d->share);
    sg_say_text(
        d,
        "The loader stalls in bursts: most lines show no wait, a few show all of it; over these lines it is %.0f %% of "
        "the time",
        100 * d->share);
    sg_say_evidence(d,
                    "%zu of %zu lines hold %.0f %% of the waiting (up to %s); median data_s %s, mean %s, beside %s of "
                    "other work per step%s%s",
                    bursts, n, 100 * burst / sum, sg_explain_time_of(most).s, sg_explain_time_of(median).s,
                    sg_explain_time_of(mean).s, sg_explain_time_of(others).s,
                    bursts == 1 ? "; of one burst the share is a guess" : "", first);
    sg_say_remedy(
        d, "Judge by means over several hundred steps (log_freq 200), not by one line. The rate is the loader's: "
           "more workers up to the vCPUs, cheaper frames (smaller, cached, parallel decode) lift it");
    return true;
}

/* Whether an epoch ends inside a window that began at the window before. */
static bool crosses(const sg_explain_run *r, size_t i, double per_epoch) {
    const sg_log_window *w = &r->log->windows[i];
    return floor(w->step / per_epoch) > floor((w->step - r->interval) / per_epoch);
}

/* pi05 on an A100: lines with an epoch's end in them show data_s 0.25-0.34 s, others 0.075 (batch 168, 50 steps a line):
 * workers stop and are started anew. LeRobot's loaders keep theirs since persistent_workers (lerobot#3406). */
bool sg_rule_loader_epochs(const sg_explain_run *r, sg_diagnosis *d) {
    double per_epoch =
        r->config->samples_per_step > 0 ? (double)r->config->frames / (double)r->config->samples_per_step : 0;
    size_t room = r->log->n_windows;
    if (!r->means || !(per_epoch >= 1) || !(r->interval >= 1) || r->interval >= per_epoch || room < 4) return false;
    double *with = malloc(2 * room * sizeof *with), *without = with ? with + room : NULL;
    if (!with) return false;
    size_t n_with = 0, n_without = 0;
    for (size_t i = 1; i < room; i++) {
        double wait = r->log->windows[i].value[SG_LOG_DATALOADING_S];
        if (isnan(wait) || isnan(r->log->windows[i].step)) continue;
        if (crosses(r, i, per_epoch))
            with[n_with++] = wait;
        else
            without[n_without++] = wait;
    }
    double at_ends = sg_explain_median(with, n_with), elsewhere = sg_explain_median(without, n_without);
    free(with);
    if (n_with < 2 || n_without < 2 || !(at_ends > 1.5 * elsewhere) || !(at_ends > elsewhere + 0.002)) return false;
    double pause_s = (at_ends - elsewhere) * r->interval;
    d->share = pause_s / (per_epoch * r->step_s + pause_s);
    d->gain = sg_gain_without(d->share);
    sg_say_text(d, "At each end of an epoch the loader starts anew: about %s every %.0f steps",
                sg_explain_time_of(pause_s).s, per_epoch);
    sg_say_evidence(d,
                    "data_s is %s in %zu lines with an epoch's end (%lld frames / %lld samples a step) and %s in %zu "
                    "others, over %.0f steps each",
                    sg_explain_time_of(at_ends).s, n_with, (long long)r->config->frames,
                    (long long)r->config->samples_per_step, sg_explain_time_of(elsewhere).s, n_without, r->interval);
    sg_say_remedy(d, "Keep the workers over epochs (persistent_workers, in newer LeRobot the default)");
    return true;
}

/* Neighbours on a shared box raised data_s from 0.051 to 0.23-0.27 s (tuning guide for 8 A100); caches that grow do too
 * (lerobot#3614: one worker reached 34.9 GB and was killed). */
bool sg_rule_loader_drift(const sg_explain_run *r, sg_diagnosis *d) {
    size_t room = r->log->n_windows;
    double *wait = room >= 13 ? malloc(room * sizeof *wait) : NULL;
    if (!wait) return false;
    size_t n = sg_explain_values(r->log, SG_LOG_DATALOADING_S, 1, wait), third = n / 3;
    double early = sg_explain_median(wait, third), late = sg_explain_median(wait + n - third, third);
    double least = third ? wait[n - third] : NAN; /* sorted now: bursts are no growth */
    free(wait);
    if (third < 4 || !(late > 2 * early) || !(least > early) || !(late - early > 0.05 * r->step_s)) return false;
    d->share = (late - early) / (r->step_s - r->data_s + late);
    d->gain = sg_gain_without(d->share);
    sg_say_text(d, "Waiting for batches grew during the run: other work on the host, or memory that the workers fill");
    sg_say_evidence(d, "Median data_s %s in the first third of the lines, %s in the last", sg_explain_time_of(early).s,
                    sg_explain_time_of(late).s);
    sg_say_remedy(d,
                  "See what else uses the CPUs and the disk (top, free, iostat); watch the workers' memory; a loader "
                  "alone on the host would win the growth back");
    return true;
}
