/* Whole transformer steps beside predictions: which rows can be set up, what lies inside the measured part, and that a GPU's
 * clock is learnt from its other rows alone. */
#include "calibration/steps/step_clock.h"
#include "calibration/validate/validate.h"
#include "tests/support/scratch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONFIGS                                                                                                        \
    "model,config_json\n"                                                                                              \
    "tiny,\"{\"\"model_type\"\": \"\"gpt2\"\", \"\"n_embd\"\": 512, \"\"n_layer\"\": 2, \"\"n_head\"\": 8, "           \
    "\"\"vocab_size\"\": 5000}\"\n"                                                                                    \
    "bert,\"{\"\"model_type\"\": \"\"bert\"\", \"\"num_hidden_layers\"\": 2}\"\n"                                      \
    "llama,\"{\"\"model_type\"\": \"\"llama\"\"}\"\n"
#define COLUMNS "device,model,mode,seq_len,batch,parallel,forward_ms,backward_ms,step_ms\n"

typedef struct tables {
    sg_scratch scratch;
    sg_csv_table steps, configs;
} tables;

static void read_table(const sg_scratch *scratch, const char *name, const char *text, sg_csv_table *table) {
    char path[128];
    sg_status status = {0};
    sg_scratch_file(scratch, name, text);
    (void)snprintf(path, sizeof path, "%s/%s", scratch->path, name);
    if (sg_csv_table_read(path, table, &status) != SG_OK) fail_msg("%s", status.text);
}

static tables open_tables(const char *steps) {
    tables t = {.scratch = sg_scratch_new()};
    read_table(&t.scratch, "steps.csv", steps, &t.steps);
    read_table(&t.scratch, "configs.csv", CONFIGS, &t.configs);
    return t;
}

static void close_tables(tables *t) {
    sg_csv_table_clear(&t->steps);
    sg_csv_table_clear(&t->configs);
    sg_scratch_free(&t->scratch);
}

static sg_step_cases open_cases(const tables *t) {
    sg_step_cases cases;
    sg_status status = {0};
    if (sg_step_cases_open(&t->steps, &t->configs, NULL, &cases, &status) != SG_OK) fail_msg("%s", status.text);
    return cases;
}

static double predicted(sg_step_case *one, double stretch) {
    double seconds;
    sg_status status = {0};
    sg_machine machine = one->machine;
    machine.p[SG_M_STEP_STRETCH].value = stretch;
    if (sg_step_case_predict(one, &machine, &seconds, NULL, &status) != SG_OK) fail_msg("%s", status.text);
    return seconds;
}

/* ---- rows ---- */

static void test_rows_that_cannot_be_predicted(void **state) {
    (void)state;
    tables t = open_tables(COLUMNS "Tesla T4,tiny,inf,128,2,,0,0,5\n"
                                   "Tesla T4,tiny,train,128,4,tp4,0,0,5\n"
                                   "Tesla T4,tiny,train,128,4,pp4_1,0,0,5\n"
                                   "Tesla T4,tiny,train,128,3,dp2,0,0,5\n"
                                   "Tesla T4,other,inf,128,2,,0,0,5\n"
                                   "Tesla T4,llama,inf,128,2,,0,0,5\n"
                                   "Voodoo 2,tiny,inf,128,2,,0,0,5\n"
                                   "Tesla T4,tiny,inf,2048,2,,0,0,5\n"
                                   "Tesla T4,tiny,both,128,2,,0,0,5\n"
                                   "Tesla T4,tiny,inf,128,1.5,,0,0,5\n"
                                   "Tesla T4,tiny,inf,128,2,,0,0,0\n");
    static const char *const reasons[] = {"",
                                          "parallel tp4 splits the model",
                                          "parallel pp4_1 splits the model",
                                          "equal parts",
                                          "no configuration of model 'other'",
                                          "model_type 'llama'",
                                          "Voodoo 2",
                                          "above n_positions 1024",
                                          "neither inf nor train",
                                          "no count",
                                          "no time"};
    sg_validation v = {0};
    sg_status status = {0};
    const sg_validate_options options = {.left_out = SG_LEFT_OUT_NOTHING};
    assert_int_equal(sg_validate_steps(&t.steps, &t.configs, &options, &v, &status), SG_OK);
    assert_int_equal(v.n, sizeof reasons / sizeof *reasons);
    for (size_t i = 0; i < v.n; i++) {
        if (!reasons[i][0]) {
            assert_string_equal(v.rows[i].skipped, "");
            assert_true(v.rows[i].low < v.rows[i].predicted && v.rows[i].predicted < v.rows[i].high);
            assert_true(v.rows[i].roofline > 0 && v.rows[i].roofline < v.rows[i].predicted);
        } else if (!strstr(v.rows[i].skipped, reasons[i])) {
            fail_msg("row %zu: '%s'", v.rows[i].line, v.rows[i].skipped);
        }
        assert_int_equal(v.rows[i].line, i + 2);
        assert_string_equal(v.rows[i].device, strcmp(reasons[i], "Voodoo 2") == 0 ? "Voodoo 2" : "t4");
    }
    sg_validation_clear(&v);
    close_tables(&t);
}

