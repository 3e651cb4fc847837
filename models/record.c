/* record.c: entries, tensors and the tape of a graph under construction. */
#include "models/graph_state.h"

#include <string.h>

const char *sg_graph_module_name(const sg_graph *g) {
    const char *name = g->modules.at[g->module].name;
    return *name ? name : "the root module";
}

/* ---- storages and tensors ------------------------------------------------------------------------------------ */

bool sg_graph_has(sg_graph *g, sg_tid x) {
    if (g->failed) return false;
    if (x >= 0 && (size_t)x < g->tensors.count) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "%s: a layer was given no tensor (id %d)", sg_graph_module_name(g), (int)x);
    return false;
}

bool sg_graph_bytes(sg_graph *g, const sg_desc *desc, uint64_t *bytes) {
    int64_t count = 1;
    bool sound = true;
    for (int d = 0; d < desc->ndim && sound; d++)
        sound = desc->size[d] >= 1 && !__builtin_mul_overflow(count, desc->size[d], &count);
    *bytes = sound ? sg_desc_span_bytes(desc) : 0;
    if (sound && count <= INT64_MAX / 16 && *bytes <= INT64_MAX / 2) return true;
    sg_graph_fail(g, SG_BAD_INPUT,
                  "%s: a tensor has an empty size or more elements than fit in memory: use a smaller batch or size",
                  sg_graph_module_name(g));
    return false;
}

int32_t sg_graph_storage(sg_graph *g, uint64_t bytes, sg_role role, bool persistent) {
    if (g->failed || !SG_ROOM(g, &g->storages, 1) || !SG_ROOM(g, &g->storage_state, 1)) return -1;
    if (g->storages.count >= INT32_MAX) {
        sg_graph_fail(g, SG_BAD_INPUT, "more than 2^31 tensors");
        return -1;
    }
    g->storages.at[g->storages.count] = (sg_storage){.bytes = bytes, .role = (uint8_t)role, .persistent = persistent};
    g->storage_state.at[g->storage_state.count++] =
        (sg_storage_state){.last_write = -1, .program = (int32_t)g->programs.count - 1};
    return (int32_t)g->storages.count++;
}

sg_tid sg_graph_tensor(sg_graph *g, int32_t storage, uint64_t offset_bytes, const sg_desc *desc) {
    if (g->failed || storage < 0 || !SG_ROOM(g, &g->tensors, 1) || !SG_ROOM(g, &g->tensor_state, 1))
        return SG_NO_TENSOR;
    if (g->tensors.count >= INT32_MAX) {
        sg_graph_fail(g, SG_BAD_INPUT, "more than 2^31 tensors");
        return SG_NO_TENSOR;
    }
    g->tensors.at[g->tensors.count] = (sg_tensor){storage, (int64_t)offset_bytes, *desc};
    g->tensor_state.at[g->tensor_state.count++] = (sg_tensor_state){.node = -1, .parameter = -1, .gradient = -1};
    return (sg_tid)g->tensors.count++;
}

static sg_tid new_output(sg_graph *g, const sg_desc *desc) {
    uint64_t bytes;
    if (!sg_graph_bytes(g, desc, &bytes)) return SG_NO_TENSOR;
    return sg_graph_tensor(g, sg_graph_storage(g, bytes, SG_ROLE_TEMPORARY, false), 0, desc);
}

/* ---- entries ------------------------------------------------------------------------------------------------- */

sg_draft *sg_graph_draft(sg_graph *g) {
    if (g->failed) return NULL;
    if (g->in_program) return &g->programs.at[g->programs.count - 1];
    sg_graph_fail(g, SG_BAD_INPUT, "%s: an operation was recorded outside of a program", sg_graph_module_name(g));
    return NULL;
}

bool sg_graph_entry(sg_graph *g, sg_entry_kind kind, int32_t index, uint32_t args) {
    sg_draft *draft = sg_graph_draft(g);
    if (!draft || !SG_ROOM(g, &draft->entries, 1)) return false;
    sg_entry entry = {.kind = (uint8_t)kind, .pass = g->pass, .index = index, .args = args, .module = g->module};
    if (g->same_dispatch && (kind == SG_ENTRY_OP || kind == SG_ENTRY_VIEW)) {
        entry.flags = SG_ENTRY_SAME_DISPATCH;
        g->same_dispatch = false;
    }
    draft->entries.at[draft->entries.count++] = entry;
    return true;
}

