/* Damaged and hostile run files are refused by name, and left as they are. */
#include "formats/durable_file.h"
#include "sim/files/user_block.h"
#include "tests/sim/run_file_fixture.h"

#include <fcntl.h>

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

static void too_many_ranks(sg_h5tree *root, sg_h5tree *point) {
    (void)root;
    assert_int_equal(sg_h5tree_set_i64(point, "iterations", INT64_MAX, NULL), SG_OK);
    for (size_t i = 0; i < point->n_values; i++) /* no raw times, so that only the product is wrong */
        if (point->values[i].kind == SG_H5TREE_DOUBLES) point->values[i].name[0] = '_';
    assert_int_equal(sg_h5tree_set_i64(point->groups[0], "ranks", INT64_MAX, NULL), SG_OK);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        SCENE(test_damaged_files),
        SCENE(test_hostile_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
