/* Transformers by their Hugging Face configuration: the published numbers of parameters, FLOPs against 6 N T, attention's
 * copies, and the three kinds of step. */
#include "models/policy.h"
#include "tests/support/lab.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_PAIRS = 24 };

static sg_code try_build(const char *policy, int64_t batch, const char *const *pairs, sg_training **training,
                         sg_status *status) {
    sg_setting settings[MAX_PAIRS];
    size_t n = 0;
    for (; pairs[2 * n]; n++) settings[n] = (sg_setting){pairs[2 * n], pairs[2 * n + 1], "test"};
    sg_policy_request request = {.policy = policy,
                                 .framework = SG_FRAMEWORK_PYTORCH_EAGER,
                                 .device_class = SG_DEVICE_CLASS_CUDA,
                                 .batch = batch,
                                 .settings = settings,
                                 .n_settings = n};
    return sg_policy_build(&request, training, status);
}

static sg_training *build(const char *policy, int64_t batch, const char *const *pairs) {
    sg_training *training = NULL;
    sg_status status = {0};
    if (try_build(policy, batch, pairs, &training, &status) != SG_OK) fail_msg("%s: %s", policy, status.text);
    return training;
}

static sg_counts counted(const char *policy, int64_t batch, const char *const *pairs) {
    sg_training *training = build(policy, batch, pairs);
    sg_counts counts = sg_count_program(training, sg_main_program(training));
    sg_training_free(training);
    return counts;
}

/* ---- sizes ---- */

/* As the model cards and transformers' num_parameters() give them; embedding and head are one matrix and count once. */
static void test_published_parameters(void **state) {
    (void)state;
    const struct {
        const char *policy, *pairs[10];
        int64_t parameters;
    } known[] = {
        {"bert", {0}, 109514298},
        {"bert",
         {"hidden_size", "1024", "num_hidden_layers", "24", "num_attention_heads", "16", "intermediate_size", "4096"},
         335174458},
        {"gpt2", {0}, 124439808},
        {"gpt2", {"n_embd", "1024", "n_layer", "24", "n_head", "16"}, 354823168},
        {"gpt2", {"n_embd", "1280", "n_layer", "36", "n_head", "20"}, 774030080},
        {"gpt2", {"n_embd", "1600", "n_layer", "48", "n_head", "25"}, 1557611200},
        {"opt", {0}, 1315758080},
        {"opt",
         {"hidden_size", "768", "num_hidden_layers", "12", "num_attention_heads", "12", "ffn_dim", "3072"},
         125239296},
        {"switch", {0}, 619339008},
        {"megatron", {0}, 24 * (12 * 1024 * 1024 + 13 * 1024) + (51200 + 1024) * 1024 + 2 * 1024},
        {"bert", {"head", "classification", "step", "inference"}, 109483778},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sg_counts counts = counted(known[i].policy, 1, known[i].pairs);
        assert_int_equal(counts.parameters, known[i].parameters);
        bool trained = !known[i].pairs[2] || strcmp(known[i].pairs[2], "step") != 0;
        assert_int_equal(counts.with_gradient, trained ? counts.parameters : 0);
    }
}

/* Forward and backward are 6 FLOPs per weight of a product and token, and 12 layers width tokens^2 of attention. Tables that
 * are only looked up count nothing; an expert sees its share of the tokens. */
static void test_flops(void **state) {
    (void)state;
    const double t = 256, b = 2;
    const char *const tokens[] = {"sequence_length", "256", "step", "gradients", NULL};
    const struct {
        const char *policy;
        double weights, attention_widths; /* of products, per token; layers x heads x head */
    } known[] = {
        {"bert", 12 * (4 * 768. * 768 + 2 * 768. * 3072) + 768. * 768 + 768. * 30522, 12 * 768.},
        {"gpt2", 12 * (4 * 768. * 768 + 2 * 768. * 3072) + 768. * 50257, 12 * 768.},
        {"opt", 24 * (4 * 2048. * 2048 + 2 * 2048. * 8192) + 2048. * 50272, 24 * 2048.},
        {"switch", 36 * 4 * 768. * 768 + 24 * 2 * 768. * 3072 + 12 * 8 * 768. + 768. * 32128, 36 * 768.},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sg_counts counts = counted(known[i].policy, (int64_t)b, tokens);
        double forward = counts.pass[SG_PASS_FORWARD].flops, backward = counts.pass[SG_PASS_BACKWARD].flops;
        double products = 2 * known[i].weights * b * t, attention = 4 * known[i].attention_widths * b * t * t;
        assert_true(fabs(forward / (products + attention) - 1) < 1e-9);
        assert_true(fabs(backward / (2 * forward) - 1) < 1e-9);
    }
}