void sg_same_dispatch(sg_graph *g) {
    g->same_dispatch = true;
}

bool sg_graph_room_for_args(sg_graph *g, size_t n, uint32_t *first) {
    if (!SG_ROOM(g, &g->args, n)) return false;
    if (g->args.count + n > UINT32_MAX) {
        sg_graph_fail(g, SG_BAD_INPUT, "the program has more than 2^32 operands");
        return false;
    }
    *first = (uint32_t)g->args.count;
    return true;
}

bool sg_graph_args(sg_graph *g, const sg_tid *tensors, size_t n, uint32_t *first) {
    if (!sg_graph_room_for_args(g, n, first)) return false;
    memcpy(&g->args.at[g->args.count], tensors, n * sizeof *tensors);
    g->args.count += n;
    return true;
}

void sg_graph_hold(sg_graph *g, int32_t storage, size_t position) {
    sg_draft *draft = sg_graph_draft(g);
    if (!draft || storage < 0 || !SG_ROOM(g, &draft->holds, 1)) return;
    draft->holds.at[draft->holds.count++] = (sg_hold){storage, (uint32_t)position};
}

/* ---- in-place writes ----------------------------------------------------------------------------------------- */

static void tensor_range(const sg_graph *g, sg_tid t, uint64_t *from, uint64_t *to) {
    const sg_tensor *x = &g->tensors.at[t];
    *from = (uint64_t)x->offset_bytes;
    *to = *from + sg_desc_span_bytes(&x->desc);
}

static bool note_write(sg_graph *g, sg_tid t, int32_t op) {
    if (!SG_ROOM(g, &g->writes, 1)) return false;
    sg_storage_state *storage = &g->storage_state.at[g->tensors.at[t].storage];
    sg_write write = {.clock = ++g->clock, .op = op, .previous = storage->last_write};
    tensor_range(g, t, &write.from, &write.to);
    storage->last_write = (int32_t)g->writes.count;
    g->writes.at[g->writes.count++] = write;
    return true;
}

static bool is_constant(const sg_graph *g, int32_t storage) {
    for (size_t i = 0; i < g->constants.count; i++)
        if (g->tensors.at[g->constants.at[i].tensor].storage == storage) return true;
    return false;
}

/* A rule may read of the forward what its node keeps, and only if nothing overwrote it since the node was recorded. */
static bool check_saved(sg_graph *g, sg_tid t, sg_op_kind reader) {
    int32_t storage = g->tensors.at[t].storage;
    if (!g->node || storage >= g->first_backward_storage || g->storages.at[storage].role == SG_ROLE_GRADIENT ||
        is_constant(g, storage))
        return true;
    if (!sg_node_keeps(g, g->node, storage)) {
        sg_graph_fail(g, SG_BAD_INPUT, "%s: the backward (%s) reads a tensor that the forward does not keep",
                      sg_graph_module_name(g), sg_op_kind_name(reader));
        return false;
    }
    uint64_t from, to;
    tensor_range(g, t, &from, &to);
    for (int32_t i = g->storage_state.at[storage].last_write; i >= 0; i = g->writes.at[i].previous) {
        const sg_write *write = &g->writes.at[i];
        if (write->clock <= g->node->clock) break;
        if (write->to <= from || write->from >= to) continue;
        sg_graph_fail(g, SG_BAD_INPUT,
                      "%s: %s wrote in place over a tensor whose old value the backward (%s) needs: do not do that "
                      "operation in place",
                      sg_graph_module_name(g), sg_op_kind_name((sg_op_kind)g->ops.at[write->op].kind),
                      sg_op_kind_name(reader));
        return false;
    }
    return true;
}

/* ---- tape ---------------------------------------------------------------------------------------------------- */

