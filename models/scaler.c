/* scaler.c: loss scaling of fp16, call by call as torch.amp.GradScaler makes them (PyTorch, torch/amp/grad_scaler.py):
 *
 *   scale()    loss times scale                                                                        1 op
 *   unscale_() 1 / scale in fp64 and back (3), found = 0 (1), copies of both for the device (2, _MultiDeviceReplicator), then
 *              _amp_foreach_non_finite_check_and_unscale_ once per dtype: all gradients in one multi-tensor pass
 *   step()     one .item() of found decides whether the optimizer's step runs
 *   update()   _amp_update_scale_                                                                      1 op
 *
 * A program is the same each time it runs, so the step runs even where something was found; its cost is that of the steps
 * that are kept, and the scale falls as it would. */
#include "models/graph_state.h"
#include "models/ops.h"

static const double initial_scale = 65536, growth = 2, backoff = 0.5; /* GradScaler's defaults */
enum { GROWTH_INTERVAL = 2000 };

static bool make_scale(sg_graph *g) {
    if (g->scale < 0) g->scale = sg_graph_scalar(g, "grad_scaler.scale", SG_F32, initial_scale);
    if (g->scale_tracker < 0) g->scale_tracker = sg_graph_scalar(g, "grad_scaler.growth_tracker", SG_I32, 0);
    return !g->failed;
}

sg_tid sg_scaled_loss(sg_graph *g, sg_tid loss) {
    if (!g->profile.loss_scaler || g->failed || !make_scale(g)) return loss;
    return sg_mul(g, loss, g->scale);
}

static sg_tid inverse_scale(sg_graph *g) {
    if (!sg_graph_eager(g)) return sg_unary(g, SG_FN_RECIPROCAL, g->scale, 0, 0);
    return sg_to(g, sg_unary(g, SG_FN_RECIPROCAL, sg_to(g, g->scale, SG_F64), 0, 0), SG_F32);
}

static void unscale_list(sg_graph *g, sg_dtype dtype, sg_tid found, sg_tid inverse) {
    size_t n = g->parameters.count, count = 0;
    sg_tid *in = sg_arena_alloc(g->arena, (n + 2) * sizeof *in), *out = sg_arena_alloc(g->arena, (n + 1) * sizeof *out);
    if (!in || !out) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %zu parameters", n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        sg_tid gradient = g->parameters.at[i].gradient;
        if (gradient >= 0 && sg_graph_dtype(g, gradient) == dtype) in[count++] = gradient;
    }
    if (count == 0) return;
    in[count] = found;
    in[count + 1] = inverse;
    sg_attrs attrs = {.flags = SG_IN_PLACE, .count = (int32_t)count};
    sg_record record = {.kind = SG_OP_AMP_UNSCALE,
                        .attrs = &attrs,
                        .n_in = (int)count + 2,
                        .n_out = (int)count + 1,
                        .in = in,
                        .into = in};
    (void)sg_graph_record(g, &record, out);
}

sg_tid sg_scaler_unscale(sg_graph *g) {
    if (!g->profile.loss_scaler || g->failed || !make_scale(g)) return SG_NO_TENSOR;
    sg_tid inverse = inverse_scale(g), found = sg_full(g, SG_F32, 0, NULL, 0);
    if (sg_graph_eager(g)) {
        found = sg_clone(g, found);
        inverse = sg_clone(g, inverse);
    }
    for (int dtype = 0; dtype < SG_DTYPE_COUNT && !g->failed; dtype++) unscale_list(g, (sg_dtype)dtype, found, inverse);
    return found;
}

void sg_scaler_update(sg_graph *g, sg_tid found) {
    sg_attrs attrs = {.flags = SG_IN_PLACE, .alpha = growth, .beta = backoff, .count = GROWTH_INTERVAL};
    const sg_tid in[3] = {g->scale, g->scale_tracker, found};
    if (!g->failed) sg_emit_into(g, SG_OP_AMP_UPDATE, &attrs, in, 3, in, 2);
}
