/* What the policies come to: parameters exactly, FLOPs, bytes kept for the backward, framework calls and views.
 *
 * Two references. `sheet`: the project's sizing sheets of LeRobot's and rsl_rl's policies, measured on PyTorch 1.13; the
 * CUDA class follows them. `release`: the same replicas traced on the current release, 2.15 (bench/trace_ops.py, which
 * shows silu_backward in the seven calls it is defined by). For ACT and PPO they agree. SmolVLA keeps less on the current
 * release, which is what the CPU class follows; the differences are known, and test_sheet_of_smolvla adds them up: the
 * sheet has the square beside the input of every RMS norm, and the unused text half of the last layer was still held when
 * it counted. Unfrozen it also counts a copy of the fused attention's output. With one camera the sheet's 2,652 forward
 * views are out of reach: 1.13 makes a view of every ':' in an index. */
#include "models/policy.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_SETTINGS = 12 };

typedef struct what {
    const char *policy;
    const char *settings[MAX_SETTINGS]; /* key, value, key, value .. */
    int64_t batch;                      /* 0: PPO */
} what;

static sg_training *built_for(const what *w, sg_framework framework, sg_device_class device_class) {
    sg_setting settings[MAX_SETTINGS / 2];
    size_t n = 0;
    for (; n < MAX_SETTINGS / 2 && w->settings[2 * n]; n++)
        settings[n] = (sg_setting){w->settings[2 * n], w->settings[2 * n + 1], "test"};
    sg_policy_request request = {.policy = w->policy,
                                 .framework = framework,
                                 .device_class = device_class,
                                 .batch = w->batch,
                                 .settings = settings,
                                 .n_settings = n};
    sg_training *training = NULL;
    sg_status status = {0};
    if (sg_policy_build(&request, &training, &status) != SG_OK) fail_msg("%s: %s", w->policy, status.text);
    return training;
}

static sg_training *built(const what *w, sg_framework framework) {
    return built_for(w, framework, SG_DEVICE_CLASS_CUDA);
}

/* The current release's forward, as the CPU class has it. (Dropout differs by class; SmolVLA has none.) */
static sg_counts counted_of_release(const what *w, double *batch) {
    sg_training *training = built_for(w, SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU);
    sg_counts counts = sg_count_program(training, sg_main_program(training));
    *batch = (double)training->batch;
    sg_training_free(training);
    return counts;
}

static sg_counts counted(const what *w, sg_framework framework, double *batch) {
    sg_training *training = built(w, framework);
    sg_counts counts = sg_count_program(training, sg_main_program(training));
    *batch = (double)training->batch;
    sg_training_free(training);
    return counts;
}

/* |found - wanted| <= tolerance x wanted */
static void near(const char *name, const char *figure, double found, double wanted, double tolerance) {
    if (!(fabs(found - wanted) <= tolerance * fabs(wanted)))
        fail_msg("%s: %s is %.9g instead of %.9g (%+.2f %%, allowed %.2g %%)", name, figure, found, wanted,
                 100 * (found / wanted - 1), 100 * tolerance);
}

/* ---- parameters ---- */

typedef struct size_row {
    const char *name;
    what w;
    int64_t parameters, trainable, tensors, trainable_tensors;
} size_row;

#define VLM_TRAINED "train_expert_only", "false"
#define PUSHT       "image_height", "96", "image_width", "96", "state_dim", "2", "action_dim", "2"
#define UNFROZEN    "train_expert_only", "false", "freeze_vision_encoder", "false"

