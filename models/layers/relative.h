/* relative.h: T5's relative positions: one learned number per head and bucket of distances, added to attention scores. */
#ifndef SG_MODELS_LAYERS_RELATIVE_H
#define SG_MODELS_LAYERS_RELATIVE_H

#include "models/ops.h"

typedef struct sg_relative {
    int64_t buckets, max_distance; /* buckets even; max_distance above buckets / 2 */
    bool both_sides;               /* keys behind the query have buckets of their own (an encoder) */
} sg_relative;

/* table[buckets, heads] -> [1, heads, t, t], in memory [t, t, heads]: 14 ops (11 of one side). */
sg_tid sg_relative_bias(sg_graph *g, const sg_relative *relative, sg_tid table, int64_t tokens);

#endif
