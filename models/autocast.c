/* autocast.c: mixed precision over fp32 weights, as torch.autocast does it: products in the low precision, what is
 * sensitive in fp32, the rest by promotion. Backward runs outside of it: the gradient of a cast is a cast back. */
#include "models/graph_state.h"
#include "models/ops.h"

static bool active(const sg_graph *g) {
    return g->profile.autocast && !g->in_backward && g->pass == SG_PASS_FORWARD;
}

sg_tid sg_autocast_down(sg_graph *g, sg_tid x) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_dtype low = g->profile.autocast_dtype;
    if (!active(g) || sg_graph_dtype(g, x) == low || sg_graph_dtype(g, x) == SG_F64 ||
        !sg_dtype_is_float(sg_graph_dtype(g, x)))
        return x;
    /* PyTorch keeps copies of trainable leaves only, and only while gradients are on. */
    int32_t parameter = g->tensor_state.at[x].parameter;
    bool kept = parameter >= 0 && g->tensor_state.at[x].requires_grad && g->no_grad == 0;
    if (kept && g->parameter_state.at[parameter].cast >= 0) return g->parameter_state.at[parameter].cast;
    sg_tid cast = sg_to(g, x, low);
    if (!kept || cast < 0 || !SG_ROOM(g, &g->casts, 1)) return cast;
    g->parameter_state.at[parameter].cast = cast;
    g->casts.at[g->casts.count++] = parameter;
    sg_hold_forward(g, cast);
    return cast;
}

sg_tid sg_autocast_up(sg_graph *g, sg_tid x) {
    if (!sg_graph_has(g, x)) return SG_NO_TENSOR;
    sg_dtype dtype = sg_graph_dtype(g, x);
    return active(g) && (dtype == SG_BF16 || dtype == SG_F16) ? sg_to(g, x, SG_F32) : x;
}

void sg_autocast_end(sg_graph *g) {
    for (size_t i = 0; i < g->casts.count; i++) g->parameter_state.at[g->casts.at[i]].cast = SG_NO_TENSOR;
    g->casts.count = 0;
}
