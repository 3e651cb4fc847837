/* rotary.h: rotary positions of SmolVLA: the two halves of a head turn against each other. */
#ifndef SG_MODELS_LAYERS_ROTARY_H
#define SG_MODELS_LAYERS_ROTARY_H

#include "models/ops.h"

/* Sines and cosines [b, t, 1, head / 2] fp32 of positions[b, t] (i64). */
typedef struct sg_rotary {
    sg_tid positions;
    int64_t head;
    sg_tid sine, cosine; /* native: made once per forward; eager: SG_NO_TENSOR, made anew at every use */
} sg_rotary;

/* The table over some tokens, as one of the policy's layers asks for it. */
sg_rotary sg_rotary_make(sg_graph *g, sg_tid positions, int64_t head);
/* x[b, t, heads, head] -> the same shape and dtype, turned in fp32. Eager: 18 ops. */
sg_tid sg_rotary_apply(sg_graph *g, const sg_rotary *rotary, sg_tid x);

#endif