static const size_row SIZES[] = {
    {"act 6/6", {"act", {0}, 1}, 51597190, 51597190, 153, 153},
    {"act 6/6, 1 camera", {"act", {"cameras", "1"}, 1}, 51597190, 51597190, 153, 153},
    {"act 6/6, 3 cameras", {"act", {"cameras", "3"}, 1}, 51597190, 51597190, 153, 153},
    {"act 14/14", {"act", {"state_dim", "14", "action_dim", "14"}, 1}, 51613582, 51613582, 153, 153},
    {"smolvla", {"smolvla", {0}, 1}, 450046176, 99880992, 500, 155},
    {"smolvla, vision frozen", {"smolvla", {VLM_TRAINED}, 1}, 450046176, 306471072, 500, 292},
    {"smolvla, unfrozen", {"smolvla", {UNFROZEN}, 1}, 450046176, 392904096, 500, 489},
    {"smolvla, state projection frozen",
     {"smolvla", {"train_state_proj", "false"}, 1},
     450046176,
     99880992 - 31680,
     500,
     153},
    {"diffusion, 1 camera", {"diffusion", {"cameras", "1"}, 1}, 262952742, 262952742, 212, 212},
    {"diffusion, 2 cameras", {"diffusion", {"cameras", "2"}, 1}, 277819846, 277819846, 276, 276},
    {"diffusion 14/14",
     {"diffusion", {"cameras", "2", "state_dim", "14", "action_dim", "14"}, 1},
     278307278,
     278307278,
     276,
     276},
    {"diffusion, PushT", {"diffusion", {PUSHT}, 1}, 262709026, 262709026, 212, 212},
    {"diffusion, one encoder",
     {"diffusion", {"cameras", "2", "use_separate_rgb_encoder_per_camera", "false"}, 1},
     277819846 - 11197088,
     277819846 - 11197088,
     212,
     212},
    {"mjlab G1", {"ppo", {"task", "mjlab-g1"}, 0}, 485435, 485435, 17, 17},
    {"mjlab Go1", {"ppo", {"task", "mjlab-go1"}, 0}, 404889, 404889, 17, 17},
    {"Anymal-D rough", {"ppo", {"task", "anymal-d-rough"}, 0}, 571801, 571801, 17, 17},
    {"Anymal-D flat", {"ppo", {"task", "anymal-d-flat"}, 0}, 80281, 80281, 17, 17},
    {"G1 rough", {"ppo", {"task", "g1-rough"}, 0}, 651851, 651851, 17, 17},
    {"G1 flat", {"ppo", {"task", "g1-flat"}, 0}, 167243, 167243, 17, 17},
    {"microduck", {"ppo", {"task", "microduck"}, 0}, 401565, 401565, 17, 17},
    {"mlp", {"mlp", {0}, 1}, 48 * 512 + 512 + 512 * 256 + 256 + 256 * 128 + 128 + 128 * 12 + 12, 190860, 8, 8},
};

static void test_parameters(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        const size_row *row = &SIZES[i];
        for (int f = 0; f < SG_FRAMEWORK_COUNT; f++) {
            double batch;
            sg_counts counts = counted(&row->w, (sg_framework)f, &batch);
            if (counts.parameters != row->parameters || counts.trainable != row->trainable ||
                counts.tensors != row->tensors || counts.trainable_tensors != row->trainable_tensors)
                fail_msg("%s, %s: %lld parameters, %lld trainable, %lld tensors, %lld trainable tensors", row->name,
                         sg_framework_name((sg_framework)f), (long long)counts.parameters, (long long)counts.trainable,
                         (long long)counts.tensors, (long long)counts.trainable_tensors);
            assert_int_equal(counts.with_gradient, counts.trainable);
        }
    }
}

/* ---- work ---- */

typedef struct work_row {
    const char *name;
    what w;
    double forward_flops, backward_flops; /* per sample */
    struct {
        double saved_bytes, ops_forward, ops_backward, views_forward, views_backward; /* 0: not given */
    } sheet, release;
} work_row;

#define NOT_GIVEN                                                                                                      \
    { 0, 0, 0, 0, 0 }

