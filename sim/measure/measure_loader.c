#include "sim/measure/measure_loader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/clock.h"
#include "sim/loader/sample_source.h"

/* A step that waited for longer than this share of the median step has stalled. */
static const double STALL_SHARE = 0.1;
/* Rounds of all workers that are watched at least. */
enum { ROUNDS = 3 };

sg_loader_options sg_loader_options_of(const sg_training *t, const sg_measure_options *o) {
    return (sg_loader_options){.training = t,
                               .workers = o->workers,
                               .prefetch = o->prefetch,
                               .seed = o->seed,
                               .rank = o->rank,
                               .ranks = o->ranks > 0 ? o->ranks : 1,
                               .stop = o->stop};
}

static double own_cpu_s(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_cold(const sg_measured_loader *m) {
    return m->options->layer && strcmp(m->options->layer, "cold") == 0;
}

sg_code sg_measured_loader_open(const sg_training *training, const sg_measure_options *options, sg_measured_loader *m,
                                sg_status *status) {
    *m = (sg_measured_loader){.options = options};
    if (!options->catalogue) return SG_OK;
    sg_code code = sg_dataset_source_open(options->catalogue, training, &m->source, status);
    if (!code && is_cold(m)) code = sg_catalogue_make_cold(options->catalogue, status);
    if (code) return code;
    sg_loader_options loader = sg_loader_options_of(training, options);
    loader.source = sg_dataset_source_samples(m->source);
    return sg_loader_open(&loader, &m->loader, status);
}

void sg_measured_loader_close(sg_measured_loader *m) {
    sg_loader_close(m->loader);
    sg_dataset_source_close(m->source);
    m->loader = NULL;
    m->source = NULL;
}

sg_code sg_measured_loader_settle(sg_measured_loader *m, double step_s, sg_status *status) {
    int workers = m->options->workers;
    if (!m->loader || workers == 0) return SG_OK;
    sg_loader_record r;
    sg_loader_tell(m->loader, &r);
    double period_s = r.batch_s / workers;
    for (int64_t i = 0; i < workers * r.prefetch && period_s > step_s; i++) {
        void *const *data;
        double unused, start = sg_clock_s();
        sg_code code = sg_loader_next(m->loader, start, &data, &unused, status);
        if (code) return code;
        /* it was waited for: the queue is empty; by then each worker has opened its files */
        if (i >= workers && sg_clock_s() - start > STALL_SHARE * period_s) break;
    }
    return SG_OK;
}

void sg_measured_loader_count(sg_measured_loader *m) {
    if (!m->loader) return;
    sg_loader_count_from_here(m->loader);
    m->own_cpu_s = own_cpu_s();
}

sg_code sg_measured_loader_between(sg_measured_loader *m, sg_status *status) {
    if (!m->loader || !is_cold(m) || sg_loader_epoch(m->loader) == m->cold_epoch) return SG_OK;
    m->cold_epoch = sg_loader_epoch(m->loader);
    return sg_catalogue_make_cold(m->options->catalogue, status);
}

int64_t sg_measured_loader_least(const sg_measured_loader *m) {
    if (!m->loader) return 0;
    return ROUNDS * (int64_t)(m->options->workers > 0 ? m->options->workers : 1);
}

void sg_measured_loader_tell(const sg_measured_loader *m, int64_t iterations, sg_point *point) {
    if (!m->loader) return;
    sg_loader_tell(m->loader, &point->loader);
    if (iterations > 0) point->loader.step_cpu_s = (own_cpu_s() - m->own_cpu_s) / (double)iterations;
}

static int ascending(const void *a, const void *b) {
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* The least value that at least this share of them does not exceed. */
static double quantile(const double *sorted, size_t n, double share) {
    size_t rank = (size_t)ceil(share * (double)n);
    return sorted[rank > 0 ? rank - 1 : 0];
}

void sg_measured_loader_waits(sg_point *p) {
    size_t n = (size_t)p->iterations, stalled = 0;
    double *waits = p->raw[SG_Q_DATALOADING];
    bool told = p->loader.batches > 0 || sg_point_pauses(&p->config);
    double *sorted = told && waits && n > 0 ? malloc(n * sizeof *sorted) : NULL;
    if (!sorted) return;
    memcpy(sorted, waits, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, ascending);
    for (size_t i = 0; i < n; i++) stalled += sorted[i] > STALL_SHARE * p->q[SG_Q_STEP].median;
    p->loader.stalled_share = (double)stalled / (double)n;
    p->loader.wait_p50_s = quantile(sorted, n, 0.5);
    p->loader.wait_p90_s = quantile(sorted, n, 0.9);
    p->loader.wait_p99_s = quantile(sorted, n, 0.99);
    p->loader.wait_max_s = sorted[n - 1];
    free(sorted);
    /* bursts make the median step say little of the rate */
    p->samples_per_s *= p->q[SG_Q_STEP].median / p->q[SG_Q_STEP].mean;
}
