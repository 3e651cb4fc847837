/* keys.c: the configuration keys of every family, with LeRobot's or rsl_rl's names and defaults where they have one. */
#include "models/families/family.h"

#define INT(key, text, least, most, about)                                                                             \
    { .name = (key), .type = SG_KEY_INT, .default_text = (text), .low = (least), .high = (most), .help = (about) }
#define INT_ALSO(key, also, text, least, most, about)                                                                  \
    {                                                                                                                  \
        .name = (key), .type = SG_KEY_INT, .default_text = (text), .low = (least), .high = (most), .help = (about),    \
        .aliases = (also)                                                                                              \
    }
#define REAL(key, text, least, most, about)                                                                            \
    { .name = (key), .type = SG_KEY_REAL, .default_text = (text), .low = (least), .high = (most), .help = (about) }
#define REAL_ALSO(key, also, text, least, most, about)                                                                 \
    {                                                                                                                  \
        .name = (key), .type = SG_KEY_REAL, .default_text = (text), .low = (least), .high = (most), .help = (about),   \
        .aliases = (also)                                                                                              \
    }
#define BOOL(key, text, about)                                                                                         \
    { .name = (key), .type = SG_KEY_BOOL, .default_text = (text), .help = (about) }
#define TEXT(key, text, words, about)                                                                                  \
    { .name = (key), .type = SG_KEY_TEXT, .default_text = (text), .choices = (words), .help = (about) }
#define LIST(key, also, text, least, most, about)                                                                      \
    {                                                                                                                  \
        .name = (key), .type = SG_KEY_INT_LIST, .default_text = (text), .low = (least), .high = (most),                \
        .help = (about), .aliases = (also)                                                                             \
    }

#define OBSERVATION_KEYS(cameras) OBSERVATION_KEYS_FROM(cameras, 0)
#define OBSERVATION_KEYS_FROM(cameras, least)                                                                          \
    INT("cameras", cameras, least, SG_LIMIT_CAMERAS, "cameras of a sample"),                                           \
        INT("image_height", "480", 32, SG_LIMIT_PIXELS, "pixels of a camera frame, vertically"),                       \
        INT("image_width", "640", 32, SG_LIMIT_PIXELS, "pixels of a camera frame, horizontally")
#define OPTIMIZER_KEYS(rate, decay, clip)                                                                              \
    TEXT("optimizer", "adamw", "adamw|sgd", "sgd: without momentum"),                                                  \
        REAL("optimizer_lr", rate, 0, 1, "learning rate"),                                                             \
        REAL("optimizer_weight_decay", decay, 0, 1, "weight decay"),                                                   \
        REAL_ALSO("grad_clip_norm", "optimizer_grad_clip_norm", clip, 0, 1e9,                                          \
                  "norm to which gradients are clipped; 0: not clipped")

/* ---- act: lerobot/policies/act/configuration_act.py ---- */

static const sg_key act_keys[] = {
    OBSERVATION_KEYS("2"),
    INT("state_dim", "6", 0, SG_LIMIT_WIDTH, "elements of the robot's state; 0: none is observed"),
    INT("action_dim", "6", 1, SG_LIMIT_WIDTH, "elements of an action"),
    INT("n_obs_steps", "1", 1, 1, "observations of a sample; ACT takes one"),
    INT("chunk_size", "100", 1, SG_LIMIT_TOKENS, "actions predicted at once"),
    INT("n_action_steps", "100", 1, SG_LIMIT_TOKENS, "actions executed of a chunk; no effect on training"),
    TEXT("vision_backbone", "resnet18", "resnet18|resnet34", "network over each camera frame"),
    INT("backbone_width", "64", 1, 4096, "channels of the backbone's first stage"),
    BOOL("pre_norm", "false", "norm before attention and feed-forward instead of behind them"),
    INT("dim_model", "512", 4, SG_LIMIT_WIDTH, "width of the transformer"),
    INT("n_heads", "8", 1, 1024, "attention heads; they divide dim_model"),
    INT("dim_feedforward", "3200", 1, SG_LIMIT_WIDTH, "width of the feed-forward layers"),
    TEXT("feedforward_activation", "relu", "relu|gelu", "activation of the feed-forward layers"),
    INT("n_encoder_layers", "4", 1, SG_LIMIT_LAYERS, "transformer encoder layers"),
    INT("n_decoder_layers", "1", 1, SG_LIMIT_LAYERS, "transformer decoder layers"),
    BOOL("use_vae", "true", "variational objective with an encoder over the action chunk"),
    INT("latent_dim", "32", 1, SG_LIMIT_WIDTH, "elements of the latent"),
    INT("n_vae_encoder_layers", "4", 1, SG_LIMIT_LAYERS, "layers of the variational encoder"),
    REAL("dropout", "0.1", 0, 0.99, "dropout probability in the transformers"),
    REAL("kl_weight", "10.0", 0, 1e9, "weight of the KL loss"),
    BOOL("gradient_checkpointing", "false", "activations are made again in the backward instead of kept"),
    OPTIMIZER_KEYS("1e-5", "1e-4", "10"),
};

