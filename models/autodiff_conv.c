/* autodiff_conv.c: gradients of convolutions and of transposed ones. */
#include "models/autodiff.h"
#include "models/ops.h"

/* An op of the backward; sequences are given to it as images of height 1. The tensors made lie as out_desc. */
static void emit(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, const sg_tid *in, int n_in,
                 const sg_desc *out_desc, sg_tid *out, int n_out) {
    sg_desc in_image[3], out_image[2];
    for (int i = 0; i < n_in; i++) {
        if (!sg_graph_has(g, in[i])) return;
        in_image[i] = sg_desc_as_image(sg_graph_desc(g, in[i]));
    }
    for (int i = 0; i < n_out; i++) out_image[i] = sg_desc_as_image(&out_desc[i]);
    sg_record record = {.kind = kind,
                        .attrs = attrs,
                        .n_in = n_in,
                        .n_out = n_out,
                        .in = in,
                        .in_desc = in_image,
                        .out_desc = out_image,
                        .out_tensor = out_desc};
    (void)sg_graph_record(g, &record, out);
}

static void conv_weights(sg_derivation *d, sg_tid dc, bool bias) {
    sg_graph *g = d->g;
    sg_attrs attrs = d->op.attrs;
    attrs.act = SG_FN_NONE;
    attrs.flags = bias ? SG_HAS_BIAS : 0;
    const sg_desc out[2] = {sg_desc_like(sg_graph_desc(g, d->in[1])),
                            bias ? *sg_graph_desc(g, d->in[2]) : (sg_desc){0}};
    sg_tid dw[2] = {SG_NO_TENSOR, SG_NO_TENSOR};
    emit(g, SG_OP_CONV_BWD_WEIGHTS, &attrs, (const sg_tid[]){dc, d->in[0]}, 2, out, dw, 1 + bias);
    d->dx[1] = dw[0];
    if (bias) d->dx[2] = dw[1];
}

/* Over everything but the channels. */
static uint32_t all_but_channels(const sg_desc *x) {
    return ((1u << x->ndim) - 1) & ~2u;
}

/* convolution_backward is one call: the input's gradient, then the weight's and the bias's. */
void sg_derive_conv(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_tid dc = sg_undo_activation(d);
    if (!sg_graph_has(g, dc)) return;
    bool has_bias = (d->op.attrs.flags & SG_HAS_BIAS) != 0, wants_bias = has_bias && sg_wants(d, 2);
    if (sg_wants(d, 0)) {
        sg_attrs attrs = d->op.attrs;
        attrs.act = SG_FN_NONE;
        attrs.flags &= SG_WEIGHT_B;
        sg_desc out = sg_desc_like(sg_graph_desc(g, d->in[0]));
        emit(g, SG_OP_CONV_BWD_DATA, &attrs, (const sg_tid[]){dc, d->in[1]}, 2, &out, &d->dx[0], 1);
        if (sg_wants(d, 1) || wants_bias) sg_same_dispatch(g);
    }
    if (sg_wants(d, 1))
        conv_weights(d, dc, wants_bias);
    else if (wants_bias)
        d->dx[2] = sg_reduce(g, SG_FN_SUM, dc, all_but_channels(sg_graph_desc(g, dc)), false);
    if ((d->op.attrs.flags & SG_HAS_RESIDUAL) && sg_wants(d, 2 + has_bias)) d->dx[2 + has_bias] = dc;
}

/* y = CONV_BWD_DATA(x, w) of a forward: the input's gradient is the convolution itself, the weight's that of a convolution
 * whose input is dy and whose output's gradient is x. One call, as above. */
void sg_derive_transposed_conv(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_tid dy = d->dy[0];
    sg_attrs attrs = d->op.attrs;
    if (sg_wants(d, 0)) {
        sg_desc out = sg_desc_like(sg_graph_desc(g, d->in[0]));
        emit(g, SG_OP_CONV, &attrs, (const sg_tid[]){dy, d->in[1]}, 2, &out, &d->dx[0], 1);
        if (sg_wants(d, 1)) sg_same_dispatch(g);
    }
    if (!sg_wants(d, 1)) return;
    attrs.flags = 0;
    sg_desc out = sg_desc_like(sg_graph_desc(g, d->in[1]));
    emit(g, SG_OP_CONV_BWD_WEIGHTS, &attrs, (const sg_tid[]){d->in[0], dy}, 2, &out, &d->dx[1], 1);
}
