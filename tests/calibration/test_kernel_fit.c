/* Products measured on a machine: kernels' names, the fit, neighbours, files of shapes, validation. */
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
#include "calibration/kernels/kernel_fit.h"
#include "calibration/kernels/product_prior.h"
#include "calibration/machine/shapes_file.h"
#include "calibration/predict/predict.h"
#include "calibration/validate/validate.h"

#define CONFIGS SG_SOURCE_DIR "/configs"

static sg_machine machine_of(const char *name) {
    sg_machine m;
    sg_status status;
    if (sg_machine_load(name, CONFIGS, &m, &status)) fail_msg("%s", status.text);
    return m;
}

static double alone_s(const sg_machine *m, const sg_product *p) {
    sg_priced price;
    sg_status status;
    if (sg_price_tiles(m, p, SG_PRODUCT_BETWEEN_EVENTS, &price, &status)) fail_msg("%s", status.text);
    return price.seconds;
}

/* Sizes that a policy's layers may have, from a fixed sequence. */
static sg_product some_product(uint32_t *state) {
    double size[4];
    for (int i = 0; i < 4; i++) {
        *state = *state * 1664525u + 1013904223u;
        size[i] = floor(exp2(5 + (double)(*state >> 8) / 0x1p24 * 7));
    }
    sg_tile_kind kind = *state >> 30 & 1 ? SG_TILES_BATCHED : SG_TILES_LINEAR;
    return sg_product_f32(kind, kind == SG_TILES_BATCHED ? ceil(size[3] / 8) : 1, size[0], size[1], size[2]);
}

/* A card that no sheet describes: an RTX A6000 whose products behave in a known way. */
static sg_machine known_card(void) {
    sg_machine m = machine_of("rtx-a6000");
    m.p[SG_M_EFF_GEMM].value = 0.8;
    m.p[SG_M_EFF_BMM].value = 0.88;
    m.p[SG_M_EVENT_PRODUCT_S].value = 18e-6;
    m.p[SG_M_TILE_FILL].value = 20;
    m.p[SG_M_SPLIT_K_S].value = 60e-6;
    return m;
}

enum { ROWS = 240 };

static void make_rows(const sg_machine *card, sg_product_row *rows, const sg_product_row **list) {
    uint32_t state = 1, noise = 7;
    for (size_t i = 0; i < ROWS; i++) {
        noise = noise * 1664525u + 1013904223u;
        rows[i] = (sg_product_row){.product = some_product(&state), .device = "card"};
        rows[i].seconds = alone_s(card, &rows[i].product) * exp(0.02 * ((double)(noise >> 8) / 0x1p23 - 1));
        list[i] = &rows[i];
    }
}

static void test_kernel_names(void **state) {
    (void)state;
    int16_t rows = 0, columns = 0;
    assert_true(sg_tile_of_kernel("ampere_sgemm_128x64_tn", &rows, &columns));
    assert_true(rows == 64 && columns == 128);
    assert_true(sg_tile_of_kernel("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8_stage3", &rows, &columns));
    assert_true(rows == 256 && columns == 64);
    assert_true(sg_tile_of_kernel("sgemm_128x128x8_NT_vec", &rows, &columns));
    assert_false(sg_tile_of_kernel("void cutlass::Kernel", &rows, &columns));
    assert_false(sg_tile_of_kernel("ampere_sgemm_4x4", &rows, &columns));
    assert_false(sg_tile_of_kernel("", &rows, &columns));
}

/* The parameters come back, those that the rows tell of; predictions of other rows are right. */
static void test_fit_recovers(void **state) {
    (void)state;
    sg_machine card = known_card(), sheet = machine_of("rtx-a6000");
    sg_product_row rows[ROWS];
    const sg_product_row *list[ROWS];
    sg_product_prior prior;
    sg_product_fit fit;
    sg_status status;
    make_rows(&card, rows, list);
    assert_int_equal(sg_product_prior_of(&sheet, &prior, &status), SG_OK);
    sg_machine fitted = sheet;
    if (sg_product_fit_rows(list, ROWS, &prior, 0.05, &fitted, &fit, &status)) fail_msg("%s", status.text);
    assert_true(fit.residual_log_sd < 0.03);
    assert_true(fabs(log(fitted.p[SG_M_EVENT_PRODUCT_S].value / 18e-6)) < 0.05);
    uint32_t sequence = 99;
    for (int i = 0; i < 200; i++) {
        sg_product p = some_product(&sequence);
        assert_true(fabs(log(alone_s(&fitted, &p) / alone_s(&card, &p))) < 0.06);
    }
    for (size_t i = 0; i < fit.n_terms; i++) assert_true(fit.covariance[i * fit.n_terms + i] > 0);
}

