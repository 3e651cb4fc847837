/* grouped.c: SmolVLA's attention: fp32 scores of few key heads repeated for many query heads, under a boolean mask. */
#include "models/layers/grouped.h"

#include <float.h>
#include <math.h>

typedef struct sizes {
    int64_t batch, queries, keys, heads, kv_heads, head;
} sizes;

/* [b, s, kv_heads, head] -> [b, s, heads, head], each head repeated in place. */
static sg_tid repeat_heads(sg_graph *g, const sizes *n, sg_tid x) {
    if (n->heads == n->kv_heads) return x;
    int64_t group = n->heads / n->kv_heads;
    x = sg_expand(g, sg_unsqueeze(g, x, 3), 5, (int64_t[]){n->batch, n->keys, n->kv_heads, group, n->head});
    return sg_reshape(g, x, 4, (int64_t[]){n->batch, n->keys, n->heads, n->head});
}

static sg_tid attend_composed(sg_graph *g, const sizes *n, sg_tid q, sg_tid k, sg_tid v, sg_tid mask) {
    sg_dtype dtype = (sg_dtype)sg_desc_of(g, v)->dtype;
    q = sg_transpose(g, sg_to(g, q, SG_F32), 1, 2);
    k = sg_transpose(g, sg_to(g, k, SG_F32), 1, 2);
    sg_tid scores = sg_matmul(g, q, sg_transpose(g, k, 2, 3));
    scores = sg_unary_in_place(g, SG_FN_AFFINE, scores, 1.0 / sqrt((double)n->head), 0);
    sg_tid lowest = sg_full(g, SG_F32, 0, NULL, -FLT_MAX);
    scores = sg_where(g, sg_unsqueeze(g, mask, 1), scores, lowest);
    sg_tid weights = sg_to(g, sg_softmax(g, scores), dtype);
    sg_tid out = sg_matmul(g, weights, sg_permute(g, v, (int[]){0, 2, 1, 3}));
    return sg_permute(g, out, (int[]){0, 2, 1, 3});
}

static sg_tid attend_fused(sg_graph *g, sg_tid q, sg_tid k, sg_tid v, sg_tid mask) {
    q = sg_transpose(g, q, 1, 2);
    k = sg_transpose(g, k, 1, 2);
    v = sg_transpose(g, v, 1, 2);
    return sg_transpose(g, sg_attention(g, q, k, v, sg_unsqueeze(g, mask, 1)), 1, 2);
}

sg_tid sg_grouped_attention(sg_graph *g, sg_tid q, sg_tid k, sg_tid v, sg_tid mask) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc *query = sg_desc_of(g, q), *key = sg_desc_of(g, k);
    sizes n = {query->size[0], query->size[1], key->size[1], query->size[2], key->size[2], query->size[3]};
    k = repeat_heads(g, &n, k);
    v = repeat_heads(g, &n, v);
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    bool eager = sg_by_call(sg_graph_profile(g));
    sg_tid out = eager ? attend_composed(g, &n, q, k, v, mask) : attend_fused(g, q, k, v, mask);
    return sg_reshape(g, out, 3, (int64_t[]){n.batch, n.queries, n.heads * n.head});
}
