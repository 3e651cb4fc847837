/* autodiff_product.c: gradients of matrix products and attention. */
#include "models/autodiff.h"
#include "models/ops.h"

#include <string.h>

/* ---- matrix products -------------------------------------------------------------------------------------------- */

static sg_desc swap_last(const sg_desc *x) {
    sg_desc out = *x;
    int m = x->ndim - 2, n = x->ndim - 1;
    out.size[m] = x->size[n];
    out.stride[m] = x->stride[n];
    out.size[n] = x->size[m];
    out.stride[n] = x->stride[m];
    return out;
}

/* The forward's scale goes with both factors' gradients. */
static sg_tid product(const sg_derivation *d, sg_tid a, const sg_desc *a_desc, sg_tid b, const sg_desc *b_desc) {
    sg_product_spec spec = {.a = a,
                            .b = b,
                            .bias = SG_NO_TENSOR,
                            .residual = SG_NO_TENSOR,
                            .a_desc = a_desc,
                            .b_desc = b_desc,
                            .scale = d->op.attrs.alpha};
    return sg_product(d->g, &spec);
}

static bool is_column_major(const sg_desc *x) {
    return x->stride[0] == 1 && x->stride[1] == x->size[0];
}

/* mm_mat1_backward: the result gets the memory order of the operand. */
static sg_tid first_factor_2d(const sg_derivation *d, sg_tid dc, sg_tid a, sg_tid b) {
    sg_graph *g = d->g;
    if (!is_column_major(sg_graph_desc(g, a))) return product(d, dc, NULL, sg_transpose(g, b, 0, 1), NULL);
    return sg_transpose(g, product(d, b, NULL, sg_transpose(g, dc, 0, 1), NULL), 0, 1);
}

static sg_tid second_factor_2d(const sg_derivation *d, sg_tid dc, sg_tid a, sg_tid b) {
    sg_graph *g = d->g;
    if (!is_column_major(sg_graph_desc(g, b))) return product(d, sg_transpose(g, a, 0, 1), NULL, dc, NULL);
    return sg_transpose(g, product(d, sg_transpose(g, dc, 0, 1), NULL, a, NULL), 0, 1);
}

/* As PyTorch does: transposed views; addmm gives the first factor's gradient first, mm and bmm the second's. */
static void factors_eager(sg_derivation *d, sg_tid dc) {
    sg_graph *g = d->g;
    sg_tid a = d->in[0], b = d->in[1];
    if (d->op.desc[0].ndim == 2) {
        bool second_first = (d->op.attrs.flags & SG_HAS_BIAS) == 0;
        if (sg_wants(d, 1) && second_first) d->dx[1] = second_factor_2d(d, dc, a, b);
        if (sg_wants(d, 0)) d->dx[0] = first_factor_2d(d, dc, a, b);
        if (sg_wants(d, 1) && !second_first) d->dx[1] = second_factor_2d(d, dc, a, b);
        return;
    }
    if (sg_wants(d, 1)) d->dx[1] = product(d, sg_transpose(g, a, -2, -1), NULL, dc, NULL);
    if (sg_wants(d, 0)) d->dx[0] = product(d, dc, NULL, sg_transpose(g, b, -2, -1), NULL);
}

/* The engine reads operands transposed without a view. A weight that was read transposed gets its gradient as it lies. */
static void factors_native(sg_derivation *d, sg_tid dc) {
    sg_graph *g = d->g;
    const sg_desc *a = &d->op.desc[0], *b = &d->op.desc[1];
    sg_desc dc_desc = *sg_graph_desc(g, dc), a_t = swap_last(a), b_t = swap_last(b), dc_t = swap_last(&dc_desc);
    const sg_desc *stored = sg_graph_desc(g, d->in[1]);
    bool transposed = memcmp(stored, b, sizeof *b) != 0 && memcmp(stored, &b_t, sizeof b_t) == 0;
    if (sg_wants(d, 0)) d->dx[0] = product(d, dc, NULL, d->in[1], &b_t);
    if (sg_wants(d, 1))
        d->dx[1] = transposed ? product(d, dc, &dc_t, d->in[0], a) : product(d, d->in[0], &a_t, dc, NULL);
}

sg_tid sg_undo_activation(sg_derivation *d) {
    sg_fn act = (sg_fn)d->op.attrs.act;
    if (act == SG_FN_NONE) return d->dy[0];
    const sg_attrs forward = {.alpha = act == SG_FN_ELU ? 1 : 0};
    return sg_unary_backward(d->g, &forward, act, d->dy[0], d->out[0]);
}

/* Gradients of what was added: dy itself; the engine sums it over what was broadcast. */
static void derive_addends(sg_derivation *d, sg_tid dc) {
    for (int i = 2; i < d->node.n_in; i++)
        if (sg_wants(d, i)) d->dx[i] = dc;
}

void sg_derive_matmul(sg_derivation *d) {
    sg_tid dc = sg_undo_activation(d);
    if (!sg_graph_has(d->g, dc)) return;
    if (sg_graph_eager(d->g))
        factors_eager(d, dc);
    else
        factors_native(d, dc);
    derive_addends(d, dc);
}

/* ---- attention ---------------------------------------------------------------------------------------------------- */

void sg_derive_attention(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_tid in[7] = {d->dy[0], d->in[0], d->in[1], d->in[2], SG_NO_TENSOR, d->out[1], SG_NO_TENSOR};
    in[4] = sg_saved_output(d);
    int n_in = 6;
    if (d->op.attrs.flags & SG_HAS_MASK) {
        if (sg_wants(d, 3)) {
            sg_no_rule(d, "a trainable attention mask");
            return;
        }
        in[n_in++] = d->in[3];
    }
    sg_desc out[3];
    for (int i = 0; i < 3; i++) out[i] = sg_desc_like(sg_graph_desc(g, d->in[i]));
    sg_emit(g, SG_OP_ATTENTION_BWD, &d->op.attrs, in, n_in, out, d->dx, 3);
}
