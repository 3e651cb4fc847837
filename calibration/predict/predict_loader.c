/* predict_loader.c: what the loader makes of a step: the producer clock beside the walk's steady state. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/fit/fit.h"
#include "calibration/loader/dataset_text.h"
#include "calibration/loader/loader_framework.h"
#include "calibration/predict/predict_work.h"
#include "calibration/statistics/width.h"

/* A batch handed over on a host that nobody measured: 3-4 ms for 15-29 MB, 11-15 ms for 88 MB in published logs. */
static const double HANDOVER_LOG_SD = 0.5;

/* Contention makes taking a ready batch longer than alone by up to this factor; longer medians wait for workers. */
static const double SLOWED_HANDOVER = 1.5;

/* A loader that can make this many times what the step takes has its batches ready, whatever differs from one to the next. */
static const double PLENTY = 1.5;

/* More workers than this per processor only deepen the queue. */
enum { WORKERS_PER_PROCESSOR = 4, WORKERS_LEAST = 64 };

/* The loader of one prediction. */
typedef struct outlook {
    sg_loader_law law;
    sg_loader_course course; /* with the step's value */
    sg_figure work;          /* of a batch */
    bool known_processors;
    bool measured, other;
    bool peers; /* the framework's own loader, by its factors */
    sg_loader_peer peer;
    const sg_loader_law *decode; /* frame_s is that of decoding alone, timed here; else NULL */
    double decoded_cost;         /* of a frame that is not decoded / of this one; 0: it is not */
} outlook;

static bool on_cpu(const sg_predict_work *w) {
    return sg_machine_device_class(&w->machine) == SG_DEVICE_CLASS_CPU;
}

static sg_dataset_text data_of(const sg_predict_work *w) {
    sg_dataset_text text = {0};
    if (!w->options->dataset || !sg_dataset_text_read(w->options->dataset, &text)) text = (sg_dataset_text){.gop = 0};
    /* what travels has the policy's size, what is decoded the camera's */
    if (!text.height) text.height = w->training->image_height;
    if (!text.width) text.width = w->training->image_width;
    return text;
}

/* Nothing of the data set was measured here, but its codec's decoding was: what a frame costs does not come by way of another
 * codec. What lies between sizes and key frames are the codec's factors, with a third of the distance as doubt. */
static void take_decode(const sg_predict_work *w, const sg_dataset_text *text, const sg_codec_cost *codec, double cost,
                        outlook *o) {
    static const double OF_DISTANCE = 0.3;
    const sg_fit *fit = w->options->fit;
    const sg_loader_law *decode =
        fit ? sg_loader_law_of_codec(fit->loaders, fit->n_loaders, text->codec, text->height, text->width, text->gop)
            : NULL;
    sg_dataset_text timed;
    if (!decode || !sg_dataset_text_read(decode->dataset, &timed)) return;
    double timed_cost = sg_codec_frame_cost(codec, timed.height, timed.width, timed.gop, 1);
    double doubt = hypot(hypot(decode->work_log_sd, SG_LOADER_CONTENT_LOG_SD), OF_DISTANCE * log(cost / timed_cost));
    o->law.frame_s = decode->frame_s * cost / timed_cost;
    double share = o->law.frame_s / (o->law.frame_s + o->law.sample_s);
    o->law.work_log_sd = hypot(share * doubt, (1 - share) * SG_LOADER_SAMPLE_LOG_SD);
    o->law.evidence = SG_EVIDENCE_CALIBRATED;
    o->decode = decode;
}

/* Rows of the chunk of actions that a sample asks for. */
static double action_rows_of(const sg_training *t) {
    for (size_t i = 0; i < t->n_inputs; i++) {
        const sg_desc *d = &t->tensors[t->inputs[i].tensor].desc;
        if (strcmp(t->inputs[i].name, "action") == 0 && d->ndim == 3) return (double)d->size[1];
    }
    return 1;
}

