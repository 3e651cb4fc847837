/* measure_pause.c: a loader measured by itself. A pause stands in for preprocessing and update: what a host without the GPU can
 * say of the data side. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/clock.h"
#include "sim/measure/host_state.h"
#include "sim/measure/measure_loader.h"

typedef struct session {
    const sg_training *training;
    const sg_measure_options *options;
    sg_measured_loader real;
    sg_loader *loader; /* the real one, or one of synthetic batches */
    bool owns_loader;
    sg_record record;
    double start_s, iteration_s;
} session;

/* The host sleeps, as it may while a GPU works. */
static void wait_until(double at_s) {
    double whole = floor(at_s);
    const struct timespec at = {.tv_sec = (time_t)whole, .tv_nsec = (long)(1e9 * (at_s - whole))};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) {
    }
}

static sg_code one_step(session *s, sg_step_times *times, sg_status *status) {
    *times = (sg_step_times){0};
    int64_t batches = s->training->accumulation > 0 ? s->training->accumulation : 1;
    double start = sg_clock_s();
    for (int64_t i = 0; i < batches; i++) {
        void *const *data;
        double unused, asked = sg_clock_s();
        sg_code code = sg_loader_next(s->loader, asked, &data, &unused, status);
        if (code) return code;
        double got = sg_clock_s();
        if (s->options->update_s > 0) wait_until(got + s->options->update_s / (double)batches);
        times->dataloading_s += got - asked;
        times->update_s += sg_clock_s() - got;
    }
    times->step_s = s->iteration_s = sg_clock_s() - start;
    return SG_OK;
}

static sg_code open_session(session *s, sg_status *status) {
    sg_code code = sg_measured_loader_open(s->training, s->options, &s->real, status);
    if (code) return code;
    s->loader = s->real.loader;
    if (s->loader) return SG_OK;
    sg_loader_options loader = sg_loader_options_of(s->training, s->options);
    code = sg_loader_open(&loader, &s->loader, status);
    s->owns_loader = !code;
    return code;
}

static void close_session(session *s) {
    if (s->owns_loader) sg_loader_close(s->loader);
    sg_measured_loader_close(&s->real);
    sg_record_clear(&s->record);
}

static bool is_stopped(const session *s) {
    return s->options->stop && *s->options->stop;
}

static sg_code interrupted(sg_status *status) {
    return sg_fail(status, SG_MACHINE, "interrupted");
}

static int64_t least_iterations(const session *s) {
    return s->options->min_iterations > 0 ? s->options->min_iterations : 1;
}

/* What the queue holds at first is passed through twice: a step costs little here. */
static int64_t through_the_queue(const sg_measure_options *o) {
    enum { LEAST = 8 };
    int64_t queue = 2 * (int64_t)o->workers * (o->prefetch > 0 ? o->prefetch : SG_PREFETCH);
    return queue > LEAST ? queue : LEAST;
}

/* Standard error of the mean step over the mean: rates come from means, as waits come in bursts. */
static double error_of_mean(const sg_record *r) {
    const double *step_s = r->raw[SG_Q_STEP];
    double mean = 0, squares = 0, n = (double)r->n;
    for (size_t i = 0; i < r->n; i++) mean += step_s[i] / n;
    for (size_t i = 0; i < r->n; i++) squares += (step_s[i] - mean) * (step_s[i] - mean);
    return n > 1 && mean > 0 ? sqrt(squares / (n - 1) / n) / mean : INFINITY;
}

/* The step decides, its median and its mean: the pause is always the same. */
static bool enough(const session *s) {
    const sg_measure_options *o = s->options;
    int64_t n = (int64_t)s->record.n;
    if (n < least_iterations(s)) return false;
    if (o->max_iterations > 0 && n >= o->max_iterations) return true;
    if (o->time_budget_s > 0 && sg_clock_s() - s->start_s + s->iteration_s > o->time_budget_s) return true;
    return n >= through_the_queue(o) && o->tight > 0 && error_of_mean(&s->record) <= o->tight &&
           sg_record_spread_of(&s->record, SG_Q_STEP) <= o->tight;
}

static void tell(const session *s, const char *what) {
    const sg_measure_options *o = s->options;
    if (!o->progress) return;
    double fraction = (double)s->record.n / fmax(1, (double)o->max_iterations);
    if (o->time_budget_s > 0) fraction = fmax(fraction, (sg_clock_s() - s->start_s) / o->time_budget_s);
    o->progress(o->user, fmin(fraction, 1), what);
}

