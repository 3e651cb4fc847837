/* graph_state.h: what a graph holds while it is being recorded. Private to the files that implement graph.h and ops.h.
 *
 * Tensors are single-assignment: an op makes new tensor ids, an in-place op makes a new id for the same memory. The tape
 * lists what autograd would: one node per differentiable op or view, in the order of recording, which is the order of
 * PyTorch's sequence numbers. */
#ifndef SG_MODELS_GRAPH_STATE_H
#define SG_MODELS_GRAPH_STATE_H

#include "models/arena.h"
#include "models/graph.h"

/* ---- growing lists ------------------------------------------------------------------------------------------- */

#define SG_LIST(type)                                                                                                  \
    struct {                                                                                                           \
        type *at;                                                                                                      \
        size_t count, capacity;                                                                                        \
    }
/* True when `more` further items fit, after growing the list where needed; false makes the graph fail. */
#define SG_ROOM(g, list, more)                                                                                         \
    ((list)->capacity - (list)->count >= (size_t)(more) || sg_list_grow(g, list, sizeof *(list)->at, more))
bool sg_list_grow(sg_graph *g, void *list, size_t item_bytes, size_t more);

/* ---- tables -------------------------------------------------------------------------------------------------- */

/* How the gradient of a node's inputs follows from that of its outputs. */
typedef enum sg_rule {
    SG_RULE_NONE,
    SG_RULE_OP,     /* by the op's kind */
    SG_RULE_REDUCE, /* number[0]: dims were kept */
    SG_RULE_STACK,  /* number[0] = dim */
    SG_RULE_RESHAPE,
    SG_RULE_TRANSPOSE, /* number = the two dims */
    SG_RULE_PERMUTE,   /* number[0] = order, 4 bits a dim */
    SG_RULE_SLICE,     /* number = dim, start */
    SG_RULE_SELECT,    /* number = dim, index */
    SG_RULE_UNSQUEEZE, /* number[0] = dim, as all below */
    SG_RULE_SQUEEZE,
    SG_RULE_EXPAND,
    SG_RULE_SPLIT,
    SG_RULE_UNBIND,
    SG_RULE_COPY_SLICE, /* inputs base, source; number = dim, start */
    SG_RULE_COUNT
} sg_rule;

typedef struct sg_node {
    uint8_t rule;
    bool reached;
    bool keeps_output; /* output 0 is kept for the backward although the rule does not read it */
    int32_t op;        /* unique op, or -1 for a view */
    int32_t module;
    int32_t n_in, n_out;
    uint32_t args;   /* first of its tensors (inputs, outputs) in tape_args */
    uint32_t clock;  /* in-place writes so far: later ones must not touch what the backward reads */
    uint32_t entry;  /* of its op in the program's draft */
    int32_t segment; /* innermost checkpointed segment that holds it, or -1 */
    int64_t number[2];
} sg_node;

/* A part of the forward that keeps nothing for the backward and runs again there (checkpoint.c). Ranges of what it recorded;
 * ends are exclusive. */
typedef struct sg_segment {
    int32_t parent; /* segment around it, or -1 */
    uint32_t first_entry, first_node, end_node;
    sg_tid first_tensor, end_tensor;
    int32_t first_storage, end_storage;
    uint32_t first_draw; /* random ops of the program before it */
    bool done;           /* has run again */
} sg_segment;

typedef struct sg_tensor_state {
    int32_t node;      /* that made it, or -1 */
    int32_t parameter; /* that it is, or -1 */
    int32_t gradient;  /* during backward: what has arrived so far, or -1 */
    int32_t holders;   /* slots (and parameters) that hold it as a gradient */
    bool requires_grad;
    bool wanted; /* during backward: reachable from the loss */
} sg_tensor_state;

/* A shard under construction. */
typedef struct sg_shard_state {
    sg_shard shard;
    const char *name; /* of its first parameter: groups are told apart by it */
    int32_t dtype, unit;
    bool trainable;
    int group, clip_group;
    int64_t count;   /* elements, without padding */
    int32_t pending; /* during backward: parameters whose gradient is still to come */
} sg_shard_state;

typedef struct sg_storage_state {
    bool passing;       /* a gradient that ends with its last use, not at zero-grad */
    int32_t holders;    /* sum over its tensors */
    int32_t last_write; /* newest in-place write in writes, or -1 */
    int32_t program;    /* that was being recorded when it was made: the one that allocates it */
} sg_storage_state;

/* An in-place write of bytes [from, to) of a storage. */
typedef struct sg_write {
    uint64_t from, to;
    uint32_t clock;
    int32_t op;       /* unique op that wrote */
    int32_t previous; /* earlier write of the same storage, or -1 */
} sg_write;

