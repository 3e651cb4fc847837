/* position.h: sinusoidal positions that a policy computes anew in every forward. */
#ifndef SG_MODELS_LAYERS_POSITION_H
#define SG_MODELS_LAYERS_POSITION_H

#include "models/ops.h"

/* ACT's 2-D positions of a feature map: [1, width, h, w] (a view of [1, h, w, width] memory), width a multiple of 4.
 * like: a feature map [.., h, w], of which only the shape counts. 23 small ops. */
sg_tid sg_sine_position_2d(sg_graph *g, sg_tid like, int64_t width);

/* SmolVLA's embedding of a time in [0, 1]: time[b] -> [b, width] fp32, sines then cosines of periods from min_period to
 * max_period. Computed in fp64 where the framework does. */
sg_tid sg_time_embedding(sg_graph *g, sg_tid time, int64_t width, double min_period, double max_period);

/* Diffusion step[b] (i64) -> sines, then cosines [b, width]: DiffusionSinusoidalPosEmb; width even. */
sg_tid sg_step_embedding(sg_graph *g, sg_tid step, int64_t width);

#endif
