/* ops_product.c: matrix products. */
#include "models/graph_state.h"
#include "models/ops.h"

#include <string.h>

sg_compute sg_compute_of(const sg_profile *profile, sg_dtype dtype, bool convolution) {
    switch (dtype) {
    case SG_F64: return SG_COMPUTE_F64;
    case SG_BF16: return SG_COMPUTE_BF16;
    case SG_F16: return SG_COMPUTE_F16;
    default: return convolution ? profile->compute_conv_f32 : profile->compute_f32;
    }
}

bool sg_is_weight(const sg_graph *g, sg_tid t) {
    return g->storages.at[g->tensors.at[t].storage].role == SG_ROLE_WEIGHT;
}

static sg_desc transposed(const sg_desc *x) {
    sg_desc out = *x;
    int m = x->ndim - 2, n = x->ndim - 1;
    out.size[m] = x->size[n];
    out.stride[m] = x->stride[n];
    out.size[n] = x->size[m];
    out.stride[n] = x->stride[m];
    return out;
}

/* One product op over operands that have the op's form already (equal ndim, batch dims broadcast). */
sg_tid sg_product(sg_graph *g, const sg_product_spec *p) {
    sg_tid in[4] = {p->a, p->b};
    int n_in = 2;
    sg_attrs attrs = {.act = p->act};
    const sg_tid extra[2] = {p->bias, p->residual};
    for (int i = 0; i < 4; i++)
        if ((i < 2 || extra[i - 2] != SG_NO_TENSOR) && !sg_graph_has(g, i < 2 ? in[i] : extra[i - 2]))
            return SG_NO_TENSOR;
    sg_desc in_desc[4] = {p->a_desc ? *p->a_desc : *sg_graph_desc(g, p->a),
                          p->b_desc ? *p->b_desc : *sg_graph_desc(g, p->b)};
    sg_desc out = sg_desc_make((sg_dtype)in_desc[0].dtype, in_desc[0].ndim, in_desc[0].size);
    int last = out.ndim - 1;
    if (out.ndim < 2 || in_desc[1].ndim != out.ndim) {
        sg_graph_fail(g, SG_BAD_INPUT, "a matrix product needs operands with equally many dims, at least 2");
        return SG_NO_TENSOR;
    }
    out.size[last] = in_desc[1].size[last];
    out = sg_desc_make((sg_dtype)out.dtype, out.ndim, out.size);
    attrs.compute = sg_compute_of(&g->profile, (sg_dtype)in_desc[0].dtype, false);
    if (sg_is_weight(g, p->b)) attrs.flags |= SG_WEIGHT_B;
    if (p->bias != SG_NO_TENSOR) {
        attrs.flags |= SG_HAS_BIAS;
        in_desc[n_in] = *sg_graph_desc(g, p->bias);
        in[n_in++] = p->bias;
    }
    if (p->residual != SG_NO_TENSOR) {
        attrs.flags |= SG_HAS_RESIDUAL;
        in_desc[n_in] = sg_desc_broadcast_to(sg_graph_desc(g, p->residual), &out);
        in[n_in++] = p->residual;
    }
    attrs.alpha = p->scale != 0 ? p->scale : 1;
    sg_tid y = SG_NO_TENSOR;
    sg_record record = {.kind = SG_OP_MATMUL,
                        .attrs = &attrs,
                        .n_in = n_in,
                        .n_out = 1,
                        .in = in,
                        .in_desc = in_desc,
                        .out_desc = &out,
                        .rule = SG_RULE_OP};
    (void)sg_graph_record(g, &record, &y);
    return y;
}

static sg_desc with_batch(const sg_desc *x, const sg_desc *batch) {
    sg_desc like = *batch;
    memcpy(like.size + batch->ndim - 2, x->size + x->ndim - 2, 2 * sizeof *x->size);
    return sg_desc_broadcast_to(x, &like);
}