/* ---- smolvla: lerobot/policies/smolvla/configuration_smolvla.py; sizes of SmolVLM2-500M-Video-Instruct ---- */

static const sg_key smolvla_keys[] = {
    OBSERVATION_KEYS("2"),
    INT("state_dim", "6", 1, SG_LIMIT_WIDTH, "elements of the robot's state; at most max_state_dim"),
    INT("action_dim", "6", 1, SG_LIMIT_WIDTH, "elements of an action; at most max_action_dim"),
    INT("n_obs_steps", "1", 1, 1, "observations of a sample; SmolVLA takes one"),
    INT("chunk_size", "50", 1, SG_LIMIT_TOKENS, "actions predicted at once"),
    INT("n_action_steps", "50", 1, SG_LIMIT_TOKENS, "actions executed of a chunk; no effect on training"),
    INT("max_state_dim", "32", 1, SG_LIMIT_WIDTH, "width to which states are padded"),
    INT("max_action_dim", "32", 1, SG_LIMIT_WIDTH, "width to which actions are padded"),
    INT_ALSO("language_tokens", "tokens|lang_tokens", "16", 1, SG_LIMIT_TOKENS,
             "tokens of the longest instruction in a batch (typically 8 to 20)"),
    INT("tokenizer_max_length", "48", 1, SG_LIMIT_TOKENS, "tokens to which instructions are cut"),
    LIST("resize_imgs_with_padding", NULL, "512,512", 1, SG_LIMIT_PIXELS,
         "width,height to which frames are resized, padded at the top and left"),
    BOOL("freeze_vision_encoder", "true", "the vision tower is not trained"),
    BOOL("train_expert_only", "true", "the whole vision-language model is not trained"),
    BOOL("train_state_proj", "true", "the projection of the state is trained"),
    INT("num_vlm_layers", "16", 1, SG_LIMIT_LAYERS, "language layers used"),
    INT("num_expert_layers", "0", -1, SG_LIMIT_LAYERS, "layers of the action expert; 0 or less: as num_vlm_layers"),
    TEXT("attention_mode", "cross_attn", "cross_attn|self_attn",
         "cross_attn: most layers' actions attend to the prefix; self_attn: all attend over everything"),
    INT("self_attn_every_n_layers", "2", -1, SG_LIMIT_LAYERS,
        "every n-th layer attends over prefix and actions together in spite of cross_attn; 0 or less: none"),
    REAL("expert_width_multiplier", "0.75", 0.001, 16, "width of the expert in widths of the language model"),
    REAL("min_period", "4e-3", 1e-9, 1e9, "shortest period of the time embedding"),
    REAL("max_period", "4.0", 1e-9, 1e9, "longest period of the time embedding"),
    INT("text_hidden_size", "960", 2, SG_LIMIT_WIDTH, "width of the language model"),
    INT("text_intermediate_size", "2560", 1, SG_LIMIT_WIDTH, "width of its feed-forward layers"),
    INT("text_num_attention_heads", "15", 1, 1024, "its attention heads"),
    INT("text_num_key_value_heads", "5", 1, 1024, "its key and value heads; they divide the attention heads"),
    INT("text_head_dim", "64", 2, 4096, "width of one of its heads"),
    INT("vocab_size", "49280", 1, 1 << 24, "tokens that it knows"),
    INT("vision_hidden_size", "768", 1, SG_LIMIT_WIDTH, "width of the vision tower"),
    INT("vision_intermediate_size", "3072", 1, SG_LIMIT_WIDTH, "width of its feed-forward layers"),
    INT("vision_num_hidden_layers", "12", 1, SG_LIMIT_LAYERS, "its layers"),
    INT("vision_num_attention_heads", "12", 1, 1024, "its attention heads; they divide vision_hidden_size"),
    INT("vision_patch_size", "16", 1, 256, "pixels of a patch's side"),
    INT("scale_factor", "4", 1, 64, "patches joined into one token, per side"),
    OPTIMIZER_KEYS("1e-4", "1e-10", "10"),
};

