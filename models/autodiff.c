/* autodiff.c: the backward pass, run as PyTorch's engine runs it: nodes in reverse order of recording, gradients added
 * up at each node's inputs, a parameter's gradient taken over as soon as its last contribution has arrived. */
#include "models/autodiff.h"
#include "models/ops.h"

#include <string.h>

/* ---- shared by the rules --------------------------------------------------------------------------------------- */

bool sg_op_saves_output(const sg_op *op) {
    switch ((sg_op_kind)op->kind) {
    case SG_OP_SOFTMAX:
    case SG_OP_ATTENTION: return true;
    case SG_OP_UNARY: return sg_fn_saves_output((sg_fn)op->attrs.fn) || op->attrs.fn == SG_FN_RECIPROCAL;
    default: return false;
    }
}

sg_tid sg_saved_output(sg_derivation *d) {
    if (sg_graph_eager(d->g)) (void)sg_graph_detach(d->g, d->out[0]);
    return d->out[0];
}

sg_desc sg_desc_like(const sg_desc *x) {
    sg_desc out = *x;
    sg_desc_like_operands(&out, x, 1);
    return out;
}

void sg_no_rule(sg_derivation *d, const char *what) {
    const char *module = d->g->modules.at[d->node.module].name;
    sg_graph_fail(d->g, SG_BAD_INPUT, "%s in %s has no gradient, but the loss depends on a parameter through it", what,
                  *module ? module : "the root module");
}

/* ---- rule of a node --------------------------------------------------------------------------------------------- */

static void derive_op(sg_derivation *d) {
    switch ((sg_op_kind)d->op.kind) {
    case SG_OP_MATMUL: sg_derive_matmul(d); break;
    case SG_OP_CONV: sg_derive_conv(d); break;
    case SG_OP_CONV_BWD_DATA: sg_derive_transposed_conv(d); break;
    case SG_OP_MAXPOOL: sg_derive_max_pool(d); break;
    case SG_OP_PAD: sg_derive_pad(d); break;
    case SG_OP_SOFTMAX: sg_derive_softmax(d); break;
    case SG_OP_LAYER_NORM:
    case SG_OP_RMS_NORM: sg_derive_norm(d); break;
    case SG_OP_CHANNEL_NORM: sg_derive_channel_norm(d); break;
    case SG_OP_ATTENTION: sg_derive_attention(d); break;
    case SG_OP_UNARY: sg_derive_unary(d); break;
    case SG_OP_BINARY: sg_derive_binary(d); break;
    case SG_OP_TERNARY: sg_derive_ternary(d); break;
    case SG_OP_COPY: d->dx[0] = d->dy[0]; break;
    case SG_OP_CAT: sg_derive_join(d); break;
    case SG_OP_EMBEDDING: sg_derive_embedding(d); break;
    case SG_OP_DROPOUT: sg_derive_dropout(d); break;
    default: sg_no_rule(d, sg_op_kind_name((sg_op_kind)d->op.kind)); break;
    }
}

static void derive(sg_derivation *d) {
    switch ((sg_rule)d->node.rule) {
    case SG_RULE_OP: derive_op(d); break;
    case SG_RULE_REDUCE: sg_derive_reduce(d); break;
    case SG_RULE_STACK: sg_derive_join(d); break;
    default: sg_derive_view(d); break;
    }
}

/* The engine's check of what a formula returned: summed over what had been broadcast, cast to the input's dtype. */
static sg_tid fit_to_input(sg_graph *g, sg_tid dx, sg_tid input) {
    if (dx < 0) return dx;
    const sg_desc want = *sg_graph_desc(g, input), have = *sg_graph_desc(g, dx);
    int added = have.ndim - want.ndim;
    uint32_t mask = 0;
    for (int i = 0; i < have.ndim; i++)
        if (i < added || (want.size[i - added] == 1 && have.size[i] != 1)) mask |= 1u << i;
    if (mask) dx = sg_reduce(g, SG_FN_SUM, dx, mask, true);
    if (added > 0) dx = sg_view(g, dx, want.ndim, want.size);
    return sg_to(g, dx, (sg_dtype)want.dtype);
}

