/* policy.c: the registry of families and the way from a request to a training. */
#include "models/policy.h"

#include <stdio.h>
#include <string.h>

#include "kernels/nearest.h"
#include "models/families/family.h"

enum { MAX_BATCH = 1 << 24, MAX_ACCUMULATION = 1 << 16, MAX_RANKS = 1 << 16 };

typedef struct family_builder {
    void (*build)(sg_graph *g, const sg_family_build *build);
    sg_code (*batch)(const sg_options *options, int64_t *batch, sg_status *status); /* NULL: the request's batch */
    const char *batch_hint; /* what to use where a batch cannot be asked for */
    bool own_bf16;          /* bf16 means the policy's own bf16 weights, not autocast over fp32 weights */
    bool tf32; /* its trainer (LeRobot, Isaac Lab, mjlab) lets GPUs form fp32 products in TF32 (allow_tf32 = True) */
} family_builder;

static const family_builder builders[SG_FAMILY_COUNT] = {
    [SG_FAMILY_ACT] = {.build = sg_act_build, .tf32 = true},
    [SG_FAMILY_SMOLVLA] = {.build = sg_smolvla_build, .own_bf16 = true, .tf32 = true},
    [SG_FAMILY_PI0] = {.build = sg_pi0_build, .own_bf16 = true, .tf32 = true},
    [SG_FAMILY_PI05] = {.build = sg_pi05_build, .own_bf16 = true, .tf32 = true},
    [SG_FAMILY_PPO] = {.build = sg_ppo_build,
                       .tf32 = true,
                       .batch = sg_ppo_batch,
                       .batch_hint = "a mini-batch has envs x steps_per_env / mini_batches samples: use --envs, "
                                     "--steps-per-env and --mini-batches"},
    [SG_FAMILY_MLP] = {.build = sg_mlp_build},
    [SG_FAMILY_TRANSFORMER] = {.build = sg_transformer_build},
    [SG_FAMILY_BERT] = {.build = sg_bert_build},
    [SG_FAMILY_GPT2] = {.build = sg_gpt2_build},
    [SG_FAMILY_OPT] = {.build = sg_opt_build},
    [SG_FAMILY_SWITCH] = {.build = sg_switch_build},
    [SG_FAMILY_DIFFUSION] = {.build = sg_diffusion_build, .tf32 = true},
    [SG_FAMILY_MEGATRON] = {.build = sg_megatron_build, .tf32 = true},
};

const char *sg_framework_name(sg_framework framework) {
    switch (framework) {
    case SG_FRAMEWORK_PYTORCH_EAGER: return "pytorch-eager";
    case SG_FRAMEWORK_NATIVE: return "native";
    case SG_FRAMEWORK_PYTORCH_COMPILED: return "pytorch-compiled";
    case SG_FRAMEWORK_PYTORCH_CUDA_GRAPHS: return "pytorch-cuda-graphs";
    case SG_FRAMEWORK_JAX: return "jax";
    case SG_FRAMEWORK_COUNT: break;
    }
    return "unknown";
}

bool sg_framework_captures(sg_framework framework) {
    return framework == SG_FRAMEWORK_PYTORCH_CUDA_GRAPHS || framework == SG_FRAMEWORK_JAX;
}

bool sg_framework_runs(sg_framework framework) {
    return framework == SG_FRAMEWORK_PYTORCH_EAGER || framework == SG_FRAMEWORK_NATIVE;
}

const sg_family *sg_families(size_t *count) {
    *count = SG_FAMILY_COUNT;
    return sg_family_table;
}

static size_t family_index(const char *name) {
    size_t i = 0;
    while (i < SG_FAMILY_COUNT && strcmp(sg_family_table[i].name, name) != 0) i++;
    return i;
}

const sg_family *sg_family_find(const char *name) {
    size_t index = name ? family_index(name) : SG_FAMILY_COUNT;
    return index < SG_FAMILY_COUNT ? &sg_family_table[index] : NULL;
}

static sg_code fail_policy(const char *name, sg_status *status) {
    const char *names[SG_FAMILY_COUNT];
    for (size_t i = 0; i < SG_FAMILY_COUNT; i++) names[i] = sg_family_table[i].name;
    const char *near = sg_nearest(name, names, SG_FAMILY_COUNT);
    char known[16 * SG_FAMILY_COUNT] = "";
    size_t at = 0;
    for (size_t i = 0; i < SG_FAMILY_COUNT && at < sizeof known; i++) {
        int n = snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", names[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return sg_fail(status, SG_BAD_INPUT, "unknown policy '%.80s'%s%s%s Known policies: %s", name,
                   near ? ": did you mean '" : ".", near ? near : "", near ? "'?" : "", known);
}

/* ---- the request ---- */

static sg_code check_count(const char *what, int64_t *value, int64_t otherwise, int64_t most, sg_status *status) {
    if (*value == 0) *value = otherwise;
    if (*value >= 1 && *value <= most) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "%s %lld is outside 1 to %lld", what, (long long)*value, (long long)most);
}

static sg_code resolve_batch(const sg_policy_request *request, size_t index, sg_family_build *build,
                             sg_status *status) {
    const family_builder *builder = &builders[index];
    const char *policy = sg_family_table[index].name;
    build->batch = request->batch;
    build->accumulation = request->accumulation;
    if (builder->batch) {
        if (request->batch) {
            return sg_fail(status, SG_BAD_INPUT, "policy %s takes no batch (%lld was given): %s", policy,
                           (long long)request->batch, builder->batch_hint);
        }
        if (request->accumulation > 1) {
            return sg_fail(status, SG_BAD_INPUT, "policy %s does not accumulate gradients: %s", policy,
                           builder->batch_hint);
        }
        build->accumulation = 1;
        return builder->batch(build->options, &build->batch, status);
    }
    sg_code code = check_count("batch", &build->batch, sg_family_table[index].default_batch, MAX_BATCH, status);
    return code ? code : check_count("accumulation", &build->accumulation, 1, MAX_ACCUMULATION, status);
}