/* What is said of one row whose measured value lies far outside of its interval. */
static void expect_cause(const char *row, const char *words) {
    char text[256];
    (void)snprintf(text, sizeof text, COLUMNS "%s\n", row);
    tables t = open_tables(text);
    sg_validation v = {0};
    sg_status status = {0};
    const sg_validate_options options = {.left_out = SG_LEFT_OUT_NOTHING};
    assert_int_equal(sg_validate_steps(&t.steps, &t.configs, &options, &v, &status), SG_OK);
    assert_int_equal(v.n, 1);
    assert_true(v.rows[0].measured < v.rows[0].low || v.rows[0].measured > v.rows[0].high);
    if (words[0])
        assert_non_null(strstr(v.rows[0].cause, words));
    else
        assert_string_equal(v.rows[0].cause, "");
    sg_validation_clear(&v);
    close_tables(&t);
}

/* A long forward, a card that throttles; else nothing. */
static void test_causes(void **state) {
    (void)state;
    expect_cause("NVIDIA A100 80GB PCIe,bert,train,512,8,,900,100,1000", "forward takes 90 %");
    expect_cause("NVIDIA A100 80GB PCIe,bert,train,512,8,,300,700,1000", "");
    expect_cause("NVIDIA A100 80GB PCIe,bert,train,512,8,,0.9,0.1,1", "");
    expect_cause("Tesla P4,bert,inf,512,8,,9000,0,9000", "a card of 75 W");
}

static void test_tables_of_another_kind(void **state) {
    (void)state;
    tables t = open_tables("device,model\nTesla T4,tiny\n");
    sg_validation v = {0};
    sg_status status = {0};
    const sg_validate_options options = {0};
    assert_int_equal(sg_validate_steps(&t.steps, &t.configs, &options, &v, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "steps.csv"));
    close_tables(&t);
}

/* ---- what is inside ---- */

/* A training step is the forward, whose dropout inference lacks, and the backward; the loss's forward is outside. BERT is a
 * classifier in inference, and has a head over the vocabulary in training. */
static void test_measured_part(void **state) {
    (void)state;
    tables t = open_tables(COLUMNS "Tesla V100-PCIE-32GB,tiny,inf,1024,8,,0,0,5\n"
                                   "Tesla V100-PCIE-32GB,tiny,train,1024,8,,0,0,5\n"
                                   "Tesla V100-PCIE-32GB,tiny,train,1024,16,dp2,0,0,5\n"
                                   "Tesla V100-PCIE-32GB,bert,inf,512,16,,0,0,5\n"
                                   "Tesla V100-PCIE-32GB,bert,train,512,16,,0,0,5\n");
    sg_step_cases cases = open_cases(&t);
    double inference = predicted(&cases.items[0], 1), training = predicted(&cases.items[1], 1);
    assert_true(training > 2.5 * inference && training < 4.5 * inference);
    /* two processes of the same batch have the loss inside, and exchange */
    assert_int_equal(cases.items[2].batch, 8);
    assert_true(predicted(&cases.items[2], 1) > training);
    sg_counts classifier = sg_count_program(cases.items[3].training, sg_main_program(cases.items[3].training));
    sg_counts pretraining = sg_count_program(cases.items[4].training, sg_main_program(cases.items[4].training));
    assert_true(pretraining.parameters > classifier.parameters);
    assert_true(pretraining.pass[SG_PASS_FORWARD].flops - classifier.pass[SG_PASS_FORWARD].flops >
                2.0 * 16 * 512 * 768 * 30522);
    sg_step_cases_close(&cases);
    close_tables(&t);
}

static void test_stretch_of_kernels(void **state) {
    (void)state;
    tables t = open_tables(COLUMNS "Tesla T4,bert,inf,512,32,,0,0,5\n");
    sg_step_cases cases = open_cases(&t);
    assert_true(fabs(predicted(&cases.items[0], 1.5) / predicted(&cases.items[0], 1) - 1.5) < 0.02);
    double seconds, by_log[SG_M_COUNT];
    assert_int_equal(sg_step_case_predict(&cases.items[0], &cases.items[0].machine, &seconds, by_log, NULL), SG_OK);
    assert_true(fabs(by_log[SG_M_STEP_STRETCH] / seconds - 1) < 0.02);
    sg_step_cases_close(&cases);
    close_tables(&t);
}

/* ---- the clock ---- */