/* Our loader is not the trainer's ("Whose step is timed", docs/design.md). */
static sg_code by_framework(const sg_predict_work *w, outlook *o, sg_status *status) {
    const sg_training *t = w->training;
    if (w->request->framework == SG_FRAMEWORK_NATIVE) return SG_OK;
    sg_dataset_text text = data_of(w);
    double frames = (double)t->cameras * (double)t->frames_per_sample;
    sg_loader_ask ask = {.codec = text.codec,
                         .backend = w->options->video_backend,
                         .frames = frames,
                         .at_once = (double)t->frames_per_sample,
                         .action_rows = action_rows_of(t),
                         .pixels = frames * (double)text.height * (double)text.width};
    if (o->other) o->law.evidence = SG_EVIDENCE_CALIBRATED;
    sg_code code = sg_loader_law_by_framework(&w->machine, &ask, &o->law, &o->peer, &o->peers, status);
    if (!code && o->peers) o->law.evidence = (uint8_t)o->peer.evidence;
    return code;
}

static void find_law(const sg_predict_work *w, outlook *o) {
    const sg_training *t = w->training;
    sg_dataset_text text = data_of(w);
    sg_codec_cost codec = sg_codec_cost_of(w->codecs, text.codec), raw = sg_codec_cost_of(w->codecs, "raw");
    double cost = sg_codec_frame_cost(&codec, text.height, text.width, text.gop, t->frames_per_sample);
    double raw_cost = sg_codec_frame_cost(&raw, text.height, text.width, 1, 1);
    o->decoded_cost = strcmp(codec.name, "raw") == 0 || raw_cost >= cost ? 0 : raw_cost / cost;
    const sg_loader_law *found = NULL;
    if (w->options->fit && w->options->dataset)
        found = sg_loader_law_find(w->options->fit->loaders, w->options->fit->n_loaders, w->options->dataset,
                                   w->options->layer, &o->other);
    o->measured = found != NULL;
    if (!found) {
        o->law = sg_loader_law_of_machine(&w->machine, cost, codec.log_sd);
        take_decode(w, &text, &codec, cost, o);
        /* a CPU's step takes its batch where the worker left it: nothing is pinned and copied */
        if (on_cpu(w) && !isfinite(w->machine.p[SG_M_HANDOVER_S].value)) o->law.handover_s = 0;
        return;
    }
    o->law = *found;
    /* other observation steps: frames on the way from a key frame are shared by more or fewer */
    double measured_cost =
        sg_codec_frame_cost(&codec, text.height, text.width, text.gop, (int64_t)(found->frames_per_camera + 0.5));
    o->law.frame_s *= cost / measured_cost;
}

/* Processors of one process and its workers; unknown: more than they can want. */
static double processors_of(const sg_predict_work *w, const outlook *o, bool *known) {
    double host = w->options->processors > 0 ? w->options->processors : w->machine.vcpus;
    /* a measured process may have been held to fewer than the host has */
    double measured = o->law.processors * sg_ranks_of_node(w);
    if (!(w->options->processors > 0) && o->measured && measured > 0) host = fmin(host > 0 ? host : measured, measured);
    *known = host > 0;
    return *known ? fmax(host / sg_ranks_of_node(w), 0.25) : SG_LOADER_WORKERS_MAX;
}

/* Processors that the step keeps busy: all of its threads on a CPU, the host's share of the time beside a GPU. */
static double threads_of(const sg_predict_work *w, const outlook *o) {
    const sg_virtual_report *r = &w->walked.report;
    if (w->options->paused) return 0;
    if (!on_cpu(w)) return r->host_s > 0 ? fmin(1, r->host_busy_s / r->host_s) : 1;
    double units = w->machine.units > 0 ? w->machine.units : 1;
    return fmax(1, units * (o->law.step_busy > 0 ? o->law.step_busy : 1));
}

