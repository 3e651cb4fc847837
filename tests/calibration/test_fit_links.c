/* Links of a machine from its own benchmarks: the law of exchanges, and how far compute and exchanges slow each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/fit/fit_links.h"
#include "calibration/predict/predict.h"
#include "kernels/virtual/price.h"
#include "tests/support/priced.h"

enum { MICROS = 64 };

static sg_micro record(const char *what, const char *beside, int ranks, int64_t bytes, double median_s,
                       double alone_s) {
    sg_micro m = {.s = {.median = median_s}, .alone_s = alone_s};
    (void)snprintf(m.config.bench, sizeof m.config.bench, "collective");
    (void)snprintf(m.config.what, sizeof m.config.what, "%s", what);
    (void)snprintf(m.config.beside, sizeof m.config.beside, "%s", beside);
    (void)snprintf(m.config.device, sizeof m.config.device, "cuda");
    m.config.ranks = ranks;
    m.config.bytes = bytes;
    return m;
}

static double law_s(int ranks, double bytes) {
    return 50e-6 + 2.0 * (ranks - 1) / ranks * bytes / 7e9;
}

static void fits(void **state) {
    (void)state;
    static sg_micro micros[MICROS];
    size_t n = 0;
    for (int ranks = 2; ranks <= 4; ranks += 2)
        for (int64_t bytes = 1 << 16; bytes <= 1 << 28; bytes *= 4)
            micros[n++] = record("all_reduce", "", ranks, bytes, law_s(ranks, (double)bytes), 0);
    micros[n++] = record("gemm", "all_reduce", 4, 1 << 26, 1.2, 1);
    micros[n++] = record("gemm", "all_reduce", 4, 1 << 24, 1.2, 1);
    micros[n++] = record("all_reduce", "gemm", 4, 1 << 26, 1.3, 1);
    /* not this machine's: another device, disturbed, gathered, one rank, nothing measured */
    micros[n] = record("all_reduce", "", 2, 1 << 26, 1e-9, 0);
    (void)snprintf(micros[n++].config.device, sizeof micros[0].config.device, "cpu");
    micros[n] = record("all_reduce", "", 2, 1 << 26, 1e3, 0);
    micros[n++].disturbed = true;
    micros[n++] = record("all_gather", "", 2, 1 << 26, 1e3, 0);
    micros[n++] = record("all_reduce", "", 1, 1 << 26, 1e-9, 0);
    micros[n++] = record("all_reduce", "", 2, 1 << 26, NAN, 0);
    const sg_run run = {.micros = micros, .n_micros = n};
    sg_machine m = sg_sheet("rtx-4090");
    sg_status status;
    if (sg_fit_links(&run, "test", &m, &status)) fail_msg("%s", status.text);
    for (int ranks = 2; ranks <= 4; ranks += 2)
        for (int64_t bytes = 1 << 20; bytes <= 1 << 28; bytes *= 2)
            assert_true(fabs(sg_all_reduce_s(&m, ranks, (double)bytes) / law_s(ranks, (double)bytes) - 1) < 0.05);
    assert_true(fabs(m.p[SG_M_OVERLAP_STRETCH].value - 1.2) < 1e-9);
    assert_true(fabs(m.p[SG_M_COLLECTIVE_STRETCH].value - 1.3) < 1e-9);
    assert_int_equal(m.p[SG_M_COLLECTIVE_BUSBW].evidence, SG_EVIDENCE_CALIBRATED);
    assert_string_equal(m.p[SG_M_COLLECTIVE_BUSBW].source, "test");
    sg_machine_clear(&m);
}

static void too_little(void **state) {
    (void)state;
    sg_micro micros[3];
    for (int i = 0; i < 3; i++) micros[i] = record("all_reduce", "", 2, 1 << (20 + i), 1e-3, 0);
    const sg_run run = {.micros = micros, .n_micros = 3}, none = {0};
    sg_machine m = sg_sheet("rtx-4090"), before = sg_sheet("rtx-4090");
    sg_status status;
    assert_int_equal(sg_fit_links(&run, "test", &m, &status), SG_OK);
    assert_int_equal(sg_fit_links(&none, "test", &m, &status), SG_OK);
    assert_memory_equal(m.p, before.p, sizeof m.p);
    assert_memory_equal(&m.link, &before.link, sizeof m.link);
    sg_machine_clear(&m);
    sg_machine_clear(&before);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fits), cmocka_unit_test(too_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
