/* checkpoint.c: gradient checkpointing as torch.utils.checkpoint does it without re-entrance: of what a segment of the
 * forward makes, nothing is kept for the backward; the first node of the segment that needs something makes the segment's
 * operations run once more, on the inputs they had, up to the last one of which the backward needs anything (early stop).
 * Segments nest: what an inner one is made from is made again by the outer one, which itself kept nothing.
 *
 * Entries are always copied from where the forward recorded them. Each tensor of the forward has a newest incarnation, which
 * is what a gradient rule reads; gradients stay with the tensor that the forward recorded. */
#include "models/autodiff.h"

/* ---- recording ---------------------------------------------------------------------------------------------------- */

void sg_checkpoint_begin(sg_graph *g) {
    const sg_draft *draft = sg_graph_draft(g);
    if (!draft || !SG_ROOM(g, &g->segments, 1)) return;
    g->segments.at[g->segments.count] = (sg_segment){.parent = g->segment,
                                                     .first_entry = (uint32_t)draft->entries.count,
                                                     .first_node = (uint32_t)g->tape.count,
                                                     .first_tensor = (sg_tid)g->tensors.count,
                                                     .first_storage = (int32_t)g->storages.count,
                                                     .first_draw = draft->drawn};
    g->segment = (int32_t)g->segments.count++;
}

void sg_checkpoint_end(sg_graph *g) {
    if (!sg_graph_draft(g)) return;
    if (g->segment < 0) {
        sg_graph_fail(g, SG_BAD_INPUT, "a checkpointed segment was ended that had not begun");
        return;
    }
    sg_segment *s = &g->segments.at[g->segment];
    s->end_node = (uint32_t)g->tape.count;
    s->end_tensor = (sg_tid)g->tensors.count;
    s->end_storage = (int32_t)g->storages.count;
    g->segment = s->parent;
}

void sg_checkpoint_begin_if(sg_graph *g, bool wraps) {
    if (wraps) sg_checkpoint_begin(g);
}

void sg_checkpoint_end_if(sg_graph *g, bool wraps) {
    if (wraps) sg_checkpoint_end(g);
}

/* ---- incarnations -------------------------------------------------------------------------------------------------- */

bool sg_checkpoint_prepare(sg_graph *g) {
    if (g->segment >= 0) sg_graph_fail(g, SG_BAD_INPUT, "the backward begins inside a checkpointed segment");
    if (g->segments.count == 0) return !g->failed;
    g->newest_tensor.count = g->newest_storage.count = 0;
    if (!SG_ROOM(g, &g->newest_tensor, g->tensors.count) || !SG_ROOM(g, &g->newest_storage, g->storages.count))
        return false;
    for (size_t i = 0; i < g->tensors.count; i++) g->newest_tensor.at[i] = (sg_tid)i;
    for (size_t i = 0; i < g->storages.count; i++) g->newest_storage.at[i] = (int32_t)i;
    g->newest_tensor.count = g->tensors.count;
    g->newest_storage.count = g->storages.count;
    return true;
}

void sg_checkpoint_clear(sg_graph *g) {
    g->segments.count = g->newest_tensor.count = g->newest_storage.count = 0;
    g->segment = -1;
}

sg_tid sg_newest(const sg_graph *g, sg_tid t) {
    if (t < 0 || (size_t)t >= g->newest_tensor.count || g->newest_tensor.at[t] < 0) return t;
    return g->newest_tensor.at[t];
}

static bool made_inside(const sg_graph *g, const sg_segment *s, int32_t storage) {
    return storage >= s->first_storage && storage < s->end_storage && !g->storages.at[storage].persistent;
}

/* The storage that stands for `storage` while the segment runs again. */
static int32_t storage_again(sg_graph *g, const sg_segment *s, int32_t storage) {
    if (!made_inside(g, s, storage)) return g->newest_storage.at[storage];
    if (g->newest_storage.at[storage] < 0)
        g->newest_storage.at[storage] = sg_graph_storage(g, g->storages.at[storage].bytes, SG_ROLE_TEMPORARY, false);
    return g->newest_storage.at[storage];
}

static sg_tid tensor_again(sg_graph *g, const sg_segment *s, sg_tid t) {
    if (t < s->first_tensor || t >= s->end_tensor || g->newest_tensor.at[t] >= 0) return sg_newest(g, t);
    const sg_tensor from = g->tensors.at[t];
    bool requires_grad = g->tensor_state.at[t].requires_grad;
    sg_tid made = sg_graph_tensor(g, storage_again(g, s, from.storage), (uint64_t)from.offset_bytes, &from.desc);
    if (made < 0) return made;
    g->tensor_state.at[made].requires_grad = requires_grad;
    g->newest_tensor.at[t] = made;
    return made;
}

/* An operand from before the segment has to outlive the forward. */
static sg_tid operand_again(sg_graph *g, sg_tid t) {
    sg_tid newest = sg_newest(g, t);
    int32_t storage = g->tensors.at[newest].storage;
    bool temporary = g->storages.at[storage].role == SG_ROLE_TEMPORARY;
    if (temporary && storage < g->first_backward_storage) g->storages.at[storage].role = SG_ROLE_SAVED;
    return newest;
}

