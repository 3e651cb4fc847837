/* Products by tiles: waves, divided contractions, sustained rates and clocks; derivatives against differences. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/virtual/product.h"
#include "tests/support/near.h"

/* 100 SMs of 100 GFLOP/s; tiles of 128 x 128; nothing but compute costs anything. */
static sg_machine plain_machine(void) {
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.name, sizeof m.name, "plain");
    (void)snprintf(m.device_class, sizeof m.device_class, "cuda");
    m.units = 100;
    m.capability = 80;
    m.fp32_lanes = 64;
    m.tf32 = m.bf16 = m.fp16 = true;
    m.tiles[SG_TILES_LINEAR] = m.tiles[SG_TILES_BATCHED] = (sg_tiles){1, {{128, 128}}};
    static const struct {
        sg_machine_id id;
        double value;
    } values[] = {
        {SG_M_PEAK_F32, 1e13},        {SG_M_PEAK_TF32, 8e13},        {SG_M_PEAK_BF16, 16e13},
        {SG_M_PEAK_F16, 16e13},       {SG_M_BANDWIDTH, 1e18},        {SG_M_EFF_GEMM, 0.9},
        {SG_M_EFF_BMM, 0.8},          {SG_M_EFF_PRODUCT_TF32, 0.7},  {SG_M_EFF_PRODUCT_BF16, 0.6},
        {SG_M_EFF_PRODUCT_F16, 0.5},  {SG_M_TILE_POWER, 1},          {SG_M_TILE_FILL, 1e-6},
        {SG_M_WAVE_SHARE, 1},         {SG_M_PRODUCT_JOIN, 8},        {SG_M_PRODUCT_TRAFFIC_SHARE, 0.8},
        {SG_M_DRIFT_LENGTH, 1e15},    {SG_M_DRIFT_SHARE, 0.5},       {SG_M_DRIFT_WAVES, 0.3},
        {SG_M_CLOCK_FADE, 1e-9},      {SG_M_CLOCK_FADE_BMM, 1e-9},   {SG_M_CLOCK_FADE_S, 0.02},
        {SG_M_UNALIGNED, 1},          {SG_M_EVENT_PRODUCT_S, 20e-6}, {SG_M_KERNEL_START_S, 3e-6},
        {SG_M_FLOP_ENERGY_J, 15e-12}, {SG_M_NODE_GAIN, 2},           {SG_M_TENSOR_FLOP_ENERGY_J, 2e-12},
        {SG_M_LANE_SHARE, 0.8},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) m.p[values[i].id].value = values[i].value;
    return m;
}

/* Everything counts: several tiles, traffic, drift, power, fading, divided contractions. */
static sg_machine rich_machine(void) {
    sg_machine m = plain_machine();
    sg_tiles tiles = {4, {{128, 128}, {64, 128}, {64, 64}, {128, 32}}};
    m.tiles[SG_TILES_LINEAR] = m.tiles[SG_TILES_BATCHED] = tiles;
    m.capability = 89;
    m.fp32_lanes = 128;
    m.board_w = 70;
    m.l2_bytes = 6e6;
    m.p[SG_M_BANDWIDTH].value = 6e11;
    m.p[SG_M_TILE_FILL].value = 12;
    m.p[SG_M_WAVE_SHARE].value = 0.8;
    m.p[SG_M_PRODUCT_JOIN].value = 2.5;
    m.p[SG_M_DRIFT_LENGTH].value = 2000;
    m.p[SG_M_CLOCK_FADE].value = 0.1;
    m.p[SG_M_CLOCK_FADE_BMM].value = 0.3;
    m.p[SG_M_UNALIGNED].value = 1.2;
    m.p[SG_M_SPLIT_K_S].value = 20e-6;
    return m;
}

static sg_priced price(const sg_machine *m, const sg_product *p, sg_product_place place) {
    sg_priced priced;
    sg_status status;
    if (sg_price_tiles(m, p, place, &priced, &status)) fail_msg("%s", status.text);
    return priced;
}

