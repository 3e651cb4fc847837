/* Links fitted to all-reduce times: known laws come back, on switches and meshes; spreads hold what they promise; link files
 * and machine files keep what was fitted. */
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
#include "calibration/fit/collective_fit.h"
#include "calibration/predict/predict.h"
#include "kernels/virtual/price.h"
#include "tests/support/priced.h"
#include "tests/support/scratch.h"

enum { ROWS_MAX = 1024 };

static sg_machine law(sg_topology topology) {
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.name, sizeof m.name, "known");
    (void)snprintf(m.device_class, sizeof m.device_class, "cuda");
    m.link.topology = (uint8_t)topology;
    m.link.gpus_per_node = 8;
    m.p[SG_M_COLLECTIVE_BUSBW].value = 280e9;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = 22e-6;
    m.p[SG_M_COLLECTIVE_RANK_S].value = 5e-6;
    m.p[SG_M_COLLECTIVE_LOCAL].value = 600e9;
    m.p[SG_M_COLLECTIVE_POWER].value = 0.95;
    return m;
}

/* A draw from -1 to 1 that does not repeat. */
static double draw(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (1 << 23) - 1;
}

/* Times of a machine with noise, for some numbers of ranks. */
static size_t rows_of(const sg_machine *m, int step, double noise, sg_collective_row *rows) {
    size_t n = 0;
    unsigned state = 7;
    for (int ranks = 2; ranks <= 8; ranks += step)
        for (double bytes = 0x1p20; bytes <= 0x1p30; bytes *= 1.1)
            if (n < ROWS_MAX)
                rows[n++] =
                    (sg_collective_row){ranks, bytes, sg_all_reduce_s(m, ranks, bytes) * exp(noise * draw(&state))};
    return n;
}

static sg_machine fitted(const sg_collective_row *rows, size_t n, sg_topology topology) {
    sg_machine m = law(topology);
    sg_collective_forget(&m);
    assert_true(isnan(m.p[SG_M_COLLECTIVE_BUSBW].value));
    sg_status status;
    if (sg_collective_fit(rows, n, "test", &m, &status)) fail_msg("%s", status.text);
    return m;
}

static void known_law(void **state) {
    (void)state;
    static sg_collective_row rows[ROWS_MAX];
    sg_machine truth = law(SG_TOPOLOGY_SWITCH);
    size_t n = rows_of(&truth, 2, 0.005, rows);
    sg_machine m = fitted(rows, n, SG_TOPOLOGY_SWITCH);
    for (int ranks = 2; ranks <= 8; ranks += 2)
        for (double bytes = 0x1p20; bytes <= 0x1p30; bytes *= 1.7)
            assert_true(fabs(sg_all_reduce_s(&m, ranks, bytes) / sg_all_reduce_s(&truth, ranks, bytes) - 1) < 0.01);
    /* numbers of ranks that were not measured follow from the law over those that were */
    for (int ranks = 3; ranks <= 7; ranks += 2)
        for (double bytes = 0x1p26; bytes <= 0x1p30; bytes *= 1.7)
            assert_true(fabs(sg_all_reduce_s(&m, ranks, bytes) / sg_all_reduce_s(&truth, ranks, bytes) - 1) < 0.02);
    assert_true(fabs(m.p[SG_M_COLLECTIVE_POWER].value - 0.95) < 0.01);
    assert_int_equal(m.p[SG_M_COLLECTIVE_BUSBW].evidence, SG_EVIDENCE_MEASURED);
    assert_string_equal(m.p[SG_M_COLLECTIVE_BUSBW].source, "test");
    assert_true(m.p[SG_M_COLLECTIVE_BUSBW].log_sd > 0);
}

