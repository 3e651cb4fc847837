#include "tests/support/small_policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

const sg_small_setting SG_SMALL_SETTING[SG_SMALL_SETTINGS] = {
    {"pytorch-eager on CUDA", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA},
    {"pytorch-eager on a CPU", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU},
    {"native on CUDA", SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CUDA},
    {"native on a CPU", SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU},
};

typedef struct pair {
    const char *name, *value;
} pair;

enum { MAX_PAIRS = 40 };

static const pair ACT[] = {
    {"cameras", "1"},
    {"image_height", "32"},
    {"image_width", "64"},
    {"state_dim", "3"},
    {"action_dim", "4"},
    {"chunk_size", "5"},
    {"backbone_width", "3"},
    {"dim_model", "12"},
    {"n_heads", "2"},
    {"dim_feedforward", "10"},
    {"n_encoder_layers", "2"},
    {"n_decoder_layers", "1"},
    {"n_vae_encoder_layers", "1"},
    {"latent_dim", "3"},
    {0},
};
static const pair ACT_PRE_NORM[] = {
    {"cameras", "2"},
    {"image_height", "32"},
    {"image_width", "32"},
    {"state_dim", "3"},
    {"action_dim", "4"},
    {"chunk_size", "5"},
    {"backbone_width", "2"},
    {"dim_model", "12"},
    {"n_heads", "3"},
    {"dim_feedforward", "10"},
    {"n_encoder_layers", "1"},
    {"n_decoder_layers", "2"},
    {"n_vae_encoder_layers", "2"},
    {"latent_dim", "3"},
    {"pre_norm", "true"},
    {"feedforward_activation", "gelu"},
    {0},
};
static const pair ACT_PLAIN[] = {
    {"cameras", "2"},
    {"image_height", "32"},
    {"image_width", "32"},
    {"state_dim", "3"},
    {"action_dim", "4"},
    {"chunk_size", "5"},
    {"backbone_width", "2"},
    {"dim_model", "12"},
    {"n_heads", "3"},
    {"dim_feedforward", "10"},
    {"n_encoder_layers", "1"},
    {"n_decoder_layers", "1"},
    {"n_vae_encoder_layers", "2"},
    {"latent_dim", "3"},
    {"dropout", "0"},
    {0},
};
#define SMOLVLA_SIZES                                                                                                  \
    {"cameras", "2"}, {"image_height", "32"}, {"image_width", "48"}, {"state_dim", "3"}, {"action_dim", "2"},          \
        {"max_state_dim", "4"}, {"max_action_dim", "5"}, {"chunk_size", "3"}, {"language_tokens", "3"},                \
        {"resize_imgs_with_padding", "32,32"}, {"num_vlm_layers", "2"}, {"text_hidden_size", "16"},                    \
        {"text_intermediate_size", "14"}, {"text_num_attention_heads", "3"}, {"text_num_key_value_heads", "1"},        \
        {"text_head_dim", "4"}, {"vocab_size", "13"}, {"vision_hidden_size", "8"}, {"vision_intermediate_size", "10"}, \
        {"vision_num_hidden_layers", "2"}, {"vision_num_attention_heads", "2"}, {"vision_patch_size", "8"}, {          \
        "scale_factor", "2"                                                                                            \
    }
static const pair SMOLVLA[] = {SMOLVLA_SIZES, {0}};
static const pair SMOLVLA_VISION_FROZEN[] = {SMOLVLA_SIZES, {"train_expert_only", "false"}, {0}};
static const pair SMOLVLA_UNFROZEN[] = {
    SMOLVLA_SIZES, {"train_expert_only", "false"}, {"freeze_vision_encoder", "false"}, {0}};
/* The shortest period is longer than openpi's 0.004: that one turns a time's rounding into 1,600 times as much. */
#define PI_SIZES                                                                                                       \
    {"cameras", "2"}, {"image_height", "32"}, {"image_width", "40"}, {"state_dim", "3"}, {"action_dim", "2"},          \
        {"max_state_dim", "4"}, {"max_action_dim", "5"}, {"chunk_size", "3"}, {"tokenizer_max_length", "3"},           \
        {"image_resolution", "8,8"}, {"min_period", "0.1"}, {"num_hidden_layers", "2"}, {"text_hidden_size", "12"},    \
        {"text_intermediate_size", "10"}, {"expert_hidden_size", "8"}, {"expert_intermediate_size", "6"},              \
        {"num_attention_heads", "2"}, {"num_key_value_heads", "1"}, {"head_dim", "4"}, {"vocab_size", "13"},           \
        {"vision_hidden_size", "8"}, {"vision_intermediate_size", "10"}, {"vision_num_hidden_layers", "2"},            \
        {"vision_num_attention_heads", "2"}, {                                                                         \
        "vision_patch_size", "4"                                                                                       \
    }