static sg_code warm_up(session *s, sg_status *status) {
    int64_t n = s->options->warmup > 1 ? s->options->warmup : 1;
    sg_step_times times;
    tell(s, "filling the loader's queue");
    for (int64_t i = 0; i < n; i++) {
        sg_code code = one_step(s, &times, status);
        if (code) return code;
        if (is_stopped(s)) return interrupted(status);
    }
    return sg_measured_loader_settle(&s->real, times.update_s / fmax(1, (double)s->training->accumulation), status);
}

static sg_code count_iterations(session *s, sg_status *status) {
    sg_measured_loader_count(&s->real);
    while (!enough(s) && !is_stopped(s)) {
        sg_step_times times;
        sg_code code = one_step(s, &times, status);
        if (!code) code = sg_record_add(&s->record, &times, NAN, status);
        if (!code) code = sg_measured_loader_between(&s->real, status);
        if (code) return code;
        char what[96];
        (void)snprintf(what, sizeof what, "loader of %.40s, batch %lld: %zu iterations", s->training->policy,
                       (long long)s->training->batch, s->record.n);
        tell(s, what);
    }
    return (int64_t)s->record.n < least_iterations(s) ? interrupted(status) : SG_OK;
}

/* What was not there to be timed was not recorded. */
static void forget_devices(sg_point *p) {
    for (int q = 0; q < SG_Q_COUNT; q++) {
        if (q == SG_Q_DATALOADING || q == SG_Q_UPDATE || q == SG_Q_STEP) continue;
        free(p->raw[q]);
        p->raw[q] = NULL;
        p->q[q] = (sg_statistic){NAN, NAN, NAN, NAN};
    }
    for (int c = 0; c < SG_CLASS_COUNT; c++) p->class_s[c] = NAN;
}

static sg_code run_protocol(session *s, sg_point *p, sg_status *status) {
    sg_host_state before, after;
    sg_code code = warm_up(s, status);
    if (code) return code;
    sg_host_state_read(&before);
    before.own_s += sg_loader_processes_s(s->loader);
    code = count_iterations(s, status);
    if (code) return code;
    sg_host_state_read(&after);
    after.own_s += sg_loader_processes_s(s->loader);
    sg_measured_loader_tell(&s->real, (int64_t)s->record.n, p);
    p->loader.update_s = s->options->update_s;
    p->resident_bytes = sg_host_peak_resident_bytes();
    p->frame_s = s->training->cameras > 0 ? sg_loader_frame_s(s->loader) : NAN;
    sg_record_finish(&s->record, p);
    sg_measured_loader_waits(p);
    forget_devices(p);
    p->warmup = s->options->warmup > 1 ? s->options->warmup : 1;
    p->fits_rates = false;
    (void)snprintf(p->source, sizeof p->source, "measured");
    sg_record_judge(p, &before, &after, 1);
    return SG_OK;
}

static sg_code check(const sg_training *t, const sg_measure_options *o, sg_status *status) {
    if (t->envs > 0)
        return sg_fail(status, SG_BAD_INPUT, "%s has no data loader: its samples come from an environment", t->policy);
    if (o->ranks > 1)
        return sg_fail(status, SG_BAD_INPUT, "a loader is measured by itself in one process, not in %d ranks",
                       o->ranks);
    if (!(o->update_s >= 0) || o->update_s > 3600)
        return sg_fail(status, SG_BAD_INPUT, "a pause of %g s in place of the update, must be 0 to 3600", o->update_s);
    return SG_OK;
}

sg_code sg_measure_pause(const sg_training *training, const sg_point_config *config, const sg_measure_options *options,
                         sg_point *point, sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    memset(point, 0, sizeof *point);
    point->config = *config;
    point->key = sg_point_key(config);
    session s = {.training = training, .options = options, .start_s = sg_clock_s()};
    sg_code code = check(training, options, status);
    if (code) return code;
    sg_record_start(&s.record, training);
    sg_host_reset_peak_resident();
    code = open_session(&s, status);
    if (!code) code = run_protocol(&s, point, status);
    close_session(&s);
    if (!code) return SG_OK;
    sg_point_clear(point);
    memset(point, 0, sizeof *point);
    return sg_fail_in(status, "measuring the loader of %s, batch %lld", training->policy, (long long)training->batch);
}