/* ---- running again -------------------------------------------------------------------------------------------------- */

static bool is_saving(const sg_graph *g, const sg_node *node, bool *output) {
    sg_saved saved = sg_node_saved(g, node);
    *output = saved.outputs != 0;
    return (saved.inputs | saved.outputs) != 0;
}

/* The segment right below `above` that holds segment `inner`; `inner` itself when it is that. */
static int32_t child_towards(const sg_graph *g, int32_t above, int32_t inner) {
    while (g->segments.at[inner].parent != above) inner = g->segments.at[inner].parent;
    return inner;
}

/* The entry before which the segment can stop: behind it the backward needs nothing. An op's inputs are kept before it runs; an
 * inner segment keeps what it is given. */
static uint32_t stop_of(const sg_graph *g, int32_t index) {
    const sg_segment *s = &g->segments.at[index];
    for (uint32_t i = s->end_node; i-- > s->first_node;) {
        const sg_node *node = &g->tape.at[i];
        bool output;
        if (!is_saving(g, node, &output)) continue;
        if (node->segment != index) return g->segments.at[child_towards(g, index, node->segment)].first_entry;
        return node->entry + output;
    }
    return s->first_entry;
}

static bool copy_operands(sg_graph *g, const sg_segment *s, const sg_entry *entry, int n_in, int n_out,
                          uint32_t *args) {
    size_t n = (size_t)n_in + (size_t)n_out;
    if (!sg_graph_room_for_args(g, n, args)) return false;
    for (int k = 0; k < n_in; k++)
        g->args.at[*args + (uint32_t)k] = operand_again(g, g->args.at[entry->args + (uint32_t)k]);
    for (int k = n_in; k < n_in + n_out; k++) {
        sg_tid t = g->args.at[entry->args + (uint32_t)k];
        if (entry->kind == SG_ENTRY_OP && !made_inside(g, s, g->tensors.at[t].storage)) {
            sg_graph_fail(g, SG_BAD_INPUT, "%s: a checkpointed segment writes what was made before it",
                          g->modules.at[entry->module].name);
            return false;
        }
        g->args.at[*args + (uint32_t)k] = tensor_again(g, s, t);
    }
    g->args.count += n;
    return !g->failed;
}

/* Appends the entry once more, in the backward. `draw`: random ops of the program before it. */
static bool entry_again(sg_graph *g, const sg_segment *s, size_t position, uint32_t *draw) {
    sg_draft *draft = sg_graph_draft(g);
    if (!draft || !SG_ROOM(g, &draft->entries, 1)) return false;
    sg_entry entry = draft->entries.at[position];
    int n_in = 0, n_out = 1;
    uint32_t args = 0;
    switch ((sg_entry_kind)entry.kind) {
    case SG_ENTRY_OP:
        n_in = g->ops.at[entry.index].n_in;
        n_out = g->ops.at[entry.index].n_out;
        if (sg_op_draws((sg_op_kind)g->ops.at[entry.index].kind)) {
            entry.flags |= SG_ENTRY_DRAWS_AGAIN;
            entry.draw = (*draw)++;
        }
        break;
    case SG_ENTRY_VIEW: break;
    case SG_ENTRY_WAIT: entry.index = sg_newest(g, entry.index); break;
    default: sg_graph_fail(g, SG_BAD_INPUT, "a checkpointed segment holds more than operations"); return false;
    }
    if (entry.kind != SG_ENTRY_WAIT && !copy_operands(g, s, &entry, n_in, n_out, &args)) return false;
    entry.args = args;
    entry.pass = g->pass;
    draft->entries.at[draft->entries.count++] = entry;
    return true;
}

static void run_again(sg_graph *g, int32_t index) {
    const sg_segment s = g->segments.at[index];
    g->segments.at[index].done = true;
    uint32_t stop = stop_of(g, index), draw = s.first_draw;
    for (sg_tid t = s.first_tensor; t < s.end_tensor; t++) g->newest_tensor.at[t] = -1;
    for (int32_t i = s.first_storage; i < s.end_storage; i++)
        if (made_inside(g, &s, i)) g->newest_storage.at[i] = -1;
    for (size_t i = s.first_entry; i < stop; i++)
        if (!entry_again(g, &s, i, &draw)) return;
}

void sg_checkpoint_restore(sg_graph *g, const sg_node *node) {
    bool output;
    if (node->segment < 0 || g->segments.at[node->segment].done || !is_saving(g, node, &output)) return;
    /* Outermost first: an inner segment is given what the outer one made again. */
    for (int32_t inner = node->segment; !g->failed && !g->segments.at[inner].done;) {
        int32_t next = inner;
        while (g->segments.at[next].parent >= 0 && !g->segments.at[g->segments.at[next].parent].done)
            next = g->segments.at[next].parent;
        run_again(g, next);
    }
}
