/* machine_rules.c: the log against the prediction for the machine that it ran on. */
#include <math.h>
#include <string.h>

#include "calibration/explain/rules.h"

/* The part of the step that is no waiting for data: what the prediction of the update speaks of. */
static double work_s(const sg_explain_run *r) {
    if (isfinite(r->update_s)) return r->update_s;
    if (isfinite(r->learning_s)) return r->learning_s;
    return r->facts->predicted && isnan(r->data_s) ? r->step_s : NAN;
}

static const sg_figure *predicted_of(const sg_explain_run *r, const sg_prediction *p) {
    if (isfinite(r->update_s)) return &p->update_s;
    return isfinite(r->learning_s) ? &p->learning_s : &p->step_s;
}

/* The change that the machine's model thinks the best, and what it gains. NULL: none worth more than 5 %. */
static const sg_explain_variant *best_change(const sg_explain_run *r, double *gain) {
    const sg_explain_variant *best = NULL;
    double now = predicted_of(r, r->facts->predicted)->value;
    *gain = 1.05;
    for (size_t i = 0; i < r->facts->n_variants; i++) {
        const sg_explain_variant *v = &r->facts->variants[i];
        double then = predicted_of(r, &v->predicted)->value;
        if (v->fp32 || !(then > 0) || now / then < *gain) continue;
        *gain = now / then;
        best = v;
    }
    return best;
}

/* What seconds saved in each step make of the whole. */
static void save(const sg_explain_run *r, double seconds, sg_diagnosis *d) {
    if (!(seconds > 0) || !(seconds < r->step_s)) return;
    d->gain = r->step_s / (r->step_s - seconds);
}

/* Of the update: the walk of the step on the machine's model tells what it is spent on; where host and device are within a
 * factor of two neither alone decides, the walk does. */
bool sg_rule_limit(const sg_explain_run *r, sg_diagnosis *d) {
    const sg_prediction *p = r->facts->predicted;
    double work = work_s(r), gain;
    if (!p || !(work > 0)) return false;
    const char *limit = p->limited_by;
    bool launch = strcmp(limit, "launch") == 0;
    if (launch || strcmp(limit, "compute") == 0) d->cause = launch ? "launch" : "compute";
    if (strcmp(limit, "memory bandwidth") == 0) d->cause = "memory bandwidth";
    /* Another rule speaks of it, and the busy share is of the whole iteration. */
    if (strcmp(limit, "environment") == 0) return false;
    bool by_loader = strcmp(limit, "loader") == 0;
    if (by_loader) {
        /* What limits the whole is another rule's; of the update the device's busy share tells the rest. */
        launch = p->device_busy_share < 0.7;
        d->cause = launch ? "launch" : "compute";
    }
    const sg_figure *f = predicted_of(r, p);
    d->share = r->step_s > 0 ? fmin(1, work / r->step_s) : NAN;
    sg_say_text(d, "Of the update on this machine: %s",
                by_loader               ? launch ? "launches of the host limit it, behind the loader"
                                                 : "the device's work limits it, behind the loader"
                : p->limited_by_text[0] ? p->limited_by_text
                                        : limit);
    sg_say_evidence(d,
                    "The log's %s takes %s%s; predicted %s (%s to %s), the device busy %.0f %%, forward %s, backward "
                    "%s, optimizer %s",
                    isfinite(r->learning_s) ? "learning" : "update", sg_explain_time_of(work).s, r->note,
                    sg_explain_time_of(f->value).s, sg_explain_time_of(f->low).s, sg_explain_time_of(f->high).s,
                    100 * p->device_busy_share, sg_explain_time_of(p->forward_s).s, sg_explain_time_of(p->backward_s).s,
                    sg_explain_time_of(p->optimizer_s).s);
    const sg_explain_variant *best = best_change(r, &gain);
    if (best) {
        save(r, work * (1 - 1 / gain), d);
        sg_say_remedy(d, "Predicted best change: %s, the update %.2f times as fast%s", best->change, gain,
                      launch ? "; or a larger batch, whose samples are almost free while the GPU waits" : "");
    } else {
        sg_say_remedy(d, "%s",
                      launch ? "A larger batch: its samples are almost free while the GPU waits"
                             : "No other precision or way to launch is predicted to gain 5 %: a faster GPU, or "
                               "more of them");
    }
    return true;
}