/* A few rows move a prior most of the way; without rows it stays. */
static void test_few_rows(void **state) {
    (void)state;
    sg_machine card = known_card(), sheet = machine_of("rtx-a6000");
    sg_product_row rows[ROWS];
    const sg_product_row *list[ROWS];
    sg_product_prior prior;
    sg_status status;
    make_rows(&card, rows, list);
    bool chosen[ROWS];
    assert_int_equal(sg_product_calibration_rows(list, ROWS, 20, chosen), 20);
    const sg_product_row *few[20];
    for (size_t i = 0, n = 0; i < ROWS; i++)
        if (chosen[i]) few[n++] = list[i];
    assert_int_equal(sg_product_prior_of(&sheet, &prior, &status), SG_OK);
    double error[2] = {0, 0};
    for (int measured = 0; measured < 2; measured++) {
        sg_product_model model;
        if (sg_product_model_fit(&sheet, few, measured ? 20 : 0, &prior, NULL, 0, &model, &status))
            fail_msg("%s", status.text);
        size_t inside = 0;
        for (size_t i = 0; i < ROWS; i++) {
            sg_product_prediction p;
            assert_int_equal(sg_product_model_predict(&model, &rows[i].product, 0.9, &p, &status), SG_OK);
            assert_true(p.low < p.seconds && p.seconds < p.high);
            error[measured] += fabs(log(p.seconds / rows[i].seconds)) / ROWS;
            inside += rows[i].seconds >= p.low && rows[i].seconds <= p.high;
        }
        assert_true(inside > ROWS * 3 / 4);
        sg_product_model_clear(&model);
    }
    assert_true(error[1] < 0.5 * error[0] && error[1] < 0.06);
}

static void test_neighbours(void **state) {
    (void)state;
    sg_status status;
    sg_neighbours *table = sg_neighbours_new(&status);
    assert_non_null(table);
    sg_neighbour a = {.kind = 0, .n = 2, .log_size = {1, 1}, .log_ratio = 0.3F}, b = a, other = a;
    b.log_size[0] = 2;
    b.log_ratio = -0.1F;
    other.kind = 1;
    assert_int_equal(sg_neighbours_add(table, &a, &status), SG_OK);
    assert_int_equal(sg_neighbours_add(table, &b, &status), SG_OK);
    double support;
    assert_true(fabs(sg_neighbours_log_ratio(table, &a, 0, &support) - 0.3) < 1e-6 && support == 1);
    assert_true(sg_neighbours_log_ratio(table, &other, 0, &support) == 0 && support == 0);
    sg_neighbour near = a;
    near.log_size[0] += 0.002F; /* smoothly joined */
    assert_true(fabs(sg_neighbours_log_ratio(table, &near, 0, NULL) - 0.3) < 0.01);
    double left = sg_neighbours_log_ratio(table, &a, 1, NULL);
    assert_true(left < 0 && left > -0.1); /* of b alone, and the formula */
    near.log_size[0] = 50;
    assert_true(sg_neighbours_log_ratio(table, &near, 0, NULL) == 0);
    assert_true(sg_neighbours_log_ratio(NULL, &near, 0, NULL) == 0);
    near.log_ratio = NAN;
    assert_int_equal(sg_neighbours_add(table, &near, &status), SG_BAD_INPUT);
    sg_neighbours_free(table);
}

static void parse_fails(const char *text, const char *message) {
    sg_machine m = machine_of("rtx-a6000");
    sg_status status;
    assert_int_equal(sg_shapes_parse("card.shapes", text, &m, &status), SG_BAD_INPUT);
    if (!strstr(status.text, message)) fail_msg("%s", status.text);
    sg_machine_clear(&m);
}

