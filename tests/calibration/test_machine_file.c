/* Data sheets, trees of YAML and JSON, fitted machine files: what is read, and what each kind of bad input says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calibration/config_dir.h"
#include "calibration/machine/framework_file.h"
#include "calibration/machine/machine_file.h"
#include "calibration/machine/machine_group.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

static void assert_contains(const char *text, const char *part) {
    if (strstr(text, part)) return;
    print_error("\"%s\" does not contain \"%s\"\n", text, part);
    fail();
}

/* ---- trees --------------------------------------------------------------------------------------------------------- */

static void yaml_fails(const char *text, const char *says) {
    sg_tree *tree;
    sg_status status = {0};
    assert_int_equal(sg_tree_parse_yaml("x.yaml", text, strlen(text), &tree, &status), SG_BAD_INPUT);
    assert_null(tree);
    assert_contains(status.text, says);
}

static void test_yaml(void **state) {
    (void)state;
    const char *text = "a: 1\nb: {c: [2, 3.5, 'x'], d: ~}\n";
    sg_tree *tree;
    assert_int_equal(sg_tree_parse_yaml("x.yaml", text, strlen(text), &tree, NULL), SG_OK);
    const sg_node *root = sg_tree_root(tree), *b = sg_node_get(root, "b"), *c = sg_node_get(b, "c");
    assert_int_equal(c->kind, SG_NODE_LIST);
    assert_int_equal(c->n_children, 3);
    assert_string_equal(c->child->next->text, "3.5");
    assert_true(c->child->next->next->text_only);
    assert_int_equal(c->line, 2);
    assert_int_equal(sg_node_get(b, "d")->kind, SG_NODE_NULL);
    sg_status status;
    double real;
    int64_t whole;
    assert_int_equal(sg_node_int(tree, root, "a", 0, 9, &whole, &status), SG_OK);
    assert_int_equal(whole, 1);
    assert_int_equal(sg_node_int(tree, root, "a", 2, 9, &whole, &status), SG_BAD_INPUT);
    assert_contains(status.text, "x.yaml:1:4: a: 1 is outside of 2 to 9");
    assert_int_equal(sg_node_real(tree, root, "b", 0, 1, &real, &status), SG_BAD_INPUT);
    assert_contains(status.text, "x.yaml:2:4: b: a single value");
    assert_int_equal(sg_node_real(tree, b, "zzz", 0, 1, &real, &status), SG_BAD_INPUT);
    assert_contains(status.text, "\"zzz\" is missing");
    const char *const known[] = {"a", "bb"};
    assert_int_equal(sg_node_known(tree, root, known, 2, &status), SG_BAD_INPUT);
    assert_contains(status.text, "x.yaml:2:4: b: unknown key");
    sg_tree_free(tree);

    yaml_fails("a: [1, 2\nb: 3", "x.yaml:2:");
    yaml_fails("a: 1\na: 2\n", "x.yaml:2:1: this key stands here twice");
    yaml_fails("a: &x 1\nb: *x\n", "anchors");
    yaml_fails("a: 1\n---\nb: 2\n", "x.yaml:3:1: a second document");
    yaml_fails("{[1]: 2}", "a key must be plain text");
    yaml_fails("\x01", "x.yaml");
    yaml_fails("a: \xff\xfe", "x.yaml");
    char deep[400];
    memset(deep, '[', 200);
    deep[200] = 0;
    yaml_fails(deep, "x.yaml:1:");
    assert_int_equal(sg_tree_parse_yaml("x.yaml", "", 0, &tree, NULL), SG_OK);
    assert_int_equal(sg_tree_root(tree)->kind, SG_NODE_MAP);
    sg_tree_free(tree);
}

