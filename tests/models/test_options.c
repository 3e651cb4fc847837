/* Configuration keys: values of every type, bounds, lists, aliases, and messages that name key, origin and remedy. */
#include "kernels/nearest.h"
#include "models/families/family.h"
#include "models/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static sg_code make(const char *policy, const char *name, const char *value, sg_options **options, sg_status *status) {
    sg_setting setting = {name, value, "--set"};
    return sg_options_make(sg_family_find(policy), &setting, 1, options, status);
}

static void expect_text(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("'%s' does not say '%s'", text, part);
}

/* The setting is refused, with a message that holds every part (NULL ends). */
static void refuses(const char *policy, const char *name, const char *value, const char *const *parts) {
    sg_status status = {0};
    sg_options *options = NULL;
    if (make(policy, name, value, &options, &status) != SG_BAD_INPUT) fail_msg("%s = %s was taken", name, value);
    assert_null(options);
    expect_text(status.text, "--set");
    for (; *parts; parts++) expect_text(status.text, *parts);
}
#define REFUSES(policy, name, value, ...) refuses(policy, name, value, (const char *const[]){__VA_ARGS__, NULL})

static int64_t integer(const char *policy, const char *name, const char *value, const char *key) {
    sg_status status = {0};
    sg_options *options = NULL;
    if (make(policy, name, value, &options, &status) != SG_OK) fail_msg("%s", status.text);
    int64_t result = sg_option_int(options, key);
    sg_options_free(options);
    return result;
}

static void test_every_default_is_valid(void **state) {
    (void)state;
    size_t n;
    const sg_family *families = sg_families(&n);
    assert_int_equal(n, SG_FAMILY_COUNT);
    for (size_t f = 0; f < n; f++) {
        sg_options *options = NULL;
        sg_status status = {0};
        if (sg_options_make(&families[f], NULL, 0, &options, &status) != SG_OK) fail_msg("%s", status.text);
        for (size_t k = 0; k < families[f].n_keys; k++) {
            const sg_key *key = &families[f].keys[k];
            assert_non_null(key->help);
            assert_false(sg_option_given(options, key->name));
            assert_string_equal(sg_option_origin(options, key->name), "default");
            for (size_t other = 0; other < k; other++) assert_string_not_equal(key->name, families[f].keys[other].name);
        }
        sg_options_free(options);
    }
}

static void test_unknown_keys_get_suggestions(void **state) {
    (void)state;
    REFUSES("act", "chunk_sizes", "50", "unknown key 'chunk_sizes'", "did you mean 'chunk_size'?",
            "Keys of act: cameras");
    REFUSES("act", "chunk", "50", "did you mean 'chunk_size'?");
    REFUSES("act", "dim_modle", "50", "did you mean 'dim_model'?");
    REFUSES("ppo", "num_env", "50", "unknown key 'num_env'");
    sg_status status = {0};
    sg_options *options = NULL;
    assert_int_equal(make("act", "xyzzy", "1", &options, &status), SG_BAD_INPUT);
    assert_null(strstr(status.text, "did you mean"));
    expect_text(status.text, "n_heads");
}

static void test_whole_numbers(void **state) {
    (void)state;
    assert_int_equal(integer("act", "chunk_size", "50", "chunk_size"), 50);
    assert_int_equal(integer("act", "chunk_size", " 50 ", "chunk_size"), 50);
    REFUSES("act", "chunk_size", "5x", "chunk_size = '5x'", "not a whole number", "default 100");
    REFUSES("act", "chunk_size", "", "not a whole number");
    REFUSES("act", "chunk_size", "1.5", "not a whole number");
    REFUSES("act", "chunk_size", "0", "outside 1 to 65536");
    REFUSES("act", "cameras", "65", "outside 0 to 64");
    REFUSES("act", "n_encoder_layers", "99999999999999999999999", "outside 1 to 1024");
    REFUSES("act", "n_encoder_layers", "-9223372036854775808", "outside 1 to 1024");
}

static void test_numbers_truths_and_words(void **state) {
    (void)state;
    sg_status status = {0};
    sg_options *options = NULL;
    assert_int_equal(make("act", "kl_weight", "2.5e1", &options, &status), SG_OK);
    assert_float_equal(sg_option_real(options, "kl_weight"), 25, 0);
    assert_true(sg_option_bool(options, "use_vae"));
    sg_options_free(options);
    assert_int_equal(make("act", "use_vae", "off", &options, &status), SG_OK);
    assert_false(sg_option_bool(options, "use_vae"));
    assert_true(sg_option_given(options, "use_vae"));
    assert_string_equal(sg_option_origin(options, "use_vae"), "--set");
    sg_options_free(options);
    REFUSES("act", "kl_weight", "nan", "not a number");
    REFUSES("act", "dropout", "1.5", "outside 0 to 0.99");
    REFUSES("act", "dropout", "0.1abc", "not a number");
    REFUSES("act", "use_vae", "maybe", "not true or false");
    REFUSES("act", "vision_backbone", "resnet50", "not one of resnet18|resnet34");
}

