/* Files of the configuration folder: what bad data sheets say, what a framework adds, where the folder is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibration/config/config_dir.h"
#include "calibration/machine/framework_file.h"
#include "calibration/machine/machine_file.h"
#include "tests/support/contains.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

static char *scratch(const char *content) {
    char *path = NULL;
    if (asprintf(&path, "/tmp/stepgauge-machine-%d.yaml", (int)getpid()) < 0) fail();
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(content, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void sheet_fails(const char *content, const char *says) {
    char *path = scratch(content);
    sg_machine m;
    sg_status status = {0};
    assert_int_equal(sg_machine_load(path, CONFIGS, &m, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, says);
    sg_assert_contains(status.text, "stepgauge-machine");
    (void)unlink(path);
    free(path);
}

#define HEAD "title: T\ndevice_class: cuda\nparameters:\n"

static void test_bad_sheets(void **state) {
    (void)state;
    sheet_fails("title: T\ndevice_class: cuda\n", "\"parameters\" is missing");
    sheet_fails("title: T\ndevice_class: tpu\nparameters: {}\n", ".yaml:2:15: device_class: \"tpu\"");
    sheet_fails(HEAD "  eff_gem: {value: 1, log_sd: 0, source: s}\n",
                ".yaml:4:12: parameters.eff_gem: unknown key; did you "
                "mean \"eff_gemm\"");
    sheet_fails(HEAD "  eff_gemm: {value: nan, log_sd: 0, source: s}\n", "is no number");
    sheet_fails(HEAD "  eff_gemm: {value: -1, log_sd: 0, source: s}\n", "outside of");
    sheet_fails(HEAD "  eff_gemm: {value: 0, log_sd: 0, source: s}\n", "outside of");
    sheet_fails(HEAD "  eff_gemm: {value: 1e400, log_sd: 0, source: s}\n", "outside of");
    sheet_fails(HEAD "  eff_gemm: {value: 1, log_sd: -0.1, source: s}\n", "log_sd");
    sheet_fails(HEAD "  eff_gemm: {value: 1, log_sd: 0}\n", "\"source\" is missing");
    sheet_fails(HEAD "  eff_gemm: {value: 1, log_sd: 0, source: ''}\n", "the source is empty");
    sheet_fails(HEAD "  eff_gemm: {value: 1, log_sd: 0, source: s, group: x}\n", "is no group");
    sheet_fails(HEAD "  eff_gemm: {value: 1, log_sd: 0, source: s, evidence: rumour}\n", "is no evidence");
    sheet_fails(HEAD "  eff_gemm: 0.7\n", ".yaml:4:13");
    sheet_fails("title: t\ndevice_class: cuda\ntiles: {linear: [128x128]}\nparameters:\n", "batched");
    sheet_fails("title: t\ndevice_class: cuda\ntiles: {linear: [128], batched: []}\nparameters:\n", "128x64");
    sheet_fails("title: t\ndevice_class: cuda\ntiles: {linear: [4x128], batched: []}\nparameters:\n", "128x64");
    sheet_fails("title: t\ndevice_class: cuda\ntiles: {linear: [64x64x8], batched: []}\nparameters:\n", "128x64");
    sheet_fails("titel: T\n", "did you mean \"title\"");
    sheet_fails("title: T\ndevice_class: cuda\nmemory_bytes: -5\nparameters: {}\n", "memory_bytes");
    sheet_fails("title: T\ndevice_class: cuda\npriors: [cudda]\nparameters: {}\n", "did you mean \"cuda\"");
    sheet_fails("title: T\ndevice_class: cuda\npriors: [../machines/t4]\nparameters: {}\n", "unknown name");
    sheet_fails("title: [\n", ".yaml:2:1");

    sg_machine m;
    sg_status status;
    assert_int_equal(sg_machine_load("rtx-4091", CONFIGS, &m, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "did you mean \"rtx-4090\"");
    sg_assert_contains(status.text, "configs/machines"); /* where all are, not their names */
    assert_null(strstr(status.text, "a100-sxm-80gb"));
    assert_int_equal(sg_machine_load("a100", CONFIGS, &m, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "one of a100-pcie-40gb, a100-pcie-80gb, a100-sxm-40gb, a100-sxm-80gb?");
    assert_int_equal(sg_machine_load("RTX 4090", CONFIGS, &m, &status), SG_OK); /* case and separators do not count */
    assert_string_equal(m.name, "rtx-4090");
    sg_machine_clear(&m);
    assert_int_equal(sg_machine_load("", CONFIGS, &m, &status), SG_BAD_INPUT);
    assert_int_equal(sg_machine_load("no/such.yaml", CONFIGS, &m, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "no/such.yaml");
    assert_int_equal(sg_machine_load("t4", "/nowhere", &m, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "/nowhere");
}

static void test_frameworks(void **state) {
    (void)state;
    sg_framework_numbers eager, native;
    assert_int_equal(sg_framework_load("pytorch-eager", "cuda", CONFIGS, &eager, NULL), SG_OK);
    assert_int_equal(sg_framework_load("native", "cuda", CONFIGS, &native, NULL), SG_OK);
    assert_int_equal(eager.buckets.first_bytes, 1 << 20);
    assert_int_equal(eager.buckets.bytes, 25 << 20);
    assert_true(eager.p[SG_M_HOST_OP_S].value > 2 * native.p[SG_M_HOST_OP_S].value);

    sg_machine m;
    sg_machine_init(&m);
    m.p[SG_M_HOST_OP_S] = (sg_machine_parameter){.value = 11e-6, .log_sd = 0.05, .evidence = SG_EVIDENCE_CALIBRATED};
    m.p[SG_M_HOST_SYNC_S] = (sg_machine_parameter){.value = 1, .log_sd = 1, .evidence = SG_EVIDENCE_DATA_SHEET};
    m.p[SG_M_FACTOR_CONV] = (sg_machine_parameter){.value = 1.7, .log_sd = 0.1, .evidence = SG_EVIDENCE_CALIBRATED};
    m.covariance = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof(double));
    assert_non_null(m.covariance);
    for (int i = 0; i < SG_M_COUNT * SG_M_COUNT; i++) m.covariance[i] = 0.01;
    sg_framework_apply(&eager, &m);
    assert_true(m.p[SG_M_HOST_OP_S].value == 11e-6); /* what was measured stays */
    assert_true(m.p[SG_M_HOST_SYNC_S].value < 1e-3); /* what a data sheet said does not */
    assert_true(m.p[SG_M_HOST_VIEW].value == 0.3);   /* what was unknown is filled */
    assert_true(m.p[SG_M_FACTOR_CONV].value == 1.7);
    int i = SG_M_HOST_VIEW, j = SG_M_HOST_OP_S;
    assert_true(m.covariance[i * SG_M_COUNT + i] == pow(m.p[i].log_sd, 2) && m.covariance[i * SG_M_COUNT + j] == 0);
    assert_true(m.covariance[j * SG_M_COUNT + j] == 0.01);
    sg_framework_apply(&native, &m);
    assert_true(m.p[SG_M_FACTOR_CONV].value == 1 && m.p[SG_M_FACTOR_CONV].log_sd == 0);
    sg_machine_clear(&m);

    sg_status status;
    assert_int_equal(sg_framework_load("pytorch-eagre", "cuda", CONFIGS, &eager, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "pytorch-eager");
}

static void test_config_dir(void **state) {
    (void)state;
    char path[SG_PATH_BYTES];
    sg_status status;
    assert_int_equal(sg_config_dir(CONFIGS, path, sizeof path, &status), SG_OK);
    assert_string_equal(path, CONFIGS);
    assert_int_equal(setenv("STEPGAUGE_CONFIGS", "/nowhere/at/all", 1), 0);
    assert_int_equal(sg_config_dir(NULL, path, sizeof path, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, "STEPGAUGE_CONFIGS = /nowhere/at/all");
    assert_int_equal(setenv("STEPGAUGE_CONFIGS", CONFIGS, 1), 0);
    assert_int_equal(sg_config_dir(NULL, path, sizeof path, &status), SG_OK);
    assert_int_equal(unsetenv("STEPGAUGE_CONFIGS"), 0);
    if (strncmp(SG_BINARY_DIR, SG_SOURCE_DIR, strlen(SG_SOURCE_DIR)) == 0) { /* a build inside the source tree */
        assert_int_equal(sg_config_dir(NULL, path, sizeof path, &status), SG_OK);
        sg_assert_contains(path, "/configs");
    }
    char tiny[4];
    assert_int_equal(sg_config_dir(CONFIGS, tiny, sizeof tiny, &status), SG_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_sheets),
        cmocka_unit_test(test_frameworks),
        cmocka_unit_test(test_config_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
