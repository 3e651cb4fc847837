/* walk_trace.c: an iteration in which every call is kept with its times. */
#include <math.h>
#include <stdlib.h>

#include "sim/walk/trace_internal.h"
#include "sim/walk/walk_internal.h"

/* Room for `more` of them. */
static sg_code grow(void **items, size_t n, size_t *room, size_t item_bytes, sg_status *status) {
    if (n < *room) return SG_OK;
    size_t wanted = *room ? 2 * *room : 256, bytes;
    void *grown = NULL;
    if (!__builtin_mul_overflow(wanted, item_bytes, &bytes)) grown = realloc(*items, bytes);
    if (!grown) return sg_fail_memory(status, wanted * item_bytes, "the trace of an iteration");
    *items = grown;
    *room = wanted;
    return SG_OK;
}

#define GROW(t, items, n, room, status) grow((void **)&(t)->items, (t)->n, &(t)->room, sizeof *(t)->items, status)

/* ---- while the iteration runs --------------------------------------------------------------------------------------- */

static sg_code stamp(sg_walker *w, int stream, sg_status *status) {
    sg_trace *t = w->trace;
    if (stream < 0) return SG_OK;
    sg_code code = grow((void **)&t->events, t->n_events, &t->events_room, sizeof(sg_event *), status);
    if (!code && t->events_used == t->n_events) {
        code = w->api->event_create(w->device, &t->events[t->n_events], status);
        if (!code) t->n_events++;
    }
    if (!code) code = w->api->event_record(w->device, t->events[t->events_used], (sg_stream)stream, status);
    if (!code) t->events_used++;
    return code;
}

sg_code sg_walk_trace_begin(sg_walker *w, int what, int stream, int32_t index, sg_status *status) {
    sg_trace *t = w->trace;
    if (!t || w->recording) return SG_OK;
    sg_code code = GROW(t, calls, n_calls, calls_room, status);
    if (code) return code;
    t->calls[t->n_calls] = (sg_trace_call){
        .what = (uint8_t)what, .stream = (int8_t)stream, .index = index, .program = t->program, .entry = t->entry};
    code = stamp(w, stream, status);
    t->calls[t->n_calls].host[0] = w->api->now(w->device);
    return code;
}

sg_code sg_walk_trace_end(sg_walker *w, sg_status *status) {
    sg_trace *t = w->trace;
    if (!t || w->recording) return SG_OK;
    sg_trace_call *call = &t->calls[t->n_calls++];
    call->host[1] = w->api->now(w->device);
    return stamp(w, call->stream, status);
}

void sg_walk_trace_entry(sg_walker *w, size_t program, int32_t entry) {
    sg_trace *t = w->trace;
    t->program = (int32_t)program;
    t->entry = entry;
    if (w->recording || w->allocated_bytes == t->seen_bytes) return;
    sg_code code = GROW(t, memory, n_memory, memory_room, NULL);
    if (code) {
        t->code = code;
        return;
    }
    t->memory[t->n_memory++] = (sg_trace_memory){w->api->now(w->device), w->allocated_bytes};
    t->seen_bytes = w->allocated_bytes;
}

typedef struct reader {
    sg_walker *walker;
    void (*passed)(void *user, int phase, bool collecting);
    void *user;
} reader;

static void read_phase(void *user, int phase, bool collecting) {
    const reader *r = user;
    sg_trace *t = r->walker->trace;
    sg_code code = GROW(t, phases, n_phases, phases_room, NULL);
    if (code)
        t->code = code;
    else
        t->phases[t->n_phases++] = (sg_trace_point){phase, r->walker->phases.last};
    if (r->passed) r->passed(r->user, phase, collecting);
}

/* ---- before and behind it ------------------------------------------------------------------------------------------- */

/* What the device's clock shows when the host's shows zero; clocks that agree as far as can be told are one. */
static sg_code compare_clocks(sg_walker *w, sg_status *status) {
    sg_trace *t = w->trace;
    double device = 0;
    sg_code code = w->api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    if (code) return code;
    double before = w->api->now(w->device);
    code = stamp(w, SG_STREAM_COMPUTE, status);
    if (!code) code = w->api->stream_wait(w->device, SG_STREAM_COMPUTE, status);
    double after = w->api->now(w->device);
    if (!code) code = w->api->event_seconds(w->device, t->events[0], &device, status);
    if (code) return code;
    t->offset_s = device >= before && device <= after ? 0 : (before + after) / 2 - device;
    return SG_OK;
}

static sg_code read_events(sg_walker *w, sg_status *status) {
    sg_trace *t = w->trace;
    size_t next = 1;
    for (size_t i = 0; i < t->n_calls; i++) {
        if (t->calls[i].stream < 0) continue;
        for (int k = 0; k < 2; k++) {
            double at;
            sg_code code = w->api->event_seconds(w->device, t->events[next++], &at, status);
            if (code) return code;
            t->calls[i].device[k] = at + t->offset_s;
        }
    }
    t->marks = calloc(w->phases.n_events + 1, sizeof *t->marks);
    if (!t->marks) return sg_fail_memory(status, w->phases.n_events * sizeof *t->marks, "the trace of an iteration");
    for (size_t i = 0; i < w->phases.n_events; i++)
        t->marks[t->n_marks++] = (sg_trace_point){w->phases.events[i].mark, w->phases.at[i] + t->offset_s};
    return SG_OK;
}

static sg_code one_iteration(sg_walker *w, sg_status *status) {
    sg_trace *t = w->trace;
    t->n_calls = t->n_memory = t->n_phases = t->events_used = 0;
    t->program = t->entry = -1;
    t->seen_bytes = 0;
    sg_code code = compare_clocks(w, status);
    if (!code) code = sg_walker_iteration(w, NULL, status);
    if (!code) code = w->api->stream_wait(w->device, SG_STREAM_COPY, status);
    if (!code) code = w->api->stream_wait(w->device, SG_STREAM_COLLECTIVE, status);
    if (!code && t->code) code = sg_fail_memory(status, t->n_memory * sizeof *t->memory, "the trace of an iteration");
    return code;
}

static sg_code keep_trace(sg_walker *w, const sg_trace_request *request, sg_status *status) {
    sg_trace trace = {0};
    reader r = {w, w->phases.passed, w->phases.user};
    w->trace = &trace;
    w->phases.passed = read_phase;
    w->phases.user = &r;
    sg_code code = one_iteration(w, status);
    if (!code) code = one_iteration(w, status);
    if (!code) code = read_events(w, status);
    w->trace = NULL;
    w->phases.passed = r.passed;
    w->phases.user = r.user;
    if (!code) code = sg_trace_write(&trace, w->training, w->ops, w->n_ops, request, status);
    for (size_t i = 0; i < trace.n_events; i++) w->api->event_destroy(w->device, trace.events[i]);
    free(trace.calls);
    free(trace.memory);
    free(trace.phases);
    free(trace.marks);
    free(trace.events);
    return code;
}

sg_code sg_walker_trace(sg_walker *w, const sg_trace_request *request, sg_status *status) {
    sg_status unheard;
    if (!status) status = &unheard;
    if (request->path) return keep_trace(w, request, status);
    sg_code code = sg_walker_iteration(w, NULL, status);
    return code ? code : sg_walker_iteration(w, NULL, status);
}
