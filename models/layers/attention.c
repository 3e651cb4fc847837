/* attention.c: multi-head attention as torch.nn.MultiheadAttention with dropout on the weights. */
#include "models/layers/attention.h"

#include <math.h>

#include "models/layers/into.h"
#include "models/layers/products.h"

bool sg_batch_first(const sg_graph *g) {
    return sg_graph_profile(g)->framework == SG_FRAMEWORK_NATIVE;
}

int sg_token_batch_dim(const sg_graph *g) {
    return sg_batch_first(g) ? 0 : 1;
}

sg_mha_layer sg_mha_make(sg_graph *g, const char *name, int64_t width, int64_t heads, double dropout,
                         sg_layer_style style) {
    sg_mha_layer layer = {.name = sg_graph_text(g, "%s", name), .width = width, .heads = heads, .dropout = dropout};
    sg_param_spec spec = {.dtype = style.dtype, .frozen = style.frozen, .init = SG_INIT_UNIFORM};
    spec.scale = sqrt(6.0 / (4.0 * (double)width)); /* Xavier over the stacked [3 width, width] */
    sg_module_begin(g, "%s", name);
    layer.in_weight = sg_param(g, "in_proj_weight", 2, (int64_t[]){3 * width, width}, spec);
    layer.in_bias = sg_param_constant(g, "in_proj_bias", 1, (int64_t[]){3 * width}, 0.0, style);
    layer.out = sg_linear_make(g, "out_proj", width, width, true, style);
    sg_module_end(g);
    return layer;
}

typedef struct sizes {
    int64_t batch, heads, width, head, queries, keys;
} sizes;

/* ---- eager: tokens first, heads inside the batch dim ---- */

/* bool[b, s] -> additive [b heads, 1, s] */
static sg_tid additive_mask(sg_graph *g, const sizes *n, sg_tid padding) {
    sg_tid zeros = sg_full(g, sg_float(g), 2, (int64_t[]){n->batch, n->keys}, 0.0);
    sg_tid mask = sg_masked_fill(g, zeros, padding, -INFINITY);
    mask = sg_view(g, mask, 4, (int64_t[]){n->batch, 1, 1, n->keys});
    mask = sg_expand(g, mask, 4, (int64_t[]){n->batch, n->heads, 1, n->keys});
    return sg_reshape(g, mask, 3, (int64_t[]){n->batch * n->heads, 1, n->keys});
}

/* [t, b, width] -> [b heads, t, head] */
static sg_tid split_heads(sg_graph *g, const sizes *n, sg_tid x, int64_t tokens) {
    sg_tid heads = sg_view(g, x, 3, (int64_t[]){tokens, n->batch * n->heads, n->head});
    return sg_transpose(g, heads, 0, 1);
}

static sg_tid attend_eager(sg_graph *g, const sg_mha_layer *layer, const sizes *n, const sg_tid in[3], sg_tid padding) {
    sg_tid mask = padding == SG_NO_TENSOR ? SG_NO_TENSOR : additive_mask(g, n, padding);
    sg_tid weight[3], bias[3], part[3];
    sg_chunk(g, layer->in_weight, 0, 3, weight);
    sg_chunk(g, layer->in_bias, 0, 3, bias);
    for (int i = 0; i < 3; i++) part[i] = sg_linear(g, in[i], weight[i], bias[i]);
    for (int i = 0; i < 3; i++) part[i] = split_heads(g, n, part[i], i ? n->keys : n->queries);
    sg_tid query = sg_scale(g, part[0], 1.0 / sqrt((double)n->head));
    sg_tid keys = sg_transpose(g, part[1], -2, -1);
    sg_tid scores = mask == SG_NO_TENSOR ? sg_matmul(g, query, keys) : sg_baddbmm(g, mask, query, keys);
    sg_tid weights = sg_dropout(g, sg_softmax(g, scores), layer->dropout, 0, (int)n->heads);
    sg_tid mixed = sg_transpose(g, sg_matmul(g, weights, part[2]), 0, 1);
    mixed = sg_reshape(g, mixed, 2, (int64_t[]){n->queries * n->batch, n->width});
    sg_tid y = sg_view(g, sg_linear_apply(g, &layer->out, mixed), 3, (int64_t[]){n->queries, n->batch, n->width});
    if (sg_graph_profile(g)->unused_results) {
        weights = sg_view(g, weights, 4, (int64_t[]){n->batch, n->heads, n->queries, n->keys});
        (void)sg_reduce(g, SG_FN_MEAN, weights, 1u << 1, false);
    }
    return y;
}

