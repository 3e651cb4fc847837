/* graph.c: recordings of the virtual device: the calls, made again without the host's time between them. */
#include <stdlib.h>

#include "kernels/virtual/device.h"

sg_code sg_virtual_graph_add(sg_device *d, const sg_call *call, sg_status *status) {
    sg_graph_exec *g = d->recording;
    if (g->n == g->room) {
        size_t room = g->room ? 2 * g->room : 256;
        sg_call *grown = realloc(g->calls, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "a recording of the virtual device");
        g->calls = grown;
        g->room = room;
    }
    g->calls[g->n++] = *call;
    return SG_OK;
}

sg_code sg_virtual_graph_begin(sg_device *d, sg_status *status) {
    if (d->clocks.in_line)
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

sg_code sg_virtual_graph_launch(sg_device *d, sg_graph_exec *graph, const sg_launch *launch, sg_status *status) {
    (void)launch;
    sg_code code = SG_OK;
    for (size_t i = 0; i < graph->n && !code; i++) code = sg_virtual_call(d, &graph->calls[i], status);
    return code;
}

void sg_virtual_graph_destroy(sg_device *d, sg_graph_exec *graph) {
    (void)d;
    if (!graph) return;
    free(graph->calls);
    free(graph);
}
