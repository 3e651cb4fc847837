/* pi.h: configuration, parameters and batch of pi0 and pi05, shared by their files. */
#ifndef SG_MODELS_FAMILIES_PI_H
#define SG_MODELS_FAMILIES_PI_H

#include "models/families/supervised.h"
#include "models/layers/gemma.h"
#include "models/layers/vision.h"

/* Names of the parts, under "model.paligemma_with_expert". */
#define SG_PI_TOWER     "paligemma.model.vision_tower.vision_model"
#define SG_PI_PROJECTOR "paligemma.model.multi_modal_projector"
#define SG_PI_LANGUAGE  "paligemma.model.language_model"
#define SG_PI_EXPERT    "gemma_expert.model"

typedef struct sg_pi {
    bool adaptive; /* pi05: the state is in the prompt, time steers the expert's norms */
    int64_t batch, cameras, blanks, height, width, state, action, chunk, max_state, max_action, language;
    int64_t layers, vocabulary;
    double min_period, max_period;
    bool freeze_vision, freeze_language, checkpoint;
    bool tied;      /* the language model's head is its embedding, as in releases before 2026: no tensor of its own */
    bool nested;    /* checkpointing wraps the stack of layers too, not only each layer */
    sg_dtype dtype; /* of projections, embedding and heads of language model and expert; all else is fp32 */
    sg_vision_config vision_config;
    sg_gemma_config text_config, expert_config;

    sg_tid frames[SG_LIMIT_CAMERAS], raw_state, raw_action, tokens, tokens_valid; /* from the loader */
    sg_tid image[SG_LIMIT_CAMERAS], state_in, action_in;                          /* preprocessed */
    sg_statistics state_statistics, action_statistics; /* pi0: mean and deviation; pi05: quantiles 1 % and 99 % */

    sg_vision vision;
    sg_linear_layer projector;
    sg_tid embedding; /* [vocabulary, text width] */
    sg_gemma_layer *text, *expert;
    sg_gemma_norm text_norm, expert_norm;
    sg_linear_layer state_proj, action_in_proj, action_out_proj, time_in, time_out;
    sg_tid no_block, new_block; /* buffers [1, n]: zeros and ones: where attention blocks start */
} sg_pi;

/* The training forward: -> scalar loss (flow matching, mean squared error). `policy` is an sg_pi. */
sg_tid sg_pi_forward(sg_graph *g, void *policy);
/* Tokens of one camera; of the prefix: cameras, blanks, language; of the suffix: the state (pi0) and the actions. */
int64_t sg_pi_image_tokens(const sg_pi *m);
int64_t sg_pi_prefix(const sg_pi *m);
int64_t sg_pi_suffix(const sg_pi *m);

#endif
