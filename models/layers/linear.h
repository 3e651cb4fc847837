/* linear.h: y = act(x W^T + b), as torch.nn.Linear. */
#ifndef SG_MODELS_LAYERS_LINEAR_H
#define SG_MODELS_LAYERS_LINEAR_H

#include "models/ops.h"

/* What the parameters of a layer have in common. */
typedef struct sg_layer_style {
    sg_dtype dtype;
    bool frozen; /* requires_grad = False */
    bool xavier; /* weights from Xavier's uniform distribution, else PyTorch's default for Linear */
} sg_layer_style;

typedef struct sg_linear_layer {
    const char *name;
    sg_tid weight, bias; /* weight[out, in], bias[out] or SG_NO_TENSOR */
} sg_linear_layer;

sg_linear_layer sg_linear_make(sg_graph *g, const char *name, int64_t in, int64_t out, bool bias, sg_layer_style style);
/* x[.., in] -> [.., out] */
sg_tid sg_linear_apply(sg_graph *g, const sg_linear_layer *layer, sg_tid x);
/* With an activation (SG_FN_NONE: none), fused where the profile fuses. */
sg_tid sg_linear_apply_act(sg_graph *g, const sg_linear_layer *layer, sg_tid x, sg_fn act);

/* A parameter with normal or constant values, for embeddings and tables. */
sg_tid sg_param_normal(sg_graph *g, const char *name, int ndim, const int64_t *size, double sd, sg_layer_style style);
sg_tid sg_param_constant(sg_graph *g, const char *name, int ndim, const int64_t *size, double value,
                         sg_layer_style style);
/* `count` zeroed elements of `size` bytes for layers, to be freed; NULL: out of memory, which fails the graph. */
void *sg_layers_alloc(sg_graph *g, int64_t count, size_t size);
/* A buffer (statistics, tables): not a parameter. */
sg_tid sg_buffer(sg_graph *g, const char *name, int ndim, const int64_t *size, double value);

#endif
