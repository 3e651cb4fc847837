#include "sim/bench/bench_exchange.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/walk/convert.h"

const char *sg_collective_name(sg_collective collective) {
    static const char *const names[SG_COLLECTIVES] = {"all_reduce", "all_gather", "reduce_scatter"};
    return names[collective];
}

/* ---- decisions --------------------------------------------------------------------------------------------------- */

/* In place on device memory: the mean over ranks of n floats. */
static sg_code mean_of(sg_bench *b, void *at, float *values, int64_t n, sg_status *status) {
    const sg_device_api *api = b->api;
    uint64_t bytes = (uint64_t)n * sizeof *values;
    sg_code code = api->copy(b->device, at, values, bytes, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, status);
    if (!code) code = api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
    if (!code) code = api->all_reduce_mean(b->device, b->comm, at, n, SG_F32, status);
    if (!code) code = api->stream_wait(b->device, SG_STREAM_COLLECTIVE, status);
    if (!code) code = api->copy(b->device, values, at, bytes, SG_COPY_TO_HOST, SG_STREAM_COMPUTE, status);
    return code ? code : api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
}

sg_code sg_bench_vote(sg_bench *b, double mine, double *sum, sg_status *status) {
    float value = (float)mine;
    sg_code code = mean_of(b, b->ballot, &value, 1, status);
    *sum = nearbyint((double)value * b->options.ranks);
    return code;
}

/* A number is a sum with zeros of the others, but passes through fp32: seconds need no more. */
sg_code sg_bench_agree(sg_bench *b, double *number, sg_status *status) {
    float value = b->options.rank == 0 ? (float)*number : 0;
    sg_code code = mean_of(b, b->ballot, &value, 1, status);
    *number = (double)value * b->options.ranks;
    return code;
}

/* SG_OK or the failure of this rank becomes one answer of all: nobody may go on into an exchange alone. */
static sg_code agree_on(sg_bench *b, sg_code mine, sg_status *reason, sg_status *status) {
    double failed;
    sg_code code = sg_bench_vote(b, mine ? (mine == SG_NO ? 1 : 1024) : 0, &failed, status);
    if (code) return code;
    if (mine) return sg_fail(status, mine, "%s", reason->text);
    if (failed >= 1024) return sg_fail(status, SG_MACHINE, "another rank failed, see its message");
    return failed > 0 ? sg_fail(status, SG_NO, "it does not fit on another rank") : SG_OK;
}

sg_code sg_bench_slowest(sg_bench *b, sg_bench_samples *s, sg_status *status) {
    const sg_device_api *api = b->api;
    size_t ranks = (size_t)b->options.ranks;
    uint64_t bytes, all;
    if (s->n == 0) return SG_OK;
    if (__builtin_mul_overflow(s->n, sizeof(float), &bytes) || __builtin_mul_overflow(bytes, ranks, &all))
        return sg_fail(status, SG_MACHINE, "%zu times of %zu ranks are too many", s->n, ranks);
    float *mine = malloc(bytes), *everyone = malloc(all);
    void *part = NULL, *whole = NULL;
    if (!mine || !everyone) {
        free(everyone);
        free(mine);
        return sg_fail_memory(status, all, "the ranks' times");
    }
    sg_code code = api->segment_alloc(b->device, bytes, &part, status);
    if (!code) code = api->segment_alloc(b->device, all, &whole, status);
    for (size_t i = 0; !code && i < s->n; i++) mine[i] = (float)s->value[i];
    if (!code) code = api->copy(b->device, part, mine, bytes, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, status);
    if (!code) code = api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
    if (!code) code = api->all_gather(b->device, b->comm, part, whole, (int64_t)s->n, SG_F32, status);
    if (!code) code = api->stream_wait(b->device, SG_STREAM_COLLECTIVE, status);
    if (!code) code = api->copy(b->device, everyone, whole, all, SG_COPY_TO_HOST, SG_STREAM_COMPUTE, status);
    if (!code) code = api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
    for (size_t i = 0; !code && i < s->n; i++)
        for (size_t r = 0; r < ranks; r++) s->value[i] = fmax(s->value[i], (double)everyone[r * s->n + i]);
    if (whole) api->segment_free(b->device, whole, all);
    if (part) api->segment_free(b->device, part, bytes);
    free(everyone);
    free(mine);
    return code;
}

/* ---- buffers ----------------------------------------------------------------------------------------------------- */

static sg_code take(sg_exchange *e, sg_status *status) {
    sg_bench *b = e->bench;
    uint64_t part = e->collective == SG_ALL_REDUCE ? 0 : e->part_bytes;
    sg_code code = sg_bench_fits_device(b, (double)e->whole_bytes + (double)part, status);
    if (!code) code = b->api->segment_alloc(b->device, e->whole_bytes, &e->whole_at, status);
    if (!code && part) code = b->api->segment_alloc(b->device, part, &e->part_at, status);
    return code;
}

sg_code sg_exchange_open(sg_bench *b, sg_collective collective, const sg_bench_precision *precision, int64_t bytes,
                         sg_exchange *e, sg_status *status) {
    int64_t size = (int64_t)sg_dtype_bytes(precision->dtype), ranks = b->options.ranks;
    *e = (sg_exchange){.bench = b, .collective = collective, .precision = precision};
    e->part = bytes / size / ranks;
    if (e->part < 1)
        return sg_fail(status, SG_BAD_INPUT, "%lld bytes hold no element for each of %lld ranks: give at least %lld",
                       (long long)bytes, (long long)ranks, (long long)size * (long long)ranks);
    e->whole = e->part * ranks;
    e->whole_bytes = (uint64_t)e->whole * (uint64_t)size;
    e->part_bytes = (uint64_t)e->part * (uint64_t)size;
    sg_status reason = {0};
    sg_code mine = take(e, &reason);
    return agree_on(b, mine, &reason, status);
}

