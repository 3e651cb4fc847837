/* pi.h: configuration, parameters and batch of pi0 and pi05, shared by their files. */
#ifndef SG_MODELS_FAMILIES_PI_H
#define SG_MODELS_FAMILIES_PI_H

#include "models/families/vla.h"
#include "models/layers/gemma.h"

/* Names of the parts, under "model.paligemma_with_expert". */
#define SG_PI_TOWER     "paligemma.model.vision_tower.vision_model"
#define SG_PI_PROJECTOR "paligemma.model.multi_modal_projector"
#define SG_PI_LANGUAGE  "paligemma.model.language_model"
#define SG_PI_EXPERT    "gemma_expert.model"

typedef struct sg_pi {
    sg_vla vla;    /* dtype: of projections, embedding and heads of language model and expert; all else is fp32 */
    bool adaptive; /* pi05: the state is in the prompt, time steers the expert's norms */
    int64_t blanks;
    bool checkpoint;
    bool tied;   /* the language model's head is its embedding, as in releases before 2026: no tensor of its own */
    bool nested; /* checkpointing wraps the stack of layers too, not only each layer */
    int64_t condition; /* width of what steers the expert's norms; 0: nothing does */

    sg_linear_layer projector;
    sg_gemma_layer *text, *expert;
    sg_gemma_norm text_norm, expert_norm;
    sg_tid no_block, new_block; /* buffers [1, n]: zeros and ones: where attention blocks start */
} sg_pi;

/* The training forward: -> scalar loss (flow matching, mean squared error). `policy` is an sg_pi. */
sg_tid sg_pi_forward(sg_graph *g, void *policy);
/* Tokens of one camera; of the prefix: cameras, blanks, language; of the suffix: the state (pi0) and the actions. */
int64_t sg_pi_image_tokens(const sg_pi *m);
int64_t sg_pi_prefix(const sg_pi *m);
int64_t sg_pi_suffix(const sg_pi *m);

#endif
