/* autodiff_rows.c: gradients of norms, softmax, gathers and pooling: one kernel each. */
#include "models/autodiff.h"

void sg_derive_softmax(sg_derivation *d) {
    sg_graph *g = d->g;
    const sg_desc *x = sg_graph_desc(g, d->in[0]);
    sg_desc out = sg_desc_make((sg_dtype)x->dtype, x->ndim, x->size);
    sg_attrs attrs = {0};
    sg_emit(g, SG_OP_SOFTMAX_BWD, &attrs, (const sg_tid[]){d->dy[0], sg_saved_output(d)}, 2, &out, &d->dx[0], 1);
}

/* LAYER_NORM x w b and RMS_NORM x w: dx, dw and db come from one call. */
void sg_derive_norm(sg_derivation *d) {
    sg_graph *g = d->g;
    bool layer = d->op.kind == SG_OP_LAYER_NORM, dx = sg_wants(d, 0), dw = sg_wants(d, 1) || (layer && sg_wants(d, 2));
    sg_attrs attrs = {.eps = d->op.attrs.eps, .flags = (dx ? 0 : SG_NO_DX) | (dw ? 0 : SG_NO_DW)};
    sg_tid in[5] = {d->dy[0], d->in[0]}, made[3];
    sg_desc out[3];
    int n_in = 2, n_out = 0;
    for (int i = 1; i < d->node.n_out; i++) in[n_in++] = d->out[i];
    in[n_in++] = d->in[1];
    const sg_desc *x = sg_graph_desc(g, d->in[0]);
    if (dx) out[n_out++] = sg_desc_make((sg_dtype)x->dtype, x->ndim, x->size);
    for (int i = 1; i < d->node.n_in && dw; i++) out[n_out++] = sg_desc_like(sg_graph_desc(g, d->in[i]));
    sg_emit(g, layer ? SG_OP_LAYER_NORM_BWD : SG_OP_RMS_NORM_BWD, &attrs, in, n_in, out, made, n_out);
    for (int i = dx ? 0 : 1, k = 0; k < n_out; i++, k++) d->dx[i] = made[k];
}

void sg_derive_channel_norm(sg_derivation *d) {
    sg_graph *g = d->g;
    bool dx = sg_wants(d, 0), dw = sg_wants(d, 1) || sg_wants(d, 2);
    sg_attrs attrs = d->op.attrs;
    attrs.flags = (dx ? 0 : SG_NO_DX) | (dw ? 0 : SG_NO_DW);
    const sg_tid in[5] = {d->dy[0], d->in[0], d->out[1], d->out[2], d->in[1]};
    sg_tid made[3];
    sg_desc out[3];
    int n_out = 0;
    if (dx) out[n_out++] = sg_desc_like(sg_graph_desc(g, d->in[0]));
    for (int i = 1; i < 3 && dw; i++) out[n_out++] = sg_desc_like(sg_graph_desc(g, d->in[i]));
    sg_emit(g, SG_OP_CHANNEL_NORM_BWD, &attrs, in, 5, out, made, n_out);
    for (int i = dx ? 0 : 1, k = 0; k < n_out; i++, k++) d->dx[i] = made[k];
}

void sg_derive_max_pool(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_desc out = sg_desc_like(sg_graph_desc(g, d->in[0]));
    sg_attrs attrs = d->op.attrs;
    sg_emit(g, SG_OP_MAXPOOL_BWD, &attrs, (const sg_tid[]){d->dy[0], d->out[1]}, 2, &out, &d->dx[0], 1);
}

void sg_derive_embedding(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_desc out = sg_desc_like(sg_graph_desc(g, d->in[0]));
    sg_attrs attrs = {0};
    sg_emit(g, SG_OP_EMBEDDING_BWD, &attrs, (const sg_tid[]){d->dy[0], d->in[1]}, 2, &out, &d->dx[0], 1);
}
