/* validate as a command: the figures that ship, files of any kind, refusals, the file of rows, JSON; fit --collectives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/program.h"
#include "tests/support/scratch.h"

static sg_scratch scratch;
static char good[96], bad[96], other[96], rows_path[96];

/* Times of a law: 30 us + 4 us per rank, 300 GB/s on the wire, one row with noise of a half. */
static int make_files(void **state) {
    (void)state;
    static char text[1 << 16];
    scratch = sg_scratch_new();
    size_t used = (size_t)snprintf(text, sizeof text, "note,bytes,device,time_us,ranks\n");
    for (int n = 2; n <= 8; n += 2)
        for (double mib = 1; mib <= 1024; mib *= 1.3) {
            double bytes = floor(mib * 0x1p20), us = 30 + 4 * n + 1e6 * 2 * (n - 1) / n * bytes / 300e9;
            used += (size_t)snprintf(text + used, sizeof text - used, "\"x, y\",%.0f,a100,%.4f,%d\n", bytes, us, n);
        }
    sg_scratch_file(&scratch, "good.csv", text);
    sg_scratch_file(&scratch, "bad.csv",
                    "device,ranks,bytes,time_us\na100,1,1048576,9\na100,8,-5,9\na100,8,1048576,nan\na100,2.5,1e6,9\n"
                    "a100,8,1e6,\nno such card,2,1048576,50\nh100-sxm,4096,1048576,400\nmi300x,8,1048576,50\n");
    sg_scratch_file(&scratch, "other.csv", "device,op,rows\nt4,add,3\n");
    (void)snprintf(good, sizeof good, "%s/good.csv", scratch.path);
    (void)snprintf(bad, sizeof bad, "%s/bad.csv", scratch.path);
    (void)snprintf(other, sizeof other, "%s/other.csv", scratch.path);
    (void)snprintf(rows_path, sizeof rows_path, "%s/rows.csv", scratch.path);
    return 0;
}

static int remove_files(void **state) {
    (void)state;
    sg_scratch_free(&scratch);
    return 0;
}

static json_t *entry(const json_t *root, const char *cls, const char *device) {
    size_t i;
    json_t *one, *found = NULL;
    json_array_foreach(json_object_get(root, "classes"), i,
                       one) if (strcmp(json_string_value(json_object_get(one, "class")), cls) == 0 &&
                                strcmp(json_string_value(json_object_get(one, "device")), device) == 0) {
        assert_null(found);
        found = one;
    }
    if (!found) fail_msg("no entry of %s, %s", cls, device);
    return found;
}

static double real(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

/* Every entry has what scripts rely on; skipped rows say why. */
static void check_schema(const json_t *root) {
    static const char *const numbers[] = {"n", "mean", "median", "p90", "max", "coverage_90", "under_estimates"};
    size_t i, j;
    json_t *one, *row;
    assert_true(json_array_size(json_object_get(root, "classes")) > 0);
    json_array_foreach(json_object_get(root, "classes"), i, one) {
        double n = real(one, "n");
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers && n > 0; k++) assert_true(real(one, numbers[k]) >= 0);
        assert_non_null(json_object_get(one, "roofline_mean"));
        if (n > 0) {
            assert_true(real(one, "median") <= real(one, "p90") && real(one, "p90") <= real(one, "max"));
            assert_true(real(one, "coverage_90") <= 1 && real(one, "under_estimates") <= n);
        } else
            assert_true(json_is_null(json_object_get(one, "mean")));
        assert_true(json_is_array(json_object_get(one, "parts")));
        json_array_foreach(json_object_get(one, "skipped"), j, row)
            assert_true(strlen(json_string_value(json_object_get(row, "reason"))) > 0);
    }
}

static void shipped(void **state) {
    (void)state;
    json_t *root = sg_said_answer(sg_stepgauge("validate", "--json", NULL), 0);
    check_schema(root);
    const json_t *collectives = entry(root, "collectives", "all");
    assert_true(real(collectives, "n") >= 40 && real(collectives, "mean") < 0.04);
    assert_true(real(collectives, "mean") < real(collectives, "roofline_mean"));
    assert_true(real(entry(root, "steps_train", "all"), "n") >= 5);
    assert_true(real(entry(root, "reports_step", "all"), "n") >= 5);
    assert_true(real(entry(root, "parallel_dp", "all"), "n") >= 10);
    assert_true(real(entry(root, "memory_bound", "all"), "n") >= 20);
    json_decref(root);
}

static size_t lines_of(const char *path, char *first, size_t bytes) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char line[1024];
    size_t n = 0;
    while (fgets(line, sizeof line, file))
        if (!n++) (void)snprintf(first, bytes, "%s", line);
    assert_int_equal(fclose(file), 0);
    return n;
}

static void left_out_rows(void **state) {
    (void)state;
    json_t *root = sg_said_answer(sg_stepgauge("validate", "--collectives", good, "--cross-validate", "--folds", "4",
                                               "--rows", rows_path, "--json", NULL),
                                  0);
    check_schema(root);
    const json_t *all = entry(root, "collectives", "all");
    double n = real(all, "n");
    assert_true(n == 4 * 27);
    assert_true(real(all, "mean") < 0.003); /* the law is the model's own, but for a weak pull of its prior */
    assert_true(real(all, "roofline_mean") > 0.01);
    assert_string_equal(json_string_value(json_object_get(root, "left_out")), "rows");
    char first[1024];
    assert_int_equal(lines_of(rows_path, first, sizeof first), (size_t)n + 1);
    assert_string_equal(first, "class,device,part,row,file,line,measured,predicted,low,high,roofline,skipped,cause\n");
    json_decref(root);
    /* ten rows of the device are fewer than its fit would like, and still of use */
    root = sg_said_answer(
        sg_stepgauge("validate", "--collectives", good, "--cross-validate=rows", "--calibrate", "10", "--json", NULL),
        0);
    assert_true(real(entry(root, "collectives", "all"), "mean") < 0.2);
    json_decref(root);
    root = sg_said_answer(
        sg_stepgauge("validate", "--collectives", good, "--cross-validate", "devices", "--json", NULL), 0);
    assert_true(real(entry(root, "collectives", "all"), "n") == 0);
    assert_int_equal(json_array_size(json_object_get(root, "skipped")), 4 * 27);
    json_decref(root);
}