/* As at::matmul: repeat the batch dims, fold them into one, bmm, unfold. */
static sg_tid matmul_folded(sg_graph *g, sg_tid a, sg_tid b, const sg_desc *a_wide, const sg_desc *b_wide) {
    int ndim = a_wide->ndim;
    const int64_t m = a_wide->size[ndim - 2], k = a_wide->size[ndim - 1], n = b_wide->size[ndim - 1];
    a = sg_reshape(g, sg_expand(g, a, ndim, a_wide->size), 3, (const int64_t[]){-1, m, k});
    b = sg_reshape(g, sg_expand(g, b, ndim, b_wide->size), 3, (const int64_t[]){-1, k, n});
    sg_product_spec spec = {.a = a, .b = b, .bias = SG_NO_TENSOR, .residual = SG_NO_TENSOR};
    sg_tid c = sg_product(g, &spec);
    int64_t size[SG_MAX_DIMS];
    memcpy(size, a_wide->size, sizeof size);
    size[ndim - 1] = n;
    return sg_view(g, c, ndim, size);
}

/* at::matmul flattens a factor with batch dims onto a matrix when that needs no copy or the matrix is trained. */
static bool folds(const sg_graph *g, sg_tid x, sg_tid matrix) {
    const sg_desc *in = sg_graph_desc(g, x);
    sg_desc flat;
    return in->ndim == 2 || g->tensor_state.at[matrix].requires_grad ||
           sg_desc_view_as(in, 2, (const int64_t[]){sg_desc_count(in) / in->size[in->ndim - 1], in->size[in->ndim - 1]},
                           &flat);
}

/* ---- linear ---------------------------------------------------------------------------------------------------- */

/* An activation goes into the product where the profile fuses it and its backward can do without its input. */
bool sg_fuses_activation(const sg_graph *g, sg_fn act, bool tracked) {
    return g->profile.fused_activation && act != SG_FN_NONE && (sg_fn_saves_output(act) || !tracked);
}

bool sg_tracks(const sg_graph *g, const sg_tid *t, int n) {
    if (g->no_grad > 0 || g->in_backward) return false;
    for (int i = 0; i < n; i++)
        if (sg_requires_grad(g, t[i])) return true;
    return false;
}

sg_tid sg_activate(sg_graph *g, sg_tid x, sg_fn act) {
    return act == SG_FN_NONE ? x : sg_unary(g, act, x, act == SG_FN_ELU ? 1 : 0, 0);
}

/* at::linear without a bias, or with one on sequences that are not contiguous: matmul, then add_. */
static sg_tid linear_by_matmul(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, sg_fn act) {
    sg_tid y = sg_matmul(g, x, sg_transpose(g, weight, 0, 1));
    if (bias != SG_NO_TENSOR) y = sg_binary_in_place(g, SG_FN_ADD, y, bias, 1);
    return sg_activate(g, y, act);
}

sg_tid sg_linear_act(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, sg_fn act) {
    x = sg_autocast_down(g, x);
    weight = sg_autocast_down(g, weight);
    if (bias != SG_NO_TENSOR) bias = sg_autocast_down(g, bias);
    if (!sg_graph_has(g, x) || !sg_graph_has(g, weight)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x), w = *sg_graph_desc(g, weight);
    if (in.ndim < 1 || w.ndim != 2 || in.size[in.ndim - 1] != w.size[1]) {
        sg_graph_fail(g, SG_BAD_INPUT, "linear in %s: the input's last dim (%lld) differs from the weight's (%lld)",
                      sg_graph_module_name(g), (long long)(in.ndim ? in.size[in.ndim - 1] : 0), (long long)w.size[1]);
        return SG_NO_TENSOR;
    }
    if (sg_graph_eager(g) && in.ndim > 2 && (bias == SG_NO_TENSOR || !sg_desc_is_contiguous(&in)))
        return linear_by_matmul(g, x, weight, bias, act);
    const sg_tid operands[3] = {x, weight, bias};
    bool fused = sg_fuses_activation(g, act, sg_tracks(g, operands, 3));
    if (in.ndim != 2) x = sg_reshape(g, x, 2, (const int64_t[]){-1, w.size[1]});
    sg_desc w_t = transposed(&w);
    sg_product_spec spec = {
        .a = x, .b = weight, .b_desc = &w_t, .bias = bias, .residual = SG_NO_TENSOR, .act = fused ? act : SG_FN_NONE};
    if (sg_graph_eager(g)) {
        spec.b = sg_transpose(g, weight, 0, 1);
        spec.b_desc = NULL;
    }
    sg_tid y = sg_product(g, &spec);
    if (in.ndim != 2) {
        int64_t size[SG_MAX_DIMS];
        memcpy(size, in.size, sizeof size);
        size[in.ndim - 1] = w.size[0];
        y = sg_view(g, y, in.ndim, size);
    }
    return fused ? y : sg_activate(g, y, act);
}

