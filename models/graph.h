/* graph.h: records what a framework would do, primitive op by primitive op, and turns the record into a training.
 *
 * Life: sg_graph_new -> parameters and inputs -> for each program: sg_program_begin, emit ops (models/ops.h),
 * sg_backward, sg_optimizer_step, sg_program_end -> blocks -> sg_graph_finish. Lifetimes (ALLOC and FREE entries) are
 * placed by sg_graph_finish; nothing else is added, removed or fused after an op was emitted.
 *
 * Errors are sticky: the first failure (memory, overflow of a size, unsound op) is kept with its text, later calls do
 * nothing and return SG_NO_TENSOR, and sg_graph_finish reports it. Families therefore need no checks of their own. */
#ifndef SG_MODELS_GRAPH_H
#define SG_MODELS_GRAPH_H

#include "models/policy.h"
#include "models/training.h"

typedef int32_t sg_tid; /* tensor id */
enum { SG_NO_TENSOR = -1 };

/* What lowering needs to know of the framework. */
typedef struct sg_profile {
    sg_framework framework;
    sg_device_class device_class;
    bool channels_last;     /* images in NHWC */
    bool fused_norms;       /* RMSNorm and frozen batch norm as one op / folded into the convolution */
    bool fused_activation;  /* bias, activation and residual inside MATMUL and CONV */
    bool foreach_optimizer; /* FOREACH lists; false: one tensor after another */
    bool fused_optimizer;   /* ADAMW */
    bool int64_pool_index;
    bool unused_results; /* results that nobody reads are computed all the same */
    bool reads_losses;   /* the forward reads its losses for the log, one by one (.item()) */
    /* Keep for the backward what PyTorch 1.13 keeps and 2.15 does not: the square in a hand-written RMS norm beside its
     * input, what a result that nobody reads was made from while a local names it, a copy of fused attention's output. The
     * sizing sheets and the memory that SmolVLA's training logs show (19.9 to 20.6 GiB at batch 64) have these. */
    bool keeps_more;
    bool composed_silu; /* silu's backward is seven calls, as the dispatcher shows it, not one kernel */
    bool autocast;      /* fp16/bf16 autocast over fp32 weights */
    sg_dtype autocast_dtype;
    bool sharded;                /* parameters, gradients and optimizer state over the ranks (models/shard.c) */
    bool loss_scaler;            /* fp16 autocast: the loss is scaled, gradients are unscaled (models/scaler.c) */
    sg_dtype float_dtype;        /* fp32, or what a policy that is low precision throughout has in its place */
    sg_compute compute_f32;      /* how fp32 matrix products are formed: F32, TF32 */
    sg_compute compute_conv_f32; /* how fp32 convolutions are formed */
} sg_profile;
/* Calls are lowered one by one, as eager mode runs them. What a framework's compiler or a captured graph makes of the same
 * calls is a matter of its numbers (configs/frameworks/), but for results that nobody reads, which a compiler leaves out. */
static inline bool sg_by_call(const sg_profile *profile) {
    return profile->framework != SG_FRAMEWORK_NATIVE;
}
sg_profile sg_profile_make(sg_framework framework, sg_device_class device_class);
/* How a matrix product or convolution of operands of this dtype is formed. */
sg_compute sg_compute_of(const sg_profile *profile, sg_dtype dtype, bool convolution);

typedef struct sg_graph sg_graph;

sg_graph *sg_graph_new(const sg_profile *profile, int64_t batch, int64_t accumulation, int64_t ranks,
                       sg_status *status);
void sg_graph_free(sg_graph *g);
const sg_profile *sg_graph_profile(const sg_graph *g);
/* The dtype of what the framework calls float: weights, inputs, noise. sg_param and sg_input_tensor take fp32 to mean it. */
sg_dtype sg_float(const sg_graph *g);
/* The training under construction, for fields that a family sets (policy, cameras, loss, envs ...). */
sg_training *sg_graph_training(sg_graph *g);
/* Verifies; on success the training owns all memory and the graph is freed; on failure the graph is freed too. */
sg_code sg_graph_finish(sg_graph *g, sg_training **training, sg_status *status);
/* Makes the graph fail with this text unless it already has. */
void sg_graph_fail(sg_graph *g, sg_code code, const char *format, ...) SG_PRINTF(3, 4);
bool sg_graph_failed(const sg_graph *g);
/* Copies text into the graph's arena. */
const char *sg_graph_text(sg_graph *g, const char *format, ...) SG_PRINTF(2, 3);

/* ---- modules ------------------------------------------------------------------------------------------------- */
/* Names nest with dots as in PyTorch ("model.backbone.layer1.0"); ops and parameters belong to the innermost. */
void sg_module_begin(sg_graph *g, const char *format, ...) SG_PRINTF(2, 3);
void sg_module_end(sg_graph *g);

/* ---- parameters and inputs ----------------------------------------------------------------------------------- */
typedef struct sg_param_spec {
    sg_dtype dtype;
    bool frozen; /* requires_grad = False */
    bool buffer; /* not a parameter at all */
    bool channels_last;
    sg_init init;
    double scale;
} sg_param_spec;
/* Registered in call order (DDP's bucket order is its reverse). name is local to the current module. */
sg_tid sg_param(sg_graph *g, const char *name, int ndim, const int64_t *size, sg_param_spec spec);
/* An input of the step: host -> device copy entries are emitted by sg_copy_inputs. */
sg_tid sg_input_tensor(sg_graph *g, const char *name, sg_input_source source, sg_desc desc, double low, double high);
/* A persistent device tensor with role BATCH that programs write and read (a preprocessed batch, rollout storage). */
sg_tid sg_state_tensor(sg_graph *g, const char *name, sg_desc desc);

