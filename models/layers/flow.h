/* flow.h: flow matching over action chunks, as openpi's policies and SmolVLA train: noise is moved towards the actions. */
#ifndef SG_MODELS_LAYERS_FLOW_H
#define SG_MODELS_LAYERS_FLOW_H

#include "models/ops.h"

/* x[.., n] -> [.., width], zeros behind; x itself when it is that wide. */
sg_tid sg_pad_features(sg_graph *g, sg_tid x, int64_t width);

typedef struct sg_flow {
    sg_tid time;   /* [b], Beta(1.5, 1) moved off the ends: 0 is the action, 1 the noise */
    sg_tid noisy;  /* as the actions: time noise + (1 - time) actions */
    sg_tid target; /* noise - actions: what the policy is to say */
} sg_flow;
/* Draws noise and time for actions[b, t, n]. */
sg_flow sg_flow_make(sg_graph *g, sg_tid actions);

#endif