static void test_json(void **state) {
    (void)state;
    const char *text = "{\"n\": 12, \"x\": 0.1, \"t\": \"12\", \"ok\": true, \"list\": [1, {\"deep\": null}]}";
    sg_tree *tree;
    sg_status status;
    assert_int_equal(sg_tree_parse_json("x.json", text, strlen(text), &tree, NULL), SG_OK);
    const sg_node *root = sg_tree_root(tree);
    int64_t n;
    double x;
    bool ok;
    assert_int_equal(sg_node_int(tree, root, "n", 0, 99, &n, &status), SG_OK);
    assert_int_equal(sg_node_real(tree, root, "x", 0, 1, &x, &status), SG_OK);
    assert_true(n == 12 && x == 0.1);
    assert_int_equal(sg_node_bool(tree, root, "ok", &ok, &status), SG_OK);
    assert_true(ok);
    assert_int_equal(sg_node_int(tree, root, "t", 0, 99, &n, &status), SG_BAD_INPUT); /* a string is no number */
    assert_contains(status.text, "x.json: t:");
    const sg_node *deep = sg_node_get(root, "list")->child->next;
    assert_int_equal(sg_node_fail(tree, sg_node_get(deep, "deep"), &status, "no"), SG_BAD_INPUT);
    assert_contains(status.text, "x.json: list[1].deep: no");
    sg_tree_free(tree);
    const char *bad = "{\"a\": 1,\n \"b\": }";
    assert_int_equal(sg_tree_parse_json("x.json", bad, strlen(bad), &tree, &status), SG_BAD_INPUT);
    assert_contains(status.text, "x.json:2:");
    bad = "{\"a\": 1, \"a\": 2}";
    assert_int_equal(sg_tree_parse_json("x.json", bad, strlen(bad), &tree, &status), SG_BAD_INPUT);
    assert_int_equal(sg_tree_read("/nowhere/x.yaml", &tree, &status), SG_BAD_INPUT);
    assert_contains(status.text, "/nowhere/x.yaml");
    assert_int_equal(sg_tree_read("/", &tree, &status), SG_BAD_INPUT);
}

/* ---- data sheets --------------------------------------------------------------------------------------------------- */

/* Every sheet that ships loads, says where each value is from, and can price fp32, tf32, bf16 and fp16 training on one
 * rank. */
static void test_all_sheets(void **state) {
    (void)state;
    sg_names names;
    sg_status status;
    assert_int_equal(sg_config_list(CONFIGS, "machines", ".yaml", &names, &status), SG_OK);
    assert_true(names.count >= 45);
    for (size_t i = 0; i < names.count; i++) {
        sg_machine m;
        sg_framework_numbers f;
        if (sg_machine_load(names.name[i], CONFIGS, &m, &status)) fail_msg("%s", status.text);
        assert_string_equal(m.name, names.name[i]);
        assert_true(m.title[0] != 0);
        assert_int_equal(sg_framework_load("pytorch-eager", m.device_class, CONFIGS, &f, &status), SG_OK);
        sg_framework_apply(&f, &m);
        for (int p = 0; p < SG_M_COUNT; p++) {
            bool optional =
                p == SG_M_HOST_SEGMENT_S || (p >= SG_M_COLLECTIVE_BUSBW && p <= SG_M_NETWORK_LATENCY_S) ||
                p == SG_M_COPY_BANDWIDTH || p == SG_M_COLLECTIVE_STRETCH ||
                (p >= SG_M_ELEMENTWISE_TWO && p <= SG_M_ATTENTION_MASKED && strcmp(m.device_class, "cuda") != 0);
            bool factor = (p >= SG_M_FACTOR_GEMM && p <= SG_M_FACTOR_LOW_PRECISION) || p == SG_M_STEP_STRETCH;
            bool of_tiles = p >= SG_M_EFF_PRODUCT_TF32 && p <= SG_M_EVENT_PRODUCT_S; /* NVIDIA's cards have them */
            optional = optional || p == SG_M_HOST_SEGMENT_S || p == SG_M_STEP_STRETCH || p == SG_M_SPLIT_K_S ||
                       (of_tiles && !m.tiles[SG_TILES_LINEAR].n);
            if (!optional && !(m.p[p].value > 0)) fail_msg("%s lacks %s", m.name, sg_machine_key((sg_machine_id)p));
            if (m.p[p].value > 0 && !factor && !m.p[p].source[0])
                fail_msg("%s: %s has no source", m.name, sg_machine_key((sg_machine_id)p));
        }
        assert_int_equal(m.tiles[SG_TILES_LINEAR].n > 0, strcmp(m.device_class, "cuda") == 0);
        /* a share of a peak is a share; rates are ordered as silicon has them */
        for (int p = SG_M_EFF_GEMM; p <= SG_M_EFF_OPTIMIZER; p++) assert_true(m.p[p].value < 1);
        assert_true(m.p[SG_M_PEAK_TF32].value >= 0.9 * m.p[SG_M_PEAK_F32].value);
        if (m.bf16) assert_true(m.p[SG_M_PEAK_BF16].value >= m.p[SG_M_PEAK_TF32].value);
        if (!m.bf16 && isfinite(m.p[SG_M_PEAK_BF16].value))
            assert_true(m.p[SG_M_PEAK_BF16].value < m.p[SG_M_PEAK_F32].value);
        if (strcmp(m.name, "cpu") != 0) assert_true(m.memory_bytes > (uint64_t)5 << 30);
        sg_machine_clear(&m);
    }
    sg_names_clear(&names);
}

