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

void sg_gradients_done(sg_graph *g) {
    sg_draft *draft = sg_graph_draft(g);
    if (!draft) return;
    if (g->ranks > 1) (void)sg_graph_entry(g, SG_ENTRY_SYNC_GRADS, -1, 0);
    draft->ends_optimizer_step = true;
}
