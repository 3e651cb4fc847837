#include "calibration/compare/compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void SG_PRINTF(2, 3) find(sg_comparison *c, const char *format, ...) {
    if (c->n_findings == SG_FINDINGS_MOST) return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(c->findings[c->n_findings++], sizeof c->findings[0], format, args);
    va_end(args);
}

static const sg_figure none = {NAN, NAN, NAN, {0, 0, 0}, SG_EVIDENCE_OBSERVED};

/* ---- phases -------------------------------------------------------------------------------------------------------- */

static void add(sg_comparison *c, const char *name, double log, double measured, const sg_figure *predicted) {
    sg_compared *p = &c->phase[c->n];
    *p = (sg_compared){.name = name, .log = log, .measured = measured, .predicted = predicted ? *predicted : none};
    if (!isfinite(log) && !isfinite(measured) && !isfinite(p->predicted.value)) return;
    p->by_measured = measured > 0 ? log / measured : NAN;
    p->by_predicted = p->predicted.value > 0 ? log / p->predicted.value : NAN;
    p->inside = log >= p->predicted.low && log <= p->predicted.high;
    c->n++;
}

static double measured_of(const sg_compare_facts *f, sg_quantity q) {
    return f->measured && f->measured->q[q].median > 0 ? f->measured->q[q].median : NAN;
}

static double positive(double value) {
    return value > 0 ? value : NAN;
}

/* The promise of memory is its upper bound; below, the error of the walk is as large. */
static sg_figure two_sided(const sg_figure *upper) {
    sg_figure f = *upper;
    if (f.high > 0) f.low = f.value * f.value / f.high;
    return f;
}

static double peak_of(const sg_log *log) {
    double most = NAN;
    for (size_t i = 0; i < log->n_windows; i++)
        if (log->windows[i].value[SG_LOG_PEAK_BYTES] > 0) most = fmax(most, log->windows[i].value[SG_LOG_PEAK_BYTES]);
    return most;
}

/* Formats before August 2026 count preprocessing into dataloading_s. */
static void supervised(const sg_compare_facts *f, const double *log, sg_comparison *c) {
    const sg_prediction *p = f->predicted;
    bool apart = isfinite(log[SG_LOG_PREPROCESSING_S]);
    sg_figure waiting = p ? p->dataloading_s : none;
    double waited = measured_of(f, SG_Q_DATALOADING), prepared = measured_of(f, SG_Q_PREPROCESSING);
    if (!apart && isfinite(log[SG_LOG_DATALOADING_S])) {
        sg_figure both[2] = {p ? p->dataloading_s : none, p ? p->preprocessing_s : none};
        if (p) waiting = sg_figure_sum(both, 2);
        if (f->measured) waited = (isnan(waited) ? 0 : waited) + (isnan(prepared) ? 0 : prepared);
    }
    add(c, "dataloading_s", log[SG_LOG_DATALOADING_S], positive(waited), &waiting);
    if (apart) add(c, "preprocessing_s", log[SG_LOG_PREPROCESSING_S], prepared, p ? &p->preprocessing_s : NULL);
    add(c, "update_s", log[SG_LOG_UPDATE_S], measured_of(f, SG_Q_UPDATE), p ? &p->update_s : NULL);
    add(c, "step_s", log[SG_LOG_STEP_S], measured_of(f, SG_Q_STEP), p ? &p->step_s : NULL);
    double samples = (double)(f->config->batch * f->config->ranks), rate = log[SG_LOG_SAMPLES_PER_S];
    if (log[SG_LOG_STEP_S] > 0) rate = samples / log[SG_LOG_STEP_S];
    add(c, "samples_per_s", rate, f->measured ? positive(f->measured->samples_per_s) : NAN,
        p ? &p->samples_per_s : NULL);
}

static void ppo(const sg_compare_facts *f, const double *log, sg_comparison *c) {
    const sg_prediction *p = f->predicted;
    add(c, "collection_s", log[SG_LOG_COLLECTION_S], measured_of(f, SG_Q_COLLECTION), p ? &p->collection_s : NULL);
    add(c, "learning_s", log[SG_LOG_LEARNING_S], measured_of(f, SG_Q_LEARNING), p ? &p->learning_s : NULL);
    add(c, "iteration_s", log[SG_LOG_STEP_S], measured_of(f, SG_Q_ITERATION), p ? &p->iteration_s : NULL);
    double steps = (double)(f->config->envs * f->config->steps_per_env * f->config->ranks);
    add(c, "env_steps_per_s", steps / log[SG_LOG_STEP_S], f->measured ? positive(f->measured->env_steps_per_s) : NAN,
        p ? &p->env_steps_per_s : NULL);
}

