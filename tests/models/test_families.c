/* The families build soundly in every framework, device class, precision and accumulation; both lowerings of a policy
 * compute the same loss and gradients; parameters and modules bear the names of checkpoints. */
#include "tests/models/families_fixture.h"
#include "tests/support/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

static const sg_parameter *parameter(const sg_training *t, const char *name) {
    for (size_t i = 0; i < t->n_parameters; i++)
        if (strcmp(t->parameters[i].name, name) == 0) return &t->parameters[i];
    fail_msg("%s has no parameter %s", t->policy, name);
    return NULL;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowerings_agree),
        cmocka_unit_test(test_everything_builds),
        cmocka_unit_test(test_names_and_freezing),
        cmocka_unit_test(test_modules_own_their_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
