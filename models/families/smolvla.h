/* smolvla.h: SmolVLA's configuration, parameters and batch, shared by its two files. */
#ifndef SG_MODELS_FAMILIES_SMOLVLA_H
#define SG_MODELS_FAMILIES_SMOLVLA_H

#include "models/families/supervised.h"
#include "models/layers/decoder.h"
#include "models/layers/vision.h"

/* Names of its parts, under "model.vlm_with_expert". */
#define SG_VISION_MODEL "vlm.model.vision_model"
#define SG_CONNECTOR    "vlm.model.connector"
#define SG_TEXT_MODEL   "vlm.model.text_model"
#define SG_EXPERT_MODEL "lm_expert"

typedef struct sg_smolvla {
    int64_t batch, cameras, height, width, state, action, chunk, max_state, max_action, language;
    int64_t layers, self_every, vocabulary, scale; /* self_every: each n-th layer is joint; 0 or less: none */
    double min_period, max_period;
    bool train_state, freeze_vision, freeze_language;
    sg_dtype dtype; /* of vision, language and expert weights; the five small projections are fp32 */
    sg_vision_config vision_config;
    sg_decoder_config text_config, expert_config;

    sg_tid frames[SG_LIMIT_CAMERAS], raw_state, raw_action, padding, tokens, tokens_valid; /* from the loader */
    sg_tid image[SG_LIMIT_CAMERAS], state_in, action_in;                                   /* preprocessed */
    sg_statistics state_statistics, action_statistics;

    sg_vision vision;
    sg_linear_layer connector, lm_head;
    sg_tid embedding; /* [vocabulary, text width] */
    sg_decoder_layer *text, *expert;
    sg_norm_layer text_norm, expert_norm;
    sg_linear_layer state_proj, action_in_proj, action_out_proj, time_in, time_out;
    sg_tid no_block,
        new_block; /* buffers: zeros [1, prefix - 1] and ones [1, 1 + chunk]: where attention blocks start */
} sg_smolvla;

/* The training forward: -> scalar loss (flow matching, mean squared error). `policy` is an sg_smolvla. */
sg_tid sg_smolvla_forward(sg_graph *g, void *policy);
/* Tokens of one camera, and of the prefix: cameras, language, state. */
int64_t sg_smolvla_image_tokens(const sg_smolvla *m);
int64_t sg_smolvla_prefix(const sg_smolvla *m);
/* True where layer `index` attends over prefix and actions together. */
bool sg_smolvla_is_joint(const sg_smolvla *m, int64_t index);

#endif
