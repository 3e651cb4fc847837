/* device.h: what the files of the virtual device share. */
#ifndef SG_KERNELS_VIRTUAL_DEVICE_H
#define SG_KERNELS_VIRTUAL_DEVICE_H

#include "kernels/virtual/clocks.h"
#include "kernels/virtual/tape.h"

struct sg_plan {
    const sg_op *op;
    double seconds; /* NAN: not priced yet */
    uint32_t duration;
    const sg_tape *tape; /* where `duration` is its index */
    uint8_t cls;         /* sg_op_class */
};

/* What one call of prepare made. */
typedef struct plan_block {
    struct plan_block *next;
    size_t n;
    sg_plan plan[];
} plan_block;

struct sg_event {
    size_t index;
};

struct sg_comm {
    int ranks;
};

/* One call that moves clocks. */
typedef struct sg_call {
    sg_move_kind what;
    sg_stream stream;
    sg_plan *plan;         /* launch of an op, or NULL: */
    sg_duration duration;  /* copy, collective; host: its class */
    const sg_comm *comm;   /* collective */
    const sg_event *event; /* record, wait */
    int64_t times;         /* host */
} sg_call;

struct sg_graph_exec {
    sg_call *calls;
    size_t n, room;
};

struct sg_device {
    sg_machine machine; /* a copy of the values; the covariance stays with its owner */
    bool free_segments; /* allocations take no time */
    sg_clocks clocks;
    size_t n_events, events_room, active_room;
    double host_s[SG_TAPE_HOST_DURATIONS]; /* NAN: not priced yet */
    plan_block *blocks;
    sg_graph_exec *recording; /* a graph under way, or NULL */
    sg_tape *tape;            /* where calls go instead of moving clocks, or NULL */
    sg_virtual_report sums;
    uint64_t next_address, used_bytes, limit_bytes;
};

/* time.c. Where a call goes: into a graph under way, on the tape, or to the clocks. */
sg_code sg_virtual_call(sg_device *d, const sg_call *call, sg_status *status);
sg_code sg_virtual_launch(sg_device *d, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                          const sg_launch *how, sg_status *status);
sg_code sg_virtual_event_create(sg_device *d, sg_event **event, sg_status *status);
void sg_virtual_event_destroy(sg_device *d, sg_event *event);
sg_code sg_virtual_event_record(sg_device *d, sg_event *event, sg_stream stream, sg_status *status);
sg_code sg_virtual_event_wait(sg_device *d, sg_event *event, sg_stream stream, sg_status *status);
sg_code sg_virtual_event_seconds(sg_device *d, sg_event *event, double *seconds, sg_status *status);
sg_code sg_virtual_stream_wait(sg_device *d, sg_stream stream, sg_status *status);
sg_code sg_virtual_copy(sg_device *d, void *to, const void *from, uint64_t bytes, sg_copy_kind kind, sg_stream stream,
                        sg_status *status);
sg_code sg_virtual_host_work(sg_device *d, sg_host_class cls, int64_t count, sg_status *status);
sg_code sg_virtual_host_idle(sg_device *d, double seconds, sg_status *status);
double sg_virtual_now(sg_device *d);
/* collective.c */
sg_code sg_virtual_comm_create(sg_device *d, const sg_comm_options *options, sg_comm **comm, sg_status *status);
void sg_virtual_comm_destroy(sg_device *d, sg_comm *comm);
sg_code sg_virtual_all_reduce_mean(sg_device *d, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                                   sg_status *status);
sg_code sg_virtual_all_gather(sg_device *d, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                              sg_dtype dtype, sg_status *status);
sg_code sg_virtual_reduce_scatter_mean(sg_device *d, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                       sg_dtype dtype, sg_status *status);
void sg_virtual_comm_abort(sg_device *d, sg_comm *comm);
/* graph.c */
sg_code sg_virtual_graph_add(sg_device *d, const sg_call *call, sg_status *status);
sg_code sg_virtual_graph_begin(sg_device *d, sg_status *status);
sg_code sg_virtual_graph_end(sg_device *d, sg_graph_exec **graph, sg_status *status);
sg_code sg_virtual_graph_launch(sg_device *d, sg_graph_exec *graph, const sg_launch *launch, sg_status *status);
void sg_virtual_graph_destroy(sg_device *d, sg_graph_exec *graph);

#endif