/* ---- pi0 and pi05: lerobot/policies/pi0/configuration_pi0.py, pi05/configuration_pi05.py ---- */

#define PI_KEYS(tokens)                                                                                                \
    OBSERVATION_KEYS("2"), INT("empty_cameras", "0", 0, SG_LIMIT_CAMERAS, "blank frames encoded beside the cameras'"), \
        INT("state_dim", "6", 1, SG_LIMIT_WIDTH, "elements of the robot's state; at most max_state_dim"),              \
        INT("action_dim", "6", 1, SG_LIMIT_WIDTH, "elements of an action; at most max_action_dim"),                    \
        INT("n_obs_steps", "1", 1, 1, "observations of a sample; one is taken"),                                       \
        INT("chunk_size", "50", 1, SG_LIMIT_TOKENS, "actions predicted at once"),                                      \
        INT("n_action_steps", "50", 1, SG_LIMIT_TOKENS, "actions executed of a chunk; no effect on training"),         \
        INT("max_state_dim", "32", 1, SG_LIMIT_WIDTH, "width to which states are padded"),                             \
        INT("max_action_dim", "32", 1, SG_LIMIT_WIDTH, "width to which actions are padded"),                           \
        INT_ALSO("tokenizer_max_length", "language_tokens|tokens|lang_tokens", tokens, 1, SG_LIMIT_TOKENS,             \
                 "tokens of an instruction: all are padded to this"),                                                  \
        LIST("image_resolution", NULL, "224,224", 1, SG_LIMIT_PIXELS,                                                  \
             "height,width to which frames are resized, padded on both sides"),                                        \
        BOOL("freeze_vision_encoder", "false", "the vision tower is not trained"),                                     \
        BOOL("train_expert_only", "false", "the whole vision-language model is not trained"),                          \
        BOOL("gradient_checkpointing", "false", "activations are made again in the backward instead of kept"),         \
        TEXT("checkpointing_scope", "nested", "nested|layers",                                                         \
             "nested: each layer and around them the whole, as shipped (three forward passes); layers: each layer"),   \
        BOOL("tie_word_embeddings", "false", "the language model's head is its embedding (older releases)"),           \
        TEXT("paligemma_variant", "gemma_2b", "gemma_2b|gemma_300m", "widths of the language model"),                  \
        TEXT("action_expert_variant", "gemma_300m", "gemma_2b|gemma_300m", "widths of the action expert"),             \
        INT("text_hidden_size", "0", 0, SG_LIMIT_WIDTH, "width of the language model; 0: the variant's"),              \
        INT("text_intermediate_size", "0", 0, SG_LIMIT_WIDTH, "width of its feed-forward layers; 0: the variant's"),   \
        INT("expert_hidden_size", "0", 0, SG_LIMIT_WIDTH, "width of the expert; 0: the variant's"),                    \
        INT("expert_intermediate_size", "0", 0, SG_LIMIT_WIDTH, "width of its feed-forward layers; 0: the variant's"), \
        INT("num_hidden_layers", "18", 1, SG_LIMIT_LAYERS, "layers of language model and expert"),                     \
        INT("num_attention_heads", "8", 1, 1024, "attention heads of both"),                                           \
        INT("num_key_value_heads", "1", 1, 1024, "key and value heads of both; they divide the attention heads"),      \
        INT("head_dim", "256", 2, 4096, "width of a head"),                                                            \
        INT("vocab_size", "257152", 1, 1 << 24, "tokens that the language model knows"),                               \
        INT("vision_hidden_size", "1152", 1, SG_LIMIT_WIDTH, "width of the vision tower"),                             \
        INT("vision_intermediate_size", "4304", 1, SG_LIMIT_WIDTH, "width of its feed-forward layers"),                \
        INT("vision_num_hidden_layers", "27", 1, SG_LIMIT_LAYERS, "its layers"),                                       \
        INT("vision_num_attention_heads", "16", 1, 1024, "its attention heads; they divide vision_hidden_size"),       \
        INT("vision_patch_size", "14", 1, 256, "pixels of a patch's side"),                                            \
        REAL("min_period", "4e-3", 1e-9, 1e9, "shortest period of the time embedding"),                                \
        REAL("max_period", "4.0", 1e-9, 1e9, "longest period of the time embedding"),                                  \
        OPTIMIZER_KEYS("2.5e-5", "1e-2", "1")

