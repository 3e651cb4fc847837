/* time.c: launches, events, waits, copies and host work: how the clocks of the virtual device advance. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/virtual/device.h"

/* Moves *clock by `work` seconds of compute, `stretch` times slower wherever a collective is active. */
static void run_compute(sg_device *d, sg_vclock *clock, const sg_vspan *work) {
    size_t kept = 0;
    for (size_t i = 0; i < d->n_active; i++)
        if (d->active[i].end.s > clock->s) {
            if (kept != i) d->active[kept] = d->active[i];
            kept++;
        }
    d->n_active = kept;
    double stretch = d->machine.p[SG_M_OVERLAP_STRETCH].value;
    if (!kept || !(stretch > 1)) {
        sg_vclock_add(clock, work, 1);
        return;
    }
    sg_vclock left = {0}; /* work still to do, as a clock: its derivatives come from the interval's ends too */
    sg_vclock_add(&left, work, 1);
    for (size_t i = 0; i < kept; i++) {
        const interval *a = &d->active[i];
        if (clock->s < a->start.s) {
            double gap = a->start.s - clock->s;
            if (left.s <= gap) break;
            for (int k = 0; k < SG_M_COUNT; k++) left.by_log[k] -= a->start.by_log[k] - clock->by_log[k];
            left.s -= gap;
            *clock = a->start;
        }
        double capacity = (a->end.s - clock->s) / stretch;
        if (left.s <= capacity) {
            for (int k = 0; k < SG_M_COUNT; k++) clock->by_log[k] += stretch * left.by_log[k];
            clock->by_log[SG_M_OVERLAP_STRETCH] += stretch * left.s;
            clock->s += stretch * left.s;
            return;
        }
        for (int k = 0; k < SG_M_COUNT; k++) left.by_log[k] -= (a->end.by_log[k] - clock->by_log[k]) / stretch;
        left.by_log[SG_M_OVERLAP_STRETCH] += capacity;
        left.s -= capacity;
        *clock = a->end;
    }
    for (int k = 0; k < SG_M_COUNT; k++) clock->by_log[k] += left.by_log[k];
    clock->s += left.s;
}

sg_code sg_virtual_launch(sg_device *d, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                          const sg_launch *how, sg_status *status) {
    (void)pointers, (void)workspace, (void)how;
    if (d->recording) return sg_virtual_record(d, &(recorded){RECORDED_LAUNCH, .stream = stream, .plan = plan}, status);
    sg_vclock *clock = &d->stream[stream];
    sg_vclock_join(clock, &d->host);
    double start = clock->s;
    if (stream == SG_STREAM_COMPUTE)
        run_compute(d, clock, &plan->price);
    else
        sg_vclock_add(clock, &plan->price, 1);
    if (stream == SG_STREAM_COMPUTE) {
        d->sums.device_busy_s += clock->s - start;
        d->sums.class_s[plan->cls] += clock->s - start;
        sg_vspan_sum(d->sums.device_gradient, &plan->price, 1);
    }
    if (d->in_line && stream == SG_STREAM_COMPUTE) d->host = *clock;
    return SG_OK;
}

sg_code sg_virtual_event_create(sg_device *d, sg_event **event, sg_status *status) {
    (void)d;
    *event = calloc(1, sizeof **event);
    return *event ? SG_OK : sg_fail_memory(status, sizeof **event, "an event of the virtual device");
}

void sg_virtual_event_destroy(sg_device *d, sg_event *event) {
    (void)d;
    free(event);
}

sg_code sg_virtual_event_record(sg_device *d, sg_event *event, sg_stream stream, sg_status *status) {
    if (d->recording)
        return sg_virtual_record(d, &(recorded){RECORDED_EVENT, .stream = stream, .event = event}, status);
    /* an event in an empty stream happens when the host records it */
    event->at = d->stream[stream];
    sg_vclock_join(&event->at, &d->host);
    return SG_OK;
}

sg_code sg_virtual_event_wait(sg_device *d, sg_event *event, sg_stream stream, sg_status *status) {
    if (d->recording) return sg_virtual_record(d, &(recorded){RECORDED_WAIT, .stream = stream, .event = event}, status);
    sg_vclock_join(&d->stream[stream], &event->at);
    return SG_OK;
}

sg_code sg_virtual_event_seconds(sg_device *d, sg_event *event, double *seconds, sg_status *status) {
    (void)d, (void)status;
    *seconds = event->at.s;
    return SG_OK;
}

sg_code sg_virtual_stream_wait(sg_device *d, sg_stream stream, sg_status *status) {
    if (d->recording) return sg_fail(status, SG_BAD_INPUT, "a recording cannot wait for a stream");
    sg_vclock_join(&d->host, &d->stream[stream]);
    return SG_OK;
}

