/* bench_op.c: one op with tensors of its own, filled with known values. */
#include "sim/bench/bench_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/walk/convert.h"

/* ---- memory ------------------------------------------------------------------------------------------------------ */

sg_code sg_bench_fits_host(double bytes, sg_status *status) {
    uint64_t available = sg_host_available_bytes();
    if (!available || bytes <= 0.9 * (double)available) return SG_OK; /* the rest is for everything else */
    return sg_fail(status, SG_NO, "needs %.2f GiB of host memory, %.2f GiB are free", bytes / 0x1p30,
                   (double)available / 0x1p30);
}

sg_code sg_bench_fits_device(sg_bench *b, double bytes, sg_status *status) {
    sg_device_info info;
    sg_code code = b->api->info(b->device, &info, status);
    if (code) return code;
    if (info.free_bytes == 0) return sg_bench_fits_host(bytes, status); /* its memory is the host's */
    if (bytes <= (double)info.free_bytes) return SG_OK;
    return sg_fail(status, SG_NO, "needs %.2f GiB of memory on the device, %.2f GiB are free", bytes / 0x1p30,
                   (double)info.free_bytes / 0x1p30);
}

sg_code sg_bench_host_alloc(sg_bench *b, uint64_t bytes, bool pinned, void **memory, sg_status *status) {
    *memory = NULL;
    sg_code code = sg_bench_fits_host((double)bytes, status);
    if (code) return code;
    if (pinned && b->api->host_alloc) return b->api->host_alloc(b->device, bytes, memory, status);
    if (posix_memalign(memory, 4096, bytes ? (size_t)bytes : 1) == 0) return SG_OK;
    *memory = NULL;
    return sg_fail(status, SG_NO, "%.2f GiB of host memory are not to be had", (double)bytes / 0x1p30);
}

