/* device.h: what the files of the virtual device share. */
#ifndef SG_KERNELS_VIRTUAL_DEVICE_H
#define SG_KERNELS_VIRTUAL_DEVICE_H

#include "kernels/virtual/clock.h"

/* A collective slows the compute that runs beside it from `start` to `end`. */
typedef struct interval {
    sg_vclock start, end;
} interval;

struct sg_plan {
    sg_vspan price;
    uint8_t cls; /* sg_op_class */
};

/* What one call of prepare made. */
typedef struct plan_block {
    struct plan_block *next;
    const sg_op *ops;
    size_t n;
    sg_plan plan[];
} plan_block;

struct sg_event {
    sg_vclock at;
};

struct sg_comm {
    int ranks;
};

/* One call of a recording. */
typedef struct recorded {
    enum { RECORDED_LAUNCH, RECORDED_EVENT, RECORDED_WAIT, RECORDED_COPY, RECORDED_COLLECTIVE } what;
    sg_stream stream;
    sg_plan *plan;
    sg_event *event;
    sg_comm *comm;
    double bytes, passes; /* collective; bytes: copy */
} recorded;

struct sg_graph_exec {
    recorded *calls;
    size_t n, room;
};

struct sg_device {
    sg_machine machine; /* a copy of the values; the covariance stays with its owner */
    bool in_line;       /* the host computes itself: it waits for each launch */
    sg_vclock host, stream[SG_STREAM_COUNT];
    interval *active; /* collectives that end after the compute stream's clock */
    size_t n_active, room;
    plan_block *blocks;
    sg_graph_exec *recording; /* under way, or NULL */
    sg_virtual_report sums;
    uint64_t next_address, used_bytes, limit_bytes;
};

/* SG_NO with the parameter's name when the machine lacks it. */
sg_code sg_virtual_need(const sg_device *device, sg_machine_id id, const char *what, sg_status *status);

/* time.c */
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
/* passes x (n - 1)/n x bytes over the bus. */
sg_code sg_virtual_collective(sg_device *d, sg_comm *comm, double bytes, double passes, sg_status *status);
/* graph.c. While a recording is under way, calls go here instead of moving clocks. */
sg_code sg_virtual_record(sg_device *d, const recorded *call, sg_status *status);
sg_code sg_virtual_graph_begin(sg_device *d, sg_status *status);
sg_code sg_virtual_graph_end(sg_device *d, sg_graph_exec **graph, sg_status *status);
sg_code sg_virtual_graph_launch(sg_device *d, sg_graph_exec *graph, const sg_launch *launch, sg_status *status);
void sg_virtual_graph_destroy(sg_device *d, sg_graph_exec *graph);

#endif
