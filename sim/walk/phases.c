/* phases.c: see phases.h. */
#include "sim/walk/phases.h"

#include <stdlib.h>
#include <string.h>

void sg_phases_init(sg_phases *p, const sg_device_api *api, sg_device *device) {
    *p = (sg_phases){.api = api, .device = device};
}

void sg_phases_clear(sg_phases *p) {
    for (size_t i = 0; i < p->n_created; i++) p->api->event_destroy(p->device, p->events[i].event);
    free(p->events);
    free(p->at);
    *p = (sg_phases){0};
}

void sg_phases_start(sg_phases *p) {
    p->sums = (sg_phase_sums){0};
    p->n_events = 0;
    p->phase = SG_PHASE_OTHER;
    sg_phases_resume(p);
}

void sg_phases_enter(sg_phases *p, sg_phase phase) {
    sg_phases_pause(p);
    p->phase = phase;
}

void sg_phases_pause(sg_phases *p) {
    double t = p->api->now(p->device);
    sg_phase_sums_add(&p->sums, p->phase, p->collecting, t - p->last);
    p->last = t;
    if (p->passed) p->passed(p->user, p->phase, p->collecting);
}

void sg_phases_resume(sg_phases *p) {
    p->last = p->api->now(p->device);
    if (p->passed) p->passed(p->user, -1, false);
}

static sg_code record(sg_phases *p, int mark, sg_status *status) {
    if (p->n_events == p->room) {
        size_t room = p->room ? 2 * p->room : 32;
        sg_mark_event *grown = realloc(p->events, room * sizeof *grown);
        if (grown) p->events = grown;
        double *at = realloc(p->at, room * sizeof *at);
        if (at) p->at = at;
        if (!grown || !at) return sg_fail_memory(status, room * sizeof *grown, "the events of an iteration");
        p->room = room;
    }
    if (p->n_events == p->n_created) {
        sg_code code = p->api->event_create(p->device, &p->events[p->n_created].event, status);
        if (code) return code;
        p->n_created++;
    }
    sg_mark_event *e = &p->events[p->n_events];
    e->mark = mark;
    sg_code code = p->api->event_record(p->device, e->event, SG_STREAM_COMPUTE, status);
    if (!code) p->n_events++;
    return code;
}

sg_code sg_phases_mark(sg_phases *p, int mark, sg_status *status) {
    if (p->phase == SG_PHASE_INFERENCE) return SG_OK; /* a collection has no parts */
    if (mark < SG_MARK_COUNT || mark == SG_MARK_REPLAY)
        sg_phases_enter(p, mark == SG_MARK_PREPROCESS ? SG_PHASE_PREPROCESSING
                           : mark == SG_MARK_END      ? SG_PHASE_OTHER
                                                      : SG_PHASE_UPDATE);
    return record(p, mark, status);
}

static void add_interval(sg_step_times *times, int mark, double seconds) {
    switch (mark) {
    case SG_MARK_PREPROCESS: times->preprocessing_device_s += seconds; return;
    case SG_MARK_FORWARD: times->forward_s += seconds; break;
    case SG_MARK_BACKWARD: times->backward_s += seconds; break;
    case SG_MARK_CLIP:
    case SG_MARK_OPTIMIZER:
    case SG_MARK_ZERO_GRAD: times->optimizer_s += seconds; break;
    case SG_MARK_REPLAY: break; /* no parts */
    default: return;
    }
    times->update_device_s += seconds;
}

void sg_phase_sums_finish(const sg_phase_sums *sums, const sg_mark_event *marks, const double *at, size_t n,
                          sg_step_times *times) {
    const double *host_s = sums->host_s;
    *times = (sg_step_times){.dataloading_s = host_s[SG_PHASE_DATALOADING],
                             .preprocessing_s = host_s[SG_PHASE_PREPROCESSING],
                             .update_s = host_s[SG_PHASE_UPDATE],
                             .inference_s = host_s[SG_PHASE_INFERENCE],
                             .environment_s = host_s[SG_PHASE_ENVIRONMENT]};
    times->step_s = times->dataloading_s + times->preprocessing_s + times->update_s;
    for (int i = 0; i < SG_PHASE_COUNT; i++) times->iteration_s += host_s[i];
    if (sums->collection_s > 0) {
        times->collection_s = sums->collection_s;
        times->learning_s = sums->learning_s;
    }
    int open = SG_MARK_END;
    double opened = 0, sync = 0;
    for (size_t i = 0; i < n; i++) {
        int mark = marks[i].mark;
        if (mark == SG_MARK_SYNC_BEGIN) {
            sync = at[i];
        } else if (mark == SG_MARK_SYNC_END) {
            times->exposed_sync_s += at[i] - sync;
        } else {
            add_interval(times, open, at[i] - opened);
            open = mark;
            opened = at[i];
        }
    }
}

sg_code sg_phases_finish(sg_phases *p, sg_step_times *times, sg_status *status) {
    for (size_t i = 0; i < p->n_events; i++) {
        sg_code code = p->api->event_seconds(p->device, p->events[i].event, &p->at[i], status);
        if (code) return code;
    }
    sg_phase_sums_finish(&p->sums, p->events, p->at, p->n_events, times);
    return SG_OK;
}