/* Tokens above the capacity are worked on by no expert. */
static void test_capacity(void **state) {
    (void)state;
    const char *const roomy[] = {"sequence_length", "256", "step", "inference", "expert_capacity", "4096", NULL};
    const char *const tight[] = {"sequence_length", "256", "step", "inference", "expert_capacity", "8", NULL};
    double most = counted("switch", 1, roomy).pass[SG_PASS_FORWARD].flops;
    double least = counted("switch", 1, tight).pass[SG_PASS_FORWARD].flops;
    double per_token = 12 * 2 * 2 * 768. * 3072;
    assert_true(fabs((most - least) / (per_token * (256 - 8 * 8)) - 1) < 1e-9);
}

/* ---- attention as separate calls ---- */

static int64_t copies_of(const char *policy, int64_t batch) {
    const char *const pairs[] = {"sequence_length", "32", "step", "inference", NULL};
    sg_training *t = build(policy, batch, pairs);
    const sg_program *p = &t->programs[sg_main_program(t)];
    int64_t copies = 0;
    for (size_t i = 0; i < p->n_entries; i++)
        copies += p->entries[i].kind == SG_ENTRY_OP && t->ops[p->entries[i].index].kind == SG_OP_COPY &&
                  strstr(t->modules[p->entries[i].module].name, "layer");
    sg_training_free(t);
    return copies;
}

/* Permuted operands are made contiguous: query, key and value of several samples, heads joined again. One sample's heads
 * can be read as they lie. */
static void test_permuted_operands_are_copied(void **state) {
    (void)state;
    assert_int_equal(copies_of("bert", 2), 12 * 4);
    assert_int_equal(copies_of("bert", 1), 12 * 1);
    assert_int_equal(copies_of("opt", 2), 24 * 4);
    assert_int_equal(copies_of("opt", 1), 24 * 4);
}

/* ---- kinds of step ---- */

#define TINY                                                                                                           \
    "vocab_size", "11", "n_embd", "8", "n_layer", "1", "n_head", "2", "n_positions", "6", "sequence_length", "5",      \
        "embd_pdrop", "0", "attn_pdrop", "0", "resid_pdrop", "0"

/* The gradients of a training step, and with every further step as much again. */
static void test_gradients_are_added(void **state) {
    (void)state;
    const char *const whole[] = {TINY, "grad_clip_norm", "0", NULL}, *const added[] = {TINY, "step", "gradients", NULL};
    sg_training *a = build("gpt2", 2, whole), *b = build("gpt2", 2, added);
    assert_int_equal(sg_count_program(b, sg_main_program(b)).pass[SG_PASS_OPTIMIZER].ops, 0);
    assert_int_equal(sg_count_program(b, sg_main_program(b)).optimizer_bytes, 0);
    sg_lab first, second;
    sg_lab_open(&first, a, &(sg_lab_options){.wide = true, .seed = 3});
    sg_lab_open(&second, b, &(sg_lab_options){.wide = true, .seed = 3});
    assert_true(sg_lab_distance(&second, &first) < 1e-12);
    (void)sg_lab_run(&second, SIZE_MAX, 0, 0);
    sg_lab_read_gradients(&second);
    for (size_t i = 0; i < first.n_weights; i++)
        for (size_t k = 0; k < first.weight[i].count; k++)
            assert_true(fabs(second.weight[i].gradient[k] - 2 * first.weight[i].gradient[k]) < 1e-12);
    sg_lab_close(&first);
    sg_lab_close(&second);
    sg_training_free(a);
    sg_training_free(b);
}

/* All tokens at one expert: the others' gradients are zeros, added all the same; so are those of the pooler that the loss over
 * tokens does not reach. */