static void set_course(const sg_predict_work *w, const sg_figure *compute, outlook *o) {
    const sg_training *t = w->training;
    int workers = w->options->workers;
    sg_loader_load load = {.batch = t->batch,
                           .cameras = t->cameras,
                           .frames_per_camera = t->frames_per_sample,
                           .prefetch = w->options->prefetch,
                           .step_threads = threads_of(w, o),
                           .step_s = compute->value,
                           .step_on_processors = on_cpu(w) && !w->options->paused};
    load.batch_bytes = 3 * (double)t->batch * (double)t->cameras * (double)t->frames_per_sample *
                       (double)t->image_height * (double)t->image_width;
    load.processors = processors_of(w, o, &o->known_processors);
    int most = (int)fmin(WORKERS_PER_PROCESSOR * load.processors, SG_LOADER_WORKERS_MAX);
    if (most < WORKERS_LEAST) most = WORKERS_LEAST;
    load.workers = workers < most ? workers : most;
    o->course = sg_loader_course_of(&o->law, &load);
}

static void set_work(const sg_predict_work *w, outlook *o) {
    const sg_loader_course *c = &o->course;
    double running = fmax(1, c->workers + (c->workers ? c->step_threads : 0));
    double slower = sg_loader_contention(c->sigma, c->kappa, running, c->processors);
    double of_contention = (slower - 1) / slower * o->law.contention_log_sd;
    double seen = fmax(o->law.residual_log_sd, o->law.left_out_log_sd);
    sg_evidence evidence = o->other ? SG_EVIDENCE_CALIBRATED : (sg_evidence)o->law.evidence;
    double width = o->measured && !o->other ? seen : hypot(seen, sg_width(SG_LIMIT_LOADER, evidence));
    sg_log_sd parts = {.parameters = hypot(o->law.work_log_sd, of_contention),
                       .model = hypot(width, o->other ? SG_LOADER_CONTENT_LOG_SD : 0),
                       .inputs = sg_cameras_log_sd(w)};
    o->work = sg_figure_make(c->batch_cpu_s, parts, evidence, w->interval);
}

/* The clock with another step and another work than the course's. */
static sg_code clock_at(const outlook *o, double step_s, double work_s, sg_loader_waits *waits, sg_status *status) {
    static const double MOST_S = 1e9; /* bounds of what is hardly known may be infinite */
    sg_loader_course c = o->course;
    c.step_s = fmin(step_s, MOST_S);
    work_s = fmin(work_s, MOST_S);
    c.batch_wait_s *= work_s / c.batch_cpu_s;
    c.batch_cpu_s = work_s;
    return sg_loader_clock(&c, waits, status);
}

/* The consumer alone with batches that are ready. */
static void ready(const outlook *o, sg_loader_waits *waits) {
    const sg_loader_course *c = &o->course;
    *waits = (sg_loader_waits){.period_s = c->step_s + c->handover_s,
                               .step_s = c->step_s,
                               .mean_s = c->handover_s,
                               .p50_s = c->handover_s,
                               .p90_s = c->handover_s,
                               .p99_s = c->handover_s,
                               .max_s = c->handover_s,
                               .first_batch_s = c->batch_cpu_s + c->batch_wait_s,
                               .batch_s = c->batch_cpu_s + c->batch_wait_s,
                               .batch_cpu_s = c->batch_cpu_s};
}

static double left_for_workers(const sg_loader_course *c) {
    return c->workers ? sg_loader_left(c, c->processors) : c->processors;
}

static bool has_plenty(const outlook *o, const sg_figure *compute) {
    sg_loader_course c = o->course;
    if (c.workers == 0 || c.step_on_processors) return false;
    c.batch_wait_s *= o->work.high / c.batch_cpu_s;
    c.batch_cpu_s = o->work.high;
    return sg_loader_rate(&c, c.workers, left_for_workers(&c)) * (compute->low + c.handover_s) > PLENTY;
}