/* On a mesh each number of ranks has the rings that fit, which no law knows. */
static void mesh(void **state) {
    (void)state;
    static sg_collective_row rows[ROWS_MAX];
    static const double rings[9] = {1, 1, 1, 2, 4, 1.6, 2, 4, 6};
    sg_machine truth = law(SG_TOPOLOGY_MESH);
    for (int n = 2; n <= 8; n++) truth.link.by_ranks[n].time = 4 / rings[n];
    size_t n = rows_of(&truth, 1, 0.005, rows);
    sg_machine m = fitted(rows, n, SG_TOPOLOGY_MESH);
    for (int ranks = 2; ranks <= 8; ranks++)
        for (double bytes = 0x1p22; bytes <= 0x1p30; bytes *= 1.7)
            assert_true(fabs(sg_all_reduce_s(&m, ranks, bytes) / sg_all_reduce_s(&truth, ranks, bytes) - 1) < 0.01);
}

static void disturbed(void **state) {
    (void)state;
    static sg_collective_row rows[ROWS_MAX], back[ROWS_MAX];
    sg_machine truth = law(SG_TOPOLOGY_SWITCH);
    size_t n = rows_of(&truth, 2, 0.005, rows);
    for (size_t i = 0; i < n; i += 17) rows[i].seconds *= 2.5; /* another job's traffic */
    sg_machine m = fitted(rows, n, SG_TOPOLOGY_SWITCH);
    for (double bytes = 0x1p26; bytes <= 0x1p30; bytes *= 2)
        assert_true(fabs(sg_all_reduce_s(&m, 8, bytes) / sg_all_reduce_s(&truth, 8, bytes) - 1) < 0.01);
    /* whatever the order of the rows */
    for (size_t i = 0; i < n; i++) back[i] = rows[n - 1 - i];
    sg_machine again = fitted(back, n, SG_TOPOLOGY_SWITCH);
    assert_true(fabs(sg_all_reduce_s(&again, 6, 1e8) / sg_all_reduce_s(&m, 6, 1e8) - 1) < 1e-4);
    /* rows beyond a node are passed over; without any other there is nothing to fit */
    sg_collective_row far = {64, 1e8, 1};
    sg_status status;
    assert_int_equal(sg_collective_fit(&far, 1, "test", &again, &status), SG_BAD_INPUT);
    assert_int_equal(sg_collective_fit(NULL, 0, "test", &again, &status), SG_BAD_INPUT);
}

static void spreads(void **state) {
    (void)state;
    static sg_collective_row rows[ROWS_MAX];
    static double residual[ROWS_MAX];
    sg_machine truth = law(SG_TOPOLOGY_SWITCH);
    size_t n = rows_of(&truth, 1, 0.05, rows);
    double spread[SG_LINK_SIZES];
    sg_machine prior = law(SG_TOPOLOGY_SWITCH);
    sg_collective_forget(&prior);
    sg_status status;
    assert_int_equal(sg_collective_left_out(rows, n, &prior, spread, &status), SG_OK);
    for (int i = 0; i < SG_LINK_SIZES; i++) assert_true(spread[i] > 0.03 && spread[i] < 0.06); /* 0.045: 90 % of 0.05 */
    for (size_t i = 0; i < n; i++)
        residual[i] = log(sg_all_reduce_s(&truth, rows[i].ranks, rows[i].bytes) / rows[i].seconds);
    double half = sg_collective_spread(rows, residual, n, 5, 1e8, 0.9);
    assert_true(half > 0.035 && half < 0.06);
    assert_true(sg_collective_spread(rows, residual, n, 5, 1e8, 0.5) < half);
    assert_true(isnan(sg_collective_spread(rows, residual, 0, 5, 1e8, 0.9)));
    assert_true(sg_collective_spread(rows, residual, 1, 5, rows[0].bytes, 0.9) == fabs(residual[0]));
    assert_true(sg_collective_spread(rows, residual, 1, 5, 4 * rows[0].bytes, 0.9) < fabs(residual[0]));
}

