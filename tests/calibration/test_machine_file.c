/* Fitted machine files: what is written is read back; contradictory groups and other versions. */
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

#include "calibration/machine/machine_file.h"
#include "calibration/machine/machine_group.h"
#include "tests/support/contains.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

static void fill(sg_machine *m) {
    assert_int_equal(sg_machine_load("l4", CONFIGS, m, NULL), SG_OK);
    (void)snprintf(m->fitted_from, sizeof m->fitted_from, "run.h5, 2026-11-30");
    m->vcpus = 12;
    m->covariance = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof(double));
    assert_non_null(m->covariance);
    for (int i = 0; i < SG_M_COUNT; i++) m->covariance[i * SG_M_COUNT + i] = 0.001 * (i + 1);
    m->covariance[3] = m->covariance[3 * SG_M_COUNT] = -2e-4;
    m->tiles[SG_TILES_LINEAR] = (sg_tiles){2, {{128, 64}, {32, 128}}};
    m->p[SG_M_EFF_CONV].evidence = SG_EVIDENCE_CALIBRATED;
}

static void assert_same(const sg_machine *a, const sg_machine *b) {
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->title, b->title);
    assert_string_equal(a->fitted_from, b->fitted_from);
    assert_true(a->bf16 == b->bf16 && a->fp16 == b->fp16 && a->tf32 == b->tf32 && a->units == b->units);
    assert_true(a->caching_allocator == b->caching_allocator && a->memory_bytes == b->memory_bytes);
    assert_true(a->vcpus == b->vcpus);
    for (int i = 0; i < SG_M_COUNT; i++) {
        const sg_machine_parameter *p = &a->p[i], *q = &b->p[i];
        assert_true(p->value == q->value || (isnan(p->value) && isnan(q->value)));
        assert_true(p->log_sd == q->log_sd && p->evidence == q->evidence && p->group == q->group);
        assert_string_equal(p->source, q->source);
    }
    assert_memory_equal(a->tiles, b->tiles, sizeof a->tiles);
    assert_memory_equal(a->covariance, b->covariance, sizeof(double) * SG_M_COUNT * SG_M_COUNT);
}

