/* Gradients of small whole policies against central differences; noise, time and dropout masks stay the same. */
#include "tests/support/lab.h"
#include "tests/support/small_policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static sg_lab_options options_of(sg_small which) {
    bool ppo = which == SG_SMALL_PPO || which == SG_SMALL_PPO_UNCLIPPED;
    sg_lab_options options = {.wide = true, .seed = 21, .main_program_only = ppo, .warm_up = ppo, .directions = 1};
    return options;
}

/* 0 when right. */
static int check(sg_small which, const sg_small_setting *setting, int64_t accumulation) {
    sg_training *training = sg_small_build(which, setting, &(sg_small_options){.accumulation = accumulation});
    sg_lab_options options = options_of(which);
    sg_lab lab;
    const char *worst = "";
    sg_lab_open(&lab, training, &options);
    sg_lab_measure_slopes(&lab);
    double deviation = sg_lab_deviation(&lab, &worst);
    bool wrong = !(deviation < SG_LAB_TOLERANCE);
    if (wrong)
        print_error("%s, %s, accumulation %d: gradient of %s is off by %.3g\n", sg_small_name(which), setting->name,
                    (int)accumulation, worst, deviation);
    sg_lab_close(&lab);
    sg_training_free(training);
    return wrong;
}

/* Convolutions in double loops take their time: ACT in one eager and one native setting, its variant and diffusion in one. (The
 * plain one's profiles are compared with each other in test_walks_agree.c.) pi has many weights. */
static bool worth_it(sg_small which, int setting) {
    bool native_cpu = setting == SG_SMALL_SETTINGS - 1;
    switch (which) {
    case SG_SMALL_ACT: return setting == 0 || native_cpu;
    case SG_SMALL_DIFFUSION: return setting == 0;
    case SG_SMALL_ACT_PRE_NORM:
    case SG_SMALL_DIFFUSION_GROUP: return native_cpu;
    case SG_SMALL_ACT_PLAIN: return false;
    case SG_SMALL_PI0:
    case SG_SMALL_PI05: return setting == 0 || native_cpu;
    case SG_SMALL_PI05_AGAIN: return false; /* the same to the bit: test_checkpointing.c */
    case SG_SMALL_PI05_EXPERT: return setting == 2;
    default: return true;
    }
}

static void test_every_policy(void **state) {
    (void)state;
    int wrong = 0;
    for (int which = 0; which < SG_SMALL_COUNT; which++)
        for (int s = 0; s < SG_SMALL_SETTINGS; s++)
            if (worth_it((sg_small)which, s)) wrong += check((sg_small)which, &SG_SMALL_SETTING[s], 1);
    assert_int_equal(wrong, 0);
}

static void test_accumulation(void **state) {
    (void)state;
    int wrong = 0;
    for (int s = 0; s < SG_SMALL_SETTINGS; s++) {
        wrong += check(SG_SMALL_MLP, &SG_SMALL_SETTING[s], 3);
        wrong += check(SG_SMALL_TOKENS, &SG_SMALL_SETTING[s], 2);
        wrong += check(SG_SMALL_SMOLVLA, &SG_SMALL_SETTING[s], 2);
    }
    assert_int_equal(wrong, 0);
}

/* Where the loss is a plain mean, k micro-steps of b samples are one step of k b samples. */
static void test_accumulation_is_a_larger_batch(void **state) {
    (void)state;
    for (int s = 0; s < SG_SMALL_SETTINGS; s++)
        for (int which = SG_SMALL_MLP; which <= SG_SMALL_TRANSFORMER; which++) {
            const sg_small_setting *setting = &SG_SMALL_SETTING[s];
            sg_training *parts =
                sg_small_build((sg_small)which, setting, &(sg_small_options){.batch = 2, .accumulation = 3});
            sg_training *whole = sg_small_build((sg_small)which, setting, &(sg_small_options){.batch = 6});
            sg_lab a, b;
            sg_lab_open(&a, parts, &(sg_lab_options){.wide = true, .seed = 4});
            sg_lab_open(&b, whole, &(sg_lab_options){.wide = true, .seed = 4});
            sg_lab_iterate(&a);
            sg_lab_iterate(&b);
            double distance = sg_lab_distance(&a, &b);
            if (!(distance < 1e-12))
                fail_msg("%s, %s: %.3g apart", sg_small_name((sg_small)which), setting->name, distance);
            sg_lab_close(&a);
            sg_lab_close(&b);
            sg_training_free(parts);
            sg_training_free(whole);
        }
}

static void test_a_wrong_rule_is_noticed(void **state) {
    (void)state;
    static const sg_small few[] = {SG_SMALL_PPO, SG_SMALL_MLP, SG_SMALL_TOKENS};
    static sg_lab_mutants mutants;
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (int s = 0; s < SG_SMALL_SETTINGS; s++) {
            sg_training *training = sg_small_build(few[i], &SG_SMALL_SETTING[s], &(sg_small_options){0});
            sg_lab_options options = options_of(few[i]);
            sg_lab lab;
            sg_lab_open(&lab, training, &options);
            sg_lab_measure_slopes(&lab);
            sg_lab_mutate(&lab, &mutants);
            sg_lab_close(&lab);
            sg_training_free(training);
        }
    sg_lab_expect_noticed(&mutants);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_policy),
        cmocka_unit_test(test_accumulation),
        cmocka_unit_test(test_accumulation_is_a_larger_batch),
        cmocka_unit_test(test_a_wrong_rule_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
