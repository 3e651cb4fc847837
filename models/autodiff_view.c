/* autodiff_view.c: gradients of views, joins and reductions: other views, copies into zeros, sums. */
#include "models/autodiff.h"
#include "models/ops.h"

#include <string.h>

static sg_tid zeros(sg_graph *g, const sg_desc *shape) {
    return sg_full(g, (sg_dtype)shape->dtype, shape->ndim, shape->size, 0);
}

/* slice_backward and select_backward: one call that makes zeros and copies dy into its place. */
static void derive_part(sg_derivation *d) {
    sg_graph *g = d->g;
    const sg_desc whole = *sg_graph_desc(g, d->in[0]);
    int dim = (int)d->node.number[0];
    sg_tid dx = zeros(g, &whole);
    sg_same_dispatch(g);
    sg_tid part = d->node.rule == SG_RULE_SELECT
                      ? sg_select(g, dx, dim, d->node.number[1])
                      : sg_slice(g, dx, dim, d->node.number[1], sg_desc_of(g, d->out[0])->size[dim]);
    sg_attrs attrs = {0};
    sg_same_dispatch(g);
    sg_emit_into(g, SG_OP_COPY, &attrs, d->dy, 1, &part, 1);
    d->dx[0] = dx;
}

static void derive_permute(sg_derivation *d) {
    int inverse[SG_MAX_DIMS] = {0};
    int ndim = sg_graph_desc(d->g, d->in[0])->ndim;
    for (int i = 0; i < ndim; i++) inverse[d->node.number[0] >> 4 * i & 15] = i;
    d->dx[0] = sg_permute(d->g, d->dy[0], inverse);
}

/* Parts that got no gradient count as zeros. */
static void derive_parts(sg_derivation *d) {
    sg_graph *g = d->g;
    bool unbind = d->node.rule == SG_RULE_UNBIND;
    sg_tid *parts = sg_arena_alloc(g->arena, (size_t)d->node.n_out * sizeof *parts);
    if (!parts) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %d gradients", d->node.n_out);
        return;
    }
    for (int i = 0; i < d->node.n_out && !g->failed; i++) {
        const sg_desc shape = *sg_graph_desc(g, d->out[i]);
        parts[i] = d->dy[i];
        if (parts[i] >= 0) continue;
        parts[i] = unbind ? sg_expand(g, sg_full(g, (sg_dtype)shape.dtype, 0, NULL, 0), shape.ndim, shape.size)
                          : zeros(g, &shape);
    }
    if (g->failed) return;
    int dim = (int)d->node.number[0];
    d->dx[0] = unbind ? sg_stack(g, d->node.n_out, parts, dim) : sg_cat(g, d->node.n_out, parts, dim);
}

/* CopySlices: a copy of dy, of which the overwritten part (cloned) belongs to the source and is zero for the base. */
static void derive_copy_slice(sg_derivation *d) {
    sg_graph *g = d->g;
    const sg_desc base = *sg_graph_desc(g, d->in[0]), source = *sg_graph_desc(g, d->in[1]);
    int dim = (int)d->node.number[0];
    int64_t start = d->node.number[1], length = source.size[dim];
    sg_attrs attrs = {0};
    if (!sg_graph_eager(g) && !sg_wants(d, 0)) {
        d->dx[1] = sg_slice(g, d->dy[0], dim, start, length);
        return;
    }
    sg_desc shape = sg_desc_like(&base);
    shape.dtype = sg_graph_desc(g, d->dy[0])->dtype;
    sg_tid copy = sg_graph_empty(g, &shape);
    sg_emit_into(g, SG_OP_COPY, &attrs, d->dy, 1, &copy, 1);
    sg_tid part = sg_slice(g, copy, dim, start, length);
    d->dx[1] = sg_clone(g, part);
    if (!sg_wants(d, 0)) return;
    sg_tid zero = zeros(g, &source);
    sg_emit_into(g, SG_OP_COPY, &attrs, &zero, 1, &part, 1);
    d->dx[0] = copy;
}

