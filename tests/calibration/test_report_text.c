/* What sentences about trainings state: words, options, numbers, image sizes, durations; and what only looks like it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calibration/reports/report_text.h"

static void folds(void **state) {
    (void)state;
    char out[32];
    sg_report_fold("ACT 480\xC3\x97"
                   "640\n\xE2\x80\x93 \xE2\x82\xAC",
                   out, sizeof out);
    assert_string_equal(out, "act 480x640 -    ");
    sg_report_fold("abcdefgh", out, 4);
    assert_string_equal(out, "abc");
    sg_report_fold("\xE2\x80", out, sizeof out); /* cut in the middle of a character */
    assert_int_equal(strlen(out), 2);
}

static void words(void **state) {
    (void)state;
    assert_null(sg_report_find("actions of a robot", "act"));
    assert_non_null(sg_report_find("trains (act) here", "act"));
    assert_non_null(sg_report_find("gradient_checkpointing=true", "gradient checkpointing"));
    assert_null(sg_report_find("", "act"));
    assert_int_equal(sg_report_option("bf16, gradient checkpointing, compile_model", "compile_model"), 1);
    assert_int_equal(sg_report_option("no gradient checkpointing", "gradient checkpointing"), -1);
    assert_int_equal(sg_report_option("compile_model=false; act", "compile_model"), -1);
    assert_int_equal(sg_report_option("fp32 (use_amp ignored by bug)", "use_amp"), -1);
    assert_int_equal(sg_report_option("eager", "compile"), 0);
    assert_int_equal(sg_report_option("tf32 off", "tf32"), -1);
}

static void check_number(const char *text, bool suffixes, double expected) {
    double v = -1;
    bool found = sg_report_number(text, suffixes, &v, NULL);
    if (isnan(expected))
        assert_false(found);
    else
        assert_true(found && fabs(v - expected) <= 1e-9 * expected);
}

static void numbers(void **state) {
    (void)state;
    static const char *const cameras[] = {"cameras", "camera"}, *const rates[] = {"step/s"};
    double v = 0;
    check_number("2.78 x", false, 2.78);
    check_number("22,458 frames", false, 22458);
    check_number("45k", true, 45000);
    check_number("3.62b", true, 3.62e9);
    check_number("45k", false, 45);
    check_number("nan", true, NAN);
    check_number("-3", true, NAN);
    char huge[600];
    memset(huge, '9', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    check_number(huge, true, NAN);
    assert_true(sg_report_number_before("fp32, 2 cameras 640x480", cameras, 2, &v) && v == 2);
    assert_true(sg_report_number_before("4 aloha cameras", cameras, 2, &v) && v == 4);
    assert_true(sg_report_number_before("one camera", cameras, 2, &v) && v == 1);
    assert_false(sg_report_number_before("cameras: some", cameras, 2, &v));
    assert_true(sg_report_number_before("5.45 step/s; mem_gb 3.73", rates, 1, &v) && v == 5.45);
    assert_true(sg_report_number_after("torch mem_gb 3.73; nvidia-smi peak 4717 mib", "mem_gb", &v) && v == 3.73);
    assert_true(sg_report_number_after("nvidia-smi peak 4717 mib", "nvidia-smi peak", &v) && v == 4717);
    assert_true(sg_report_number_after("no chunk; chunk_size=20", "chunk_size", &v) && v == 20);
    assert_false(sg_report_number_after("chunk default", "chunk", &v));
}

static void check_size(const char *text, int height, int width) {
    int h = 0, w = 0;
    bool cropped;
    bool found = sg_report_image_size(text, &h, &w, &cropped);
    assert_int_equal(found, height > 0);
    if (!found) return;
    assert_int_equal(h, height);
    assert_int_equal(w, width);
}

static void image_sizes(void **state) {
    (void)state;
    check_size("~640x480 images; adamw", 480, 640);
    check_size("2 cameras 480x640", 480, 640);
    check_size("pusht 96x96", 96, 96);
    check_size("fine-tune, resize_with_pad 512x512, 2 cameras 640x480, pyav", 480, 640);
    check_size("resized to 224x224", 0, 0);
    check_size("4 cameras 480x640 cropped to 240x320", 240, 320);
    check_size("8x gpus, 2x4 tiles", 0, 0);
    check_size("v640x480", 0, 0);
    check_size("99999999999x480", 0, 0);
    check_size("640x", 0, 0);
    check_size("", 0, 0);
}

static void check_duration(const char *text, double low, double high) {
    double a = 0, b = 0;
    bool found = sg_report_duration(text, &a, &b);
    assert_int_equal(found, low > 0);
    if (found) assert_true(fabs(a - low) < 1e-6 * low && fabs(b - high) < 1e-6 * high);
}

static void durations(void **state) {
    (void)state;
    check_duration("16m17s", 977, 977);
    check_duration("3h41m", 13260, 13260);
    check_duration("1 h 50 m 25 s", 6625, 6625);
    check_duration("9 h 38 min", 34680, 34680);
    check_duration("180 min", 10800, 10800);
    check_duration("~4 h", 14400, 14400);
    check_duration("2-4 h", 7200, 14400);
    check_duration("~2 days", 172800, 172800);
    check_duration("9:36:02", 34562, 34562);
    check_duration("3 h 32 min (16:51:47 to 20:23:54)", 12720, 12720);
    check_duration("soon", 0, 0);
    check_duration("12", 0, 0);
    check_duration("5 metres", 0, 0);
    check_duration("", 0, 0);
}

static void ranges(void **state) {
    (void)state;
    double a, b;
    assert_true(sg_report_range("0.379-0.435", &a, &b) && a == 0.379 && b == 0.435);
    assert_true(sg_report_range("~2", &a, &b) && a == 2 && b == 2);
    assert_false(sg_report_range(">20", &a, &b));
    assert_false(sg_report_range("0.5 or so", &a, &b));
    assert_false(sg_report_range("0", &a, &b));
    assert_false(sg_report_range("3-1", &a, &b));
    assert_false(sg_report_range("oom", &a, &b));
    assert_false(sg_report_range("nan", &a, &b));
    assert_false(sg_report_range("1e400", &a, &b));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(folds),     cmocka_unit_test(words),
                                       cmocka_unit_test(numbers),   cmocka_unit_test(image_sizes),
                                       cmocka_unit_test(durations), cmocka_unit_test(ranges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