static const work_row WORK[] = {
    {"act, 1 camera",
     {"act", {"cameras", "1"}, 1},
     38546419712,
     75594715136,
     {193.9e6, 473, 492, 463, 1517},
     {193938436, 470, 490, 457, 1364}},
    {"act, 2 cameras",
     {"act", {"cameras", "2"}, 1},
     73889165312,
     144835137536,
     {409.6e6, 683, 582, 584, 2136},
     {409564036, 680, 580, 573, 1983}},
    {"act, 3 cameras", {"act", {"cameras", "3"}, 1}, 0, 0, {0, 905, 0, 705, 2755}, NOT_GIVEN},
    /* The sheet counts 22 more calls in the backward of the U-Net, whatever the cameras. */
    {"diffusion, 1 camera", {"diffusion", {"cameras", "1"}, 1}, 53.75e9, 104.60e9, {282.0e6, 262, 0, 0, 0}, NOT_GIVEN},
    {"diffusion, 2 cameras", {"diffusion", {"cameras", "2"}, 1}, 98.19e9, 190.59e9, {553.7e6, 354, 0, 0, 0}, NOT_GIVEN},
    {"diffusion, PushT", {"diffusion", {PUSHT}, 1}, 10.64e9, 21.20e9, {18.5e6, 262, 0, 0, 0}, NOT_GIVEN},
    {"diffusion, 84x84, horizon 16",
     {"diffusion", {PUSHT, "horizon", "16", "crop_shape", "84,84"}, 1},
     3.52e9,
     6.98e9,
     {9.3e6, 262, 0, 0, 0},
     NOT_GIVEN},
    {"smolvla, 1 camera",
     {"smolvla", {"cameras", "1"}, 1},
     251736321024,
     45808919040,
     {114.7e6, 2122, 2729, 0, 2299},
     {96426469, 2133, 2701, 2181, 2176}},
    {"smolvla, 2 cameras",
     {"smolvla", {"cameras", "2"}, 1},
     488581065728,
     67437437440,
     {189.4e6, 2293, 2729, 2976, 2300},
     {159569253, 2291, 2701, 2506, 2177}},
    {"smolvla, 3 cameras",
     {"smolvla", {"cameras", "3"}, 1},
     725929126912,
     90009674240,
     {275.8e6, 2464, 2729, 3300, 2301},
     {233779429, 2449, 2701, 2831, 2178}},
    {"smolvla, vision frozen",
     {"smolvla", {VLM_TRAINED}, 1},
     488581065728,
     113219576320,
     {222.6e6, 2293, 2905, 0, 0},
     {192782313, 2291, 2877, 2506, 2667}},
    {"smolvla, unfrozen, 1 camera",
     {"smolvla", {"cameras", "1", UNFROZEN}, 1},
     251.7e9,
     518.5e9,
     {457.5e6, 2122, 3255, 0, 3925},
     NOT_GIVEN},
    {"smolvla, unfrozen",
     {"smolvla", {UNFROZEN}, 1},
     488581065728,
     1007713624576,
     {871.4e6, 2293, 3810, 2976, 4539},
     {804437993, 2291, 3710, 2530, 4106}},
    {"smolvla, unfrozen, 3 cameras",
     {"smolvla", {"cameras", "3", UNFROZEN}, 1},
     725.9e9,
     0,
     {0, 2464, 0, 3300, 5153},
     NOT_GIVEN},
    {"smolvla, 48 language tokens", {"smolvla", {"language_tokens", "48"}, 1}, 499.5e9, 0, NOT_GIVEN, NOT_GIVEN},
    {"mjlab G1", {"ppo", {"task", "mjlab-g1"}, 0}, 967168, 1630208, {15912, 68, 101, 0, 0}, {15914, 67, 99, 13, 64}},
    {"mjlab Go1", {"ppo", {"task", "mjlab-go1"}, 0}, 806144, 1464832, {15096, 68, 101, 0, 0}, {15097, 67, 99, 13, 64}},
    {"Anymal-D rough",
     {"ppo", {"task", "anymal-d-rough"}, 0},
     1139968,
     1798656,
     {16400, 68, 101, 0, 0},
     {16401, 67, 99, 13, 64}},
    {"Anymal-D flat",
     {"ppo", {"task", "anymal-d-flat"}, 0},
     158976,
     293376,
     {6712, 68, 101, 0, 0},
     {6713, 67, 99, 13, 64}},
    {"G1 rough", {"ppo", {"task", "g1-rough"}, 0}, 1299968, 1965056, {17300, 68, 101, 0, 0}, NOT_GIVEN},
    {"G1 flat", {"ppo", {"task", "g1-flat"}, 0}, 332288, 538624, {9660, 68, 101, 0, 0}, NOT_GIVEN},
    {"microduck", {"ppo", {"task", "microduck"}, 0}, 799488, 1458688, {15092, 74, 101, 0, 0}, NOT_GIVEN},
};
enum { N_WORK = sizeof WORK / sizeof *WORK };

static void near_given(const char *name, const char *figure, double found, double wanted, double tolerance) {
    if (wanted != 0) near(name, figure, found, wanted, tolerance);
}

