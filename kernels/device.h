/* device.h: the one interface behind which a step program is executed or priced.
 *
 * A device is a table of functions. Real devices (cpu, cuda) and the reference execute; the virtual device advances
 * clocks. Whoever walks a program never asks which it has. Modules export `const sg_device_api *sg_device_module(void)`
 * and are opened by kernels/module.h, which checks `abi` and `struct_bytes` first. */
#ifndef SG_KERNELS_DEVICE_H
#define SG_KERNELS_DEVICE_H

#include "kernels/op.h"
#include "kernels/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_DEVICE_ABI = 2 };

typedef struct sg_device sg_device; /* each device defines its own */
typedef struct sg_plan sg_plan;
typedef struct sg_event sg_event;
typedef struct sg_comm sg_comm;
typedef struct sg_graph_exec sg_graph_exec; /* captured work, ready to be replayed */

/* Streams that every device has. The CPU's compute stream runs in line; its collective stream is a thread. */
typedef enum sg_stream { SG_STREAM_COMPUTE, SG_STREAM_COPY, SG_STREAM_COLLECTIVE, SG_STREAM_COUNT } sg_stream;

/* What the host spends between launches, by class; its seconds come from the machine (virtual) or are really spent by
 * the program walking (cpu) or emulated (cuda with a framework profile). */
typedef enum sg_host_class {
    SG_HOST_OP_FORWARD,
    SG_HOST_OP_BACKWARD,
    SG_HOST_VIEW_FORWARD,
    SG_HOST_VIEW_BACKWARD,
    SG_HOST_OPTIMIZER, /* bookkeeping of one optimizer step beside its ops; count: the tensors that it updates */
    SG_HOST_SYNC,      /* one blocking read */
    SG_HOST_SEGMENT,   /* one allocation from the driver (the virtual device's segment_alloc; others really spend it) */
    SG_HOST_CLASS_COUNT
} sg_host_class;

typedef struct sg_device_info {
    char kind[16];     /* "cpu", "cuda", "virtual", "reference" */
    char name[96];     /* "AMD EPYC 9R14", "NVIDIA H100 80GB HBM3" */
    char library[160]; /* "oneDNN 2.6.3"; "CUDA 13.0, cuBLAS 13.0.2, cuDNN 9.13.0, NCCL 2.28.3" */
    char driver[32];   /* cuda: "580.65.06"; else empty */
    char bus[32];      /* cuda: PCI bus id "0000:3B:00.0", by which NVML knows it; else empty */
    bool executes;     /* false: segments are addresses without memory behind them, nothing may be read */
    bool caching;      /* true: frameworks allocate through a caching allocator on this device class */
    bool bf16_native;  /* false: bf16 is stored, fp32 computed */
    bool fp16_native;
    int units;              /* SMs, or threads used */
    int compute_capability; /* cuda: 10 x major + minor; else 0 */
    uint64_t memory_bytes;
    uint64_t free_bytes; /* of it, when asked; 0: the device does not tell */
} sg_device_info;

typedef struct sg_device_options {
    int index;           /* which of several devices */
    int threads;         /* cpu: 0 = all that the affinity mask allows */
    const void *machine; /* virtual: const sg_machine *; others NULL */
    /* cuda: seconds of host time of the framework by sg_host_class, then its bookkeeping of one optimizer step beside what
     * it does per tensor: SG_HOST_CLASS_COUNT + 1 of them, which host_work really spends (less what the calls before it took
     * themselves). NULL: none, the host is this program's own. Copied by open. */
    const double *host_s;
    bool benchmark;          /* cuda: time the first convolution plans and keep the fastest (cuDNN benchmark mode) */
    const char *library_dir; /* cuda: a folder in which the CUDA libraries are looked for first; NULL: none */
} sg_device_options;

/* What changes from launch to launch of one plan. Random values are functions of (seed, step, salt, sample index,
 * index in the sample) alone, so that N ranks draw what one process with the N-fold batch draws. */
typedef struct sg_launch {
    uint64_t seed;
    uint64_t step;         /* 1-based optimizer step (ADAMW's bias correction) */
    uint64_t salt;         /* which random op of the program */
    int64_t sample_offset; /* global index of this rank's first sample */
} sg_launch;

typedef enum sg_copy_kind { SG_COPY_TO_DEVICE, SG_COPY_TO_HOST, SG_COPY_ON_DEVICE } sg_copy_kind;

struct sg_transport;

/* Communicator of one rank. `bootstrap` is the sg_transport (kernels/transport.h) that connects the ranks: the cpu device
 * reduces through it, the cuda device only exchanges its NCCL id and asks it whether a peer was lost. */
typedef struct sg_comm_options {
    int rank, ranks;
    struct sg_transport *bootstrap;
    double timeout_s;
} sg_comm_options;

