/* bench_collective.c: collectives over sizes, alone and beside products; the times are those of the slowest rank. */
#include "sim/bench/bench_exchange.h"
#include "sim/measure/measure_ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "kernels/clock.h"

static const int64_t default_sizes[] = {4 << 10, 64 << 10, 1 << 20, 4 << 20, 25 << 20, 64 << 20, 256 << 20};
/* nccl-tests puts 20 calls together; so many keep the host's launches out of small messages. */
enum { MOST_CALLS = 20, MOST_BESIDE = 64, WARMUP = 3, RECORDS = 3 };
static const double BATCH_S = 1e-3, PRODUCT_S = 1e-3;

/* What one iteration does. */
typedef enum mode { ALONE, BESIDE, PRODUCT_ALONE, PRODUCT_BESIDE } mode;

typedef struct bout {
    sg_bench *bench;
    sg_exchange *exchange;
    sg_bench_op *product;
    double exchange_s, product_s; /* one of each, alone, as agreed */
} bout;

/* ---- one iteration ----------------------------------------------------------------------------------------------- */

static sg_code between(const sg_bench *b, int first, double *seconds, sg_status *status) {
    double begin = 0, end = 0;
    sg_code code = b->api->event_seconds(b->device, b->edge[first], &begin, status);
    if (!code) code = b->api->event_seconds(b->device, b->edge[first + 1], &end, status);
    *seconds = end - begin;
    return code;
}

static sg_code wait_for_both(const sg_bench *b, sg_status *status) {
    sg_code code = b->api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
    return code ? code : b->api->stream_wait(b->device, SG_STREAM_COLLECTIVE, status);
}

static sg_code products(const bout *t, double count, sg_status *status) {
    sg_code code = SG_OK;
    for (double i = 0; !code && i < count; i++) code = sg_bench_op_launch(t->product, status);
    return code;
}

/* `calls` exchanges between two events. Beside products: one before, which covers what the host needs to enqueue the exchange,
 * and enough behind it to outlast it. */
static sg_code time_exchange(const bout *t, int64_t calls, bool beside, double *seconds, sg_status *status) {
    const sg_bench *b = t->bench;
    sg_code code = beside ? products(t, 1, status) : SG_OK;
    if (!code) code = b->api->event_record(b->device, b->edge[2], SG_STREAM_COLLECTIVE, status);
    for (int64_t i = 0; !code && i < calls; i++) code = sg_exchange_start(t->exchange, status);
    if (!code) code = b->api->event_record(b->device, b->edge[3], SG_STREAM_COLLECTIVE, status);
    if (!code && beside)
        code = products(t, fmin(1 + ceil(2 * (double)calls * t->exchange_s / t->product_s), MOST_BESIDE), status);
    if (!code) code = wait_for_both(b, status);
    if (!code) code = between(b, 2, seconds, status);
    *seconds /= (double)calls;
    return code;
}

/* One product between two events; beside it, exchanges that are already under way and outlast it. */
static sg_code time_product(const bout *t, bool beside, double *seconds, sg_status *status) {
    const sg_bench *b = t->bench;
    double exchanges = beside ? fmin(1 + ceil(2 * t->product_s / t->exchange_s), MOST_BESIDE) : 0;
    sg_code code = SG_OK;
    for (double i = 0; !code && i < exchanges; i++) code = sg_exchange_start(t->exchange, status);
    if (!code) code = b->api->event_record(b->device, b->edge[0], SG_STREAM_COMPUTE, status);
    if (!code) code = products(t, 1, status);
    if (!code) code = b->api->event_record(b->device, b->edge[1], SG_STREAM_COMPUTE, status);
    if (!code) code = wait_for_both(b, status);
    return code ? code : between(b, 0, seconds, status);
}

static sg_code iteration(const bout *t, mode mode, int64_t calls, double *seconds, sg_status *status) {
    *seconds = NAN;
    if (mode == ALONE || mode == BESIDE) return time_exchange(t, calls, mode == BESIDE, seconds, status);
    return time_product(t, mode == PRODUCT_BESIDE, seconds, status);
}

/* ---- repeating, together ----------------------------------------------------------------------------------------- */

