/* The data sheets that ship: complete, sourced, and in line with silicon and published figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "calibration/config/config_dir.h"
#include "calibration/machine/framework_file.h"
#include "calibration/machine/machine_file.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

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
                (p >= SG_M_SAMPLE_S && p <= SG_M_HANDOVER_BANDWIDTH) || /* loader_law.c has what holds without */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_sheets),
        cmocka_unit_test(test_silicon),
        cmocka_unit_test(test_memory_is_the_drivers),
        cmocka_unit_test(test_known_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
