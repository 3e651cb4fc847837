/* trace.h: one iteration as it passed: what the host and each stream did when, as trace events that Perfetto and Chrome open
 * (Trace Event Format: complete events in microseconds, counters, metadata). */
#ifndef SG_SIM_WALK_TRACE_H
#define SG_SIM_WALK_TRACE_H

#include "sim/walk/walk.h"

typedef struct sg_trace_request {
    const char *path;     /* NULL: the iterations are made all the same, as ranks must, and nothing is kept */
    const char *title;    /* "act, batch 8, on h100-sxm" */
    double dataloading_s; /* passes before the walk begins, in no walk (predictions); else 0 */
} sg_trace_request;

/* Two more iterations, of which the second is written: in the first, the events are made that the second uses. Each op lies
 * between two events, so the host takes longer than in a measured iteration. Tracks: phases and parts of the update, the
 * host, and the streams of compute, copies and collectives; beside them the allocated bytes as the host allocates them. */
sg_code sg_walker_trace(sg_walker *walker, const sg_trace_request *request, sg_status *status);

#endif