/* ---- gradients in flight ----------------------------------------------------------------------------------------- */

static void take(sg_graph *g, sg_tid t) {
    if (t < 0) return;
    g->tensor_state.at[t].holders++;
    g->storage_state.at[g->tensors.at[t].storage].holders++;
}

static void release(sg_graph *g, sg_tid t) {
    if (t < 0) return;
    g->tensor_state.at[t].holders--;
    g->storage_state.at[g->tensors.at[t].storage].holders--;
}

/* Adds in place where nothing else refers to the sum so far, as the engine's input buffers do. */
static sg_tid accumulate(sg_graph *g, sg_tid sum, sg_tid more) {
    const sg_desc *desc = sg_graph_desc(g, sum);
    bool alone = g->storage_state.at[g->tensors.at[sum].storage].holders == 1 && sg_desc_is_dense(desc) &&
                 desc->dtype == sg_graph_desc(g, more)->dtype;
    sg_tid out = alone ? sg_binary_in_place(g, SG_FN_ADD, sum, more, 1) : sg_binary(g, SG_FN_ADD, sum, more, 1);
    release(g, sum);
    release(g, more);
    take(g, out);
    return out;
}

static bool same_layout(const sg_desc *a, const sg_desc *b) {
    if (a->dtype != b->dtype || !sg_desc_same_shape(a, b)) return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->size[i] != 1 && a->stride[i] != b->stride[i]) return false;
    return true;
}

/* The first gradient of a parameter is taken over when nobody else holds it and it lies like the parameter. */
static void take_over(sg_graph *g, sg_parameter *parameter, sg_tid dx) {
    const sg_desc want = *sg_graph_desc(g, parameter->tensor);
    if (g->tensor_state.at[dx].holders > 1 || !same_layout(&want, sg_graph_desc(g, dx))) {
        sg_attrs attrs = {0};
        sg_tid copy;
        sg_emit(g, SG_OP_COPY, &attrs, &dx, 1, &want, &copy, 1);
        take(g, copy);
        release(g, dx);
        dx = copy;
    } else if (sg_graph_eager(g)) {
        sg_tid detached = sg_graph_detach(g, dx);
        take(g, detached);
        release(g, dx);
        dx = detached;
    }
    if (dx < 0) return;
    g->storages.at[g->tensors.at[dx].storage].role = SG_ROLE_GRADIENT;
    parameter->gradient = dx;
}

static void add_to_gradient(sg_graph *g, const sg_parameter *parameter, sg_tid dx) {
    const sg_tid in[2] = {parameter->gradient, dx};
    sg_attrs attrs = {.fn = SG_FN_ADD, .flags = SG_IN_PLACE, .alpha = 1};
    sg_emit_into(g, SG_OP_BINARY, &attrs, in, 2, in, 1);
    release(g, dx);
}

static void finish_parameter(sg_graph *g, int32_t index, bool first, bool last) {
    sg_parameter *parameter = &g->parameters.at[index];
    sg_parameter_state *state = &g->parameter_state.at[index];
    sg_tid dx = g->tensor_state.at[parameter->tensor].gradient;
    g->tensor_state.at[parameter->tensor].gradient = SG_NO_TENSOR;
    if (dx < 0 || g->failed) return;
    if (first && state->producer >= 0) {
        sg_graph_fail(g, SG_BAD_INPUT, "two programs both begin the gradient of %s", parameter->name);
    } else if (!first && parameter->gradient < 0) {
        sg_graph_fail(g, SG_BAD_INPUT, "the gradient of %s is accumulated into before any program made it",
                      parameter->name);
    } else if (first) {
        state->producer = (int32_t)g->programs.count - 1;
        take_over(g, parameter, dx);
    } else {
        add_to_gradient(g, parameter, dx);
    }
    if (last && sg_graph_entry(g, SG_ENTRY_GRAD_READY, index, 0)) sg_shard_ready(g, index);
}