static const sg_key pi0_keys[] = {PI_KEYS("48")};
static const sg_key pi05_keys[] = {PI_KEYS("200")};

/* ---- diffusion: lerobot/policies/diffusion/configuration_diffusion.py ---- */

static const sg_key diffusion_keys[] = {
    OBSERVATION_KEYS_FROM("1", 1),
    INT("state_dim", "6", 1, SG_LIMIT_WIDTH, "elements of the robot's state"),
    INT("action_dim", "6", 1, SG_LIMIT_WIDTH, "elements of an action"),
    INT("n_obs_steps", "2", 1, 64, "observations of a sample, each with a frame of every camera"),
    INT("horizon", "64", 2, SG_LIMIT_TOKENS, "actions predicted at once; a multiple of 2 for each stage of down_dims"),
    INT("n_action_steps", "32", 1, SG_LIMIT_TOKENS, "actions executed of a prediction; no effect on training"),
    TEXT("vision_backbone", "resnet18", "resnet18|resnet34", "network over each camera frame"),
    INT("backbone_width", "64", 1, 4096, "channels of the backbone's first stage"),
    LIST("resize_shape", NULL, "0", 0, SG_LIMIT_PIXELS, "height,width to which frames are resized; 0: they are not"),
    LIST("crop_shape", NULL, "0", 0, SG_LIMIT_PIXELS, "height,width that are cut out of a frame; 0: all of it"),
    BOOL("crop_is_random", "true", "the place of the crop is drawn; no effect on cost"),
    BOOL("use_group_norm", "false", "group norm in the backbone in place of batch norm"),
    INT("spatial_softmax_num_keypoints", "32", 1, SG_LIMIT_WIDTH, "keypoints that a feature map is reduced to"),
    BOOL("use_separate_rgb_encoder_per_camera", "true", "a backbone for each camera; false: one for all"),
    LIST("down_dims", NULL, "512,1024,2048", 1, SG_LIMIT_WIDTH, "channels of the U-Net's stages"),
    INT("kernel_size", "5", 1, 1023, "elements that a convolution along the actions covers; odd"),
    INT("n_groups", "8", 1, SG_LIMIT_WIDTH, "groups of the U-Net's norms; they divide down_dims"),
    INT("diffusion_step_embed_dim", "128", 2, SG_LIMIT_WIDTH, "width of the embedding of the diffusion step; even"),
    BOOL("use_film_scale_modulation", "true", "the condition scales and shifts features; false: it shifts them"),
    TEXT("noise_scheduler_type", "DDPM", "DDPM|DDIM", "noise process; no effect on training"),
    INT("num_train_timesteps", "100", 1, 1 << 20, "steps of the noise process"),
    TEXT("prediction_type", "epsilon", "epsilon|sample", "what is predicted: the noise, or the actions"),
    BOOL("do_mask_loss_for_padding", "false", "actions beyond the episode do not count in the loss"),
    OPTIMIZER_KEYS("1e-4", "1e-6", "10"),
};

/* ---- ppo: rsl_rl's PPO and the velocity tasks of mjlab, Isaac Lab and microduck ---- */

