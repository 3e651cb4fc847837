/* The virtual device: nothing is computed, clocks advance by the prices of a machine.
 *
 * There is a clock for the host and one per stream. A launch starts when the host has issued it and its stream is free
 * and ends a price later; a wait joins clocks. What would move them can go on a tape instead, whatever the machine. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/virtual/device.h"

/* Addresses start where no real segment lies and are never handed out twice. */
static const uint64_t FIRST_ADDRESS = (uint64_t)1 << 44, LAST_ADDRESS = (uint64_t)1 << 62;
static const uint64_t SEGMENT_ALIGNMENT = (uint64_t)2 << 20;

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void take_machine(sg_device *d, const sg_machine *machine) {
    d->machine = *machine;
    d->machine.covariance = NULL;
    d->clocks.in_line = strcmp(d->machine.device_class, "cpu") == 0;
    d->clocks.stretch = d->machine.p[SG_M_OVERLAP_STRETCH].value;
    d->clocks.collective_stretch = d->machine.p[SG_M_COLLECTIVE_STRETCH].value;
    for (int c = 0; c < SG_TAPE_HOST_DURATIONS; c++) d->host_s[c] = NAN;
    double context = d->machine.p[SG_M_CONTEXT_BYTES].value;
    uint64_t outside = isfinite(context) && context > 0 && context < 1e18 ? (uint64_t)context : 0;
    uint64_t total = d->machine.memory_bytes;
    d->limit_bytes = total == 0 ? UINT64_MAX : total > outside ? total - outside : 0;
}

static sg_code device_open(const sg_device_options *options, sg_device **device, sg_status *status) {
    *device = NULL;
    if (!options || !options->machine)
        return sg_fail(status, SG_BAD_INPUT, "opening the virtual device: no machine was given");
    sg_device *d = calloc(1, sizeof *d);
    if (!d) return sg_fail_memory(status, sizeof *d, "the virtual device");
    take_machine(d, options->machine);
    d->next_address = FIRST_ADDRESS;
    *device = d;
    return SG_OK;
}

static void device_close(sg_device *d) {
    if (!d) return;
    while (d->blocks) {
        plan_block *next = d->blocks->next;
        free(d->blocks);
        d->blocks = next;
    }
    sg_virtual_graph_destroy(d, d->recording);
    free(d->clocks.active);
    free(d->clocks.event);
    free(d);
}

