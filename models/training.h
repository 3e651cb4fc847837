/* training.h: a training as data: step programs and the schedule that repeats them.
 *
 * models/ produces it, everything downstream only reads it. One set of tables serves all programs of a training, because
 * weights, optimizer state and batches outlive a program. It can be counted, printed, executed or priced. */
#ifndef SG_MODELS_TRAINING_H
#define SG_MODELS_TRAINING_H

#include "kernels/op.h"
#include "kernels/status.h"

typedef enum sg_role {
    SG_ROLE_WEIGHT,    /* parameters and buffers: live from start to end */
    SG_ROLE_OPTIMIZER, /* exp_avg, exp_avg_sq: born in the first optimizer step, then live */
    SG_ROLE_GRADIENT,  /* parameter gradients: born in backward, freed by zero_grad(set_to_none) */
    SG_ROLE_BATCH,     /* what the loader delivers, and rollout storage */
    SG_ROLE_SAVED,     /* made in forward, read in backward */
    SG_ROLE_TEMPORARY,
    SG_ROLE_COUNT
} sg_role;

typedef struct sg_storage {
    uint64_t bytes;
    uint8_t role;       /* sg_role */
    uint8_t persistent; /* no ALLOC or FREE entry; allocated by the walker: before the first program, optimizer state
                           (SG_ROLE_OPTIMIZER, zeros) when the first optimizer step begins */
} sg_storage;

/* A strided view of a storage. */
typedef struct sg_tensor {
    int32_t storage;
    int64_t offset_bytes;
    sg_desc desc;
} sg_tensor;

typedef struct sg_parameter {
    const char *name;
    int32_t tensor;
    int32_t gradient; /* tensor id, or -1: frozen or never reached by backward */
    int32_t state[2]; /* exp_avg, exp_avg_sq: tensor ids, or -1 */
    int32_t module;
    uint8_t trainable; /* requires_grad */
    uint8_t is_buffer; /* frozen batch norm statistics and the like: not counted as parameters */
    uint8_t init_kind; /* sg_init */
    double init_scale; /* uniform bound, normal sd, or constant */
    /* With shards: the one it lies in (-1: none, a buffer), and its first element there. It is live between gathering and
     * freeing only; its state is the shard's. */
    int32_t shard;
    int64_t shard_offset;
} sg_parameter;

/* Parameters of one unit as one flat vector, padded to a multiple of the ranks; each rank keeps its part. Tensor ids: part
 * and gradient [count / ranks], whole and whole_gradient [count]; gradient, whole_gradient and state are -1 where backward
 * does not reach it. */
typedef struct sg_shard {
    const char *unit; /* the unit's module; "" the root unit */
    int32_t module;
    int32_t part, whole, gradient, whole_gradient;
    int32_t state[2];
} sg_shard;

typedef enum sg_init { SG_INIT_CONSTANT, SG_INIT_UNIFORM, SG_INIT_NORMAL } sg_init;

/* What the loader (or environment) fills before a step. */
typedef struct sg_input {
    const char *name;
    int32_t tensor;
    uint8_t source;   /* sg_input_source */
    double low, high; /* range of synthetic values (integers: inclusive low, exclusive high) */
} sg_input;
typedef enum sg_input_source {
    SG_INPUT_IMAGE,   /* u8 camera frames: cost a decode, travel host -> device each step */
    SG_INPUT_UNIFORM, /* floats, travel each step */
    SG_INPUT_INTEGER, /* token ids, indices, masks: travel each step */
    SG_INPUT_STORAGE  /* lives on the device (rollout storage): filled by programs, initialised once */
} sg_input_source;

/* A module of the policy, for per-module figures; parent -1 at the root ("" name). */
typedef struct sg_module {
    const char *name;
    int32_t parent;
} sg_module;

typedef enum sg_entry_kind {
    SG_ENTRY_OP,         /* index = unique op; args..: tensor ids, inputs then outputs */
    SG_ENTRY_VIEW,       /* host time only; args[0] = new tensor */
    SG_ENTRY_ALLOC,      /* index = storage */
    SG_ENTRY_FREE,       /* index = storage */
    SG_ENTRY_WAIT,       /* blocking read (.item()): host waits for the compute stream; index = tensor read, or -1 */
    SG_ENTRY_COPY,       /* host -> device copy of input `index` on the copy stream, compute waits for it */
    SG_ENTRY_GRAD_READY, /* index = parameter: its gradient is complete (a bucket may leave) */
    SG_ENTRY_SYNC_GRADS, /* compute waits for all buckets; absent with one rank: costs nothing then */
    SG_ENTRY_MARK,       /* index = sg_mark */
    /* Collectives of slot `index` < n_collectives, on the collective stream behind what compute has been given so far;
     * args[0] -> args[1]. Their operands are left alone until the slot is joined. */
    SG_ENTRY_GATHER,  /* part -> whole: parts of all ranks, one after the other */
    SG_ENTRY_SCATTER, /* whole -> part: the mean over ranks of this rank's part */
    SG_ENTRY_REDUCE,  /* in place (args[0] = args[1]): the mean over ranks */
    SG_ENTRY_JOIN     /* compute waits for the slot; args as there */
} sg_entry_kind;

/* Points at which clocks are read. FORWARD..END delimit the parts of update. */
typedef enum sg_mark {
    SG_MARK_PREPROCESS,
    SG_MARK_FORWARD,
    SG_MARK_BACKWARD,
    SG_MARK_CLIP,
    SG_MARK_OPTIMIZER,
    SG_MARK_ZERO_GRAD,
    SG_MARK_END,
    SG_MARK_COUNT
} sg_mark;

