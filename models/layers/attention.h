/* attention.h: multi-head attention as torch.nn.MultiheadAttention with dropout on the weights.
 *
 * Eager: tokens come first, x[t, b, width], and the mean of the weights over heads is computed because the module
 * is asked for weights (need_weights=True) though nobody reads them. Native: x[b, t, width], heads are strided
 * views, the scale is inside the product, query and key are one product where they are made from the same tokens. */
#ifndef SG_MODELS_LAYERS_ATTENTION_H
#define SG_MODELS_LAYERS_ATTENTION_H

#include "models/layers/linear.h"

typedef struct sg_mha_layer {
    const char *name;
    int64_t width, heads;
    double dropout;
    sg_tid in_weight, in_bias; /* [3 width, width], [3 width]: query, key, value */
    sg_linear_layer out;
} sg_mha_layer;

/* True where this profile keeps the batch first: [b, t, width]. */
bool sg_batch_first(const sg_graph *g);
/* Dim of the batch in a token tensor of this profile. */
int sg_token_batch_dim(const sg_graph *g);

sg_mha_layer sg_mha_make(sg_graph *g, const char *name, int64_t width, int64_t heads, double dropout,
                         sg_layer_style style);
/* query[t,b,w], key and value[s,b,w] (native: batch first) -> [t,b,w]. padding: bool[b, s], true = ignore, or
 * SG_NO_TENSOR. */
sg_tid sg_mha_apply(sg_graph *g, const sg_mha_layer *layer, sg_tid query, sg_tid key, sg_tid value, sg_tid padding);

#endif
