/* The families build soundly in every framework, device class, precision and accumulation; both lowerings of a policy
 * compute the same loss and gradients; impossible requests are refused at once, in words. */
#include "models/policy.h"
#include "tests/support/lab.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static void add(request *r, const char *const *pairs) {
    for (; *pairs; pairs += 2) r->settings[r->asked.n_settings++] = (sg_setting){pairs[0], pairs[1], "test"};
}

static void fill(request *r, const policy *p, sg_framework framework, sg_device_class device_class) {
    *r = (request){.asked = {.policy = p->policy,
                             .framework = framework,
                             .device_class = device_class,
                             .batch = p->batch,
                             .precision = p->precision}};
    r->asked.settings = r->settings;
    add(r, p->settings);
    if (strcmp(p->policy, "smolvla") == 0) add(r, MORE_SMOLVLA);
}

static sg_training *build(const request *r) {
    sg_training *training = NULL;
    sg_status status = {0};
    if (sg_policy_build(&r->asked, &training, &status) != SG_OK) fail_msg("%s: %s", r->asked.policy, status.text);
    assert_int_equal(sg_training_verify(training, &status), SG_OK);
    return training;
}

/* ---- both lowerings mean the same ---- */

static void compare(const char *name, const sg_training *a, const sg_training *b) {
    const sg_lab_options options = {.wide = true, .seed = 7};
    sg_lab first, second;
    sg_lab_open(&first, a, &options);
    sg_lab_open(&second, b, &options);
    assert_int_equal(first.n_weights, second.n_weights);
    if (!isfinite(first.value) || !(fabs(first.value - second.value) <= 1e-9 * fabs(second.value)))
        fail_msg("%s: the losses are %.15g and %.15g", name, first.value, second.value);
    double distance = sg_lab_distance(&first, &second);
    if (!(distance <= 1e-9)) fail_msg("%s: the gradients differ by %.3g of their norm", name, distance);
    sg_lab_close(&first);
    sg_lab_close(&second);
}

static void compare_frameworks(const policy *p, const char *const *mode) {
    request r;
    sg_training *training[3];
    for (int i = 0; i < 3; i++) {
        fill(&r, p, i == 1 ? SG_FRAMEWORK_NATIVE : SG_FRAMEWORK_PYTORCH_EAGER,
             i == 2 ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA);
        add(&r, mode);
        training[i] = build(&r);
    }
    compare(p->name, training[0], training[1]);
    compare(p->name, training[0], training[2]);
    for (int i = 0; i < 3; i++) sg_training_free(training[i]);
}

static void test_lowerings_agree(void **state) {
    (void)state;
    for (size_t i = 0; i < N_TINY; i++) {
        size_t modes = strcmp(TINY[i].policy, "smolvla") == 0 ? N_MODES : 1;
        for (size_t mode = 0; mode < modes; mode++) compare_frameworks(&TINY[i], MODES[mode]);
    }
}

/* ---- structure ---- */

static void test_everything_builds(void **state) {
    (void)state;
    static const char *const precisions[] = {NULL, "fp32", "tf32", "bf16", "fp16", "bf16-pure"};
    for (size_t i = 0; i < N_TINY; i++) {
        for (int variant = 0; variant < 4 * 6 * 3; variant++) {
            request r;
            fill(&r, &TINY[i], variant & 1 ? SG_FRAMEWORK_NATIVE : SG_FRAMEWORK_PYTORCH_EAGER,
                 variant & 2 ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA);
            r.asked.precision = precisions[variant / 4 % 6];
            r.asked.accumulation = 1 + variant / 24;
            r.asked.ranks = 1 + (variant & 1);
            bool ppo = strcmp(TINY[i].policy, "ppo") == 0, smolvla = strcmp(TINY[i].policy, "smolvla") == 0;
            if ((ppo && r.asked.accumulation > 1) || (smolvla && variant / 4 % 6 == 4)) continue;
            sg_training_free(build(&r));
        }
    }
}

static void expect_marks(const sg_training *t, size_t program, const int *marks, size_t n) {
    size_t found = 0;
    const sg_program *p = &t->programs[program];
    for (size_t i = 0; i < p->n_entries; i++) {
        if (p->entries[i].kind != SG_ENTRY_MARK) continue;
        assert_true(found < n);
        assert_int_equal(p->entries[i].index, marks[found++]);
    }
    assert_int_equal(found, n);
}