static int capability_lanes(int capability) {
    /* fp32 results per clock of one SM by compute capability (CUDA C++ Programming Guide, arithmetic instructions) */
    switch (capability) {
    case 60:
    case 70:
    case 75:
    case 80: return 64;
    default: return 128;
    }
}

/* What physics takes from a sheet is there and fits together: lanes and clock make the fp32 rate, dense tensor rates lie
 * within what such cores form per clock, caches and boards are of this world. */
static void test_silicon(void **state) {
    (void)state;
    sg_names names;
    assert_int_equal(sg_config_list(CONFIGS, "machines", ".yaml", &names, NULL), SG_OK);
    for (size_t i = 0; i < names.count; i++) {
        sg_machine m;
        sg_status status;
        if (sg_machine_load(names.name[i], CONFIGS, &m, &status)) fail_msg("%s", status.text);
        if (strcmp(m.device_class, "cuda") == 0) {
            bool amd = strncmp(m.title, "AMD", 3) == 0;
            if (!m.units || !m.fp32_lanes || !m.memory_type[0] || !(m.board_w > 0) || (!m.capability && !amd))
                fail_msg("%s lacks a fact of its silicon", m.name);
            if (!amd) assert_int_equal(m.fp32_lanes, capability_lanes(m.capability));
            double clock_hz = m.p[SG_M_PEAK_F32].value / (2.0 * m.fp32_lanes * m.units);
            if (!(clock_hz > 0.85e9 && clock_hz < 2.75e9)) fail_msg("%s: clock %.2f GHz", m.name, clock_hz / 1e9);
            /* dense fused multiply-adds per SM and clock: 8,192 FLOP on Blackwell data centre chips at most */
            double per_clock = m.p[SG_M_PEAK_F16].value / (clock_hz * m.units);
            if (per_clock > 8500) fail_msg("%s: %.0f FLOP per SM and clock are no dense rate", m.name, per_clock);
            if (m.l2_bytes > 0 && !(m.l2_bytes >= 1 << 20 && m.l2_bytes <= 256 << 20))
                fail_msg("%s: cache of %.0f bytes", m.name, m.l2_bytes);
            assert_true(m.board_w >= 15 && m.board_w <= 1200);
            double gb_s = m.p[SG_M_BANDWIDTH].value / 1e9;
            bool hbm = strncmp(m.memory_type, "hbm", 3) == 0;
            if (hbm ? gb_s < 700 : gb_s > 1900) fail_msg("%s: %.0f GB/s with %s", m.name, gb_s, m.memory_type);
        }
        /* GeForce: fp32 accumulation at half rate, four times the fp32 lanes in tensor cores, tf32 no faster than fp32 */
        if (strstr(m.title, "GeForce RTX") && m.bf16) {
            double ratio = m.p[SG_M_PEAK_BF16].value / m.p[SG_M_PEAK_F32].value;
            if (!(ratio > 1.9 && ratio < 2.1)) fail_msg("%s: bf16 %.2f x fp32", m.name, ratio);
            assert_true(m.p[SG_M_PEAK_TF32].value < 1.1 * m.p[SG_M_PEAK_F32].value);
        }
        sg_machine_clear(&m);
    }
    sg_names_clear(&names);
}