static bool any_requires_grad(const sg_graph *g, const sg_tid *in, int n_in) {
    for (int i = 0; i < n_in; i++)
        if (g->tensor_state.at[in[i]].requires_grad) return true;
    return false;
}

static bool add_node(sg_graph *g, sg_node node, const sg_tid *in, const sg_tid *out) {
    size_t n = (size_t)node.n_in + (size_t)node.n_out;
    if (!SG_ROOM(g, &g->tape, 1) || !SG_ROOM(g, &g->tape_args, n)) return false;
    node.args = (uint32_t)g->tape_args.count;
    node.module = g->module;
    node.clock = g->clock;
    node.segment = g->segment;
    node.entry = (uint32_t)g->programs.at[g->programs.count - 1].entries.count - 1;
    if (node.n_in) memcpy(&g->tape_args.at[g->tape_args.count], in, (size_t)node.n_in * sizeof *in);
    memcpy(&g->tape_args.at[g->tape_args.count + (size_t)node.n_in], out, (size_t)node.n_out * sizeof *out);
    g->tape_args.count += n;
    g->tape.at[g->tape.count++] = node;
    return true;
}

/* Only output 0 of an op carries a gradient (masks, indices and statistics do not); a call with many views, all. */
static void attach_outputs(sg_graph *g, const sg_tid *out, int n_out) {
    for (int i = 0; i < n_out; i++) {
        if (!sg_dtype_is_float(sg_graph_dtype(g, out[i]))) continue;
        g->tensor_state.at[out[i]].node = (int32_t)g->tape.count - 1;
        g->tensor_state.at[out[i]].requires_grad = true;
    }
}

