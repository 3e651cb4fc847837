/* What `bench gemm` concludes from given times: speed-up, where transfer eats the gain, gain of precisions, the ceiling. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/bench_report.h"
#include "tests/support/program.h"

static sg_micro made(const char *device, const char *what, const char *compute, int64_t n, double seconds,
                     bool native) {
    sg_micro m = {.s = {seconds, seconds, seconds, seconds}, .flops = 2.0 * (double)(n * n * n), .fits_rates = native};
    (void)snprintf(m.config.bench, sizeof m.config.bench, "gemm");
    (void)snprintf(m.config.device, sizeof m.config.device, "%s", device);
    (void)snprintf(m.config.what, sizeof m.config.what, "%s", what);
    (void)snprintf(m.config.compute, sizeof m.config.compute, "%s", compute);
    m.config.n = n;
    m.flop_per_s = m.flops / seconds;
    return m;
}

static const json_t *entry(const json_t *root, const char *list, const char *precision, int64_t n) {
    const json_t *entries = json_object_get(json_object_get(root, "summary"), list);
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *one = json_array_get(entries, i);
        const json_t *its_n = json_object_get(one, "n");
        if (strcmp(json_string_value(json_object_get(one, "precision")), precision) == 0 &&
            (!n || json_integer_value(its_n) == n))
            return one;
    }
    fail_msg("no %s of %s %lld", list, precision, (long long)n);
    return NULL;
}

static void conclusions_from_given_times(void **state) {
    (void)state;
    const double t = 121e12; /* an L4's bf16 peak */
    sg_micro micros[] = {
        made("cpu", "product", "f32", 256, 1e-3, true),
        made("cpu", "product", "f32", 512, 8e-3, true),
        made("cpu", "product", "f32", 1024, 64e-3, true),
        made("cpu", "product", "bf16", 1024, 100e-3, false), /* not really formed there: no baseline */
        made("cuda", "product", "f32", 256, 0.5e-3, true),
        made("cuda", "with_transfer", "f32", 256, 2e-3, true),
        made("cuda", "product", "f32", 512, 1e-3, true),
        made("cuda", "with_transfer", "f32", 512, 8e-3, true), /* as slow: nothing gained */
        made("cuda", "product", "f32", 1024, 4e-3, true),
        made("cuda", "with_transfer", "f32", 1024, 16e-3, true),
        made("cuda", "product", "bf16", 1024, 2.0 * 1024 * 1024 * 1024 / (0.75 * t), true),
    };
    const sg_args args = {0};
    sg_bench_report report = {.kind = SG_BENCH_GEMM,
                              .args = &args,
                              .micros = micros,
                              .n_micros = sizeof micros / sizeof *micros,
                              .device = {{.kind = "cpu", .name = "a CPU"},
                                         {.kind = "cuda", .name = "NVIDIA L4", .memory_bytes = 24152899584}},
                              .n_devices = 2};
    json_t *root = sg_json_bench(&report);
    assert_non_null(root);
    assert_float_equal(sg_json_number(entry(root, "speed_up", "fp32", 1024), "factor"), 16, 1e-9);
    assert_float_equal(sg_json_number(entry(root, "speed_up", "fp32", 1024), "factor_with_transfer"), 4, 1e-9);
    const json_t *half = entry(root, "speed_up", "bf16", 1024);
    assert_string_equal(json_string_value(json_object_get(half, "baseline_precision")), "fp32");
    assert_true(json_is_null(json_object_get(half, "factor_with_transfer")));
    const json_t *transfer = entry(root, "transfer", "fp32", 0);
    assert_true(sg_json_number(transfer, "eats_the_gain_up_to_n") == 512 &&
                sg_json_number(transfer, "pays_from_n") == 1024);
    const json_t *ceilings = json_object_get(json_object_get(root, "summary"), "ceiling");
    const json_t *best = NULL;
    for (size_t i = 0; i < json_array_size(ceilings); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(ceilings, i), "device")), "cuda") == 0 &&
            strcmp(json_string_value(json_object_get(json_array_get(ceilings, i), "precision")), "bf16") == 0)
            best = json_array_get(ceilings, i);
    assert_non_null(best);
    assert_string_equal(json_string_value(json_object_get(best, "data_sheet")), "l4");
    assert_float_equal(sg_json_number(best, "reached"), 0.75, 0.01);
    json_decref(root);
    sg_print_bench(&report); /* the tables take the same records */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(conclusions_from_given_times)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