/* Every function returns SG_OK or fills *status. "May be NULL" marks what a device need not have. */
typedef struct sg_device_api {
    uint32_t abi;          /* SG_DEVICE_ABI */
    uint32_t struct_bytes; /* sizeof(sg_device_api) */
    const char *kind;

    sg_code (*open)(const sg_device_options *options, sg_device **device, sg_status *status);
    void (*close)(sg_device *device);
    sg_code (*info)(sg_device *device, sg_device_info *info, sg_status *status);

    /* Raw memory, at least 512-byte aligned. SG_NO: out of memory (an answer, not a fault). */
    sg_code (*segment_alloc)(sg_device *device, uint64_t bytes, void **segment, sg_status *status);
    void (*segment_free)(sg_device *device, void *segment, uint64_t bytes);

    /* Chooses primitive or algorithm for n unique ops; plans[i] is owned by the device until plans_free. A device that
     * cannot run an op refuses with SG_NO and a reason that names it. */
    sg_code (*prepare)(sg_device *device, const sg_op *ops, size_t n, sg_plan **plans, sg_status *status);
    void (*plans_free)(sg_device *device, sg_plan **plans, size_t n);
    uint64_t (*plan_workspace_bytes)(const sg_plan *plan);

    /* Enqueues one op. pointers: inputs, then outputs, in the op's order, each at its tensor's first element. */
    sg_code (*launch)(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                      const sg_launch *launch, sg_status *status);
    /* Device seconds of one op by itself, without what the host needs to launch it. The stream is empty before and after.
     * May be NULL: then host seconds from an empty stream to an empty stream stand for it. */
    sg_code (*launch_timed)(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                            const sg_launch *launch, double *seconds, sg_status *status);
    /* Weights changed: packed copies are stale. May be NULL. */
    void (*weights_changed)(sg_device *device);

    sg_code (*event_create)(sg_device *device, sg_event **event, sg_status *status);
    void (*event_destroy)(sg_device *device, sg_event *event);
    sg_code (*event_record)(sg_device *device, sg_event *event, sg_stream stream, sg_status *status);
    sg_code (*event_wait)(sg_device *device, sg_event *event, sg_stream stream, sg_status *status); /* stream waits */
    /* Device time of a completed event, seconds on the device's own clock. */
    sg_code (*event_seconds)(sg_device *device, sg_event *event, double *seconds, sg_status *status);

    /* Host memory from which copies are asynchronous (pinned). May be NULL: any memory does. */
    sg_code (*host_alloc)(sg_device *device, uint64_t bytes, void **memory, sg_status *status);
    void (*host_free)(sg_device *device, void *memory);

    /* What is enqueued on the compute stream between begin and end, and on streams joined to it by events, is recorded
     * instead of run. A replay enqueues it again with `launch->step`; seed, salts, offsets and addresses stay those of the
     * recording. After a failed end nothing is recorded any more. All four may be NULL. */
    sg_code (*graph_begin)(sg_device *device, sg_status *status);
    sg_code (*graph_end)(sg_device *device, sg_graph_exec **graph, sg_status *status);
    sg_code (*graph_launch)(sg_device *device, sg_graph_exec *graph, const sg_launch *launch, sg_status *status);
    void (*graph_destroy)(sg_device *device, sg_graph_exec *graph);

    /* Host waits until the stream is empty (a blocking read). */
    sg_code (*stream_wait)(sg_device *device, sg_stream stream, sg_status *status);
    sg_code (*copy)(sg_device *device, void *to, const void *from, uint64_t bytes, sg_copy_kind kind, sg_stream stream,
                    sg_status *status);
    sg_code (*host_work)(sg_device *device, sg_host_class cls, int64_t count, sg_status *status);
    /* Lets the host clock pass `seconds` without using the device (an environment, a loader that is simulated).
     * Devices that execute return SG_BAD_INPUT: there, others really spend the time. */
    sg_code (*host_idle)(sg_device *device, double seconds, sg_status *status);
    double (*now)(sg_device *device); /* host clock, seconds, monotonic */

    /* Collectives on SG_STREAM_COLLECTIVE; buffers are fp32 or bf16. All may be NULL on a device without any. */
    sg_code (*comm_create)(sg_device *device, const sg_comm_options *options, sg_comm **comm, sg_status *status);
    void (*comm_destroy)(sg_device *device, sg_comm *comm);
    sg_code (*all_reduce_mean)(sg_device *device, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                               sg_status *status);
    sg_code (*all_gather)(sg_device *device, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                          sg_dtype dtype, sg_status *status);
    sg_code (*reduce_scatter_mean)(sg_device *device, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status);
    void (*comm_abort)(sg_device *device, sg_comm *comm);
} sg_device_api;

#ifdef __cplusplus
}
#endif
#endif
