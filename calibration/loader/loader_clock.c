#include "calibration/loader/loader_clock.h"

#include <gsl/gsl_cdf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Fewest steps that a mean is taken of, and steps per worker: bursts come once per round of the workers. */
enum { LEAST_STEPS = 48, ROUNDS = 8, WARM_ROUNDS = 2 };

/* Ends of longer epochs move no mean. */
enum { LONGEST_EPOCH = 4096 };

enum { WAIT_ROUNDS = 12 };

/* Steps that one course may take: 1024 workers with 4 batches each need 14,000. */
enum { STEPS_MAX = 1 << 20 };

static const double STALL_SHARE = 0.1; /* of the period: sg_loader_record.stalled_share */

double sg_loader_contention(double sigma, double kappa, double threads, double processors) {
    double n = fmax(fmin(threads, processors), 1);
    return 1 + sigma * (n - 1) + kappa * n * (n - 1);
}

typedef enum phase { WAITING, TAKING, STEPPING } phase;

typedef struct worker {
    int64_t batch; /* it makes, or makes next */
    bool busy;
    double cpu_left, began, had; /* had: seconds of a processor for this batch */
} worker;

typedef struct clockwork {
    const sg_loader_course *c;
    int prefetch;
    worker *worker;
    double now;
    int64_t delivered, epoch_end;
    phase consumer;
    double left, asked, step_began;
    /* speeds until the next event */
    double worker_speed, worker_share, consumer_speed; /* speed of a worker: of its processor seconds, waits beside */
    double wait_ratio;                                 /* seconds waited per processor second of a batch */
    /* sums over the steps that count */
    double *wait; /* per step */
    int64_t warm, steps;
    double counted_from, step_sum, batch_sum, cpu_sum, first_batch_s;
    int64_t batches;
} clockwork;

/* Work of a batch: lognormal with mean 1, from the golden ratio's sequence, which fills (0, 1) evenly from any start on. */
static double work_factor(const sg_loader_course *c, int64_t batch) {
    if (!(c->batch_log_sd > 0)) return 1;
    double place = fmod(0.5 + 0.6180339887498949 * (double)(batch % 1000000), 1.0);
    double z = gsl_cdf_ugaussian_Pinv(fmin(fmax(place, 1e-6), 1 - 1e-6));
    return exp(c->batch_log_sd * z - 0.5 * c->batch_log_sd * c->batch_log_sd);
}

static int64_t window_end(const clockwork *k) {
    int64_t end = k->delivered + (int64_t)k->prefetch * k->c->workers;
    return end < k->epoch_end ? end : k->epoch_end;
}

static void start_workers(clockwork *k) {
    int64_t end = window_end(k);
    for (int i = 0; i < k->c->workers; i++) {
        worker *w = &k->worker[i];
        if (w->busy || w->batch >= end) continue;
        double slower = i == 0 && k->c->slowest > 0 ? k->c->slowest : 1;
        w->busy = true;
        w->began = k->now;
        w->had = 0;
        w->cpu_left = k->c->batch_cpu_s * slower * work_factor(k->c, w->batch);
    }
}

/* Speeds of workers and consumer while `active` workers and `threads` of the consumer run. */
static void share_out(clockwork *k, double active, double threads, double weight) {
    const sg_loader_course *c = k->c;
    double of_thread = 1, of_worker = 1;
    if (active + threads > c->processors) {
        of_thread = fmin(1, c->processors * weight / (active + threads * weight));
        if (active > 0) of_worker = (c->processors - threads * of_thread) / active;
        if (of_worker > 1) {
            of_worker = 1;
            of_thread = (c->processors - active) / threads;
        }
    }
    double slower = sg_loader_contention(c->sigma, c->kappa, active + threads, c->processors);
    double alone = sg_loader_contention(c->sigma, c->kappa, threads, c->processors);
    k->worker_share = of_worker;
    k->worker_speed = of_worker / slower;
    /* a step is known as it is on the processors that it has, also where it has more threads than these */
    double on_its_own = threads > c->processors ? c->processors / threads : 1;
    bool stretches = k->consumer == TAKING || (k->consumer == STEPPING && c->step_on_processors);
    k->consumer_speed = stretches ? of_thread / on_its_own * alone / slower : 1;
}

