/* Settings from configurations of checkpoints: the policy by model type, and of the keys only those that size it. */
#include "calibration/config/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char *value_of(const sg_settings *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->items[i].name, name) == 0) return s->items[i].value;
    return NULL;
}

static void test_model_configuration(void **state) {
    (void)state;
    static const char text[] = "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"n_embd\": 1280, "
                               "\"n_layer\": 36, \"n_head\": 20, \"n_inner\": null, \"attn_pdrop\": 0.1, "
                               "\"task_specific_params\": {\"text-generation\": {\"do_sample\": true}}, "
                               "\"initializer_range\": 0.02, \"vocab_size\": 50257}";
    sg_settings settings;
    sg_status status = {0};
    assert_int_equal(sg_settings_parse_json("config.json", text, &settings, &status), SG_OK);
    assert_string_equal(settings.policy, "gpt2");
    assert_string_equal(value_of(&settings, "n_embd"), "1280");
    assert_string_equal(value_of(&settings, "n_layer"), "36");
    assert_string_equal(value_of(&settings, "vocab_size"), "50257");
    assert_null(value_of(&settings, "n_inner"));
    assert_null(value_of(&settings, "initializer_range"));
    assert_null(value_of(&settings, "task_specific_params"));
    sg_policy_request request = {.policy = settings.policy,
                                 .device_class = SG_DEVICE_CLASS_CUDA,
                                 .batch = 1,
                                 .settings = settings.items,
                                 .n_settings = settings.n};
    sg_training *training = NULL;
    assert_int_equal(sg_policy_build(&request, &training, &status), SG_OK);
    assert_int_equal(sg_count_program(training, sg_main_program(training)).parameters, 774030080);
    sg_training_free(training);
    sg_settings_clear(&settings);
}

static void test_unknown_model_type(void **state) {
    (void)state;
    static const char *const texts[] = {"{\"model_type\": \"llama\", \"hidden_size\": 8}", "{\"model_type\": [1]}",
                                        "{\"model_type\": null}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        sg_settings settings;
        sg_status status = {0};
        assert_int_equal(sg_settings_parse_json("config.json", texts[i], &settings, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, "bert, gpt2, opt, switch_transformers"));
        assert_int_equal(settings.n, 0);
    }
}

static void test_plain_settings(void **state) {
    (void)state;
    sg_settings settings;
    sg_status status = {0};
    assert_int_equal(sg_settings_parse_json("a.json", "{\"policy\": \"act\", \"chunk_size\": 5}", &settings, &status),
                     SG_OK);
    assert_string_equal(settings.policy, "act");
    assert_string_equal(value_of(&settings, "chunk_size"), "5");
    sg_settings_clear(&settings);
    assert_int_equal(sg_settings_parse_json("a.json", "[1]", &settings, &status), SG_BAD_INPUT);
    assert_int_equal(sg_settings_parse_json("a.json", "{\"a\": ", &settings, &status), SG_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_configuration),
        cmocka_unit_test(test_unknown_model_type),
        cmocka_unit_test(test_plain_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
