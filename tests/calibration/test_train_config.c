/* LeRobot's train_config.json: the policy, its sizes, and what a step's cost depends on beside them. */
#include "calibration/config/train_config.h"
#include "tests/support/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static sg_train_config read_text(const char *text) {
    sg_train_config config;
    sg_status status = {0};
    char path[128];
    sg_scratch scratch = sg_scratch_new();
    sg_scratch_file(&scratch, "train_config.json", text);
    (void)snprintf(path, sizeof path, "%s/train_config.json", scratch.path);
    sg_code code = sg_train_config_read(path, &config, &status);
    sg_scratch_free(&scratch);
    if (code != SG_OK) fail_msg("%s", status.text);
    return config;
}

/* The last setting of a key wins; NULL: none. */
static const char *setting(const sg_train_config *c, const char *name) {
    const char *value = NULL;
    for (size_t i = 0; i < c->n_settings; i++)
        if (strcmp(c->settings[i].name, name) == 0) value = c->settings[i].value;
    return value;
}

#define FEATURES                                                                                                       \
    "\"input_features\":{"                                                                                             \
    "\"observation.state\":{\"type\":\"STATE\",\"shape\":[7]},"                                                        \
    "\"observation.images.top\":{\"type\":\"VISUAL\",\"shape\":[3,240,320]},"                                          \
    "\"observation.images.wrist\":{\"type\":\"VISUAL\",\"shape\":[3,240,320]},"                                        \
    "\"observation.images.empty_camera_0\":{\"type\":\"VISUAL\",\"shape\":[3,480,640]}},"                              \
    "\"output_features\":{\"action\":{\"type\":\"ACTION\",\"shape\":[5]}}"

static void test_pi05(void **state) {
    (void)state;
    sg_train_config c =
        read_text("{\"policy\":{\"type\":\"pi05\",\"dtype\":\"bfloat16\",\"gradient_checkpointing\":true,"
                  "\"empty_cameras\":1,\"train_expert_only\":false," FEATURES
                  "},\"batch_size\":32,\"optimizer\":{\"type\":\"adamw\"}}");
    assert_string_equal(c.policy, "pi05");
    assert_string_equal(c.precision, "bf16");
    assert_int_equal(c.batch, 32);
    assert_string_equal(setting(&c, "gradient_checkpointing"), "true");
    assert_string_equal(setting(&c, "empty_cameras"), "1");
    assert_string_equal(setting(&c, "cameras"), "2"); /* the blank one is counted by its own key */
    assert_string_equal(setting(&c, "image_height"), "240");
    assert_string_equal(setting(&c, "image_width"), "320");
    assert_string_equal(setting(&c, "state_dim"), "7");
    assert_string_equal(setting(&c, "action_dim"), "5");
    assert_null(setting(&c, "optimizer"));
    sg_train_config_clear(&c);
}

static void test_what_is_not_said(void **state) {
    (void)state;
    sg_train_config c =
        read_text("{\"policy\":{\"type\":\"pi0\",\"dtype\":\"float32\"},\"optimizer\":{\"type\":\"sgd\"}}");
    assert_string_equal(c.precision, "");
    assert_null(setting(&c, "cameras"));
    assert_string_equal(setting(&c, "optimizer"), "sgd");
    sg_train_config_clear(&c);
    c = read_text(
        "{\"policy\":{\"type\":\"act\",\"dtype\":\"bfloat16\"},\"accelerator\":{\"mixed_precision\":\"fp16\"}}");
    assert_string_equal(c.precision, "fp16");
    assert_false(c.environment);
    sg_train_config_clear(&c);
    /* an environment to evaluate in, under the key's name of each time; 0: never */
    static const struct {
        const char *text;
        int64_t every;
        bool evaluates;
    } cases[] = {{"\"env\":{\"type\":\"aloha\"},\"eval_freq\":5000", 5000, true},
                 {"\"env\":{\"type\":\"aloha\"},\"env_eval_freq\":4000,\"eval_freq\":1", 4000, true},
                 {"\"env\":{\"type\":\"aloha\"}", 0, true},
                 {"\"env\":{\"type\":\"aloha\"},\"eval_freq\":0", 0, false},
                 {"\"env\":null,\"eval_freq\":20000", 20000, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, "{\"policy\":{\"type\":\"act\"},%s}", cases[i].text);
        c = read_text(text);
        assert_int_equal(c.evaluate_freq, cases[i].every);
        assert_int_equal(c.environment, cases[i].evaluates);
        sg_train_config_clear(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pi05),
        cmocka_unit_test(test_what_is_not_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