/* Slower than the interval for the machine: hosts differ by 1.4 to 2.6 on shared clouds, a card may be held back. */
bool sg_rule_slower(const sg_explain_run *r, sg_diagnosis *d) {
    const sg_prediction *p = r->facts->predicted;
    double work = work_s(r);
    if (!p || !(work > 0)) return false;
    const sg_figure *f = predicted_of(r, p);
    if (work <= f->high) return false;
    d->cause = p->device_busy_share < 0.7 ? "launch" : "compute";
    d->share = (work - f->value) / r->step_s;
    save(r, work - f->value, d);
    sg_say_text(d, "The %s takes %.2f times what this machine should need",
                isfinite(r->learning_s) ? "learning" : "update", work / f->value);
    sg_say_evidence(d, "%s%s, predicted %s with at most %s", sg_explain_time_of(work).s, r->note,
                    sg_explain_time_of(f->value).s, sg_explain_time_of(f->high).s);
    sg_say_remedy(d, "%s",
                  p->device_busy_share < 0.7
                      ? "The host decides here: another process on the CPU, few vCPUs, or a slow core; measure with "
                        "'stepgauge gauge'"
                      : "See clocks and power limit, other processes, wrong settings (cameras, image size, precision)");
    return true;
}

/* use_amp=true had no effect for policies without a dtype field until 2026-07-31 (lerobot#4274): 75 GB instead of 46.5. */
bool sg_rule_precision_ignored(const sg_explain_run *r, sg_diagnosis *d) {
    const sg_prediction *p = r->facts->predicted;
    const sg_explain_variant *full = NULL;
    double work = work_s(r);
    bool low = strncmp(r->facts->precision, "bf16", 4) == 0 || strncmp(r->facts->precision, "fp16", 4) == 0;
    for (size_t i = 0; i < r->facts->n_variants; i++)
        if (r->facts->variants[i].fp32) full = &r->facts->variants[i];
    if (!low || !p || !full || !(work > 0)) return false;
    double with = predicted_of(r, p)->value, without = predicted_of(r, &full->predicted)->value;
    /* By memory where the line tells it: it is known to a few per cent; else by time, if the two are told apart at all. */
    double with_bytes = p->peak_allocated_bytes.value, without_bytes = full->predicted.peak_allocated_bytes.value;
    bool by_memory = isfinite(r->peak_bytes) && without_bytes > 1.15 * with_bytes;
    bool by_time = without > 1.25 * with;
    if (by_memory ? r->peak_bytes < sqrt(with_bytes * without_bytes) : !by_time || work < sqrt(with * without))
        return false;
    if (with < without) {
        d->share = work * (1 - with / without) / r->step_s;
        save(r, work * (1 - with / without), d);
    }
    sg_say_text(d, "%s was asked for, but the run behaves like full precision", r->facts->precision);
    if (by_memory)
        sg_say_evidence(d, "%.2f GiB at the peak; predicted %.2f GiB with %s, %.2f GiB without it",
                        r->peak_bytes / 0x1p30, with_bytes / 0x1p30, r->facts->precision, without_bytes / 0x1p30);
    else
        sg_say_evidence(d, "%s of work per step; predicted %s with %s, %s without it", sg_explain_time_of(work).s,
                        sg_explain_time_of(with).s, r->facts->precision, sg_explain_time_of(without).s);
    sg_say_remedy(d, "LeRobot before 2026-07-31 ignores use_amp for policies without a dtype of their own: update it");
    return true;
}

/* Beyond what hides behind the backward pass. */
bool sg_rule_communication(const sg_explain_run *r, sg_diagnosis *d) {
    const sg_prediction *p = r->facts->predicted;
    double work = work_s(r);
    if (!p || r->config->ranks < 2 || !(work > 0) || !(p->exposed_sync_s > 0)) return false;
    double whole = isfinite(r->learning_s) ? p->iteration_s.value : p->step_s.value;
    d->share = p->exposed_sync_s / whole;
    if (!(d->share >= 0.05)) return false;
    d->gain = sg_gain_without(d->share);
    sg_say_text(d, "GPUs wait for each other's gradients for %.0f %% of the step", 100 * d->share);
    sg_say_evidence(d, "Predicted for %lld processes: %s of exchange that nothing hides, of %s",
                    (long long)r->config->ranks, sg_explain_time_of(p->exposed_sync_s).s, sg_explain_time_of(whole).s);
    sg_say_remedy(d, "Larger batches per GPU or gradient accumulation; GPUs with direct links");
    return true;
}
