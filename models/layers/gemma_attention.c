/* gemma_attention.c: attention of Gemma's layers over tokens of several streams. */
#include "models/layers/gemma_attention.h"

#include <math.h>

#include "models/layers/grouped.h"

enum { MAX_STREAMS = 4 };
static const double wavelength = 10000.0;   /* Gemma's rope_theta */
static const double masked = -2.3819763e38; /* openpi: OPENPI_ATTENTION_MASK_VALUE */

static bool is_eager(const sg_graph *g) {
    return sg_by_call(sg_graph_profile(g));
}

/* wavelength^(-2 i / head); the power of a constant is an exponential of a multiple. */
static sg_tid frequencies(sg_graph *g, int64_t head) {
    sg_tid index = sg_arange(g, SG_F32, 0, 1, head / 2);
    return sg_unary(g, SG_FN_EXP, sg_scale(g, index, -2.0 / (double)head * log(wavelength)), 0, 0);
}

static sg_tid additive(sg_graph *g, sg_tid seen) {
    sg_tid zero = sg_full(g, SG_F32, 0, NULL, 0.0), low = sg_full(g, SG_F32, 0, NULL, masked);
    return sg_where(g, sg_unsqueeze(g, seen, 1), zero, low);
}

sg_gemma_attention sg_gemma_attention_make(sg_graph *g, int64_t head, sg_tid positions, sg_tid seen) {
    sg_gemma_attention a = {.head = head, .positions = positions, .frequency = SG_NO_TENSOR, .mask = seen};
    if (!is_eager(g)) {
        a.rotary = sg_rotary_make(g, positions, head);
        return a;
    }
    a.frequency = frequencies(g, head);
    a.mask = additive(g, seen);
    return a;
}

/* ---- eager ---- */

typedef struct sizes {
    int64_t batch, tokens, heads, kv_heads, head;
} sizes;

/* The streams' heads [b, t_i, h, head] as one [b, h, t, head]. */
static sg_tid join_streams(sg_graph *g, int n, const sg_tid *x) {
    sg_tid turned[MAX_STREAMS];
    for (int i = 0; i < n; i++) turned[i] = sg_transpose(g, x[i], 1, 2);
    return sg_cat(g, n, turned, 2);
}

/* GemmaRotaryEmbedding, made anew in each layer: cosines and sines [b, 1, t, head] in `dtype`. */
static void rotary_table(sg_graph *g, const sg_gemma_attention *a, const sizes *n, sg_dtype dtype, sg_tid *cosine,
                         sg_tid *sine) {
    (void)sg_full(g, dtype, 3, (int64_t[]){n->batch, n->tokens, n->head}, 0.0); /* asked only for its dtype */
    sg_tid frequency = sg_unsqueeze(g, sg_unsqueeze(g, a->frequency, 0), 2);
    frequency = sg_expand(g, frequency, 3, (int64_t[]){n->batch, n->head / 2, 1});
    sg_tid position = sg_to(g, sg_unsqueeze(g, a->positions, 1), SG_F32);
    sg_tid half = sg_transpose(g, sg_matmul(g, frequency, position), 1, 2), both[] = {half, half};
    sg_tid angle = sg_cat(g, 2, both, -1);
    *cosine = sg_scale(g, sg_unary(g, SG_FN_COS, angle, 0, 0), 1.0); /* the attention's scaling */
    *sine = sg_scale(g, sg_unary(g, SG_FN_SIN, angle, 0, 0), 1.0);
    *cosine = sg_unsqueeze(g, sg_to(g, *cosine, dtype), 1);
    *sine = sg_unsqueeze(g, sg_to(g, *sine, dtype), 1);
}

/* x cosine + (-second half, first half) sine */
static sg_tid turn(sg_graph *g, sg_tid x, sg_tid cosine, sg_tid sine, int64_t head) {
    sg_tid first = sg_slice(g, x, -1, 0, head / 2), second = sg_slice(g, x, -1, head / 2, head / 2);
    sg_tid straight = sg_mul(g, x, cosine);
    sg_tid halves[] = {sg_unary(g, SG_FN_NEG, second, 0, 0), first};
    sg_tid crossed = sg_mul(g, sg_cat(g, 2, halves, -1), sine);
    return sg_add(g, straight, crossed);
}

/* [b, kv_heads, t, head] -> [b, heads, t, head] */
static sg_tid repeat_heads(sg_graph *g, const sizes *n, sg_tid x) {
    if (n->heads == n->kv_heads) return x;
    int64_t group = n->heads / n->kv_heads;
    x = sg_expand(g, sg_unsqueeze(g, x, 2), 5, (int64_t[]){n->batch, n->kv_heads, group, n->tokens, n->head});
    return sg_reshape(g, x, 4, (int64_t[]){n->batch, n->heads, n->tokens, n->head});
}

static sg_tid attend_eager(sg_graph *g, const sg_gemma_attention *a, int n_streams, const sg_tid *query,
                           const sg_tid *key, const sg_tid *value) {
    sg_tid q = join_streams(g, n_streams, query), k = join_streams(g, n_streams, key),
           v = join_streams(g, n_streams, value), cosine, sine;
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc shape = *sg_desc_of(g, q);
    const sizes n = {shape.size[0], shape.size[2], shape.size[1], sg_desc_of(g, k)->size[1], shape.size[3]};
    sg_dtype dtype = (sg_dtype)shape.dtype;
    rotary_table(g, a, &n, dtype, &cosine, &sine);
    q = turn(g, q, cosine, sine, n.head);
    k = repeat_heads(g, &n, turn(g, k, cosine, sine, n.head));
    v = repeat_heads(g, &n, v);
    sg_tid scores = sg_scale(g, sg_matmul(g, q, sg_transpose(g, k, 2, 3)), 1.0 / sqrt((double)n.head));
    sg_tid weights = sg_to(g, sg_softmax(g, sg_to(g, sg_add(g, scores, a->mask), SG_F32)), dtype);
    sg_tid out = sg_contiguous(g, sg_transpose(g, sg_matmul(g, weights, v), 1, 2));
    return sg_reshape(g, out, 3, (int64_t[]){n.batch, n.tokens, n.heads * n.head});
}

/* ---- native ---- */

static sg_tid attend_native(sg_graph *g, const sg_gemma_attention *a, int n_streams, const sg_tid *query,
                            const sg_tid *key, const sg_tid *value) {
    sg_tid q = sg_cat(g, n_streams, query, 1), k = sg_cat(g, n_streams, key, 1), v = sg_cat(g, n_streams, value, 1);
    q = sg_rotary_apply(g, &a->rotary, q);
    k = sg_rotary_apply(g, &a->rotary, k);
    return sg_grouped_attention(g, q, k, v, a->mask);
}

sg_tid sg_gemma_attention_apply(sg_graph *g, const sg_gemma_attention *a, int n, const sg_tid *q, const sg_tid *k,
                                const sg_tid *v) {
    if (n > MAX_STREAMS) {
        sg_graph_fail(g, SG_BAD_INPUT, "attention over more than %d streams", MAX_STREAMS);
        return SG_NO_TENSOR;
    }
    return is_eager(g) ? attend_eager(g, a, n, q, k, v) : attend_native(g, a, n, q, k, v);
}
