/* Requests that cannot be met are refused at once, in words. */
#include "models/policy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

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
        cmocka_unit_test(test_impossible_requests),
        cmocka_unit_test(test_absurd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
