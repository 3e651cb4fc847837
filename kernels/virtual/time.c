/* time.c: launches, events, waits, copies and host work: calls of the virtual device, and where each goes. */
#include <math.h>
#include <stdlib.h>

#include "kernels/virtual/device.h"
#include "kernels/virtual/price.h"

/* ---- to the clocks ------------------------------------------------------------------------------------------------- */

static sg_code host_seconds(sg_device *d, int host_class, double *seconds, sg_status *status) {
    if (isnan(d->host_s[host_class])) {
        sg_priced price;
        sg_code code = sg_price_host(&d->machine, host_class, &price, status);
        if (code) return code;
        d->host_s[host_class] = price.seconds;
    }
    *seconds = d->host_s[host_class];
    return SG_OK;
}

static sg_code host(sg_device *d, const sg_call *call, sg_status *status) {
    double seconds;
    sg_code code = host_seconds(d, call->duration.which, &seconds, status);
    if (code) return code;
    sg_clocks_host(&d->clocks, seconds, (double)call->times);
    d->sums.host_busy_s += (double)call->times * seconds;
    return SG_OK;
}

static sg_code launch_seconds(sg_device *d, const sg_call *call, double *seconds, sg_status *status) {
    sg_plan *plan = call->plan;
    sg_code code = SG_OK;
    if (!plan) {
        sg_priced price;
        code = sg_price_copy(&d->machine, (sg_copy_kind)call->duration.which, call->duration.bytes, &price, status);
        if (!code) *seconds = price.seconds;
        return code;
    }
    if (isnan(plan->seconds)) code = sg_machine_step_price(&d->machine, plan->op, &plan->seconds, NULL, status);
    *seconds = plan->seconds;
    return code;
}

static sg_code launch(sg_device *d, const sg_call *call, sg_status *status) {
    double seconds, start;
    bool beside;
    sg_code code = launch_seconds(d, call, &seconds, status);
    if (code) return code;
    (void)sg_clocks_launch(&d->clocks, call->stream, seconds, &start, &beside, NULL);
    if (call->stream != SG_STREAM_COMPUTE) return SG_OK;
    double busy = d->clocks.stream[SG_STREAM_COMPUTE] - start;
    d->sums.device_busy_s += busy;
    d->sums.class_s[call->plan ? call->plan->cls : SG_CLASS_COPY] += busy;
    return SG_OK;
}

/* Room for one more active collective. */
static sg_code make_room(sg_device *d, sg_status *status) {
    sg_clocks *c = &d->clocks;
    if (c->first == c->n_active) c->first = c->n_active = 0;
    if (c->n_active < d->active_room) return SG_OK;
    size_t room = d->active_room ? 2 * d->active_room : 32;
    sg_interval *grown = realloc(c->active, room * sizeof *grown);
    if (!grown) return sg_fail_memory(status, room * sizeof *grown, "the collectives of the virtual device");
    c->active = grown;
    d->active_room = room;
    return SG_OK;
}

static sg_code collective(sg_device *d, const sg_call *call, sg_status *status) {
    sg_priced price;
    sg_code code = make_room(d, status);
    if (!code)
        code = sg_price_collective(&d->machine, (sg_collective_kind)call->duration.which, call->duration.bytes,
                                   call->comm->ranks, &price, status);
    if (code) return code;
    bool beside;
    (void)sg_clocks_collective(&d->clocks, price.seconds, &beside);
    d->sums.collective_busy_s += beside ? d->clocks.collective_stretch * price.seconds : price.seconds;
    return SG_OK;
}

static sg_code move(sg_device *d, const sg_call *call, sg_status *status) {
    switch (call->what) {
    case SG_MOVE_HOST: return host(d, call, status);
    case SG_MOVE_LAUNCH: return launch(d, call, status);
    case SG_MOVE_COLLECTIVE: return collective(d, call, status);
    case SG_MOVE_RECORD: (void)sg_clocks_record(&d->clocks, call->event->index, call->stream); return SG_OK;
    case SG_MOVE_WAIT: (void)sg_clocks_wait(&d->clocks, call->event->index, call->stream); return SG_OK;
    case SG_MOVE_SYNC: (void)sg_clocks_sync(&d->clocks, call->stream); return SG_OK;
    default: return SG_OK;
    }
}

/* ---- to the tape --------------------------------------------------------------------------------------------------- */

static sg_code duration_of(const sg_device *d, const sg_call *call, uint32_t *index, sg_status *status) {
    if (call->what == SG_MOVE_HOST) {
        *index = call->duration.which;
        return SG_OK;
    }
    sg_plan *plan = call->plan;
    if (!plan) return sg_tape_duration(d->tape, &call->duration, index, status);
    sg_code code = SG_OK;
    if (plan->tape != d->tape) {
        const sg_duration op = {.kind = SG_DURATION_OP, .which = plan->cls, .op = plan->op};
        code = sg_tape_duration(d->tape, &op, &plan->duration, status);
        plan->tape = code ? NULL : d->tape;
    }
    *index = plan->duration;
    return code;
}