static void test_flops(void **state) {
    (void)state;
    for (size_t i = 0; i < N_WORK; i++) {
        double batch;
        sg_counts c = counted(&WORK[i].w, SG_FRAMEWORK_PYTORCH_EAGER, &batch);
        near_given(WORK[i].name, "forward FLOP", c.pass[SG_PASS_FORWARD].flops / batch, WORK[i].forward_flops, 0.005);
        near_given(WORK[i].name, "backward FLOP", c.pass[SG_PASS_BACKWARD].flops / batch, WORK[i].backward_flops,
                   0.005);
    }
}

/* The sheet gives three cameras by class: convolution, matrix products, batched products; forward and backward. */
static void test_flops_of_three_cameras(void **state) {
    (void)state;
    double batch;
    what w = {"act", {"cameras", "3"}, 1};
    sg_counts c = counted(&w, SG_FRAMEWORK_PYTORCH_EAGER, &batch);
    double flops = c.pass[SG_PASS_FORWARD].flops + c.pass[SG_PASS_BACKWARD].flops;
    near("act, 3 cameras", "FLOP", flops, (196.9 + 109.9 + 20.9) * 1e9, 0.005);
}

static void test_against_the_sheet(void **state) {
    (void)state;
    for (size_t i = 0; i < N_WORK; i++) {
        double batch;
        const work_row *row = &WORK[i];
        sg_counts c = counted(&row->w, SG_FRAMEWORK_PYTORCH_EAGER, &batch);
        const sg_pass_counts *forward = &c.pass[SG_PASS_FORWARD], *backward = &c.pass[SG_PASS_BACKWARD];
        near_given(row->name, "saved bytes", (double)c.saved_bytes / batch, row->sheet.saved_bytes, 0.03);
        near_given(row->name, "forward ops", (double)forward->ops, row->sheet.ops_forward, 0.03);
        near_given(row->name, "backward ops", (double)backward->ops, row->sheet.ops_backward, 0.03);
        near_given(row->name, "forward views", (double)forward->views, row->sheet.views_forward, 0.15);
        near_given(row->name, "backward views", (double)backward->views, row->sheet.views_backward, 0.15);
    }
}

static void test_against_the_current_release(void **state) {
    (void)state;
    for (size_t i = 0; i < N_WORK; i++) {
        double batch;
        const work_row *row = &WORK[i];
        sg_counts c = counted(&row->w, SG_FRAMEWORK_PYTORCH_EAGER, &batch);
        const sg_pass_counts *forward = &c.pass[SG_PASS_FORWARD], *backward = &c.pass[SG_PASS_BACKWARD];
        sg_counts of_release = strcmp(row->w.policy, "smolvla") == 0 ? counted_of_release(&row->w, &batch) : c;
        forward = &of_release.pass[SG_PASS_FORWARD];
        near_given(row->name, "saved bytes", (double)of_release.saved_bytes / batch, row->release.saved_bytes, 0.001);
        near_given(row->name, "forward ops", (double)forward->ops, row->release.ops_forward, 0.01);
        near_given(row->name, "backward ops", (double)backward->ops, row->release.ops_backward, 0.015);
        near_given(row->name, "forward views", (double)forward->views, row->release.views_forward, 0.03);
        near_given(row->name, "backward views", (double)backward->views, row->release.views_backward, 0.01);
    }
}

/* ---- the sheet's SmolVLA ---- */

/* Bytes that PyTorch 1.13 keeps and the current release does not: the squares of the fp32 inputs of the norms of 31
 * layers' text (the last one's second norm and the final norm are in the tail) and of 33 norms of the expert. */
static double squares(double prefix) {
    return 4.0 * (31 * prefix * 960 + 33 * 50 * 720);
}

/* Kept for the unused text half of the last layer, which attends over the prefix alone: query and key in fp32, value,
 * weights in fp32 and bf16, cosine and sine of its query's positions, the second norm and the final norm with their
 * squares, and three factors of the gated layer. */
static double tail(double prefix) {
    double attention = prefix * 960 * (4 + 4 + 2) + 15 * prefix * prefix * (4 + 2);
    double norms = 2 * 4.0 * (2 * prefix * 960 + prefix), table = 2 * 4.0 * prefix * 32;
    return attention + norms + table + 3 * 2.0 * prefix * 2560;
}