static void test_what_the_loss_does_not_reach(void **state) {
    (void)state;
    const char *const alike[] = {"vocab_size",
                                 "11",
                                 "d_model",
                                 "8",
                                 "d_kv",
                                 "3",
                                 "d_ff",
                                 "6",
                                 "num_layers",
                                 "1",
                                 "num_heads",
                                 "2",
                                 "num_experts",
                                 "2",
                                 "expert_capacity",
                                 "2",
                                 "dropout_rate",
                                 "0",
                                 "num_sparse_encoder_layers",
                                 "1",
                                 "sequence_length",
                                 "5",
                                 "step",
                                 "gradients",
                                 "routing",
                                 "alike",
                                 NULL};
    const char *const pooled[] = {"vocab_size",
                                  "11",
                                  "hidden_size",
                                  "8",
                                  "num_hidden_layers",
                                  "1",
                                  "num_attention_heads",
                                  "2",
                                  "intermediate_size",
                                  "12",
                                  "sequence_length",
                                  "5",
                                  "head",
                                  "pretraining",
                                  "step",
                                  "gradients",
                                  NULL};
    sg_training *training[] = {build("switch", 2, alike), build("bert", 2, pooled)};
    static const char *const unreached[] = {"expert_1.", "pooler"};
    for (int i = 0; i < 2; i++) {
        sg_lab lab;
        int zeros = 0;
        sg_lab_open(&lab, training[i], &(sg_lab_options){.wide = true, .seed = 5});
        for (size_t w = 0; w < lab.n_weights; w++) {
            double sum = 0;
            for (size_t k = 0; k < lab.weight[w].count; k++) sum += fabs(lab.weight[w].gradient[k]);
            bool outside = strstr(training[i]->parameters[lab.weight[w].parameter].name, unreached[i]) != NULL;
            if (outside) assert_true(sum == 0);
            zeros += outside;
        }
        assert_true(zeros >= 2);
        sg_lab_close(&lab);
        sg_training_free(training[i]);
    }
}

static void test_inference_is_forward_alone(void **state) {
    (void)state;
    const char *const pairs[] = {"sequence_length", "16", "step", "inference", NULL};
    static const char *const policies[] = {"bert", "gpt2", "opt", "switch"};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        sg_training *t = build(policies[i], 1, pairs);
        const sg_program *p = &t->programs[sg_main_program(t)];
        sg_counts counts = sg_count_program(t, sg_main_program(t));
        assert_string_equal(p->name, "inference");
        assert_int_equal(counts.pass[SG_PASS_BACKWARD].ops, 0);
        assert_int_equal(counts.saved_bytes, 0);
        for (size_t k = 0; k < p->n_entries; k++)
            assert_true(p->entries[k].kind != SG_ENTRY_OP || t->ops[p->entries[k].index].kind != SG_OP_DROPOUT);
        sg_training_free(t);
    }
}

static void refuses(const char *policy, const char *key, const char *value, const char *words) {
    const char *const pairs[] = {key, value, NULL};
    sg_training *training = NULL;
    sg_status status = {0};
    assert_int_equal(try_build(policy, 1, pairs, &training, &status), SG_BAD_INPUT);
    assert_null(training);
    assert_non_null(strstr(status.text, words));
}

/* What a whole training step can and its parts cannot. */
static void refuses_request(const char *step, int64_t accumulation, const char *sharding, const char *words) {
    const sg_setting settings[] = {{"step", step, "test"}, {"sequence_length", "16", "test"}};
    const sg_policy_request request = {.policy = "gpt2",
                                       .device_class = SG_DEVICE_CLASS_CUDA,
                                       .batch = 1,
                                       .ranks = 2,
                                       .accumulation = accumulation,
                                       .sharding = sharding,
                                       .settings = settings,
                                       .n_settings = 2};
    sg_training *training = NULL;
    sg_status status = {0};
    assert_int_equal(sg_policy_build(&request, &training, &status), SG_BAD_INPUT);
    assert_null(training);
    if (!strstr(status.text, words)) fail_msg("'%s'", status.text);
}

static void test_impossible_configurations(void **state) {
    (void)state;
    refuses_request("gradients", 2, "none", "does not accumulate");
    refuses_request("inference", 2, "none", "does not accumulate");
    refuses_request("gradients", 1, "full", "use sharding none");
    refuses_request("inference", 1, "full", "use sharding none");
    refuses("bert", "num_attention_heads", "7", "multiple of num_attention_heads 7");
    refuses("bert", "sequence_length", "513", "above max_position_embeddings 512");
    refuses("gpt2", "n_head", "5", "multiple of n_head 5");
    refuses("gpt2", "sequence_length", "1025", "above n_positions 1024");
    refuses("opt", "max_position_embeddings", "8", "above max_position_embeddings 8");
    refuses("bert", "head", "classification", "use step inference");
    refuses("switch", "num_experts", "600", "below num_experts 600");
    refuses("switch", "relative_attention_num_buckets", "31", "must be even");
    refuses("gpt2", "step", "evaluate", "train");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_parameters),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_permuted_operands_are_copied),
        cmocka_unit_test(test_gradients_are_added),
        cmocka_unit_test(test_what_the_loss_does_not_reach),
        cmocka_unit_test(test_inference_is_forward_alone),
        cmocka_unit_test(test_impossible_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