/* Rank 0 decides when it is enough; an interrupt of any rank ends all. Also lines the ranks up for the next iteration. */
static sg_code decide(sg_bench *b, bool enough, bool *done, sg_status *status) {
    const double DONE = 1, STOPPED = 1024;
    double mine = (b->options.rank == 0 && enough ? DONE : 0) + (sg_bench_stopped(b) ? STOPPED : 0), sum;
    sg_code code = sg_bench_vote(b, mine, &sum, status);
    if (sum >= STOPPED) b->interrupted = true;
    *done = sum >= DONE;
    return code;
}

/* Seconds of one iteration of this kind, agreed by all: the shortest of a few on rank 0. */
static sg_code warm_up(const bout *t, mode mode, sg_bench_samples *s, double *seconds, sg_status *status) {
    sg_code code = SG_OK;
    *seconds = INFINITY;
    for (int i = 0; !code && i < WARMUP; i++) {
        double sum, one;
        code = sg_bench_vote(t->bench, 0, &sum, status);
        if (!code) code = iteration(t, mode, 1, &one, status);
        if (!code) *seconds = fmin(*seconds, one);
    }
    s->warmup = WARMUP;
    *seconds = fmax(*seconds, 1e-9);
    return code ? code : sg_bench_agree(t->bench, seconds, status);
}

