/* families_fixture.h: every family in small variants, and requests for them. */
#ifndef SG_TESTS_MODELS_FAMILIES_FIXTURE_H
#define SG_TESTS_MODELS_FAMILIES_FIXTURE_H

#include "models/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_SETTINGS = 40 };

typedef struct policy {
    const char *name, *policy, *precision;
    int64_t batch;
    const char *settings[MAX_SETTINGS]; /* key, value, key, value .. */
} policy;

#define TINY_ACT                                                                                                       \
    "cameras", "2", "image_height", "64", "image_width", "96", "state_dim", "3", "action_dim", "2", "chunk_size", "3", \
        "backbone_width", "2", "dim_model", "8", "n_heads", "2", "dim_feedforward", "6", "n_encoder_layers", "1",      \
        "n_vae_encoder_layers", "2", "latent_dim", "4", "dropout", "0"
#define TINY_SMOLVLA                                                                                                   \
    "cameras", "2", "image_height", "40", "image_width", "64", "state_dim", "3", "action_dim", "2", "chunk_size", "3", \
        "max_state_dim", "4", "max_action_dim", "5", "language_tokens", "3", "resize_imgs_with_padding", "16,16",      \
        "num_vlm_layers", "2", "expert_width_multiplier", "0.5"
#define TINY_SMOLVLA_SIZES                                                                                             \
    "text_hidden_size", "12", "text_intermediate_size", "10", "text_num_attention_heads", "4",                         \
        "text_num_key_value_heads", "2", "text_head_dim", "4", "vocab_size", "11", "vision_hidden_size", "8"
#define TINY_VISION  "vision_intermediate_size", "6", "vision_num_hidden_layers", "1", "vision_num_attention_heads", "2"
#define TINY_PATCHES "vision_patch_size", "4", "scale_factor", "2"
#define TINY_PPO                                                                                                       \
    "envs", "6", "steps_per_env", "3", "mini_batches", "2", "ppo_epochs", "1", "actor_obs", "5", "critic_obs", "7",    \
        "actions", "3", "actor_hidden_dims", "8,6", "critic_hidden_dims", "7"
#define TINY_TRANSFORMER                                                                                               \
    "n_layers", "2", "dim_model", "8", "n_heads", "2", "dim_feedforward", "12", "sequence_length", "5", "input_dim",   \
        "3", "output_dim", "4"

#define TINY_DIFFUSION                                                                                                 \
    "cameras", "2", "image_height", "48", "image_width", "64", "state_dim", "3", "action_dim", "2", "backbone_width",  \
        "2", "spatial_softmax_num_keypoints", "2", "down_dims", "4,6", "n_groups", "2", "horizon", "4",                \
        "diffusion_step_embed_dim", "4"
#define TINY_BERT                                                                                                      \
    "vocab_size", "11", "hidden_size", "8", "num_hidden_layers", "2", "num_attention_heads", "2", "intermediate_size", \
        "12", "max_position_embeddings", "7", "sequence_length", "5", "hidden_dropout_prob", "0",                      \
        "attention_probs_dropout_prob", "0"
#define TINY_GPT2                                                                                                      \
    "vocab_size", "11", "n_embd", "8", "n_layer", "2", "n_head", "2", "n_positions", "6", "sequence_length", "5",      \
        "embd_pdrop", "0", "attn_pdrop", "0", "resid_pdrop", "0"
#define TINY_OPT                                                                                                       \
    "vocab_size", "11", "hidden_size", "8", "num_hidden_layers", "2", "num_attention_heads", "2", "ffn_dim", "12",     \
        "max_position_embeddings", "6", "sequence_length", "5", "dropout", "0"
#define TINY_SWITCH                                                                                                    \
    "vocab_size", "11", "d_model", "8", "d_kv", "3", "d_ff", "6", "num_layers", "2", "num_heads", "2", "num_experts",  \
        "2", "expert_capacity", "2", "num_sparse_encoder_layers", "1", "num_sparse_decoder_layers", "2",               \
        "relative_attention_num_buckets", "8", "relative_attention_max_distance", "6", "sequence_length", "5",         \
        "dropout_rate", "0", "router_jitter_noise", "0"

#define TINY_MEGATRON                                                                                                  \
    "vocab_size", "11", "hidden_size", "8", "num_layers", "2", "num_attention_heads", "2", "sequence_length", "5",     \
        "hidden_dropout", "0", "attention_dropout", "0"