static void files(void **state) {
    (void)state;
    static sg_collective_row rows[ROWS_MAX];
    sg_machine truth = law(SG_TOPOLOGY_MESH), read;
    for (int n = 2; n <= 8; n++) truth.link.by_ranks[n].time = 1 + 0.1 * n;
    truth.link.switch_ranks = 5;
    size_t n = rows_of(&truth, 1, 0.02, rows);
    sg_machine m = fitted(rows, n, SG_TOPOLOGY_MESH);
    sg_status status;
    assert_int_equal(sg_collective_left_out(rows, n, &truth, m.link.spread, &status), SG_OK);
    sg_scratch s = sg_scratch_new();
    char path[128];
    (void)snprintf(path, sizeof path, "%s/machine.h5", s.path);
    if (sg_machine_save(path, &m, &status)) fail_msg("%s", status.text);
    if (sg_machine_load(path, NULL, &read, &status)) fail_msg("%s", status.text);
    assert_memory_equal(&read.link, &m.link, sizeof m.link);
    assert_true(sg_all_reduce_s(&read, 7, 3e7) == sg_all_reduce_s(&m, 7, 3e7));
    sg_machine_clear(&read);
    (void)unlink(path);
    static const char *const bad[] = {"topology: star\nparameters: {}",
                                      "parameters: {}",
                                      "topology: mesh",
                                      "topology: mesh\nparameters: {}\nby_ranks: [{ranks: 99}]",
                                      "topology: mesh\nparameters: {}\nspread: {above: 1}",
                                      "topology: mesh\nparameters: {}\ngpus_per_node: 0"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[512], inner[256];
        size_t used = 0;
        for (const char *c = bad[i]; *c; c++) {
            inner[used++] = *c;
            if (*c == '\n') used += (size_t)snprintf(inner + used, sizeof inner - used, "  ");
        }
        inner[used] = 0;
        (void)snprintf(
            text, sizeof text,
            "title: x\ndevice_class: cuda\nbf16: true\nfp16: true\ntf32: true\nlink:\n  %s\nparameters: {}\n", inner);
        sg_scratch_file(&s, "x.yaml", text);
        (void)snprintf(path, sizeof path, "%s/x.yaml", s.path);
        assert_int_equal(sg_machine_load(path, NULL, &read, &status), SG_BAD_INPUT);
        assert_non_null(strstr(status.text, "x.yaml"));
    }
    sg_scratch_free(&s);
}

/* Every link file that ships belongs to a topology and states what collectives need. */
static void shipped(void **state) {
    (void)state;
    char folder[SG_PATH_BYTES];
    sg_names names;
    sg_status status;
    assert_int_equal(sg_config_dir(NULL, folder, sizeof folder, &status), SG_OK);
    assert_int_equal(sg_config_list(folder, "links", ".yaml", &names, &status), SG_OK);
    assert_true(names.count >= 10);
    sg_scratch s = sg_scratch_new();
    char path[128], text[256];
    (void)snprintf(path, sizeof path, "%s/x.yaml", s.path);
    for (size_t i = 0; i < names.count; i++) {
        sg_machine m;
        (void)snprintf(
            text, sizeof text,
            "title: x\ndevice_class: cuda\nbf16: true\nfp16: true\ntf32: true\nlink: %.60s\nparameters: {}\n",
            names.name[i]);
        sg_scratch_file(&s, "x.yaml", text);
        if (sg_machine_load(path, NULL, &m, &status)) fail_msg("%s", status.text);
        assert_true(m.link.topology != SG_TOPOLOGY_BUS && m.link.gpus_per_node == 8);
        assert_true(m.p[SG_M_NETWORK].value > 0 && m.p[SG_M_NETWORK].log_sd > 0.2);
        assert_true(sg_all_reduce_s(&m, 8, 1e8) > 0);
        sg_machine_clear(&m);
    }
    sg_names_clear(&names);
    sg_scratch_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_law), cmocka_unit_test(mesh),
                                       cmocka_unit_test(disturbed), cmocka_unit_test(spreads),
                                       cmocka_unit_test(files),     cmocka_unit_test(shipped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
