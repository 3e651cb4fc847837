#include "kernels/cpu/collective.h"

#include "kernels/cpu/queue.h"
#include "kernels/transport.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sg_event {
    bool recorded;
    uint64_t ticket; /* 0: recorded in line, seconds is final */
    double seconds;  /* written by the queue's thread before the ticket is done */
};

struct sg_comm {
    sg_transport *transport;
    int rank, ranks;
    double timeout_s;
};

double sg_cpu_now(sg_device *device) {
    struct timespec at;
    (void)device;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

/* ---- events ------------------------------------------------------------------------------------------------------------ */

sg_code sg_cpu_event_create(sg_device *device, sg_event **event, sg_status *status) {
    (void)device;
    *event = calloc(1, sizeof **event);
    return *event ? SG_OK : sg_fail_memory(status, sizeof **event, "an event");
}

/* A job of the queue may still write to it; should that job hang behind a dead peer, the event outlives its owner. */
void sg_cpu_event_destroy(sg_device *device, sg_event *event) {
    enum { PATIENCE_S = 2 };
    if (!event || !event->ticket || sg_queue_drain(device->queue, event->ticket, PATIENCE_S)) free(event);
}

typedef struct stamping {
    sg_event *event;
} stamping;

static sg_code stamp(void *bytes, sg_status *status) {
    stamping s;
    (void)status;
    memcpy(&s, bytes, sizeof s);
    s.event->seconds = sg_cpu_now(NULL);
    return SG_OK;
}

sg_code sg_cpu_event_record(sg_device *device, sg_event *event, sg_stream stream, sg_status *status) {
    event->recorded = true;
    event->ticket = 0;
    if (stream == SG_STREAM_COLLECTIVE && device->queue) {
        stamping s = {event};
        return sg_queue_push(device->queue, stamp, &s, sizeof s, &event->ticket, status);
    }
    event->seconds = sg_cpu_now(device);
    return SG_OK;
}

/* The compute and copy streams run in line: whatever they recorded is done. What the collective stream recorded must be
 * waited for here, except by that stream itself, which is in order. */
sg_code sg_cpu_event_wait(sg_device *device, sg_event *event, sg_stream stream, sg_status *status) {
    if (!event->recorded || !event->ticket || stream == SG_STREAM_COLLECTIVE) return SG_OK;
    return sg_queue_wait(device->queue, event->ticket, device->timeout_s, status);
}

sg_code sg_cpu_event_seconds(sg_device *device, sg_event *event, double *seconds, sg_status *status) {
    if (!event->recorded) return sg_fail(status, SG_BAD_INPUT, "an event was read that was never recorded");
    if (event->ticket && !sg_queue_is_done(device->queue, event->ticket))
        return sg_fail(status, SG_BAD_INPUT, "an event was read before the collective stream reached it");
    *seconds = event->seconds;
    return SG_OK;
}

sg_code sg_cpu_stream_wait(sg_device *device, sg_stream stream, sg_status *status) {
    if (stream != SG_STREAM_COLLECTIVE || !device->queue) return SG_OK;
    return sg_queue_wait(device->queue, sg_queue_last(device->queue), device->timeout_s, status);
}

/* ---- communicator ------------------------------------------------------------------------------------------------------- */

sg_code sg_cpu_comm_create(sg_device *device, const sg_comm_options *options, sg_comm **comm, sg_status *status) {
    sg_transport *transport = options->bootstrap;
    *comm = NULL;
    if (!transport)
        return sg_fail(status, SG_BAD_INPUT, "%d ranks need a transport: start them with --ranks %d", options->ranks,
                       options->ranks);
    if (transport->api->abi != SG_TRANSPORT_ABI || transport->api->struct_bytes != sizeof *transport->api)
        return sg_fail(status, SG_MACHINE, "the transport has interface %u, this device needs %d: build both together",
                       transport->api->abi, SG_TRANSPORT_ABI);
    if (options->ranks < 1 || options->rank < 0 || options->rank >= options->ranks)
        return sg_fail(status, SG_BAD_INPUT, "rank %d of %d ranks cannot be", options->rank, options->ranks);
    sg_comm *c = calloc(1, sizeof *c);
    if (!c) return sg_fail_memory(status, sizeof *c, "a communicator");
    sg_code code = device->queue ? SG_OK : sg_queue_open(&device->queue, status);
    if (code != SG_OK) {
        free(c);
        return code;
    }
    c->transport = transport;
    c->rank = options->rank;
    c->ranks = options->ranks;
    c->timeout_s = device->timeout_s = options->timeout_s;
    *comm = c;
    return SG_OK;
}

void sg_cpu_comm_destroy(sg_device *device, sg_comm *comm) {
    if (comm) (void)sg_queue_wait(device->queue, sg_queue_last(device->queue), comm->timeout_s, NULL);
    free(comm);
}

typedef struct exchange {
    sg_transport *transport;
    const void *from;
    void *to;
    int64_t count;
    int32_t dtype;
} exchange;

static exchange exchange_of(void *bytes) {
    exchange e;
    memcpy(&e, bytes, sizeof e);
    return e;
}

static sg_code do_all_reduce(void *bytes, sg_status *status) {
    exchange e = exchange_of(bytes);
    return e.transport->api->all_reduce_mean(e.transport, e.to, e.count, (sg_dtype)e.dtype, status);
}

static sg_code do_all_gather(void *bytes, sg_status *status) {
    exchange e = exchange_of(bytes);
    return e.transport->api->all_gather(e.transport, e.from, e.to, e.count, (sg_dtype)e.dtype, status);
}

static sg_code do_reduce_scatter(void *bytes, sg_status *status) {
    exchange e = exchange_of(bytes);
    return e.transport->api->reduce_scatter_mean(e.transport, e.from, e.to, e.count, (sg_dtype)e.dtype, status);
}

static sg_code enqueue(sg_device *device, sg_job job, exchange e, sg_status *status) {
    if (e.dtype != SG_F32 && e.dtype != SG_BF16)
        return sg_fail(status, SG_BAD_INPUT, "collectives carry f32 or bf16, not %s", sg_dtype_name((sg_dtype)e.dtype));
    if (e.count < 0) return sg_fail(status, SG_BAD_INPUT, "a collective of %lld elements", (long long)e.count);
    return sg_queue_push(device->queue, job, &e, sizeof e, NULL, status);
}

sg_code sg_cpu_all_reduce_mean(sg_device *device, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                               sg_status *status) {
    exchange e = {comm->transport, NULL, buffer, count, dtype};
    return enqueue(device, do_all_reduce, e, status);
}

sg_code sg_cpu_all_gather(sg_device *device, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                          sg_dtype dtype, sg_status *status) {
    exchange e = {comm->transport, part, whole, part_count, dtype};
    return enqueue(device, do_all_gather, e, status);
}

sg_code sg_cpu_reduce_scatter_mean(sg_device *device, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status) {
    exchange e = {comm->transport, whole, part, part_count, dtype};
    return enqueue(device, do_reduce_scatter, e, status);
}

void sg_cpu_comm_abort(sg_device *device, sg_comm *comm) {
    if (device->queue) sg_queue_fail(device->queue, "the communicator was aborted");
    if (comm) comm->transport->api->abort(comm->transport, "the communicator was aborted");
}
