#include "calibration/loader/fit_loaders.h"

#include "calibration/fit/fit_laws.h"
#include "calibration/loader/codec_table.h"
#include "calibration/loader/dataset_text.h"
#include "calibration/loader/loader_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sg_point_is_paused(const sg_point *point) {
    return strstr(point->config.execution, "pause=") != NULL;
}

static double micro_steps(const sg_point *p) {
    return (double)(p->config.accumulation > 0 ? p->config.accumulation : 1);
}

static bool on_processors(const sg_point *p) {
    return strcmp(p->config.device, "cpu") == 0 && !sg_point_is_paused(p);
}

static double step_of(const sg_point *p) {
    double preprocessing_s = p->q[SG_Q_PREPROCESSING].mean, update_s = p->q[SG_Q_UPDATE].mean;
    return ((preprocessing_s > 0 ? preprocessing_s : 0) + (update_s > 0 ? update_s : 0)) / micro_steps(p);
}

/* Of the training process itself, which decodes nothing: without workers a process of its own makes each batch. */
static double step_cpu_of(const sg_point *p) {
    return p->loader.step_cpu_s / micro_steps(p);
}

/* From these shares of the processors on, wall-clock is more the other processes' than the loader's; what the hypervisor or a
 * quota withholds comes in pieces that no mean describes. */
static const double CROWDED_SHARE = 0.2, WITHHELD_SHARE = 0.05;

/* A file may say anything. */
static double others_of(const sg_point *p) {
    return isfinite(p->other_processors) ? fmax(0, p->other_processors) : 0;
}

static bool is_crowded(const sg_point *p, double processors) {
    return others_of(p) > CROWDED_SHARE * processors || p->withheld_share > WITHHELD_SHARE;
}

static sg_loader_row row_of(const sg_point *p) {
    const sg_loader_record *r = &p->loader;
    double samples = (double)r->batches * (double)p->config.batch * (double)p->config.cameras;
    int64_t frames = samples > 0 ? (int64_t)((double)r->frames / samples + 0.5) : 1;
    if (frames < 1) frames = 1;
    double pixels = (double)p->config.image_height * (double)p->config.image_width;
    double ranks = (double)(p->config.ranks > 0 ? p->config.ranks : 1);
    double processors = r->processors > 0 ? (double)r->processors : (double)p->config.threads;
    sg_loader_row row = {
        .load = {.batch = p->config.batch,
                 .cameras = p->config.cameras,
                 .frames_per_camera = frames,
                 .batch_bytes = 3 * pixels * (double)p->config.batch * (double)p->config.cameras * (double)frames,
                 .workers = (int)p->config.workers,
                 .prefetch = (int)r->prefetch,
                 .epoch = r->epochs > 0 ? r->batches / r->epochs : 0,
                 .processors = fmax(1, processors / ranks),
                 .step_on_processors = on_processors(p)},
        .disturbed = p->disturbed,
        .others = others_of(p) / ranks,
        .crowded = is_crowded(p, processors),
        .period_s = p->q[SG_Q_STEP].mean / micro_steps(p),
        .step_s = step_of(p),
        .wait_p50_s = r->wait_p50_s,
        .stalled_share = r->stalled_share,
        .batch_s = r->batch_s,
        .batch_cpu_s = r->batch_cpu_s,
        .batch_log_sd = r->batch_log_sd,
        .frame_cpu_s = r->frame_cpu_s,
        .sample_cpu_s = r->sample_cpu_s};
    return row;
}

static bool usable(const sg_point *p) {
    const sg_loader_record *r = &p->loader;
    return p->config.dataset[0] && r->batches > 0 && p->config.batch > 0 && p->config.cameras > 0 &&
           p->config.workers >= 0 && p->config.workers <= SG_LOADER_WORKERS_MAX && r->prefetch >= 0 &&
           r->prefetch <= 1024 && p->q[SG_Q_STEP].mean > 0;
}

static bool same_data(const sg_point *a, const sg_point *b) {
    return strcmp(a->config.dataset, b->config.dataset) == 0 && strcmp(a->config.layer, b->config.layer) == 0;
}

