/* fit --steps as a command: the clock inside steps of the GPUs that ship with measured steps. */
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

#define STEPS SG_SOURCE_DIR "/configs/validation/transformers.csv"

static void test_lines(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("fit", "--steps", STEPS, NULL);
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    assert_non_null(strstr(said.out, "# configs/machines/a100-pcie-80gb.yaml\n  step_stretch: {value: "));
    assert_non_null(strstr(said.out, "transformers.csv"));
    sg_said_clear(&said);
}

static void test_one_machine(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("fit", "--steps", STEPS, "--machine", "a100-pcie-80gb", "--json", NULL);
    if (said.status != 0) fail_msg("exit status %d: %s", said.status, said.err);
    json_t *root = sg_said_json(&said);
    assert_int_equal(json_array_size(root), 1);
    const json_t *one = json_array_get(root, 0);
    assert_string_equal(json_string_value(json_object_get(one, "machine")), "a100-pcie-80gb");
    assert_true(json_integer_value(json_object_get(one, "rows")) >= 1);
    double stretch = json_number_value(json_object_get(one, "step_stretch"));
    assert_true(stretch > 0.7 && stretch < 1.5);
    json_decref(root);
    sg_said_clear(&said);
}

static void refused(sg_said said, const char *words) {
    assert_int_equal(said.status, 2);
    if (!strstr(said.err, words)) fail_msg("'%s'", said.err);
    sg_said_clear(&said);
}

static void test_refusals(void **state) {
    (void)state;
    refused(sg_stepgauge("fit", "--steps", STEPS, "--machine", "no-such-gpu", NULL), "no row of no-such-gpu");
    refused(sg_stepgauge("fit", "--steps", "no-such-file.csv", NULL), "no-such-file.csv");
    refused(sg_stepgauge("fit", "--steps", STEPS, "--configs", STEPS, NULL), "config_json");
    refused(sg_stepgauge("fit", "--steps", STEPS, "-o", "/no/such/folder/clocks", NULL), "its folder does not exist");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_one_machine),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
