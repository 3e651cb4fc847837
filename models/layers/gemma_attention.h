/* gemma_attention.h: attention of Gemma's layers over tokens of several streams: rotary positions, few key heads, additive
 * mask, softmax in fp32 (transformers: modeling_gemma.py, eager_attention_forward). */
#ifndef SG_MODELS_LAYERS_GEMMA_ATTENTION_H
#define SG_MODELS_LAYERS_GEMMA_ATTENTION_H

#include "models/layers/rotary.h"

typedef struct sg_gemma_attention {
    int64_t head;
    sg_tid positions; /* i64[b, t] */
    sg_tid frequency; /* eager: fp32[head / 2], what the framework keeps as a buffer (inv_freq) */
    sg_tid mask;      /* eager: added, fp32[b, 1, t, t]; native: bool[b, t, t], true = seen */
    sg_rotary rotary; /* native: made once per forward */
} sg_gemma_attention;

/* seen: bool[b, t, t]. Eager: made additive, 0 or openpi's large negative number. */
sg_gemma_attention sg_gemma_attention_make(sg_graph *g, int64_t head, sg_tid positions, sg_tid seen);
/* Of n streams q[i][b, t_i, heads, head], k[i] and v[i][b, t_i, kv_heads, head] -> [b, sum of t_i, heads head] */
sg_tid sg_gemma_attention_apply(sg_graph *g, const sg_gemma_attention *a, int n, const sg_tid *q, const sg_tid *k,
                                const sg_tid *v);

#endif
