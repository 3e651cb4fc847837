/* walk_graph.c: the main program recorded once and replayed, as torch.cuda.graphs does with a whole update.
 *
 * It is recorded when it runs for the first time with optimizer state in place: walked as ever, with memory from a pool of
 * its own that is held from then on (torch.cuda.graph empties the cache first and keeps a private pool). A replay costs the
 * host one dispatch. Blocking reads cannot be recorded; they come behind the replay. */
#include <stdlib.h>
#include <string.h>

#include "sim/walk/trace_internal.h"
#include "sim/walk/walk_internal.h"

static const uint64_t FNV_PRIME = 0x100000001b3u;

/* ---- what can be recorded ---------------------------------------------------------------------------------------- */

sg_code sg_walk_graph_check(const sg_walker *w, sg_status *status) {
    const sg_device_api *api = w->api;
    if (!api->graph_begin || !api->graph_end || !api->graph_launch || !api->graph_destroy)
        return sg_fail(status, SG_NO, "the %s device records no graphs: leave --cuda-graph out", w->info.kind);
    if (w->options.fixed_random)
        return sg_fail(status, SG_BAD_INPUT, "a recorded program has one step for randomness and optimizer: not fixed");
    const sg_compiled *c = &w->programs[sg_main_program(w->training)];
    for (size_t i = 0; i < c->n; i++)
        if (c->code[i].kind == SG_RUN_COPY)
            return sg_fail(status, SG_NO, "%s copies its batch inside the update, which cannot be recorded",
                           w->training->policy);
    return SG_OK;
}

/* A profile times each op, which a replay cannot. */
bool sg_walk_replays(const sg_walker *w, size_t program) {
    return w->options.graph && !w->profile && w->state_born && program == sg_main_program(w->training);
}

/* ---- recording --------------------------------------------------------------------------------------------------- */

static void drop(sg_walker *w, sg_recording *r) {
    if (r->exec) w->api->graph_destroy(w->device, r->exec);
    sg_allocator_close(r->pool);
    free(r->outside);
    free(r->frees);
    *r = (sg_recording){0};
}

void sg_walk_graph_clear(sg_walker *w) {
    for (int i = 0; i < 2; i++) drop(w, &w->recordings[i]);
}

static void read_reserved(sg_walker *w) {
    w->graph.reserved_bytes = 0;
    for (int i = 0; i < 2; i++) {
        sg_allocator_state state;
        if (!w->recordings[i].pool) continue;
        sg_allocator_read(w->recordings[i].pool, &state);
        w->graph.reserved_bytes += state.reserved_bytes;
    }
}

static void note_outside(const sg_walker *w, sg_recording *r, int32_t storage, bool *seen) {
    if (seen[storage] || !w->live[storage].outside) return;
    seen[storage] = true;
    r->outside[r->n_outside].storage = storage;
    r->outside[r->n_outside++].address = w->live[storage].address;
}

/* Lists what the program uses of what is live before it. */
static sg_code survey(sg_walker *w, sg_recording *r, size_t program, sg_status *status) {
    size_t n = w->training->n_storages + 1;
    const sg_compiled *c = &w->programs[program];
    bool *seen = calloc(n, sizeof *seen);
    r->outside = calloc(n, sizeof *r->outside);
    r->frees = calloc(n, sizeof *r->frees);
    if (!seen || !r->outside || !r->frees) {
        free(seen);
        return sg_fail_memory(status, n * (sizeof *r->outside + sizeof *r->frees), "a recorded program");
    }
    for (size_t s = 0; s + 1 < n; s++) w->live[s].outside = w->live[s].address != NULL;
    for (size_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < c->code[i].n_args; k++)
            note_outside(w, r, w->arguments[c->code[i].first + k].storage, seen);
    free(seen);
    return SG_OK;
}

static sg_code rehearse(sg_walker *w, sg_recording *r, size_t program, sg_block **block, sg_status *status) {
    const sg_compiled *c = &w->programs[program];
    for (size_t i = 0; i < c->n; i++) {
        int32_t s = c->code[i].index;
        if (c->code[i].kind == SG_RUN_ALLOC && !block[s]) {
            sg_code code = sg_allocator_take(r->pool, w->training->storages[s].bytes, &block[s], status);
            if (code) return code;
        } else if (c->code[i].kind == SG_RUN_FREE) {
            sg_allocator_give(r->pool, block[s]);
            block[s] = NULL;
        }
    }
    return SG_OK;
}

/* A device may not allocate while it records, so the pool's segments are taken before: lifetimes are played through until a
 * round needs no new one, which each round from the same state then repeats. */
static sg_code reserve(sg_walker *w, sg_recording *r, size_t program, sg_status *status) {
    enum { MOST_ROUNDS = 16 };
    if (w->placed) return SG_OK; /* places of their own */
    size_t n = w->training->n_storages;
    sg_block **block = calloc(n + 1, sizeof(sg_block *));
    if (!block) return sg_fail_memory(status, n * sizeof(sg_block *), "a recorded program");
    sg_allocator_state before = {0}, after = {0};
    sg_code code = SG_OK;
    int round = 0;
    do {
        before = after;
        code = rehearse(w, r, program, block, status);
        for (size_t s = 0; s < n; s++) {
            if (block[s]) sg_allocator_give(r->pool, block[s]);
            block[s] = NULL;
        }
        sg_allocator_read(r->pool, &after);
    } while (!code && after.segments != before.segments && ++round < MOST_ROUNDS);
    free(block);
    return code;
}