/* dx arrives at `input` (SG_NO_TENSOR: nothing, but the parameter need not wait for it any longer). */
static void deliver(sg_graph *g, sg_tid input, sg_tid dx, bool first, bool last) {
    sg_tid before = g->tensor_state.at[input].gradient;
    if (dx >= 0) g->tensor_state.at[input].gradient = before < 0 ? dx : accumulate(g, before, dx);
    int32_t parameter = g->tensor_state.at[input].parameter;
    if (parameter >= 0 && --g->parameter_state.at[parameter].pending == 0) finish_parameter(g, parameter, first, last);
}

/* ---- the pass ---------------------------------------------------------------------------------------------------- */

/* The gradients that a node consumed and what it saved live until it is done. */
static void hold_operands(sg_graph *g, const sg_derivation *d) {
    const sg_draft *draft = sg_graph_draft(g);
    if (!draft) return;
    size_t now = draft->entries.count;
    for (int i = 0; i < d->node.n_out; i++)
        if (d->dy[i] >= 0) sg_graph_hold(g, g->tensors.at[d->dy[i]].storage, now);
    sg_keep_saved(g, &d->node, now);
}

static bool begin_derivation(sg_graph *g, size_t index, sg_derivation *d) {
    *d = (sg_derivation){.g = g, .node = g->tape.at[index]};
    size_t n_in = (size_t)d->node.n_in, n_out = (size_t)d->node.n_out;
    g->grads.count = 0;
    if (!SG_ROOM(g, &g->grads, 2 * (n_in + n_out))) return false;
    d->recorded = d->in = &g->tape_args.at[d->node.args];
    d->dx = g->grads.at;
    sg_tid *newest = g->grads.at + n_in + n_out;
    for (size_t i = 0; i < n_in + n_out && g->segments.count > 0; i++) newest[i] = sg_newest(g, d->recorded[i]);
    if (g->segments.count > 0) d->in = newest;
    d->out = d->in + n_in;
    sg_tid *dy = g->grads.at + n_in;
    d->dy = dy;
    if (d->node.op >= 0) d->op = g->ops.at[d->node.op];
    for (size_t i = 0; i < n_in; i++) d->dx[i] = SG_NO_TENSOR;
    for (size_t i = 0; i < n_out; i++) {
        sg_tensor_state *state = &g->tensor_state.at[d->recorded[n_in + i]];
        dy[i] = state->gradient;
        state->gradient = SG_NO_TENSOR;
    }
    return true;
}

static bool any_gradient(const sg_derivation *d) {
    for (int i = 0; i < d->node.n_out; i++)
        if (d->dy[i] >= 0) return true;
    return false;
}

/* True when a gradient has arrived at one of the node's outputs. */
static bool is_due(const sg_graph *g, const sg_node *node) {
    const sg_tid *out = &g->tape_args.at[node->args] + node->n_in;
    for (int i = 0; i < node->n_out; i++)
        if (g->tensor_state.at[out[i]].gradient >= 0) return true;
    return false;
}

static void derive_node(sg_graph *g, size_t index, bool first, bool last) {
    sg_derivation d;
    if (g->segments.count > 0 && is_due(g, &g->tape.at[index])) sg_checkpoint_restore(g, &g->tape.at[index]);
    if (g->failed) return;
    if (!begin_derivation(g, index, &d)) return;
    g->module = d.node.module;
    g->node = &d.node;
    if (any_gradient(&d)) derive(&d);
    for (int i = 0; i < d.node.n_in && !g->failed; i++) {
        d.dx[i] = sg_wants(&d, i) ? fit_to_input(g, d.dx[i], d.in[i]) : SG_NO_TENSOR;
        take(g, d.dx[i]);
    }
    hold_operands(g, &d);
    for (int i = 0; i < d.node.n_out; i++) release(g, d.dy[i]);
    for (int i = 0; i < d.node.n_in && !g->failed; i++)
        if (sg_wants(&d, i)) deliver(g, d.recorded[i], d.dx[i], first, last);
    g->node = NULL;
}

