/* graph.c: recordings of the virtual device: the calls, made again without the host's time between them. */
#include <stdlib.h>

#include "kernels/virtual/device.h"

sg_code sg_virtual_record(sg_device *d, const recorded *call, sg_status *status) {
    sg_graph_exec *g = d->recording;
    if (g->n == g->room) {
        size_t room = g->room ? 2 * g->room : 256;
        recorded *grown = realloc(g->calls, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "a recording of the virtual device");
        g->calls = grown;
        g->room = room;
    }
    g->calls[g->n++] = *call;
    return SG_OK;
}

sg_code sg_virtual_graph_begin(sg_device *d, sg_status *status) {
    if (d->in_line)
        return sg_fail(status, SG_NO, "machine %s is a processor, which records no graphs: leave --cuda-graph out",
                       d->machine.name);
    if (d->recording) return sg_fail(status, SG_BAD_INPUT, "a recording began inside another one");
    d->recording = calloc(1, sizeof *d->recording);
    return d->recording ? SG_OK : sg_fail_memory(status, sizeof *d->recording, "a recording of the virtual device");
}

sg_code sg_virtual_graph_end(sg_device *d, sg_graph_exec **graph, sg_status *status) {
    *graph = d->recording;
    d->recording = NULL;
    return *graph ? SG_OK : sg_fail(status, SG_BAD_INPUT, "a recording ended that had not begun");
}

static sg_code make(sg_device *d, const recorded *call, const sg_launch *launch, sg_status *status) {
    switch (call->what) {
    case RECORDED_LAUNCH: return sg_virtual_launch(d, call->plan, call->stream, NULL, NULL, launch, status);
    case RECORDED_EVENT: return sg_virtual_event_record(d, call->event, call->stream, status);
    case RECORDED_WAIT: return sg_virtual_event_wait(d, call->event, call->stream, status);
    case RECORDED_COPY:
        return sg_virtual_copy(d, NULL, NULL, (uint64_t)call->bytes, SG_COPY_ON_DEVICE, call->stream, status);
    case RECORDED_COLLECTIVE: break;
    }
    return sg_virtual_collective(d, call->comm, call->bytes, call->passes, status);
}

sg_code sg_virtual_graph_launch(sg_device *d, sg_graph_exec *graph, const sg_launch *launch, sg_status *status) {
    sg_code code = SG_OK;
    for (size_t i = 0; i < graph->n && !code; i++) code = make(d, &graph->calls[i], launch, status);
    return code;
}

void sg_virtual_graph_destroy(sg_device *d, sg_graph_exec *graph) {
    (void)d;
    if (!graph) return;
    free(graph->calls);
    free(graph);
}