sg_code sg_virtual_copy(sg_device *d, void *to, const void *from, uint64_t bytes, sg_copy_kind kind, sg_stream stream,
                        sg_status *status) {
    (void)to, (void)from;
    if (d->recording) {
        if (kind != SG_COPY_ON_DEVICE) return sg_fail(status, SG_BAD_INPUT, "a recording copies on the device only");
        return sg_virtual_record(d, &(recorded){RECORDED_COPY, .stream = stream, .bytes = (double)bytes}, status);
    }
    const sg_machine *m = &d->machine;
    sg_vspan t = {0};
    if (kind == SG_COPY_ON_DEVICE) {
        sg_code code = sg_virtual_need(d, SG_M_EFF_COPY, "copying", status);
        if (!code) code = sg_virtual_need(d, SG_M_BANDWIDTH, "copying", status);
        if (code) return code;
        t.s = 2 * (double)bytes / (m->p[SG_M_EFF_COPY].value * m->p[SG_M_BANDWIDTH].value);
        sg_vspan_depends(&t, SG_M_EFF_COPY, -t.s);
        sg_vspan_depends(&t, SG_M_BANDWIDTH, -t.s);
    } else {
        sg_code code = sg_virtual_need(d, SG_M_COPY_BANDWIDTH, "copying between host and device", status);
        if (code) return code;
        t.s = (double)bytes / m->p[SG_M_COPY_BANDWIDTH].value;
        sg_vspan_depends(&t, SG_M_COPY_BANDWIDTH, -t.s);
    }
    sg_vclock *clock = &d->stream[stream];
    sg_vclock_join(clock, &d->host);
    sg_vclock_add(clock, &t, 1);
    if (stream == SG_STREAM_COMPUTE) {
        d->sums.device_busy_s += t.s;
        d->sums.class_s[SG_CLASS_COPY] += t.s;
    }
    if (d->in_line) sg_vclock_join(&d->host, clock);
    return SG_OK;
}

sg_code sg_virtual_host_work(sg_device *d, sg_host_class cls, int64_t count, sg_status *status) {
    static const sg_machine_id multiple_of[SG_HOST_CLASS_COUNT] = {
        [SG_HOST_OP_FORWARD] = SG_M_COUNT,
        [SG_HOST_OP_BACKWARD] = SG_M_HOST_BACKWARD,
        [SG_HOST_VIEW_FORWARD] = SG_M_HOST_VIEW,
        [SG_HOST_OPTIMIZER] = SG_M_HOST_OPTIMIZER_OPS,
    };
    /* a view's backward is a view made by the autograd engine: no dispatch of its own that the field reports would show */
    if (cls == SG_HOST_VIEW_BACKWARD || count <= 0) return SG_OK;
    const sg_machine_parameter *p = d->machine.p;
    sg_vspan t = {0};
    sg_code code;
    if (cls == SG_HOST_SYNC) {
        if ((code = sg_virtual_need(d, SG_M_HOST_SYNC_S, "host time", status))) return code;
        t.s = p[SG_M_HOST_SYNC_S].value;
        sg_vspan_depends(&t, SG_M_HOST_SYNC_S, t.s);
    } else {
        if ((unsigned)cls >= SG_HOST_CLASS_COUNT)
            return sg_fail(status, SG_BAD_INPUT, "host time on machine %s: unknown class %d", d->machine.name,
                           (int)cls);
        if ((code = sg_virtual_need(d, SG_M_HOST_OP_S, "host time", status))) return code;
        t.s = p[SG_M_HOST_OP_S].value;
        sg_machine_id multiple = multiple_of[cls];
        if (multiple < SG_M_COUNT) {
            if ((code = sg_virtual_need(d, multiple, "host time", status))) return code;
            t.s *= p[multiple].value;
            sg_vspan_depends(&t, multiple, t.s);
        }
        sg_vspan_depends(&t, SG_M_HOST_OP_S, t.s);
    }
    sg_vclock_add(&d->host, &t, (double)count);
    d->sums.host_busy_s += (double)count * t.s;
    sg_vspan_sum(d->sums.host_gradient, &t, (double)count);
    if (cls != SG_HOST_OPTIMIZER) return SG_OK;
    if ((code = sg_virtual_need(d, SG_M_HOST_OPTIMIZER_S, "host time", status))) return code;
    sg_vspan step = {.s = p[SG_M_HOST_OPTIMIZER_S].value};
    sg_vspan_depends(&step, SG_M_HOST_OPTIMIZER_S, step.s);
    sg_vclock_add(&d->host, &step, 1);
    d->sums.host_busy_s += step.s;
    sg_vspan_sum(d->sums.host_gradient, &step, 1);
    return SG_OK;
}

sg_code sg_virtual_host_idle(sg_device *d, double seconds, sg_status *status) {
    if (!(seconds >= 0) || !isfinite(seconds))
        return sg_fail(status, SG_BAD_INPUT, "waiting on machine %s: %g seconds is no duration", d->machine.name,
                       seconds);
    d->host.s += seconds;
    return SG_OK;
}

double sg_virtual_now(sg_device *d) {
    return d->host.s;
}
