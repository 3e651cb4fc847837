/* bench_copy.c: copies between host and device, from pinned and from pageable memory. */
#include "sim/bench/bench_internal.h"

#include <stdio.h>
#include <string.h>

static const int64_t default_sizes[] = {4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20, 256 << 20};
enum { MOST_CALLS = 64, DIRECTIONS = 2 };

typedef struct copying {
    sg_bench *bench;
    sg_copy_kind kind;
    void *segment, *host, *back;
    uint64_t bytes;
    bool pinned;
} copying;

static sg_code copy_once(const copying *c, sg_copy_kind kind, void *host, sg_status *status) {
    const sg_bench *b = c->bench;
    bool to_device = kind == SG_COPY_TO_DEVICE;
    return b->api->copy(b->device, to_device ? c->segment : host, to_device ? host : c->segment, c->bytes, kind,
                        SG_STREAM_COPY, status);
}

/* From an idle stream until the last copy has arrived: host time. */
static sg_code timed(void *user, int64_t calls, double *seconds, sg_status *status) {
    const copying *c = user;
    const sg_bench *b = c->bench;
    double start = b->api->now(b->device);
    sg_code code = SG_OK;
    for (int64_t i = 0; !code && i < calls; i++) code = copy_once(c, c->kind, c->host, status);
    if (!code) code = b->api->stream_wait(b->device, SG_STREAM_COPY, status);
    *seconds = (b->api->now(b->device) - start) / (double)calls;
    return code;
}

/* There and back into other memory: every byte must be the same. */
static sg_code check(const copying *c, sg_status *status) {
    const sg_bench *b = c->bench;
    unsigned char *bytes = c->host;
    for (uint64_t i = 0; i < c->bytes; i++) bytes[i] = (unsigned char)(i * 131 + (i >> 8) * 29 + (i >> 16));
    memset(c->back, 0xa5, (size_t)c->bytes);
    sg_code code = copy_once(c, SG_COPY_TO_DEVICE, c->host, status);
    if (!code) code = copy_once(c, SG_COPY_TO_HOST, c->back, status);
    if (!code) code = b->api->stream_wait(b->device, SG_STREAM_COPY, status);
    if (!code && memcmp(c->host, c->back, (size_t)c->bytes) != 0)
        return sg_fail(status, SG_MACHINE, "what came back from the device is not what went there");
    return code;
}

static sg_code open_copying(copying *c, sg_status *status) {
    sg_bench *b = c->bench;
    sg_code code = sg_bench_fits_device(b, (double)c->bytes, status);
    if (!code) code = b->api->segment_alloc(b->device, c->bytes, &c->segment, status);
    if (!code) code = sg_bench_host_alloc(b, c->bytes, c->pinned, &c->host, status);
    if (!code) code = sg_bench_host_alloc(b, c->bytes, c->pinned, &c->back, status);
    return code;
}

static void close_copying(copying *c) {
    sg_bench *b = c->bench;
    if (c->segment) b->api->segment_free(b->device, c->segment, c->bytes);
    sg_bench_host_free(b, c->host, c->pinned);
    sg_bench_host_free(b, c->back, c->pinned);
}

static sg_code time_direction(copying *c, const char *memory, sg_status *status) {
    sg_bench *b = c->bench;
    sg_bench_samples samples;
    sg_code code = sg_bench_repeat(b, timed, c, MOST_CALLS, &samples, status);
    if (code) return code;
    sg_micro micro = sg_bench_micro(b, "copy", c->kind == SG_COPY_TO_DEVICE ? "to_device" : "to_host", NULL);
    (void)snprintf(micro.config.host_memory, sizeof micro.config.host_memory, "%s", memory);
    micro.config.bytes = (int64_t)c->bytes;
    micro.bytes_moved = (double)c->bytes;
    micro.checked = true;
    return sg_bench_keep(b, &micro, &samples, status);
}

static sg_code one(sg_bench *b, int64_t bytes, const char *memory, bool pinned, sg_status *status) {
    char name[64];
    (void)snprintf(name, sizeof name, "copy %lld bytes, %s", (long long)bytes, memory);
    sg_bench_tell(b, name);
    bool omitted;
    sg_code over = sg_bench_time_is_over(b, name, DIRECTIONS, &omitted, status);
    if (over || omitted) return over;
    copying c = {.bench = b, .bytes = (uint64_t)bytes, .pinned = pinned};
    sg_status reason = {0};
    sg_code code = open_copying(&c, &reason);
    if (!code) code = check(&c, &reason);
    static const sg_copy_kind kinds[DIRECTIONS] = {SG_COPY_TO_DEVICE, SG_COPY_TO_HOST};
    for (int i = 0; !code && i < DIRECTIONS && !sg_bench_stopped(b); i++) {
        c.kind = kinds[i];
        code = time_direction(&c, memory, &reason);
    }
    close_copying(&c);
    if (code == SG_NO) {
        if (b->planned > 0) b->planned--; /* both directions */
        return sg_bench_omit(b, name, reason.text, true, status);
    }
    return code ? sg_fail(status, code, "%s: %s", name, reason.text) : SG_OK;
}

sg_code sg_bench_copy(sg_bench *b, sg_status *status) {
    const sg_bench_options *o = &b->options;
    const int64_t *sizes = o->n_sizes ? o->sizes : default_sizes;
    size_t n_sizes = o->n_sizes ? o->n_sizes : sizeof default_sizes / sizeof *default_sizes;
    for (size_t s = 0; s < n_sizes; s++)
        if (sizes[s] < 1 || sizes[s] > INT64_C(1) << 50)
            return sg_fail(status, SG_BAD_INPUT, "a copy of %lld bytes: give at least 1", (long long)sizes[s]);
    bool told_apart = b->api->host_alloc != NULL;
    int kinds = told_apart ? 2 : 1;
    b->planned = n_sizes * DIRECTIONS * (size_t)kinds;
    sg_code code = SG_OK;
    for (size_t s = 0; !code && s < n_sizes; s++)
        for (int k = 0; !code && k < kinds && !sg_bench_stopped(b); k++)
            code = one(b, sizes[s], !told_apart ? "any" : k == 0 ? "pinned" : "pageable", told_apart && k == 0, status);
    return code;
}