static double linear_s(const sg_machine *m, double rows, double k, double columns) {
    sg_product p = sg_product_f32(SG_TILES_LINEAR, 1, rows, columns, k);
    return price(m, &p, SG_PRODUCT_IN_STEP).seconds - m->p[SG_M_KERNEL_START_S].value;
}

/* One wave costs what one tile costs; one tile more begins the next wave. */
static void test_waves(void **state) {
    (void)state;
    sg_machine m = plain_machine();
    double tile = 2.0 * 128 * 128 * 1024 / (1e11 * 0.9);
    assert_near(linear_s(&m, 128, 1024, 128) / tile, 1, 1e-6);
    assert_near(linear_s(&m, 1280, 1024, 1280) / tile, 1, 1e-6);
    assert_near(linear_s(&m, 1, 1024, 1) / tile, 1, 1e-6);
    assert_near(linear_s(&m, 1281, 1024, 1280) / tile, 2, 1e-6);
    assert_near(linear_s(&m, 128 * 20, 1024, 1280) / tile, 2, 1e-6);
    m.p[SG_M_WAVE_SHARE].value = 0.25; /* three quarters of the last wave's idle time are used */
    assert_near(linear_s(&m, 1281, 1024, 1280) / tile, 0.25 * 2 + 0.75 * 1.1, 1e-6);
    assert_near(linear_s(&m, 128, 1024, 128) / tile, 1, 1e-6); /* but a tile takes its time */
}

/* Without drift, a product of one tile takes what its compute takes whatever the tile list; a smaller tile helps a small one. */
static void test_tile_choice(void **state) {
    (void)state;
    sg_machine m = plain_machine(), two = m;
    two.tiles[SG_TILES_LINEAR] = (sg_tiles){2, {{128, 128}, {64, 64}}};
    double loss = 1 / 0.9 - 1;
    assert_near(linear_s(&two, 64, 1024, 64) / linear_s(&m, 64, 1024, 64), (1 + 4 * loss) / (4 * (1 + loss)), 1e-6);
    assert_near(linear_s(&two, 12800, 1024, 12800) / linear_s(&m, 12800, 1024, 12800), 1, 1e-6);
    sg_product batched = sg_product_f32(SG_TILES_BATCHED, 100, 128, 128, 1024);
    double tile = 2.0 * 128 * 128 * 1024 / (1e11 * 0.8);
    assert_near(price(&two, &batched, SG_PRODUCT_BETWEEN_EVENTS).seconds, tile + 20e-6, tile * 1e-6);
}

/* A long contraction for one tile is divided where the machine divides, and only if that is faster. */
static void test_divided_contraction(void **state) {
    (void)state;
    sg_machine m = plain_machine(), divides = m;
    divides.p[SG_M_SPLIT_K_S].value = 10e-6;
    double whole = linear_s(&m, 128, 1 << 16, 128), parts = linear_s(&divides, 128, 1 << 16, 128);
    assert_near(parts, whole / 8 + 10e-6, whole * 1e-3);
    assert_near(linear_s(&divides, 12800, 1024, 12800), linear_s(&m, 12800, 1024, 12800),
                1e-12);                                                               /* SMs are busy anyway */
    assert_near(linear_s(&divides, 128, 64, 128), linear_s(&m, 128, 64, 128), 1e-12); /* too short */
    sg_product batched = sg_product_f32(SG_TILES_BATCHED, 1, 128, 128, 1 << 16);
    assert_near(price(&divides, &batched, SG_PRODUCT_IN_STEP).seconds, price(&m, &batched, SG_PRODUCT_IN_STEP).seconds,
                1e-12);
}

