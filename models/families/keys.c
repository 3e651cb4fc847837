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

#define OBSERVATION_KEYS(cameras)                                                                                      \
    INT("cameras", cameras, 0, SG_LIMIT_CAMERAS, "cameras of a sample"),                                               \
        INT("image_height", "480", 32, SG_LIMIT_PIXELS, "pixels of a camera frame, vertically"),                       \
        INT("image_width", "640", 32, SG_LIMIT_PIXELS, "pixels of a camera frame, horizontally")
#define OPTIMIZER_KEYS(rate, decay, clip)                                                                              \
    REAL("optimizer_lr", rate, 0, 1, "learning rate"), REAL("optimizer_weight_decay", decay, 0, 1, "weight decay"),    \
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
    TEXT("loss", "mse", "mse|l1", "loss against the target"),
    OPTIMIZER_KEYS("1e-4", "1e-2", "1"),
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
};