/* The profile for a precision. fp32 and tf32 say how a GPU forms fp32 matrix products; its convolutions are TF32 in both, as
 * PyTorch has them (torch.backends.cudnn.allow_tf32 is on, torch.backends.cuda.matmul.allow_tf32 is off unless the trainer
 * sets it). bf16 and fp16 are autocast over fp32 weights, unless the policy keeps bf16 weights of its own; bf16-pure has
 * weights, gradients and optimizer state in bf16 throughout. A CPU has no TF32. */
static sg_code resolve_precision(const sg_policy_request *request, size_t index, sg_profile *profile, bool *own,
                                 sg_status *status) {
    const char *asked = request->precision;
    bool own_bf16 = builders[index].own_bf16;
    bool cuda = request->device_class == SG_DEVICE_CLASS_CUDA, pure = asked && strcmp(asked, "bf16-pure") == 0;
    const char *named = asked ? asked : sg_family_table[index].default_precision;
    *own = pure || (own_bf16 && strcmp(named, "bf16") == 0);
    if (cuda) profile->compute_conv_f32 = SG_COMPUTE_TF32;
    if (cuda && builders[index].tf32) profile->compute_f32 = SG_COMPUTE_TF32;
    if (pure) profile->float_dtype = SG_BF16;
    if (!asked || *own) return SG_OK;
    if (strcmp(asked, "fp32") == 0) {
        profile->compute_f32 = SG_COMPUTE_F32;
    } else if (strcmp(asked, "tf32") == 0) {
        if (cuda) profile->compute_f32 = SG_COMPUTE_TF32;
    } else if (!own_bf16 && (strcmp(asked, "bf16") == 0 || strcmp(asked, "fp16") == 0)) {
        profile->autocast = true;
        profile->autocast_dtype = strcmp(asked, "bf16") == 0 ? SG_BF16 : SG_F16;
        profile->loss_scaler = profile->autocast_dtype == SG_F16;
    } else {
        return sg_fail(status, SG_BAD_INPUT, "precision '%.80s' is not one of %s for policy %s", asked,
                       own_bf16 ? "fp32, tf32, bf16, bf16-pure" : "fp32, tf32, bf16, fp16, bf16-pure",
                       sg_family_table[index].name);
    }
    return SG_OK;
}

const char *sg_policy_precision(const sg_policy_request *request) {
    size_t index = request->policy ? family_index(request->policy) : SG_FAMILY_COUNT;
    if (index == SG_FAMILY_COUNT) return NULL;
    if (request->precision) return request->precision;
    const char *own = sg_family_table[index].default_precision;
    bool in_tf32 = request->device_class == SG_DEVICE_CLASS_CUDA && builders[index].tf32;
    return in_tf32 && strcmp(own, "fp32") == 0 ? "tf32" : own;
}

static sg_code resolve_sharding(const sg_policy_request *request, const sg_family_build *build, sg_profile *profile,
                                sg_status *status) {
    const char *asked = request->sharding ? request->sharding : "none";
    if (strcmp(asked, "none") == 0) return SG_OK;
    if (strcmp(asked, "full") != 0)
        return sg_fail(status, SG_BAD_INPUT, "sharding '%.80s' is not one of none, full", asked);
    if (build->accumulation > 1)
        return sg_fail(status, SG_BAD_INPUT, "sharding full does not accumulate gradients: use accumulation 1");
    if (profile->loss_scaler)
        return sg_fail(status, SG_BAD_INPUT, "sharding full has no loss scaler: use a precision other than fp16");
    profile->sharded = true;
    return SG_OK;
}

static sg_code build_graph(const sg_policy_request *request, size_t index, sg_family_build *build, int64_t ranks,
                           sg_training **training, sg_status *status) {
    sg_profile profile = sg_profile_make(request->framework, request->device_class);
    sg_code code = resolve_precision(request, index, &profile, &build->own_bf16, status);
    if (!code) code = resolve_sharding(request, build, &profile, status);
    if (code) return code;
    sg_graph *g = sg_graph_new(&profile, build->batch, build->accumulation, ranks, status);
    if (!g) return status ? status->code : SG_MACHINE;
    sg_training *made = sg_graph_training(g);
    made->policy = sg_family_table[index].name;
    made->framework = sg_framework_name(request->framework);
    builders[index].build(g, build);
    return sg_graph_finish(g, training, status);
}

sg_code sg_policy_build(const sg_policy_request *request, sg_training **training, sg_status *status) {
    *training = NULL;
    const char *name = request->policy ? request->policy : "";
    size_t index = family_index(name);
    if (index == SG_FAMILY_COUNT) return fail_policy(name, status);
    int64_t ranks = request->ranks;
    sg_code code = check_count("ranks", &ranks, 1, MAX_RANKS, status);
    if (code) return code;
    sg_options *options = NULL;
    code = sg_options_make(&sg_family_table[index], request->settings, request->n_settings, &options, status);
    if (code) return code;
    sg_family_build build = {.options = options};
    code = resolve_batch(request, index, &build, status);
    if (!code) code = build_graph(request, index, &build, ranks, training, status);
    sg_options_free(options);
    return code;
}