void sg_exchange_close(sg_exchange *e) {
    const sg_bench *b = e->bench;
    if (!b) return;
    if (e->whole_at) b->api->segment_free(b->device, e->whole_at, e->whole_bytes);
    if (e->part_at) b->api->segment_free(b->device, e->part_at, e->part_bytes);
    *e = (sg_exchange){0};
}

sg_code sg_exchange_start(sg_exchange *e, sg_status *status) {
    const sg_bench *b = e->bench;
    sg_dtype dtype = e->precision->dtype;
    switch (e->collective) {
    case SG_ALL_REDUCE: return b->api->all_reduce_mean(b->device, b->comm, e->whole_at, e->whole, dtype, status);
    case SG_ALL_GATHER: return b->api->all_gather(b->device, b->comm, e->part_at, e->whole_at, e->part, dtype, status);
    default: return b->api->reduce_scatter_mean(b->device, b->comm, e->whole_at, e->part_at, e->part, dtype, status);
    }
}

/* ---- known values ------------------------------------------------------------------------------------------------ */

/* Whole numbers that every dtype holds exactly, different from place to place and from rank to rank. */
static double value_of(const sg_exchange *e, int rank, int64_t index) {
    uint64_t hash = (uint64_t)index * UINT64_C(0x9e3779b97f4a7c15) >> 44;
    return (double)(1 + hash % (e->precision->dtype == SG_F32 ? 4096 : 64) + (uint64_t)rank);
}

enum { CHUNK = 1 << 18 };

/* This rank's input, and 0 where the result will stand. */
sg_code sg_exchange_fill(sg_exchange *e, sg_status *status) {
    const sg_bench *b = e->bench;
    int rank = b->options.rank;
    bool gather = e->collective == SG_ALL_GATHER;
    sg_dtype dtype = e->precision->dtype;
    int64_t size = (int64_t)sg_dtype_bytes(dtype);
    unsigned char *host = calloc(CHUNK, (size_t)size);
    if (!host) return sg_fail_memory(status, (unsigned long long)CHUNK * (unsigned long long)size, "known values");
    sg_code code = SG_OK;
    for (int pass = 0; !code && pass < 2; pass++) { /* the result's zeros first: all_reduce has one buffer for both */
        bool input = pass == 1, in_part = gather == input;
        if (in_part && !e->part_at) continue;
        int64_t n = in_part ? e->part : e->whole, first = gather ? rank * e->part : 0;
        unsigned char *to = in_part ? e->part_at : e->whole_at;
        if (!input && e->collective == SG_ALL_REDUCE) continue;
        for (int64_t at = 0; !code && at < n; at += CHUNK) {
            int64_t count = n - at < CHUNK ? n - at : CHUNK;
            for (int64_t i = 0; i < count; i++)
                sg_element_set(host, dtype, i, input ? value_of(e, rank, first + at + i) : 0);
            code = b->api->copy(b->device, to + at * size, host, (uint64_t)(count * size), SG_COPY_TO_DEVICE,
                                SG_STREAM_COMPUTE, status);
            if (!code) code = b->api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
        }
    }
    free(host);
    return code;
}

/* A mean of n positive values rounds at most n + 1 times, each time by at most one last bit of what is so far. */
static void compare(const sg_exchange *e, int64_t index, double got, double *error) {
    int ranks = e->bench->options.ranks;
    if (e->collective == SG_ALL_GATHER) {
        sg_bench_compare(got, value_of(e, (int)(index / e->part), index), 0, error);
        return;
    }
    int64_t place = e->collective == SG_ALL_REDUCE ? index : e->bench->options.rank * e->part + index;
    double expected = value_of(e, 0, place) + 0.5 * (ranks - 1);
    double bit = e->precision->dtype == SG_BF16 ? 0x1p-8 : e->precision->dtype == SG_F16 ? 0x1p-10 : 0x1p-23;
    sg_bench_compare(got, expected, (ranks + 1) * bit * expected, error);
}

static sg_code compare_all(sg_exchange *e, double *error, sg_status *status) {
    const sg_bench *b = e->bench;
    bool scattered = e->collective == SG_REDUCE_SCATTER;
    int64_t n = scattered ? e->part : e->whole, size = (int64_t)sg_dtype_bytes(e->precision->dtype);
    const unsigned char *from = scattered ? e->part_at : e->whole_at;
    unsigned char *host = malloc(CHUNK * (size_t)size);
    if (!host) return sg_fail_memory(status, CHUNK * (unsigned long long)size, "results");
    sg_code code = SG_OK;
    for (int64_t at = 0; !code && at < n; at += CHUNK) {
        int64_t count = n - at < CHUNK ? n - at : CHUNK;
        code = b->api->copy(b->device, host, from + at * size, (uint64_t)(count * size), SG_COPY_TO_HOST,
                            SG_STREAM_COMPUTE, status);
        if (!code) code = b->api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
        for (int64_t i = 0; !code && i < count; i++)
            compare(e, at + i, sg_element_get(host, e->precision->dtype, i), error);
    }
    free(host);
    return code;
}

sg_code sg_exchange_check(sg_exchange *e, double *error, sg_status *status) {
    *error = 0;
    sg_status reason = {0};
    sg_code mine = compare_all(e, error, &reason);
    if (!mine) mine = sg_bench_judge(sg_collective_name(e->collective), *error, &reason);
    return agree_on(e->bench, mine, &reason, status);
}
