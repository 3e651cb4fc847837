/* trace_internal.h: what is kept of a traced iteration, between walk_trace.c, which fills it in, and trace_write.c. */
#ifndef SG_SIM_WALK_TRACE_INTERNAL_H
#define SG_SIM_WALK_TRACE_INTERNAL_H

#include "sim/walk/trace.h"

typedef enum sg_trace_what {
    SG_TRACE_OP, /* index: op of the walker */
    SG_TRACE_COPY,
    SG_TRACE_ALL_REDUCE,
    SG_TRACE_ALL_GATHER,
    SG_TRACE_REDUCE_SCATTER,
    SG_TRACE_GRAPH, /* a recorded update */
    SG_TRACE_HOST,  /* index: sg_host_class */
    SG_TRACE_WAIT
} sg_trace_what;

/* Seconds of the host's clock. A call to the host alone has no stream: -1. */
typedef struct sg_trace_call {
    uint8_t what;
    int8_t stream;
    int32_t index;
    int32_t program, entry; /* -1: outside of any */
    double host[2], device[2];
} sg_trace_call;

typedef struct sg_trace_memory {
    double at;
    uint64_t bytes;
} sg_trace_memory;

/* A reading of the host's clock, or a mark on the compute stream: what passed from the one before (phase) or passes until the
 * one behind (mark). */
typedef struct sg_trace_point {
    int what;
    double at;
} sg_trace_point;

typedef struct sg_trace {
    sg_trace_call *calls;
    sg_trace_memory *memory;
    sg_trace_point *phases, *marks;
    size_t n_calls, n_memory, n_phases, n_marks;
    size_t calls_room, memory_room, phases_room;
    sg_event **events; /* two for each call on a stream, in order */
    size_t n_events, events_room, events_used;
    double offset_s; /* host clock less device clock */
    int32_t program, entry;
    uint64_t seen_bytes;
    sg_code code; /* what went wrong where nothing could be returned */
} sg_trace;

/* Names of the walker's ops come from ops[n_ops]; modules and passes from the training. */
sg_code sg_trace_write(const sg_trace *trace, const sg_training *training, const sg_op *ops, size_t n_ops,
                       const sg_trace_request *request, sg_status *status);

#endif
