/* Host memory may end at any allocation of a policy's building: it is then refused in a sentence, and nothing leaks. */
#include "models/policy.h"
#include "tests/models/failing_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct request {
    const char *policy;
    sg_setting settings[12];
} request;

static const request REQUESTS[] = {
    {"act",
     {{"image_height", "32", ""},
      {"image_width", "32", ""},
      {"dim_model", "8", ""},
      {"n_heads", "2", ""},
      {"n_encoder_layers", "1", ""},
      {"n_vae_encoder_layers", "1", ""}}},
    {"smolvla",
     {{"num_vlm_layers", "2", ""},
      {"vision_num_hidden_layers", "1", ""},
      {"train_expert_only", "false", ""},
      {"freeze_vision_encoder", "false", ""},
      {"resize_imgs_with_padding", "64,64", ""}}},
    {"pi05",
     {{"num_hidden_layers", "2", ""},
      {"vision_num_hidden_layers", "1", ""},
      {"gradient_checkpointing", "true", ""},
      {"optimizer", "sgd", ""}}},
    {"ppo", {{"envs", "4", ""}, {"steps_per_env", "2", ""}, {"empirical_normalization", "true", ""}}},
    {"mlp", {{"hidden_dims", "4", ""}}},
    {"transformer", {{"n_layers", "1", ""}, {"vocab_size", "5", ""}}},
};

static sg_code build(const request *r, sg_framework framework, sg_training **training, sg_status *status) {
    sg_policy_request asked = {.policy = r->policy, .framework = framework, .settings = r->settings};
    while (asked.n_settings < 12 && r->settings[asked.n_settings].name) asked.n_settings++;
    return sg_policy_build(&asked, training, status);
}

static void exhaust(const request *r, sg_framework framework) {
    enum { MOST = 20000 };
    long before = blocks_in_use();
    for (long n = 0; n < MOST; n++) {
        sg_training *training = NULL;
        sg_status status = {0};
        fail_after(n);
        sg_code code = build(r, framework, &training, &status);
        fail_after(-1);
        if (code == SG_OK) {
            sg_training_free(training);
            assert_int_equal(blocks_in_use(), before);
            assert_true(n > 10); /* it did fail many times */
            return;
        }
        assert_null(training);
        if (code != SG_MACHINE || !status.text[0])
            fail_msg("%s without allocation %ld: code %d, '%s'", r->policy, n, (int)code, status.text);
        assert_int_equal(blocks_in_use(), before);
    }
    fail_msg("%s makes more than %d allocations", r->policy, MOST);
}

static void test_every_allocation(void **state) {
    (void)state;
    if (!failing_is_possible()) skip();
    for (size_t i = 0; i < sizeof REQUESTS / sizeof *REQUESTS; i++)
        for (int framework = 0; framework < SG_FRAMEWORK_COUNT; framework++)
            exhaust(&REQUESTS[i], (sg_framework)framework);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