static void test_traffic_and_drift(void **state) {
    (void)state;
    sg_machine m = plain_machine();
    m.p[SG_M_BANDWIDTH].value = 1e10; /* so slow that only traffic counts */
    m.p[SG_M_PRODUCT_JOIN].value = 60;
    double bytes = 4.0 * (256 * 1024.0 + 1024 * 512 + 256 * 512);
    assert_near(linear_s(&m, 256, 1024, 512) / (bytes / (1e10 * 0.8)), 1, 1e-6);
    m.p[SG_M_DRIFT_LENGTH].value = 1e-9; /* no tile shares anything */
    double all = 4.0 * 1024 * 256 * 512 * (1.0 / 128 + 1.0 / 128), operands = 4.0 * 1024 * (256 + 512);
    assert_near(linear_s(&m, 256, 1024, 512) / (bytes / (1e10 * 0.8) + (all - operands) / (1e10 * 0.5)), 1, 1e-6);
}

static void test_sustained_peak(void **state) {
    (void)state;
    sg_machine m = plain_machine();
    assert_near(sg_sustained_peak(&m, SG_COMPUTE_F32, NULL), 1e13, 1); /* board power unknown */
    m.board_w = 15e-12 * 1e13;                                         /* just enough */
    assert_near(sg_sustained_peak(&m, SG_COMPUTE_F32, NULL) / (1e13 * pow(2, -1.0 / 6)), 1, 1e-9);
    m.board_w = 15e-12 * 1e12; /* a tenth of it */
    assert_near(sg_sustained_peak(&m, SG_COMPUTE_F32, NULL) / 1e12, 1, 1e-5);
    m.capability = 89; /* finer chips need half */
    assert_near(sg_sustained_peak(&m, SG_COMPUTE_F32, NULL) / 2e12, 1, 1e-4);
    m.fp32_lanes = 128;
    m.board_w = 0;
    assert_near(sg_sustained_peak(&m, SG_COMPUTE_F32, NULL) / 0.8e13, 1, 1e-9);
    assert_near(sg_sustained_peak(&m, SG_COMPUTE_TF32, NULL) / 8e13, 1, 1e-9);
}

/* Inside a step the clock has settled; between events a long product sees it settle. */
static void test_clock_and_start(void **state) {
    (void)state;
    sg_machine m = plain_machine();
    m.p[SG_M_CLOCK_FADE].value = 0.5;
    sg_product brief = sg_product_f32(SG_TILES_LINEAR, 1, 128, 128, 4),
               longer = sg_product_f32(SG_TILES_LINEAR, 1, 128000, 12800, 16384);
    double rate = 100 * 1e11 * 0.9, brief_s = 2.0 * 128 * 128 * 4 / (1e11 * 0.9),
           long_s = 2.0 * 128000 * 12800 * 16384 / rate;
    assert_near(price(&m, &brief, SG_PRODUCT_IN_STEP).seconds, 1.5 * brief_s + 3e-6, 1e-11);
    assert_near(price(&m, &brief, SG_PRODUCT_BETWEEN_EVENTS).seconds, brief_s + 20e-6, 1e-11);
    assert_near(price(&m, &longer, SG_PRODUCT_BETWEEN_EVENTS).seconds / (1.5 * long_s), 1, 1e-3);
    m.p[SG_M_UNALIGNED].value = 1.3;
    sg_product odd = sg_product_f32(SG_TILES_LINEAR, 1, 128, 128, 1022);
    assert_near((price(&m, &odd, SG_PRODUCT_IN_STEP).seconds - 3e-6) /
                    (1.3 * 1.5 * 2 * 128 * 128 * 1022 / (1e11 * 0.9)),
                1, 1e-6);
}