/* ---- what the differences point to --------------------------------------------------------------------------------- */

static const sg_compared *phase(const sg_comparison *c, const char *name) {
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->phase[i].name, name) == 0) return &c->phase[i];
    return NULL;
}

static bool outside(const sg_compared *p) {
    return p && isfinite(p->log) && isfinite(p->predicted.value) && !p->inside;
}

/* Measurements of another kind of device say nothing of this one's times. */
static void by_measurement(const sg_compare_facts *f, const sg_compared *update, sg_comparison *c) {
    const sg_point *m = f->measured;
    if (!m || !f->exact || !update || !isfinite(update->by_measured)) return;
    if (strcmp(m->config.device, f->config->device) != 0) {
        find(c, "The measured point ran on %s, the log on %s: their ratio of %.2f compares devices, not programs",
             m->config.device, f->config->device, update->by_measured);
        return;
    }
    bool observed = strcmp(m->source, "observed") == 0;
    double ratio = update->by_measured;
    if (fabs(log(ratio)) < 0.1)
        find(c, "The log takes %.2f times what was measured: the same machine, within a tenth", ratio);
    else if (observed)
        find(c, "The log takes %.2f times what another log of this configuration shows: another host, or another load",
             ratio);
    else
        find(
            c,
            "The log takes %.2f times what this program's own kernels needed: the framework's factor for this step, if "
            "both ran on this machine ('stepgauge fit run.h5 %s --log LOG' makes it a parameter)",
            ratio, f->config->policy);
}

/* The alternative that fits time and memory at least three times as well as what was told. */
static bool by_alternative(const sg_compare_facts *f, const sg_compared *update, const sg_compared *peak,
                           sg_comparison *c) {
    bool memory = peak && isfinite(peak->by_predicted);
    double told = fabs(log(update->by_predicted)) + (memory ? fabs(log(peak->by_predicted)) : 0), least = told / 3;
    const sg_compare_alternative *best = NULL;
    for (size_t i = 0; i < f->n_alternatives; i++) {
        const sg_prediction *p = &f->alternatives[i].predicted;
        if (f->capacity_bytes > 0 && two_sided(&p->peak_allocated_bytes).low > f->capacity_bytes) continue;
        double error = fabs(log(update->log / p->update_s.value));
        if (memory) error += fabs(log(peak->log / p->peak_allocated_bytes.value));
        if (!(error < least)) continue;
        least = error;
        best = &f->alternatives[i];
    }
    if (!best) return false;
    find(c, "It looks like a training with %s: that would be predicted to update in %.3g s%s", best->what,
         best->predicted.update_s.value, memory ? ", and its memory fits as well" : "");
    return true;
}

static void by_prediction(const sg_compare_facts *f, const sg_compared *update, const char *what, sg_comparison *c) {
    if (!outside(update)) return;
    bool slower = update->log > update->predicted.high, by_host = f->predicted->device_busy_share < 0.7;
    double ratio = update->by_predicted;
    if (by_host)
        find(
            c,
            "The %s is %s: %.2f times the prediction, and the host decides it (the device is busy %.0f %% of it): a %s "
            "host; --host-speed %.2g would fit",
            what, slower ? "slower" : "faster", ratio, 100 * f->predicted->device_busy_share,
            slower ? "slower or shared" : "faster", 1 / ratio);
    else
        find(c,
             "The %s is %s: %.2f times the prediction, and the device decides it (busy %.0f %%): %s, or another "
             "configuration than was told (%lld cameras of %lldx%lld, %s, batch %lld)",
             what, slower ? "slower" : "faster", ratio, 100 * f->predicted->device_busy_share,
             slower ? "clocks held back, another load, a smaller GPU" : "a faster GPU, compiled kernels",
             (long long)f->config->cameras, (long long)f->config->image_height, (long long)f->config->image_width,
             f->config->precision, (long long)f->config->batch);
}

/* Whether it explains something. */
static bool by_loader(const sg_compared *data, const sg_compared *step, sg_comparison *c) {
    if (!outside(data) || !step) return false;
    bool slower = data->log > data->predicted.high;
    /* Neither matters where waiting is below a twentieth of the step. */
    if (fmax(data->log, data->predicted.value) < 0.05 * step->log) return false;
    find(c, "The loader is %s than predicted: %.3g s of waiting against %.3g s; %s", slower ? "slower" : "faster",
         data->log, data->predicted.value,
         slower ? "fewer or slower cores, larger frames, a busy disk, or frames without persistent workers"
                : "cached or smaller frames, more cores");
    return slower;
}