static bool records_gradient(const sg_graph *g, sg_rule rule, const sg_tid *in, int n_in) {
    return rule != SG_RULE_NONE && g->no_grad == 0 && !g->in_backward && any_requires_grad(g, in, n_in);
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

static bool gather_descs(sg_graph *g, const sg_record *r) {
    g->scratch.count = 0;
    size_t n_in = (size_t)r->n_in, n_out = (size_t)r->n_out;
    if (!SG_ROOM(g, &g->scratch, n_in + n_out)) return false;
    for (int i = 0; i < r->n_in; i++) g->scratch.at[i] = r->in_desc ? r->in_desc[i] : *sg_graph_desc(g, r->in[i]);
    for (int i = 0; i < r->n_out && (r->out_desc || r->into); i++)
        g->scratch.at[n_in + (size_t)i] = r->out_desc ? r->out_desc[i] : *sg_graph_desc(g, r->into[i]);
    return true;
}

/* Sizes are checked before the op is interned, so that an overflow is reported as such and not as a shape fault. */
static bool check_sizes(sg_graph *g, const sg_record *r) {
    uint64_t bytes;
    for (int i = 0; i < r->n_out; i++)
        if (!sg_graph_bytes(g, &g->scratch.at[r->n_in + i], &bytes)) return false;
    return true;
}

static bool make_outputs(sg_graph *g, const sg_record *r, int32_t op, const sg_tid *in, sg_tid *out) {
    bool in_place = (r->attrs->flags & SG_IN_PLACE) != 0;
    for (int i = 0; i < r->n_out; i++) {
        bool over_input = in_place && i == 0 && !r->into;
        if (r->into) {
            out[i] = r->into[i];
        } else if (over_input) {
            const sg_tensor base = g->tensors.at[in[0]];
            out[i] = sg_graph_tensor(g, base.storage, (uint64_t)base.offset_bytes, &base.desc);
        } else {
            out[i] = new_output(g, r->out_tensor ? &r->out_tensor[i] : &r->out_desc[i]);
        }
        if (out[i] < 0 || ((r->into || over_input) && !note_write(g, out[i], op))) return false;
    }
    return true;
}

static bool sound_tensors(sg_graph *g, const sg_tid *t, int n) {
    for (int i = 0; i < n; i++)
        if (!sg_graph_has(g, t[i])) return false;
    return true;
}

static bool check_reads(sg_graph *g, const sg_record *r) {
    for (int i = 0; i < r->n_in && g->in_backward; i++)
        if (!check_saved(g, r->in[i], r->kind)) return false;
    return true;
}

/* The operands' place in the training's list is filled first: `out` of the caller may be its `in`. */
static bool record(sg_graph *g, const sg_record *r, uint32_t *args) {
    if (!sg_graph_draft(g) || !sound_tensors(g, r->in, r->n_in)) return false;
    if (r->into && !sound_tensors(g, r->into, r->n_out)) return false;
    if (!gather_descs(g, r) || !check_sizes(g, r)) return false;
    sg_op op = {.kind = r->kind, .n_in = r->n_in, .n_out = r->n_out, .attrs = *r->attrs, .desc = g->scratch.at};
    int32_t index = sg_graph_intern(g, &op);
    size_t n_in = (size_t)r->n_in, n_out = (size_t)r->n_out;
    if (index < 0 || !check_reads(g, r) || !sg_graph_room_for_args(g, n_in + n_out, args)) return false;
    sg_tid *in = &g->args.at[*args], *out = in + n_in;
    if (n_in) memcpy(in, r->in, n_in * sizeof *in);
    bool tracked = records_gradient(g, r->rule, in, r->n_in);
    if (!make_outputs(g, r, index, in, out)) return false;
    g->args.count += n_in + n_out;
    if (!sg_graph_entry(g, SG_ENTRY_OP, index, *args)) return false;
    if (sg_op_draws(r->kind)) sg_graph_draft(g)->drawn++;
    if (!tracked) return true;
    sg_node node = {.rule = (uint8_t)r->rule,
                    .op = index,
                    .n_in = r->n_in,
                    .n_out = r->n_out,
                    .number = {r->number[0], r->number[1]}};
    if (!add_node(g, node, in, out)) return false;
    attach_outputs(g, out, 1);
    if (sg_graph_eager(g) && sg_op_saves_output(&g->ops.at[index])) (void)sg_graph_detach(g, out[0]);
    return !g->failed;
}

bool sg_graph_record(sg_graph *g, const sg_record *r, sg_tid *out) {
    uint32_t args = 0;
    bool done = record(g, r, &args);
    for (int i = 0; i < r->n_out; i++) out[i] = done ? g->args.at[args + (uint32_t)(r->n_in + i)] : SG_NO_TENSOR;
    return done;
}

/* ---- views --------------------------------------------------------------------------------------------------- */

static sg_tid view_entry(sg_graph *g, sg_tid base, const sg_desc *desc, int64_t offset) {
    const sg_tensor from = g->tensors.at[base];
    uint64_t start = (uint64_t)from.offset_bytes + (uint64_t)offset * sg_dtype_bytes((sg_dtype)desc->dtype);
    if (start + sg_desc_span_bytes(desc) > g->storages.at[from.storage].bytes) {
        sg_graph_fail(g, SG_BAD_INPUT, "%s: a view reaches past the end of its tensor", sg_graph_module_name(g));
        return SG_NO_TENSOR;
    }
    uint32_t args;
    sg_tid view = sg_graph_tensor(g, from.storage, start, desc);
    if (view < 0 || !sg_graph_room_for_args(g, 1, &args)) return SG_NO_TENSOR;
    g->args.at[g->args.count++] = view;
    return sg_graph_entry(g, SG_ENTRY_VIEW, -1, args) ? view : SG_NO_TENSOR;
}

void sg_graph_views(sg_graph *g, sg_tid base, int n, const sg_desc *desc, const int64_t *offset, sg_rule rule,
                    int64_t number0, sg_tid *out) {
    for (int i = 0; i < n; i++) out[i] = SG_NO_TENSOR;
    if (!sg_graph_has(g, base)) return;
    for (int i = 0; i < n && !g->failed; i++) {
        if (i > 0) sg_same_dispatch(g);
        out[i] = view_entry(g, base, &desc[i], offset[i]);
    }
    if (g->failed || !records_gradient(g, rule, &base, 1)) return;
    sg_node node = {.rule = (uint8_t)rule, .op = -1, .n_in = 1, .n_out = n, .number = {number0, 0}};
    if (add_node(g, node, &base, out)) attach_outputs(g, out, n);
}

sg_tid sg_graph_view(sg_graph *g, sg_tid base, const sg_desc *desc, int64_t offset, sg_rule rule, int64_t number0,
                     int64_t number1) {
    if (!sg_graph_has(g, base)) return SG_NO_TENSOR;
    sg_tid out = view_entry(g, base, desc, offset);
    if (out < 0 || !records_gradient(g, rule, &base, 1)) return out;
    sg_node node = {.rule = (uint8_t)rule, .op = -1, .n_in = 1, .n_out = 1, .number = {number0, number1}};
    if (add_node(g, node, &base, &out)) attach_outputs(g, &out, 1);
    return g->failed ? SG_NO_TENSOR : out;
}

void sg_graph_node(sg_graph *g, sg_rule rule, const sg_tid *in, int n_in, sg_tid out, int64_t number0,
                   int64_t number1) {
    if (!sound_tensors(g, in, n_in) || !sg_graph_has(g, out) || !records_gradient(g, rule, in, n_in)) return;
    sg_node node = {.rule = (uint8_t)rule, .op = -1, .n_in = n_in, .n_out = 1, .number = {number0, number1}};
    if (add_node(g, node, in, &out)) attach_outputs(g, &out, 1);
}

sg_tid sg_graph_empty(sg_graph *g, const sg_desc *desc) {
    if (!sg_graph_draft(g)) return SG_NO_TENSOR;
    sg_tid out = new_output(g, desc);
    uint32_t args;
    if (out < 0 || !sg_graph_room_for_args(g, 1, &args)) return SG_NO_TENSOR;
    g->args.at[g->args.count++] = out;
    return sg_graph_entry(g, SG_ENTRY_VIEW, -1, args) ? out : SG_NO_TENSOR;
}

sg_tid sg_graph_detach(sg_graph *g, sg_tid x) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    const sg_desc desc = *sg_graph_desc(g, x);
    return sg_graph_view(g, x, &desc, 0, SG_RULE_NONE, 0, 0);
}

