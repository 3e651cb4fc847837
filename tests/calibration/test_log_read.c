/* LeRobot log lines of every era, and what is no log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/log_read.h"

static sg_code parse(const char *text, sg_log *log, sg_status *status) {
    return sg_log_parse(text, strlen(text), "train.log", log, status);
}

static void fields_of_2024_and_2026(void **state) {
    (void)state;
    sg_log log;
    sg_status status;
    const char *text =
        "INFO 2026-08-01 ot_train.py:446 Effective batch size: 32 x 2 = 64\n"
        "INFO num_learnable_params=51597190 (52M)\nINFO cfg.steps=20000 (20K)\n"
        "INFO step:200 smpl:6K ep:5 loss:6.148 lr:1.0e-05 updt_s:1.963 data_s:0.144 smp/s:15 mem_gb:13.09\n"
        "Training:   2% 400/20000 [13:25<10:28:08,  1.92s/step]INFO t.py:641 step:400 smpl:13K updt_s:1.912 "
        "data_s:0.004 smp/s:16 mem_gb:13.09 l1_loss:0.4\n"
        "step:600 smpl:19K lr:3.1e-06\r\n  data_s:0.002 prep_s:0.001 updt_s:1.908 step_s:1.911\n";
    assert_int_equal(parse(text, &log, &status), SG_OK);
    assert_int_equal(log.n_windows, 2); /* the first is warm-up */
    assert_int_equal(log.batch, 32);
    assert_int_equal(log.ranks, 2);
    assert_int_equal(log.steps, 20000);
    assert_int_equal(log.learnable_parameters, 51597190);
    assert_true(log.windows[0].update_s == 1.912 && log.windows[0].data_s == 0.004 && isnan(log.windows[0].prep_s));
    assert_true(log.windows[0].memory_gib == 13.09);
    assert_true(log.windows[1].update_s == 1.908 && log.windows[1].prep_s == 0.001 && log.windows[1].step_s == 1.911);
    sg_log_clear(&log);
}

static void batch_from_plain_counters(void **state) {
    (void)state;
    sg_log log;
    sg_status status;
    assert_int_equal(
        parse("step:10 smpl:80 updt_s:0.2 data_s:0.0 step:20 smpl:160 updt_s:0.1 data_s:0.0", &log, &status), SG_OK);
    assert_int_equal(log.batch, 8);
    assert_int_equal(log.n_windows, 1);
    sg_log_clear(&log);
}

static void what_is_no_log_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"", "hello world", "step:1 updt_s:0.1", "step:1 updt_s:nan step:2 updt_s:-1",
                                      "step: updt_s: data_s:"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sg_log log;
        sg_status status;
        assert_int_equal(parse(bad[i], &log, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, "updt_s"));
        assert_null(log.windows);
    }
}

/* NUL bytes, a word of a million characters, truncated UTF-8. */
static void noise_is_passed_over(void **state) {
    (void)state;
    size_t n = 1u << 20;
    char *text = malloc(n + 128);
    assert_non_null(text);
    memset(text, 'x', n);
    const char tail[] = "\xe2\x88 step:1 updt_s:0.5 \0 step:2 updt_s:0.25\0";
    memcpy(text + n, tail, sizeof tail);
    sg_log log;
    sg_status status;
    assert_int_equal(sg_log_parse(text, n + sizeof tail, "noise", &log, &status), SG_OK);
    assert_int_equal(log.n_windows, 1);
    assert_true(log.windows[0].update_s == 0.25);
    sg_log_clear(&log);
    free(text);
}

static void observed_point(void **state) {
    (void)state;
    sg_log log;
    sg_status status;
    sg_point point;
    sg_point_config config = {.policy = "act", .batch = 8, .ranks = 1};
    assert_int_equal(
        parse("step:1 updt_s:9 step:2 updt_s:0.5 data_s:0.1 step:3 updt_s:0.5 data_s:0.3 step:4 updt_s:0.5 data_s:0.1",
              &log, &status),
        SG_OK);
    assert_int_equal(sg_log_point(&log, &config, "train.log", &point, &status), SG_OK);
    assert_true(point.q[SG_Q_UPDATE].median == 0.5);
    assert_true(fabs(point.q[SG_Q_STEP].median - 0.6) < 1e-12);
    assert_string_equal(point.source, "observed");
    sg_point_clear(&point);
    sg_log_clear(&log);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_2024_and_2026),
        cmocka_unit_test(batch_from_plain_counters),
        cmocka_unit_test(what_is_no_log_is_refused),
        cmocka_unit_test(noise_is_passed_over),
        cmocka_unit_test(observed_point),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
