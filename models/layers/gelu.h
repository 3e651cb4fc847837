/* gelu.h: activations by the names that Hugging Face configurations use. */
#ifndef SG_MODELS_LAYERS_GELU_H
#define SG_MODELS_LAYERS_GELU_H

#include "models/ops.h"

typedef enum sg_activation { SG_ACTIVATION_RELU, SG_ACTIVATION_GELU, SG_ACTIVATION_GELU_NEW } sg_activation;

/* "relu", "gelu", "gelu_new" */
sg_activation sg_activation_of(const char *name);
/* 1 op; "gelu_new" in eager is 8: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), each step a call. */
sg_tid sg_activation_apply(sg_graph *g, sg_activation activation, sg_tid x);

#endif