/* Periods and waits with each of compute and work at its bounds, and the figures from them. */
static sg_code set_figures(sg_predict_work *w, const sg_figure *compute, const outlook *o, const sg_loader_waits *at,
                           sg_status *status) {
    sg_prediction *p = w->out;
    const sg_loader_course *c = &o->course;
    sg_log_sd handover_sd = {.model = o->measured ? 0.1 : HANDOVER_LOG_SD};
    sg_figure handover = sg_figure_make(c->handover_s, handover_sd, (sg_evidence)o->law.evidence, w->interval);
    const sg_figure inputs[3] = {*compute, o->work, handover};
    double step[2][3], wait[2][3];
    for (int side = 0; side < 2; side++) {
        sg_loader_waits of_compute, of_work;
        sg_code code = clock_at(o, side ? compute->high : compute->low, c->batch_cpu_s, &of_compute, status);
        if (!code) code = clock_at(o, c->step_s, side ? o->work.high : o->work.low, &of_work, status);
        if (code) return code;
        /* a ready batch is handed over between steps, slowed by the workers beside it; where none is ready the next one is made
         * meanwhile */
        double later =
            at->p50_s <= SLOWED_HANDOVER * c->handover_s ? (side ? handover.high : handover.low) - c->handover_s : 0;
        step[side][0] = of_compute.period_s;
        step[side][1] = of_work.period_s;
        step[side][2] = at->period_s + later;
        wait[side][0] = of_compute.mean_s;
        wait[side][1] = of_work.mean_s;
        wait[side][2] = at->mean_s + later;
    }
    p->step_s = sg_figure_of(at->period_s, inputs, step[0], step[1], 3);
    p->dataloading_s = sg_figure_of(at->mean_s, inputs, wait[0], wait[1], 3);
    return SG_OK;
}

static void set_ready_figures(sg_predict_work *w, const sg_figure *compute, const outlook *o) {
    sg_prediction *p = w->out;
    sg_log_sd handover_sd = {.model = o->measured ? 0.1 : HANDOVER_LOG_SD};
    sg_figure terms[2] = {*compute,
                          sg_figure_make(o->course.handover_s, handover_sd, (sg_evidence)o->law.evidence, w->interval)};
    p->step_s = sg_figure_sum(terms, 2);
    p->dataloading_s = terms[1];
}

/* ---- outlook ------------------------------------------------------------------------------------------------------- */

static void set_source(const sg_predict_work *w, const outlook *o, sg_loader_outlook *out) {
    char peer[96] = "";
    if (o->peers)
        (void)snprintf(peer, sizeof peer, "; a frame by the trainer's loader takes %.3g x ours, %.30s",
                       o->peer.frame_factor, o->peer.source);
    if (o->measured)
        (void)snprintf(out->source, sizeof out->source, "measured here: %.120s%s%s%s", o->law.dataset,
                       o->law.layer[0] ? ", " : "", o->law.layer, peer);
    else if (o->decode)
        (void)snprintf(out->source, sizeof out->source, "bench decode here: %.80s%s", o->decode->dataset, peer);
    else
        (void)snprintf(out->source, sizeof out->source, "frame_s of %.60s: %.80s%s", w->machine.name,
                       w->machine.p[SG_M_FRAME_S].source, peer);
    out->by_framework = o->peers;
    out->frame_factor = o->peers ? o->peer.frame_factor : 1;
}