/* `storage` must live until entry `position` (a FREE may stand before it, not earlier). */
typedef struct sg_hold {
    int32_t storage;
    uint32_t position;
} sg_hold;

typedef SG_LIST(sg_hold) sg_hold_list;
typedef SG_LIST(sg_entry) sg_entry_list;

typedef struct sg_draft {
    const char *name;
    sg_entry_list entries;
    sg_hold_list holds;
    sg_hold_list frees; /* gradients released by zero-grad at this position */
    uint32_t drawn;     /* random ops so far */
    bool ends_optimizer_step;
} sg_draft;

typedef struct sg_parameter_state {
    int32_t pending;  /* during backward: contributions that are still to come */
    int32_t cast;     /* autocast copy of this forward, or -1 */
    int32_t producer; /* program that made the gradient, or -1 */
} sg_parameter_state;

typedef struct sg_module_state {
    int32_t first_child, next_sibling; /* -1: none */
    const char *local_name;
} sg_module_state;

typedef struct sg_constant_state {
    sg_tid tensor;
    double value;
} sg_constant_state;

struct sg_graph {
    sg_profile profile;
    int64_t batch, accumulation, ranks;
    bool failed;
    sg_status status;
    sg_arena *arena;
    sg_training *training;

    SG_LIST(sg_op) ops;
    SG_LIST(uint64_t) op_hash; /* of each op */
    int32_t *op_slots;         /* open addressing, -1 = empty */
    size_t op_slot_count;
    SG_LIST(sg_tensor) tensors;
    SG_LIST(sg_tensor_state) tensor_state;
    SG_LIST(sg_storage) storages;
    SG_LIST(sg_storage_state) storage_state;
    SG_LIST(int32_t) args;
    SG_LIST(sg_parameter) parameters;
    SG_LIST(sg_parameter_state) parameter_state;
    SG_LIST(sg_input) inputs;
    SG_LIST(sg_module) modules;
    SG_LIST(sg_module_state) module_state;
    SG_LIST(sg_constant_state) constants;
    SG_LIST(sg_draft) programs;
    SG_LIST(sg_block) blocks;
    SG_LIST(sg_schedule_step) steps; /* of the block under construction */
    SG_LIST(sg_node) tape;
    SG_LIST(int32_t) tape_args;
    SG_LIST(sg_write) writes;
    SG_LIST(sg_tid) forward_holds; /* live until the forward ends */
    SG_LIST(sg_tid) program_holds; /* live until the program ends */
    SG_LIST(sg_shard_state) shards;
    SG_LIST(int32_t) casts;          /* parameters with an autocast copy */
    SG_LIST(sg_desc) scratch;        /* descriptors of the op being recorded */
    SG_LIST(int32_t) grads;          /* gradients of the node being derived: outputs, then inputs */
    SG_LIST(sg_segment) segments;    /* of this forward, outer before inner */
    SG_LIST(int32_t) newest_tensor;  /* during backward, per tensor of the forward: what stands for it; -1: itself */
    SG_LIST(int32_t) newest_storage; /* the same of storages */

    int32_t segment;             /* innermost one that is open, or -1 */
    int32_t open_scatter;        /* shard whose gradient is on its way, or -1 */
    sg_tid scale, scale_tracker; /* of the loss scaler, or SG_NO_TENSOR */
    int32_t module;
    uint8_t pass;
    int no_grad;
    bool in_program, in_block, same_dispatch;
    bool in_backward;
    const sg_node *node;            /* being derived, or NULL */
    int32_t first_backward_storage; /* storages from here on were made in backward */
    uint32_t clock;
    int last_mark; /* of this program, or -1 */
};

/* ---- unique ops (intern.c) ----------------------------------------------------------------------------------- */

/* Index of an op equal to this one, checked and added if there was none; -1 and a failed graph when it is unsound. */
int32_t sg_graph_intern(sg_graph *g, const sg_op *op);

/* ---- recording (record.c) ------------------------------------------------------------------------------------ */

typedef struct sg_record {
    sg_op_kind kind;
    const sg_attrs *attrs;
    int n_in, n_out;
    const sg_tid *in;
    const sg_desc *in_desc;    /* n_in, or NULL: the tensors' own (they differ where an operand is broadcast) */
    const sg_desc *out_desc;   /* n_out: the op's outputs */
    const sg_desc *out_tensor; /* n_out: the tensors made, or NULL: as the op's (a reduction drops its dims) */
    const sg_tid *into;        /* write these tensors instead of making new ones, or NULL */
    sg_rule rule;              /* SG_RULE_NONE: no gradient flows */
    int64_t number[2];
} sg_record;

