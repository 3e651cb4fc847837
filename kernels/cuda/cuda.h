/* cuda.h: what the files of the cuda device share. C for the host's part, C++ in the .cu files. */
#ifndef SG_KERNELS_CUDA_CUDA_H
#define SG_KERNELS_CUDA_CUDA_H

#include "kernels/device.h"

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Handles of the libraries, opened when the first op needs them; each in a file of its own. */
typedef struct sg_cuda_blas sg_cuda_blas;     /* blas.c: cuBLAS and cuBLASLt */
typedef struct sg_cuda_dnn sg_cuda_dnn;       /* conv_cudnn.c */
typedef struct sg_cuda_anchor sg_cuda_anchor; /* event.c: the device's clock */

struct sg_device {
    int index;
    int capability; /* 10 x major + minor */
    int units;      /* SMs */
    bool bf16, benchmark;
    uint64_t part_bytes;   /* ops that can go through in parts take no more workspace than about this */
    char library_dir[512]; /* "" : none */
    cudaStream_t stream[SG_STREAM_COUNT];
    double host_s[SG_HOST_CLASS_COUNT + 1];
    bool emulates_host;
    double host_due_s; /* the framework would have got so far */
    sg_cuda_anchor *anchor;
    uint64_t *step_at; /* device memory: the step of a replay; NULL before the first recording */
    bool recording;
    sg_comm *comm; /* the latest; waits ask it whether a peer was lost */
    sg_cuda_blas *blas;
    sg_cuda_dnn *dnn;
};

/* What a kernel that depends on the launch takes by value: in a recording the step is read when the replay runs. */
typedef struct sg_cuda_draw {
    uint64_t seed, step, salt, sample_offset;
    const uint64_t *step_at; /* NULL: step */
} sg_cuda_draw;

/* One execution of a plan. */
typedef struct sg_call {
    sg_device *device;
    const struct sg_plan *plan;
    void *const *pointers; /* inputs, then outputs */
    char *workspace;
    const sg_launch *launch;
    cudaStream_t stream;
    sg_status *status;
} sg_call;

struct sg_plan {
    sg_op op; /* with descriptors of its own */
    sg_code (*run)(const sg_call *call);
    void (*free_state)(void *state); /* NULL: state is plain memory or NULL */
    void *state;                     /* what `run` needs, by kind */
    uint64_t workspace_bytes;        /* offsets in it: multiples of 512 */
};

static inline const sg_desc *sg_in(const struct sg_plan *plan, int i) {
    return &plan->op.desc[i];
}
static inline const sg_desc *sg_out(const struct sg_plan *plan, int i) {
    return &plan->op.desc[plan->op.n_in + i];
}
static inline bool sg_flag(const struct sg_plan *plan, uint32_t flag) {
    return (plan->op.attrs.flags & flag) != 0;
}
static inline void *sg_in_at(const sg_call *call, int i) {
    return call->pointers[i];
}
static inline void *sg_out_at(const sg_call *call, int i) {
    return call->pointers[call->plan->op.n_in + i];
}
static inline uint64_t sg_cuda_align(uint64_t bytes) {
    return (bytes + 511) / 512 * 512;
}

/* Runs a plan that another one is made of, within the launch of that one. */
static inline sg_code sg_cuda_run_part(const sg_call *call, const struct sg_plan *part, void *const *pointers,
                                       char *workspace) {
    sg_call inner = *call;
    inner.plan = part;
    inner.pointers = pointers;
    inner.workspace = workspace;
    return part->run(&inner);
}