/* Usable memory lies below the advertised one: the driver's figure, not "GB". */
static void test_memory_is_the_drivers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double advertised_gib;
    } ecc[] = {{"t4", 16}, {"l4", 24}, {"a10", 24}, {"a10g", 24}, {"l40s", 48}, {"a40", 48}, {"p4", 8}};
    for (size_t i = 0; i < sizeof ecc / sizeof *ecc; i++) { /* error correction on GDDR takes a sixteenth */
        sg_machine m;
        assert_int_equal(sg_machine_load(ecc[i].name, CONFIGS, &m, NULL), SG_OK);
        double share = (double)m.memory_bytes / 0x1p30 / ecc[i].advertised_gib;
        if (!(share > 0.92 && share < 0.95)) fail_msg("%s: %.3f of the advertised memory", m.name, share);
        sg_machine_clear(&m);
    }
}

/* Traps of published tables: dense not sparse, fp32 accumulation, what the driver reports. */
static void test_known_values(void **state) {
    (void)state;
    static const struct {
        const char *name;
        double bf16, tf32, bandwidth;
        double memory_mib;
    } known[] = {{"rtx-4090", 165.2e12, 82.6e12, 1008e9, 24564},
                 {"rtx-3090", 71.2e12, 35.6e12, 936.2e9, 24576},
                 {"h100-sxm", 989e12, 494.5e12, 3352e9, 81559},
                 {"a100-sxm-80gb", 312e12, 156e12, 2039e9, 81920},
                 {"l40s", 362e12, 183e12, 864e9, 46068},
                 {"h200", 989e12, 494.5e12, 4800e9, 143771},
                 {"l4", 121e12, 60e12, 300e9, 23034}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sg_machine m;
        assert_int_equal(sg_machine_load(known[i].name, CONFIGS, &m, NULL), SG_OK);
        assert_true(m.p[SG_M_PEAK_BF16].value == known[i].bf16);
        assert_true(m.p[SG_M_PEAK_TF32].value == known[i].tf32);
        assert_true(m.p[SG_M_BANDWIDTH].value == known[i].bandwidth);
        assert_true((double)m.memory_bytes == known[i].memory_mib * 0x1p20);
        assert_int_equal(m.p[SG_M_EFF_GEMM].evidence, SG_EVIDENCE_DATA_SHEET);
        sg_machine_clear(&m);
    }
    sg_machine t4;
    assert_int_equal(sg_machine_load("t4", CONFIGS, &t4, NULL), SG_OK);
    assert_false(t4.bf16 || t4.tf32);
    assert_true(t4.p[SG_M_PEAK_TF32].value == t4.p[SG_M_PEAK_F32].value);
    sg_machine_clear(&t4);
}

static char *scratch(const char *ending, const char *content) {
    char *path = NULL;
    if (asprintf(&path, "/tmp/stepgauge-machine-%d%s", (int)getpid(), ending) < 0) fail();
    if (content) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        assert_true(fputs(content, f) >= 0);
        assert_int_equal(fclose(f), 0);
    }
    return path;
}