/* Records one op; out[n_out] gets the output tensors. False when the graph has failed. */
bool sg_graph_record(sg_graph *g, const sg_record *record, sg_tid *out);
/* A view of base's storage; offset in elements from base's first. rule NONE: not differentiable. */
sg_tid sg_graph_view(sg_graph *g, sg_tid base, const sg_desc *desc, int64_t offset, sg_rule rule, int64_t number0,
                     int64_t number1);
/* Several views of base made by one call (chunk, split, unbind): one node. */
void sg_graph_views(sg_graph *g, sg_tid base, int n, const sg_desc *desc, const int64_t *offset, sg_rule rule,
                    int64_t number0, sg_tid *out);
/* Memory that nothing has written yet: costs the host what a view does. */
sg_tid sg_graph_empty(sg_graph *g, const sg_desc *desc);
/* A tape node for what no single op or view stands for; nothing happens unless gradients are on and an input needs one. */
void sg_graph_node(sg_graph *g, sg_rule rule, const sg_tid *in, int n_in, sg_tid out, int64_t number0, int64_t number1);
/* A view that the framework makes for its own books (detach): nothing uses the tensor. */
sg_tid sg_graph_detach(sg_graph *g, sg_tid x);
bool sg_graph_entry(sg_graph *g, sg_entry_kind kind, int32_t index, uint32_t args);
/* Room for n tensor ids in the training's argument list; *first is where they go. */
bool sg_graph_room_for_args(sg_graph *g, size_t n, uint32_t *first);
/* n tensor ids at the end of the training's argument list; *first is the first of them. */
bool sg_graph_args(sg_graph *g, const sg_tid *tensors, size_t n, uint32_t *first);
int32_t sg_graph_storage(sg_graph *g, uint64_t bytes, sg_role role, bool persistent);
sg_tid sg_graph_tensor(sg_graph *g, int32_t storage, uint64_t offset_bytes, const sg_desc *desc);
/* Name of the current module for messages. */
const char *sg_graph_module_name(const sg_graph *g);
/* The program under construction, or NULL (the graph fails then). */
sg_draft *sg_graph_draft(sg_graph *g);
void sg_graph_hold(sg_graph *g, int32_t storage, size_t position);
/* True when x is a tensor of this graph and the graph has not failed. */
bool sg_graph_has(sg_graph *g, sg_tid x);
/* Bytes that a dense tensor of this desc spans; false (the graph fails) when a size is below 1 or the product overflows. */
bool sg_graph_bytes(sg_graph *g, const sg_desc *desc, uint64_t *bytes);
static inline const sg_desc *sg_graph_desc(const sg_graph *g, sg_tid x) {
    return &g->tensors.at[x].desc;
}
static inline sg_dtype sg_graph_dtype(const sg_graph *g, sg_tid x) {
    return (sg_dtype)g->tensors.at[x].desc.dtype;
}
static inline bool sg_graph_eager(const sg_graph *g) {
    return sg_by_call(&g->profile);
}
/* A 0-dim buffer of the root module that programs may write. */
sg_tid sg_graph_scalar(sg_graph *g, const char *name, sg_dtype dtype, double value);
/* A 0-dim constant that lives on the device. */
sg_tid sg_graph_constant(sg_graph *g, sg_dtype dtype, double value);

/* ---- shapes (shape.c) ---------------------------------------------------------------------------------------- */

/* dim counted from the end when negative; -1 and a failed graph when out of range. */
int sg_graph_dim(sg_graph *g, int ndim, int dim, const char *call);
/* PyTorch's broadcast of two shapes into *out (dtype left alone); false when they do not fit. */
bool sg_shape_broadcast(const sg_desc *a, const sg_desc *b, sg_desc *out);
/* x read with the shape of `like`: repeated dims get stride 0. */
sg_desc sg_desc_broadcast_to(const sg_desc *x, const sg_desc *like);
/* Dtype of a result of x and y (torch.promote_types, 0-dim operands only count by kind). */
sg_dtype sg_dtype_promote(const sg_desc *x, const sg_desc *y);
/* Strides of an element-wise result: dense, dims in the order of the operands' strides, as TensorIterator allots them.
 * in_desc have out's shape already. */
void sg_desc_like_operands(sg_desc *out, const sg_desc *in_desc, int n_in);
/* Strides with which x can be viewed with the given sizes, or false: it has to be copied first. */
bool sg_desc_view_as(const sg_desc *x, int ndim, const int64_t *size, sg_desc *out);

/* ---- products (ops_product.c) -------------------------------------------------------------------------------- */