void sg_bench_host_free(sg_bench *b, void *memory, bool pinned) {
    if (!memory) return;
    if (pinned && b->api->host_alloc)
        b->api->host_free(b->device, memory);
    else
        free(memory);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static sg_code take(sg_bench_op *o, const int *alias, sg_status *status) {
    sg_bench *b = o->bench;
    int n = o->op.n_in + o->op.n_out;
    o->workspace_bytes = b->api->plan_workspace_bytes(o->plan);
    double total = (double)o->workspace_bytes;
    for (int i = 0; i < n; i++)
        if (i < o->op.n_in || !alias || alias[i - o->op.n_in] < 0) total += (double)sg_desc_span_bytes(&o->desc[i]);
    sg_code code = sg_bench_fits_device(b, total, status);
    for (int i = 0; !code && i < n; i++) {
        int shared = i >= o->op.n_in && alias ? alias[i - o->op.n_in] : -1;
        if (shared >= 0) {
            o->pointer[i] = o->pointer[shared];
            continue;
        }
        uint64_t bytes = sg_desc_span_bytes(&o->desc[i]);
        code = b->api->segment_alloc(b->device, bytes, &o->pointer[i], status);
        if (!code) o->bytes[i] = bytes;
    }
    if (!code && o->workspace_bytes) code = b->api->segment_alloc(b->device, o->workspace_bytes, &o->workspace, status);
    return code;
}

sg_code sg_bench_op_open(sg_bench *b, sg_op_kind kind, const sg_attrs *attrs, int n_in, int n_out, const sg_desc *desc,
                         const int *alias, sg_bench_op *o, sg_status *status) {
    *o = (sg_bench_op){.bench = b};
    if (n_in + n_out > SG_BENCH_TENSORS)
        return sg_fail(status, SG_BAD_INPUT, "an op with %d tensors, at most %d", n_in + n_out, SG_BENCH_TENSORS);
    memcpy(o->desc, desc, (size_t)(n_in + n_out) * sizeof *desc);
    o->op = (sg_op){.kind = (int32_t)kind, .n_in = n_in, .n_out = n_out, .attrs = *attrs, .desc = o->desc};
    const char *wrong = sg_op_check(&o->op);
    if (wrong) return sg_fail(status, SG_BAD_INPUT, "%s: %s", sg_op_kind_name(kind), wrong);
    o->cost = sg_op_cost(&o->op);
    sg_code code = b->api->prepare(b->device, &o->op, 1, &o->plan, status);
    if (code) {
        o->plan = NULL;
        return code;
    }
    return take(o, alias, status);
}

void sg_bench_op_close(sg_bench_op *o) {
    if (!o->bench) return;
    const sg_device_api *api = o->bench->api;
    sg_device *device = o->bench->device;
    for (int i = 0; i < SG_BENCH_TENSORS; i++)
        if (o->bytes[i]) api->segment_free(device, o->pointer[i], o->bytes[i]);
    if (o->workspace) api->segment_free(device, o->workspace, o->workspace_bytes);
    if (o->plan) api->plans_free(device, &o->plan, 1);
    *o = (sg_bench_op){0};
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

sg_code sg_bench_op_launch(sg_bench_op *o, sg_status *status) {
    static const sg_launch launch = {.seed = 1, .step = 1, .salt = 1};
    return o->bench->api->launch(o->bench->device, o->plan, SG_STREAM_COMPUTE, o->pointer, o->workspace, &launch,
                                 status);
}

sg_code sg_bench_op_timed(void *user, int64_t calls, double *seconds, sg_status *status) {
    sg_bench_op *o = user;
    const sg_device_api *api = o->bench->api;
    sg_device *device = o->bench->device;
    sg_event *const *edge = o->bench->edge;
    double begin = 0, end = 0;
    sg_code code = api->event_record(device, edge[0], SG_STREAM_COMPUTE, status);
    for (int64_t i = 0; !code && i < calls; i++) code = sg_bench_op_launch(o, status);
    if (!code) code = api->event_record(device, edge[1], SG_STREAM_COMPUTE, status);
    if (!code) code = api->stream_wait(device, SG_STREAM_COMPUTE, status);
    if (!code) code = api->event_seconds(device, edge[0], &begin, status);
    if (!code) code = api->event_seconds(device, edge[1], &end, status);
    *seconds = (end - begin) / (double)calls;
    return code;
}

/* ---- known values ------------------------------------------------------------------------------------------------ */

enum { PERIOD = 1048573 /* the largest prime below 2^20: rows of no usual width repeat */ };

static double round_to(sg_dtype dtype, double value) {
    uint64_t element = 0;
    sg_element_set(&element, dtype, 0, value);
    return sg_element_get(&element, dtype, 0);
}

double sg_bench_element(int tensor, int64_t index, sg_dtype dtype, double low, double high) {
    uint64_t z = (uint64_t)(index % PERIOD) + ((uint64_t)tensor + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u; /* the finaliser of SplitMix64 (Steele, Lea, Flood, 2014) */
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return round_to(dtype, low + (high - low) * (double)(z >> 11) * 0x1p-53);
}

void sg_bench_host_fill(void *memory, uint64_t bytes, int tensor, sg_dtype dtype, double low, double high) {
    uint64_t size = sg_dtype_bytes(dtype), n = bytes / size, first = n < PERIOD ? n : PERIOD;
    for (uint64_t i = 0; i < first; i++)
        sg_element_set(memory, dtype, (int64_t)i, sg_bench_element(tensor, (int64_t)i, dtype, low, high));
    unsigned char *at = memory;
    for (uint64_t done = first; done < n; done += first)
        memcpy(at + done * size, at, (size_t)((n - done < first ? n - done : first) * size));
}

sg_code sg_bench_op_fill(sg_bench_op *o, int tensor, double low, double high, sg_status *status) {
    const sg_bench *b = o->bench;
    sg_dtype dtype = (sg_dtype)o->desc[tensor].dtype;
    uint64_t size = sg_dtype_bytes(dtype), all = o->bytes[tensor], period = PERIOD * size;
    uint64_t part = all < period ? all : period;
    void *host = malloc(part ? (size_t)part : 1);
    if (!host) return sg_fail_memory(status, part, "known values");
    sg_bench_host_fill(host, part, tensor, dtype, low, high);
    sg_code code = SG_OK;
    for (uint64_t done = 0; !code && done < all; done += part)
        code = b->api->copy(b->device, (unsigned char *)o->pointer[tensor] + done, host,
                            all - done < part ? all - done : part, SG_COPY_TO_DEVICE, SG_STREAM_COMPUTE, status);
    sg_code waited = b->api->stream_wait(b->device, SG_STREAM_COMPUTE, code ? NULL : status);
    free(host);
    return code ? code : waited;
}

sg_code sg_bench_op_read(sg_bench_op *o, int tensor, int64_t first, int64_t count, double *values, sg_status *status) {
    const sg_bench *b = o->bench;
    double raw[SG_BENCH_READ]; /* room for the widest dtype */
    if (count < 1 || count > SG_BENCH_READ)
        return sg_fail(status, SG_BAD_INPUT, "reading %lld elements, must be 1 to %d", (long long)count, SG_BENCH_READ);
    sg_dtype dtype = (sg_dtype)o->desc[tensor].dtype;
    uint64_t size = sg_dtype_bytes(dtype);
    sg_code code = b->api->copy(b->device, raw, (const unsigned char *)o->pointer[tensor] + (uint64_t)first * size,
                                (uint64_t)count * size, SG_COPY_TO_HOST, SG_STREAM_COMPUTE, status);
    sg_code waited = b->api->stream_wait(b->device, SG_STREAM_COMPUTE, code ? NULL : status);
    if (code || waited) return code ? code : waited;
    for (int64_t i = 0; i < count; i++) values[i] = sg_element_get(raw, dtype, i);
    return SG_OK;
}

void sg_bench_compare(double got, double expected, double bound, double *error) {
    double deviation = fabs(got - expected) / bound;
    if (isnan(deviation)) deviation = got == expected ? 0 : INFINITY; /* 0 / 0: exact where nothing is allowed */
    *error = fmax(*error, deviation);
}

sg_code sg_bench_judge(const char *what, double error, sg_status *status) {
    if (error <= 1) return SG_OK;
    return sg_fail(status, SG_MACHINE,
                   "%s: the result is wrong by %.3g times what rounding allows: this device or its library computes "
                   "wrongly",
                   what, error);
}