/* Iterations of `main`, each beside one of `other` unless they are the same: both see the same disturbances. */
static sg_code repeat(const bout *t, mode main, mode other, int64_t calls, sg_bench_samples *s, sg_bench_samples *alone,
                      sg_status *status) {
    sg_bench *b = t->bench;
    double start = sg_clock_s(), allowed = sg_bench_allowed_s(b);
    s->calls = alone->calls = calls;
    sg_host_state_read(&s->before);
    sg_code code = SG_OK;
    for (bool done = false; !code && !done;) {
        double seconds;
        code = decide(b, sg_bench_enough(b, s, start, allowed), &done, status);
        if (code || done) break;
        code = iteration(t, main, calls, &seconds, status);
        if (!code) code = sg_bench_sample_add(s, seconds, status);
        if (!code && main != other) {
            double sum;
            code = sg_bench_vote(b, 0, &sum, status);
            if (!code) code = iteration(t, other, calls, &seconds, status);
            if (!code) code = sg_bench_sample_add(alone, seconds, status);
        }
    }
    sg_host_state_read(&s->after);
    if (!code) code = sg_bench_slowest(b, s, status);
    if (!code) code = sg_bench_slowest(b, alone, status);
    return code;
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

static void set_bandwidths(sg_micro *micro, const sg_exchange *e, const sg_bench_samples *s) {
    if (s->n == 0) return;
    double median = sg_statistic_of(s->value, s->n).median;
    if (!(median > 0)) return;
    micro->algbw = (double)e->whole_bytes / median;
    micro->busbw = sg_busbw(sg_collective_name(e->collective), e->bench->options.ranks, micro->algbw);
}

/* One record: `main` timed, with `other` beside it to compare with. */
static sg_code record(const bout *t, mode main, mode other, int64_t calls, int64_t warmup, double error,
                      sg_status *status) {
    const sg_exchange *e = t->exchange;
    bool product = main == PRODUCT_BESIDE;
    const char *name = sg_collective_name(e->collective);
    sg_bench_samples samples = {.warmup = warmup}, alone = {0};
    sg_code code = repeat(t, main, other, calls, &samples, &alone, status);
    sg_micro micro = sg_bench_micro(t->bench, "collective", product ? "gemm" : name, e->precision);
    micro.config.bytes = (int64_t)e->whole_bytes;
    if (main != ALONE) {
        (void)snprintf(micro.config.beside, sizeof micro.config.beside, "%s", product ? name : "gemm");
        micro.config.m = micro.config.n = micro.config.k = t->product->desc[0].size[0];
        micro.config.batch = 1;
    }
    if (product) {
        micro.flops = t->product->cost.flops;
        micro.bytes_moved = t->product->cost.bytes_read + t->product->cost.bytes_written;
    } else {
        micro.fits_rates = true; /* sums, not products */
        micro.checked = true;
        micro.error = error;
        set_bandwidths(&micro, e, &samples);
    }
    if (!code && alone.n) micro.alone_s = sg_statistic_of(alone.value, alone.n).median;
    if (!code) code = sg_bench_keep(t->bench, &micro, &samples, status);
    sg_bench_samples_clear(&samples);
    sg_bench_samples_clear(&alone);
    return code;
}

/* Known values go in, one exchange is made (beside products or not), every element of what comes out is compared. */
static sg_code check(const bout *t, mode mode, double *error, sg_status *status) {
    double seconds;
    sg_code code = sg_exchange_fill(t->exchange, status);
    if (!code) code = iteration(t, mode, 1, &seconds, status);
    return code ? code : sg_exchange_check(t->exchange, error, status);
}

static sg_code run_bout(bout *t, sg_status *status) {
    sg_bench *b = t->bench;
    sg_bench_samples warm = {0};
    double error, beside_error;
    sg_code code = check(t, ALONE, &error, status);
    if (!code) code = warm_up(t, ALONE, &warm, &t->exchange_s, status);
    if (!code) code = check(t, BESIDE, &beside_error, status);
    if (code) return code;
    int64_t calls = (int64_t)fmin(fmax(ceil(BATCH_S / t->exchange_s), 1), MOST_CALLS);
    code = record(t, ALONE, ALONE, calls, warm.warmup, error, status);
    if (!code && !b->interrupted) code = record(t, BESIDE, ALONE, 1, warm.warmup, beside_error, status);
    if (!code && !b->interrupted) code = record(t, PRODUCT_BESIDE, PRODUCT_ALONE, 1, warm.warmup, NAN, status);
    return code;
}

/* ---- the product that runs beside -------------------------------------------------------------------------------- */

static sg_code open_product(sg_bench *b, const sg_bench_precision *precision, int64_t n, sg_bench_op *op,
                            sg_status *status) {
    const sg_attrs attrs = {.alpha = 1, .compute = (int32_t)precision->compute};
    sg_desc matrix = sg_desc_make(precision->dtype, 2, (int64_t[]){n, n});
    const sg_desc desc[3] = {matrix, matrix, matrix};
    sg_code code = sg_bench_op_open(b, SG_OP_MATMUL, &attrs, 2, 1, desc, NULL, op, status);
    for (int i = 0; !code && i < 2; i++) code = sg_bench_op_fill(op, i, -1, 1, status);
    return code;
}

/* The smallest power of two whose product takes PRODUCT_S on rank 0: long beside what it costs to launch it. */
static sg_code choose_product(bout *t, const sg_bench_precision *precision, sg_bench_op *op, sg_status *status) {
    for (int64_t n = 256;; n *= 2) {
        sg_bench_samples warm = {0};
        sg_code code = open_product(t->bench, precision, n, op, status);
        t->product = op;
        if (!code) code = warm_up(t, PRODUCT_ALONE, &warm, &t->product_s, status);
        if (code || t->product_s >= PRODUCT_S || n >= 8192) return code;
        sg_bench_op_close(op);
    }
}

/* ---- all sizes --------------------------------------------------------------------------------------------------- */

typedef struct outlook {
    int64_t bytes;
    double seconds; /* at the last size, 0: unknown */
} outlook;

/* Rank 0 sees whether the least number of iterations fits into this size's share of the time left; all follow. */
static sg_code too_long(sg_bench *b, const outlook *seen, int64_t bytes, bool *skip, sg_status *status) {
    const sg_bench_options *o = &b->options;
    double left = o->time_budget_s - (sg_clock_s() - b->start_s), sum;
    double once = seen->bytes > 0 ? seen->seconds * (double)bytes / (double)seen->bytes : 0;
    bool mine = o->rank == 0 && 8.0 * (double)(o->min_iterations + WARMUP) * once > fmax(left, 0);
    sg_code code = sg_bench_vote(b, mine ? 1 : 0, &sum, status);
    *skip = sum >= 1;
    return code;
}

static sg_code one(sg_bench *b, sg_collective collective, const sg_bench_precision *precision, int64_t bytes,
                   bout *shared, outlook *seen, sg_status *status) {
    char name[64];
    bool skip = false;
    (void)snprintf(name, sizeof name, "%s %lld bytes %s", sg_collective_name(collective), (long long)bytes,
                   precision->name);
    sg_bench_tell(b, name);
    sg_code code = too_long(b, seen, bytes, &skip, status);
    if (code) return code;
    if (skip) {
        b->planned = b->planned > RECORDS ? b->planned - RECORDS + 1 : 1;
        return sg_bench_omit(b, name, "would take too long for what is left: give a longer --time-budget", false,
                             status);
    }
    sg_exchange exchange;
    sg_status reason = {0};
    code = sg_exchange_open(b, collective, precision, bytes, &exchange, &reason);
    bout t = *shared;
    t.exchange = &exchange;
    if (!code) code = run_bout(&t, &reason);
    if (!code) *seen = (outlook){bytes, t.exchange_s};
    sg_exchange_close(&exchange);
    if (code == SG_NO) {
        b->planned = b->planned > RECORDS ? b->planned - RECORDS + 1 : 1;
        return sg_bench_omit(b, name, reason.text, true, status);
    }
    return code ? sg_fail(status, code, "%s: %s", name, reason.text) : SG_OK;
}

static sg_code all_sizes(sg_bench *b, const sg_bench_precision *precision, const int64_t *sizes, size_t n,
                         sg_status *status) {
    sg_bench_op product = {0};
    bout t = {.bench = b};
    outlook seen[SG_COLLECTIVES] = {{0}};
    sg_code code = choose_product(&t, precision, &product, status);
    for (size_t s = 0; !code && s < n; s++)
        for (int c = 0; !code && c < SG_COLLECTIVES && !b->interrupted; c++)
            code = one(b, (sg_collective)c, precision, sizes[s], &t, &seen[c], status);
    sg_bench_op_close(&product);
    return code;
}

static sg_code check_options(const sg_bench_options *o, sg_status *status) {
    if (o->ranks < 2)
        return sg_fail(status, SG_BAD_INPUT, "'bench collective' needs at least two ranks: give --ranks 2 or --gpus 2");
    for (size_t s = 0; s < o->n_sizes; s++)
        if (o->sizes[s] < 1 || o->sizes[s] > INT64_C(1) << 50)
            return sg_fail(status, SG_BAD_INPUT, "a collective of %lld bytes: give at least 1", (long long)o->sizes[s]);
    for (size_t p = 0; p < o->n_precisions; p++)
        if (o->precision[p].dtype != SG_F32 && o->precision[p].dtype != SG_BF16)
            return sg_fail(status, SG_BAD_INPUT, "collectives are made in fp32 or bf16, not %s", o->precision[p].name);
    return SG_OK;
}

/* The slowest GPU or link sets the pace: such figures belong to no single model. */
static sg_code note_models(sg_bench *b, sg_status *status) {
    char text[160];
    size_t models = 1;
    sg_transport *t = b->options.bootstrap;
    if (strcmp(b->info.kind, "cuda") != 0 || !t || !t->api->broadcast) return SG_OK;
    sg_code code = sg_rank_models(t, b->info.name, text, sizeof text, &models, status);
    for (size_t i = 0; !code && models > 1 && i < b->n_micros; i++) {
        sg_micro *m = &b->micros[i];
        size_t used = strlen(m->disturbed_why);
        m->disturbed = true;
        m->fits_rates = false;
        (void)snprintf(m->disturbed_why + used, sizeof m->disturbed_why - used, "%sGPUs of different models: %s",
                       used ? "; " : "", text);
    }
    return code;
}

sg_code sg_bench_collective(sg_bench *b, sg_status *status) {
    const sg_bench_options *o = &b->options;
    static const sg_bench_precision single = {"fp32", SG_F32, SG_COMPUTE_F32};
    const sg_bench_precision *precisions = o->n_precisions ? o->precision : &single;
    size_t n_precisions = o->n_precisions ? o->n_precisions : 1;
    const int64_t *sizes = o->n_sizes ? o->sizes : default_sizes;
    size_t n_sizes = o->n_sizes ? o->n_sizes : sizeof default_sizes / sizeof *default_sizes;
    sg_code code = check_options(o, status);
    b->planned = n_precisions * n_sizes * SG_COLLECTIVES * RECORDS;
    for (size_t p = 0; !code && p < n_precisions && !b->interrupted; p++)
        code = all_sizes(b, &precisions[p], sizes, n_sizes, status);
    return code ? code : note_models(b, status);
}