/* The same step but for what workers do to it. */
static bool same_step(const sg_point *a, const sg_point *b) {
    const sg_point_config *x = &a->config, *y = &b->config;
    return strcmp(x->policy, y->policy) == 0 && strcmp(x->framework, y->framework) == 0 &&
           strcmp(x->device, y->device) == 0 && strcmp(x->precision, y->precision) == 0 &&
           strcmp(x->settings, y->settings) == 0 && strcmp(x->host, y->host) == 0 && x->host_op_ns == y->host_op_ns &&
           strcmp(x->execution, y->execution) == 0 && x->batch == y->batch && x->ranks == y->ranks &&
           x->accumulation == y->accumulation && x->threads == y->threads && x->cameras == y->cameras &&
           x->image_height == y->image_height && x->image_width == y->image_width &&
           a->loader.update_s == b->loader.update_s && a->loader.processors == b->loader.processors;
}

/* Processors that the group's step keeps busy: its processor seconds over its time where workers slow it least. */
static double threads_of(const sg_point *const *points, const int *group, size_t n, int g) {
    double step_s = INFINITY, cpu_s = 0, threads = 1;
    for (size_t i = 0; i < n; i++) {
        if (group[i] != g) continue;
        threads = on_processors(points[i]) ? (double)points[i]->config.threads : 1;
        if (row_of(points[i]).crowded) continue; /* how long it took is not its own */
        double own_s = step_cpu_of(points[i]);
        step_s = fmin(step_s, step_of(points[i]));
        if (own_s > 0 && (cpu_s == 0 || own_s < cpu_s)) cpu_s = own_s;
    }
    if (!(threads >= 1)) threads = 1;
    if (!(cpu_s > 0) || !(step_s > 0) || !isfinite(step_s)) return threads;
    return fmin(threads, cpu_s / step_s);
}

static int find_groups(const sg_point *const *points, size_t n, int *group) {
    int groups = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < i && !same_step(points[i], points[k])) k++;
        group[i] = k < i ? group[k] : groups++;
    }
    return groups;
}

/* Points of more kinds of step than a fit tells apart are left out. */
static size_t rows_of(const sg_point *const *points, size_t n, sg_loader_row *rows) {
    int group[SG_LOADER_ROWS_MAX];
    size_t kept = 0;
    int groups = find_groups(points, n, group);
    double threads[SG_LOADER_GROUPS_MAX];
    for (int g = 0; g < groups && g < SG_LOADER_GROUPS_MAX; g++) threads[g] = threads_of(points, group, n, g);
    for (size_t i = 0; i < n; i++) {
        if (group[i] >= SG_LOADER_GROUPS_MAX) continue;
        rows[kept] = row_of(points[i]);
        rows[kept].group = group[i];
        rows[kept++].load.step_threads = sg_point_is_paused(points[i]) ? 0 : threads[group[i]];
    }
    return kept;
}

static sg_code add(sg_fit *fit, const sg_loader_law *law, sg_status *status) {
    sg_loader_law *grown = realloc(fit->loaders, (fit->n_loaders + 1) * sizeof *grown);
    if (!grown) return sg_fail_memory(status, (fit->n_loaders + 1) * sizeof *grown, "loaders");
    fit->loaders = grown;
    fit->loaders[fit->n_loaders++] = *law;
    return SG_OK;
}

static int worker_counts(const sg_loader_row *rows, size_t n) {
    int counts = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < i && rows[k].load.workers != rows[i].load.workers) k++;
        counts += k == i;
    }
    return counts;
}

/* Mean over what trains on these processors. rows: of the points, one each. */
static double busy_of(const sg_point *const *points, const sg_loader_row *rows, size_t n) {
    double sum = 0, counted = 0;
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].load.step_on_processors || points[i]->config.threads < 1) continue;
        sum += fmin(1, rows[i].load.step_threads / (double)points[i]->config.threads);
        counted++;
    }
    return counted > 0 ? sum / counted : 0;
}