static void skipped(void **state) {
    (void)state;
    json_t *root =
        sg_said_answer(sg_stepgauge("validate", "--collectives", bad, "--rows", rows_path, "--json", NULL), 0);
    check_schema(root);
    assert_int_equal(json_array_size(json_object_get(root, "skipped")), 7);
    assert_true(real(entry(root, "collectives", "all"), "n") == 1); /* 4096 ranks of a known machine */
    char first[1024];
    assert_int_equal(lines_of(rows_path, first, sizeof first), 9);
    json_decref(root);
    sg_said said = sg_stepgauge("validate", "--collectives", bad, NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "Not predicted: 7 rows"));
    assert_non_null(strstr(said.out, "no machine of this name"));
    assert_non_null(strstr(said.out, "mi300x"));
    sg_said_clear(&said);
}

static void refused(sg_said said, const char *why) {
    if (said.status != 2) fail_msg("exit status %d: %s", said.status, said.err);
    if (!strstr(said.err, why)) fail_msg("'%s' is not in: %s", why, said.err);
    sg_said_clear(&said);
}

static void refusals(void **state) {
    (void)state;
    refused(sg_stepgauge("validate", "--collectives", other, NULL),
            "the columns \"ranks\", \"bytes\", \"time_us\" are missing");
    refused(sg_stepgauge("validate", "--steps", other, NULL), "missing");
    refused(sg_stepgauge("validate", "--reports", other, NULL), "missing");
    refused(sg_stepgauge("validate", "--parallel", other, NULL), "missing");
    refused(sg_stepgauge("validate", "--kernels", good, NULL), "missing");
    refused(sg_stepgauge("validate", "--steps", other, "--configs", other, NULL), "missing");
    refused(sg_stepgauge("validate", "--collectives", "/nowhere/x.csv", NULL), "/nowhere/x.csv");
    refused(sg_stepgauge("validate", "--collectives", good, other, NULL), "other.csv");
    refused(sg_stepgauge("validate", good, NULL), "by kind");
    refused(sg_stepgauge("validate", "--collectives", NULL), "needs a value");
    refused(sg_stepgauge("validate", "--cross-validate", "columns", NULL), "rows or devices");
    refused(sg_stepgauge("validate", "--calibrate", "10", NULL), "give --cross-validate");
    refused(sg_stepgauge("validate", "--folds", "1", NULL), "at least 2");
    refused(sg_stepgauge("validate", "--folds", "5000", NULL), "at most 1000");
    refused(sg_stepgauge("validate", "--json", "--markdown", NULL), "leave out one");
    refused(sg_stepgauge("validate", "--rows", "/nowhere/rows.csv", NULL), "/nowhere/rows.csv");
    refused(sg_stepgauge("validate", "--config-dir", scratch.path, NULL), "validate");
    refused(sg_stepgauge("plan", "act", "--folds", "3", NULL), "validate");
}

static void states_the_interval_as_given(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("validate", "--interval", "0.999", NULL);
    assert_non_null(strstr(said.out, "inside the 99.9 % interval"));
    sg_said_clear(&said);
    said = sg_stepgauge("predict", "mlp", "--machine", "l4", "--interval", "0.999", NULL);
    assert_non_null(strstr(said.out, "(99.9 % interval"));
    sg_said_clear(&said);
}

static void markdown(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("validate", "--collectives", good, "--cross-validate", "--markdown", NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "|---|--:|"));
    assert_non_null(strstr(said.out, "| **collectives** | 108 |"));
    sg_said_clear(&said);
}

static void fits_links(void **state) {
    (void)state;
    char machine[96];
    (void)snprintf(machine, sizeof machine, "%s/machine.h5", scratch.path);
    json_t *root = sg_said_answer(
        sg_stepgauge("fit", "--collectives", good, "--machine", "a100-sxm-80gb", "-o", machine, "--json", NULL), 0);
    assert_true(real(root, "rows") == 108 && json_array_size(json_object_get(root, "by_ranks")) == 4);
    json_decref(root);
    /* the file of rows comes back as it was measured, from the machine file */
    root = sg_said_answer(
        sg_stepgauge("predict", "act", "--machine", machine, "--batch", "8", "--gpus", "8", "--json", NULL), 0);
    json_decref(root);
    sg_said said = sg_stepgauge("fit", "--collectives", good, NULL);
    assert_int_equal(said.status, 0);
    assert_non_null(strstr(said.out, "collective_busbw: {value:"));
    sg_said_clear(&said);
    refused(sg_stepgauge("fit", "--collectives", good, "-o", machine, NULL), "--machine");
    refused(sg_stepgauge("fit", "--collectives", bad, NULL), "--device");
    refused(sg_stepgauge("fit", "--collectives", bad, "--device", "t4", NULL), "no all-reduce times of 't4'");
    refused(sg_stepgauge("fit", "--collectives", good, "--machine", "a100-sxm-80gb", "--device", "x", NULL), "'x'");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shipped),
                                       cmocka_unit_test(left_out_rows),
                                       cmocka_unit_test(skipped),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(states_the_interval_as_given),
                                       cmocka_unit_test(markdown),
                                       cmocka_unit_test(fits_links)};
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
