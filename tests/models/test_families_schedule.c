/* The schedule of an iteration: its blocks, programs and marks, with accumulation and for PPO. */
#include "tests/models/families_fixture.h"

static void expect_marks(const sg_training *t, size_t program, const int *marks, size_t n) {
    size_t found = 0;
    const sg_program *p = &t->programs[program];
    for (size_t i = 0; i < p->n_entries; i++) {
        if (p->entries[i].kind != SG_ENTRY_MARK) continue;
        assert_true(found < n);
        assert_int_equal(p->entries[i].index, marks[found++]);
    }
    assert_int_equal(found, n);
}

static void expect_program(const sg_training *t, size_t block, size_t step, const char *name) {
    assert_true(block < t->n_blocks && step < t->blocks[block].n_steps);
    assert_int_equal(t->blocks[block].steps[step].kind, SG_STEP_PROGRAM);
    assert_string_equal(t->programs[t->blocks[block].steps[step].index].name, name);
}

static const int UPDATE_MARKS[] = {SG_MARK_FORWARD,   SG_MARK_BACKWARD,  SG_MARK_CLIP,
                                   SG_MARK_OPTIMIZER, SG_MARK_ZERO_GRAD, SG_MARK_END};

static void test_schedule_of_a_step(void **state) {
    (void)state;
    request r;
    fill(&r, &TINY[0], SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    sg_training *t = build(&r);
    assert_string_equal(t->policy, "act");
    assert_string_equal(t->framework, "pytorch-eager");
    assert_int_equal(t->batch, 2);
    assert_int_equal(t->cameras, 2);
    assert_int_equal(t->image_height, 64);
    assert_int_equal(t->image_width, 96);
    assert_int_equal(t->frames_per_sample, 1);
    assert_int_equal(t->n_programs, 2);
    assert_int_equal(t->n_blocks, 1);
    assert_int_equal(t->blocks[0].steps[0].kind, SG_STEP_LOADER);
    expect_program(t, 0, 1, "preprocess");
    expect_program(t, 0, 2, "update");
    expect_marks(t, 0, (const int[]){SG_MARK_PREPROCESS, SG_MARK_END}, 2);
    expect_marks(t, 1, UPDATE_MARKS, sizeof UPDATE_MARKS / sizeof *UPDATE_MARKS);
    sg_counts counts = sg_count_program(t, 0);
    /* Each camera: cast, / 255, - mean, / deviation and the deviation's epsilon; state and action: three each. */
    assert_int_equal(counts.pass[SG_PASS_PREPROCESS].ops, 2 * 5 + 2 * 3);
    sg_training_free(t);
}

static void test_schedule_of_accumulation(void **state) {
    (void)state;
    request r;
    fill(&r, &TINY[0], SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    r.asked.accumulation = 5;
    sg_training *t = build(&r);
    assert_int_equal(t->accumulation, 5);
    assert_int_equal(t->n_blocks, 3);
    static const char *const programs[] = {"micro-step first", "micro-step", "update"};
    static const int64_t repeats[] = {1, 3, 1};
    for (size_t b = 0; b < 3; b++) {
        assert_int_equal(t->blocks[b].repeat, repeats[b]);
        expect_program(t, b, 2, programs[b]);
    }
    for (size_t p = 0; p < t->n_programs; p++) {
        size_t ready = 0;
        for (size_t i = 0; i < t->programs[p].n_entries; i++)
            ready += t->programs[p].entries[i].kind == SG_ENTRY_GRAD_READY;
        bool last = p == sg_main_program(t);
        assert_int_equal(ready, last ? (size_t)sg_count_program(t, p).trainable_tensors : 0);
    }
    sg_training_free(t);
}

static void test_schedule_of_ppo(void **state) {
    (void)state;
    request r;
    fill(&r, &TINY[N_TINY - 1], SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    add(&r, (const char *const[]){"ppo_epochs", "4", "env_step_us", "2.5", NULL});
    sg_training *t = build(&r);
    assert_int_equal(t->envs, 6);
    assert_int_equal(t->steps_per_env, 3);
    assert_int_equal(t->batch, 9);
    assert_int_equal(t->optimizer_steps, 8);
    assert_float_equal(t->env_step_us, 2.5, 0);
    assert_int_equal(t->n_blocks, 3);
    expect_program(t, 0, 0, "inference");
    assert_int_equal(t->blocks[0].repeat, 3);
    assert_int_equal(t->blocks[0].steps[1].kind, SG_STEP_ENVIRONMENT);
    assert_int_equal(t->blocks[0].steps[1].env_steps, 6);
    expect_program(t, 1, 0, "returns");
    expect_program(t, 2, 0, "update");
    assert_int_equal(t->blocks[2].repeat, 8);
    static const int marks[] = {SG_MARK_PREPROCESS, SG_MARK_FORWARD,   SG_MARK_BACKWARD, SG_MARK_CLIP,
                                SG_MARK_OPTIMIZER,  SG_MARK_ZERO_GRAD, SG_MARK_END};
    expect_marks(t, 2, marks, sizeof marks / sizeof *marks);
    sg_training_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule_of_a_step),
        cmocka_unit_test(test_schedule_of_accumulation),
        cmocka_unit_test(test_schedule_of_ppo),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