typedef struct sg_product_spec {
    sg_tid a, b, bias, residual;    /* bias, residual: or SG_NO_TENSOR */
    const sg_desc *a_desc, *b_desc; /* how they are read, or NULL: as they are */
    double scale;                   /* of the product; 0: 1 */
    sg_fn act;
} sg_product_spec;
/* One MATMUL. The residual is broadcast to the result. */
sg_tid sg_product(sg_graph *g, const sg_product_spec *product);
/* True when t is a parameter or a view of one. */
bool sg_is_weight(const sg_graph *g, sg_tid t);
/* True when the profile has the activation inside the product; `tracked`: a gradient flows through it. */
bool sg_fuses_activation(const sg_graph *g, sg_fn act, bool tracked);
/* True when gradients are on and one of the tensors needs one. */
bool sg_tracks(const sg_graph *g, const sg_tid *t, int n);
sg_tid sg_activate(sg_graph *g, sg_tid x, sg_fn act); /* NONE: x itself */

/* ---- convolutions (ops_conv.c) --------------------------------------------------------------------------------- */

/* Of a convolution or pooling, (h, w). */
typedef struct sg_window {
    int64_t kernel[2];
    int stride[2], pad[2];
} sg_window;
/* Height and width after a window op. */
bool sg_window_output(sg_graph *g, const sg_desc *x, const sg_window *window, int64_t *out);
/* A sequence [n, c, l] as an image [n, c, 1, l]; other descriptors as they are. */
sg_desc sg_desc_as_image(const sg_desc *x);

/* ---- autocast (autocast.c) ----------------------------------------------------------------------------------- */

/* Operand of a product: cast to the autocast dtype where that is on; a trainable fp32 parameter once per forward. */
sg_tid sg_autocast_down(sg_graph *g, sg_tid x);
/* Operand of what autocast computes in fp32 (norms, softmax, exp, losses). */
sg_tid sg_autocast_up(sg_graph *g, sg_tid x);
/* The casts of this forward are dropped; their storages may go once no backward reads them. */
void sg_autocast_end(sg_graph *g);

/* ---- autodiff (autodiff.c) ----------------------------------------------------------------------------------- */

/* True when the backward of this op reads its output 0 (PyTorch keeps it as a detached view). */
bool sg_op_saves_output(const sg_op *op);

/* The forward's locals die as it returns, before the backward or with the program. */
void sg_forward_end(sg_graph *g);
/* True when the node's backward may read that storage. */
bool sg_node_keeps(const sg_graph *g, const sg_node *node, int32_t storage);

/* ---- checkpointing (checkpoint.c) -------------------------------------------------------------------------------- */

/* Random numbers: what a program draws is told apart by the order of these. */
static inline bool sg_op_draws(sg_op_kind kind) {
    return kind == SG_OP_RANDOM || kind == SG_OP_DROPOUT;
}
/* Begin and end of a backward. */
bool sg_checkpoint_prepare(sg_graph *g);
void sg_checkpoint_clear(sg_graph *g);
/* What stands for a tensor of the forward by now. */
sg_tid sg_newest(const sg_graph *g, sg_tid t);
/* Runs the node's segments again unless that happened or the node's backward reads nothing. */
void sg_checkpoint_restore(sg_graph *g, const sg_node *node);

/* ---- shards (shard.c, shard_gather.c) -------------------------------------------------------------------------- */

/* The prefix that names the parameter's group: 1.., or 0: none does. */
int sg_group_of(const char *name, const char *const *prefix);
/* The gradient of a parameter is complete: with the last one of its shard the whole travels. */
void sg_shard_ready(sg_graph *g, int32_t parameter);
/* Compute waits for the gradient that is on its way. */
void sg_shard_join(sg_graph *g);
/* sqrt(sum over ranks of norm^2), of clip group `group`; norm itself without shards. */
sg_tid sg_shard_total_norm(sg_graph *g, sg_tid norm, int group);
/* After lifetimes: parameters become views of whole shards, gathered and freed around their uses. */
bool sg_shard_place_gathers(sg_graph *g);

/* ---- loss scaler (scaler.c) ----------------------------------------------------------------------------------- */

/* All gradients are freed of the scale in one pass; returns found: not 0 where one was not finite. SG_NO_TENSOR: the profile
 * has no scaler. */
sg_tid sg_scaler_unscale(sg_graph *g);
/* After the optimizer: the scale follows what was found. */
void sg_scaler_update(sg_graph *g, sg_tid found);

/* ---- lifetimes (lifetimes.c) --------------------------------------------------------------------------------- */

/* Puts ALLOC and FREE entries into the drafts: final entries in *out per program (malloc'ed). */
bool sg_graph_place_lifetimes(sg_graph *g);

#endif
