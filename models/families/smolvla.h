/* smolvla.h: SmolVLA's configuration, parameters and batch, shared by its two files. */
#ifndef SG_MODELS_FAMILIES_SMOLVLA_H
#define SG_MODELS_FAMILIES_SMOLVLA_H

#include "models/families/vla.h"
#include "models/layers/decoder.h"

/* Names of its parts, under "model.vlm_with_expert". */
#define SG_VISION_MODEL "vlm.model.vision_model"
#define SG_CONNECTOR    "vlm.model.connector"
#define SG_TEXT_MODEL   "vlm.model.text_model"
#define SG_EXPERT_MODEL "lm_expert"

typedef struct sg_smolvla {
    sg_vla vla;                /* dtype: of vision, language and expert weights; the five small projections are fp32 */
    int64_t self_every, scale; /* self_every: each n-th layer is joint; 0 or less: none */
    bool train_state;

    sg_linear_layer connector, lm_head;
    sg_decoder_layer *text, *expert;
    sg_norm_layer text_norm, expert_norm;
    /* Buffers: zeros [1, prefix - 1] and ones [1, 1 + chunk]: where attention blocks start. */
    sg_tid no_block, new_block;
} sg_smolvla;

/* The training forward: -> scalar loss (flow matching, mean squared error). `policy` is an sg_smolvla. */
sg_tid sg_smolvla_forward(sg_graph *g, void *policy);
/* Tokens of one camera, and of the prefix: cameras, language, state. */
int64_t sg_smolvla_image_tokens(const sg_smolvla *m);
int64_t sg_smolvla_prefix(const sg_smolvla *m);
/* True where layer `index` attends over prefix and actions together. */
bool sg_smolvla_is_joint(const sg_smolvla *m, int64_t index);

#endif
