/* The rest of a training from its first windows: pace, stalls, epochs, checkpoints, drift; nothing of the rest is used. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/forecast/forecast.h"
#include "calibration/validate/validate.h"
#include "tests/support/log_checks.h"
#include "tests/support/near.h"

enum { TEXT = 64 * 1024 };

/* A log that is written line by line; seconds of its day. */
typedef struct writer {
    char text[TEXT];
    size_t used;
    int now_s;
} writer;

static void put(writer *w, const char *format, ...) SG_PRINTF(2, 3);
static void put(writer *w, const char *format, ...) {
    va_list args;
    int s = w->now_s;
    w->used += (size_t)snprintf(w->text + w->used, TEXT - w->used, "INFO 2026-02-16 %02d:%02d:%02d ot_train.py:423 ",
                                s / 3600, s / 60 % 60, s % 60);
    va_start(args, format);
    w->used += (size_t)vsnprintf(w->text + w->used, TEXT - w->used, format, args);
    va_end(args);
    assert_true(w->used + 2 < TEXT);
    w->text[w->used++] = '\n';
    w->text[w->used] = 0;
}

static writer *banner(int steps, int frames) {
    writer *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->now_s = 3600;
    put(w, "cfg.steps=%d", steps);
    if (frames) put(w, "dataset.num_frames=%d", frames);
    put(w, "Effective batch size: 8 x 1 = 8");
    put(w, "num_learnable_params=50000000 (50M)");
    put(w, "num_total_params=50000000 (50M)");
    return w;
}

/* 100 steps that take `seconds` by the clock and 0.4 s of update and 0.1 s of loading each by the line. */
static void window(writer *w, int step, int seconds) {
    w->now_s += seconds;
    put(w, "step:%d smpl:%d ep:1 epch:1.00 loss:0.1 grdn:1 lr:1e-5 updt_s:0.400 data_s:0.100", step, 8 * step);
}

static sg_forecast made(const writer *w, sg_forecast_options options) {
    sg_logs logs = sg_logs_of_text(w->text);
    sg_forecast f;
    sg_status status;
    assert_int_equal(logs.n, 1);
    sg_code code = sg_forecast_make(&logs.logs[0], &options, &f, &status);
    if (code) fail_msg("%s", status.text);
    sg_logs_clear(&logs);
    assert_true(f.rest_s.low <= f.rest_s.value && f.rest_s.value <= f.rest_s.high);
    return f;
}

/* 0.52 s by the clock, 0.50 by the lines; a checkpoint of 20 s after 200 of 1000 steps. */
static void pace_and_checkpoints(void **state) {
    (void)state;
    writer *w = banner(950, 0);
    window(w, 100, 80);
    window(w, 200, 52);
    put(w, "Checkpoint policy after step 200");
    window(w, 300, 72);
    window(w, 400, 52);
    sg_forecast f = made(w, (sg_forecast_options){0});
    assert_true(f.pace.by_clock);
    assert_near(f.pace.steady_s, 0.52, 1e-9);
    assert_close(f.pace.dataloading_s, 0.1);
    assert_close(f.loader_s, 55);
    assert_close(f.at_step, 400);
    assert_close(f.save_every, 200);
    assert_true(f.checkpoint_seen);
    assert_near(f.checkpoint_s, 20, 1e-9);
    assert_close(f.checkpoints, 4); /* after 400, 600, 800 and the last step */
    assert_near(f.rest_s.value, 550 * f.pace.steady_s + 4 * f.checkpoint_s, 1e-6);
    assert_true(f.rest_s.high < 1.2 * f.rest_s.value);
    /* asked for otherwise */
    f = made(w, (sg_forecast_options){.to_step = 800, .save_every = 300, .to_line = true});
    assert_close(f.checkpoints, 1);
    f = made(w, (sg_forecast_options){.save_every = -1});
    assert_close(f.checkpoints, 1);
    free(w);
}

/* Nobody tells of checkpoints: LeRobot's rhythm, the state's bytes, and an upper bound for what may come. */
static void nothing_seen(void **state) {
    (void)state;
    writer *w = banner(40000, 0);
    for (int i = 1; i <= 4; i++) window(w, 100 * i, 50);
    sg_forecast f = made(w, (sg_forecast_options){0});
    assert_close(f.checkpoints, 2);
    assert_close(f.checkpoint_s, 50e6 * 12 / 60e6);
    assert_false(f.checkpoint_seen);
    assert_true(f.rest_s.high > 1.07 * f.rest_s.value && f.rest_s.high < 1.15 * f.rest_s.value);
    assert_true(f.rest_s.low > 0.9 * f.rest_s.value);
    assert_non_null(strstr(f.notes[0], "default"));
    /* a short rest may hold a checkpoint that no line tells of; told that there is none, it does not */
    f = made(w, (sg_forecast_options){.to_step = 600, .to_line = true});
    assert_near(f.rest_s.value, 100, 1e-9);
    assert_true(f.rest_s.high > 100 + 3 * 10 && f.rest_s.high < 100 + 6 * 10);
    f = made(w, (sg_forecast_options){.to_step = 600, .to_line = true, .save_every = -1});
    assert_true(f.rest_s.high < 100 + 2 * 10);
    free(w);
}

