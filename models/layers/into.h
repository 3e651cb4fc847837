/* into.h: ops that write tensors which exist already (a preprocessed batch, rollout storage, statistics). No gradient,
 * but for the softmax. */
#ifndef SG_MODELS_LAYERS_INTO_H
#define SG_MODELS_LAYERS_INTO_H

#include "models/ops.h"

/* out = x, of the same shape; converts. */
void sg_copy_into(sg_graph *g, sg_tid x, sg_tid out);
/* out = fn(x) */
void sg_unary_into(sg_graph *g, sg_fn fn, sg_tid x, double alpha, double beta, sg_tid out);
/* out = fn(x, y); y broadcasts to out. */
void sg_binary_into(sg_graph *g, sg_fn fn, sg_tid x, sg_tid y, sg_tid out);
/* out = x + y z; x and z broadcast to out, y has its shape. */
void sg_addcmul_into(sg_graph *g, sg_tid x, sg_tid y, sg_tid z, sg_tid out);

/* Softmax over the last dim in x's own memory, with gradient: x's values are gone. */
sg_tid sg_softmax_in_place(sg_graph *g, sg_tid x);

#endif