static void test_machine_file(void **state) {
    (void)state;
    sg_machine m, back;
    sg_status status;
    fill(&m);
    char *path = NULL;
    if (asprintf(&path, "/tmp/stepgauge-machine-%d.h5", (int)getpid()) < 0) fail();
    if (sg_machine_save(path, &m, &status)) fail_msg("%s", status.text);
    if (sg_machine_load(path, CONFIGS, &back, &status)) fail_msg("%s", status.text);
    assert_same(&m, &back);
    sg_machine_clear(&back);
    assert_int_equal(truncate(path, 700), 0);
    assert_int_equal(sg_machine_load(path, CONFIGS, &back, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, path);
    (void)unlink(path);
    assert_int_equal(sg_machine_load(path, CONFIGS, &back, &status), SG_BAD_INPUT);
    free(path);
    sg_machine_clear(&m);
}

/* A group whose fields contradict each other is refused, whatever its checksum says. */
static void group_fails(void (*spoil)(sg_h5tree *group), const char *says) {
    sg_machine m, back;
    sg_status status;
    fill(&m);
    sg_h5tree *tree = sg_h5tree_new(&status), *group;
    assert_non_null(tree);
    assert_int_equal(sg_machine_to_group(&m, tree, &status), SG_OK);
    assert_int_equal(sg_h5tree_group(tree, "machine", &group, &status), SG_OK);
    spoil(group);
    assert_int_equal(sg_machine_from_group(tree, &back, &status), SG_BAD_INPUT);
    sg_assert_contains(status.text, says);
    sg_h5tree_free(tree);
    sg_machine_clear(&m);
}

static void short_column(sg_h5tree *g) {
    (void)sg_h5tree_set_doubles(g, "value", (const double[]){1, 2}, 2, NULL);
}
static void negative_value(sg_h5tree *g) {
    double v[SG_M_COUNT];
    for (int i = 0; i < SG_M_COUNT; i++) v[i] = -1;
    (void)sg_h5tree_set_doubles(g, "value", v, SG_M_COUNT, NULL);
}
static void infinite_sd(sg_h5tree *g) {
    double v[SG_M_COUNT];
    for (int i = 0; i < SG_M_COUNT; i++) v[i] = INFINITY;
    (void)sg_h5tree_set_doubles(g, "log_sd", v, SG_M_COUNT, NULL);
}
static void bad_evidence(sg_h5tree *g) {
    double v[SG_M_COUNT];
    for (int i = 0; i < SG_M_COUNT; i++) v[i] = 17;
    (void)sg_h5tree_set_doubles(g, "evidence", v, SG_M_COUNT, NULL);
}
static void skewed(sg_h5tree *g) {
    double *v = calloc((size_t)SG_M_COUNT * SG_M_COUNT, sizeof *v);
    assert_non_null(v);
    v[1] = 0.5;
    (void)sg_h5tree_set_doubles(g, "covariance", v, (size_t)SG_M_COUNT * SG_M_COUNT, NULL);
    free(v);
}
static void wrong_class(sg_h5tree *g) {
    (void)sg_h5tree_set_text(g, "device_class", "tpu", NULL);
}
static void long_name(sg_h5tree *g) {
    char text[200];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    (void)sg_h5tree_set_text(g, "name", text, NULL);
}
static void flag_of_two(sg_h5tree *g) {
    (void)sg_h5tree_set_i64(g, "bf16", 2, NULL);
}
static void fewer_sources(sg_h5tree *g) {
    (void)sg_h5tree_set_text(g, "sources", "one", NULL);
}
static void twice(sg_h5tree *g) {
    (void)sg_h5tree_set_text(g, "parameters", "eff_gemm\neff_gemm", NULL);
}

static void test_bad_groups(void **state) {
    (void)state;
    group_fails(short_column, "value holds 2 values");
    group_fails(negative_value, "is no positive number");
    group_fails(infinite_sd, "log_sd");
    group_fails(bad_evidence, "evidence");
    group_fails(skewed, "covariance");
    group_fails(wrong_class, "device_class");
    group_fails(long_name, "name");
    group_fails(flag_of_two, "bf16");
    group_fails(fewer_sources, "differ in number");
    group_fails(twice, "stands twice");
}

/* A file of another version: parameters unknown here are dropped, those it lacks stay unknown. */
static void test_other_version(void **state) {
    (void)state;
    sg_machine m, back;
    sg_status status;
    fill(&m);
    free(m.covariance);
    m.covariance = NULL;
    sg_h5tree *tree = sg_h5tree_new(&status), *g;
    assert_int_equal(sg_machine_to_group(&m, tree, &status), SG_OK);
    assert_int_equal(sg_h5tree_group(tree, "machine", &g, &status), SG_OK);
    assert_int_equal(sg_h5tree_set_text(g, "parameters", "warp_factor\neff_gemm", &status), SG_OK);
    assert_int_equal(sg_h5tree_set_text(g, "sources", "a\nb", &status), SG_OK);
    const double value[2] = {9, 0.5}, zero[2] = {0, 0};
    assert_int_equal(sg_h5tree_set_doubles(g, "value", value, 2, &status), SG_OK);
    assert_int_equal(sg_h5tree_set_doubles(g, "log_sd", zero, 2, &status), SG_OK);
    assert_int_equal(sg_h5tree_set_doubles(g, "evidence", zero, 2, &status), SG_OK);
    assert_int_equal(sg_h5tree_set_doubles(g, "group", zero, 2, &status), SG_OK);
    if (sg_machine_from_group(tree, &back, &status)) fail_msg("%s", status.text);
    assert_true(back.p[SG_M_EFF_GEMM].value == 0.5);
    assert_string_equal(back.p[SG_M_EFF_GEMM].source, "b");
    assert_true(isnan(back.p[SG_M_BANDWIDTH].value));
    sg_h5tree_free(tree);
    sg_machine_clear(&back);
    sg_machine_clear(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine_file),
        cmocka_unit_test(test_bad_groups),
        cmocka_unit_test(test_other_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