sg_tid sg_linear(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias) {
    return sg_linear_act(g, x, weight, bias, SG_FN_NONE);
}

sg_tid sg_addmm(sg_graph *g, sg_tid bias, sg_tid x, sg_tid weight) {
    bias = sg_autocast_down(g, bias);
    x = sg_autocast_down(g, x);
    weight = sg_autocast_down(g, weight);
    if (!sg_graph_has(g, bias) || !sg_graph_has(g, x) || !sg_graph_has(g, weight)) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x), w = *sg_graph_desc(g, weight);
    if (in.ndim < 1 || w.ndim != 2 || in.size[in.ndim - 1] != w.size[0]) {
        sg_graph_fail(g, SG_BAD_INPUT, "addmm in %s: the operands do not fit each other", sg_graph_module_name(g));
        return SG_NO_TENSOR;
    }
    sg_tid flat = sg_reshape(g, x, 2, (const int64_t[]){-1, w.size[0]});
    sg_product_spec spec = {.a = flat, .b = weight, .bias = bias, .residual = SG_NO_TENSOR};
    int64_t size[SG_MAX_DIMS];
    memcpy(size, in.size, sizeof size);
    size[in.ndim - 1] = w.size[1];
    return sg_view(g, sg_product(g, &spec), in.ndim, size);
}

/* ---- matmul ---------------------------------------------------------------------------------------------------- */

sg_tid sg_matmul(sg_graph *g, sg_tid a, sg_tid b) {
    a = sg_autocast_down(g, a);
    b = sg_autocast_down(g, b);
    if (!sg_graph_has(g, a) || !sg_graph_has(g, b)) return SG_NO_TENSOR;
    const sg_desc da = *sg_graph_desc(g, a), db = *sg_graph_desc(g, b);
    if (da.ndim < 2 || db.ndim < 2 || da.size[da.ndim - 1] != db.size[db.ndim - 2]) {
        sg_graph_fail(g, SG_BAD_INPUT, "matmul in %s: the operands do not fit each other", sg_graph_module_name(g));
        return SG_NO_TENSOR;
    }
    if (db.ndim == 2 && da.ndim > 2 && (!sg_graph_eager(g) || folds(g, a, b))) {
        sg_tid flat = sg_reshape(g, a, 2, (const int64_t[]){-1, da.size[da.ndim - 1]});
        sg_product_spec spec = {.a = flat, .b = b, .bias = SG_NO_TENSOR, .residual = SG_NO_TENSOR};
        int64_t size[SG_MAX_DIMS];
        memcpy(size, da.size, sizeof size);
        size[da.ndim - 1] = db.size[1];
        return sg_view(g, sg_product(g, &spec), da.ndim, size);
    }
    sg_desc batch_a = da, batch_b = db, batch = {0};
    batch_a.size[da.ndim - 2] = batch_a.size[da.ndim - 1] = batch_b.size[db.ndim - 2] = batch_b.size[db.ndim - 1] = 1;
    if (!sg_shape_broadcast(&batch_a, &batch_b, &batch)) {
        sg_graph_fail(g, SG_BAD_INPUT, "matmul in %s: the batch dims do not broadcast", sg_graph_module_name(g));
        return SG_NO_TENSOR;
    }
    sg_desc a_wide = with_batch(&da, &batch), b_wide = with_batch(&db, &batch);
    if (batch.ndim > 4 || (sg_graph_eager(g) && (batch.ndim == 4 || da.ndim != db.ndim)))
        return matmul_folded(g, a, b, &a_wide, &b_wide);
    sg_product_spec spec = {
        .a = a, .b = b, .a_desc = &a_wide, .b_desc = &b_wide, .bias = SG_NO_TENSOR, .residual = SG_NO_TENSOR};
    return sg_product(g, &spec);
}

sg_tid sg_baddbmm(sg_graph *g, sg_tid residual, sg_tid a, sg_tid b) {
    sg_product_spec spec = {.a = sg_autocast_down(g, a),
                            .b = sg_autocast_down(g, b),
                            .bias = SG_NO_TENSOR,
                            .residual = sg_autocast_down(g, residual)};
    return sg_product(g, &spec);
}
