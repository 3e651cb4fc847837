/* GPT trainings on groups of GPUs: the closed form's parts, its fit, and which rows are predicted. */
#include "calibration/steps/gpt_step.h"
#include "calibration/validate/validate.h"
#include "tests/support/scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const sg_gpt_machine A100 = {312e12, 1555e9, 80e9, 108};
static const sg_gpt_training SMALL = {
    .micro = 4, .accumulation = 4, .ranks = 4, .hidden = 1024, .heads = 16, .layers = 24, .tokens = 1024};
static const sg_gpt_training LARGE = {
    .micro = 2, .accumulation = 4, .ranks = 64, .hidden = 3072, .heads = 32, .layers = 30, .tokens = 2048};

static double step_of(sg_gpt_training t) {
    return sg_gpt_step_s(&t, &A100, &SG_GPT_FITTED);
}

/* ---- the form ---- */

static void test_parts(void **state) {
    (void)state;
    sg_gpt_training t = SMALL;
    double four = step_of(t);
    t.accumulation = 8;
    double eight = step_of(t);
    t.accumulation = 12;
    /* a step is micro-batches and what comes once */
    assert_true(fabs(step_of(t) - eight - (eight - four)) < 1e-9 * four);
    /* within a node the exchange is hidden, across nodes it is not */
    t = SMALL;
    t.ranks = 8;
    assert_true(step_of(t) == four);
    t.ranks = 16;
    double parameters = 12 * 24 * 1024. * 1024 + (51200 + 1024) * 1024.;
    assert_true(fabs(step_of(t) - four - 2 * parameters / 200e9) < 1e-9);
    /* a single small sequence costs the host's time: two cost little more */
    t = SMALL;
    t.micro = 1;
    double one = step_of(t);
    t.micro = 2;
    assert_true(step_of(t) < 1.2 * one);
    t.micro = 16;
    double many = step_of(t);
    t.micro = 32;
    assert_true(step_of(t) > 1.8 * many);
}

static void test_memory_decides_what_is_computed_again(void **state) {
    (void)state;
    assert_false(sg_gpt_recomputes(&SMALL, &A100));
    assert_true(sg_gpt_recomputes(&LARGE, &A100));
    sg_gpt_machine roomy = A100;
    roomy.memory_bytes = 200e9;
    assert_false(sg_gpt_recomputes(&LARGE, &roomy));
    assert_true(sg_gpt_step_s(&LARGE, &roomy, &SG_GPT_FITTED) < 0.9 * sg_gpt_step_s(&LARGE, &A100, &SG_GPT_FITTED));
}

/* Numbers that made some times are found again from the times, a wrong row among them. */
static void test_fit_finds_the_numbers(void **state) {
    (void)state;
    enum { N = 32 };
    sg_gpt_training t[N];
    double measured_s[N];
    sg_gpt_numbers truth = SG_GPT_FITTED, found;
    sg_status status = {0};
    truth.value[0] *= 0.8; /* products */
    truth.value[1] *= 1.3; /* attention */
    truth.value[2] *= 1.2; /* host */
    truth.value[6] *= 1.4; /* head */
    for (int i = 0; i < N; i++) {
        t[i] = SMALL;
        t[i].hidden = i & 1 ? 2048 : 1024;
        t[i].micro = 1 << (i >> 1 & 3);
        t[i].layers = i & 8 ? 12 : 24;
        t[i].accumulation = i & 16 ? 2 : 8;
        measured_s[i] = sg_gpt_step_s(&t[i], &A100, &truth) * (i == 7 ? 1.5 : 1);
    }
    assert_int_equal(sg_gpt_fit(t, measured_s, N, &A100, &found, &status), SG_OK);
    for (int i = 0; i < N; i++)
        if (i != 7) assert_true(fabs(sg_gpt_step_s(&t[i], &A100, &found) / measured_s[i] - 1) < 0.02);
    assert_true(fabs(found.value[0] / truth.value[0] - 1) < 0.1);
    assert_int_equal(sg_gpt_fit(t, measured_s, SG_GPT_TERMS - 1, &A100, &found, &status), SG_BAD_INPUT);
}