static void expect_program(const sg_training *t, size_t block, size_t step, const char *name) {
    assert_true(block < t->n_blocks && step < t->blocks[block].n_steps);
    assert_int_equal(t->blocks[block].steps[step].kind, SG_STEP_PROGRAM);
    assert_string_equal(t->programs[t->blocks[block].steps[step].index].name, name);
}

static const int UPDATE_MARKS[] = {SG_MARK_FORWARD,   SG_MARK_BACKWARD,  SG_MARK_CLIP,
                                   SG_MARK_OPTIMIZER, SG_MARK_ZERO_GRAD, SG_MARK_END};

static void test_schedule_of_a_step(void **state) {
    (void)state;
    request r;
    fill(&r, &TINY[0], SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    sg_training *t = build(&r);
    assert_string_equal(t->policy, "act");
    assert_string_equal(t->framework, "pytorch-eager");
    assert_int_equal(t->batch, 2);
    assert_int_equal(t->cameras, 2);
    assert_int_equal(t->image_height, 64);
    assert_int_equal(t->image_width, 96);
    assert_int_equal(t->frames_per_sample, 1);
    assert_int_equal(t->n_programs, 2);
    assert_int_equal(t->n_blocks, 1);
    assert_int_equal(t->blocks[0].steps[0].kind, SG_STEP_LOADER);
    expect_program(t, 0, 1, "preprocess");
    expect_program(t, 0, 2, "update");
    expect_marks(t, 0, (const int[]){SG_MARK_PREPROCESS, SG_MARK_END}, 2);
    expect_marks(t, 1, UPDATE_MARKS, sizeof UPDATE_MARKS / sizeof *UPDATE_MARKS);
    sg_counts counts = sg_count_program(t, 0);
    /* Each camera: cast, / 255, - mean, / deviation and the deviation's epsilon; state and action: three each. */
    assert_int_equal(counts.pass[SG_PASS_PREPROCESS].ops, 2 * 5 + 2 * 3);
    sg_training_free(t);
}

static void test_schedule_of_accumulation(void **state) {
    (void)state;
    request r;
    fill(&r, &TINY[0], SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    r.asked.accumulation = 5;
    sg_training *t = build(&r);
    assert_int_equal(t->accumulation, 5);
    assert_int_equal(t->n_blocks, 3);
    static const char *const programs[] = {"micro-step first", "micro-step", "update"};
    static const int64_t repeats[] = {1, 3, 1};
    for (size_t b = 0; b < 3; b++) {
        assert_int_equal(t->blocks[b].repeat, repeats[b]);
        expect_program(t, b, 2, programs[b]);
    }
    for (size_t p = 0; p < t->n_programs; p++) {
        size_t ready = 0;
        for (size_t i = 0; i < t->programs[p].n_entries; i++)
            ready += t->programs[p].entries[i].kind == SG_ENTRY_GRAD_READY;
        bool last = p == sg_main_program(t);
        assert_int_equal(ready, last ? (size_t)sg_count_program(t, p).trainable_tensors : 0);
    }
    sg_training_free(t);
}

static void test_schedule_of_ppo(void **state) {
    (void)state;
    request r;
    fill(&r, &TINY[N_TINY - 1], SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    add(&r, (const char *const[]){"ppo_epochs", "4", "env_step_us", "2.5", NULL});
    sg_training *t = build(&r);
    assert_int_equal(t->envs, 6);
    assert_int_equal(t->steps_per_env, 3);
    assert_int_equal(t->batch, 9);
    assert_int_equal(t->optimizer_steps, 8);
    assert_float_equal(t->env_step_us, 2.5, 0);
    assert_int_equal(t->n_blocks, 3);
    expect_program(t, 0, 0, "inference");
    assert_int_equal(t->blocks[0].repeat, 3);
    assert_int_equal(t->blocks[0].steps[1].kind, SG_STEP_ENVIRONMENT);
    assert_int_equal(t->blocks[0].steps[1].env_steps, 6);
    expect_program(t, 1, 0, "returns");
    expect_program(t, 2, 0, "update");
    assert_int_equal(t->blocks[2].repeat, 8);
    static const int marks[] = {SG_MARK_PREPROCESS, SG_MARK_FORWARD,   SG_MARK_BACKWARD, SG_MARK_CLIP,
                                SG_MARK_OPTIMIZER,  SG_MARK_ZERO_GRAD, SG_MARK_END};
    expect_marks(t, 2, marks, sizeof marks / sizeof *marks);
    sg_training_free(t);
}

static const sg_parameter *parameter(const sg_training *t, const char *name) {
    for (size_t i = 0; i < t->n_parameters; i++)
        if (strcmp(t->parameters[i].name, name) == 0) return &t->parameters[i];
    fail_msg("%s has no parameter %s", t->policy, name);
    return NULL;
}

static sg_compute compute_of(const char *policy, const char *precision, sg_device_class device_class) {
    sg_training *t = NULL;
    sg_status status = {0};
    sg_policy_request asked = {.policy = policy, .precision = precision, .device_class = device_class};
    if (sg_policy_build(&asked, &t, &status) != SG_OK) fail_msg("%s", status.text);
    sg_compute compute = SG_COMPUTE_COUNT;
    for (size_t i = 0; i < t->n_ops && compute == SG_COMPUTE_COUNT; i++)
        if (t->ops[i].kind == SG_OP_MATMUL) compute = (sg_compute)t->ops[i].attrs.compute;
    sg_training_free(t);
    return compute;
}

/* LeRobot and rsl_rl's runners let a GPU use TF32; PyTorch by itself does not; a CPU has none. */
static void test_products_of_fp32(void **state) {
    (void)state;
    static const char *const allowing[] = {"act", "ppo"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(compute_of(allowing[i], NULL, SG_DEVICE_CLASS_CUDA), SG_COMPUTE_TF32);
        assert_int_equal(compute_of(allowing[i], "fp32", SG_DEVICE_CLASS_CUDA), SG_COMPUTE_F32);
        assert_int_equal(compute_of(allowing[i], NULL, SG_DEVICE_CLASS_CPU), SG_COMPUTE_F32);
    }
    assert_int_equal(compute_of("mlp", NULL, SG_DEVICE_CLASS_CUDA), SG_COMPUTE_F32);
    assert_int_equal(compute_of("mlp", "tf32", SG_DEVICE_CLASS_CUDA), SG_COMPUTE_TF32);
    assert_int_equal(compute_of("mlp", "tf32", SG_DEVICE_CLASS_CPU), SG_COMPUTE_F32);
    assert_int_equal(compute_of("mlp", "bf16", SG_DEVICE_CLASS_CUDA), SG_COMPUTE_BF16);
    assert_int_equal(compute_of("mlp", "fp16", SG_DEVICE_CLASS_CUDA), SG_COMPUTE_F16);
}

/* PyTorch's convolutions are TF32 on a GPU even where matrix products are not (cudnn.allow_tf32 is on by default). */
static void test_convolutions_are_tf32(void **state) {
    (void)state;
    for (int device = 0; device < 2; device++) {
        request r;
        fill(&r, &TINY[0], SG_FRAMEWORK_PYTORCH_EAGER, device ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA);
        r.asked.precision = "fp32";
        sg_training *t = build(&r);
        int convolutions = 0;
        for (size_t i = 0; i < t->n_ops; i++) {
            sg_op_class cls = sg_op_class_of(&t->ops[i]);
            bool conv = cls == SG_CLASS_CONV || cls == SG_CLASS_CONV_BWD_DATA || cls == SG_CLASS_CONV_BWD_WEIGHTS;
            if (conv) assert_int_equal(t->ops[i].attrs.compute, device ? SG_COMPUTE_F32 : SG_COMPUTE_TF32);
            if (cls == SG_CLASS_GEMM || cls == SG_CLASS_BMM) assert_int_equal(t->ops[i].attrs.compute, SG_COMPUTE_F32);
            convolutions += conv;
        }
        assert_true(convolutions > 3);
        sg_training_free(t);
    }
}

static int count_kind(const sg_training *t, sg_op_kind kind) {
    int n = 0;
    const sg_program *p = &t->programs[sg_main_program(t)];
    for (size_t i = 0; i < p->n_entries; i++)
        n += p->entries[i].kind == SG_ENTRY_OP && t->ops[p->entries[i].index].kind == (int32_t)kind;
    return n;
}

/* torch.amp.GradScaler beside a bf16 step: loss times scale; its backward; 1 / scale in fp64 (3), found = 0, two copies, one
 * pass over the gradients, one update; one .item(). */
static void test_loss_scaler(void **state) {
    (void)state;
    static const sg_pass passes[] = {SG_PASS_FORWARD, SG_PASS_BACKWARD, SG_PASS_OPTIMIZER};
    static const int64_t more[] = {1, 1, 8};
    for (size_t i = 0; i < N_TINY; i++) {
        if (strcmp(TINY[i].policy, "smolvla") == 0) continue;
        sg_counts counts[2];
        for (int scaled = 0; scaled < 2; scaled++) {
            request r;
            fill(&r, &TINY[i], SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
            r.asked.precision = scaled ? "fp16" : "bf16";
            sg_training *t = build(&r);
            counts[scaled] = sg_count_program(t, sg_main_program(t));
            assert_int_equal(count_kind(t, SG_OP_AMP_UNSCALE), scaled);
            assert_int_equal(count_kind(t, SG_OP_AMP_UPDATE), scaled);
            sg_training_free(t);
        }
        assert_int_equal(counts[1].waits, counts[0].waits + 1);
        assert_int_equal(counts[1].parameters, counts[0].parameters);
        for (int p = 0; p < 3; p++)
            assert_int_equal(counts[1].pass[passes[p]].ops, counts[0].pass[passes[p]].ops + more[p]);
    }
}

/* Weights, gradients and moments are bf16, and so is every product. */
static void test_pure_low_precision(void **state) {
    (void)state;
    for (size_t i = 0; i < N_TINY; i++) {
        for (int framework = 0; framework < SG_FRAMEWORK_COUNT; framework++) {
            request r;
            fill(&r, &TINY[i], (sg_framework)framework, SG_DEVICE_CLASS_CUDA);
            r.asked.precision = "bf16-pure";
            sg_training *t = build(&r);
            for (size_t k = 0; k < t->n_parameters; k++) {
                const sg_parameter *p = &t->parameters[k];
                if (!p->is_buffer) assert_int_equal(t->tensors[p->tensor].desc.dtype, SG_BF16);
                if (p->gradient < 0) continue;
                assert_int_equal(t->tensors[p->gradient].desc.dtype, SG_BF16);
                assert_int_equal(t->tensors[p->state[0]].desc.dtype, SG_BF16);
                assert_int_equal(t->tensors[p->state[1]].desc.dtype, SG_BF16);
            }
            for (size_t k = 0; k < t->n_ops; k++)
                if (sg_op_class_of(&t->ops[k]) == SG_CLASS_GEMM)
                    assert_int_equal(t->ops[k].attrs.compute, SG_COMPUTE_BF16);
            sg_training_free(t);
        }
    }
}

/* Names as in LeRobot's checkpoints, and what is frozen by name. */
static void test_names_and_freezing(void **state) {
    (void)state;
    request r;
    fill(&r, &TINY[0], SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU);
    sg_training *t = build(&r);
    assert_true(parameter(t, "model.backbone.layer2.0.downsample.0.weight")->trainable);
    assert_true(parameter(t, "model.backbone.layer2.0.downsample.1.running_var")->is_buffer);
    assert_true(parameter(t, "model.decoder.layers.0.multihead_attn.in_proj_weight")->trainable);
    assert_true(parameter(t, "model.vae_encoder_cls_embed.weight")->trainable);
    sg_training_free(t);
    fill(&r, &TINY[6], SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU);
    add(&r, MODES[2]);
    t = build(&r);
    static const char vlm[] = "model.vlm_with_expert.vlm";
    char name[120];
    const struct {
        const char *name;
        bool trainable;
    } rows[] = {{"lm_head.weight", false},
                {"model.text_model.norm.weight", false},
                {"model.text_model.layers.1.mlp.up_proj.weight", false},
                {"model.text_model.layers.0.mlp.up_proj.weight", true},
                {"model.text_model.embed_tokens.weight", true},
                {"model.connector.modality_projection.proj.weight", true},
                {"model.vision_model.encoder.layers.0.self_attn.q_proj.bias", true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)snprintf(name, sizeof name, "%s.%s", vlm, rows[i].name);
        assert_int_equal(parameter(t, name)->trainable, rows[i].trainable);
    }
    assert_true(parameter(t, "model.state_proj.weight")->trainable);
    sg_training_free(t);
}

/* Ops carry the module whose parameters they read. */
static void test_modules_own_their_work(void **state) {
    (void)state;
    for (int framework = 0; framework < SG_FRAMEWORK_COUNT; framework++) {
        request r;
        fill(&r, &TINY[0], (sg_framework)framework, SG_DEVICE_CLASS_CUDA);
        sg_training *t = build(&r);
        sg_module_counts *counts = calloc(t->n_modules, sizeof *counts);
        assert_non_null(counts);
        sg_count_modules(t, sg_main_program(t), counts);
        for (size_t i = 0; i < t->n_modules; i++) {
            if (counts[i].parameters == 0 || strstr(t->modules[i].name, "embed"))
                continue; /* tables are read elsewhere */
            if (counts[i].forward_ops == 0) fail_msg("module %s has parameters and no work", t->modules[i].name);
            for (size_t other = 0; other < i; other++)
                assert_string_not_equal(t->modules[i].name, t->modules[other].name);
        }
        free(counts);
        sg_training_free(t);
    }
}

/* ---- requests that cannot be met ---- */

static void refuses(const sg_policy_request *asked, const char *part) {
    sg_training *training = NULL;
    sg_status status = {0};
    struct timespec before, after;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    sg_code code = sg_policy_build(asked, &training, &status);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    if (code != SG_BAD_INPUT || training) fail_msg("'%s' expected, but the policy was built", part);
    if (!strstr(status.text, part)) fail_msg("'%s' does not say '%s'", status.text, part);
    double spent_s = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    if (spent_s > 1.0) fail_msg("'%s' took %.1f s", part, spent_s);
}

static void refuses_setting(const char *policy, const char *key, const char *value, const char *part) {
    const sg_setting setting = {key, value, "--set"};
    refuses(&(sg_policy_request){.policy = policy, .settings = &setting, .n_settings = 1}, part);
}

static void test_impossible_requests(void **state) {
    (void)state;
    refuses(&(sg_policy_request){.policy = "atc"}, "unknown policy 'atc': did you mean 'act'?");
    refuses(&(sg_policy_request){.policy = "tdmpc"}, "Known policies: act, smolvla, pi0, pi05, ppo, mlp, transformer");
    refuses(&(sg_policy_request){.policy = NULL}, "unknown policy ''");
    refuses(&(sg_policy_request){.policy = "act", .batch = -1}, "batch -1 is outside 1 to");
    refuses(&(sg_policy_request){.policy = "act", .batch = 1000000000000}, "batch 1000000000000 is outside 1 to");
    refuses(&(sg_policy_request){.policy = "act", .accumulation = 1000000}, "accumulation 1000000 is outside");
    refuses(&(sg_policy_request){.policy = "act", .ranks = -3}, "ranks -3 is outside");
    refuses(&(sg_policy_request){.policy = "act", .precision = "int8"}, "precision 'int8' is not one of fp32, tf32");
    refuses(&(sg_policy_request){.policy = "smolvla", .precision = "fp16"},
            "not one of fp32, tf32, bf16, bf16-pure for");
    refuses(&(sg_policy_request){.policy = "ppo", .batch = 64}, "use --envs, --steps-per-env and --mini-batches");
    refuses(&(sg_policy_request){.policy = "ppo", .accumulation = 2}, "does not accumulate");
    refuses_setting("act", "n_heads", "3", "dim_model 512 must be a multiple of 4 and of n_heads 3");
    refuses_setting("diffusion", "horizon", "12", "must be a multiple of 8");
    refuses_setting("diffusion", "down_dims", "512,1020", "1020 channels are no multiple of n_groups 8");
    refuses_setting("diffusion", "crop_shape", "84", "crop_shape (--set) must be height,width in pixels, or 0");
    refuses_setting("diffusion", "crop_shape", "84,641", "a width of 641 pixels does not fit into frames of 640");
    refuses_setting("diffusion", "kernel_size", "4", "kernel_size 4 must be odd");
    refuses_setting("diffusion", "diffusion_step_embed_dim", "7", "must be even");
    refuses_setting("diffusion", "down_dims", "8,8,8,8,8,8,8,8,8", "more than 8 stages");
    refuses_setting("diffusion", "cameras", "0", "cameras");
    refuses_setting("smolvla", "resize_imgs_with_padding", "512,256", "two equal numbers");
    refuses_setting("smolvla", "resize_imgs_with_padding", "500,500", "multiple of vision_patch_size x scale_factor");
    refuses_setting("smolvla", "text_num_key_value_heads", "4", "multiple of text_num_key_value_heads 4");
    refuses_setting("smolvla", "num_expert_layers", "8", "must be 0 or num_vlm_layers 16");
    refuses_setting("smolvla", "language_tokens", "49", "exceeds tokenizer_max_length 48");
    refuses_setting("smolvla", "state_dim", "40", "must not exceed max_state_dim 32");
    refuses_setting("pi0", "state_dim", "40", "must not exceed max_state_dim 32");
    refuses_setting("pi0", "image_resolution", "224,112", "two equal numbers");
    refuses_setting("pi05", "image_resolution", "230,230", "multiple of vision_patch_size 14");
    refuses_setting("pi05", "cameras", "0", "must be 1 to 64 together");
    refuses_setting("pi05", "empty_cameras", "63", "must be 1 to 64 together");
    refuses_setting("pi0", "num_key_value_heads", "3", "multiple of num_key_value_heads 3");
    refuses_setting("pi0", "head_dim", "255", "must be even");
    refuses_setting("pi05", "expert_hidden_size", "1023", "must be even");
    refuses_setting("pi0", "vision_num_attention_heads", "7", "multiple of vision_num_attention_heads 7");
    refuses_setting("pi05", "chunk_size", "65536", "tokens, more than 65536");
    refuses_setting("act", "optimizer", "lion", "adamw");
    static const sg_setting decayed[] = {{"optimizer", "sgd", "test"}, {"optimizer_weight_decay", "0.1", "test"}};
    refuses(&(sg_policy_request){.policy = "mlp", .settings = decayed, .n_settings = 2}, "SGD with weight decay");
    refuses(&(sg_policy_request){.policy = "pi05", .precision = "fp16"}, "fp32, tf32, bf16, bf16-pure");
    const sg_setting few[] = {{"envs", "2", "--envs"}, {"mini_batches", "64", "--mini-batches"}};
    refuses(&(sg_policy_request){.policy = "ppo", .settings = few, .n_settings = 2},
            "mini_batches 64 (--mini-batches) exceeds the 48 steps collected");
    refuses_setting("ppo", "actor_hidden_dims", "8,0", "hidden layer of width 0");
    refuses_setting("transformer", "n_heads", "7", "multiple of n_heads 7");
}

/* Sizes whose product no machine holds are refused by their bytes, not tried. */
static void test_absurd_sizes(void **state) {
    (void)state;
    sg_setting settings[] = {{"dim_model", "65536", "--set"},
                             {"dim_feedforward", "65536", "--set"},
                             {"chunk_size", "65536", "--set"},
                             {"n_encoder_layers", "4", "--set"}};
    sg_policy_request asked = {.policy = "act", .batch = 1 << 24, .settings = settings, .n_settings = 4};
    refuses(&asked, "use a smaller batch or size");
    const sg_setting large[] = {{"envs", "16777216", "--envs"}, {"steps_per_env", "4096", "--set"}};
    refuses(&(sg_policy_request){.policy = "ppo", .settings = large, .n_settings = 2},
            "steps per iteration, more than");
    const sg_setting images[] = {{"image_height", "8192", "--set"}, {"image_width", "8192", "--set"}};
    refuses(&(sg_policy_request){.policy = "act", .settings = images, .n_settings = 2},
            "encoder tokens, more than 65536");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowerings_agree),
        cmocka_unit_test(test_everything_builds),
        cmocka_unit_test(test_schedule_of_a_step),
        cmocka_unit_test(test_schedule_of_accumulation),
        cmocka_unit_test(test_schedule_of_ppo),
        cmocka_unit_test(test_convolutions_are_tf32),
        cmocka_unit_test(test_loss_scaler),
        cmocka_unit_test(test_pure_low_precision),
        cmocka_unit_test(test_products_of_fp32),
        cmocka_unit_test(test_names_and_freezing),
        cmocka_unit_test(test_modules_own_their_work),
        cmocka_unit_test(test_impossible_requests),
        cmocka_unit_test(test_absurd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