/* ---- programs ------------------------------------------------------------------------------------------------ */
int32_t sg_program_begin(sg_graph *g, const char *name); /* returns its index */
void sg_program_end(sg_graph *g);
void sg_pass_set(sg_graph *g, sg_pass pass);
void sg_mark_here(sg_graph *g, sg_mark mark);
void sg_copy_inputs(sg_graph *g);         /* COPY entries for all inputs that travel */
void sg_wait(sg_graph *g, sg_tid tensor); /* blocking read of a scalar */
void sg_no_grad_begin(sg_graph *g);       /* nestable */
void sg_no_grad_end(sg_graph *g);
/* Keeps a tensor's storage, and what its graph saved for a backward, alive until the end of the forward (a Python local
 * that outlives its last use). */
void sg_hold_forward(sg_graph *g, sg_tid tensor);
/* Keeps them until the end of the program. */
void sg_hold_program(sg_graph *g, sg_tid tensor);

/* Every trainable parameter has a gradient from the start (zeros), which no step drops; backward then adds to it:
 * `first_micro_step` is false. Behind the parameters, before the first program. Not with sharding. */
void sg_gradients_persist(sg_graph *g);
/* Behind the backward of a step that has no optimizer: parameters that it did not reach get zeros added, with ranks the
 * gradients are exchanged. Ends the step. */
void sg_gradients_done(sg_graph *g);

/* Gradient checkpointing: what is recorded between the two keeps nothing for the backward and runs again there, with the same
 * random numbers. Nests. A segment may write only what it made. */
void sg_checkpoint_begin(sg_graph *g);
void sg_checkpoint_end(sg_graph *g);
/* The same where `wraps`, else nothing. */
void sg_checkpoint_begin_if(sg_graph *g, bool wraps);
void sg_checkpoint_end_if(sg_graph *g, bool wraps);

/* Backward of scalar `loss` (starts with a ones-like fill), parameters' gradients become ready as they are complete.
 * `first_micro_step` false: gradients exist already and are accumulated into. `last_micro_step` false: no GRAD_READY. */
void sg_backward(sg_graph *g, sg_tid loss, bool first_micro_step, bool last_micro_step);
/* Where the profile shards and there are ranks: parameters are put into shards, one per unit, dtype and parameter group of
 * `spec`. Before the first backward. */
typedef struct sg_optimizer_spec sg_optimizer_spec;
void sg_shard_parameters(sg_graph *g, const sg_optimizer_spec *spec);
/* The loss as it is differentiated: times the scale where the profile has a loss scaler, else itself. */
sg_tid sg_scaled_loss(sg_graph *g, sg_tid loss);
/* The graph keeps t, whose maker need not keep it, until the backward has passed that maker. */
void sg_keep_for_backward(sg_graph *g, sg_tid t);

struct sg_optimizer_spec {
    bool sgd;                                              /* SGD without momentum; false: Adam */
    bool decoupled_weight_decay;                           /* AdamW; false: Adam, decay is added to the gradient */
    double lr, beta1, beta2, eps, weight_decay, clip_norm; /* clip_norm <= 0: none */
    /* Parameter groups: names with this prefix form a group of their own (lists are built per group and dtype); NULL ends. */
    const char *group_prefix[4];
    /* Clipping groups by prefix (PPO clips actor and critic apart); all NULL: one group over everything. */
    const char *clip_prefix[4];
};
/* SYNC_GRADS, unscaling (a loss scaler), clip, optimizer, zero-grad as the profile does them. Where the framework has one clipping group (LeRobot), its
 * norm is read at the end (a blocking read); with groups of their own (rsl_rl) no norm is read. */
void sg_optimizer_step(sg_graph *g, const sg_optimizer_spec *spec);

/* ---- schedule ------------------------------------------------------------------------------------------------ */
void sg_block_begin(sg_graph *g, const char *name, int64_t repeat);
void sg_block_program(sg_graph *g, int32_t program);
void sg_block_loader(sg_graph *g);
void sg_block_environment(sg_graph *g, int64_t env_steps);
void sg_block_end(sg_graph *g);

/* ---- raw emission (models/ops.c and models/autodiff.c use these) -------------------------------------------------- */
const sg_desc *sg_desc_of(const sg_graph *g, sg_tid t);
bool sg_requires_grad(const sg_graph *g, sg_tid t);
/* Emits one op. New storages for outputs with the given descriptors; with SG_IN_PLACE output 0 aliases input 0.
 * Outputs require grad when the kind is differentiable, gradients are on and an input requires grad. */
void sg_emit(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, const sg_tid *in, int n_in, const sg_desc *out_desc,
             sg_tid *out, int n_out);
/* The same, but into existing tensors (state tensors, slices of one). Not differentiable. */
void sg_emit_into(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, const sg_tid *in, int n_in, const sg_tid *out,
                  int n_out);
/* The next op is a further kernel of the same framework call. */
void sg_same_dispatch(sg_graph *g);

#endif