/* ---- rows ---- */

#define COLUMNS "gpus,global_batch,micro_batch,hidden,heads,layers,seq_len,tp,dp,pp,step_ms,cluster\n"

static sg_validation validated(const char *text, sg_left_out left_out) {
    sg_scratch scratch = sg_scratch_new();
    char path[128];
    sg_csv_table table;
    sg_status status = {0};
    sg_validation v = {0};
    sg_scratch_file(&scratch, "gpt.csv", text);
    (void)snprintf(path, sizeof path, "%s/gpt.csv", scratch.path);
    if (sg_csv_table_read(path, &table, &status) != SG_OK) fail_msg("%s", status.text);
    const sg_validate_options options = {.left_out = left_out};
    if (sg_validate_parallel(&table, &options, &v, &status) != SG_OK) fail_msg("%s", status.text);
    sg_csv_table_clear(&table);
    sg_scratch_free(&scratch);
    return v;
}

static void test_rows(void **state) {
    (void)state;
    sg_validation v = validated(COLUMNS "4,64,4,1024,16,24,1024,1,4,1,565.05,single\n"
                                        "4,64,4,1024,16,24,1024,4,1,1,300,single\n"
                                        "4,64,4,1024,16,24,1024,1,2,2,300,single\n"
                                        "4,6,4,1024,16,24,1024,1,4,1,300,single\n"
                                        "4,64,4,1024,16,24,1024,1,4,1,,single\n"
                                        "64,512,2,3072,32,30,2048,1,64,1,3700.5,multi\n",
                                SG_LEFT_OUT_NOTHING);
    static const char *const reasons[] = {
        "", "the model itself is split", "the model itself is split", "does not fall", "no time", ""};
    assert_int_equal(v.n, 6);
    for (size_t i = 0; i < v.n; i++) {
        if (reasons[i][0])
            assert_non_null(strstr(v.rows[i].skipped, reasons[i]));
        else
            assert_true(v.rows[i].low < v.rows[i].predicted && v.rows[i].predicted < v.rows[i].high);
        assert_int_equal(v.rows[i].cls, SG_VALIDATE_PARALLEL_DP);
    }
    assert_string_equal(v.rows[0].part, "one node");
    assert_string_equal(v.rows[5].part, "64 gpus");
    assert_true(v.rows[0].roofline < v.rows[0].predicted);
    sg_validation_clear(&v);
}

/* With a fold left out its rows do not take part: a configuration that is ten times slower stays unbelieved. */
static void test_left_out_configurations(void **state) {
    (void)state;
    char text[8192];
    size_t at = (size_t)snprintf(text, sizeof text, COLUMNS);
    for (int i = 0; i < 24; i++) {
        sg_gpt_training t = SMALL;
        t.hidden = i & 1 ? 2048 : 1024;
        t.micro = 1 << (i >> 1 & 3);
        t.layers = 12 + 4 * (i >> 3);
        at += (size_t)snprintf(text + at, sizeof text - at, "4,%.0f,%.0f,%.0f,16,%.0f,1024,1,4,1,%.6f,single\n",
                               16 * t.micro, t.micro, t.hidden, t.layers, 1e3 * step_of(t) * (i == 5 ? 10 : 1));
    }
    sg_validation v = validated(text, SG_LEFT_OUT_ROWS);
    assert_int_equal(v.n, 24);
    for (size_t i = 0; i < v.n; i++) {
        double ratio = v.rows[i].predicted / v.rows[i].measured * (i == 5 ? 10 : 1);
        if (!(ratio > 0.9 && ratio < 1.15)) fail_msg("%s: %.3f", v.rows[i].row, ratio);
    }
    sg_validation_clear(&v);
    v = validated(text, SG_LEFT_OUT_DEVICES);
    for (size_t i = 0; i < v.n; i++) assert_non_null(strstr(v.rows[i].skipped, "one GPU model"));
    sg_validation_clear(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_memory_decides_what_is_computed_again),
        cmocka_unit_test(test_fit_finds_the_numbers),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_left_out_configurations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
