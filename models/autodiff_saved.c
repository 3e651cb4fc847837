/* autodiff_saved.c: what PyTorch's graph keeps of each op's tensors until the backward has passed it (derivatives.yaml names
 * them). The gradient rules may read nothing else that the forward made. */
#include "models/autodiff.h"

enum { OUTPUT_0 = 1, OUTPUT_1 = 2, OUTPUT_2 = 4 };

static sg_saved inputs(uint32_t mask) {
    return (sg_saved){.inputs = mask};
}
static sg_saved outputs(uint32_t mask) {
    return (sg_saved){.outputs = mask};
}
static uint32_t bit(int i, bool kept) {
    return kept ? 1u << i : 0;
}

static bool needs(const sg_graph *g, const sg_tid *in, int i) {
    return g->tensor_state.at[in[i]].requires_grad;
}

/* Each factor is kept for the gradient of the other; an activation inside the op, for its output. */
static sg_saved saved_by_product(const sg_graph *g, const sg_op *op, const sg_tid *in) {
    return (sg_saved){bit(0, needs(g, in, 1)) | bit(1, needs(g, in, 0)), op->attrs.act == SG_FN_NONE ? 0 : OUTPUT_0};
}

/* PyTorch's one call for all gradients of a convolution keeps both operands. */
static sg_saved saved_by_conv(const sg_graph *g, const sg_op *op, const sg_tid *in) {
    sg_saved saved = saved_by_product(g, op, in);
    if (sg_graph_eager(g)) saved.inputs = 3;
    return saved;
}

static sg_saved saved_by_unary(const sg_graph *g, sg_fn fn) {
    switch (fn) {
    case SG_FN_NEG:
    case SG_FN_AFFINE:
    case SG_FN_DIV_SCALAR:
    case SG_FN_NOT:
    case SG_FN_SIGN:
    case SG_FN_FLOOR: return inputs(0);
    case SG_FN_RECIPROCAL: return sg_graph_eager(g) ? outputs(OUTPUT_0) : inputs(1);
    default: return sg_fn_saves_output(fn) ? outputs(OUTPUT_0) : inputs(1);
    }
}

static sg_saved saved_by_binary(const sg_graph *g, sg_fn fn, const sg_tid *in) {
    switch (fn) {
    case SG_FN_ADD:
    case SG_FN_SUB: return inputs(0);
    case SG_FN_MUL: return inputs(bit(0, needs(g, in, 1)) | bit(1, needs(g, in, 0)));
    case SG_FN_DIV: return inputs(bit(0, needs(g, in, 1)) | 2);
    default: return inputs(3);
    }
}

static sg_saved saved_by_op(const sg_graph *g, const sg_op *op, const sg_tid *in) {
    switch ((sg_op_kind)op->kind) {
    case SG_OP_MATMUL: return saved_by_product(g, op, in);
    case SG_OP_CONV:
    case SG_OP_CONV_BWD_DATA: return saved_by_conv(g, op, in);
    case SG_OP_MAXPOOL: return (sg_saved){bit(0, sg_graph_eager(g)), OUTPUT_1};
    case SG_OP_SOFTMAX: return outputs(OUTPUT_0);
    case SG_OP_CHANNEL_NORM:
    case SG_OP_LAYER_NORM: return (sg_saved){3, OUTPUT_1 | OUTPUT_2};
    case SG_OP_RMS_NORM: return (sg_saved){3, OUTPUT_1};
    case SG_OP_ATTENTION: return (sg_saved){7 | bit(3, op->n_in == 4), OUTPUT_0 | OUTPUT_1};
    case SG_OP_UNARY: return saved_by_unary(g, (sg_fn)op->attrs.fn);
    case SG_OP_BINARY: return saved_by_binary(g, (sg_fn)op->attrs.fn, in);
    case SG_OP_TERNARY: return inputs(op->attrs.fn == SG_FN_WHERE ? 1 : op->attrs.fn == SG_FN_MASKED_FILL ? 2 : 7);
    case SG_OP_EMBEDDING: return inputs(2);
    case SG_OP_DROPOUT: return outputs(OUTPUT_1);
    default: return inputs(0);
    }
}

sg_saved sg_node_saved(const sg_graph *g, const sg_node *node) {
    sg_saved saved = inputs(0);
    if (node->rule == SG_RULE_OP) saved = saved_by_op(g, &g->ops.at[node->op], &g->tape_args.at[node->args]);
    if (node->keeps_output) saved.outputs |= OUTPUT_0;
    return saved;
}

void sg_keep_for_backward(sg_graph *g, sg_tid t) {
    if (!sg_graph_has(g, t)) return;
    int32_t node = g->tensor_state.at[t].node;
    if (node >= 0 && (size_t)node < g->tape.count) g->tape.at[node].keeps_output = true;
}

/* The k-th operand of a node (inputs, then outputs), or SG_NO_TENSOR when the node does not keep it. */
static sg_tid kept_operand(const sg_graph *g, const sg_node *node, sg_saved saved, int k) {
    bool input = k < node->n_in;
    int bit_of = input ? k : k - node->n_in;
    if (bit_of >= 32 || !((input ? saved.inputs : saved.outputs) >> bit_of & 1)) return SG_NO_TENSOR;
    return g->tape_args.at[node->args + (uint32_t)k];
}

void sg_keep_saved(sg_graph *g, const sg_node *node, size_t until) {
    sg_saved saved = sg_node_saved(g, node);
    for (int k = 0; (saved.inputs | saved.outputs) && k < node->n_in + node->n_out; k++) {
        sg_tid t = kept_operand(g, node, saved, k);
        if (t < 0) continue;
        int32_t storage = g->tensors.at[sg_newest(g, t)].storage;
        if (g->storages.at[storage].role == SG_ROLE_TEMPORARY) g->storages.at[storage].role = SG_ROLE_SAVED;
        sg_graph_hold(g, storage, until);
    }
}

bool sg_node_keeps(const sg_graph *g, const sg_node *node, int32_t storage) {
    sg_saved saved = sg_node_saved(g, node);
    for (int k = 0; k < node->n_in + node->n_out; k++) {
        sg_tid t = kept_operand(g, node, saved, k);
        if (t >= 0 && g->tensors.at[t].storage == storage) return true;
    }
    return false;
}

/* Marks what `held` depends on, newest node first, and keeps what those nodes saved. */
void sg_keep_graph_of(sg_graph *g, const sg_tid *held, size_t n, size_t until) {
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        g->tensor_state.at[held[i]].wanted = true;
        any = any || g->tensor_state.at[held[i]].node >= 0;
    }
    for (size_t i = g->tape.count; any && i-- > 0;) {
        const sg_node node = g->tape.at[i];
        const sg_tid *in = &g->tape_args.at[node.args], *out = in + node.n_in;
        bool reached = false;
        for (int k = 0; k < node.n_out && !reached; k++) reached = g->tensor_state.at[out[k]].wanted;
        if (!reached) continue;
        for (int k = 0; k < node.n_in; k++) g->tensor_state.at[in[k]].wanted = true;
        if (node.segment < 0) sg_keep_saved(g, &node, until);
    }
    for (size_t i = 0; i < n; i++) g->tensor_state.at[held[i]].wanted = false;
    for (size_t i = 0; any && i < g->tape_args.count; i++) g->tensor_state.at[g->tape_args.at[i]].wanted = false;
}