static const sg_key ppo_keys[] = {
    TEXT("task", "mjlab-g1", "mjlab-g1|mjlab-go1|anymal-d-rough|anymal-d-flat|g1-rough|g1-flat|microduck",
         "task whose observation, action and network sizes are the defaults"),
    INT_ALSO("actor_obs", "num_actor_obs|num_obs|state_dim", "0", 0, SG_LIMIT_WIDTH,
             "elements of the actor's observation; 0: the task's"),
    INT_ALSO("critic_obs", "num_critic_obs|num_privileged_obs", "0", 0, SG_LIMIT_WIDTH,
             "elements of the critic's observation; 0: the task's"),
    INT_ALSO("actions", "num_actions|action_dim", "0", 0, SG_LIMIT_WIDTH, "elements of an action; 0: the task's"),
    LIST("actor_hidden_dims", NULL, "0", 0, SG_LIMIT_WIDTH, "widths of the actor's hidden layers; 0: the task's"),
    LIST("critic_hidden_dims", NULL, "0", 0, SG_LIMIT_WIDTH, "widths of the critic's hidden layers; 0: the task's"),
    TEXT("activation", "elu", "elu|relu|tanh|silu|gelu", "activation behind each hidden layer"),
    INT_ALSO("envs", "num_envs", "4096", 1, 1 << 24, "environments simulated at once by a process"),
    INT_ALSO("steps_per_env", "num_steps_per_env", "24", 1, 4096, "environment steps between two updates"),
    INT_ALSO("mini_batches", "num_mini_batches", "4", 1, 1 << 16, "mini-batches per epoch; they divide envs x steps"),
    INT_ALSO("ppo_epochs", "num_learning_epochs|epochs", "5", 1, 1 << 16, "passes over the collected steps"),
    INT_ALSO("iterations", "max_iterations|num_learning_iterations", "1500", 1, 1 << 30, "iterations of a training"),
    REAL_ALSO("env_step_us", NULL, "0", 0, 1e9,
              "cost of one environment's step, microseconds, all environments of a process side by side"),
    REAL_ALSO("clip_param", "clip", "0.2", 0, 100, "clipping of the probability ratio and the value"),
    REAL("gamma", "0.99", 0, 1, "discount"),
    REAL("lam", "0.95", 0, 1, "lambda of the advantage estimate"),
    REAL("entropy_coef", "-1", -1, 1e3, "weight of the entropy bonus; below 0: the task's"),
    REAL("value_loss_coef", "1.0", 0, 1e6, "weight of the value loss"),
    BOOL("use_clipped_value_loss", "true", "clip the value's change too"),
    TEXT("schedule", "adaptive", "adaptive|fixed", "adaptive: the learning rate follows the KL divergence (a read)"),
    REAL("desired_kl", "0.01", 0, 1e3, "KL divergence that the adaptive schedule aims at"),
    TEXT("empirical_normalization", "task", "task|true|false", "observations normalised by their running statistics"),
    REAL("init_noise_std", "1.0", 1e-6, 1e3, "deviation of the actions at the start"),
    REAL_ALSO("optimizer_lr", "learning_rate", "1e-3", 0, 1, "learning rate"),
    REAL_ALSO("grad_clip_norm", "max_grad_norm", "1.0", 0, 1e9,
              "norm to which the gradients of actor and critic are clipped apart; 0: not clipped"),
};

/* ---- generic families ---- */

static const sg_key mlp_keys[] = {
    INT_ALSO("input_dim", "state_dim", "48", 1, 1 << 24, "elements of an input"),
    LIST("hidden_dims", "hidden", "512,256,128", 1, SG_LIMIT_WIDTH, "widths of the hidden layers"),
    INT_ALSO("output_dim", "action_dim", "12", 1, 1 << 24, "elements of an output"),
    TEXT("activation", "relu", "relu|elu|tanh|silu|gelu", "activation behind each hidden layer"),
    TEXT("loss", "mse", "mse|l1", "loss against the target"),
    OPTIMIZER_KEYS("1e-3", "1e-2", "10"),
};