/* ---- native: batch first, heads as strided views ---- */

/* [b, t, width] -> [b, heads, t, head] without a copy */
static sg_tid view_heads(sg_graph *g, const sizes *n, sg_tid x, int64_t tokens) {
    sg_tid heads = sg_view(g, x, 4, (int64_t[]){n->batch, tokens, n->heads, n->head});
    return sg_transpose(g, heads, 1, 2);
}

static void project_native(sg_graph *g, const sg_mha_layer *layer, const sizes *n, const sg_tid in[3], sg_tid part[3]) {
    bool joint = in[0] == in[1];
    int64_t w = n->width, lengths[] = {joint ? 2 * w : w, w, w};
    int parts = joint ? 2 : 3;
    sg_tid weight[3], bias[3];
    sg_split(g, layer->in_weight, 0, parts, lengths, weight);
    sg_split(g, layer->in_bias, 0, parts, lengths, bias);
    if (joint) {
        sg_chunk(g, sg_linear(g, in[0], weight[0], bias[0]), -1, 2, part);
    } else {
        for (int i = 0; i < 2; i++) part[i] = sg_linear(g, in[i], weight[i], bias[i]);
    }
    part[2] = sg_linear(g, in[2], weight[parts - 1], bias[parts - 1]);
    for (int i = 0; i < 3; i++) part[i] = view_heads(g, n, part[i], i ? n->keys : n->queries);
}

static sg_tid attend_native(sg_graph *g, const sg_mha_layer *layer, const sizes *n, const sg_tid in[3],
                            sg_tid padding) {
    sg_tid part[3], mask = SG_NO_TENSOR;
    project_native(g, layer, n, in, part);
    if (padding != SG_NO_TENSOR) {
        mask = sg_full(g, sg_float(g), 2, (int64_t[]){n->batch, n->keys}, 0.0);
        mask = sg_masked_fill(g, mask, padding, -INFINITY);
        mask = sg_view(g, mask, 4, (int64_t[]){n->batch, 1, 1, n->keys});
    }
    sg_tid keys = sg_transpose(g, part[1], -2, -1);
    sg_tid scores = sg_matmul_scaled(g, part[0], keys, 1.0 / sqrt((double)n->head), mask);
    sg_tid weights = sg_dropout(g, sg_softmax_in_place(g, scores), layer->dropout, 0, 1);
    sg_tid mixed = sg_matmul_heads(g, weights, part[2]);
    mixed = sg_view(g, sg_transpose(g, mixed, 1, 2), 3, (int64_t[]){n->batch, n->queries, n->width});
    return sg_linear_apply(g, &layer->out, mixed);
}

sg_tid sg_mha_apply(sg_graph *g, const sg_mha_layer *layer, sg_tid query, sg_tid key, sg_tid value, sg_tid padding) {
    const sg_desc *q = sg_desc_of(g, query), *k = sg_desc_of(g, key);
    if (!q || !k) return SG_NO_TENSOR;
    int batch_dim = sg_token_batch_dim(g), token_dim = 1 - batch_dim;
    sizes n = {q->size[batch_dim],          layer->heads,       layer->width,
               layer->width / layer->heads, q->size[token_dim], k->size[token_dim]};
    const sg_tid in[] = {query, key, value};
    sg_module_begin(g, "%s", layer->name);
    sg_tid y = sg_batch_first(g) ? attend_native(g, layer, &n, in, padding) : attend_eager(g, layer, &n, in, padding);
    sg_module_end(g);
    return y;
}
