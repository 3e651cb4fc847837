/* mlp.h: linear layers with an activation between them. */
#ifndef SG_MODELS_LAYERS_MLP_H
#define SG_MODELS_LAYERS_MLP_H

#include "models/layers/linear.h"

enum { SG_MLP_MAX_LAYERS = 17 };

typedef struct sg_mlp {
    const char *name;
    sg_fn activation;
    int count;
    sg_linear_layer layer[SG_MLP_MAX_LAYERS];
} sg_mlp;

/* in -> hidden[0] -> .. -> out; layers are named 0, 2, 4 .. as in a torch.nn.Sequential with activations between. */
sg_mlp sg_mlp_make(sg_graph *g, const char *name, int64_t in, const int64_t *hidden, size_t n_hidden, int64_t out,
                   sg_fn activation, sg_layer_style style);
sg_tid sg_mlp_apply(sg_graph *g, const sg_mlp *mlp, sg_tid x);
/* RELU, ELU, TANH, SILU or GELU_ERF by its name in lower case ("gelu"). */
sg_fn sg_activation_named(const char *name);

#endif
