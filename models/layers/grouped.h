/* grouped.h: SmolVLA's attention: fp32 scores of few key heads repeated for many query heads, under a boolean mask. */
#ifndef SG_MODELS_LAYERS_GROUPED_H
#define SG_MODELS_LAYERS_GROUPED_H

#include "models/ops.h"

/* q[b, t, heads, head], k and v[b, s, kv_heads, head], mask bool[b, t, s] (true = seen) -> [b, t, heads head]. */
sg_tid sg_grouped_attention(sg_graph *g, sg_tid q, sg_tid k, sg_tid v, sg_tid mask);

#endif