/* Each precision has its efficiency; without tf32 units tf32 is fp32; without its own efficiency, its class's. */
static void test_precisions(void **state) {
    (void)state;
    sg_machine m = plain_machine();
    sg_product p = sg_product_f32(SG_TILES_LINEAR, 1, 12800, 12800, 4096);
    const sg_compute modes[] = {SG_COMPUTE_TF32, SG_COMPUTE_BF16, SG_COMPUTE_F16};
    const double peaks[] = {8e13, 16e13, 16e13}, shares[] = {0.7, 0.6, 0.5};
    for (int i = 0; i < 3; i++) {
        p.compute = modes[i];
        /* the largest tile, of twice the area, has half the loss */
        double loss = (1 / shares[i] - 1) / 2, got = price(&m, &p, SG_PRODUCT_IN_STEP).seconds;
        assert_near(got / (2 * p.m * p.n * p.k / peaks[i] * (1 + loss)), 1, 1e-3);
    }
    assert_int_equal(sg_product_eff(&m, &p), SG_M_EFF_PRODUCT_F16);
    m.p[SG_M_EFF_PRODUCT_F16].value = NAN;
    assert_int_equal(sg_product_eff(&m, &p), SG_M_EFF_GEMM);
    assert_int_equal(sg_product_mode(&m, SG_COMPUTE_TF32), SG_COMPUTE_TF32);
    m.tf32 = false;
    assert_int_equal(sg_product_mode(&m, SG_COMPUTE_TF32), SG_COMPUTE_F32);
}

static void check_gradient(const sg_machine *m, const sg_product *p, sg_product_place place) {
    static const double step = 1e-6;
    sg_priced at = price(m, p, place);
    for (int i = 0; i < SG_M_COUNT; i++) {
        if (!(m->p[i].value > 0)) {
            assert_true(at.by_log[i] == 0);
            continue;
        }
        sg_machine up = *m, down = *m;
        up.p[i].value *= exp(step);
        down.p[i].value *= exp(-step);
        double slope = (price(&up, p, place).seconds - price(&down, p, place).seconds) / (2 * step);
        if (fabs(slope - at.by_log[i]) > 2e-6 * at.seconds) {
            print_error("%s, product %g %g %g: %g, by differences %g\n", sg_machine_key((sg_machine_id)i), p->m, p->n,
                        p->k, at.by_log[i] / at.seconds, slope / at.seconds);
            fail();
        }
    }
}

static void test_gradient(void **state) {
    (void)state;
    const double shapes[][4] = {{1, 1000, 1000, 1000}, {1, 4096, 512, 8192},  {1, 64, 64, 50000},    {1, 7, 4096, 4095},
                                {64, 200, 70, 64},     {300, 128, 512, 1024}, {1, 30000, 9000, 4098}};
    sg_machine m = rich_machine();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int place = 0; place < 2; place++)
            for (int mode = 0; mode < 4; mode++) {
                const double *s = shapes[i];
                sg_product p = sg_product_f32(s[0] > 1 ? SG_TILES_BATCHED : SG_TILES_LINEAR, s[0], s[1], s[2], s[3]);
                p.compute = (sg_compute)mode;
                check_gradient(&m, &p, (sg_product_place)place);
                m.p[SG_M_EFF_GEMM].value = i % 2 ? 0.9 : 1.1; /* also above the peak */
            }
}

static void test_missing_parameters(void **state) {
    (void)state;
    static const sg_machine_id needed[] = {SG_M_TILE_FILL, SG_M_EVENT_PRODUCT_S, SG_M_EFF_GEMM, SG_M_BANDWIDTH,
                                           SG_M_PRODUCT_JOIN};
    sg_product p = sg_product_f32(SG_TILES_LINEAR, 1, 64, 64, 64);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        sg_machine m = plain_machine();
        sg_priced priced;
        sg_status status;
        m.p[needed[i]].value = NAN;
        assert_int_equal(sg_price_tiles(&m, &p, SG_PRODUCT_BETWEEN_EVENTS, &priced, &status), SG_NO);
        assert_non_null(strstr(status.text, sg_machine_key(needed[i])));
    }
    sg_machine m = plain_machine();
    sg_priced priced;
    sg_status status;
    m.units = 0;
    assert_false(sg_product_has_tiles(&m));
    assert_int_equal(sg_price_tiles(&m, &p, SG_PRODUCT_IN_STEP, &priced, &status), SG_NO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_tile_choice),
        cmocka_unit_test(test_divided_contraction),
        cmocka_unit_test(test_traffic_and_drift),
        cmocka_unit_test(test_sustained_peak),
        cmocka_unit_test(test_clock_and_start),
        cmocka_unit_test(test_precisions),
        cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_missing_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