static const pair PI[] = {PI_SIZES, {0}};
static const pair PI_AGAIN[] = {PI_SIZES, {"gradient_checkpointing", "true"}, {0}};
static const pair PI_EXPERT[] = {PI_SIZES, {"train_expert_only", "true"}, {"empty_cameras", "1"}, {0}};
static const pair PPO[] = {
    {"actor_obs", "7"},
    {"critic_obs", "9"},
    {"actions", "3"},
    {"actor_hidden_dims", "8,6"},
    {"critic_hidden_dims", "7,5"},
    {"envs", "6"},
    {"steps_per_env", "4"},
    {"mini_batches", "2"},
    {"ppo_epochs", "2"},
    {0},
};
static const pair PPO_UNCLIPPED[] = {
    {"actor_obs", "7"},
    {"critic_obs", "9"},
    {"actions", "3"},
    {"actor_hidden_dims", "8,6"},
    {"critic_hidden_dims", "24,16"},
    {"envs", "6"},
    {"steps_per_env", "4"},
    {"mini_batches", "2"},
    {"ppo_epochs", "2"},
    {"use_clipped_value_loss", "false"},
    {"gamma", "0.5"},
    {0},
};
static const pair MLP[] = {
    {"input_dim", "5"}, {"hidden_dims", "8,6"}, {"output_dim", "3"}, {"activation", "elu"}, {0},
};
static const pair TRANSFORMER[] = {
    {"n_layers", "2"},        {"dim_model", "8"}, {"n_heads", "2"},    {"dim_feedforward", "12"},
    {"sequence_length", "5"}, {"input_dim", "4"}, {"output_dim", "3"}, {0},
};
static const pair TOKENS[] = {
    {"n_layers", "1"},
    {"dim_model", "8"},
    {"n_heads", "2"},
    {"dim_feedforward", "12"},
    {"sequence_length", "5"},
    {"vocab_size", "11"},
    {"output_dim", "3"},
    {"norm", "rms_norm"},
    {"activation", "silu"},
    {"dropout", "0.2"},
    {"causal", "false"},
    {"loss", "l1"},
    {0},
};

#define DIFFUSION_SIZES                                                                                                \
    {"cameras", "2"}, {"image_height", "32"}, {"image_width", "64"}, {"state_dim", "3"}, {"action_dim", "2"},          \
        {"backbone_width", "1"}, {"spatial_softmax_num_keypoints", "3"}, {"down_dims", "4,6"}, {"n_groups", "2"},      \
        {"kernel_size", "3"}, {"horizon", "4"}, {"diffusion_step_embed_dim", "4"}, {                                   \
        "num_train_timesteps", "10"                                                                                    \
    }
static const pair DIFFUSION[] = {DIFFUSION_SIZES, {0}};
static const pair DIFFUSION_GROUP[] = {DIFFUSION_SIZES,
                                       {"use_group_norm", "true"},
                                       {"use_separate_rgb_encoder_per_camera", "false"},
                                       {"crop_shape", "32,40"},
                                       {"do_mask_loss_for_padding", "true"},
                                       {"use_film_scale_modulation", "false"},
                                       {"prediction_type", "sample"},
                                       {0}};
static const pair BERT[] = {
    {"vocab_size", "11"},        {"hidden_size", "8"},
    {"num_hidden_layers", "1"},  {"num_attention_heads", "2"},
    {"intermediate_size", "12"}, {"max_position_embeddings", "7"},
    {"sequence_length", "5"},    {0},
};
static const pair GPT2[] = {
    {"vocab_size", "11"},
    {"n_embd", "8"},
    {"n_layer", "1"},
    {"n_head", "2"},
    {"n_positions", "6"},
    {"sequence_length", "5"},
    {0},
};
static const pair OPT[] = {
    {"vocab_size", "11"},       {"hidden_size", "8"},
    {"num_hidden_layers", "1"}, {"num_attention_heads", "2"},
    {"ffn_dim", "12"},          {"max_position_embeddings", "6"},
    {"sequence_length", "5"},   {0},
};
static const pair SWITCH[] = {
    {"vocab_size", "11"},
    {"d_model", "8"},
    {"d_kv", "3"},
    {"d_ff", "6"},
    {"num_layers", "1"},
    {"num_heads", "2"},
    {"num_experts", "2"},
    {"expert_capacity", "2"},
    {"num_sparse_encoder_layers", "0"},
    {"num_sparse_decoder_layers", "1"},
    {"relative_attention_num_buckets", "4"},
    {"relative_attention_max_distance", "4"},
    {"sequence_length", "5"},
    {0},
};

