/* walk_collective.c: shards are gathered, gradients scattered, beside what compute does; and waited for. */
#include <stdlib.h>

#include "sim/walk/trace_internal.h"
#include "sim/walk/walk_internal.h"

sg_code sg_walk_open_slots(sg_walker *w, sg_status *status) {
    size_t n = w->training->n_collectives > 0 ? (size_t)w->training->n_collectives : 0;
    w->slot_events = calloc(2 * n + 1, sizeof(sg_event *));
    if (!w->slot_events) return sg_fail_memory(status, 2 * n * sizeof(sg_event *), "the events of collectives");
    for (size_t i = 0; i < 2 * n; i++) {
        sg_code code = w->api->event_create(w->device, &w->slot_events[i], status);
        if (code) return code;
    }
    return SG_OK;
}

void sg_walk_close_slots(sg_walker *w) {
    for (int32_t i = 0; w->slot_events && i < 2 * w->training->n_collectives; i++)
        if (w->slot_events[i]) w->api->event_destroy(w->device, w->slot_events[i]);
    free(w->slot_events);
    w->slot_events = NULL;
}

typedef struct vectors {
    char *from, *to;
    int64_t part; /* elements */
    sg_dtype dtype;
    uint64_t part_bytes;
} vectors;

static sg_code look_up(const sg_walker *w, const sg_instruction *in, vectors *v, sg_status *status) {
    const sg_argument *a = &w->arguments[in->first];
    char *from = w->live[a[0].storage].address, *to = w->live[a[1].storage].address;
    if (!from || !to) return sg_fail(status, SG_BAD_INPUT, "an argument is not live");
    const sg_training *t = w->training;
    const sg_desc *part = &t->tensors[t->args[in->first + (in->kind == SG_RUN_SCATTER)]].desc;
    *v = (vectors){from + a[0].offset_bytes, to + a[1].offset_bytes, sg_desc_count(part), (sg_dtype)part->dtype,
                   sg_desc_span_bytes(part)};
    return SG_OK;
}

static sg_code exchange(sg_walker *w, const sg_instruction *in, const vectors *v, sg_status *status) {
    const sg_device_api *api = w->api;
    switch (in->kind) {
    case SG_RUN_GATHER: return api->all_gather(w->device, w->options.comm, v->from, v->to, v->part, v->dtype, status);
    case SG_RUN_SCATTER:
        return api->reduce_scatter_mean(w->device, w->options.comm, v->from, v->to, v->part, v->dtype, status);
    default: return api->all_reduce_mean(w->device, w->options.comm, v->to, v->part, v->dtype, status);
    }
}

/* Communication off: the same vectors hold numbers, of this rank alone. */
static sg_code stand_in(sg_walker *w, const sg_instruction *in, const vectors *v, sg_status *status) {
    sg_code code = SG_OK;
    int parts = in->kind == SG_RUN_GATHER ? w->options.ranks : in->kind == SG_RUN_SCATTER ? 1 : 0;
    const char *from = v->from + (in->kind == SG_RUN_SCATTER ? v->part_bytes * (uint64_t)w->options.rank : 0);
    for (int i = 0; i < parts && !code; i++)
        code = w->api->copy(w->device, v->to + v->part_bytes * (uint64_t)i, from, v->part_bytes, SG_COPY_ON_DEVICE,
                            SG_STREAM_COLLECTIVE, status);
    return code;
}

static int traced_as(const sg_instruction *in) {
    switch (in->kind) {
    case SG_RUN_GATHER: return SG_TRACE_ALL_GATHER;
    case SG_RUN_SCATTER: return SG_TRACE_REDUCE_SCATTER;
    default: return SG_TRACE_ALL_REDUCE;
    }
}

sg_code sg_walk_collective(sg_walker *w, const sg_instruction *in, sg_status *status) {
    const sg_device_api *api = w->api;
    sg_event *ready = w->slot_events[2 * in->index], *done = w->slot_events[2 * in->index + 1];
    vectors v = {0};
    sg_code code = look_up(w, in, &v, status);
    if (!code) code = sg_walk_host(w, in->host_class, in->host_count, status);
    if (!code) code = api->event_record(w->device, ready, SG_STREAM_COMPUTE, status);
    if (!code) code = api->event_wait(w->device, ready, SG_STREAM_COLLECTIVE, status);
    if (!code) code = sg_walk_trace_begin(w, traced_as(in), SG_STREAM_COLLECTIVE, in->index, status);
    if (!code) code = w->communicate ? exchange(w, in, &v, status) : stand_in(w, in, &v, status);
    if (!code) code = sg_walk_trace_end(w, status);
    if (!code) code = api->event_record(w->device, done, SG_STREAM_COLLECTIVE, status);
    return code ? sg_fail_in(status, "slot %d of collectives", in->index) : SG_OK;
}

sg_code sg_walk_join(sg_walker *w, const sg_instruction *in, sg_status *status) {
    sg_code code = sg_walk_mark(w, SG_MARK_SYNC_BEGIN, status);
    if (!code) code = w->api->event_wait(w->device, w->slot_events[2 * in->index + 1], SG_STREAM_COMPUTE, status);
    return code ? code : sg_walk_mark(w, SG_MARK_SYNC_END, status);
}