static const sg_key transformer_keys[] = {
    INT_ALSO("n_layers", "num_layers", "6", 1, SG_LIMIT_LAYERS, "layers"),
    INT("dim_model", "512", 2, SG_LIMIT_WIDTH, "width"),
    INT("n_heads", "8", 1, 1024, "attention heads; they divide dim_model"),
    INT("dim_feedforward", "2048", 1, SG_LIMIT_WIDTH, "width of the feed-forward layers"),
    INT_ALSO("sequence_length", "sequence|chunk_size", "64", 1, SG_LIMIT_TOKENS, "tokens of a sample"),
    INT_ALSO("vocab_size", "vocabulary", "0", 0, 1 << 24, "tokens known; 0: continuous inputs of input_dim elements"),
    INT_ALSO("input_dim", "state_dim", "32", 1, SG_LIMIT_WIDTH, "elements of a continuous input token"),
    INT_ALSO("output_dim", "action_dim", "32", 1, SG_LIMIT_WIDTH, "elements of an output token"),
    BOOL("causal", "true", "a token sees itself and those before it"),
    TEXT("norm", "layer_norm", "layer_norm|rms_norm", "kind of norm, before attention and feed-forward"),
    TEXT("activation", "gelu", "gelu|relu|silu", "activation of the feed-forward layers"),
    REAL("dropout", "0.0", 0, 0.99, "dropout probability behind attention and feed-forward"),
    BOOL("gradient_checkpointing", "false", "activations are made again in the backward instead of kept"),
    TEXT("loss", "mse", "mse|l1", "loss against the target"),
    OPTIMIZER_KEYS("1e-4", "1e-2", "1"),
};

/* ---- transformers by their Hugging Face configuration; defaults: bert-base-uncased, gpt2, opt-1.3b, switch-base-8 ---- */

#define LANGUAGE_KEYS(tokens)                                                                                          \
    INT_ALSO("sequence_length", "seq_len|sequence|tokens", tokens, 1, SG_LIMIT_TOKENS, "tokens of a sample"),          \
        TEXT("step", "train", "train|gradients|inference",                                                             \
             "train: with loss and optimizer; gradients: forward and backward, added to gradients that exist; "        \
             "inference: forward alone"),                                                                              \
        OPTIMIZER_KEYS("1e-4", "1e-2", "1")
#define ACTIVATIONS "gelu|gelu_new|relu"

static const sg_key bert_keys[] = {
    INT("vocab_size", "30522", 1, 1 << 24, "tokens known"),
    INT("hidden_size", "768", 1, SG_LIMIT_WIDTH, "width"),
    INT("num_hidden_layers", "12", 1, SG_LIMIT_LAYERS, "layers"),
    INT("num_attention_heads", "12", 1, 1024, "attention heads; they divide hidden_size"),
    INT("intermediate_size", "3072", 1, SG_LIMIT_WIDTH, "width of the feed-forward layers"),
    INT("max_position_embeddings", "512", 1, SG_LIMIT_TOKENS, "longest sequence"),
    INT("type_vocab_size", "2", 1, 1 << 16, "kinds of segments"),
    TEXT("hidden_act", "gelu", ACTIVATIONS, "activation of the feed-forward layers"),
    REAL("hidden_dropout_prob", "0.1", 0, 0.99, "dropout probability of hidden states"),
    REAL("attention_probs_dropout_prob", "0.1", 0, 0.99, "dropout probability of attention weights"),
    REAL("layer_norm_eps", "1e-12", 0, 1, "added to the variance"),
    TEXT("head", "lm", "lm|pretraining|classification",
         "lm: a token per place; pretraining: beside it whether two segments follow each other; classification: of the "
         "whole, without a language-model head (inference alone)"),
    LANGUAGE_KEYS("512"),
};

static const sg_key gpt2_keys[] = {
    INT("vocab_size", "50257", 1, 1 << 24, "tokens known"),
    INT_ALSO("n_embd", "hidden_size", "768", 1, SG_LIMIT_WIDTH, "width"),
    INT_ALSO("n_layer", "num_hidden_layers|n_layers", "12", 1, SG_LIMIT_LAYERS, "layers"),
    INT_ALSO("n_head", "num_attention_heads|n_heads", "12", 1, 1024, "attention heads; they divide n_embd"),
    INT("n_inner", "0", 0, SG_LIMIT_WIDTH, "width of the feed-forward layers; 0: four times n_embd"),
    INT_ALSO("n_positions", "max_position_embeddings", "1024", 1, SG_LIMIT_TOKENS, "longest sequence"),
    TEXT("activation_function", "gelu_new", ACTIVATIONS, "activation of the feed-forward layers"),
    REAL("embd_pdrop", "0.1", 0, 0.99, "dropout probability of embeddings"),
    REAL("attn_pdrop", "0.1", 0, 0.99, "dropout probability of attention weights"),
    REAL("resid_pdrop", "0.1", 0, 0.99, "dropout probability before each residual sum"),
    REAL("layer_norm_epsilon", "1e-5", 0, 1, "added to the variance"),
    LANGUAGE_KEYS("1024"),
};