/* Each kind's prepare sets run, state and workspace_bytes of a plan whose op is already there and sound. */
typedef sg_code (*sg_prepare)(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_matmul(sg_device *device, struct sg_plan *plan, sg_status *status);    /* matmul.c */
sg_code sg_cuda_conv(sg_device *device, struct sg_plan *plan, sg_status *status);      /* conv.c: CONV and backward */
sg_code sg_cuda_attention(sg_device *device, struct sg_plan *plan, sg_status *status); /* attention.c: both */
sg_code sg_cuda_unary(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_binary(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_ternary(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_unary_bwd(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_foreach(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_copy(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_cat(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_pad(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_fill(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_iota(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_cumsum(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_reduce(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_norm_all(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_softmax(sg_device *device, struct sg_plan *plan, sg_status *status);    /* both directions */
sg_code sg_cuda_layer_norm(sg_device *device, struct sg_plan *plan, sg_status *status); /* LAYER_NORM, RMS_NORM */
sg_code sg_cuda_layer_norm_bwd(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_channel_norm(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_channel_norm_bwd(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_maxpool(sg_device *device, struct sg_plan *plan, sg_status *status); /* both directions */
sg_code sg_cuda_resize(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_embedding(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_embedding_bwd(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_dropout(sg_device *device, struct sg_plan *plan, sg_status *status); /* both directions */
sg_code sg_cuda_random(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_adamw(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_amp_unscale(sg_device *device, struct sg_plan *plan, sg_status *status);
sg_code sg_cuda_amp_update(sg_device *device, struct sg_plan *plan, sg_status *status);

/* The plan of an op by its kind; used by the device and by kinds that are made of others (a convolution's bias, an
 * attention's products). */
sg_code sg_cuda_plan_new(sg_device *device, const sg_op *op, struct sg_plan **plan, sg_status *status);
void sg_cuda_plan_free(struct sg_plan *plan);
/* Allocates a zeroed state of n bytes for the plan. */
sg_code sg_cuda_plan_state(struct sg_plan *plan, size_t bytes, sg_status *status);
/* SG_NO: this device cannot run the op. */
sg_code sg_cuda_refuse(const sg_op *op, const char *reason, sg_status *status);
/* SG_OK, or the failure of a CUDA runtime call with its name, what was being done, and what to do about it. Out of memory is
 * SG_NO, everything else SG_MACHINE. */
sg_code sg_cuda_check(cudaError_t error, const char *what, sg_status *status);
/* The same for a kernel that was just queued for this call. */
sg_code sg_cuda_launched(const sg_call *call, cudaError_t error);

/* copy.cu: queues a copy of x's elements to y, of the same shape and dtype, whatever their layouts. */
cudaError_t sg_cuda_move(const sg_desc *y, const sg_desc *x, void *to, const void *from, cudaStream_t stream);

/* What random kernels and Adam's corrections need of the launch. */
sg_cuda_draw sg_cuda_draw_of(const sg_call *call);
/* Makes `device` the calling thread's. Every function of the table begins with it: ranks may be threads. */
sg_code sg_cuda_use(sg_device *device, sg_status *status);
double sg_cuda_now(sg_device *device);
/* Spins until the emulated host has done what it was given. */
void sg_cuda_spend_host(sg_device *device);
/* Blocks of `threads` threads that cover `count`, at most 8 per SM times 4 waves: kernels stride over the rest. */
unsigned sg_cuda_blocks(const sg_device *device, int64_t count, int threads);

/* event.c */
sg_code sg_cuda_clock_open(sg_device *device, sg_status *status);
void sg_cuda_clock_close(sg_device *device);
/* Keeps the distance between events and the anchor of the clock short; the compute stream must be idle. */
sg_code sg_cuda_clock_refresh(sg_device *device, sg_status *status);
sg_code sg_cuda_event_create(sg_device *device, sg_event **event, sg_status *status);
void sg_cuda_event_destroy(sg_device *device, sg_event *event);
sg_code sg_cuda_event_record(sg_device *device, sg_event *event, sg_stream stream, sg_status *status);
sg_code sg_cuda_event_wait(sg_device *device, sg_event *event, sg_stream stream, sg_status *status);
sg_code sg_cuda_event_seconds(sg_device *device, sg_event *event, double *seconds, sg_status *status);

/* stream.c: waiting without hanging behind a lost peer */
sg_code sg_cuda_streams_open(sg_device *device, sg_status *status);
void sg_cuda_streams_close(sg_device *device);
sg_code sg_cuda_stream_wait(sg_device *device, sg_stream stream, sg_status *status);

/* graph.c */
sg_code sg_cuda_graph_begin(sg_device *device, sg_status *status);
sg_code sg_cuda_graph_end(sg_device *device, sg_graph_exec **graph, sg_status *status);
sg_code sg_cuda_graph_launch(sg_device *device, sg_graph_exec *graph, const sg_launch *launch, sg_status *status);
void sg_cuda_graph_destroy(sg_device *device, sg_graph_exec *graph);

/* step.cu: queues the writing of device->step_at. */
sg_code sg_cuda_write_step(sg_device *device, cudaStream_t stream, uint64_t step, sg_status *status);

/* timed.cu: an op's device seconds without the host's part. */
sg_code sg_cuda_launch_timed(sg_device *device, struct sg_plan *plan, sg_stream stream, void *const *pointers,
                             void *workspace, const sg_launch *launch, double *seconds, sg_status *status);
/* Keeps the stream busy for about `microseconds`. */
sg_code sg_cuda_delay(sg_device *device, cudaStream_t stream, double microseconds, sg_status *status);

/* comm.c */
sg_code sg_cuda_comm_create(sg_device *device, const sg_comm_options *options, sg_comm **comm, sg_status *status);
void sg_cuda_comm_destroy(sg_device *device, sg_comm *comm);
sg_code sg_cuda_all_reduce_mean(sg_device *device, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                                sg_status *status);
sg_code sg_cuda_all_gather(sg_device *device, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                           sg_dtype dtype, sg_status *status);
sg_code sg_cuda_reduce_scatter_mean(sg_device *device, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                    sg_dtype dtype, sg_status *status);
void sg_cuda_comm_abort(sg_device *device, sg_comm *comm);
/* SG_OK while all peers answer and the host has not waited longer than the communicator's timeout; else SG_MACHINE with the
 * rank that was lost, after the communicator was aborted. comm may be NULL. */
sg_code sg_cuda_comm_check(sg_comm *comm, double waited_s, sg_status *status);

/* Close the libraries that were opened. NULL is allowed. */
void sg_cuda_blas_close(sg_cuda_blas *blas);
void sg_cuda_dnn_close(sg_cuda_dnn *dnn);
/* Adds ", cuBLAS 13.0.2" ... of the libraries that can be found to text. */
void sg_cuda_library_text(const sg_device *device, char *text, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
