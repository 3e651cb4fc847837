/* step_rules.c: batches, GPUs and clocks, as several runs or several lines show them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/explain/rules.h"

static double rate_of(const sg_log *log) {
    double value[SG_LOG_FIELDS];
    (void)sg_log_typical(log, value);
    bool told = value[SG_LOG_STEP_S] > 0 && log->config.samples_per_step > 0;
    return told ? (double)log->config.samples_per_step / value[SG_LOG_STEP_S] : value[SG_LOG_SAMPLES_PER_S];
}

static int64_t ranks_of(const sg_log *log) {
    return log->config.ranks > 0 ? log->config.ranks : 1;
}

/* Another run that trains the same, as far as the logs say. */
static bool alike(const sg_log *a, const sg_log *b) {
    const sg_log_config *x = &a->config, *y = &b->config;
    if (x->policy[0] && y->policy[0] && strcmp(x->policy, y->policy) != 0) return false;
    if (x->parameters_total && y->parameters_total && x->parameters_total != y->parameters_total) return false;
    return strncmp(a->format, b->format, 7) == 0;
}

/* The run with the smallest batch below this one's on as many GPUs, and its rate. */
static const sg_log *smaller_batch(const sg_explain_run *r) {
    const sg_log *found = NULL;
    for (size_t i = 0; i < r->facts->n_others; i++) {
        const sg_log *o = r->facts->others[i];
        if (!alike(r->log, o) || o->config.batch < 1 || o->config.batch >= r->config->batch) continue;
        if (ranks_of(o) != ranks_of(r->log) || !(rate_of(o) > 0)) continue;
        if (!found || o->config.batch < found->config.batch) found = o;
    }
    return found;
}

/* The case that is as it should be: the rate of the loader (and everything beside the update) does not matter. 44-46
 * samples/s at data_s of 1 ms (ACT, RTX 5060 Ti); pi05 at 2.5 s and 7 ms. */
bool sg_rule_update(const sg_explain_run *r, sg_diagnosis *d) {
    if (r->facts->predicted || !(r->update_s >= 0.9 * r->step_s) || !(r->data_s >= 0)) return false;
    sg_diagnosis bursts;
    if (sg_rule_loader_bursts(r, &bursts)) return false; /* medians hide those */
    d->share = fmin(1, r->update_s / r->step_s);
    sg_say_text(d, "The update itself takes the time; the loader keeps up");
    sg_say_evidence(d, "update_s %s of a step of %s, data_s %s%s", sg_explain_time_of(r->update_s).s,
                    sg_explain_time_of(r->step_s).s, sg_explain_time_of(r->data_s).s, r->note);
    if (r->step_s < r->line_step_s) /* single steps: their data_s is of the step that prints */
        sg_say_evidence(d, "By its time stamps a step takes %s: update_s %s leaves at most %s of it for all else",
                        sg_explain_time_of(r->step_s).s, sg_explain_time_of(r->update_s).s,
                        sg_explain_time_of(r->data_s).s);
    sg_say_remedy(d,
                  "More workers or faster disks change nothing (at most %.1f %%); what the update waits for, --machine "
                  "tells",
                  100 * r->data_s / r->step_s);
    return true;
}

/* ACT on an RTX 5060 Ti: 44 to 46 samples/s at batch 8, 16 and 32; on 8 A100 batches of 64 to 512 stay flat: the device was
 * full with the smallest. Within a tenth a larger batch has not helped. */
bool sg_rule_batch_flat(const sg_explain_run *r, sg_diagnosis *d) {
    const sg_log *small = smaller_batch(r);
    double rate = rate_of(r->log);
    if (!small || !(rate > 0)) return false;
    double before = rate_of(small);
    if (!(rate < 1.1 * before) || r->config->batch < 2 * small->config.batch) return false;
    if (r->data_s > 0.1 * r->step_s) return false; /* the loader's rate is flat too, and has a rule of its own */
    sg_say_text(d, "A larger batch does not help: the device was busy with batch %lld already",
                (long long)small->config.batch);
    sg_say_evidence(d, "%.3g samples/s at batch %lld, %.3g at batch %lld", before, (long long)small->config.batch, rate,
                    (long long)r->config->batch);
    sg_say_remedy(d, "Choose the batch for learning, not for speed; lower precision or another GPU make a step faster");
    d->gain = before / rate > 1 ? before / rate : NAN;
    return true;
}