static void sheet_fails(const char *content, const char *says) {
    char *path = scratch(".yaml", content);
    sg_machine m;
    sg_status status = {0};
    assert_int_equal(sg_machine_load(path, CONFIGS, &m, &status), SG_BAD_INPUT);
    assert_contains(status.text, says);
    assert_contains(status.text, "stepgauge-machine");
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
    assert_contains(status.text, "did you mean \"rtx-4090\"");
    assert_contains(status.text, "a100-sxm-80gb");
    assert_int_equal(sg_machine_load("a100", CONFIGS, &m, &status), SG_BAD_INPUT);
    assert_contains(status.text, "one of a100-pcie-40gb, a100-pcie-80gb, a100-sxm-40gb, a100-sxm-80gb?");
    assert_int_equal(sg_machine_load("RTX 4090", CONFIGS, &m, &status), SG_OK); /* case and separators do not count */
    assert_string_equal(m.name, "rtx-4090");
    sg_machine_clear(&m);
    assert_int_equal(sg_machine_load("", CONFIGS, &m, &status), SG_BAD_INPUT);
    assert_int_equal(sg_machine_load("no/such.yaml", CONFIGS, &m, &status), SG_BAD_INPUT);
    assert_contains(status.text, "no/such.yaml");
    assert_int_equal(sg_machine_load("t4", "/nowhere", &m, &status), SG_BAD_INPUT);
    assert_contains(status.text, "/nowhere");
}

/* ---- frameworks ---------------------------------------------------------------------------------------------------- */

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
    assert_contains(status.text, "pytorch-eager");
}

/* ---- configuration folder ------------------------------------------------------------------------------------------ */

static void test_config_dir(void **state) {
    (void)state;
    char path[SG_PATH_BYTES];
    sg_status status;
    assert_int_equal(sg_config_dir(CONFIGS, path, sizeof path, &status), SG_OK);
    assert_string_equal(path, CONFIGS);
    assert_int_equal(setenv("STEPGAUGE_CONFIGS", "/nowhere/at/all", 1), 0);
    assert_int_equal(sg_config_dir(NULL, path, sizeof path, &status), SG_BAD_INPUT);
    assert_contains(status.text, "STEPGAUGE_CONFIGS = /nowhere/at/all");
    assert_int_equal(setenv("STEPGAUGE_CONFIGS", CONFIGS, 1), 0);
    assert_int_equal(sg_config_dir(NULL, path, sizeof path, &status), SG_OK);
    assert_int_equal(unsetenv("STEPGAUGE_CONFIGS"), 0);
    if (strncmp(SG_BINARY_DIR, SG_SOURCE_DIR, strlen(SG_SOURCE_DIR)) == 0) { /* a build inside the source tree */
        assert_int_equal(sg_config_dir(NULL, path, sizeof path, &status), SG_OK);
        assert_contains(path, "/configs");
    }
    char tiny[4];
    assert_int_equal(sg_config_dir(CONFIGS, tiny, sizeof tiny, &status), SG_BAD_INPUT);
}

/* ---- machine files ------------------------------------------------------------------------------------------------- */

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
    char *path = scratch(".h5", NULL);
    if (sg_machine_save(path, &m, &status)) fail_msg("%s", status.text);
    if (sg_machine_load(path, CONFIGS, &back, &status)) fail_msg("%s", status.text);
    assert_same(&m, &back);
    sg_machine_clear(&back);
    assert_int_equal(truncate(path, 700), 0);
    assert_int_equal(sg_machine_load(path, CONFIGS, &back, &status), SG_BAD_INPUT);
    assert_contains(status.text, path);
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
    assert_contains(status.text, says);
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
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_all_sheets),
        cmocka_unit_test(test_silicon),
        cmocka_unit_test(test_memory_is_the_drivers),
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_bad_sheets),
        cmocka_unit_test(test_frameworks),
        cmocka_unit_test(test_config_dir),
        cmocka_unit_test(test_machine_file),
        cmocka_unit_test(test_bad_groups),
        cmocka_unit_test(test_other_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