static const struct {
    const char *name, *policy;
    const pair *pairs;
} SMALL[SG_SMALL_COUNT] = {
    [SG_SMALL_ACT] = {"ACT", "act", ACT},
    [SG_SMALL_ACT_PRE_NORM] = {"ACT, norm first", "act", ACT_PRE_NORM},
    [SG_SMALL_ACT_PLAIN] = {"ACT, no dropout", "act", ACT_PLAIN},
    [SG_SMALL_SMOLVLA] = {"SmolVLA", "smolvla", SMOLVLA},
    [SG_SMALL_SMOLVLA_VISION_FROZEN] = {"SmolVLA, vision frozen", "smolvla", SMOLVLA_VISION_FROZEN},
    [SG_SMALL_SMOLVLA_UNFROZEN] = {"SmolVLA, unfrozen", "smolvla", SMOLVLA_UNFROZEN},
    [SG_SMALL_PI0] = {"pi0", "pi0", PI},
    [SG_SMALL_PI05] = {"pi05", "pi05", PI},
    [SG_SMALL_PI05_AGAIN] = {"pi05, checkpointed", "pi05", PI_AGAIN},
    [SG_SMALL_PI05_EXPERT] = {"pi05, expert only", "pi05", PI_EXPERT},
    [SG_SMALL_PPO] = {"PPO", "ppo", PPO},
    [SG_SMALL_PPO_UNCLIPPED] = {"PPO, value not clipped", "ppo", PPO_UNCLIPPED},
    [SG_SMALL_MLP] = {"mlp", "mlp", MLP},
    [SG_SMALL_TRANSFORMER] = {"transformer", "transformer", TRANSFORMER},
    [SG_SMALL_TOKENS] = {"transformer over tokens", "transformer", TOKENS},
    [SG_SMALL_DIFFUSION] = {"diffusion", "diffusion", DIFFUSION},
    [SG_SMALL_DIFFUSION_GROUP] = {"diffusion, group norm", "diffusion", DIFFUSION_GROUP},
    [SG_SMALL_BERT] = {"BERT", "bert", BERT},
    [SG_SMALL_GPT2] = {"GPT-2", "gpt2", GPT2},
    [SG_SMALL_OPT] = {"OPT", "opt", OPT},
    [SG_SMALL_SWITCH] = {"Switch", "switch", SWITCH},
};

const char *sg_small_name(sg_small which) {
    return SMALL[which].name;
}

static bool is_ppo(sg_small which) {
    return which == SG_SMALL_PPO || which == SG_SMALL_PPO_UNCLIPPED;
}

sg_training *sg_small_build(sg_small which, const sg_small_setting *setting, const sg_small_options *options) {
    static const char ORIGIN[] = "test";
    sg_setting settings[MAX_PAIRS];
    size_t n = 0;
    for (const pair *p = SMALL[which].pairs; p->name; p++) {
        assert_true(n + 3 < MAX_PAIRS);
        settings[n++] = (sg_setting){p->name, p->value, ORIGIN};
    }
    if (options->checkpointing) settings[n++] = (sg_setting){"gradient_checkpointing", "true", ORIGIN};
    if (options->scope) settings[n++] = (sg_setting){"checkpointing_scope", options->scope, ORIGIN};
    if (!options->clip) settings[n++] = (sg_setting){"grad_clip_norm", "0", ORIGIN};
    sg_policy_request request = {.policy = SMALL[which].policy,
                                 .framework = setting->framework,
                                 .device_class = setting->device_class,
                                 .batch = is_ppo(which)    ? 0
                                          : options->batch ? options->batch
                                                           : 2,
                                 .accumulation = options->accumulation,
                                 .ranks = options->ranks,
                                 .precision = options->precision,
                                 .sharding = options->sharding,
                                 .settings = settings,
                                 .n_settings = n};
    sg_training *training = NULL;
    sg_status status = {0};
    if (sg_policy_build(&request, &training, &status) != SG_OK) fail_msg("%s: %s", SMALL[which].name, status.text);
    return training;
}
