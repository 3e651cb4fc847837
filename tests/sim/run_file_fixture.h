/* run_file_fixture.h: a folder for a run file, a machine and points to write into it. */
#ifndef SG_TESTS_SIM_RUN_FILE_FIXTURE_H
#define SG_TESTS_SIM_RUN_FILE_FIXTURE_H

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

#include "sim/measure/point_tree.h"

typedef struct sg_scene {
    char folder[64], path[96];
} scene;

static inline int set_up(void **state) {
    scene *s = calloc(1, sizeof *s);
    if (!s) return -1;
    (void)snprintf(s->folder, sizeof s->folder, "/tmp/sg_run_XXXXXX");
    if (!mkdtemp(s->folder)) return -1;
    (void)snprintf(s->path, sizeof s->path, "%s/run.h5", s->folder);
    *state = s;
    return 0;
}

static inline int tear_down(void **state) {
    scene *s = *state;
    static const char *const names[] = {"run.h5", "run.h5.lock", "run.h5.tmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[128];
        (void)snprintf(path, sizeof path, "%s/%s", s->folder, names[i]);
        (void)unlink(path);
    }
    int left = rmdir(s->folder);
    free(s);
    return left;
}

static const sg_machine_record machine = {.hostname = "bench",
                                          .cpu = "a CPU",
                                          .device = "cpu",
                                          .os = "Linux",
                                          .library = "a library 1.2",
                                          .program_version = "0.1.0",
                                          .cores = 2,
                                          .threads = 2,
                                          .memory_bytes = 8ll << 30,
                                          .clock_mhz = 2500};

enum { ITERATIONS = 40 };

/* A point of batch `batch`; raw times are static because tests only lend them. */
static inline sg_point make_point(int64_t batch) {
    static double raw[2][ITERATIONS];
    for (int i = 0; i < ITERATIONS; i++) {
        raw[0][i] = 0.5 + 0.001 * i;
        raw[1][i] = 0.6 + 0.001 * ((i * 7) % ITERATIONS);
    }
    sg_point point = {.config = {.policy = "act",
                                 .framework = "pytorch-eager",
                                 .device = "cpu",
                                 .precision = "fp32",
                                 .host = "native",
                                 .settings = "chunk_size=50;dim_model=256",
                                 .batch = batch,
                                 .ranks = 1,
                                 .accumulation = 1,
                                 .threads = 2,
                                 .seed = UINT64_MAX},
                      .iterations = ITERATIONS,
                      .warmup = 3,
                      .samples_per_s = (double)batch / 0.6,
                      .peak_allocated_bytes = 1u << 30,
                      .peak_reserved_bytes = 1u << 30,
                      .resident_bytes = 2u << 30,
                      .rank_spread = 0.01,
                      .disturbed = true,
                      .disturbed_why = "another program ran",
                      .fits_rates = true,
                      .load_average = 1.5,
                      .clock_mhz = 2400,
                      .source = "measured",
                      .origin = "here",
                      .flops = 1e12,
                      .bytes = 1e10,
                      .ops_forward = 400,
                      .ops_backward = 800,
                      .frame_s = 0.004};
    for (int c = 0; c < SG_CLASS_COUNT; c++) point.class_s[c] = c == SG_CLASS_POOL ? NAN : 0.01 * c;
    point.env_steps_per_s = NAN; /* not recorded */
    for (int q = 0; q < SG_Q_COUNT; q++) point.q[q] = (sg_statistic){NAN, NAN, NAN, NAN};
    point.q[SG_Q_DATALOADING] = (sg_statistic){0}; /* zero is a time, too */
    point.raw[SG_Q_UPDATE] = raw[0];
    point.raw[SG_Q_STEP] = raw[1];
    point.q[SG_Q_UPDATE] = sg_statistic_of(raw[0], ITERATIONS);
    point.q[SG_Q_STEP] = sg_statistic_of(raw[1], ITERATIONS);
    point.q[SG_Q_FORWARD] = (sg_statistic){0.2, 0.21, 0.19, 0.22};
    return point;
}

static inline sg_run_writer *open_writer(const char *path) {
    sg_run_writer *writer;
    sg_status status = {0};
    if (sg_run_writer_open(path, &machine, &writer, &status) != SG_OK) fail_msg("%s", status.text);
    return writer;
}

static inline void append(const char *path, int64_t batch) {
    sg_run_writer *writer = open_writer(path);
    sg_point point = make_point(batch);
    assert_int_equal(sg_run_writer_append(writer, &point, NULL), SG_OK);
    sg_run_writer_close(writer);
}

static inline sg_run read_run(const char *path) {
    sg_run run;
    sg_status status = {0};
    if (sg_run_file_read(path, &run, &status) != SG_OK) fail_msg("%s", status.text);
    return run;
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
