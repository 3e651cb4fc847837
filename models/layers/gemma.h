/* gemma.h: a Gemma decoder layer without its attention, as openpi's PyTorch port has it: RMS norms in fp32 whose weight is
 * counted from 1, or that are steered by a condition (adaRMS), GELU-gated MLP, residuals with gates.
 * (lerobot/policies/pi_gemma.py: PiGemmaRMSNorm, _gated_residual; pi05: compute_layer_complete.) */
#ifndef SG_MODELS_LAYERS_GEMMA_H
#define SG_MODELS_LAYERS_GEMMA_H

#include "models/layers/projections.h"

typedef struct sg_gemma_norm {
    const char *name;
    sg_tid weight;         /* [width], 0 leaves the input's scale; SG_NO_TENSOR: by the condition */
    sg_linear_layer dense; /* condition -> scale, shift, gate: [3 width, condition] */
} sg_gemma_norm;

typedef struct sg_gemma_layer {
    sg_projections projections;
    sg_gemma_norm input_norm, post_norm;
} sg_gemma_layer;

/* condition: width of what steers the norm; 0: it has a weight of its own. */
sg_gemma_norm sg_gemma_norm_make(sg_graph *g, const char *name, int64_t width, int64_t condition, sg_layer_style style);
/* x[b, t, width] normed over its last dim, in x's dtype. condition[b, c] or SG_NO_TENSOR; *gate: [b, 1, width] for the residual
 * behind what follows, SG_NO_TENSOR without a condition. */
sg_tid sg_gemma_norm_apply(sg_graph *g, const sg_gemma_norm *norm, sg_tid x, sg_tid condition, sg_tid *gate);

/* condition: as above; style: of the projections; norm_style: of the norms, which the port keeps in fp32. */
sg_gemma_layer sg_gemma_make(sg_graph *g, const char *name, const sg_decoder_config *config, int64_t condition,
                             sg_layer_style style, sg_layer_style norm_style);
/* The input norm, in the projections' dtype. */
sg_tid sg_gemma_normed(sg_graph *g, const sg_gemma_layer *layer, sg_tid x, sg_tid condition, sg_tid *gate);
/* Output projection of attended[b, t, heads head], residual x[b, t, width] with the input norm's gate, norm, gated MLP,
 * residual. */
sg_tid sg_gemma_finish(sg_graph *g, const sg_gemma_layer *layer, sg_tid x, sg_tid attended, sg_tid condition,
                       sg_tid gate);

#endif