/* Behind a loader that is slower: the rest of the step's difference, below a tenth of the step, needs no cause of its own. A
 * memory that is another speaks for itself. */
static bool little_is_left(const sg_compared *update, const sg_compared *step, const sg_compared *peak) {
    if (!update || !step || outside(peak)) return false;
    return fabs(update->log - update->predicted.value) < 0.1 * step->log;
}

/* Another training is guessed at behind a slower loader only where memory bears it out, or where the loader explains less than
 * half: its workers slow the host's step as well. */
static bool may_be_another(const sg_compared *update, const sg_compared *step, const sg_compared *peak) {
    if (!update || !step || (peak && isfinite(peak->by_predicted))) return true;
    return fabs(update->log - update->predicted.value) > 0.5 * fabs(step->log - step->predicted.value);
}

static void by_memory(const sg_compared *peak, sg_comparison *c) {
    if (!outside(peak)) return;
    find(c,
         "Memory is %.2f times the prediction: bytes are known to a few per cent, so batch, cameras, image size, "
         "precision or checkpointing differ from what was told",
         peak->by_predicted);
}

/* What was trained fitted. */
static void by_capacity(const sg_compare_facts *f, const sg_compared *peak, sg_comparison *c) {
    double capacity = f->capacity_bytes;
    if (!peak || !(capacity > 0) || !(peak->predicted.low > capacity)) return;
    find(c,
         "It would need %.0f GiB, the machine has %.0f: as told it cannot have run there; lower precision, gradient "
         "checkpointing, a part of the weights alone, or another machine",
         peak->predicted.value / 0x1p30, capacity / 0x1p30);
}

static void by_environment(const sg_compare_facts *f, const sg_compared *collection, sg_comparison *c) {
    if (!outside(collection)) return;
    double steps = (double)f->config->envs * (double)f->config->steps_per_env;
    double left = collection->log - f->predicted->inference_s.value;
    find(c,
         "Collecting takes %.2f times the prediction: the simulator's own speed, which is known to a factor only; "
         "--env-step-us %.3g would fit",
         collection->by_predicted, 1e6 * fmax(0, left) / steps);
}

static void findings(const sg_compare_facts *f, sg_comparison *c) {
    const sg_compared *update = phase(c, "update_s"), *data = phase(c, "dataloading_s"), *step = phase(c, "step_s");
    const sg_compared *peak = phase(c, "peak_allocated_bytes"), *collection = phase(c, "collection_s");
    const sg_compared *learning = phase(c, "learning_s");
    by_measurement(f, learning ? learning : update, c);
    if (!f->predicted) return;
    size_t before = c->n_findings;
    bool loader = by_loader(data, step, c), done = loader && little_is_left(update, step, peak);
    bool guess = !done && (!loader || may_be_another(update, step, peak));
    bool explained = guess && outside(update) && by_alternative(f, update, peak, c);
    if (!done && !explained) by_prediction(f, update, "update", c);
    by_prediction(f, learning, "learning", c);
    if (!explained) by_memory(peak, c);
    by_capacity(f, peak, c);
    by_environment(f, collection, c);
    const sg_compared *whole = step ? step : phase(c, "iteration_s");
    if (c->n_findings > before || !whole || !isfinite(whole->by_predicted)) return;
    find(c, "The log agrees with the prediction: %.2f times it%s", whole->by_predicted,
         whole->inside ? ", inside the interval" : "");
}

sg_code sg_compare(const sg_compare_facts *f, sg_comparison *c, sg_status *status) {
    double log[SG_LOG_FIELDS];
    memset(c, 0, sizeof *c);
    c->only_window = sg_log_typical(f->log, log);
    if (!(log[SG_LOG_STEP_S] > 0))
        return sg_fail(status, SG_BAD_INPUT,
                       "the log has no steady step time: at least two windows are needed, the first is warm-up");
    if (f->config->envs > 0)
        ppo(f, log, c);
    else
        supervised(f, log, c);
    sg_figure bytes = f->predicted ? two_sided(&f->predicted->peak_allocated_bytes) : none;
    add(c, "peak_allocated_bytes", peak_of(f->log),
        f->measured ? positive((double)f->measured->peak_allocated_bytes) : NAN, &bytes);
    findings(f, c);
    return SG_OK;
}