static void set_outlook(sg_predict_work *w, const sg_figure *compute, const outlook *o, const sg_loader_waits *at,
                        double epoch_end_s) {
    const sg_loader_course *c = &o->course;
    sg_loader_outlook *out = &w->out->loader;
    double samples = (double)w->training->batch * w->ranks, needed = 1 / fmax(compute->value + c->handover_s, 1e-9);
    double left = left_for_workers(c), rate = sg_loader_rate(c, c->workers, left);
    sg_loader_course decoded = *c;
    double frames = (double)(w->training->cameras * w->training->frames_per_sample * w->training->batch);
    decoded.batch_cpu_s -= (1 - o->decoded_cost) * frames * o->law.frame_s;
    *out = (sg_loader_outlook){.modelled = true,
                               .wait_p50_s = at->p50_s,
                               .wait_p90_s = at->p90_s,
                               .wait_p99_s = at->p99_s,
                               .wait_max_s = at->max_s,
                               .stalled_share = at->stalled_share,
                               .stall_every = at->stall_every,
                               .first_batch_s = at->first_batch_s,
                               .epoch_end_s = epoch_end_s,
                               .samples_per_s = sg_figure_scaled(&o->work, samples * rate * c->batch_cpu_s, -1),
                               .demand_samples_per_s = samples * needed,
                               .processors = o->known_processors ? c->processors : 0,
                               .workers_needed = sg_loader_workers_for(c, needed),
                               .processors_needed = sg_loader_processors_for(c, needed),
                               .batch_cpu_s = c->batch_cpu_s,
                               .update_stretch = c->step_s > 0 ? at->step_s / c->step_s : 1};
    if (o->decoded_cost > 0)
        out->decoded_samples_per_s =
            samples * fmin(needed, sg_loader_rate(&decoded, c->workers, left_for_workers(&decoded)));
    set_source(w, o, out);
}

static void stretch(sg_predict_work *w, double factor) {
    sg_prediction *p = w->out;
    p->update_s = sg_figure_scaled(&p->update_s, factor, 1);
    p->preprocessing_s = sg_figure_scaled(&p->preprocessing_s, factor, 1);
}

static sg_code decoding(sg_predict_work *w, const sg_figure *compute, bool *limits, sg_status *status) {
    outlook o = {0};
    sg_loader_waits at;
    double epoch_end_s = 0;
    find_law(w, &o);
    sg_code code = by_framework(w, &o, status);
    if (code) return code;
    set_course(w, compute, &o);
    set_work(w, &o);
    if (w->options->batches_ready || has_plenty(&o, compute)) {
        ready(&o, &at);
        set_ready_figures(w, compute, &o);
        epoch_end_s = at.first_batch_s;
    } else {
        code = sg_loader_clock(&o.course, &at, status);
        if (!code) code = set_figures(w, compute, &o, &at, status);
        if (!code) code = sg_loader_epoch_end(&o.course, &epoch_end_s, status);
    }
    if (code) return sg_fail_in(status, "its loader");
    set_outlook(w, compute, &o, &at, epoch_end_s);
    if (o.course.step_on_processors && o.course.step_s > 0) stretch(w, at.step_s / o.course.step_s);
    double feeds_s = 1 / sg_loader_rate(&o.course, o.course.workers, left_for_workers(&o.course));
    /* in line nothing overlaps: decoding limits where it takes longer than the step; on shared processors where the step waits */
    *limits = !w->options->batches_ready &&
              (o.course.workers == 0 || !o.course.step_on_processors ? feeds_s > compute->value + o.course.handover_s
                                                                     : at.mean_s > at.step_s);
    if (*limits && o.known_processors && o.course.workers > o.course.processors)
        sg_predict_warn(w->out, "the loader limits: %d workers (%d for each process) share %.0f vCPUs",
                        w->options->workers * sg_ranks_of_node(w), w->options->workers,
                        o.course.processors * sg_ranks_of_node(w));
    return SG_OK;
}

sg_code sg_predict_loader(sg_predict_work *w, const sg_figure *compute, bool *limits, sg_status *status) {
    sg_prediction *p = w->out;
    sg_figure pause = sg_figure_make(w->options->pause_s, (sg_log_sd){0}, SG_EVIDENCE_OBSERVED, w->interval);
    *limits = false;
    if (w->options->paused) {
        p->update_s = pause;
        p->preprocessing_s = sg_figure_make(0, (sg_log_sd){0}, SG_EVIDENCE_OBSERVED, w->interval);
        compute = &pause;
    }
    if (w->training->cameras > 0 && compute->value >= 0) return decoding(w, compute, limits, status);
    p->step_s = *compute;
    p->dataloading_s = sg_figure_make(0, (sg_log_sd){0}, SG_EVIDENCE_OBSERVED, w->interval);
    return SG_OK;
}