static void test_sheet_of_smolvla(void **state) {
    (void)state;
    static const double sheet_mb[] = {114.7, 189.4, 275.8};
    for (int cameras = 1; cameras <= 3; cameras++) {
        char count[8], name[40];
        (void)snprintf(count, sizeof count, "%d", cameras);
        (void)snprintf(name, sizeof name, "smolvla of the sheet, %d cameras", cameras);
        what w = {"smolvla", {"cameras", count}, 1};
        double batch, prefix = 64.0 * cameras + 16 + 1;
        sg_counts c = counted(&w, SG_FRAMEWORK_PYTORCH_EAGER, &batch);
        near(name, "saved bytes", (double)c.saved_bytes, 1e6 * sheet_mb[cameras - 1], 0.003);
        near(name, "what the sheet adds", (double)c.saved_bytes,
             (double)counted_of_release(&w, &batch).saved_bytes + squares(prefix) + tail(prefix), 0.001);
    }
}

/* ---- native ---- */

/* Our own engine does the same with no more calls, fewer views and bytes and no more memory; unused results are left out. */
static void test_native_is_leaner(void **state) {
    (void)state;
    for (size_t i = 0; i < N_WORK; i++) {
        double batch;
        what w = WORK[i].w;
        if (w.batch) w.batch = 4; /* what is kept once per step does not count much then */
        sg_counts eager = counted(&w, SG_FRAMEWORK_PYTORCH_EAGER, &batch);
        sg_counts native = counted(&w, SG_FRAMEWORK_NATIVE, &batch);
        const sg_pass_counts *e = eager.pass, *n = native.pass;
        assert_true(native.saved_bytes <= eager.saved_bytes);
        assert_true(native.waits <= eager.waits);
        for (int pass = SG_PASS_FORWARD; pass <= SG_PASS_BACKWARD; pass++) {
            assert_true(n[pass].ops <= e[pass].ops);
            assert_true(n[pass].views < e[pass].views);
            assert_true(n[pass].bytes < e[pass].bytes);
        }
        assert_true(n[SG_PASS_FORWARD].flops <= e[SG_PASS_FORWARD].flops);
    }
}

/* Blocking reads of a step: LeRobot reads ACT's two losses, SmolVLA's four, the loss and the norm; rsl_rl the KL
 * and three. */
static void test_blocking_reads(void **state) {
    (void)state;
    const struct {
        what w;
        int64_t waits;
    } rows[] = {{{"act", {0}, 1}, 4},
                {{"act", {"use_vae", "false"}, 1}, 3},
                {{"smolvla", {0}, 1}, 6},
                {{"ppo", {0}, 0}, 4},
                {{"ppo", {"schedule", "fixed"}, 0}, 3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double batch;
        assert_int_equal(counted(&rows[i].w, SG_FRAMEWORK_PYTORCH_EAGER, &batch).waits, rows[i].waits);
    }
}

/* The rollout: one inference per environment step, returns once. */
static void test_ppo_programs(void **state) {
    (void)state;
    what w = {"ppo", {0}, 0};
    sg_training *t = built(&w, SG_FRAMEWORK_PYTORCH_EAGER);
    assert_int_equal(t->n_programs, 3);
    sg_counts inference = sg_count_program(t, 0), returns = sg_count_program(t, 1), update = sg_count_program(t, 2);
    assert_int_equal(inference.pass[SG_PASS_FORWARD].ops, 26 + 9); /* inference and nine fields stored */
    near("returns", "ops", (double)returns.pass[SG_PASS_FORWARD].ops, 301 + 2, 0.01); /* and the permutation, kept */
    assert_int_equal(update.pass[SG_PASS_PREPROCESS].ops, 9);                         /* gathers */
    assert_int_equal(sg_main_program(t), 2);
    near("rollout", "FLOP", inference.pass[SG_PASS_FORWARD].flops * 24, 95e9, 0.005);
    sg_training_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_flops),
        cmocka_unit_test(test_flops_of_three_cameras),
        cmocka_unit_test(test_against_the_sheet),
        cmocka_unit_test(test_against_the_current_release),
        cmocka_unit_test(test_sheet_of_smolvla),
        cmocka_unit_test(test_native_is_leaner),
        cmocka_unit_test(test_blocking_reads),
        cmocka_unit_test(test_ppo_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
