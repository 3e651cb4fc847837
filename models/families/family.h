/* family.h: what a policy family gives to the registry (models/policy.c). Keys are in keys.c. */
#ifndef SG_MODELS_FAMILIES_FAMILY_H
#define SG_MODELS_FAMILIES_FAMILY_H

#include "models/graph.h"
#include "models/options.h"

/* Sizes above which a configuration is a mistake, not a policy: they bound the length of the operation list. */
enum {
    SG_LIMIT_LAYERS = 1024,
    SG_LIMIT_CAMERAS = 64,
    SG_LIMIT_PIXELS = 8192, /* per side */
    SG_LIMIT_WIDTH = 65536,
    SG_LIMIT_TOKENS = 65536
};

typedef enum sg_family_index {
    SG_FAMILY_ACT,
    SG_FAMILY_SMOLVLA,
    SG_FAMILY_PI0,
    SG_FAMILY_PI05,
    SG_FAMILY_PPO,
    SG_FAMILY_MLP,
    SG_FAMILY_TRANSFORMER,
    SG_FAMILY_BERT,
    SG_FAMILY_GPT2,
    SG_FAMILY_OPT,
    SG_FAMILY_SWITCH,
    SG_FAMILY_DIFFUSION,
    SG_FAMILY_MEGATRON,
    SG_FAMILY_COUNT
} sg_family_index;

extern const sg_family sg_family_table[SG_FAMILY_COUNT];

typedef struct sg_family_build {
    const sg_options *options;
    int64_t batch, accumulation;
    bool own_bf16; /* bf16 weights where the policy keeps some (its own bf16 was asked for or is its default) */
} sg_family_build;

/* Each emits the whole training: parameters, programs, schedule. Failures stay in the graph. */
void sg_act_build(sg_graph *g, const sg_family_build *build);
void sg_smolvla_build(sg_graph *g, const sg_family_build *build);
void sg_pi0_build(sg_graph *g, const sg_family_build *build);
void sg_pi05_build(sg_graph *g, const sg_family_build *build);
void sg_ppo_build(sg_graph *g, const sg_family_build *build);
void sg_mlp_build(sg_graph *g, const sg_family_build *build);
void sg_transformer_build(sg_graph *g, const sg_family_build *build);
void sg_bert_build(sg_graph *g, const sg_family_build *build);
void sg_gpt2_build(sg_graph *g, const sg_family_build *build);
void sg_opt_build(sg_graph *g, const sg_family_build *build);
void sg_switch_build(sg_graph *g, const sg_family_build *build);
void sg_diffusion_build(sg_graph *g, const sg_family_build *build);
void sg_megatron_build(sg_graph *g, const sg_family_build *build);

/* PPO's samples per mini-batch: envs x steps / mini-batches. */
sg_code sg_ppo_batch(const sg_options *options, int64_t *batch, sg_status *status);

#endif
