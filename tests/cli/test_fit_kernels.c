/* fit --kernels and validate --kernels as commands: a table of products, refusals, JSON, the files that are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/program.h"

static char table[] = "/tmp/stepgauge_products_XXXXXX.csv";

static int write_table(void **state) {
    (void)state;
    int file = mkstemps(table, 4);
    if (file < 0) return 1;
    FILE *f = fdopen(file, "w");
    if (!f) return 1;
    (void)fprintf(f, "device,op,batch,m,n,k,latency_ms,kernel\n");
    /* a card of 20 TFLOP/s with 20 us of start */
    for (int i = 0; i < 24; i++) {
        double m = 256 << i % 4, n = 512 << i % 3, k = 512 << i % 2;
        (void)fprintf(f, "NVIDIA GeForce RTX 3090,linear,1,%.0f,%.0f,%.0f,%.9g,ampere_sgemm_128x64_tn\n", m, n, k,
                      2e3 * m * n * k / 20e12 + 0.02);
    }
    return fclose(f);
}

static int remove_table(void **state) {
    (void)state;
    return remove(table);
}

static void refused(sg_said said, const char *why) {
    if (said.status != 2 || !strstr(said.err, why)) fail_msg("exit status %d: %s", said.status, said.err);
    sg_said_clear(&said);
}

static void fits_and_writes(void **state) {
    (void)state;
    char sheet[] = "/tmp/stepgauge_fitted_XXXXXX.yaml", shapes[sizeof sheet + 2];
    int file = mkstemps(sheet, 5);
    assert_true(file >= 0);
    (void)close(file);
    (void)snprintf(shapes, sizeof shapes, "%.*s.shapes", (int)(sizeof sheet - 6), sheet);
    sg_said said = sg_stepgauge("fit", "--kernels", table, "--device", "NVIDIA GeForce RTX 3090", "-o", sheet, NULL);
    if (said.status) fail_msg("%s", said.err);
    assert_non_null(strstr(said.out, "eff_gemm"));
    assert_non_null(strstr(said.out, "Tiles of linear products: 64x128"));
    sg_said_clear(&said);
    assert_int_equal(access(shapes, R_OK), 0);
    said = sg_stepgauge("predict", "mlp", "--machine", sheet, "--precision", "fp32", NULL);
    if (said.status) fail_msg("%s", said.err);
    sg_said_clear(&said);
    (void)remove(sheet);
    (void)remove(shapes);
    said = sg_stepgauge("fit", "--kernels", table, "--device", "rtx-3090", "--json", NULL);
    assert_int_equal(said.status, 0);
    json_t *root = json_loads(said.out, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "products")), 24);
    assert_non_null(json_object_get(json_object_get(root, "parameters"), "event_product_s"));
    assert_true(json_real_value(json_object_get(json_object_get(root, "left_out"), "mean")) < 0.2);
    json_decref(root);
    sg_said_clear(&said);
}

static void refusals(void **state) {
    (void)state;
    refused(sg_stepgauge("fit", "--kernels", table, NULL), "--device");
    refused(sg_stepgauge("fit", "--kernels", table, "--device", "rtx-4090", NULL), "no kernel times");
    refused(sg_stepgauge("fit", "--kernels", table, "--device", "rtx-409", NULL), "rtx-4090");
    refused(sg_stepgauge("fit", "--kernels", "/nowhere/x.csv", "--device", "t4", NULL), "/nowhere/x.csv");
    refused(sg_stepgauge("fit", "--kernels", table, "--device", "rtx-3090", "-o", "/nowhere/x.yaml", NULL), "/nowhere");
}

static void validates(void **state) {
    (void)state;
    sg_said said = sg_stepgauge("validate", "--kernels", table, "--cross-validate", "--folds", "3", "--json", NULL);
    if (said.status) fail_msg("%s", said.err);
    assert_non_null(strstr(said.out, "\"gemm\""));
    sg_said_clear(&said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_and_writes),
        cmocka_unit_test(refusals),
        cmocka_unit_test(validates),
    };
    return cmocka_run_group_tests(tests, write_table, remove_table);
}