/* A run that names an environment evaluates in it: by LeRobot's rhythm, as long as others; a bound where none is due. */
static void evaluations_to_come(void **state) {
    (void)state;
    writer *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->now_s = 3600;
    put(w, "cfg.env.task='AlohaInsertion-v0'");
    put(w, "cfg.steps=50000");
    put(w, "num_learnable_params=50000000 (50M)");
    for (int i = 1; i <= 4; i++) window(w, 100 * i, 50);
    sg_forecast f = made(w, (sg_forecast_options){.save_every = -1});
    assert_near(f.others_s.value, 2 * 120, 1e-9); /* at 20,000 and 40,000 */
    f = made(w, (sg_forecast_options){.to_step = 1000, .to_line = true, .save_every = -1});
    assert_close(f.others_s.value, 0);
    assert_true(f.rest_s.high > 300 + 2 * 120);
    free(w);
}

/* Where a log tells no parameters its GPU's memory bounds what a checkpoint can be. */
static void parameters_untold(void **state) {
    (void)state;
    double high[2];
    for (int told = 0; told < 2; told++) {
        writer *w = calloc(1, sizeof *w);
        assert_non_null(w);
        w->now_s = 3600;
        put(w, "cfg.steps=900");
        for (int i = 1; i <= 4; i++) {
            w->now_s += 50;
            put(w, "step:%d smpl:%d ep:1 epch:1.00 loss:0.1 updt_s:0.400 data_s:0.100%s", 100 * i, 800 * i,
                told ? " smp/s:16 mem_gb:1.00" : "");
        }
        sg_forecast f = made(w, (sg_forecast_options){0});
        assert_close(f.checkpoints, 1); /* the last state */
        assert_true(f.checkpoint_s > 0);
        assert_false(f.checkpoint_seen);
        high[told] = f.rest_s.high;
        free(w);
    }
    assert_true(high[1] < 0.5 * high[0]);
}

/* 1200 frames, 8 samples a step: epochs end at steps 150, 300, 450, ..; at 400 none does. */
static void epochs_end(void **state) {
    (void)state;
    writer *w = banner(1000, 1200);
    window(w, 100, 60);
    window(w, 200, 57);
    window(w, 300, 57);
    window(w, 400, 50);
    window(w, 500, 57);
    sg_forecast f = made(w, (sg_forecast_options){.save_every = -1});
    assert_near(f.pace.steady_s, 0.50, 1e-9);
    assert_near(f.pace.epoch_s, 7, 1e-9);
    assert_close(f.epochs, 3); /* at 600, 750 and 900 */
    assert_near(f.epochs_s.value, 21, 1e-9);
    free(w);
}

static void stalls_and_drift(void **state) {
    (void)state;
    writer *w = banner(2000, 0);
    for (int i = 1; i <= 6; i++) window(w, 100 * i, i == 4 ? 250 : 50);
    sg_forecast f = made(w, (sg_forecast_options){.save_every = -1});
    assert_close(f.pace.stalled, 1);
    assert_near(f.pace.steady_s, 0.5, 1e-9);
    assert_near(f.pace.stall_s, 200.0 / 500, 1e-9);
    assert_near(f.stalls_s.value, 1400 * 0.4, 1e-6);
    free(w);
    w = banner(2000, 0);
    for (int i = 1; i <= 13; i++) window(w, 100 * i, i <= 7 ? 50 : 60);
    f = made(w, (sg_forecast_options){.save_every = -1});
    assert_near(f.pace.drift, log(60.0 / 50), 1e-9);
    assert_near(f.pace.steady_s, 0.6, 1e-9);
    assert_true(f.pace.log_sd > 0.15);
    free(w);
}