/* A measured product of the table answers exactly through a file, and only with the parameters that it belongs to. */
static void test_shapes_file(void **state) {
    (void)state;
    sg_machine m = machine_of("v100-pcie-32gb");
    sg_status status;
    assert_non_null(m.measured);
    char path[] = "/tmp/stepgauge_shapes_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    assert_int_equal(sg_shapes_save(path, &m, "a test", &status), SG_OK);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    static char text[1 << 20];
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    (void)fclose(f);
    (void)remove(path);
    sg_machine again = machine_of("v100-pcie-32gb");
    sg_measured_release(again.measured);
    again.measured = NULL;
    assert_int_equal(sg_shapes_parse(path, text, &again, &status), SG_OK);
    size_t n, n_again;
    const sg_measured_shape *x = sg_measured_shapes(m.measured, &n), *y = sg_measured_shapes(again.measured, &n_again);
    assert_true(n > 700 && n == n_again);
    for (size_t i = 0; i < n; i++) assert_true(fabs(x[i].log_ratio - y[i].log_ratio) < 1e-9);
    sg_measured_release(again.measured);
    again.measured = NULL;
    again.p[SG_M_EFF_GEMM].value *= 0.9;
    assert_int_equal(sg_shapes_parse(path, text, &again, &status), SG_OK);
    assert_null(again.measured);
    sg_machine_clear(&again);
    sg_machine_clear(&m);
    parse_fails("x 1 2 3\n", "card.shapes:1");
    parse_fails("# a\nl 1 2\n", "card.shapes:2");
    parse_fails("l 1 2 3 4 5\n", "no more");
    parse_fails("l 0 2 3 4\n", "sizes");
    parse_fails("b 1 2 3 4 99999\n", "thousandths");
    parse_fails("parameters x\n", "no number");
    parse_fails("l 1 2 3 4", "does not end");
}