static sg_code device_info(sg_device *d, sg_device_info *info, sg_status *status) {
    (void)status;
    const sg_machine *m = &d->machine;
    memset(info, 0, sizeof *info);
    memcpy(info->kind, "virtual", sizeof "virtual");
    const char *name = m->title[0] ? m->title : m->name;
    size_t n = strnlen(name, sizeof info->name - 1);
    memcpy(info->name, name, n);
    memcpy(info->library, "cost model", sizeof "cost model");
    info->executes = false;
    info->caching = m->caching_allocator;
    info->bf16_native = m->bf16;
    info->fp16_native = m->fp16;
    info->units = m->units;
    info->memory_bytes = m->memory_bytes;
    return SG_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static sg_code segment_alloc(sg_device *d, uint64_t bytes, void **segment, sg_status *status) {
    *segment = NULL;
    if (d->used_bytes > d->limit_bytes || bytes > d->limit_bytes - d->used_bytes ||
        bytes > LAST_ADDRESS - SEGMENT_ALIGNMENT - d->next_address)
        return sg_fail(status, SG_NO,
                       "machine %s is out of memory: %.2f GiB are in use, %.2f GiB more do not fit in %.2f GiB; "
                       "take a smaller batch",
                       d->machine.name, (double)d->used_bytes / 0x1p30, (double)bytes / 0x1p30,
                       (double)d->limit_bytes / 0x1p30);
    sg_code code = d->free_segments ? SG_OK : sg_virtual_host_work(d, SG_HOST_SEGMENT, 1, status);
    if (code) return code;
    *segment = (void *)(uintptr_t)d->next_address; // NOLINT(performance-no-int-to-ptr)
    d->used_bytes += bytes;
    /* a gap behind each segment: an overrun cannot reach the next one */
    d->next_address += (bytes + 2 * SEGMENT_ALIGNMENT - 1) / SEGMENT_ALIGNMENT * SEGMENT_ALIGNMENT;
    return SG_OK;
}

void sg_virtual_free_segments(sg_device *device, bool are_free) {
    device->free_segments = are_free;
}

static void segment_free(sg_device *d, void *segment, uint64_t bytes) {
    if (segment) d->used_bytes -= bytes <= d->used_bytes ? bytes : d->used_bytes;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static void plans_free(sg_device *d, sg_plan **plans, size_t n) {
    for (plan_block **at = &d->blocks; n && *at; at = &(*at)->next) {
        plan_block *block = *at;
        if (block->plan != plans[0]) continue;
        *at = block->next;
        free(block);
        return;
    }
}

static sg_code prepare(sg_device *d, const sg_op *ops, size_t n, sg_plan **plans, sg_status *status) {
    if (!n) return SG_OK;
    size_t bytes;
    plan_block *block = NULL;
    if (!__builtin_mul_overflow(n, sizeof block->plan[0], &bytes)) block = calloc(1, sizeof *block + bytes);
    if (!block) return sg_fail_memory(status, n * sizeof block->plan[0], "the prices of a training's operations");
    block->n = n;
    sg_code code = SG_OK;
    for (size_t i = 0; i < n && !code; i++) {
        block->plan[i] = (sg_plan){.op = &ops[i], .seconds = NAN, .cls = (uint8_t)sg_op_class_of(&ops[i])};
        if (!d->tape) code = sg_machine_step_price(&d->machine, &ops[i], &block->plan[i].seconds, NULL, status);
        plans[i] = &block->plan[i];
    }
    if (code) {
        free(block);
        return code;
    }
    block->next = d->blocks;
    d->blocks = block;
    return SG_OK;
}

static uint64_t plan_workspace_bytes(const sg_plan *plan) {
    (void)plan;
    return 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

void sg_virtual_read(const sg_device *d, sg_virtual_report *report) {
    *report = d->sums;
    report->host_s = d->clocks.host;
}

void sg_virtual_reset(sg_device *d) {
    sg_clocks *c = &d->clocks;
    c->host = 0;
    memset(c->stream, 0, sizeof c->stream);
    c->first = c->n_active = 0;
    d->sums = (sg_virtual_report){0};
}

void sg_virtual_record_on(sg_device *d, sg_tape *tape) {
    d->tape = tape;
    for (plan_block *block = d->blocks; block; block = block->next)
        for (size_t i = 0; i < block->n; i++) block->plan[i].tape = NULL;
}

const sg_device_api *sg_virtual_device(void) {
    static const sg_device_api api = {
        .abi = SG_DEVICE_ABI,
        .struct_bytes = sizeof(sg_device_api),
        .kind = "virtual",
        .open = device_open,
        .close = device_close,
        .info = device_info,
        .segment_alloc = segment_alloc,
        .segment_free = segment_free,
        .prepare = prepare,
        .plans_free = plans_free,
        .plan_workspace_bytes = plan_workspace_bytes,
        .launch = sg_virtual_launch,
        .event_create = sg_virtual_event_create,
        .event_destroy = sg_virtual_event_destroy,
        .event_record = sg_virtual_event_record,
        .event_wait = sg_virtual_event_wait,
        .event_seconds = sg_virtual_event_seconds,
        .graph_begin = sg_virtual_graph_begin,
        .graph_end = sg_virtual_graph_end,
        .graph_launch = sg_virtual_graph_launch,
        .graph_destroy = sg_virtual_graph_destroy,
        .stream_wait = sg_virtual_stream_wait,
        .copy = sg_virtual_copy,
        .host_work = sg_virtual_host_work,
        .host_idle = sg_virtual_host_idle,
        .now = sg_virtual_now,
        .comm_create = sg_virtual_comm_create,
        .comm_destroy = sg_virtual_comm_destroy,
        .all_reduce_mean = sg_virtual_all_reduce_mean,
        .all_gather = sg_virtual_all_gather,
        .reduce_scatter_mean = sg_virtual_reduce_scatter_mean,
        .comm_abort = sg_virtual_comm_abort,
    };
    return &api;
}