/* Marks the nodes that the loss depends on and counts the contributions each parameter will get. */
static void mark_reached(sg_graph *g, sg_tid loss) {
    g->tensor_state.at[loss].wanted = true;
    for (size_t i = g->tape.count; i-- > 0;) {
        sg_node *node = &g->tape.at[i];
        const sg_tid *in = &g->tape_args.at[node->args], *out = in + node->n_in;
        node->reached = false;
        for (int k = 0; k < node->n_out && !node->reached; k++) node->reached = g->tensor_state.at[out[k]].wanted;
        for (int k = 0; k < node->n_in && node->reached; k++) {
            sg_tensor_state *state = &g->tensor_state.at[in[k]];
            if (!state->requires_grad) continue;
            state->wanted = true;
            if (state->parameter >= 0) g->parameter_state.at[state->parameter].pending++;
        }
    }
}

static void count_pending_shards(sg_graph *g) {
    for (size_t i = 0; i < g->parameters.count; i++)
        if (g->parameter_state.at[i].pending > 0 && g->parameters.at[i].shard >= 0)
            g->shards.at[g->parameters.at[i].shard].pending++;
}

static void clear_tape(sg_graph *g) {
    for (size_t i = 0; i < g->tape_args.count; i++) g->tensor_state.at[g->tape_args.at[i]].wanted = false;
    g->tape.count = g->tape_args.count = 0;
}

static bool check_loss(sg_graph *g, sg_tid loss) {
    if (!sg_graph_has(g, loss)) return false;
    if (sg_desc_count(sg_graph_desc(g, loss)) == 1 && g->tensor_state.at[loss].node >= 0) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "the loss must be one element that depends on a trainable parameter");
    return false;
}

void sg_forward_end(sg_graph *g) {
    const sg_draft *draft = sg_graph_draft(g);
    if (!draft) return;
    size_t now = draft->entries.count;
    for (size_t i = 0; i < g->forward_holds.count; i++)
        sg_graph_hold(g, g->tensors.at[g->forward_holds.at[i]].storage, now);
    sg_keep_graph_of(g, g->forward_holds.at, g->forward_holds.count, now);
    sg_keep_graph_of(g, g->program_holds.at, g->program_holds.count, UINT32_MAX);
    g->forward_holds.count = 0;
    sg_autocast_end(g);
}

void sg_backward(sg_graph *g, sg_tid loss, bool first_micro_step, bool last_micro_step) {
    if (!sg_graph_draft(g) || !check_loss(g, loss)) return;
    sg_forward_end(g);
    if (g->training->loss < 0) g->training->loss = loss;
    int32_t module = g->module;
    sg_pass_set(g, SG_PASS_BACKWARD);
    sg_mark_here(g, SG_MARK_BACKWARD);
    g->in_backward = true;
    g->first_backward_storage = (int32_t)g->storages.count;
    g->node = NULL;
    if (!sg_checkpoint_prepare(g)) return;
    const sg_desc desc = *sg_graph_desc(g, loss);
    sg_attrs one = {.alpha = 1};
    sg_tid ones;
    sg_emit(g, SG_OP_FILL, &one, NULL, 0, &desc, &ones, 1);
    if (!g->failed) {
        take(g, ones);
        g->tensor_state.at[loss].gradient = ones;
        mark_reached(g, loss);
        count_pending_shards(g);
    }
    for (size_t i = g->tape.count; i-- > 0 && !g->failed;)
        if (g->tape.at[i].reached) derive_node(g, i, first_micro_step, last_micro_step);
    clear_tape(g);
    sg_checkpoint_clear(g);
    g->in_backward = false;
    g->module = module;
}