/* Every file of shapes that ships belongs to its machine's parameters. */
static void test_shipped_shapes(void **state) {
    (void)state;
    static const char *const names[] = {"p4", "p100-pcie",      "v100-pcie-32gb", "t4",
                                        "l4", "a100-pcie-40gb", "a100-pcie-80gb", "h100-sxm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sg_machine m = machine_of(names[i]);
        if (!m.measured) fail_msg("%s: its shapes were measured with other parameters: fit it again", names[i]);
        sg_machine_clear(&m);
    }
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* A table of a made-up card through a file: fit, machine file and back. */
static void test_fit_files(void **state) {
    (void)state;
    char path[] = "/tmp/stepgauge_kernels_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    sg_machine card = known_card();
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    (void)fprintf(f, "device,op,batch,m,n,k,latency_ms\n");
    uint32_t sequence = 3;
    for (int i = 0; i < 60; i++) {
        sg_product p = some_product(&sequence);
        (void)fprintf(f, "NVIDIA RTX A6000,%s,%.0f,%.0f,%.0f,%.0f,%.9g\n",
                      p.kind == SG_TILES_BATCHED ? "bmm" : "linear", p.batch, p.m, p.k, p.n, 1e3 * alone_s(&card, &p));
    }
    (void)fprintf(f, "NVIDIA RTX A6000,linear,1,0,5,5,1\nNVIDIA T4,linear,1,64,64,64,1\n");
    assert_int_equal(fclose(f), 0);
    const char *const paths[] = {path};
    sg_kernel_fit fit;
    sg_status status;
    if (sg_kernel_fit_files(paths, 1, "rtx-a6000", CONFIGS, &fit, &status)) fail_msg("%s", status.text);
    assert_true(fit.products == 60 && fit.unreadable == 1 && fit.fitted[SG_M_EFF_GEMM] && fit.mean < 0.1);
    assert_int_equal(fit.machine.p[SG_M_EFF_GEMM].evidence, SG_EVIDENCE_CALIBRATED);
    assert_non_null(fit.machine.covariance);
    char machine_path[] = "/tmp/stepgauge_machine_XXXXXX.h5";
    file = mkstemps(machine_path, 3);
    assert_true(file >= 0);
    (void)close(file);
    if (sg_machine_save(machine_path, &fit.machine, &status)) fail_msg("%s", status.text);
    sg_machine back;
    if (sg_machine_load(machine_path, CONFIGS, &back, &status)) fail_msg("%s", status.text);
    assert_true(back.p[SG_M_TILE_FILL].value == fit.machine.p[SG_M_TILE_FILL].value);
    assert_memory_equal(back.tiles, fit.machine.tiles, sizeof back.tiles);
    size_t n;
    (void)sg_measured_shapes(back.measured, &n);
    assert_int_equal(n, 60);
    sg_machine_clear(&back);
    char sheet_path[] = "/tmp/stepgauge_sheet_XXXXXX.yaml";
    file = mkstemps(sheet_path, 5);
    assert_true(file >= 0);
    (void)close(file);
    if (sg_kernel_fit_write(sheet_path, &fit, &status)) fail_msg("%s", status.text);
    if (sg_machine_load(sheet_path, CONFIGS, &back, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < SG_M_COUNT; i++)
        if (fit.fitted[i]) assert_true(fabs(log(back.p[i].value / fit.machine.p[i].value)) < 1e-6);
    assert_memory_equal(back.tiles, fit.machine.tiles, sizeof back.tiles);
    assert_true(back.units == fit.machine.units && back.board_w == fit.machine.board_w);
    sg_machine_clear(&back);
    (void)remove(sheet_path);
    sg_kernel_fit_clear(&fit);
    assert_int_equal(sg_kernel_fit_files(paths, 1, "rtx-4090", CONFIGS, &fit, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "no kernel times"));
    sg_kernel_fit_clear(&fit);
    assert_int_equal(sg_kernel_fit_files(paths, 1, "no such card", CONFIGS, &fit, &status), SG_BAD_INPUT);
    sg_kernel_fit_clear(&fit);
    write_text(path, "a,b\n1,2\n");
    assert_int_equal(sg_kernel_fit_files(paths, 1, "rtx-a6000", CONFIGS, &fit, &status), SG_BAD_INPUT);
    sg_kernel_fit_clear(&fit);
    (void)remove(path);
    (void)remove(machine_path);
}

static sg_validation validate(const char *text, sg_left_out left_out, int calibration_rows) {
    char path[] = "/tmp/stepgauge_table_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    write_text(path, text);
    sg_csv_table table;
    sg_status status;
    sg_validation v = {0};
    sg_validate_options options = {
        .config_dir = CONFIGS, .left_out = left_out, .folds = 2, .calibration_rows = calibration_rows};
    assert_int_equal(sg_csv_table_read(path, &table, &status), SG_OK);
    if (sg_validate_gemm(&table, &options, &v, &status)) fail_msg("%s", status.text);
    sg_csv_table_clear(&table);
    (void)remove(path);
    return v;
}

/* Every row is predicted or says why not; a shipped machine's measured shapes answer exactly. */
static void test_validate(void **state) {
    (void)state;
    static const char text[] = "device,op,batch,m,n,k,latency_ms\n"
                               "Tesla V100-PCIE-32GB,linear,1,1000,1100,1200,0.3\n"
                               "Tesla V100-PCIE-32GB,linear,1,2000,1100,1200,0.6\n"
                               "Tesla V100-PCIE-32GB,bmm,12,512,512,64,0.1\n"
                               "Tesla V100-PCIE-32GB,conv,1,1,1,1,1\n"
                               "A card of tomorrow,linear,1,64,64,64,1\n"
                               "NVIDIA T4,bmm,64,512,64,512,0.5\n";
    for (int mode = SG_LEFT_OUT_NOTHING; mode <= SG_LEFT_OUT_DEVICES; mode++) {
        sg_validation v = validate(text, (sg_left_out)mode, 0);
        assert_int_equal(v.n, 6);
        size_t skipped = 0;
        for (size_t i = 0; i < v.n; i++) {
            const sg_validated *r = &v.rows[i];
            skipped += r->skipped[0] != 0;
            if (r->skipped[0]) continue;
            assert_true(r->low < r->predicted && r->predicted < r->high && r->roofline > 0);
            assert_true(fabs(log(r->predicted / r->measured)) < 2);
        }
        assert_true(skipped >= 2 && skipped < 6);
        sg_validation_clear(&v);
    }
    sg_validation v = validate(text, SG_LEFT_OUT_DEVICES, 1); /* one row of each device goes into its calibration */
    assert_int_equal(v.n, 4);
    sg_validation_clear(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel_names), cmocka_unit_test(test_fit_recovers), cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_neighbours),   cmocka_unit_test(test_shapes_file),  cmocka_unit_test(test_shipped_shapes),
        cmocka_unit_test(test_fit_files),    cmocka_unit_test(test_validate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