/* Fair shares of the processors among `active` workers and the consumer's threads, and what contention leaves of them. */
static void set_speeds(clockwork *k) {
    const sg_loader_course *c = k->c;
    double busy = 0, threads = k->consumer == STEPPING ? c->step_threads : k->consumer == TAKING ? 1 : 0;
    double weight = k->consumer == STEPPING && c->step_weight > 0 ? c->step_weight : 1;
    for (int i = 0; i < c->workers; i++) busy += k->worker[i].busy;
    /* of the busy ones some wait, the more the faster the others get on; it settles within a few rounds */
    double active = busy;
    for (int round = 0; round < (k->wait_ratio > 0 ? WAIT_ROUNDS : 1); round++) {
        share_out(k, active, threads, weight);
        double waiting = busy * k->wait_ratio * k->worker_speed / (1 + k->wait_ratio * k->worker_speed);
        active = 0.5 * active + 0.5 * (busy - waiting);
    }
    k->worker_share /= 1 + k->wait_ratio * k->worker_speed;
    k->worker_speed /= 1 + k->wait_ratio * k->worker_speed;
}
static double next_event(const clockwork *k) {
    double next = k->consumer == WAITING ? INFINITY : k->left / k->consumer_speed;
    for (int i = 0; i < k->c->workers; i++) {
        const worker *w = &k->worker[i];
        if (w->busy) next = fmin(next, w->cpu_left / k->worker_speed);
    }
    return next;
}

static void finish_batch(clockwork *k, worker *w) {
    w->busy = false;
    w->batch += k->c->workers;
    if (k->delivered >= k->warm) {
        k->batch_sum += k->now - w->began;
        k->cpu_sum += w->had;
        k->batches++;
    }
}

/* What is less than this far from its end is there: sums of doubles do not meet exactly. */
static bool over(double left, double scale) {
    return left <= 1e-12 * scale;
}

static void advance(clockwork *k, double dt) {
    k->now += dt;
    for (int i = 0; i < k->c->workers; i++) {
        worker *w = &k->worker[i];
        if (!w->busy) continue;
        w->cpu_left -= dt * k->worker_speed;
        w->had += dt * k->worker_share;
        if (over(w->cpu_left, k->c->batch_cpu_s)) finish_batch(k, w);
    }
    if (k->consumer != WAITING) k->left -= dt * k->consumer_speed;
}

static void begin_step(clockwork *k) {
    if (k->delivered == 0) k->first_batch_s = k->now;
    k->wait[k->delivered] = k->now - k->asked;
    k->delivered++;
    k->consumer = STEPPING;
    k->left = k->c->step_s;
    k->step_began = k->now;
}

static void ask(clockwork *k) {
    k->consumer = WAITING;
    k->asked = k->now;
    if (k->delivered == k->epoch_end) k->epoch_end += k->c->epoch;
    if (k->delivered == k->warm) k->counted_from = k->now;
}

/* Lets the consumer go on as far as it can without time passing; its next batch is there when its maker is past it. */
static void consume(clockwork *k) {
    const sg_loader_course *c = k->c;
    while (k->delivered < k->warm + k->steps || k->consumer == STEPPING) {
        if (k->consumer == WAITING) {
            if (k->worker[k->delivered % c->workers].batch <= k->delivered) return;
            k->consumer = TAKING;
            k->left = c->handover_s;
        } else if (!over(k->left, k->consumer == TAKING ? c->handover_s : c->step_s)) {
            return;
        } else if (k->consumer == TAKING) {
            begin_step(k);
        } else {
            if (k->delivered > k->warm) k->step_sum += k->now - k->step_began;
            ask(k);
        }
    }
}

static void with_workers(clockwork *k) {
    ask(k);
    while (k->delivered < k->warm + k->steps || k->consumer == STEPPING) {
        consume(k);
        if (k->delivered == k->warm + k->steps && k->consumer == WAITING) return;
        start_workers(k);
        set_speeds(k);
        double dt = next_event(k);
        if (!isfinite(dt)) return; /* nothing runs and nothing is awaited: cannot happen in a sound course */
        advance(k, dt);
    }
}

static void in_line(clockwork *k) {
    const sg_loader_course *c = k->c;
    for (k->delivered = 0; k->delivered < k->warm + k->steps;) {
        if (k->delivered == k->warm) k->counted_from = k->now;
        double work_s = c->batch_cpu_s * work_factor(c, k->delivered);
        double made = work_s * (1 / fmin(1, c->processors) + k->wait_ratio);
        if (k->delivered == 0) k->first_batch_s = made + c->handover_s;
        if (k->delivered >= k->warm) {
            k->batch_sum += made;
            k->cpu_sum += work_s;
            k->batches++;
            k->step_sum += c->step_s;
        }
        k->wait[k->delivered++] = made + c->handover_s;
        k->now += made + c->handover_s + c->step_s;
    }
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *sorted, int64_t n, double p) {
    double at = p * (double)(n - 1);
    int64_t below = (int64_t)at;
    double beyond = at - (double)below;
    return below + 1 < n ? sorted[below] + beyond * (sorted[below + 1] - sorted[below]) : sorted[n - 1];
}

