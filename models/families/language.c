/* language.c: what transformers described by a Hugging Face configuration share. */
#include "models/families/language.h"

#include <string.h>

#include "models/layers/heads.h"

sg_language sg_language_make(sg_graph *g, const sg_family_build *build) {
    const char *step = sg_option_text(build->options, "step");
    sg_language l = {.step = strcmp(step, "train") == 0       ? SG_LANGUAGE_TRAIN
                             : strcmp(step, "gradients") == 0 ? SG_LANGUAGE_GRADIENTS
                                                              : SG_LANGUAGE_INFERENCE,
                     .batch = build->batch,
                     .tokens = sg_option_int(build->options, "sequence_length"),
                     .vocabulary = sg_option_int(build->options, "vocab_size"),
                     .labels = SG_NO_TENSOR};
    sg_desc ids = sg_desc_make(SG_I64, 2, (int64_t[]){l.batch, l.tokens});
    l.ids = sg_input_tensor(g, "input_ids", SG_INPUT_INTEGER, ids, 0, (double)l.vocabulary);
    if (l.step != SG_LANGUAGE_INFERENCE)
        l.labels = sg_input_tensor(g, "labels", SG_INPUT_INTEGER, ids, 0, (double)l.vocabulary);
    return l;
}

double sg_language_dropout(const sg_language *language, double probability) {
    return language->step == SG_LANGUAGE_INFERENCE ? 0 : probability;
}

void sg_language_check_heads(sg_graph *g, const char *width_key, int64_t width, const char *heads_key, int64_t heads) {
    if (width % heads == 0) return;
    sg_graph_fail(g, SG_BAD_INPUT, "%s %lld must be a multiple of %s %lld: each head gets an equal part", width_key,
                  (long long)width, heads_key, (long long)heads);
}

void sg_language_check_positions(sg_graph *g, const sg_language *language, const char *key, int64_t positions) {
    if (language->tokens <= positions) return;
    sg_graph_fail(g, SG_BAD_INPUT, "sequence_length %lld is above %s %lld", (long long)language->tokens, key,
                  (long long)positions);
}

/* ---- parameters ---- */

static const double init_sd = 0.02; /* initializer_range of all of them */
static const sg_layer_style fp32 = {.dtype = SG_F32};

sg_linear_layer sg_language_linear(sg_graph *g, const char *name, int64_t in, int64_t out, bool bias) {
    sg_linear_layer layer = {sg_graph_text(g, "%s", name), SG_NO_TENSOR, SG_NO_TENSOR};
    sg_module_begin(g, "%s", name);
    layer.weight = sg_param_normal(g, "weight", 2, (int64_t[]){out, in}, init_sd, fp32);
    if (bias) layer.bias = sg_param_constant(g, "bias", 1, &out, 0.0, fp32);
    sg_module_end(g);
    return layer;
}

sg_tid sg_language_embedding(sg_graph *g, const char *name, int64_t rows, int64_t width) {
    sg_module_begin(g, "%s", name);
    sg_tid table = sg_param_normal(g, "weight", 2, (int64_t[]){rows, width}, init_sd, fp32);
    sg_module_end(g);
    return table;
}

/* ---- tokens ---- */

sg_tid sg_language_places(sg_graph *g, const sg_language *language) {
    int64_t t = language->tokens;
    return sg_view(g, sg_arange(g, SG_I64, 0, 1, t), 2, (int64_t[]){1, t});
}

sg_tid sg_language_mask(sg_graph *g, const sg_language *language, bool causal) {
    int64_t b = language->batch, t = language->tokens;
    sg_tid seen = sg_view(g, sg_full(g, sg_float(g), 2, (int64_t[]){b, t}, 1), 4, (int64_t[]){b, 1, 1, t});
    if (causal) seen = sg_mul(g, sg_to(g, sg_causal_mask(g, t), sg_float(g)), seen);
    sg_tid hidden = sg_unary(g, SG_FN_AFFINE, seen, -1.0, 1.0);
    return sg_scale(g, hidden, sg_least_score(g));
}

/* ---- loss ---- */

/* Cross entropy, mean over tokens: softmax over the vocabulary, the label's probability, its logarithm. Backward writes a
 * dense gradient of the probabilities and goes through the softmax, which is what nll_loss and log_softmax do. */