typedef enum sg_pass {
    SG_PASS_PREPROCESS,
    SG_PASS_FORWARD,
    SG_PASS_BACKWARD,
    SG_PASS_OPTIMIZER,
    SG_PASS_COUNT
} sg_pass;

enum {
    SG_ENTRY_SAME_DISPATCH = 1u << 0, /* a further kernel of the framework call before it: no host cost of its own */
    SG_ENTRY_DRAWS_AGAIN = 1u << 1    /* a random op of a checkpointed segment that runs again: see draw */
};

typedef struct sg_entry {
    uint8_t kind;  /* sg_entry_kind */
    uint8_t pass;  /* sg_pass */
    uint8_t flags; /* SG_ENTRY_SAME_DISPATCH, SG_ENTRY_DRAWS_AGAIN */
    int32_t index;
    uint32_t args; /* first of the entry's tensor ids in training->args */
    int32_t module;
    uint32_t draw; /* SG_ENTRY_DRAWS_AGAIN: the numbers are those of the program's n-th random op without that flag */
} sg_entry;

typedef struct sg_program {
    const char *name; /* "preprocess", "update", "inference", "returns" ... */
    const sg_entry *entries;
    size_t n_entries;
    bool ends_optimizer_step;
} sg_program;

typedef enum sg_step_kind {
    SG_STEP_PROGRAM,    /* run program `index` */
    SG_STEP_LOADER,     /* wait for the next batch */
    SG_STEP_ENVIRONMENT /* the simulator advances `env_steps` environment steps */
} sg_step_kind;

typedef struct sg_schedule_step {
    uint8_t kind;
    int32_t index;
    int64_t env_steps;
} sg_schedule_step;

/* `repeat` times the steps in order. A training iteration is its blocks in order. */
typedef struct sg_block {
    const char *name; /* "step", "micro-step", "collection", "returns", "learning" */
    int64_t repeat;
    const sg_schedule_step *steps;
    size_t n_steps;
} sg_block;

typedef struct sg_training {
    const char *policy, *framework; /* "act", "pytorch-eager" */
    int64_t batch;                  /* samples per process and micro-step (PPO: per mini-batch) */
    int64_t accumulation;           /* micro-steps per optimizer step */
    int64_t envs, steps_per_env;    /* PPO; 0 elsewhere */
    int64_t optimizer_steps;        /* optimizer steps per iteration: 1, PPO: epochs x mini-batches */
    int64_t cameras, image_height, image_width, frames_per_sample; /* what the loader decodes; 0 without images */
    int32_t loss;       /* tensor id of the scalar loss; value loss for PPO */
    double env_step_us; /* cost of one environment step, microseconds; PPO */
    double clip_norm;   /* <= 0: none */

    const sg_op *ops;
    size_t n_ops;
    const sg_tensor *tensors;
    size_t n_tensors;
    const sg_storage *storages;
    size_t n_storages;
    const int32_t *args;
    size_t n_args;
    const sg_parameter *parameters;
    size_t n_parameters;
    const sg_input *inputs;
    size_t n_inputs;
    const sg_module *modules;
    size_t n_modules;
    const sg_shard *shards; /* none: every rank holds all parameters */
    size_t n_shards;
    int32_t n_collectives;
    int64_t shard_ranks; /* with shards: the ranks it was built for */
    const sg_program *programs;
    size_t n_programs;
    const sg_block *blocks;
    size_t n_blocks;

    struct sg_arena *arena; /* owns all of the above */
} sg_training;

void sg_training_free(sg_training *training);

/* Checks every program: uses lie inside lifetimes, nothing unwritten is read, in-place is safe, every trainable parameter
 * with a gradient becomes ready exactly once per optimizer step, args in range, every op sound. SG_BAD_INPUT with the
 * first violation ("program update, entry 512 (BINARY): reads storage 31 before anything wrote it"). */
sg_code sg_training_verify(const sg_training *training, sg_status *status);

/* ---- counting (models/count.c) ------------------------------------------------------------------------------- */

typedef struct sg_pass_counts {
    int64_t ops;      /* framework calls that run a kernel */
    int64_t launches; /* kernels, by sg_op_cost */
    int64_t views;
    double flops, bytes;
} sg_pass_counts;

typedef struct sg_counts {
    int64_t parameters, trainable, tensors, trainable_tensors,
        with_gradient; /* elements, elements, tensors, tensors, elements */
    uint64_t weights_bytes, gradients_bytes, optimizer_bytes;
    uint64_t saved_bytes; /* unique storages made before and read in backward, weights excluded; whole batch */
    int64_t waits;        /* blocking reads per iteration of program `program` */
    sg_pass_counts pass[SG_PASS_COUNT];
} sg_counts;

/* Counts one program ("update": the main one); figures are for the whole batch: divide by training->batch per sample. */
sg_counts sg_count_program(const sg_training *training, size_t program);
/* The program that contains the optimizer. */
size_t sg_main_program(const sg_training *training);
/* Per module (inclusive of children): parameters, forward and backward FLOPs and bytes of one program. out[n_modules]. */
typedef struct sg_module_counts {
    int64_t parameters, trainable;
    double forward_flops, backward_flops, forward_bytes, backward_bytes;
    int64_t forward_ops, backward_ops;
} sg_module_counts;
void sg_count_modules(const sg_training *training, size_t program, sg_module_counts *out);

/* Hash of the table of unique ops, their order included: measured times by op belong to programs with the same one. */
uint64_t sg_training_ops_hash(const sg_training *training);

#endif