static const sg_key opt_keys[] = {
    INT("vocab_size", "50272", 1, 1 << 24, "tokens known"),
    INT("hidden_size", "2048", 1, SG_LIMIT_WIDTH, "width"),
    INT("word_embed_proj_dim", "0", 0, SG_LIMIT_WIDTH, "width of the token embedding; 0: hidden_size"),
    INT("num_hidden_layers", "24", 1, SG_LIMIT_LAYERS, "layers"),
    INT("num_attention_heads", "32", 1, 1024, "attention heads; they divide hidden_size"),
    INT("ffn_dim", "8192", 1, SG_LIMIT_WIDTH, "width of the feed-forward layers"),
    INT("max_position_embeddings", "2048", 1, SG_LIMIT_TOKENS, "longest sequence"),
    BOOL("do_layer_norm_before", "true", "norm before attention and feed-forward instead of behind them"),
    TEXT("activation_function", "relu", ACTIVATIONS, "activation of the feed-forward layers"),
    REAL("dropout", "0.1", 0, 0.99, "dropout probability of hidden states"),
    REAL("attention_dropout", "0.0", 0, 0.99, "dropout probability of attention weights"),
    LANGUAGE_KEYS("2048"),
};

static const sg_key megatron_keys[] = {
    INT_ALSO("vocab_size", "padded_vocab_size", "51200", 1, 1 << 24, "tokens known, padded"),
    INT("hidden_size", "1024", 1, SG_LIMIT_WIDTH, "width"),
    INT("num_layers", "24", 1, SG_LIMIT_LAYERS, "layers"),
    INT("num_attention_heads", "16", 1, 1024, "attention heads; they divide hidden_size"),
    INT("ffn_hidden_size", "0", 0, SG_LIMIT_WIDTH, "width of the feed-forward layers; 0: four times hidden_size"),
    INT("max_position_embeddings", "0", 0, SG_LIMIT_TOKENS, "longest sequence; 0: sequence_length"),
    REAL("hidden_dropout", "0.1", 0, 0.99, "dropout probability of hidden states"),
    REAL("attention_dropout", "0.1", 0, 0.99, "dropout probability of attention weights"),
    BOOL("fp32_logits", "false", "the product over the vocabulary takes fp32 operands"),
    LANGUAGE_KEYS("1024"),
};

static const sg_key switch_keys[] = {
    INT("vocab_size", "32128", 1, 1 << 24, "tokens known"),
    INT("d_model", "768", 1, SG_LIMIT_WIDTH, "width"),
    INT("d_kv", "64", 1, 4096, "width of an attention head"),
    INT("d_ff", "3072", 1, SG_LIMIT_WIDTH, "width of the feed-forward layers"),
    INT("num_layers", "12", 1, SG_LIMIT_LAYERS, "layers of the encoder"),
    INT("num_decoder_layers", "0", 0, SG_LIMIT_LAYERS, "layers of the decoder; 0: num_layers"),
    INT("num_heads", "12", 1, 1024, "attention heads"),
    INT("num_experts", "8", 1, 4096, "experts of a sparse layer"),
    INT("expert_capacity", "64", 1, SG_LIMIT_TOKENS, "tokens of a sequence that one expert takes"),
    INT("num_sparse_encoder_layers", "6", 0, SG_LIMIT_LAYERS, "sparse layers of the encoder, evenly spread"),
    INT("num_sparse_decoder_layers", "6", 0, SG_LIMIT_LAYERS, "sparse layers of the decoder, evenly spread"),
    INT("relative_attention_num_buckets", "32", 4, 4096, "buckets of relative positions"),
    INT("relative_attention_max_distance", "128", 3, 1 << 24, "distance from which on all share one bucket"),
    TEXT("dense_act_fn", "relu", ACTIVATIONS, "activation of the feed-forward layers"),
    REAL("dropout_rate", "0.1", 0, 0.99, "dropout probability"),
    TEXT("routing", "even", "even|alike",
         "even: each expert gets its share of the tokens; alike: all tokens are the same one and choose the same "
         "expert"),
    REAL("router_jitter_noise", "0.01", 0, 0.99, "half width of the noise on what is routed, in training"),
    REAL("layer_norm_epsilon", "1e-6", 0, 1, "added to the mean square"),
    LANGUAGE_KEYS("512"),
};

