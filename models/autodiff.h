/* autodiff.h: what the gradient rules share. One rule per primitive op kind and per kind of view; each emits what
 * PyTorch's formula for it runs (tools/autograd/derivatives.yaml and the functions it names), in the order it runs, and
 * reads only what PyTorch saves. */
#ifndef SG_MODELS_AUTODIFF_H
#define SG_MODELS_AUTODIFF_H

#include "models/graph_state.h"

/* A node under derivation: its tensors, the gradients of its outputs, and where those of its inputs go. */
typedef struct sg_derivation {
    sg_graph *g;
    sg_node node;
    sg_op op;               /* of an op node */
    const sg_tid *in, *out; /* as the backward reads them: made again where the forward kept nothing */
    const sg_tid *recorded; /* inputs, then outputs, as the forward recorded them: where gradients gather */
    const sg_tid *dy;       /* n_out; SG_NO_TENSOR: none arrived, counts as zero */
    sg_tid *dx; /* n_in, SG_NO_TENSOR to begin with; may be larger than the input: it is summed to its shape */
} sg_derivation;

/* True when input i needs a gradient. */
static inline bool sg_wants(const sg_derivation *d, int i) {
    return i < d->node.n_in && d->g->tensor_state.at[d->in[i]].requires_grad;
}

/* Which of a node's tensors its backward keeps: bit i = input i, output i. */
typedef struct sg_saved {
    uint32_t inputs, outputs;
} sg_saved;
sg_saved sg_node_saved(const sg_graph *g, const sg_node *node);
/* What the node keeps gets the role SAVED and lives until entry `until`. */
void sg_keep_saved(sg_graph *g, const sg_node *node, size_t until);
/* A held tensor holds its graph, and the graph what it saved. Uses the tensors' `wanted` marks and leaves them clear. */
void sg_keep_graph_of(sg_graph *g, const sg_tid *held, size_t n, size_t until);

void sg_derive_view(sg_derivation *d);            /* autodiff_view.c */
void sg_derive_reduce(sg_derivation *d);          /* autodiff_view.c */
void sg_derive_join(sg_derivation *d);            /* autodiff_view.c: CAT and stack */
void sg_derive_pad(sg_derivation *d);             /* autodiff_view.c */
void sg_derive_unary(sg_derivation *d);           /* autodiff_elementwise.c */
void sg_derive_binary(sg_derivation *d);          /* autodiff_elementwise.c */
void sg_derive_ternary(sg_derivation *d);         /* autodiff_elementwise.c */
void sg_derive_dropout(sg_derivation *d);         /* autodiff_elementwise.c */
void sg_derive_matmul(sg_derivation *d);          /* autodiff_product.c */
void sg_derive_conv(sg_derivation *d);            /* autodiff_conv.c */
void sg_derive_transposed_conv(sg_derivation *d); /* autodiff_conv.c */
void sg_derive_attention(sg_derivation *d);       /* autodiff_product.c */
void sg_derive_embedding(sg_derivation *d);       /* autodiff_rows.c */
void sg_derive_softmax(sg_derivation *d);         /* autodiff_rows.c */
void sg_derive_norm(sg_derivation *d);            /* autodiff_rows.c */
void sg_derive_channel_norm(sg_derivation *d);    /* autodiff_rows.c */
void sg_derive_max_pool(sg_derivation *d);        /* autodiff_rows.c */

/* The node's output 0 as its backward reads it: unpacking a saved output makes a detached view. */
sg_tid sg_saved_output(sg_derivation *d);
/* The gradient before the activation inside a product or convolution. */
sg_tid sg_undo_activation(sg_derivation *d);
/* dx of fn by UNARY_BWD. s: fn's input or output, as sg_fn_saves_output says. */
sg_tid sg_unary_backward(sg_graph *g, const sg_attrs *forward, sg_fn fn, sg_tid dy, sg_tid s);
/* x's layout when it is dense, else dense in the order of its strides. */
sg_desc sg_desc_like(const sg_desc *x);
/* Makes the graph fail: this op has no gradient. */
void sg_no_rule(sg_derivation *d, const char *what);

#endif
