/* into.c: ops that write tensors which exist already. */
#include "models/layers/into.h"

/* x repeated to the shape of `like`; x itself where it has that shape. */
static sg_tid spread(sg_graph *g, sg_tid x, sg_tid like) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc shape = *sg_desc_of(g, like);
    return sg_desc_same_shape(sg_desc_of(g, x), &shape) ? x : sg_expand(g, x, shape.ndim, shape.size);
}

static void emit(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, const sg_tid *in, int n_in, sg_tid out) {
    if (!sg_graph_failed(g)) sg_emit_into(g, kind, attrs, in, n_in, &out, 1);
}

void sg_copy_into(sg_graph *g, sg_tid x, sg_tid out) {
    sg_attrs attrs = {0};
    emit(g, SG_OP_COPY, &attrs, &x, 1, out);
}

void sg_unary_into(sg_graph *g, sg_fn fn, sg_tid x, double alpha, double beta, sg_tid out) {
    sg_attrs attrs = {.fn = (int32_t)fn, .alpha = alpha, .beta = beta};
    emit(g, SG_OP_UNARY, &attrs, &x, 1, out);
}

void sg_binary_into(sg_graph *g, sg_fn fn, sg_tid x, sg_tid y, sg_tid out) {
    sg_attrs attrs = {.fn = (int32_t)fn, .alpha = 1.0};
    const sg_tid in[] = {x, spread(g, y, out)};
    emit(g, SG_OP_BINARY, &attrs, in, 2, out);
}

void sg_addcmul_into(sg_graph *g, sg_tid x, sg_tid y, sg_tid z, sg_tid out) {
    sg_attrs attrs = {.fn = SG_FN_ADDCMUL, .alpha = 1.0};
    sg_tid wide_x = spread(g, x, out), wide_z = spread(g, z, out);
    const sg_tid in[] = {wide_x, y, wide_z};
    emit(g, SG_OP_TERNARY, &attrs, in, 3, out);
}

sg_tid sg_softmax_in_place(sg_graph *g, sg_tid x) {
    if (sg_graph_profile(g)->autocast) x = sg_to(g, x, SG_F32);
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc desc = *sg_desc_of(g, x);
    sg_attrs attrs = {.flags = SG_IN_PLACE};
    sg_tid y = SG_NO_TENSOR;
    sg_emit(g, SG_OP_SOFTMAX, &attrs, &x, 1, &desc, &y, 1);
    return y;
}