#define KEYS(table) .keys = (table), .n_keys = sizeof(table) / sizeof *(table)

const sg_family sg_family_table[SG_FAMILY_COUNT] = {
    [SG_FAMILY_ACT] = {.name = "act",
                       .summary = "action chunking with transformers: ResNet cameras, variational encoder (LeRobot)",
                       KEYS(act_keys),
                       .default_batch = 8,
                       .default_precision = "fp32"},
    [SG_FAMILY_SMOLVLA] = {.name = "smolvla",
                           .summary = "vision-language-action model with a flow-matching expert (LeRobot)",
                           KEYS(smolvla_keys),
                           .default_batch = 8,
                           .default_precision = "bf16"},
    [SG_FAMILY_PI0] = {.name = "pi0",
                       .summary = "PaliGemma with a flow-matching action expert (openpi, LeRobot)",
                       KEYS(pi0_keys),
                       .default_batch = 8,
                       .default_precision = "fp32"},
    [SG_FAMILY_PI05] = {.name = "pi05",
                        .summary = "pi0 with the state in the prompt and norms steered by time (openpi, LeRobot)",
                        KEYS(pi05_keys),
                        .default_batch = 8,
                        .default_precision = "fp32"},
    [SG_FAMILY_PPO] = {.name = "ppo",
                       .summary = "actor-critic trained by proximal policy optimisation (rsl_rl)",
                       KEYS(ppo_keys),
                       .default_batch = 0,
                       .default_precision = "fp32"},
    [SG_FAMILY_MLP] = {.name = "mlp",
                       .summary = "multi-layer perceptron from the state to the action",
                       KEYS(mlp_keys),
                       .default_batch = 8,
                       .default_precision = "fp32"},
    [SG_FAMILY_TRANSFORMER] = {.name = "transformer",
                               .summary = "transformer over a sequence of states or tokens",
                               KEYS(transformer_keys),
                               .default_batch = 8,
                               .default_precision = "fp32"},
    [SG_FAMILY_BERT] = {.name = "bert",
                        .summary = "BERT with a language-model head (Hugging Face's BertLMHeadModel)",
                        KEYS(bert_keys),
                        .default_batch = 8,
                        .default_precision = "fp32"},
    [SG_FAMILY_GPT2] = {.name = "gpt2",
                        .summary = "GPT-2 and GPT-3 sizes (Hugging Face's GPT2LMHeadModel)",
                        KEYS(gpt2_keys),
                        .default_batch = 8,
                        .default_precision = "fp32"},
    [SG_FAMILY_OPT] = {.name = "opt",
                       .summary = "OPT (Hugging Face's OPTForCausalLM)",
                       KEYS(opt_keys),
                       .default_batch = 8,
                       .default_precision = "fp32"},
    [SG_FAMILY_SWITCH] = {.name = "switch",
                          .summary = "mixture of experts (Hugging Face's SwitchTransformersForConditionalGeneration)",
                          KEYS(switch_keys),
                          .default_batch = 8,
                          .default_precision = "fp32"},
    [SG_FAMILY_DIFFUSION] = {.name = "diffusion",
                             .summary = "diffusion policy: ResNet cameras with spatial softmax, 1-D U-Net (LeRobot)",
                             KEYS(diffusion_keys),
                             .default_batch = 8,
                             .default_precision = "fp32"},
    [SG_FAMILY_MEGATRON] = {.name = "megatron",
                            .summary = "GPT as Megatron-LM trains it, data-parallel (with --precision bf16-pure)",
                            KEYS(megatron_keys),
                            .default_batch = 8,
                            .default_precision = "fp32"},
};
