/* bench.c: a benchmark's device, its records and what it left out. */
#include "sim/bench/bench_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/clock.h"

static const double COMMUNICATOR_TIMEOUT_S = 60; /* as measurements have it */
enum { BALLOT_BYTES = 512 };

static const sg_bench_precision precisions[] = {
    {"fp32", SG_F32, SG_COMPUTE_F32},
    {"tf32", SG_F32, SG_COMPUTE_TF32},
    {"bf16", SG_BF16, SG_COMPUTE_BF16},
    {"fp16", SG_F16, SG_COMPUTE_F16},
};

sg_code sg_bench_precision_of(const char *name, sg_bench_precision *precision, sg_status *status) {
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        if (strcmp(precisions[i].name, name) != 0) continue;
        *precision = precisions[i];
        return SG_OK;
    }
    return sg_fail(status, SG_BAD_INPUT, "precision '%.32s': fp32, tf32, bf16 or fp16 is expected", name);
}

static sg_code join(sg_bench *b, sg_status *status) {
    const sg_bench_options *o = &b->options;
    if (!b->api->comm_create)
        return sg_fail(status, SG_MACHINE, "device %s has no communicator: take one rank", b->info.kind);
    const sg_comm_options join = {
        .rank = o->rank, .ranks = o->ranks, .bootstrap = o->bootstrap, .timeout_s = COMMUNICATOR_TIMEOUT_S};
    sg_code code = b->api->comm_create(b->device, &join, &b->comm, status);
    return code ? code : b->api->segment_alloc(b->device, BALLOT_BYTES, &b->ballot, status);
}

sg_code sg_bench_open(const sg_device_api *api, const sg_bench_options *options, sg_bench *b, sg_status *status) {
    *b = (sg_bench){.api = api, .options = *options, .start_s = sg_clock_s()};
    const sg_device_options open = {
        .index = options->index, .threads = options->threads, .library_dir = options->library_dir};
    sg_code code = api->open(&open, &b->device, status);
    if (!code) code = api->info(b->device, &b->info, status);
    for (int i = 0; !code && i < 4; i++) code = api->event_create(b->device, &b->edge[i], status);
    if (!code && options->ranks > 1) code = join(b, status);
    return code;
}

void sg_bench_open_host(const char *cpu, const sg_bench_options *options, sg_bench *b) {
    *b = (sg_bench){.options = *options, .start_s = sg_clock_s()};
    b->options.ranks = 1;
    b->info.units = 1; /* each process decodes with one thread */
    (void)snprintf(b->info.kind, sizeof b->info.kind, "cpu");
    (void)snprintf(b->info.name, sizeof b->info.name, "%s", cpu);
}

void sg_bench_close(sg_bench *b) {
    if (b->device) {
        if (b->ballot) b->api->segment_free(b->device, b->ballot, BALLOT_BYTES);
        if (b->comm) b->api->comm_destroy(b->device, b->comm);
        for (int i = 0; i < 4; i++)
            if (b->edge[i]) b->api->event_destroy(b->device, b->edge[i]);
        b->api->close(b->device);
    }
    free(b->micros);
    free(b->omissions);
    *b = (sg_bench){0};
}

const char *sg_bench_name(sg_bench_kind kind) {
    static const char *const names[SG_BENCH_KINDS] = {"gemm", "memory", "copy", "launch", "collective", "decode"};
    return names[kind];
}

/* What the driver told meanwhile is told of every record. */
static sg_code stop_watching(sg_bench *b, sg_status *status) {
    sg_gpu_conditions seen = {0};
    sg_code code = sg_gpu_watch_stop(b->gpu, &b->info, &seen, status);
    b->gpu = NULL;
    for (size_t i = 0; i < b->n_micros; i++) {
        sg_micro *micro = &b->micros[i];
        micro->gpu = seen;
        if (sg_gpu_conditions_judge(&seen, micro->disturbed_why, sizeof micro->disturbed_why)) micro->disturbed = true;
    }
    return code;
}