static sg_tid cross_entropy(sg_graph *g, const sg_language *l, sg_tid logits) {
    int64_t tokens = l->batch * l->tokens;
    sg_module_begin(g, "loss");
    sg_tid p = sg_softmax(g, sg_view(g, logits, 2, (int64_t[]){tokens, l->vocabulary}));
    sg_tid first = sg_arange(g, SG_I64, 0, (double)l->vocabulary, tokens);
    sg_tid index = sg_add(g, sg_view(g, l->labels, 1, &tokens), first);
    sg_tid chosen = sg_embedding(g, sg_view(g, p, 2, (int64_t[]){tokens * l->vocabulary, 1}), index);
    sg_tid loss = sg_scale(g, sg_mean_all(g, sg_unary(g, SG_FN_LOG, chosen, 0, 0)), -1.0);
    sg_module_end(g);
    return loss;
}

/* ---- programs ---- */

typedef struct policy_of {
    const sg_language *language;
    const sg_language_policy *policy;
} policy_of;

static sg_tid loss_of(sg_graph *g, void *user) {
    const policy_of *p = user;
    sg_module_begin(g, "model");
    sg_tid logits = p->policy->logits(g, p->policy->policy);
    sg_module_end(g);
    return cross_entropy(g, p->language, logits);
}

static void nothing(sg_graph *g, void *user) {
    (void)g;
    (void)user;
}

static int32_t copies(sg_graph *g) {
    int32_t program = sg_program_begin(g, "preprocess");
    sg_pass_set(g, SG_PASS_PREPROCESS);
    sg_mark_here(g, SG_MARK_PREPROCESS);
    sg_copy_inputs(g);
    sg_program_end(g);
    return program;
}

static int32_t gradients(sg_graph *g, policy_of *p) {
    sg_gradients_persist(g);
    int32_t program = sg_program_begin(g, "update");
    sg_mark_here(g, SG_MARK_FORWARD);
    sg_tid loss = loss_of(g, p);
    sg_graph_training(g)->loss = loss;
    sg_backward(g, loss, false, true);
    sg_gradients_done(g);
    sg_wait(g, loss);
    sg_program_end(g);
    return program;
}

static int32_t inference(sg_graph *g, const sg_language_policy *p) {
    int32_t program = sg_program_begin(g, "inference");
    sg_mark_here(g, SG_MARK_FORWARD);
    sg_no_grad_begin(g);
    sg_module_begin(g, "model");
    sg_wait(g, p->logits(g, p->policy));
    sg_module_end(g);
    sg_no_grad_end(g);
    sg_program_end(g);
    return program;
}

void sg_language_build(sg_graph *g, const sg_family_build *build, const sg_language *language,
                       const sg_language_policy *policy) {
    policy_of p = {language, policy};
    if (language->step != SG_LANGUAGE_TRAIN && build->accumulation > 1)
        sg_graph_fail(g, SG_BAD_INPUT, "step %s does not accumulate gradients: use accumulation 1",
                      sg_option_text(build->options, "step"));
    if (language->step != SG_LANGUAGE_TRAIN && sg_graph_profile(g)->sharded)
        sg_graph_fail(g, SG_BAD_INPUT, "step %s keeps whole parameters: use sharding none",
                      sg_option_text(build->options, "step"));
    if (sg_graph_failed(g)) return;
    sg_module_begin(g, "model");
    policy->parameters(g, policy->policy);
    sg_module_end(g);
    if (sg_graph_failed(g)) return;
    if (language->step == SG_LANGUAGE_TRAIN) {
        sg_supervised supervised = {.policy = &p,
                                    .preprocess = nothing,
                                    .forward = loss_of,
                                    .optimizer = sg_supervised_optimizer(build->options, 0.999)};
        sg_supervised_build(g, &supervised, build->accumulation);
        return;
    }
    int32_t copy = copies(g), main = language->step == SG_LANGUAGE_GRADIENTS ? gradients(g, &p) : inference(g, policy);
    sg_block_begin(g, "step", 1);
    sg_block_loader(g);
    sg_block_program(g, copy);
    sg_block_program(g, main);
    sg_block_end(g);
}