/* Without dropout, whose masks follow the layout of the tensors; fp32, because tests widen it. */
static const policy TINY[] = {
    {"act", "act", NULL, 2, {TINY_ACT}},
    {"act, pre-norm, GELU", "act", NULL, 2, {TINY_ACT, "pre_norm", "true", "feedforward_activation", "gelu"}},
    {"act, 2 decoder layers", "act", NULL, 1, {TINY_ACT, "n_decoder_layers", "2"}},
    {"act, no VAE", "act", NULL, 2, {TINY_ACT, "use_vae", "false"}},
    {"act, no camera", "act", NULL, 2, {TINY_ACT, "cameras", "0"}},
    {"act, no state", "act", NULL, 2, {TINY_ACT, "state_dim", "0", "cameras", "1"}},
    {"smolvla", "smolvla", "fp32", 2, {TINY_SMOLVLA, TINY_SMOLVLA_SIZES}},
    {"diffusion", "diffusion", NULL, 2, {TINY_DIFFUSION}},
    {"diffusion, one encoder, group norm",
     "diffusion",
     NULL,
     2,
     {TINY_DIFFUSION, "use_separate_rgb_encoder_per_camera", "false", "use_group_norm", "true", "resize_shape",
      "40,64"}},
    {"diffusion, cut, masked, actions predicted",
     "diffusion",
     NULL,
     2,
     {TINY_DIFFUSION, "crop_shape", "33,40", "do_mask_loss_for_padding", "true", "prediction_type", "sample",
      "use_film_scale_modulation", "false"}},
    {"mlp", "mlp", NULL, 3, {"input_dim", "5", "hidden_dims", "7,6", "output_dim", "4", "activation", "elu"}},
    {"mlp, L1", "mlp", NULL, 3, {"input_dim", "5", "hidden_dims", "7", "activation", "gelu", "loss", "l1"}},
    {"transformer", "transformer", NULL, 2, {TINY_TRANSFORMER}},
    {"transformer, tokens", "transformer", NULL, 2, {TINY_TRANSFORMER, "vocab_size", "9", "norm", "rms_norm"}},
    {"transformer, all seen", "transformer", NULL, 2, {TINY_TRANSFORMER, "causal", "false", "activation", "silu"}},
    {"bert", "bert", NULL, 2, {TINY_BERT}},
    {"bert, gelu_new", "bert", NULL, 2, {TINY_BERT, "hidden_act", "gelu_new"}},
    {"gpt2", "gpt2", NULL, 2, {TINY_GPT2}},
    {"opt", "opt", NULL, 2, {TINY_OPT}},
    {"opt, projected, norm behind",
     "opt",
     NULL,
     2,
     {TINY_OPT, "word_embed_proj_dim", "6", "do_layer_norm_before", "false"}},
    {"switch", "switch", NULL, 2, {TINY_SWITCH}},
    {"megatron", "megatron", NULL, 2, {TINY_MEGATRON}},
    {"switch, all routed", "switch", NULL, 2, {TINY_SWITCH, "sequence_length", "4", "expert_capacity", "8"}},
    {"ppo", "ppo", NULL, 0, {TINY_PPO}},
    {"ppo, normalised, fixed rate", "ppo", NULL, 0, {TINY_PPO, "empirical_normalization", "true", "schedule", "fixed"}},
    {"ppo, value not clipped", "ppo", NULL, 0, {TINY_PPO, "use_clipped_value_loss", "false", "activation", "tanh"}},
};
enum { N_TINY = sizeof TINY / sizeof *TINY };

/* SmolVLA's sizes do not fit in one list beside its modes. */
static const char *const MORE_SMOLVLA[] = {TINY_VISION, TINY_PATCHES, NULL};
static const char *const MODES[][5] = {{NULL},
                                       {"train_expert_only", "false", NULL},
                                       {"train_expert_only", "false", "freeze_vision_encoder", "false", NULL},
                                       {"train_state_proj", "false", NULL},
                                       {"attention_mode", "self_attn", NULL},
                                       {"self_attn_every_n_layers", "0", NULL}};
enum { N_MODES = sizeof MODES / sizeof *MODES };

typedef struct request {
    sg_setting settings[64];
    sg_policy_request asked;
} request;

static inline void add(request *r, const char *const *pairs) {
    for (; *pairs; pairs += 2) r->settings[r->asked.n_settings++] = (sg_setting){pairs[0], pairs[1], "test"};
}

static inline void fill(request *r, const policy *p, sg_framework framework, sg_device_class device_class) {
    *r = (request){.asked = {.policy = p->policy,
                             .framework = framework,
                             .device_class = device_class,
                             .batch = p->batch,
                             .precision = p->precision}};
    r->asked.settings = r->settings;
    add(r, p->settings);
    if (strcmp(p->policy, "smolvla") == 0) add(r, MORE_SMOLVLA);
}

static inline sg_training *build(const request *r) {
    sg_training *training = NULL;
    sg_status status = {0};
    if (sg_policy_build(&r->asked, &training, &status) != SG_OK) fail_msg("%s: %s", r->asked.policy, status.text);
    assert_int_equal(sg_training_verify(training, &status), SG_OK);
    return training;
}

#endif
