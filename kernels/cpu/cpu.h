/* cpu.h: what the files of the cpu device share. */
#ifndef SG_KERNELS_CPU_CPU_H
#define SG_KERNELS_CPU_CPU_H

#include "kernels/cpu/heap.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/device.h"

#include <oneapi/dnnl/dnnl.h>

typedef struct sg_queue sg_queue; /* queue.h */

struct sg_device {
    const sg_loops *loops;
    sg_heap *heap; /* segments */
    int threads;
    bool bf16_native; /* oneDNN has bf16 primitives on this processor */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    sg_queue *queue;  /* the collective stream's thread; started with the first communicator */
    double timeout_s; /* of waits for it */
};

/* One execution of a plan. */
typedef struct sg_call {
    sg_device *device;
    const struct sg_plan *plan;
    void *const *pointers; /* inputs, then outputs */
    char *workspace;
    const sg_launch *launch;
    sg_status *status;
} sg_call;

struct sg_plan {
    sg_op op; /* with descriptors of its own */
    sg_code (*run)(const sg_call *call);
    void (*free_state)(void *state); /* NULL: state is plain memory or NULL */
    void *state;                     /* what `run` needs, by kind */
    uint64_t workspace_bytes;
};

static inline const sg_desc *sg_in(const sg_plan *plan, int i) {
    return &plan->op.desc[i];
}
static inline const sg_desc *sg_out(const sg_plan *plan, int i) {
    return &plan->op.desc[plan->op.n_in + i];
}
static inline bool sg_flag(const sg_plan *plan, uint32_t flag) {
    return (plan->op.attrs.flags & flag) != 0;
}
static inline void *sg_in_at(const sg_call *call, int i) {
    return call->pointers[i];
}
static inline void *sg_out_at(const sg_call *call, int i) {
    return call->pointers[call->plan->op.n_in + i];
}

/* Each kind's prepare sets run, state and workspace_bytes of a plan whose op is already there and sound. */
typedef sg_code (*sg_prepare)(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_matmul(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_conv(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_conv_bwd_data(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_conv_bwd_weights(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_attention(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_attention_bwd(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_elementwise(sg_device *device, sg_plan *plan,
                               sg_status *status); /* UNARY(_BWD), BINARY, TERNARY, FOREACH */
sg_code sg_prepare_copy(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_cat(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_pad(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_fill(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_iota(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_cumsum(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_reduce(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_norm_all(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_rows(sg_device *device, sg_plan *plan,
                        sg_status *status); /* SOFTMAX, LAYER_NORM, RMS_NORM and backward */
sg_code sg_prepare_channel_norm(sg_device *device, sg_plan *plan, sg_status *status); /* and backward */
sg_code sg_prepare_maxpool(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_maxpool_bwd(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_resize(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_embedding(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_embedding_bwd(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_dropout(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_random(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_adamw(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_amp_unscale(sg_device *device, sg_plan *plan, sg_status *status);
sg_code sg_prepare_amp_update(sg_device *device, sg_plan *plan, sg_status *status);

/* The plan of an op by its kind; used by the device and by kinds that are made of others. */
sg_code sg_plan_new(sg_device *device, const sg_op *op, sg_plan **plan, sg_status *status);
void sg_plan_free(sg_plan *plan);
/* Prepares the op with every bf16 and fp16 tensor as fp32 (for ATTENTION also loose rows as contiguous ones); launches convert
 * in the workspace. */
sg_code sg_prepare_widened(sg_device *device, sg_plan *plan, sg_status *status);
/* True when an operand is bf16 or fp16. */
bool sg_has_narrow_floats(const sg_op *op);
/* True when the rows of an attention's matrix are not contiguous, or overlap. */
bool sg_has_loose_rows(const sg_op *op);
/* True when oneDNN cannot take the operands as they are stored: fp16, and bf16 without AVX-512. */
bool sg_must_widen(const sg_device *device, const sg_op *op);

/* Allocates a zeroed state of n bytes for the plan. */
sg_code sg_plan_state(sg_plan *plan, size_t bytes, sg_status *status);
/* SG_NO: this device cannot run the op. */
sg_code sg_refuse(const sg_op *op, const char *reason, sg_status *status);
/* Workspace offsets are multiples of this. */
enum { SG_ALIGN = 64 };
static inline uint64_t sg_align(uint64_t bytes) {
    return (bytes + SG_ALIGN - 1) / SG_ALIGN * SG_ALIGN;
}

#endif
