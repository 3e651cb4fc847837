/* ppo.h: PPO's configuration, parameters and rollout storage, shared by its two files. */
#ifndef SG_MODELS_FAMILIES_PPO_H
#define SG_MODELS_FAMILIES_PPO_H

#include "models/families/family.h"
#include "models/layers/gaussian.h"
#include "models/layers/mlp.h"

/* What a transition holds, in the order in which a mini-batch gathers it. */
typedef enum sg_ppo_field {
    SG_PPO_ACTOR_OBS,
    SG_PPO_CRITIC_OBS,
    SG_PPO_ACTIONS,
    SG_PPO_VALUES,
    SG_PPO_RETURNS,
    SG_PPO_ADVANTAGES,
    SG_PPO_LOG_DENSITY,
    SG_PPO_MEAN,
    SG_PPO_DEVIATION,
    SG_PPO_GATHERED, /* fields a mini-batch takes; the rest serve the returns */
    SG_PPO_REWARDS = SG_PPO_GATHERED,
    SG_PPO_DONES,
    SG_PPO_FIELD_COUNT
} sg_ppo_field;

/* Running mean and deviation of an observation (rsl_rl's EmpiricalNormalization); buffers [1, width], count scalar. */
typedef struct sg_ppo_normaliser {
    sg_tid mean, variance, deviation, count;
} sg_ppo_normaliser;

typedef struct sg_ppo {
    int64_t actor_obs, critic_obs, actions, envs, steps, mini_batches, epochs, batch;
    double clip, gamma, lambda, entropy_weight, value_weight, desired_kl, noise;
    bool clips_value, adaptive, normalises;

    sg_mlp actor, critic;
    sg_tid deviation; /* [actions] */
    sg_ppo_normaliser actor_normaliser, critic_normaliser;

    sg_tid now_actor_obs, now_critic_obs, now_rewards, now_dones; /* what the environment gives: [envs, .] */
    sg_tid storage[SG_PPO_FIELD_COUNT];                           /* [steps, envs, .] */
    sg_tid order;                                                 /* i64[steps envs]: the permutation of an iteration */
} sg_ppo;

/* One environment step's inference and its place in the storage. */
void sg_ppo_inference(sg_graph *g, const sg_ppo *m);
/* Generalised advantage estimation over the storage, normalised advantages, the next permutation. */
void sg_ppo_returns(sg_graph *g, const sg_ppo *m);
/* One mini-batch: gathers, losses, backward, two clips, Adam, three reads. */
void sg_ppo_update(sg_graph *g, const sg_ppo *m, const sg_optimizer_spec *optimizer);

#endif