static void note_crowd(sg_fit *fit, const sg_loader_law *law, const sg_loader_row *rows, size_t n) {
    size_t crowded = 0;
    double others = 0;
    for (size_t i = 0; i < n; i++) {
        crowded += rows[i].crowded;
        if (rows[i].crowded) others = fmax(others, rows[i].others);
    }
    if (!crowded) return;
    char used[64] = "";
    if (others > 0) (void)snprintf(used, sizeof used, " (up to %.1f of %.0f processors)", others, law->processors);
    sg_fit_note(fit,
                "loader of %.80s, %s: %zu of %zu points beside other processes%s: they tell processor seconds alone%s; "
                "measure again when the machine is idle",
                law->dataset, law->layer, crowded, n, used,
                law->wait_s > 0 && crowded == n ? ", and the wait for the disk is theirs in part" : "");
}

static sg_code fit_one(sg_fit *fit, const sg_point *const *points, size_t n, sg_status *status) {
    sg_loader_law law = {0};
    sg_loader_row *rows = calloc(n, sizeof *rows);
    if (!rows) return sg_fail_memory(status, n * sizeof *rows, "a loader's fit");
    memcpy(law.dataset, points[0]->config.dataset, sizeof law.dataset);
    memcpy(law.layer, points[0]->config.layer, sizeof points[0]->config.layer);
    size_t kept = rows_of(points, n, rows);
    sg_code code = sg_loader_fit(rows, kept, &law, NULL, status);
    if (kept == n) law.step_busy = busy_of(points, rows, kept);
    int counts = worker_counts(rows, kept);
    if (!code && counts < 3)
        sg_fit_note(fit, "loader of %.80s: %d worker count(s); contention is told from three, --workers 0,1,2,4",
                    law.dataset, counts);
    if (!code) note_crowd(fit, &law, rows, kept);
    free(rows);
    return code ? code : add(fit, &law, status);
}

/* ---- the machine --------------------------------------------------------------------------------------------------- */

static void set_parameter(sg_machine *m, sg_machine_id id, double value, double log_sd, const char *origin) {
    sg_machine_parameter *p = &m->p[id];
    if (!(value > 0) || !isfinite(value)) return;
    *p = (sg_machine_parameter){.value = value, .log_sd = log_sd, .evidence = SG_EVIDENCE_CALIBRATED};
    (void)snprintf(p->source, sizeof p->source, "%.119s", origin);
    if (!m->covariance) return;
    for (size_t j = 0; j < SG_M_COUNT; j++)
        m->covariance[(size_t)id * SG_M_COUNT + j] = m->covariance[j * SG_M_COUNT + (size_t)id] = 0;
    m->covariance[(size_t)id * (SG_M_COUNT + 1)] = log_sd * log_sd;
}

/* The law that the machine's parameters are read off: the surest, where its frames' cost can be told apart from their codec. */
static sg_code set_machine(sg_fit *fit, const char *origin, sg_status *status) {
    sg_codec_table table;
    const sg_loader_law *best = NULL;
    double best_doubt = INFINITY, best_relative = 1;
    if (!fit->n_loaders) return SG_OK;
    sg_code code = sg_codec_table_load(NULL, &table, status);
    for (size_t i = 0; i < fit->n_loaders && !code; i++) {
        const sg_loader_law *law = &fit->loaders[i];
        sg_dataset_text text;
        if (!sg_dataset_text_read(law->dataset, &text)) continue;
        sg_codec_cost codec = sg_codec_cost_of(&table, text.codec);
        double doubt = hypot(hypot(law->work_log_sd, codec.log_sd), SG_LOADER_CONTENT_LOG_SD);
        if (doubt >= best_doubt) continue;
        best = law;
        best_doubt = doubt;
        best_relative = sg_codec_frame_cost(&codec, text.height, text.width, text.gop, (int64_t)law->frames_per_camera);
    }
    if (code || !best) return code;
    sg_machine *m = &fit->machine;
    double doubt = fmax(best->contention_log_sd, 0.1);
    set_parameter(m, SG_M_FRAME_S, best->frame_s / best_relative, best_doubt, origin);
    if (best->told & SG_LOADER_TOLD_SAMPLE) set_parameter(m, SG_M_SAMPLE_S, best->sample_s, 0.3, origin);
    if (best->told & SG_LOADER_TOLD_SIGMA) set_parameter(m, SG_M_LOADER_SIGMA, best->sigma, doubt, origin);
    if (best->told & SG_LOADER_TOLD_KAPPA) set_parameter(m, SG_M_LOADER_KAPPA, best->kappa, doubt, origin);
    if (best->told & SG_LOADER_TOLD_HANDOVER) {
        set_parameter(m, SG_M_HANDOVER_S, best->handover_s, 0.3, origin);
        set_parameter(m, SG_M_HANDOVER_BANDWIDTH, best->handover_bandwidth, 0.3, origin);
    }
    return SG_OK;
}