void sg_derive_view(sg_derivation *d) {
    sg_graph *g = d->g;
    const int64_t *number = d->node.number;
    switch ((sg_rule)d->node.rule) {
    case SG_RULE_RESHAPE: {
        const sg_desc shape = *sg_graph_desc(g, d->in[0]);
        d->dx[0] = sg_reshape(g, d->dy[0], shape.ndim, shape.size);
        break;
    }
    case SG_RULE_TRANSPOSE: d->dx[0] = sg_transpose(g, d->dy[0], (int)number[0], (int)number[1]); break;
    case SG_RULE_PERMUTE: derive_permute(d); break;
    case SG_RULE_SLICE:
    case SG_RULE_SELECT: derive_part(d); break;
    case SG_RULE_UNSQUEEZE: d->dx[0] = sg_squeeze(g, d->dy[0], (int)number[0]); break;
    case SG_RULE_SQUEEZE: d->dx[0] = sg_unsqueeze(g, d->dy[0], (int)number[0]); break;
    case SG_RULE_EXPAND: d->dx[0] = d->dy[0]; break;
    case SG_RULE_SPLIT:
    case SG_RULE_UNBIND: derive_parts(d); break;
    case SG_RULE_COPY_SLICE: derive_copy_slice(d); break;
    default: sg_no_rule(d, "a view"); break;
    }
}

/* ---- joins ------------------------------------------------------------------------------------------------------ */

/* The formulas cut out every part, wanted or not. */
void sg_derive_join(sg_derivation *d) {
    sg_graph *g = d->g;
    bool stack = d->node.rule == SG_RULE_STACK;
    int dim = (int)(stack ? d->node.number[0] : d->op.attrs.dim);
    int64_t start = 0;
    for (int i = 0; i < d->node.n_in && !g->failed; i++) {
        int64_t length = stack ? 1 : sg_graph_desc(g, d->in[i])->size[dim];
        d->dx[i] = stack ? sg_select(g, d->dy[0], dim, i) : sg_slice(g, d->dy[0], dim, start, length);
        start += length;
    }
}

/* Padding by negative amounts: narrow what was padded, then copy. */
void sg_derive_pad(sg_derivation *d) {
    sg_graph *g = d->g;
    const sg_desc x = *sg_graph_desc(g, d->in[0]), y = *sg_graph_desc(g, d->out[0]);
    sg_tid dx = d->dy[0];
    for (int i = 0; i < 2; i++) {
        int dim = x.ndim - 1 - i;
        if (y.size[dim] != x.size[dim]) dx = sg_slice(g, dx, dim, d->op.attrs.pad[1 - i], x.size[dim]);
    }
    d->dx[0] = sg_clone(g, dx);
}

/* ---- reductions ------------------------------------------------------------------------------------------------- */

void sg_derive_reduce(sg_derivation *d) {
    sg_graph *g = d->g;
    sg_fn fn = (sg_fn)d->op.attrs.fn;
    if (fn != SG_FN_SUM && fn != SG_FN_MEAN) {
        sg_no_rule(d, sg_fn_name(fn));
        return;
    }
    const sg_desc x = *sg_graph_desc(g, d->in[0]);
    sg_tid dx = d->dy[0];
    bool keeps = d->node.number[0] != 0, all = d->op.attrs.dims_mask == (1u << x.ndim) - 1;
    int64_t count = 1;
    for (int dim = 0; dim < x.ndim; dim++) {
        if (!(d->op.attrs.dims_mask & 1u << dim)) continue;
        count *= x.size[dim];
        if (!keeps && !all) dx = sg_unsqueeze(g, dx, dim);
    }
    if (d->op.attrs.dims_mask) dx = sg_expand(g, dx, x.ndim, x.size);
    d->dx[0] = fn == SG_FN_MEAN ? sg_unary(g, SG_FN_DIV_SCALAR, dx, (double)count, 0) : dx;
}