static void summarize(clockwork *k, sg_loader_waits *out) {
    double *wait = k->wait + k->warm, sum = 0;
    int64_t n = k->steps, stalls = 0;
    memset(out, 0, sizeof *out);
    out->period_s = (k->now - k->counted_from) / (double)n;
    out->step_s = k->step_sum / (double)n;
    for (int64_t i = 0; i < n; i++) {
        sum += wait[i];
        stalls += wait[i] > STALL_SHARE * out->period_s;
    }
    out->mean_s = sum / (double)n;
    out->stalled_share = (double)stalls / (double)n;
    out->stall_every = stalls ? (double)n / (double)stalls : 0;
    out->first_batch_s = k->first_batch_s;
    out->batch_s = k->batches ? k->batch_sum / (double)k->batches : NAN;
    out->batch_cpu_s = k->batches ? k->cpu_sum / (double)k->batches : NAN;
    qsort(wait, (size_t)n, sizeof *wait, by_size);
    out->p50_s = quantile(wait, n, 0.5);
    out->p90_s = quantile(wait, n, 0.9);
    out->p99_s = quantile(wait, n, 0.99);
    out->max_s = wait[n - 1];
}

static bool sound(const sg_loader_course *c) {
    const double times[] = {c->batch_cpu_s, c->batch_wait_s, c->batch_log_sd, c->slowest,     c->sigma,
                            c->kappa,       c->step_s,       c->step_threads, c->step_weight, c->handover_s};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (!(times[i] >= 0) || !isfinite(times[i])) return false;
    return c->processors > 0 && isfinite(c->processors) && c->workers >= 0 && c->workers <= SG_LOADER_WORKERS_MAX &&
           c->prefetch >= 0 && c->prefetch <= 4096 && c->epoch >= 0 && c->steps >= 0 && c->steps <= STEPS_MAX &&
           c->batch_log_sd <= 5 && c->batch_cpu_s + c->step_s > 0 && (c->batch_cpu_s > 0 || c->batch_wait_s == 0);
}

/* *elapsed: from the start of the workers to the end of the last step. */
static sg_code run(const sg_loader_course *c, sg_loader_waits *waits, double *elapsed, sg_status *status) {
    if (!sound(c))
        return sg_fail(status, SG_BAD_INPUT,
                       "a loader of %d workers on %g processors, %g s per batch beside steps of %g s: that is none",
                       c->workers, c->processors, c->batch_cpu_s, c->step_s);
    clockwork k = {.c = c, .prefetch = c->prefetch ? c->prefetch : SG_LOADER_PREFETCH, .epoch_end = INT64_MAX};
    if (c->epoch) k.epoch_end = c->epoch;
    if (c->batch_wait_s > 0) k.wait_ratio = c->batch_wait_s / c->batch_cpu_s;
    int64_t least = ROUNDS * (int64_t)c->workers;
    k.steps = c->steps ? c->steps : least > LEAST_STEPS ? least : LEAST_STEPS;
    /* whole epochs, so that the mean has its share of their ends */
    if (!c->steps && c->epoch > 0 && c->epoch <= LONGEST_EPOCH)
        k.steps = (k.steps + c->epoch - 1) / c->epoch * c->epoch;
    k.warm = elapsed ? 0 : (int64_t)(k.prefetch + WARM_ROUNDS) * c->workers;
    k.wait = calloc((size_t)(k.warm + k.steps), sizeof *k.wait);
    k.worker = calloc((size_t)c->workers + 1, sizeof *k.worker);
    if (!k.wait || !k.worker) {
        free(k.wait);
        free(k.worker);
        return sg_fail_memory(status, (size_t)(k.warm + k.steps) * sizeof *k.wait, "a loader's clock");
    }
    for (int i = 0; i < c->workers; i++) k.worker[i].batch = i;
    if (c->workers)
        with_workers(&k);
    else
        in_line(&k);
    summarize(&k, waits);
    if (elapsed) *elapsed = k.now;
    free(k.wait);
    free(k.worker);
    return SG_OK;
}

sg_code sg_loader_clock(const sg_loader_course *course, sg_loader_waits *waits, sg_status *status) {
    return run(course, waits, NULL, status);
}

sg_code sg_loader_epoch_end(const sg_loader_course *course, double *seconds, sg_status *status) {
    sg_loader_course c = *course;
    sg_loader_waits waits;
    double without = 0, with = 0;
    int64_t queue = (int64_t)(c.prefetch ? c.prefetch : SG_LOADER_PREFETCH) * c.workers;
    *seconds = 0;
    if (c.workers == 0) return SG_OK; /* nothing was ahead */
    c.epoch = 0;
    c.steps = 2 * queue + ROUNDS * (int64_t)c.workers;
    sg_code code = run(&c, &waits, &without, status);
    c.epoch = c.steps / 2;
    if (!code) code = run(&c, &waits, &with, status);
    if (!code) *seconds = fmax(0, with - without);
    return code;
}
