/* Run files: what goes in comes out; what cannot be read back is not taken in. */
#include "sim/measure/point_fields.h"
#include "tests/sim/run_file_fixture.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_key), cmocka_unit_test(test_statistic),  SCENE(test_round_trip),
        SCENE(test_empty_run),      SCENE(test_no_field_is_forgotten), SCENE(test_optional_fields),
        SCENE(test_every_rank),     SCENE(test_append_replace_order),  SCENE(test_odd_descriptions),
        SCENE(test_refused_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
