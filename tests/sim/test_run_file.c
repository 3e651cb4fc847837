/* Run files: what goes in comes out, and nothing that happens to a writer loses a finished point. */
#include "sim/durable_file.h"
#include "sim/hdf5_image.h"
#include "sim/point_fields.h"
#include "sim/point_tree.h"
#include "sim/user_block.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct sg_scene {
    char folder[64], path[96];
} scene;

static int set_up(void **state) {
    scene *s = calloc(1, sizeof *s);
    if (!s) return -1;
    (void)snprintf(s->folder, sizeof s->folder, "/tmp/sg_run_XXXXXX");
    if (!mkdtemp(s->folder)) return -1;
    (void)snprintf(s->path, sizeof s->path, "%s/run.h5", s->folder);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
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
static sg_point make_point(int64_t batch) {
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

static sg_run_writer *open_writer(const char *path) {
    sg_run_writer *writer;
    sg_status status = {0};
    if (sg_run_writer_open(path, &machine, &writer, &status) != SG_OK) fail_msg("%s", status.text);
    return writer;
}

static void append(const char *path, int64_t batch) {
    sg_run_writer *writer = open_writer(path);
    sg_point point = make_point(batch);
    assert_int_equal(sg_run_writer_append(writer, &point, NULL), SG_OK);
    sg_run_writer_close(writer);
}

static sg_run read_run(const char *path) {
    sg_run run;
    sg_status status = {0};
    if (sg_run_file_read(path, &run, &status) != SG_OK) fail_msg("%s", status.text);
    return run;
}

/* ---- points and keys ---- */

static void test_key(void **state) {
    (void)state;
    sg_point a = make_point(4), b = make_point(4);
    assert_true(sg_point_key(&a.config) == sg_point_key(&b.config));
    b.config.batch = 5;
    assert_true(sg_point_key(&a.config) != sg_point_key(&b.config));
    b = a;
    b.config.settings[0] = 'C';
    assert_true(sg_point_key(&a.config) != sg_point_key(&b.config));
    b = a;
    b.config.seed = 0;
    assert_true(sg_point_key(&a.config) != sg_point_key(&b.config));
    /* what stands behind the end of a text is no part of it */
    b = a;
    b.config.policy[10] = 'x';
    assert_true(sg_point_key(&a.config) == sg_point_key(&b.config));
}

static void test_statistic(void **state) {
    (void)state;
    double values[101];
    for (int i = 0; i < 101; i++) values[i] = (i * 37) % 101;
    sg_statistic s = sg_statistic_of(values, 101);
    assert_true(s.median == 50 && s.mean == 50);
    /* exact binomial(101, 1/2): 2 P(count <= 40) = 0.0459, 2 P(count <= 41) = 0.0727 */
    assert_true(s.low == 40 && s.high == 60);
    s = sg_statistic_of(values, 1);
    assert_true(s.median == 0 && s.low == 0 && s.high == 0);
    double ten[10] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    s = sg_statistic_of(ten, 10);
    /* 2 P(binomial(10, 1/2) <= 1) = 0.0215 */
    assert_true(s.median == 4.5 && s.low == 1 && s.high == 8);
    double five[5] = {5, 1, 4, 2, 3};
    s = sg_statistic_of(five, 5);
    assert_true(s.median == 3 && s.low == 1 && s.high == 5);
}

/* ---- round trips ---- */

static void test_round_trip(void **state) {
    scene *s = *state;
    append(s->path, 4);
    sg_run run = read_run(s->path);
    sg_point point = make_point(4);
    assert_int_equal(run.n_points, 1);
    assert_memory_equal(&run.machine, &machine, sizeof machine);
    sg_point *got = &run.points[0];
    assert_true(got->key == sg_point_key(&point.config));
    for (int q = 0; q < SG_Q_COUNT; q++) {
        assert_memory_equal(&got->q[q], &point.q[q], sizeof point.q[q]);
        assert_int_equal(got->raw[q] != NULL, point.raw[q] != NULL);
        if (point.raw[q]) assert_memory_equal(got->raw[q], point.raw[q], ITERATIONS * sizeof(double));
    }
    sg_run_clear(&run);
}

static void end_texts(void *record, sg_fields fields) {
    for (size_t i = 0; i < fields.n; i++)
        if (fields.field[i].kind == SG_FIELD_TEXT)
            ((char *)record)[fields.field[i].offset + fields.field[i].bytes - 1] = 0;
}

/* Every byte of a point and a machine record is set: a field that nobody wrote to the file comes back as something else. */
static void test_no_field_is_forgotten(void **state) {
    scene *s = *state;
    sg_machine_record every_machine;
    sg_point every;
    memset(&every_machine, 'A', sizeof every_machine);
    memset(&every, 'A', sizeof every);
    end_texts(&every_machine, sg_machine_fields());
    end_texts(&every, sg_point_fields());
    end_texts(&every.config, sg_config_fields());
    every.disturbed = every.fits_rates = true;
    every.iterations = 2;
    every.config.ranks = 1;
    double raw[2] = {1, 2};
    for (int q = 0; q < SG_Q_COUNT; q++) every.raw[q] = raw;
    every.rank_update_s = every.op_s = raw;
    every.n_ops = 2;
    every.key = sg_point_key(&every.config);
    sg_run_writer *writer;
    sg_status status = {0};
    assert_int_equal(sg_run_writer_open(s->path, &every_machine, &writer, &status), SG_OK);
    if (sg_run_writer_append(writer, &every, &status) != SG_OK) fail_msg("%s", status.text);
    sg_run_writer_close(writer);
    sg_run run = read_run(s->path);
    assert_memory_equal(&run.machine, &every_machine, sizeof every_machine);
    sg_point got = run.points[0];
    for (int q = 0; q < SG_Q_COUNT; q++) assert_memory_equal(got.raw[q], raw, sizeof raw);
    assert_memory_equal(got.rank_update_s, raw, sizeof raw);
    assert_memory_equal(got.op_s, raw, sizeof raw);
    memcpy(got.raw, every.raw, sizeof got.raw);
    got.rank_update_s = got.op_s = raw;
    memset((char *)&got + offsetof(sg_point, fits_rates) + 1, 'A',
           offsetof(sg_point, load_average) - offsetof(sg_point, fits_rates) - 1); /* padding */
    assert_memory_equal(&got, &every, sizeof every);
    sg_run_clear(&run);
}

/* A point without a GPU leaves no trace of one in the file, which so reads as those from before there were such fields; a
 * field that is there must be of its kind. */
static void test_optional_fields(void **state) {
    scene *s = *state;
    append(s->path, 4);
    sg_h5tree *tree;
    assert_int_equal(sg_h5tree_load(s->path, &sg_run_format, &tree, NULL), SG_OK);
    sg_h5tree *point = tree->groups[1]->groups[0];
    for (size_t i = 0; i < point->n_values; i++) assert_int_not_equal(strncmp(point->values[i].name, "gpu", 3), 0);
    for (size_t i = 0; i < tree->groups[0]->n_values; i++)
        assert_int_not_equal(strncmp(tree->groups[0]->values[i].name, "gpu", 3), 0);
    sg_run run;
    const sg_gpu_conditions nothing = {0};
    assert_int_equal(sg_run_from_tree("x.h5", tree, &run, NULL), SG_OK);
    assert_memory_equal(&run.points[0].gpu, &nothing, sizeof nothing);
    sg_run_clear(&run);
    sg_status status = {0};
    assert_int_equal(sg_h5tree_set_text(point, "gpu_samples", "many", NULL), SG_OK);
    assert_int_equal(sg_run_from_tree("x.h5", tree, &run, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "gpu_samples"));
    assert_int_equal(sg_h5tree_set_i64(point, "gpu_samples", -1, NULL), SG_OK);
    assert_int_equal(sg_run_from_tree("x.h5", tree, &run, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "cannot be negative"));
    assert_int_equal(sg_h5tree_set_i64(point, "gpu_samples", 1, NULL), SG_OK);
    assert_int_equal(sg_h5tree_set_text(point, "gpu_power_w", "much", NULL), SG_OK);
    assert_int_equal(sg_run_from_tree("x.h5", tree, &run, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "gpu_power_w"));
    sg_h5tree_free(tree);
}

static void test_every_rank(void **state) {
    scene *s = *state;
    double all[3 * ITERATIONS];
    for (int i = 0; i < 3 * ITERATIONS; i++) all[i] = 1 + i;
    sg_point point = make_point(4);
    point.config.ranks = 3;
    point.rank_update_s = all;
    sg_run_writer *writer = open_writer(s->path);
    assert_int_equal(sg_run_writer_append(writer, &point, NULL), SG_OK);
    all[5] = INFINITY;
    assert_int_equal(sg_run_writer_append(writer, &point, NULL), SG_BAD_INPUT);
    sg_run_writer_close(writer);
    sg_run run = read_run(s->path);
    all[5] = 6;
    assert_memory_equal(run.points[0].rank_update_s, all, sizeof all);
    sg_run_clear(&run);
}

static void too_many_ranks(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    assert_int_equal(sg_h5tree_set_i64(point, "iterations", INT64_MAX, NULL), SG_OK);
    for (size_t i = 0; i < point->n_values; i++) /* no raw times, so that only the product is wrong */
        if (point->values[i].kind == SG_H5TREE_DOUBLES) point->values[i].name[0] = '_';
    assert_int_equal(sg_h5tree_set_i64(point->groups[0], "ranks", INT64_MAX, NULL), SG_OK);
}

static void test_append_replace_order(void **state) {
    scene *s = *state;
    static const int64_t batches[] = {8, 1, 4, 2};
    for (int i = 0; i < 4; i++) append(s->path, batches[i]);
    sg_run_writer *writer = open_writer(s->path);
    sg_point point = make_point(1);
    assert_true(sg_run_writer_has(writer, sg_point_key(&point.config)));
    point.warmup = 99;
    assert_int_equal(sg_run_writer_append(writer, &point, NULL), SG_OK);
    point.config.batch = 16;
    assert_false(sg_run_writer_has(writer, sg_point_key(&point.config)));
    sg_run_writer_close(writer);
    sg_run run = read_run(s->path);
    assert_int_equal(run.n_points, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(run.points[i].config.batch, batches[i]);
    assert_int_equal(run.points[1].warmup, 99);
    assert_int_equal(run.points[0].warmup, 3);
    sg_run_clear(&run);
}

static void test_empty_run(void **state) {
    scene *s = *state;
    sg_run_writer_close(open_writer(s->path));
    sg_run run = read_run(s->path);
    assert_int_equal(run.n_points, 0);
    sg_run_clear(&run);
}

/* A host's name in another encoding must not cost the measurement. */
static void test_odd_descriptions(void **state) {
    scene *s = *state;
    sg_machine_record odd = machine;
    (void)snprintf(odd.hostname, sizeof odd.hostname, "b\xe4r\x1b[31m");
    sg_run_writer *writer;
    assert_int_equal(sg_run_writer_open(s->path, &odd, &writer, NULL), SG_OK);
    sg_run_writer_close(writer);
    sg_run run = read_run(s->path);
    assert_string_equal(run.machine.hostname, "b?r?[31m");
    sg_run_clear(&run);
}

/* ---- what an append refuses ---- */

static void expect_refused(const char *path, const sg_point *point, const char *part) {
    sg_run_writer *writer = open_writer(path);
    sg_status status = {0};
    assert_int_equal(sg_run_writer_append(writer, point, &status), SG_BAD_INPUT);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
    sg_run_writer_close(writer);
    sg_run run = read_run(path);
    assert_int_equal(run.n_points, 1);
    assert_int_equal(run.points[0].warmup, 3);
    sg_run_clear(&run);
}

static void test_refused_points(void **state) {
    scene *s = *state;
    append(s->path, 4);
    sg_point point = make_point(4);
    point.samples_per_s = INFINITY;
    expect_refused(s->path, &point, "samples_per_s");
    point = make_point(4);
    point.q[SG_Q_STEP].high = INFINITY;
    expect_refused(s->path, &point, "step_s_high");
    point = make_point(4);
    point.iterations = -1;
    expect_refused(s->path, &point, "iterations");
    point = make_point(4);
    point.config.workers = -1;
    expect_refused(s->path, &point, "workers");
    point = make_point(4);
    point.config.policy[0] = '\xff';
    expect_refused(s->path, &point, "policy");
}

/* ---- what a reader refuses ---- */

static void write_bytes(const char *path, const void *bytes, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    (void)close(fd);
}

static void expect_unreadable(const char *path, const char *part) {
    sg_run run;
    sg_status status = {0};
    sg_run_writer *writer;
    assert_int_equal(sg_run_file_read(path, &run, &status), SG_BAD_INPUT);
    assert_int_equal(run.n_points, 0);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
    unsigned char *before, *after;
    size_t n_before, n_after;
    bool is_file = sg_file_read(path, 1u << 24, &before, &n_before, NULL) == SG_OK;
    assert_int_equal(sg_run_writer_open(path, &machine, &writer, &status), SG_BAD_INPUT);
    assert_null(writer);
    if (!is_file) return;
    assert_int_equal(sg_file_read(path, 1u << 24, &after, &n_after, NULL), SG_OK);
    assert_int_equal(n_before, n_after);
    assert_memory_equal(before, after, n_before);
    free(before);
    free(after);
}

static void test_damaged_files(void **state) {
    scene *s = *state;
    unsigned char *whole;
    size_t n;
    append(s->path, 4);
    assert_int_equal(sg_file_read(s->path, 1u << 24, &whole, &n, NULL), SG_OK);
    write_bytes(s->path, whole, n / 2);
    expect_unreadable(s->path, "truncated");
    whole[n - 100] ^= 4;
    write_bytes(s->path, whole, n);
    expect_unreadable(s->path, "altered");
    whole[n - 100] ^= 4;
    sg_file_format newer = sg_run_format;
    newer.version++;
    sg_user_block_make(&newer, whole + SG_USER_BLOCK_BYTES, n - SG_USER_BLOCK_BYTES, whole);
    write_bytes(s->path, whole, n);
    expect_unreadable(s->path, "newer");
    free(whole);
    write_bytes(s->path, "", 0);
    expect_unreadable(s->path, "empty");
    write_bytes(s->path, "step,loss\n1,2\n", 14);
    expect_unreadable(s->path, "is not a run file");
    expect_unreadable(s->folder, "is a folder");
    sg_run run;
    sg_status status = {0};
    assert_int_equal(sg_run_file_read("/nowhere/run.h5", &run, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "does not exist"));
}

/* A valid file whose content is not a run: each change of a sound tree must be refused by name. */
static void expect_bad_tree(const char *path, void (*change)(sg_h5tree *root, sg_h5tree *point), const char *part) {
    sg_h5tree *tree;
    assert_int_equal(sg_h5tree_load(path, &sg_run_format, &tree, NULL), SG_OK);
    sg_h5tree *points = tree->groups[1];
    assert_string_equal(points->name, "points");
    change(tree, points->groups[0]);
    sg_run run;
    sg_status status = {0};
    assert_int_equal(sg_run_from_tree("x.h5", tree, &run, &status), SG_BAD_INPUT);
    if (!strstr(status.text, part)) fail_msg("'%s' lacks '%s'", status.text, part);
    assert_null(run.points);
    sg_h5tree_free(tree);
}

static void no_points(sg_h5tree *root, sg_h5tree *point) {
    (void)point;
    sg_h5tree_remove(root, "points");
}
static void no_machine(sg_h5tree *root, sg_h5tree *point) {
    (void)point;
    sg_h5tree_remove(root, "machine");
}
static void no_config(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    sg_h5tree_remove(point, "config");
}
static void other_config(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    assert_int_equal(sg_h5tree_set_i64(point->groups[0], "batch", 5, NULL), SG_OK);
}
static void long_name(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    char name[SG_NAME_BYTES + 1];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    assert_int_equal(sg_h5tree_set_text(point->groups[0], "policy", name, NULL), SG_OK);
}
static void short_raw(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    assert_int_equal(sg_h5tree_set_i64(point, "iterations", ITERATIONS + 1, NULL), SG_OK);
}
static void negative_count(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    assert_int_equal(sg_h5tree_set_i64(point, "iterations", -1, NULL), SG_OK);
}
static void not_finite(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    assert_int_equal(sg_h5tree_set_f64(point, "update_s_low", -INFINITY, NULL), SG_OK);
}
static void not_finite_raw(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    double raw[ITERATIONS] = {INFINITY};
    assert_int_equal(sg_h5tree_set_doubles(point, "update_s", raw, ITERATIONS, NULL), SG_OK);
}
static void no_boolean(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    assert_int_equal(sg_h5tree_set_i64(point, "disturbed", 2, NULL), SG_OK);
}
static void other_type(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    assert_int_equal(sg_h5tree_set_text(point, "warmup", "three", NULL), SG_OK);
}

static void test_hostile_runs(void **state) {
    scene *s = *state;
    append(s->path, 4);
    expect_bad_tree(s->path, no_points, "'points' is missing");
    expect_bad_tree(s->path, no_machine, "'machine' is missing");
    expect_bad_tree(s->path, no_config, "lacks the group 'config'");
    expect_bad_tree(s->path, other_config, "another configuration than its name");
    expect_bad_tree(s->path, long_name, "'policy'");
    expect_bad_tree(s->path, short_raw, "40 values where 41 are expected");
    expect_bad_tree(s->path, negative_count, "cannot be negative");
    expect_bad_tree(s->path, too_many_ranks, "too many values");
    expect_bad_tree(s->path, not_finite, "'update_s_low'");
    expect_bad_tree(s->path, not_finite_raw, "'update_s'");
    expect_bad_tree(s->path, no_boolean, "neither 0 nor 1");
    expect_bad_tree(s->path, other_type, "lacks 'warmup'");
}

/* ---- writers that meet trouble ---- */

static void test_two_writers(void **state) {
    scene *s = *state;
    sg_run_writer *first = open_writer(s->path), *second;
    sg_status status = {0};
    assert_int_equal(sg_run_writer_open(s->path, &machine, &second, &status), SG_BAD_INPUT);
    assert_null(second);
    char part[48];
    (void)snprintf(part, sizeof part, "process %ld", (long)getpid());
    assert_non_null(strstr(status.text, part));
    sg_run run = read_run(s->path); /* readers are not in the way */
    sg_run_clear(&run);
    sg_run_writer_close(first);
    sg_run_writer_close(open_writer(s->path));
}

static void test_no_folder(void **state) {
    scene *s = *state;
    sg_run_writer *writer;
    sg_status status = {0};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/missing/run.h5", s->folder);
    assert_int_equal(sg_run_writer_open(path, &machine, &writer, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "folder does not exist"));
    assert_int_equal(sg_run_writer_open(s->folder, &machine, &writer, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "is a folder"));
}

/* The disk fills up during a run: the append fails, what was there stays, and it goes on once there is room. */
static void test_disk_full_then_room(void **state) {
    scene *s = *state;
    sg_run_writer *writer = open_writer(s->path);
    sg_point point = make_point(1);
    sg_status status = {0};
    assert_int_equal(sg_run_writer_append(writer, &point, &status), SG_OK);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 2048;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    point = make_point(2);
    assert_int_equal(sg_run_writer_append(writer, &point, &status), SG_MACHINE);
    assert_false(sg_run_writer_has(writer, sg_point_key(&point.config)));
    point = make_point(1);
    assert_int_equal(sg_run_writer_append(writer, &point, &status), SG_MACHINE);
    assert_true(sg_run_writer_has(writer, sg_point_key(&point.config)));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    sg_run run = read_run(s->path);
    assert_int_equal(run.n_points, 1);
    sg_run_clear(&run);
    point = make_point(2);
    assert_int_equal(sg_run_writer_append(writer, &point, &status), SG_OK);
    sg_run_writer_close(writer);
    run = read_run(s->path);
    assert_int_equal(run.n_points, 2);
    sg_run_clear(&run);
}

/* A really full file system where one may be mounted. */
static void test_full_tmpfs(void **state) {
    scene *s = *state;
    if (mount("none", s->folder, "tmpfs", 0, "size=64k") != 0) {
        print_message("no file system may be mounted here (%s)\n", strerror(errno));
        skip();
    }
    sg_run_writer *writer = NULL;
    sg_status status = {0};
    sg_code code = sg_run_writer_open(s->path, &machine, &writer, &status);
    int64_t written = 0;
    while (code == SG_OK && written < 1000) {
        sg_point point = make_point(written + 1);
        code = sg_run_writer_append(writer, &point, &status);
        written += code == SG_OK;
    }
    sg_run run;
    sg_code read = sg_run_file_read(s->path, &run, NULL);
    size_t n = run.n_points;
    sg_run_clear(&run);
    sg_run_writer_close(writer);
    assert_int_equal(umount(s->folder), 0);
    assert_int_equal(code, SG_MACHINE);
    assert_non_null(strstr(status.text, "disk is full"));
    assert_true(written > 0);
    assert_int_equal(read, SG_OK);
    assert_int_equal(n, written);
}

/* Appends point after point and tells each finished one through the pipe; never returns. */
static void write_until_killed(const char *path, int64_t batch, int out) {
    sg_run_writer *writer;
    if (sg_run_writer_open(path, &machine, &writer, NULL) != SG_OK) _exit(1);
    for (;; batch = batch % 24 + 1) {
        sg_point point = make_point(batch);
        if (sg_run_writer_append(writer, &point, NULL) != SG_OK) _exit(2);
        if (write(out, &batch, sizeof batch) != sizeof batch) _exit(3);
    }
}

/* The last finished batch that the killed writer told, and the file must hold it and all before it. */
static void check_after_kill(const char *path, int64_t most) {
    sg_run run = read_run(path);
    for (int64_t batch = 1; batch <= most; batch++) {
        bool found = false;
        for (size_t i = 0; i < run.n_points; i++) found = found || run.points[i].config.batch == batch;
        if (!found) fail_msg("point of batch %lld is lost", (long long)batch);
    }
    sg_run_clear(&run);
}

static void test_killed_writers(void **state) {
    scene *s = *state;
    int64_t most = 0, last = 0;
    sg_run_writer_close(open_writer(s->path));
    unsigned seed = 12345;
    for (int round = 0; round < 100; round++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) write_until_killed(s->path, last % 24 + 1, ends[1]);
        (void)close(ends[1]);
        int64_t batch;
        /* every other writer gets one point done, the rest are killed wherever they are */
        if (round % 2 && read(ends[0], &batch, sizeof batch) == sizeof batch) {
            last = batch;
            if (batch > most) most = batch;
        }
        seed = seed * 1103515245u + 12345u;
        struct timespec wait = {0, (long)(seed >> 8) % 30000000};
        (void)nanosleep(&wait, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how)); /* it had not given up by itself */
        while (read(ends[0], &batch, sizeof batch) == sizeof batch) {
            last = batch;
            if (batch > most) most = batch;
        }
        (void)close(ends[0]);
        check_after_kill(s->path, most);
    }
    assert_int_equal(most, 24); /* kills did not stop the work from going on */
}

int main(void) {
#define SCENE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_statistic),
        SCENE(test_round_trip),
        SCENE(test_empty_run),
        SCENE(test_no_field_is_forgotten),
        SCENE(test_optional_fields),
        SCENE(test_every_rank),
        SCENE(test_append_replace_order),
        SCENE(test_odd_descriptions),
        SCENE(test_refused_points),
        SCENE(test_damaged_files),
        SCENE(test_hostile_runs),
        SCENE(test_two_writers),
        SCENE(test_no_folder),
        SCENE(test_disk_full_then_room),
        SCENE(test_full_tmpfs),
        SCENE(test_killed_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