sg_code sg_bench_run(sg_bench *b, sg_bench_kind kind, sg_status *status) {
    static sg_code (*const run[SG_BENCH_KINDS])(sg_bench *, sg_status *) = {
        sg_bench_gemm, sg_bench_memory, sg_bench_copy, sg_bench_launch, sg_bench_collective, sg_bench_decode};
    if ((unsigned)kind >= SG_BENCH_KINDS) return sg_fail(status, SG_BAD_INPUT, "there is no benchmark %d", (int)kind);
    b->gpu = sg_gpu_watch_start(&b->info);
    sg_code code = run[kind](b, status);
    /* Leaving NCCL in order waits for the others, who may wait for this rank's exchange. */
    if (code && b->comm && strcmp(b->info.kind, "cuda") == 0) b->api->comm_abort(b->device, b->comm);
    sg_code lost = stop_watching(b, status);
    return lost ? lost : code; /* a GPU that fell off the bus is why its calls fail */
}

/* ---- records ----------------------------------------------------------------------------------------------------- */

/* Names of devices are part of a record's key, which a file keeps as it is. */
static void copy_clean(char *to, size_t bytes, const char *from) {
    size_t n = 0;
    for (; from[n] && n + 1 < bytes; n++) to[n] = from[n] >= ' ' && from[n] <= '~' ? from[n] : '?';
    to[n] = '\0';
}

static const char *compute_name(sg_compute compute) {
    static const char *const names[SG_COMPUTE_COUNT] = {"f32", "tf32", "bf16", "f16", "f64"};
    return names[compute];
}

sg_micro sg_bench_micro(const sg_bench *b, const char *name, const char *what, const sg_bench_precision *precision) {
    sg_micro micro = {.s = {NAN, NAN, NAN, NAN},
                      .p99_s = NAN,
                      .flops = NAN,
                      .bytes_moved = NAN,
                      .flop_per_s = NAN,
                      .bytes_per_s = NAN,
                      .algbw = NAN,
                      .busbw = NAN,
                      .alone_s = NAN,
                      .error = NAN,
                      .fits_rates = true};
    sg_micro_config *c = &micro.config;
    copy_clean(c->bench, sizeof c->bench, name);
    copy_clean(c->what, sizeof c->what, what);
    copy_clean(c->device, sizeof c->device, b->info.kind);
    copy_clean(c->device_name, sizeof c->device_name, b->info.name);
    copy_clean(c->host, sizeof c->host, "native");
    c->ranks = b->options.ranks > 1 ? b->options.ranks : 1;
    c->threads = b->info.units;
    if (!precision) return micro;
    copy_clean(c->dtype, sizeof c->dtype, sg_dtype_name(precision->dtype));
    copy_clean(c->compute, sizeof c->compute, compute_name(precision->compute));
    micro.fits_rates = sg_bench_is_native(b, precision);
    return micro;
}

bool sg_bench_is_native(const sg_bench *b, const sg_bench_precision *precision) {
    switch (precision->compute) {
    case SG_COMPUTE_TF32: return b->info.compute_capability >= 80; /* first with tf32 products */
    case SG_COMPUTE_BF16: return b->info.bf16_native;
    case SG_COMPUTE_F16: return b->info.fp16_native;
    default: return true;
    }
}

static void judge_spread(sg_micro *micro, const sg_bench_samples *s) {
    double low = sg_quantile(s->value, s->n, 0.1), high = sg_quantile(s->value, s->n, 0.9);
    if (s->n < 5 || !(high - low > 0.25 * micro->s.median)) return; /* limits as docs/measurement.md has them */
    size_t used = strlen(micro->disturbed_why);
    micro->disturbed = true;
    (void)snprintf(micro->disturbed_why + used, sizeof micro->disturbed_why - used,
                   "%sthe time differs from run to run: %.4g to %.4g s", used ? "; " : "", low, high);
}