static void expect_list(const char *value, const int64_t *wanted, size_t n_wanted) {
    sg_status status = {0};
    sg_options *options = NULL;
    if (make("mlp", "hidden_dims", value, &options, &status) != SG_OK) fail_msg("%s", status.text);
    size_t n;
    const int64_t *list = sg_option_list(options, "hidden_dims", &n);
    assert_int_equal(n, n_wanted);
    assert_memory_equal(list, wanted, n * sizeof *list);
    sg_options_free(options);
}

static void test_lists(void **state) {
    (void)state;
    expect_list("7", (const int64_t[]){7}, 1);
    expect_list("512,256,128", (const int64_t[]){512, 256, 128}, 3);
    expect_list(" [ 512 , 256 ] ", (const int64_t[]){512, 256}, 2);
    REFUSES("mlp", "hidden_dims", "", "not a list");
    REFUSES("mlp", "hidden_dims", "512,", "not a list");
    REFUSES("mlp", "hidden_dims", "[512", "not a list");
    REFUSES("mlp", "hidden_dims", "512]", "not a list");
    REFUSES("mlp", "hidden_dims", "512 256", "not a list");
    REFUSES("mlp", "hidden_dims", "512,0", "outside 1 to 65536");
    REFUSES("mlp", "hidden_dims", "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "more than 16 members");
}

static void test_the_last_setting_wins(void **state) {
    (void)state;
    const sg_setting settings[] = {{"chunk_size", "50", "policy.yaml:3:5"}, {"chunk_size", "60", "--chunk-size"}};
    sg_status status = {0};
    sg_options *options = NULL;
    assert_int_equal(sg_options_make(sg_family_find("act"), settings, 2, &options, &status), SG_OK);
    assert_int_equal(sg_option_int(options, "chunk_size"), 60);
    assert_string_equal(sg_option_origin(options, "chunk_size"), "--chunk-size");
    sg_options_free(options);
}

static void test_names_of_other_programs(void **state) {
    (void)state;
    assert_int_equal(integer("ppo", "num_envs", "77", "envs"), 77);
    assert_int_equal(integer("ppo", "num_steps_per_env", "7", "steps_per_env"), 7);
    assert_int_equal(integer("ppo", "num_mini_batches", "3", "mini_batches"), 3);
    assert_int_equal(integer("ppo", "num_learning_epochs", "2", "ppo_epochs"), 2);
    assert_int_equal(integer("ppo", "max_iterations", "9", "iterations"), 9);
    assert_int_equal(integer("mlp", "state_dim", "9", "input_dim"), 9);
}

static void test_missing_texts_are_answered(void **state) {
    (void)state;
    sg_status status = {0};
    sg_options *options = NULL;
    const sg_setting nothing = {0};
    assert_int_equal(sg_options_make(sg_family_find("act"), &nothing, 1, &options, &status), SG_BAD_INPUT);
    char name[5000];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(make("act", name, name, &options, &status), SG_BAD_INPUT);
    assert_int_equal(make("act", "chunk_size", name, &options, &status), SG_BAD_INPUT);
    sg_options_free(NULL);
}

static void test_nearest(void **state) {
    (void)state;
    static const char *const known[] = {"act", "smolvla", "transformer"};
    assert_string_equal(sg_nearest("atc", known, 3), "act");
    assert_string_equal(sg_nearest("smolvlm", known, 3), "smolvla");
    assert_string_equal(sg_nearest("transfomer", known, 3), "transformer");
    assert_string_equal(sg_nearest("trans", known, 3), "transformer");
    assert_null(sg_nearest("diffusion", known, 3));
    assert_null(sg_nearest("", known, 3));
    assert_null(sg_nearest("act", known, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_default_is_valid),
        cmocka_unit_test(test_unknown_keys_get_suggestions),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_numbers_truths_and_words),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_the_last_setting_wins),
        cmocka_unit_test(test_names_of_other_programs),
        cmocka_unit_test(test_missing_texts_are_answered),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