static bool all_paused(const sg_point *const *points, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!sg_point_is_paused(points[i])) return false;
    return n > 0;
}

sg_code sg_fit_loaders(const sg_point *const *points, size_t n, const char *origin, sg_fit *fit, sg_status *status) {
    bool *done = calloc(n ? n : 1, sizeof *done);
    const sg_point **group = calloc(n ? n : 1, sizeof(const sg_point *));
    sg_code code = done && group ? SG_OK : sg_fail_memory(status, n * sizeof *group, "a fit");
    for (size_t i = 0; i < n && !code; i++) {
        size_t members = 0;
        for (size_t k = i; k < n && !done[i]; k++) {
            if (done[k] || !usable(points[k]) || !same_data(points[i], points[k])) continue;
            done[k] = k > i;
            if (members < SG_LOADER_ROWS_MAX) group[members++] = points[k];
        }
        if (members && usable(points[i])) code = fit_one(fit, group, members, status);
    }
    free(group);
    free(done);
    if (!code && all_paused(points, n))
        sg_fit_note(fit, "a pause stood in for every update: the loader was measured alone, the step is still the data "
                         "sheet's (measure POLICY without --update-s and --loader-only)");
    return code ? code : set_machine(fit, origin, status);
}

/* ---- what was timed of decoding alone ------------------------------------------------------------------------------ */

/* A disturbed row may be this far off, log sd. */
static const double DECODE_LOG_SD = 0.03, DISTURBED_LOG_SD = 0.2;

static bool is_decode(const sg_micro *m) {
    return strcmp(m->config.bench, "decode") == 0 && strcmp(m->config.access, "shuffled") == 0 && m->s.median > 0 &&
           isfinite(m->s.median) && m->config.m > 0 && m->config.n > 0;
}

static sg_loader_law law_of_decode(const sg_micro *m) {
    sg_loader_law law = sg_loader_law_prior();
    sg_loader_decode_text(m->config.what, m->config.m, m->config.n, m->config.k, law.dataset);
    (void)snprintf(law.layer, sizeof law.layer, "cached");
    law.frame_s = m->s.median;
    law.points = (double)m->iterations;
    law.cameras = 1;
    double spread = m->s.high > m->s.low ? (m->s.high - m->s.low) / m->s.median / 4 : 0;
    law.work_log_sd = hypot(spread, m->disturbed ? DISTURBED_LOG_SD : DECODE_LOG_SD);
    law.residual_log_sd = law.work_log_sd;
    law.evidence = SG_EVIDENCE_MEASURED;
    return law;
}

/* The row that the machine's frame_s is surest from. */
static sg_code set_machine_of_decodes(const sg_loader_law *laws, size_t n, const char *origin, sg_machine *m,
                                      sg_status *status) {
    sg_codec_table table;
    const sg_loader_law *best = NULL;
    double best_doubt = INFINITY, best_relative = 1;
    sg_code code = sg_codec_table_load(NULL, &table, status);
    for (size_t i = 0; i < n && !code; i++) {
        sg_dataset_text text;
        if (!sg_dataset_text_read(laws[i].dataset, &text)) continue;
        sg_codec_cost codec = sg_codec_cost_of(&table, text.codec);
        double doubt = hypot(hypot(laws[i].work_log_sd, codec.log_sd), SG_LOADER_CONTENT_LOG_SD);
        if (doubt >= best_doubt) continue;
        best = &laws[i];
        best_doubt = doubt;
        best_relative = sg_codec_frame_cost(&codec, text.height, text.width, text.gop, 1);
    }
    if (!code && best) set_parameter(m, SG_M_FRAME_S, best->frame_s / best_relative, best_doubt, origin);
    return code;
}

