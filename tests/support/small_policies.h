/* small_policies.h: every family, small enough for double loops, with the structure of the real one. */
#ifndef SG_TESTS_SUPPORT_SMALL_POLICIES_H
#define SG_TESTS_SUPPORT_SMALL_POLICIES_H

#include "models/policy.h"

typedef enum sg_small {
    SG_SMALL_ACT,
    SG_SMALL_ACT_PRE_NORM, /* two cameras, gelu, norm first */
    SG_SMALL_ACT_PLAIN,    /* no dropout */
    SG_SMALL_SMOLVLA,
    SG_SMALL_SMOLVLA_VISION_FROZEN,
    SG_SMALL_SMOLVLA_UNFROZEN,
    SG_SMALL_PI0,
    SG_SMALL_PI05,
    SG_SMALL_PI05_AGAIN,  /* its segments run again in the backward */
    SG_SMALL_PI05_EXPERT, /* only the expert is trained; a blank camera */
    SG_SMALL_PPO,
    SG_SMALL_PPO_UNCLIPPED, /* the value's change is not clipped; a wider critic, a shorter horizon: it can be learnt */
    SG_SMALL_MLP,
    SG_SMALL_TRANSFORMER,
    SG_SMALL_TOKENS,          /* transformer over tokens, RMS norm, silu, dropout, L1 */
    SG_SMALL_DIFFUSION,       /* two cameras, batch norm */
    SG_SMALL_DIFFUSION_GROUP, /* group norm, one encoder, cut frames, masked loss, shift only */
    SG_SMALL_BERT,
    SG_SMALL_GPT2,
    SG_SMALL_OPT,
    SG_SMALL_SWITCH, /* one token of five stays with no expert */
    SG_SMALL_COUNT
} sg_small;
const char *sg_small_name(sg_small which);

typedef struct sg_small_setting {
    const char *name;
    sg_framework framework;
    sg_device_class device_class;
} sg_small_setting;
enum { SG_SMALL_SETTINGS = 4 };
extern const sg_small_setting SG_SMALL_SETTING[SG_SMALL_SETTINGS];

/* batch 0: 2 (PPO's follows from its environments); accumulation and ranks as in a request. Gradients are not clipped
 * unless `clip`. */
typedef struct sg_small_options {
    int64_t batch, accumulation, ranks;
    bool clip;
    bool checkpointing; /* gradient_checkpointing=true */
    const char *scope;  /* checkpointing_scope, or NULL */
    const char *precision, *sharding;
} sg_small_options;

/* Failures end the running test. Free with sg_training_free. */
sg_training *sg_small_build(sg_small which, const sg_small_setting *setting, const sg_small_options *options);

#endif
