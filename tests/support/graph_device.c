/* graph_device.c: see graph_device.h. */
#include "tests/support/graph_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/reference/reference.h"
#include "tests/support/thread_ranks.h"

typedef struct call {
    sg_plan *plan; /* NULL: an all-reduce */
    void **pointers;
    void *workspace;
    sg_launch launch;
    sg_comm *comm;
    int64_t count;
    sg_dtype dtype;
} call;

struct sg_graph_exec {
    call *calls;
    size_t n, room;
};

static _Thread_local sg_graph_exec *recording;
static _Thread_local int64_t live;

int64_t sg_graph_device_live(void) {
    return live;
}

static sg_code note(const call *c, sg_status *status) {
    sg_graph_exec *g = recording;
    if (g->n == g->room) {
        size_t room = g->room ? 2 * g->room : 64;
        call *grown = realloc(g->calls, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "a recording");
        g->calls = grown;
        g->room = room;
    }
    g->calls[g->n++] = *c;
    return SG_OK;
}

/* How many pointers a plan takes: the reference's plan begins with its op. */
static size_t arity(const sg_plan *plan) {
    const sg_op *op = (const void *)plan;
    return (size_t)op->n_in + (size_t)op->n_out;
}

static sg_code launch(sg_device *d, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                      const sg_launch *how, sg_status *status) {
    if (!recording) return sg_thread_ranks_api()->launch(d, plan, stream, pointers, workspace, how, status);
    size_t n = arity(plan);
    call c = {.plan = plan, .workspace = workspace, .launch = *how, .pointers = malloc(n * sizeof(void *))};
    if (!c.pointers) return sg_fail_memory(status, n * sizeof(void *), "a recording");
    memcpy(c.pointers, pointers, n * sizeof(void *));
    sg_code code = note(&c, status);
    if (code) free(c.pointers);
    return code;
}

static sg_code all_reduce_mean(sg_device *d, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                               sg_status *status) {
    if (!recording) return sg_thread_ranks_api()->all_reduce_mean(d, comm, buffer, count, dtype, status);
    const call c = {.comm = comm, .workspace = buffer, .count = count, .dtype = dtype};
    return note(&c, status);
}

static sg_code copy(sg_device *d, void *to, const void *from, uint64_t bytes, sg_copy_kind kind, sg_stream stream,
                    sg_status *status) {
    if (recording) return sg_fail(status, SG_BAD_INPUT, "a copy inside a recording");
    return sg_thread_ranks_api()->copy(d, to, from, bytes, kind, stream, status);
}

static sg_code segment_alloc(sg_device *d, uint64_t bytes, void **segment, sg_status *status) {
    if (recording) return sg_fail(status, SG_BAD_INPUT, "an allocation inside a recording");
    return sg_thread_ranks_api()->segment_alloc(d, bytes, segment, status);
}

static sg_code stream_wait(sg_device *d, sg_stream stream, sg_status *status) {
    if (recording) return sg_fail(status, SG_BAD_INPUT, "a wait inside a recording");
    return sg_thread_ranks_api()->stream_wait(d, stream, status);
}

static void graph_destroy(sg_device *d, sg_graph_exec *graph) {
    (void)d;
    if (!graph) return;
    for (size_t i = 0; i < graph->n; i++) free(graph->calls[i].pointers);
    free(graph->calls);
    free(graph);
    live--;
}

static sg_code graph_begin(sg_device *d, sg_status *status) {
    (void)d;
    if (recording) return sg_fail(status, SG_BAD_INPUT, "a recording inside a recording");
    recording = calloc(1, sizeof *recording);
    if (!recording) return sg_fail_memory(status, sizeof *recording, "a recording");
    live++;
    return SG_OK;
}

static sg_code graph_end(sg_device *d, sg_graph_exec **graph, sg_status *status) {
    (void)d;
    *graph = recording;
    recording = NULL;
    return *graph ? SG_OK : sg_fail(status, SG_BAD_INPUT, "no recording to end");
}

static sg_code graph_launch(sg_device *d, sg_graph_exec *graph, const sg_launch *how, sg_status *status) {
    const sg_device_api *api = sg_thread_ranks_api();
    sg_code code = SG_OK;
    for (size_t i = 0; i < graph->n && !code; i++) {
        call *c = &graph->calls[i];
        c->launch.step = how->step;
        code = c->plan ? api->launch(d, c->plan, SG_STREAM_COMPUTE, c->pointers, c->workspace, &c->launch, status)
                       : api->all_reduce_mean(d, c->comm, c->workspace, c->count, c->dtype, status);
    }
    return code;
}

const sg_device_api *sg_graph_device_api(void) {
    static sg_device_api api;
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    (void)pthread_mutex_lock(&once);
    if (!api.abi) {
        api = *sg_thread_ranks_api();
        api.launch = launch;
        api.segment_alloc = segment_alloc;
        api.copy = copy;
        api.stream_wait = stream_wait;
        api.all_reduce_mean = all_reduce_mean;
        api.graph_begin = graph_begin;
        api.graph_end = graph_end;
        api.graph_launch = graph_launch;
        api.graph_destroy = graph_destroy;
    }
    (void)pthread_mutex_unlock(&once);
    return &api;
}