/* Work in flight may still use what is given back now, and a recording must begin on idle streams. */
static sg_code settle(sg_walker *w, sg_status *status) {
    sg_code code = w->api->stream_wait(w->device, SG_STREAM_COPY, status);
    if (!code) code = w->api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    w->work_in_flight = w->copies_in_flight = false;
    sg_allocator_trim(w->allocator);
    return code;
}

static sg_code nothing_left(const sg_walker *w, sg_status *status) {
    for (size_t s = 0; s < w->training->n_storages; s++)
        if (w->live[s].address && !w->live[s].outside)
            return sg_fail(status, SG_NO, "storage %zu outlives the program, which therefore cannot be recorded", s);
    return SG_OK;
}

static sg_code walk_recorded(sg_walker *w, sg_recording *r, size_t program, sg_status *status) {
    sg_code code = w->api->graph_begin(w->device, status);
    if (code) return code;
    uint64_t hash = w->visit_hash;
    w->visit_hash = 0;
    w->recording = r;
    code = sg_walk_code(w, program, status);
    if (!code) code = nothing_left(w, status);
    w->recording = NULL;
    r->visit = w->visit_hash;
    w->visit_hash = hash;
    sg_graph_exec *exec = NULL;
    sg_code ended = w->api->graph_end(w->device, &exec, code ? NULL : status);
    r->exec = ended ? NULL : exec;
    return code ? code : ended;
}

/* The peak of the recorded walk is kept with the recording. */
static sg_code walk_apart(sg_walker *w, sg_recording *r, size_t program, sg_status *status) {
    sg_memory_peak before = w->peak;
    w->peak = (sg_memory_peak){.allocated_bytes = w->allocated_bytes, .program = -1, .entry = -1, .module = -1};
    memcpy(w->peak.by_role, w->by_role, sizeof w->by_role);
    sg_code code = walk_recorded(w, r, program, status);
    r->peak = w->peak;
    w->peak = before;
    return code;
}

static sg_code record(sg_walker *w, sg_recording *r, size_t program, sg_status *status) {
    sg_code code = settle(w, status);
    if (!code) code = sg_allocator_open(w->api, w->device, SG_ALLOCATOR_PRIVATE, &r->pool, status);
    if (!code) code = reserve(w, r, program, status);
    if (!code) code = survey(w, r, program, status);
    if (!code) code = walk_apart(w, r, program, status);
    for (size_t s = 0; s < w->training->n_storages; s++) {
        if (code && r->outside && !w->live[s].outside) sg_walk_free(w, (int32_t)s); /* its memory goes with the pool */
        w->live[s].outside = false;
    }
    if (code) {
        drop(w, r);
        return code;
    }
    w->graph.recordings++;
    w->graph.moved_waits = r->waits;
    return SG_OK;
}

/* ---- replaying --------------------------------------------------------------------------------------------------- */

static bool holds(const sg_walker *w, const sg_recording *r) {
    for (size_t i = 0; i < r->n_outside; i++)
        if (w->live[r->outside[i].storage].address != r->outside[i].address) return false;
    return true;
}

static sg_code replay(sg_walker *w, const sg_recording *r, sg_status *status) {
    const sg_launch how = {.seed = w->options.seed, .step = w->step};
    sg_code code = sg_phases_mark(&w->phases, SG_MARK_REPLAY, status);
    if (!code) code = sg_walk_host(w, SG_HOST_OP_FORWARD, 1, status);
    if (!code) code = sg_walk_trace_begin(w, SG_TRACE_GRAPH, SG_STREAM_COMPUTE, 0, status);
    if (!code) code = w->api->graph_launch(w->device, r->exec, &how, status);
    if (!code) code = sg_walk_trace_end(w, status);
    if (code) return code;
    w->work_in_flight = true;
    for (size_t i = 0; i < r->n_frees; i++) sg_walk_free(w, r->frees[i]);
    for (int64_t i = 0; i < r->waits && !code; i++) code = sg_walk_wait(w, status);
    if (!code) code = sg_phases_mark(&w->phases, SG_MARK_END, status);
    if (w->peak.allocated_bytes < r->peak.allocated_bytes) w->peak = r->peak;
    w->visit_hash = (w->visit_hash ^ r->visit) * FNV_PRIME;
    w->graph.replays++;
    return code;
}

sg_code sg_walk_replay(sg_walker *w, size_t program, sg_status *status) {
    sg_recording *r = &w->recordings[w->communicate];
    sg_code code = SG_OK;
    if (r->exec && !holds(w, r)) {
        code = settle(w, status); /* a replay may still run */
        drop(w, r);
    }
    if (!code && !r->exec) code = record(w, r, program, status);
    if (!code) code = replay(w, r, status);
    read_reserved(w);
    return code ? sg_fail_in(status, "program %s as a graph", w->training->programs[program].name) : SG_OK;
}

void sg_walker_graph(const sg_walker *w, sg_walk_graph *graph) {
    *graph = w->graph;
}
