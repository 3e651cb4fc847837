/* watch_device.c: see watch_device.h. */
#include "tests/support/watch_device.h"

#include <stdlib.h>

struct sg_device {
    sg_watch *watch;
};

static sg_code fails(sg_watch *w, sg_watch_call call, sg_status *status) {
    if (++w->calls[call] != w->fail_at || call != w->fail_call) return SG_OK;
    return sg_fail(status, w->fail_code, "told to fail at call %lld", (long long)w->fail_at);
}

static sg_code device_open(const sg_device_options *options, sg_device **device, sg_status *status) {
    (void)options;
    *device = NULL;
    return sg_fail(status, SG_BAD_INPUT, "a watch is opened by sg_watch_open");
}

static void device_close(sg_device *d) {
    free(d);
}

static sg_code info(sg_device *d, sg_device_info *out, sg_status *status) {
    return d->watch->api->info(d->watch->device, out, status);
}

static sg_code segment_alloc(sg_device *d, uint64_t bytes, void **segment, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_SEGMENT_ALLOC, status);
    if (!code && w->limit_bytes && w->segment_bytes + bytes > w->limit_bytes)
        code = sg_fail(status, SG_NO, "out of memory");
    if (!code) code = w->api->segment_alloc(w->device, bytes, segment, status);
    if (!code) {
        w->segments++;
        w->segment_bytes += bytes;
    }
    return code;
}

static void segment_free(sg_device *d, void *segment, uint64_t bytes) {
    d->watch->segments--;
    d->watch->segment_bytes -= bytes;
    d->watch->api->segment_free(d->watch->device, segment, bytes);
}

static sg_code prepare(sg_device *d, const sg_op *ops, size_t n, sg_plan **plans, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_PREPARE, status);
    if (!code) code = w->api->prepare(w->device, ops, n, plans, status);
    if (!code) w->plans += (int64_t)n;
    return code;
}

static void plans_free(sg_device *d, sg_plan **plans, size_t n) {
    d->watch->plans -= (int64_t)n;
    d->watch->api->plans_free(d->watch->device, plans, n);
}

static uint64_t plan_workspace_bytes(const sg_plan *plan) {
    (void)plan;
    return 4096; /* devices behind differ; the walker must hand over what was asked for */
}

static sg_code launch(sg_device *d, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                      const sg_launch *how, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_LAUNCH, status);
    return code ? code : w->api->launch(w->device, plan, stream, pointers, workspace, how, status);
}

static void weights_changed(sg_device *d) {
    if (d->watch->api->weights_changed) d->watch->api->weights_changed(d->watch->device);
}

static sg_code event_create(sg_device *d, sg_event **event, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_EVENT_CREATE, status);
    if (!code) code = w->api->event_create(w->device, event, status);
    if (!code) w->events++;
    return code;
}

static void event_destroy(sg_device *d, sg_event *event) {
    d->watch->events--;
    d->watch->api->event_destroy(d->watch->device, event);
}

static sg_code event_record(sg_device *d, sg_event *event, sg_stream stream, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_EVENT_RECORD, status);
    return code ? code : w->api->event_record(w->device, event, stream, status);
}

static sg_code event_wait(sg_device *d, sg_event *event, sg_stream stream, sg_status *status) {
    return d->watch->api->event_wait(d->watch->device, event, stream, status);
}

static sg_code event_seconds(sg_device *d, sg_event *event, double *seconds, sg_status *status) {
    return d->watch->api->event_seconds(d->watch->device, event, seconds, status);
}

static sg_code stream_wait(sg_device *d, sg_stream stream, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_STREAM_WAIT, status);
    return code ? code : w->api->stream_wait(w->device, stream, status);
}

static sg_code copy(sg_device *d, void *to, const void *from, uint64_t bytes, sg_copy_kind kind, sg_stream stream,
                    sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_COPY, status);
    return code ? code : w->api->copy(w->device, to, from, bytes, kind, stream, status);
}

static sg_code host_work(sg_device *d, sg_host_class cls, int64_t count, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_HOST_WORK, status);
    w->host_work[cls] += count;
    return code ? code : w->api->host_work(w->device, cls, count, status);
}

static sg_code host_idle(sg_device *d, double seconds, sg_status *status) {
    return d->watch->api->host_idle(d->watch->device, seconds, status);
}

static double now(sg_device *d) {
    return d->watch->api->now(d->watch->device);
}

static sg_code comm_create(sg_device *d, const sg_comm_options *options, sg_comm **comm, sg_status *status) {
    return d->watch->api->comm_create(d->watch->device, options, comm, status);
}

static void comm_destroy(sg_device *d, sg_comm *comm) {
    d->watch->api->comm_destroy(d->watch->device, comm);
}

static sg_code all_reduce_mean(sg_device *d, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                               sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_ALL_REDUCE, status);
    return code ? code : w->api->all_reduce_mean(w->device, comm, buffer, count, dtype, status);
}

static sg_code graph_begin(sg_device *d, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_GRAPH, status);
    return code ? code : w->api->graph_begin(w->device, status);
}

/* A failed end leaves no recording under way. */
static sg_code graph_end(sg_device *d, sg_graph_exec **graph, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code failed = fails(w, SG_WATCH_GRAPH, status), code = w->api->graph_end(w->device, graph, status);
    if (!failed || code) return code;
    w->api->graph_destroy(w->device, *graph);
    *graph = NULL;
    return failed;
}

static sg_code graph_launch(sg_device *d, sg_graph_exec *graph, const sg_launch *how, sg_status *status) {
    sg_watch *w = d->watch;
    sg_code code = fails(w, SG_WATCH_GRAPH, status);
    return code ? code : w->api->graph_launch(w->device, graph, how, status);
}

static void graph_destroy(sg_device *d, sg_graph_exec *graph) {
    d->watch->api->graph_destroy(d->watch->device, graph);
}

const sg_device_api *sg_watch_api(void) {
    static const sg_device_api api = {.abi = SG_DEVICE_ABI,
                                      .struct_bytes = sizeof(sg_device_api),
                                      .kind = "watch",
                                      .open = device_open,
                                      .close = device_close,
                                      .info = info,
                                      .segment_alloc = segment_alloc,
                                      .segment_free = segment_free,
                                      .prepare = prepare,
                                      .plans_free = plans_free,
                                      .plan_workspace_bytes = plan_workspace_bytes,
                                      .launch = launch,
                                      .weights_changed = weights_changed,
                                      .event_create = event_create,
                                      .event_destroy = event_destroy,
                                      .event_record = event_record,
                                      .event_wait = event_wait,
                                      .event_seconds = event_seconds,
                                      .graph_begin = graph_begin,
                                      .graph_end = graph_end,
                                      .graph_launch = graph_launch,
                                      .graph_destroy = graph_destroy,
                                      .stream_wait = stream_wait,
                                      .copy = copy,
                                      .host_work = host_work,
                                      .host_idle = host_idle,
                                      .now = now,
                                      .comm_create = comm_create,
                                      .comm_destroy = comm_destroy,
                                      .all_reduce_mean = all_reduce_mean};
    return &api;
}

sg_device *sg_watch_open(sg_watch *watch, const sg_device_api *api, sg_device *device) {
    sg_device *d = calloc(1, sizeof *d);
    if (!d) abort();
    watch->api = api;
    watch->device = device;
    d->watch = watch;
    return d;
}

void sg_watch_close(sg_device *device) {
    free(device);
}
