/* heads.h: attention as the separate framework calls of Hugging Face's eager code: heads as a dim, scores, softmax,
 * dropout, weighted sum. What stands between scores and softmax (scale, mask, position bias) is the model's own. */
#ifndef SG_MODELS_LAYERS_HEADS_H
#define SG_MODELS_LAYERS_HEADS_H

#include "models/ops.h"

/* [b, t, heads head] -> [b, heads, t, head]: views. */
sg_tid sg_heads_split(sg_graph *g, sg_tid x, int64_t heads);
/* [b, heads, t, head] -> [b, t, heads head]: 1 copy. */
sg_tid sg_heads_join(sg_graph *g, sg_tid x);
/* q[b,h,t,d] k[b,h,s,d] -> [b,h,t,s] */
sg_tid sg_heads_scores(sg_graph *g, sg_tid query, sg_tid key);
/* scores[b,h,t,s] v[b,h,s,d] -> [b,h,t,d] */
sg_tid sg_heads_mix(sg_graph *g, sg_tid scores, sg_tid value, double dropout);
/* torch.finfo(dtype).min of what the graph's floats are: what masks put in place of a score. */
double sg_least_score(const sg_graph *g);
/* bool[1, 1, t, t], true where the row's token comes at or behind the column's: 2 ops. */
sg_tid sg_causal_mask(sg_graph *g, int64_t tokens);

#endif
