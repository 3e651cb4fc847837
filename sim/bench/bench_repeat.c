/* bench_repeat.c: one call timed again and again until its median is known. */
#include "sim/bench/bench_internal.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/clock.h"

/* A timed value lasts at least this long where calls may be put together: far above what clocks and events resolve. */
static const double BATCH_S = 1e-3;
/* The first calls pay for pages, code, primitives and a sleeping clock. */
static const double WARMUP_S = 0.05;
enum { MOST_WARMUP = 50, LEAST_FOR_INTERVAL = 6 /* the extremes of six hold the median with 97 % */ };

void sg_bench_samples_clear(sg_bench_samples *s) {
    free(s->value);
    *s = (sg_bench_samples){0};
}

sg_code sg_bench_sample_add(sg_bench_samples *s, double seconds, sg_status *status) {
    if (s->n == s->room) {
        size_t room = s->room ? 2 * s->room : 64;
        double *grown = reallocarray(s->value, room, sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "measured times");
        s->value = grown;
        s->room = room;
    }
    s->value[s->n++] = seconds;
    return SG_OK;
}

double sg_bench_allowed_s(const sg_bench *b) {
    double left = b->options.time_budget_s - (sg_clock_s() - b->start_s);
    return left > 0 ? left / (double)(b->planned > 0 ? b->planned : 1) : 0;
}

bool sg_bench_enough(const sg_bench *b, const sg_bench_samples *s, double start_s, double allowed_s) {
    const sg_bench_options *o = &b->options;
    int64_t n = (int64_t)s->n, least = o->min_iterations > 0 ? o->min_iterations : 1;
    if (n < least) return false;
    if (o->max_iterations > 0 && n >= o->max_iterations) return true;
    if (sg_clock_s() - start_s > allowed_s) return true;
    if (n < LEAST_FOR_INTERVAL) return false;
    sg_statistic q = sg_statistic_of(s->value, s->n);
    return o->tight > 0 && 0.5 * (q.high - q.low) <= o->tight * q.median;
}

/* Also finds out how long a call takes: the shortest of the later ones. */
static sg_code warm_up(sg_bench *b, sg_bench_timed timed, void *user, sg_bench_samples *s, double *call_s,
                       sg_status *status) {
    double start = sg_clock_s();
    *call_s = INFINITY;
    do {
        double seconds;
        sg_code code = timed(user, 1, &seconds, status);
        if (code) return code;
        if (s->warmup++ > 0 || seconds > WARMUP_S) *call_s = fmin(*call_s, seconds);
    } while (s->warmup < MOST_WARMUP && !sg_bench_stopped(b) && (s->warmup < 2 || sg_clock_s() - start < WARMUP_S) &&
             sg_clock_s() - start < 4 * WARMUP_S);
    return SG_OK;
}

sg_code sg_bench_repeat(sg_bench *b, sg_bench_timed timed, void *user, int64_t most_calls, sg_bench_samples *s,
                        sg_status *status) {
    *s = (sg_bench_samples){.calls = 1};
    double start = sg_clock_s(), allowed = sg_bench_allowed_s(b), call_s;
    sg_code code = warm_up(b, timed, user, s, &call_s, status);
    if (!code && call_s < BATCH_S) s->calls = (int64_t)fmin(ceil(BATCH_S / fmax(call_s, 1e-9)), (double)most_calls);
    if (s->calls < 1) s->calls = 1;
    sg_host_state_read(&s->before);
    while (!code && !sg_bench_stopped(b) && !sg_bench_enough(b, s, start, allowed)) {
        double seconds;
        code = timed(user, s->calls, &seconds, status);
        if (!code) code = sg_bench_sample_add(s, seconds, status);
    }
    sg_host_state_read(&s->after);
    if (code || (b->interrupted && (int64_t)s->n < b->options.min_iterations)) sg_bench_samples_clear(s);
    return code;
}