/* ACT on 8 B200: 28 to 31.5 ms a step whatever the work, the GPU busy 30 %, about 1,150 small kernels a step; CUDA graphs and
 * fewer blocking reads bring 13 ms (lerobot#4612, #4607). */
bool sg_rule_step_flat(const sg_explain_run *r, sg_diagnosis *d) {
    const sg_log *small = smaller_batch(r);
    if (!small || !(r->step_s > 0)) return false;
    double growth = (double)r->config->batch / (double)small->config.batch;
    double before = (double)small->config.samples_per_step / rate_of(small);
    if (growth < 2 || !(r->step_s < 1.15 * before) || !(r->step_s > 0.85 * before)) return false;
    sg_say_text(d, "The step does not grow with the batch: the host's launches limit it, the GPU waits");
    sg_say_evidence(d, "%s a step at batch %lld, %s at batch %lld", sg_explain_time_of(before).s,
                    (long long)small->config.batch, sg_explain_time_of(r->step_s).s, (long long)r->config->batch);
    sg_say_remedy(d, "Take the larger batch: its samples are free until the step grows. CUDA graphs or torch.compile "
                     "launch less; a faster CPU core helps, a faster GPU does not");
    d->gain = growth * before / r->step_s;
    return true;
}

/* Eight H100 no faster than one, for want of data (openpi#600); 2 A100 1.9 times one; several A100 slower than one
 * (Isaac-GR00T#223). */
bool sg_rule_gpus_flat(const sg_explain_run *r, sg_diagnosis *d) {
    double rate = rate_of(r->log);
    const sg_log *few = NULL;
    for (size_t i = 0; i < r->facts->n_others; i++) {
        const sg_log *o = r->facts->others[i];
        if (!alike(r->log, o) || ranks_of(o) >= ranks_of(r->log) || !(rate_of(o) > 0)) continue;
        if (o->config.batch != r->config->batch) continue;
        if (!few || ranks_of(o) < ranks_of(few)) few = o;
    }
    if (!few || !(rate > 0)) return false;
    double gpus = (double)ranks_of(r->log) / (double)ranks_of(few), faster = rate / rate_of(few);
    if (faster > 0.85 * gpus) return false;
    sg_say_text(d, "%lld processes are %.2f times as fast as %lld, not %.2g times", (long long)ranks_of(r->log), faster,
                (long long)ranks_of(few), gpus);
    sg_say_evidence(d, "%.4g samples/s with %lld, %.4g with %lld (batch %lld each); data_s is %s of a step of %s",
                    rate_of(few), (long long)ranks_of(few), rate, (long long)ranks_of(r->log),
                    (long long)r->config->batch, isnan(r->data_s) ? "an untold part" : sg_explain_time_of(r->data_s).s,
                    sg_explain_time_of(r->step_s).s);
    sg_say_remedy(d, "%s",
                  r->data_s > 0.1 * r->step_s
                      ? "The processes share the host's CPUs and disk: feed them first (workers, cached frames)"
                      : "See whether GPUs reach each other directly (nvidia-smi topo -m), raise the batch of "
                        "each, or accumulate gradients to exchange less often");
    d->gain = gpus / faster;
    return true;
}

/* Clocks that fall with heat, another process on the GPU: 402 to 454 ms within one published run, 13 %. */
bool sg_rule_update_drift(const sg_explain_run *r, sg_diagnosis *d) {
    size_t room = r->log->n_windows;
    double *update = room >= 5 ? malloc(room * sizeof *update) : NULL;
    if (!update) return false;
    size_t n = sg_explain_values(r->log, SG_LOG_UPDATE_S, 1, update), half = n / 2;
    double early = sg_explain_median(update, half), late = sg_explain_median(update + n - half, half);
    free(update);
    if (half < 2 || !(fabs(log(late / early)) > 0.08)) return false;
    bool slower = late > early;
    d->share = slower ? (late - early) / (r->step_s - r->update_s + late) : NAN;
    d->gain = slower ? sg_gain_without(d->share) : NAN;
    sg_say_text(d, "The update became %s during the run", slower ? "slower" : "faster");
    sg_say_evidence(d, "Median update_s %s in the first half of the lines, %s in the second%s",
                    sg_explain_time_of(early).s, sg_explain_time_of(late).s,
                    r->checkpoints ? "; a checkpoint lies between some of them" : "");
    sg_say_remedy(d, "See clocks, temperature and other processes: nvidia-smi -q -d CLOCK,PERFORMANCE; 'stepgauge "
                     "measure' records why clocks were held back");
    return true;
}