static sg_code tape(sg_device *d, const sg_call *call, sg_status *status) {
    sg_move m = {.kind = (uint8_t)call->what, .stream = (uint8_t)call->stream, .times = call->times};
    sg_code code = SG_OK;
    if (call->event)
        m.index = (uint32_t)call->event->index;
    else if (call->what != SG_MOVE_SYNC)
        code = duration_of(d, call, &m.index, status);
    return code ? code : sg_tape_move(d->tape, m, status);
}

sg_code sg_virtual_call(sg_device *d, const sg_call *call, sg_status *status) {
    if (d->recording) return sg_virtual_graph_add(d, call, status);
    return d->tape ? tape(d, call, status) : move(d, call, status);
}

/* ---- calls --------------------------------------------------------------------------------------------------------- */

sg_code sg_virtual_launch(sg_device *d, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                          const sg_launch *how, sg_status *status) {
    (void)pointers, (void)workspace, (void)how;
    return sg_virtual_call(d, &(sg_call){SG_MOVE_LAUNCH, .stream = stream, .plan = plan}, status);
}

sg_code sg_virtual_event_create(sg_device *d, sg_event **event, sg_status *status) {
    *event = NULL;
    if (d->n_events == d->events_room) {
        size_t room = d->events_room ? 2 * d->events_room : 64;
        double *grown = realloc(d->clocks.event, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "the events of the virtual device");
        d->clocks.event = grown;
        d->events_room = room;
    }
    sg_event *made = calloc(1, sizeof *made);
    if (!made) return sg_fail_memory(status, sizeof *made, "an event of the virtual device");
    made->index = d->n_events;
    d->clocks.event[d->n_events++] = 0;
    *event = made;
    return SG_OK;
}

void sg_virtual_event_destroy(sg_device *d, sg_event *event) {
    (void)d;
    free(event);
}

size_t sg_virtual_event_index(const sg_event *event) {
    return event->index;
}

sg_code sg_virtual_event_record(sg_device *d, sg_event *event, sg_stream stream, sg_status *status) {
    return sg_virtual_call(d, &(sg_call){SG_MOVE_RECORD, .stream = stream, .event = event}, status);
}

sg_code sg_virtual_event_wait(sg_device *d, sg_event *event, sg_stream stream, sg_status *status) {
    return sg_virtual_call(d, &(sg_call){SG_MOVE_WAIT, .stream = stream, .event = event}, status);
}

sg_code sg_virtual_event_seconds(sg_device *d, sg_event *event, double *seconds, sg_status *status) {
    (void)status;
    *seconds = d->clocks.event[event->index];
    return SG_OK;
}

sg_code sg_virtual_stream_wait(sg_device *d, sg_stream stream, sg_status *status) {
    if (d->recording) return sg_fail(status, SG_BAD_INPUT, "a recording cannot wait for a stream");
    return sg_virtual_call(d, &(sg_call){SG_MOVE_SYNC, .stream = stream}, status);
}

sg_code sg_virtual_copy(sg_device *d, void *to, const void *from, uint64_t bytes, sg_copy_kind kind, sg_stream stream,
                        sg_status *status) {
    (void)to, (void)from;
    if (d->recording && kind != SG_COPY_ON_DEVICE)
        return sg_fail(status, SG_BAD_INPUT, "a recording copies on the device only");
    const sg_duration what = {.kind = SG_DURATION_COPY, .which = (uint8_t)kind, .bytes = (double)bytes};
    return sg_virtual_call(d, &(sg_call){SG_MOVE_LAUNCH, .stream = stream, .duration = what}, status);
}

/* A recording takes no host time. */
static sg_code host_call(sg_device *d, int host_class, int64_t count, sg_status *status) {
    const sg_duration what = {.kind = SG_DURATION_HOST, .which = (uint8_t)host_class};
    const sg_call call = {SG_MOVE_HOST, .duration = what, .times = count};
    return d->tape ? tape(d, &call, status) : move(d, &call, status);
}

sg_code sg_virtual_host_work(sg_device *d, sg_host_class cls, int64_t count, sg_status *status) {
    if ((unsigned)cls >= SG_HOST_CLASS_COUNT)
        return sg_fail(status, SG_BAD_INPUT, "host time on machine %s: unknown class %d", d->machine.name, (int)cls);
    if (cls == SG_HOST_VIEW_BACKWARD || count <= 0) return SG_OK; /* costs nothing: sg_price_host */
    sg_code code = host_call(d, cls, count, status);
    return code || cls != SG_HOST_OPTIMIZER ? code : host_call(d, SG_HOST_CLASS_COUNT, 1, status);
}

sg_code sg_virtual_host_idle(sg_device *d, double seconds, sg_status *status) {
    if (!(seconds >= 0) || !isfinite(seconds))
        return sg_fail(status, SG_BAD_INPUT, "waiting on machine %s: %g seconds is no duration", d->machine.name,
                       seconds);
    if (d->tape) return sg_tape_idle(d->tape, seconds, status);
    d->clocks.host += seconds;
    return SG_OK;
}

double sg_virtual_now(sg_device *d) {
    return d->clocks.host;
}
