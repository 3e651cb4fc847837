/* vla.h: what LeRobot's vision-language-action models (SmolVLA, pi0, pi05) share: sizes, batch, and the parts around a
 * vision tower, a language model and an action expert trained by flow matching. */
#ifndef SG_MODELS_FAMILIES_VLA_H
#define SG_MODELS_FAMILIES_VLA_H

#include "models/families/supervised.h"
#include "models/layers/projections.h"
#include "models/layers/vision.h"

typedef struct sg_vla {
    int64_t batch, cameras, height, width, state, action, chunk, max_state, max_action, language;
    int64_t layers, vocabulary;
    double min_period, max_period;
    bool freeze_vision, freeze_language;
    bool padded;    /* samples tell which actions are padding */
    bool quantiles; /* state and action are normalised by quantiles, else by mean and deviation */
    sg_dtype dtype; /* of the weights that the policy's own bf16 narrows */
    sg_vision_config vision_config;
    sg_decoder_config text_config, expert_config;

    sg_tid frames[SG_LIMIT_CAMERAS], raw_state, raw_action, padding, tokens, tokens_valid; /* from the loader */
    sg_tid image[SG_LIMIT_CAMERAS], state_in, action_in;                                   /* preprocessed */
    sg_statistics state_statistics, action_statistics; /* with quantiles: 1 % and 99 % */

    sg_vision vision;
    sg_tid embedding; /* [vocabulary, text width] */
    sg_linear_layer state_proj, action_in_proj, action_out_proj, time_in, time_out;
} sg_vla;

/* Names of keys that differ, and of what gives the expert's width. */
typedef struct sg_vla_keys {
    const char *resolution, *language, *layers, *heads, *kv_heads, *head, *expert_width;
} sg_vla_keys;

/* All but padded, quantiles, text_config and expert_config. */
sg_vla sg_vla_make(const sg_family_build *build, const sg_vla_keys *keys);
/* Fails the graph where sizes do not fit each other; tokens: of the whole sequence. */
void sg_vla_check(sg_graph *g, const sg_vla *m, const sg_vla_keys *keys, const sg_options *o, int64_t tokens);
/* Images to [0, 1], state and action normalised. */
void sg_vla_preprocess(sg_graph *g, const sg_vla *m);
/* The batch and the training, behind the parameters, unless the graph has failed; `supervised` without its optimizer. */
void sg_vla_build(sg_graph *g, sg_vla *m, const sg_family_build *build, sg_supervised supervised);

#endif
