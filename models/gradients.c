/* gradients.c: gradients that outlive a step: of a loop that never drops them and has no optimizer. */
#include "models/graph_state.h"

void sg_gradients_persist(sg_graph *g) {
    for (size_t i = 0; i < g->parameters.count && !g->failed; i++) {
        if (!g->parameters.at[i].trainable || g->parameters.at[i].is_buffer) continue;
        const sg_desc desc = *sg_graph_desc(g, g->parameters.at[i].tensor);
        uint64_t bytes;
        if (!sg_graph_bytes(g, &desc, &bytes)) return;
        int32_t storage = sg_graph_storage(g, bytes, SG_ROLE_GRADIENT, true);
        g->parameters.at[i].gradient = sg_graph_tensor(g, storage, 0, &desc);
    }
}

static bool is_ready(const sg_draft *draft, int32_t parameter) {
    for (size_t i = draft->entries.count; i-- > 0;)
        if (draft->entries.at[i].kind == SG_ENTRY_GRAD_READY && draft->entries.at[i].index == parameter) return true;
    return false;
}

/* An expert without tokens and its like: a gradient of zeros is made and added. */
static void add_nothing(sg_graph *g, int32_t index) {
    sg_tid gradient = g->parameters.at[index].gradient;
    const sg_desc desc = *sg_graph_desc(g, gradient);
    sg_tid zeros = SG_NO_TENSOR;
    sg_attrs none = {0}, add = {.fn = SG_FN_ADD, .flags = SG_IN_PLACE, .alpha = 1};
    sg_emit(g, SG_OP_FILL, &none, NULL, 0, &desc, &zeros, 1);
    sg_emit_into(g, SG_OP_BINARY, &add, (const sg_tid[]){gradient, zeros}, 2, &gradient, 1);
    (void)sg_graph_entry(g, SG_ENTRY_GRAD_READY, index, 0);
}

void sg_gradients_done(sg_graph *g) {
    if (!sg_graph_draft(g)) return;
    for (size_t i = 0; i < g->parameters.count && !g->failed; i++)
        if (g->parameters.at[i].gradient >= 0 && !is_ready(sg_graph_draft(g), (int32_t)i)) add_nothing(g, (int32_t)i);
    if (g->ranks > 1 && !g->failed) (void)sg_graph_entry(g, SG_ENTRY_SYNC_GRADS, -1, 0);
    sg_draft *draft = sg_graph_draft(g);
    if (draft) draft->ends_optimizer_step = true;
}