/* Whatever stands behind the evidence, the forecast from it is the same. */
static void nothing_of_the_rest(void **state) {
    (void)state;
    double rest[2];
    for (int slow = 0; slow < 2; slow++) {
        writer *w = banner(3000, 0);
        for (int i = 1; i <= 4; i++) window(w, 100 * i, 50);
        if (slow) put(w, "Checkpoint policy after step 400");
        for (int i = 5; i <= 14; i++) window(w, 100 * i, slow ? 150 : 50);
        rest[slow] = made(w, (sg_forecast_options){.windows = 4}).rest_s.value;
        free(w);
    }
    assert_close(rest[0], rest[1]);
}

/* No clock: iterations of PPO by what their blocks tell. */
static void ppo_without_clock(void **state) {
    (void)state;
    char text[TEXT] = "";
    size_t used = 0;
    for (int i = 0; i < 5; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used,
                             "                       Learning iteration %d/100\n\n"
                             "                       Computation: 50000 steps/s (collection: %.3fs, learning 0.100s)\n"
                             "                Total timesteps: %d\n"
                             "                Iteration time: 1.00s\n",
                             i, i ? 0.9 : 3.0, 50000 * (i + 1));
    sg_logs logs = sg_logs_of_text(text);
    sg_forecast f;
    sg_status status;
    sg_code code = sg_forecast_make(&logs.logs[0], &(sg_forecast_options){.to_step = 100}, &f, &status);
    if (code) fail_msg("%s", status.text);
    assert_false(f.pace.by_clock);
    assert_close(f.pace.steady_s, 1.0);
    assert_close(f.rest_s.value, 96);
    assert_close(f.pace.collection_s, 0.9);
    sg_logs_clear(&logs);
}

static void refused(const writer *w, const char *part) {
    sg_logs logs = sg_logs_of_text(w->text);
    sg_forecast f;
    sg_status status;
    assert_int_equal(sg_forecast_make(&logs.logs[0], &(sg_forecast_options){0}, &f, &status), SG_NO);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
    sg_logs_clear(&logs);
}

static void refusals(void **state) {
    (void)state;
    writer *w = banner(1000, 0);
    window(w, 100, 50);
    refused(w, "warm-up");
    window(w, 200, 50);
    window(w, 1000, 400);
    refused(w, "is done");
    free(w);
    w = calloc(1, sizeof *w);
    assert_non_null(w);
    for (int i = 1; i < 4; i++) window(w, 100 * i, 50);
    refused(w, "--steps");
    free(w);
}

/* The evidence: two windows behind warm-up and 200 steps, at most a third. */
static void evidence_is_early(void **state) {
    (void)state;
    writer *w = banner(30000, 0);
    for (int i = 1; i <= 30; i++) window(w, 50 * i, 25);
    sg_logs logs = sg_logs_of_text(w->text);
    assert_int_equal(sg_forecast_evidence(&logs.logs[0], 0), 4);
    assert_int_equal(sg_forecast_evidence(&logs.logs[0], 50), 3);
    assert_int_equal(sg_forecast_evidence(&logs.logs[0], 5000), 10);
    sg_logs_clear(&logs);
    free(w);
}

static void validated(void **state) {
    (void)state;
    writer *w = banner(30000, 0);
    for (int i = 1; i <= 9; i++) window(w, 100 * i, i == 1 ? 70 : 50);
    put(w, "Eval policy at step 900");
    w->now_s += 100;
    put(w, "step:900 smpl:7200 ep:1 epch:1.00 \xe2\x88\x91rwrd:14.8 success:0.0%% eval_s:99.5");
    window(w, 1000, 50);
    sg_logs logs = sg_logs_of_text(w->text);
    sg_validation v = {0};
    sg_status status;
    assert_int_equal(sg_validate_logs(&logs, "dir/run.log", &(sg_validate_options){.interval = 0.9}, &v, &status),
                     SG_OK);
    assert_int_equal(v.n, logs.n);
    assert_string_equal(v.rows[0].part, "by clock");
    assert_string_equal(v.rows[0].file, "run.log");
    assert_close(v.rows[0].measured, 450); /* from the third of ten windows on */
    assert_close(v.rows[0].predicted, 350);
    assert_non_null(strstr(v.rows[0].cause, "evaluation of 100 s"));
    sg_validation_clear(&v);
    sg_logs_clear(&logs);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pace_and_checkpoints),
        cmocka_unit_test(nothing_seen),
        cmocka_unit_test(evaluations_to_come),
        cmocka_unit_test(parameters_untold),
        cmocka_unit_test(epochs_end),
        cmocka_unit_test(stalls_and_drift),
        cmocka_unit_test(nothing_of_the_rest),
        cmocka_unit_test(ppo_without_clock),
        cmocka_unit_test(refusals),
        cmocka_unit_test(evidence_is_early),
        cmocka_unit_test(validated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