static void test_clock_of_rows(void **state) {
    (void)state;
    const double slower[] = {0.2, 0.2, 0.2};
    assert_true(sg_step_clock_of(NULL, 0).stretch == 1);
    assert_true(fabs(log(sg_step_clock_of(slower, 1).stretch) - 0.1) < 1e-12);
    assert_true(fabs(log(sg_step_clock_of(slower, 3).stretch) - 0.15) < 1e-12);
    assert_true(sg_step_clock_of(slower, 3).log_sd < sg_step_clock_of(slower, 1).log_sd);
}

enum { ROWS = 12 };

/* Rows of a card that runs 1.3 times as long as predicted, the first one ten times as long. */
static void slow_card(char *text, size_t room) {
    tables t = open_tables(COLUMNS "Tesla T4,bert,inf,512,1,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,2,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,3,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,4,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,5,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,6,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,7,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,8,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,9,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,10,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,11,,0,0,5\n"
                                   "Tesla T4,bert,inf,512,12,,0,0,5\n");
    sg_step_cases cases = open_cases(&t);
    size_t at = (size_t)snprintf(text, room, "%s", COLUMNS);
    for (int i = 0; i < ROWS; i++)
        at += (size_t)snprintf(text + at, room - at, "Tesla T4,bert,inf,512,%d,,0,0,%.6f\n", i + 1,
                               1e3 * (i ? 1.3 : 10) * predicted(&cases.items[i], 1));
    sg_step_cases_close(&cases);
    close_tables(&t);
}

static void test_clock_from_other_folds(void **state) {
    (void)state;
    char text[2048];
    slow_card(text, sizeof text);
    tables t = open_tables(text);
    sg_validation v = {0};
    sg_status status = {0};
    const sg_validate_options options = {.left_out = SG_LEFT_OUT_ROWS, .folds = ROWS};
    assert_int_equal(sg_validate_steps(&t.steps, &t.configs, &options, &v, &status), SG_OK);
    /* what is said of the first row comes from the others alone */
    double first = v.rows[0].predicted / v.rows[0].measured * 10;
    assert_true(first > 1.2 && first < 1.31);
    for (size_t i = 1; i < v.n; i++) assert_true(v.rows[i].predicted > v.rows[i].measured * 0.95);
    sg_step_cases cases = open_cases(&t);
    sg_step_clock clock;
    assert_int_equal(sg_step_clock_fit(&cases, "t4", &clock, &status), SG_OK);
    assert_int_equal(clock.rows, ROWS);
    assert_true(fabs(log(clock.stretch) - (11 * log(1.3) + log(10)) / 13) < 1e-3);
    assert_int_equal(sg_step_clock_fit(&cases, "l4", &clock, &status), SG_OK);
    assert_int_equal(clock.rows, 0);
    sg_step_cases_close(&cases);
    sg_validation_clear(&v);
    close_tables(&t);
}

/* Without its own kernels a GPU is what others are: another time, a wider interval. */
static void test_kernels_left_out(void **state) {
    (void)state;
    static const char *const rows[] = {COLUMNS "Tesla T4,bert,inf,512,8,,0,0,5\n",
                                       COLUMNS "Tesla T4,bert,inf,512,8,,0,0,5\n"
                                               "Tesla V100-PCIE-32GB,bert,inf,512,8,,0,0,5\n"};
    double seconds[2] = {0};
    for (int i = 0; i < 2; i++) {
        tables t = open_tables(rows[i]);
        sg_validation with = {0}, without = {0};
        sg_status status = {0};
        sg_validate_options options = {.left_out = SG_LEFT_OUT_ROWS, .folds = 2};
        assert_int_equal(sg_validate_steps(&t.steps, &t.configs, &options, &with, &status), SG_OK);
        options.left_out = SG_LEFT_OUT_DEVICES;
        assert_int_equal(sg_validate_steps(&t.steps, &t.configs, &options, &without, &status), SG_OK);
        const sg_validated *a = &with.rows[0], *b = &without.rows[0];
        seconds[i] = b->predicted;
        assert_true(b->predicted > 0.5 * a->predicted && b->predicted < 2 * a->predicted);
        assert_true(fabs(b->predicted / a->predicted - 1) > 1e-3);
        assert_true(b->high / b->low > 1.1 * (a->high / a->low));
        sg_validation_clear(&with);
        sg_validation_clear(&without);
        close_tables(&t);
    }
    assert_true(fabs(seconds[1] / seconds[0] - 1) > 1e-3); /* what the other GPU says counts */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_that_cannot_be_predicted),
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_tables_of_another_kind),
        cmocka_unit_test(test_measured_part),
        cmocka_unit_test(test_stretch_of_kernels),
        cmocka_unit_test(test_clock_of_rows),
        cmocka_unit_test(test_clock_from_other_folds),
        cmocka_unit_test(test_kernels_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
