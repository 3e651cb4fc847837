/* walk_memory.c: storages come and go; where allocated memory peaks is remembered. */
#include <string.h>

#include "sim/walk/walk_internal.h"

static void count(sg_walker *w, uint64_t bytes, int role) {
    w->allocated_bytes += bytes;
    w->by_role[role] += bytes;
    if (w->allocated_bytes <= w->peak.allocated_bytes) return;
    w->peak.allocated_bytes = w->allocated_bytes;
    w->peak.program = w->peak.module = -1; /* whoever runs a program fills these in */
    w->peak.entry = -1;
    memcpy(w->peak.by_role, w->by_role, sizeof w->by_role);
}

/* As counted: a block may be larger than what was asked for, a place is not. */
static uint64_t live_bytes(const sg_walker *w, int32_t storage) {
    const sg_block *block = w->live[storage].block;
    return block ? sg_block_bytes(block) : w->training->storages[storage].bytes;
}

static void give(sg_walker *w, int32_t storage) {
    sg_live *live = &w->live[storage];
    w->allocated_bytes -= live_bytes(w, storage);
    w->by_role[w->training->storages[storage].role] -= live_bytes(w, storage);
    if (live->block) sg_allocator_give(live->from, live->block);
    live->block = NULL;
    live->address = NULL;
    live->released = false;
}

sg_code sg_walk_alloc(sg_walker *w, int32_t storage, sg_status *status) {
    sg_live *live = &w->live[storage];
    const sg_storage *s = &w->training->storages[storage];
    if (live->address) {
        if (!live->released) return sg_fail(status, SG_BAD_INPUT, "storage %d is allocated while it is live", storage);
        give(w, storage);
    }
    if (w->placed && !s->persistent) {
        if (w->placement.offset[storage] == UINT64_MAX)
            return sg_fail(status, SG_BAD_INPUT, "storage %d has no place: no program of the schedule allocates it",
                           storage);
        live->address = (char *)sg_block_address(w->placed) + w->placement.offset[storage];
    } else {
        live->from = w->recording ? w->recording->pool : w->allocator;
        sg_code code = sg_allocator_take(live->from, s->bytes, &live->block, status);
        if (code) return code;
        live->address = sg_block_address(live->block);
    }
    count(w, live_bytes(w, storage), s->role);
    return SG_OK;
}

void sg_walk_free(sg_walker *w, int32_t storage) {
    sg_live *live = &w->live[storage];
    if (!live->address) return;
    if (w->recording && live->outside)
        w->recording->frees[w->recording->n_frees++] = storage; /* the recording has yet to use it */
    else if (live->keep)
        live->released = true;
    else
        give(w, storage);
}

void sg_walk_release_kept(sg_walker *w) {
    for (size_t i = 0; i < w->training->n_storages; i++)
        if (w->live[i].released) give(w, (int32_t)i);
}

void sg_walk_abandon(sg_walker *w) {
    (void)w->api->stream_wait(w->device, SG_STREAM_COPY, NULL);
    (void)w->api->stream_wait(w->device, SG_STREAM_COMPUTE, NULL);
    if (w->slot_events) (void)w->api->stream_wait(w->device, SG_STREAM_COLLECTIVE, NULL);
    for (size_t i = 0; i < w->training->n_storages; i++)
        if (w->live[i].address && !w->training->storages[i].persistent) give(w, (int32_t)i);
    sg_buckets_reset(&w->buckets);
    for (size_t i = 0; i < w->training->n_programs; i++) w->programs[i].runs = 0;
    w->draws = 0;
    w->gap_open = w->work_in_flight = w->copies_in_flight = false;
}

sg_code sg_walk_take_bucket(sg_walker *w, int32_t bucket, sg_status *status) {
    sg_code code =
        sg_allocator_take(w->allocator, sg_bucket_bytes(&w->buckets.bucket[bucket]), &w->bucket_block[bucket], status);
    if (!code) count(w, sg_block_bytes(w->bucket_block[bucket]), SG_ROLE_GRADIENT);
    return code;
}

sg_code sg_walk_place(sg_walker *w, sg_status *status) {
    sg_code code = sg_placement_make(w->training, &w->placement, status);
    if (code || !w->placement.bytes) return code;
    return sg_allocator_take(w->allocator, w->placement.bytes, &w->placed, status);
}

void sg_walker_peak(const sg_walker *w, sg_memory_peak *peak) {
    sg_allocator_state state;
    sg_allocator_read(w->allocator, &state);
    *peak = w->peak;
    peak->reserved_bytes = state.peak_reserved_bytes + w->graph.reserved_bytes;
    peak->largest_free_bytes = state.largest_free_bytes;
    peak->workspace_bytes = w->workspace_bytes;
}

void sg_walker_reset_peak(sg_walker *w) {
    sg_allocator_reset_peak(w->allocator);
    w->peak = (sg_memory_peak){.allocated_bytes = w->allocated_bytes, .program = -1, .entry = -1, .module = -1};
    memcpy(w->peak.by_role, w->by_role, sizeof w->by_role);
}
