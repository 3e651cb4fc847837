/* bench_launch.c: what the host pays for the smallest op: to enqueue it, to wait for it, to replay a recording of it. */
#include "sim/bench/bench_internal.h"

#include <stdio.h>

enum { BATCH = 64 /* launches in one timed value and in one graph: far fewer than a device's queue holds */ };

static double now(const sg_bench_op *o) {
    return o->bench->api->now(o->bench->device);
}

static sg_code wait(const sg_bench_op *o, sg_status *status) {
    return o->bench->api->stream_wait(o->bench->device, SG_STREAM_COMPUTE, status);
}

/* Host seconds of the calls alone. */
static sg_code enqueue(void *user, int64_t calls, double *seconds, sg_status *status) {
    sg_bench_op *o = user;
    double start = now(o);
    sg_code code = SG_OK;
    for (int64_t i = 0; !code && i < calls; i++) code = sg_bench_op_launch(o, status);
    *seconds = (now(o) - start) / (double)calls;
    return code ? code : wait(o, status);
}

/* Launched and waited for, one by one. */
static sg_code finish(void *user, int64_t calls, double *seconds, sg_status *status) {
    sg_bench_op *o = user;
    double start = now(o);
    sg_code code = SG_OK;
    for (int64_t i = 0; !code && i < calls; i++) {
        code = sg_bench_op_launch(o, status);
        if (!code) code = wait(o, status);
    }
    *seconds = (now(o) - start) / (double)calls;
    return code;
}

/* Launched one after the other and waited for once: host or device, whichever is slower. */
static sg_code back_to_back(void *user, int64_t calls, double *seconds, sg_status *status) {
    sg_bench_op *o = user;
    double start = now(o);
    sg_code code = SG_OK;
    for (int64_t i = 0; !code && i < calls; i++) code = sg_bench_op_launch(o, status);
    if (!code) code = wait(o, status);
    *seconds = (now(o) - start) / (double)calls;
    return code;
}

/* A wait for a stream that is empty. */
static sg_code idle_wait(void *user, int64_t calls, double *seconds, sg_status *status) {
    sg_bench_op *o = user;
    double start = now(o);
    sg_code code = SG_OK;
    for (int64_t i = 0; !code && i < calls; i++) code = wait(o, status);
    *seconds = (now(o) - start) / (double)calls;
    return code;
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

typedef struct graph {
    sg_bench_op *op;
    sg_graph_exec *recorded;
    bool whole; /* until it has run, else only the call that enqueues it */
} graph;

static sg_code replay(void *user, int64_t calls, double *seconds, sg_status *status) {
    graph *g = user;
    const sg_bench *b = g->op->bench;
    static const sg_launch launch = {.seed = 1, .step = 1, .salt = 1};
    double start = now(g->op);
    sg_code code = SG_OK;
    for (int64_t i = 0; !code && i < calls; i++) code = b->api->graph_launch(b->device, g->recorded, &launch, status);
    if (!code && g->whole) code = wait(g->op, status);
    double end = now(g->op);
    /* replayed: seconds of each op inside; enqueued: of the whole graph's call */
    *seconds = (end - start) / (double)calls / (g->whole ? BATCH : 1);
    return code ? code : wait(g->op, status);
}

static sg_code record_graph(graph *g, sg_status *status) {
    const sg_bench *b = g->op->bench;
    sg_code code = b->api->graph_begin(b->device, status);
    if (code) return code;
    sg_status failed;
    for (int i = 0; !code && i < BATCH; i++) code = sg_bench_op_launch(g->op, &failed);
    sg_code ended = b->api->graph_end(b->device, &g->recorded, status);
    return code ? sg_fail(status, code, "%s", failed.text) : ended;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static sg_code keep(sg_bench_op *o, const char *what, sg_bench_timed timed, void *user, int64_t most_calls,
                    sg_status *status) {
    static const sg_bench_precision single = {"fp32", SG_F32, SG_COMPUTE_F32};
    sg_bench *b = o->bench;
    if (sg_bench_stopped(b)) return SG_OK;
    sg_bench_tell(b, what);
    sg_bench_samples samples;
    sg_code code = sg_bench_repeat(b, timed, user, most_calls, &samples, status);
    if (code) return code;
    sg_micro micro = sg_bench_micro(b, "launch", what, &single);
    micro.config.bytes = 4;
    return sg_bench_keep(b, &micro, &samples, status);
}

static sg_code time_graph(sg_bench_op *o, sg_status *status) {
    const sg_bench *b = o->bench;
    graph g = {.op = o};
    sg_code code = record_graph(&g, status);
    if (!code) code = keep(o, "graph_enqueue", replay, &g, 1, status);
    g.whole = true;
    if (!code) code = keep(o, "graph_replay", replay, &g, 8, status);
    if (g.recorded) b->api->graph_destroy(b->device, g.recorded);
    return code;
}

sg_code sg_bench_launch(sg_bench *b, sg_status *status) {
    if (b->options.n_sizes)
        return sg_fail(status, SG_BAD_INPUT, "'bench launch' takes no --sizes: it launches the smallest op");
    const int64_t one = 1;
    const sg_desc x = sg_desc_make(SG_F32, 1, &one), desc[2] = {x, x};
    const sg_attrs attrs = {.fn = SG_FN_RELU};
    bool graphs = b->api->graph_begin != NULL;
    b->planned = graphs ? 6 : 4;
    sg_bench_op o;
    sg_code code = sg_bench_op_open(b, SG_OP_UNARY, &attrs, 1, 1, desc, NULL, &o, status);
    if (!code) code = sg_bench_op_fill(&o, 0, -1, 1, status);
    if (!code) code = keep(&o, "enqueue", enqueue, &o, BATCH, status);
    if (!code) code = keep(&o, "back_to_back", back_to_back, &o, BATCH, status);
    if (!code) code = keep(&o, "finish", finish, &o, BATCH, status);
    if (!code) code = keep(&o, "wait", idle_wait, &o, BATCH, status);
    if (!code && graphs && !sg_bench_stopped(b)) code = time_graph(&o, status);
    if (!code && !graphs)
        code = sg_bench_omit(b, "launch graph_replay", "this device records no graphs", false, status);
    sg_bench_op_close(&o);
    return code ? sg_fail_in(status, "bench launch") : SG_OK;
}