/* The kernel counts processor time in hundredths of a second: what happened in less than 0.25 s cannot be told. */
static void judge(sg_micro *micro, const sg_bench_samples *s, int ranks) {
    bool shared = ranks > 1 && sg_host_processors() > 1; /* ranks that share these processors are no strangers */
    if (s->after.at_s - s->before.at_s > 0.25)
        micro->disturbed = sg_host_state_compare(&s->before, &s->after, shared ? ranks : 1, micro->disturbed_why,
                                                 sizeof micro->disturbed_why) > 0;
    judge_spread(micro, s);
}

static void set_conditions(const sg_bench *b, sg_micro *micro, const sg_bench_samples *s) {
    micro->load_average = s->before.load_average > 0 ? s->before.load_average : 0;
    micro->clock_mhz = s->after.clock_mhz;
    copy_clean(micro->library, sizeof micro->library, b->info.library);
    copy_clean(micro->driver, sizeof micro->driver, b->info.driver);
    copy_clean(micro->program_version, sizeof micro->program_version, SG_VERSION);
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) (void)strftime(micro->date, sizeof micro->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static void set_times(sg_micro *micro, const sg_bench_samples *s) {
    micro->iterations = (int64_t)s->n;
    micro->warmup = s->warmup;
    micro->calls = s->calls;
    micro->s = sg_statistic_of(s->value, s->n);
    micro->p99_s = sg_quantile(s->value, s->n, 0.99);
    if (!(micro->s.median > 0)) return;
    micro->flop_per_s = micro->flops / micro->s.median;
    micro->bytes_per_s = micro->bytes_moved / micro->s.median;
}

sg_code sg_bench_keep(sg_bench *b, sg_micro *micro, sg_bench_samples *samples, sg_status *status) {
    if (b->planned > 0) b->planned--;
    if (samples->n == 0) {
        sg_bench_samples_clear(samples);
        return SG_OK;
    }
    set_times(micro, samples);
    judge(micro, samples, b->options.ranks);
    set_conditions(b, micro, samples);
    micro->key = sg_micro_key(&micro->config);
    sg_bench_samples_clear(samples);
    sg_micro *grown = reallocarray(b->micros, b->n_micros + 1, sizeof *grown);
    if (!grown) return sg_fail_memory(status, (b->n_micros + 1) * sizeof *grown, "micro-benchmarks");
    b->micros = grown;
    b->micros[b->n_micros++] = *micro;
    return SG_OK;
}

sg_code sg_bench_omit(sg_bench *b, const char *what, const char *why, bool answer, sg_status *status) {
    if (b->planned > 0) b->planned--;
    sg_bench_omission *grown = reallocarray(b->omissions, b->n_omissions + 1, sizeof *grown);
    if (!grown) return sg_fail_memory(status, (b->n_omissions + 1) * sizeof *grown, "a list of what was left out");
    b->omissions = grown;
    sg_bench_omission *o = &b->omissions[b->n_omissions++];
    *o = (sg_bench_omission){.answer = answer};
    (void)snprintf(o->what, sizeof o->what, "%s", what);
    (void)snprintf(o->why, sizeof o->why, "%s", why);
    return SG_OK;
}

sg_code sg_bench_time_is_over(sg_bench *b, const char *what, size_t records, bool *omitted, sg_status *status) {
    *omitted = b->n_micros > 0 && sg_clock_s() - b->start_s > b->options.time_budget_s;
    if (!*omitted) return SG_OK;
    b->planned -= b->planned >= records ? records - 1 : 0;
    return sg_bench_omit(b, what, "the time was over before it: give a longer --time-budget", false, status);
}

void sg_bench_tell(const sg_bench *b, const char *what) {
    if (!b->options.progress) return;
    double done = (double)(b->n_micros + b->n_omissions), all = done + (double)b->planned;
    b->options.progress(b->options.user, all > 0 ? done / all : 0, what);
}

bool sg_bench_stopped(sg_bench *b) {
    if (b->options.stop && *b->options.stop) b->interrupted = true;
    return b->interrupted;
}
