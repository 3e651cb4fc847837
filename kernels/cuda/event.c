/* event.c: events, and a clock made of them.
 *
 * CUDA gives the distance of two events in milliseconds as a float: exact to 0.1 us only while it is short. So times are
 * told from an anchor, an event whose own time is known in double, and a new anchor is set while the GPU is idle anyway. */
#include "kernels/cuda/cuda.h"

#include <stdlib.h>

struct sg_event {
    cudaEvent_t event;
    uint64_t generation; /* of the anchor when it was recorded; 0: never */
};

struct sg_cuda_anchor {
    cudaEvent_t event, next;
    double seconds;
    double set_s; /* host time */
    uint64_t generation;
};

sg_code sg_cuda_clock_open(sg_device *device, sg_status *status) {
    sg_cuda_anchor *a = calloc(1, sizeof *a);
    if (!a) return sg_fail_memory(status, sizeof *a, "the GPU's clock");
    device->anchor = a;
    sg_code code = sg_cuda_check(cudaEventCreateWithFlags(&a->event, cudaEventDefault), "making an event", status);
    if (code == SG_OK)
        code = sg_cuda_check(cudaEventCreateWithFlags(&a->next, cudaEventDefault), "making an event", status);
    if (code == SG_OK)
        code =
            sg_cuda_check(cudaEventRecord(a->event, device->stream[SG_STREAM_COMPUTE]), "recording an event", status);
    if (code == SG_OK) code = sg_cuda_check(cudaEventSynchronize(a->event), "waiting for the GPU", status);
    a->set_s = sg_cuda_now(device);
    a->generation = 1;
    return code;
}

void sg_cuda_clock_close(sg_device *device) {
    sg_cuda_anchor *a = device->anchor;
    if (!a) return;
    if (a->event) (void)cudaEventDestroy(a->event);
    if (a->next) (void)cudaEventDestroy(a->next);
    free(a);
    device->anchor = NULL;
}

sg_code sg_cuda_clock_refresh(sg_device *device, sg_status *status) {
    static const double LONG_S = 1;
    sg_cuda_anchor *a = device->anchor;
    double now = sg_cuda_now(device);
    if (now - a->set_s < LONG_S) return SG_OK;
    float ms = 0;
    sg_code code =
        sg_cuda_check(cudaEventRecord(a->next, device->stream[SG_STREAM_COMPUTE]), "recording an event", status);
    if (code == SG_OK) code = sg_cuda_check(cudaEventSynchronize(a->next), "waiting for the GPU", status);
    if (code == SG_OK) code = sg_cuda_check(cudaEventElapsedTime(&ms, a->event, a->next), "reading events", status);
    if (code != SG_OK) return code;
    cudaEvent_t kept = a->event;
    a->event = a->next;
    a->next = kept;
    a->seconds += 1e-3 * (double)ms;
    a->set_s = now;
    a->generation++;
    return SG_OK;
}

sg_code sg_cuda_event_create(sg_device *device, sg_event **event, sg_status *status) {
    *event = NULL;
    sg_code code = sg_cuda_use(device, status);
    sg_event *e = code == SG_OK ? calloc(1, sizeof *e) : NULL;
    if (!e) return code != SG_OK ? code : sg_fail_memory(status, sizeof *e, "an event");
    code = sg_cuda_check(cudaEventCreateWithFlags(&e->event, cudaEventDefault), "making an event", status);
    if (code == SG_OK)
        *event = e;
    else
        free(e);
    return code;
}

void sg_cuda_event_destroy(sg_device *device, sg_event *event) {
    if (!event) return;
    (void)sg_cuda_use(device, NULL);
    (void)cudaEventDestroy(event->event);
    free(event);
}

sg_code sg_cuda_event_record(sg_device *device, sg_event *event, sg_stream stream, sg_status *status) {
    sg_code code = sg_cuda_use(device, status);
    if (code != SG_OK) return code;
    event->generation = device->anchor->generation;
    return sg_cuda_check(cudaEventRecord(event->event, device->stream[stream]), "recording an event", status);
}

sg_code sg_cuda_event_wait(sg_device *device, sg_event *event, sg_stream stream, sg_status *status) {
    sg_code code = sg_cuda_use(device, status);
    if (code != SG_OK || !event->generation) return code;
    return sg_cuda_check(cudaStreamWaitEvent(device->stream[stream], event->event, 0), "making a stream wait", status);
}

sg_code sg_cuda_event_seconds(sg_device *device, sg_event *event, double *seconds, sg_status *status) {
    const sg_cuda_anchor *a = device->anchor;
    if (!event->generation) return sg_fail(status, SG_BAD_INPUT, "an event was read that was never recorded");
    sg_code code = sg_cuda_use(device, status);
    if (code != SG_OK) return code;
    /* CUDA wants the earlier event first */
    bool before = event->generation < a->generation;
    float ms = 0;
    code = sg_cuda_check(cudaEventElapsedTime(&ms, before ? event->event : a->event, before ? a->event : event->event),
                         "reading an event that the GPU has not reached", status);
    *seconds = a->seconds + (before ? -1e-3 : 1e-3) * (double)ms;
    return code;
}