/* ---- raw emission (graph.h) ---------------------------------------------------------------------------------- */

static bool is_differentiable(sg_op_kind kind) {
    switch (kind) {
    case SG_OP_FILL:
    case SG_OP_IOTA:
    case SG_OP_RANDOM:
    case SG_OP_NORM_ALL:
    case SG_OP_FOREACH:
    case SG_OP_ADAMW:
    case SG_OP_AMP_UNSCALE:
    case SG_OP_AMP_UPDATE: return false;
    default: return true;
    }
}

void sg_emit(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, const sg_tid *in, int n_in, const sg_desc *out_desc,
             sg_tid *out, int n_out) {
    sg_rule rule = !is_differentiable(kind) ? SG_RULE_NONE : kind == SG_OP_REDUCE ? SG_RULE_REDUCE : SG_RULE_OP;
    sg_record record = {.kind = kind,
                        .attrs = attrs,
                        .n_in = n_in,
                        .n_out = n_out,
                        .in = in,
                        .out_desc = out_desc,
                        .rule = rule,
                        .number = {1, 0}};
    (void)sg_graph_record(g, &record, out);
}

void sg_emit_into(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, const sg_tid *in, int n_in, const sg_tid *out,
                  int n_out) {
    sg_tid written[8];
    if (n_out > 8) {
        sg_graph_fail(g, SG_BAD_INPUT, "%s: more than 8 outputs", sg_op_kind_name(kind));
        return;
    }
    sg_record record = {.kind = kind, .attrs = attrs, .n_in = n_in, .n_out = n_out, .in = in, .into = out};
    (void)sg_graph_record(g, &record, written);
}

const sg_desc *sg_desc_of(const sg_graph *g, sg_tid t) {
    static const sg_desc none = {0};
    return t < 0 || (size_t)t >= g->tensors.count ? &none : &g->tensors.at[t].desc;
}

bool sg_requires_grad(const sg_graph *g, sg_tid t) {
    return t >= 0 && (size_t)t < g->tensors.count && g->tensor_state.at[t].requires_grad;
}