/* Processes as many as there are processors, beside one alone: mean over rows. */
static void set_contention_of_decodes(const sg_run *run, const char *origin, sg_machine *m) {
    double sum = 0, squares = 0, n = 0;
    for (size_t i = 0; i < run->n_micros; i++) {
        const sg_micro *d = &run->micros[i];
        if (!is_decode(d) || d->config.ranks < 2 || !(d->alone_s > 0) || !isfinite(d->alone_s)) continue;
        double sigma = fmax(1e-3, (d->s.median / d->alone_s - 1) / (double)(d->config.ranks - 1));
        sum += log(sigma);
        squares += log(sigma) * log(sigma);
        n++;
    }
    if (n < 1) return;
    double mean = sum / n, sd = sqrt(fmax(0, squares / n - mean * mean));
    set_parameter(m, SG_M_LOADER_SIGMA, exp(mean), fmax(sd, 0.5), origin);
}

sg_code sg_fit_decodes(const sg_run *run, const char *origin, sg_fit *fit, sg_status *status) {
    size_t before = fit->n_loaders;
    sg_code code = SG_OK;
    for (size_t i = 0; i < run->n_micros && !code; i++) {
        const sg_micro *m = &run->micros[i];
        if (!is_decode(m) || m->config.ranks > 1) continue;
        sg_loader_law law = law_of_decode(m);
        code = add(fit, &law, status);
    }
    if (code || before || fit->n_loaders == before) return code;
    set_contention_of_decodes(run, origin, &fit->machine);
    return set_machine_of_decodes(fit->loaders, fit->n_loaders, origin, &fit->machine, status);
}

/* ---- what workers did to a step ------------------------------------------------------------------------------------ */

/* Law of the point's loader: its data set's, or, for synthetic frames, as its workers' own clock had it. */
static bool law_of(const sg_fit *fit, const sg_point *p, sg_loader_law *law) {
    bool other;
    if (!p->config.dataset[0]) {
        *law = sg_loader_law_prior();
        law->frame_s = p->frame_s;
        law->sample_s = law->handover_s = 0;
        return p->frame_s > 0;
    }
    const sg_loader_law *found =
        sg_loader_law_find(fit->loaders, fit->n_loaders, p->config.dataset, p->config.layer, &other);
    if (found) *law = *found;
    return found && !other;
}

sg_code sg_loader_stretch(const sg_fit *fit, const sg_point *point, double *stretch, sg_status *status) {
    enum { ROUNDS = 4 }; /* the stretch depends little on the step: it settles at once */
    sg_loader_law law;
    *stretch = 1;
    double measured_s = step_of(point);
    if (!on_processors(point) || point->config.workers <= 0 || point->config.workers > SG_LOADER_WORKERS_MAX ||
        point->config.cameras <= 0 || point->config.batch <= 0 || !(measured_s > 0) || !law_of(fit, point, &law))
        return SG_OK;
    sg_loader_row row = row_of(point);
    double cpu_s = step_cpu_of(point), threads = (double)point->config.threads;
    row.load.step_s = measured_s;
    for (int i = 0; i < ROUNDS; i++) {
        row.load.step_threads = fmax(1, cpu_s > 0 ? fmin(threads, cpu_s / row.load.step_s) : threads);
        sg_loader_course course = sg_loader_course_of(&law, &row.load);
        sg_loader_waits waits;
        sg_code code = sg_loader_clock(&course, &waits, status);
        if (code) return sg_fail_in(status, "the loader of a measured point");
        *stretch = fmax(1, waits.step_s / row.load.step_s);
        row.load.step_s = measured_s / *stretch;
    }
    return SG_OK;
}
