/* Reports beside predictions: parts, reasons, causes, cameras by the GPU's busy share, fits without a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/reports/report_case.h"
#include "calibration/reports/report_fit.h"
#include "calibration/validate/validate.h"
#include "tests/support/scratch.h"

static const char *const CONFIGS = SG_SOURCE_DIR "/configs";

/* Made up; small images keep it quick. Times: A, B, C and D as plain rows, the others each for a reason. */
static const char TABLE[] =
    "id,policy,policy_details,dataset,hardware,gpu_count,batch_per_gpu,steps,update_s,data_s,step_s,wall_clock,"
    "samples_per_s,vram_gb,gpu_util_pct,framework,date,source,note\n"
    "A,act,2 cameras 96x96,,RTX 3090 24GB,1,8,,0.060,0.001,,,,0.97,,lerobot,,one,\n"
    "B,act,2 cameras 96x96,,RTX 4090,1,8,,0.050,0.001,,,,,,lerobot,,two,\n"
    "C,act,1 camera 96x96,,RTX 3090 24GB,1,64,,0.080,0.100,,,,,,lerobot,,one,\n"
    "D,act,,,RTX 4090,1,8,,0.050,,,,,,,lerobot,,two,images as in the other row\n"
    "E,act,96x96 images,busy set,H100,1,64,,0.110,0.001,,,,,~80,lerobot,,three,\n"
    "F,act,96x96 images,,A100 80GB (Colab),1,64,1000,,,,1 h,,,,lerobot,,four,\n"
    "G,act,2 cameras 480x640,,T4,1,256,,0.010,,,,,,,lerobot,,five,\n"
    "H,act,1 camera 96x96,,,1,8,,0.05,,,,,,,lerobot,,six,\n"
    "I,act,1 camera 96x96,,Some Card 9000,1,8,,0.05,,,,,,,lerobot,,six,\n"
    "J,act,\"1 camera 96x96, 80M params\",,RTX 3090,1,8,,0.05,,,,,,,lerobot,,seven,\n"
    "K,act,96x96 images,,RTX 3090,1,8,,0.03,,,,,1.44,,lerobot,,eight,\n"
    "O,act,1 camera 96x96,,RTX 3090,1,,,0.05,,,,,,,lerobot,,eleven,\n"
    "P,act,1 camera 96x96,,RTX 3090,1,,,0.05,,,,,,,lerobot,,six,\n"
    "L,PPO Isaac-Ant,,,RTX 4090,1,,,,,,,,,,Isaac Lab,,nine,\n"
    "M,act,1 camera 96x96,,RTX 4090,1,8,,1e999,,nan,,,inf,,lerobot,,ten,\n"
    "N,\"act\n\",\"1 camera\n96x96\",,\"RTX 4090\n\",1,8,,0.05,,,,,,,lerobot,,ten,\"two\nlines\"\n"
    ",,,,,,,,,,,,,,,,,,\n";

static sg_csv_table read_table(const char *text) {
    sg_scratch s = sg_scratch_new();
    sg_csv_table table;
    sg_status status;
    char path[128];
    sg_scratch_file(&s, "reports.csv", text);
    (void)snprintf(path, sizeof path, "%s/reports.csv", s.path);
    if (sg_csv_table_read(path, &table, &status)) fail_msg("%s", status.text);
    sg_scratch_free(&s);
    return table;
}

static sg_validation validate(const char *text, sg_left_out left_out) {
    sg_csv_table table = read_table(text);
    sg_validate_options options = {.config_dir = CONFIGS, .left_out = left_out};
    sg_validation v = {0};
    sg_status status;
    if (sg_validate_reports(&table, &options, &v, &status)) fail_msg("%s", status.text);
    sg_csv_table_clear(&table);
    return v;
}

static const sg_validated *row(const sg_validation *v, const char *id, sg_validate_class cls) {
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->rows[i].row, id) == 0 && v->rows[i].cls == cls) return &v->rows[i];
    fail_msg("no row %s", id);
    return NULL;
}

static void check_predicted(const sg_validation *v, const char *id, const char *device, const char *part) {
    const sg_validated *r = row(v, id, SG_VALIDATE_REPORTS_STEP);
    assert_string_equal(r->skipped, "");
    assert_string_equal(r->device, device);
    assert_string_equal(r->part, part);
    assert_string_equal(r->file, "reports.csv");
    assert_true(r->low > 0 && r->low < r->predicted && r->predicted < r->high && isfinite(r->high));
    assert_true(r->roofline > 0 && r->roofline < r->predicted);
}

static void check_skipped(const sg_validation *v, const char *id, sg_validate_class cls, const char *why) {
    const sg_validated *r = row(v, id, cls);
    if (!r->skipped[0] || !strstr(r->skipped, why)) fail_msg("%s: '%s'", id, r->skipped);
}

static void parts_and_reasons(void **state) {
    (void)state;
    sg_validation v = validate(TABLE, SG_LEFT_OUT_NOTHING);
    check_predicted(&v, "A", "rtx-3090", "eager, cameras known");
    check_predicted(&v, "B", "rtx-4090", "eager, cameras known");
    check_predicted(&v, "C", "rtx-3090", "eager, cameras known");
    check_predicted(&v, "D", "rtx-4090", "eager, cameras known"); /* the other row of its source tells */
    check_predicted(&v, "F (2 cameras)", "a100-sxm-80gb", "wall-clock only");
    check_predicted(&v, "N", "rtx-4090", "eager, cameras known");
    const sg_validated *f = row(&v, "F (2 cameras)", SG_VALIDATE_REPORTS_STEP),
                       *g = row(&v, "G", SG_VALIDATE_REPORTS_STEP);
    assert_true(fabs(f->measured - 3.6) < 1e-9);
    assert_non_null(strstr(f->cause, "shared host"));
    assert_non_null(strstr(g->cause, "impossible"));
    assert_string_equal(row(&v, "A", SG_VALIDATE_REPORTS_STEP)->cause, "");
    check_skipped(&v, "H", SG_VALIDATE_REPORTS_STEP, "GPU is not stated");
    check_skipped(&v, "I", SG_VALIDATE_REPORTS_STEP, "no data sheet");
    check_skipped(&v, "J", SG_VALIDATE_REPORTS_STEP, "another variant: 80 M");
    check_predicted(&v, "P", "rtx-3090", "eager, cameras known"); /* the batch of the other rows of its source */
    check_skipped(&v, "O", SG_VALIDATE_REPORTS_STEP, "batch size");
    check_skipped(&v, "L", SG_VALIDATE_REPORTS_STEP, "PPO");
    check_skipped(&v, "M", SG_VALIDATE_REPORTS_STEP, "no time");
    check_skipped(&v, "M", SG_VALIDATE_REPORTS_MEMORY, "no peak");
    sg_validation_clear(&v);
}

/* Eight samples of small images: the optimizer decides, whatever the cameras. */
static void memory(void **state) {
    (void)state;
    sg_validation v = validate(TABLE, SG_LEFT_OUT_NOTHING);
    const sg_validated *a = row(&v, "A", SG_VALIDATE_REPORTS_MEMORY), *k = row(&v, "K", SG_VALIDATE_REPORTS_MEMORY);
    assert_string_equal(a->part, "CNN allocated");
    assert_true(fabs(a->measured - 0.97 * 0x1p30) < 1);
    assert_true(a->low == 0 && a->high > a->predicted && fabs(a->predicted / a->measured - 1) < 0.05);
    assert_string_equal(k->skipped, "");
    sg_validation_clear(&v);
}

/* Device seconds grow with the cameras: the stated share picks the nearest count, the others are shown unscored. */
static void cameras_by_share(void **state) {
    (void)state;
    sg_validation v = validate(TABLE, SG_LEFT_OUT_NOTHING);
    size_t scored = 0, shown = 0;
    for (size_t i = 0; i < v.n; i++) {
        const sg_validated *r = &v.rows[i];
        if (r->row[0] != 'E' || r->cls != SG_VALIDATE_REPORTS_STEP) continue;
        assert_string_equal(r->part, "cameras by busy share");
        if (r->skipped[0])
            shown++;
        else
            scored++;
    }
    assert_int_equal(scored, 1);
    assert_int_equal(shown, 2);
    sg_validation_clear(&v);
}

static sg_validation two_devices(double a_s, double b_s, sg_left_out left_out) {
    char text[512];
    (void)snprintf(text, sizeof text,
                   "id,policy,policy_details,hardware,batch_per_gpu,update_s\n"
                   "A,act,2 cameras 128x128,RTX 3090,64,%.6f\nB,act,2 cameras 128x128,RTX 4090,64,%.6f\n",
                   a_s, b_s);
    return validate(text, left_out);
}

static double predicted(const sg_validation *v, const char *id) {
    return row(v, id, SG_VALIDATE_REPORTS_STEP)->predicted;
}

/* Without its own rows a device is predicted by the others: slower reports of the one move the other, and not itself. */
static void devices_left_out(void **state) {
    (void)state;
    sg_validation plain = two_devices(0.1, 0.1, SG_LEFT_OUT_NOTHING);
    double a_s = predicted(&plain, "A"), b_s = predicted(&plain, "B");
    sg_validation fast = two_devices(0.95 * a_s, b_s, SG_LEFT_OUT_DEVICES);
    sg_validation slow = two_devices(1.05 * a_s, b_s, SG_LEFT_OUT_DEVICES);
    assert_true(fabs(predicted(&fast, "A") / predicted(&slow, "A") - 1) < 1e-9);
    assert_true(predicted(&slow, "B") > 1.01 * predicted(&fast, "B"));
    sg_validation_clear(&plain);
    sg_validation_clear(&fast);
    sg_validation_clear(&slow);
}

/* Reports written down from predictions with shifted parameters give these back, as far as the prior lets them. */
static void fit_follows_the_rows(void **state) {
    (void)state;
    sg_csv_table table = read_table("id,policy,policy_details,hardware,batch_per_gpu,update_s\n"
                                    "A,act,2 cameras 128x128,RTX 3090,64,0.09\n"
                                    "B,act,2 cameras 128x128,RTX 4090,64,0.07\n"
                                    "C,act,1 camera 96x96,RTX 4090,1,0.05\n");
    sg_report_cases cases = {0};
    sg_report_fit fit, without;
    sg_status status;
    size_t n;
    if (sg_report_cases_add(&table, CONFIGS, &cases, &status)) fail_msg("%s", status.text);
    if (sg_report_fit_make(&cases, CONFIGS, NULL, &fit, &status)) fail_msg("%s", status.text);
    if (sg_report_fit_make(&cases, CONFIGS, "rtx-4090", &without, &status)) fail_msg("%s", status.text);
    const sg_report_term *terms = sg_report_terms(&n);
    assert_int_equal(fit.rows, 3);
    assert_int_equal(fit.configurations, 2);
    assert_int_equal(without.rows, 1);
    assert_true(fit.rms_log > 0 && fit.rms_log < 1);
    for (size_t t = 0; t < n; t++) {
        assert_true(fit.value[t] > 0 && fit.log_sd[t] > 0);
        /* of hosts that differ, more reports tell no more than their mean */
        assert_true(terms[t].of_framework || fit.log_sd[t] <= terms[t].log_sd * 1.0001);
        /* nothing on Hopper or a tensor-rich card: the textbook stays */
        if (strcmp(terms[t].file, "tensor-rich") == 0) assert_true(fabs(fit.value[t] / terms[t].textbook - 1) < 1e-6);
    }
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    assert_non_null(file);
    assert_int_equal(sg_report_fit_save(file, &fit, &status), SG_OK);
    assert_int_equal(fclose(file), 0);
    assert_non_null(strstr(text, "priors/cuda.yaml:\n  parameters:\n"));
    assert_non_null(strstr(text, "frameworks/pytorch-eager.yaml:\n  cuda:\n    host_op_s: {value: "));
    free(text);
    sg_report_cases_close(&cases);
    sg_csv_table_clear(&table);
}

/* Counts tell variants and cameras: 274 M with four cameras is one encoder for all, 263 M is one camera; older pi05 has no head
 * of its own. */
static void counts_tell_variants(void **state) {
    (void)state;
    sg_csv_table table =
        read_table("id,policy,policy_details,hardware,batch_per_gpu,update_s\n"
                   "A,diffusion,\"274M params, 4 cameras cropped to 240x320\",RTX 3090,4,0.25\n"
                   "B,diffusion,\"263M params, 96x96 images\",RTX 3090,4,0.25\n"
                   "C,pi05,\"3.62B parameters, bf16, gradient checkpointing, 2 cameras\",A100 80GB,8,1.0\n"
                   "D,diffusion,\"100M params, 2 cameras 96x96\",RTX 3090,4,0.25\n");
    sg_report_cases cases = {0};
    sg_status status;
    if (sg_report_cases_add(&table, CONFIGS, &cases, &status)) fail_msg("%s", status.text);
    static const char *const key[] = {"use_separate_rgb_encoder_per_camera", "cameras", "tie_word_embeddings"};
    static const char *const value[] = {"false", "1", "true"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(cases.items[i].n_candidates, 1);
        assert_true(cases.items[i].cameras_known);
        const sg_report_row *row = &cases.items[i].candidate[0].row;
        size_t k = 0;
        while (k < row->n_settings && strcmp(row->key[k], key[i]) != 0) k++;
        assert_true(k < row->n_settings);
        assert_string_equal(row->value[k], value[i]);
    }
    assert_int_equal(cases.items[3].n_candidates, 0);
    assert_non_null(strstr(cases.items[3].row.no_training, "another variant: 100 M"));
    sg_report_cases_close(&cases);
    sg_csv_table_clear(&table);
}

static int ascending(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* |predicted / measured - 1| of the part's rows; *worst the largest. Returns the median. */
static double median_error(const sg_validation *v, sg_validate_class cls, const char *part, double *worst) {
    double error[64];
    size_t n = 0;
    for (size_t i = 0; i < v->n && n < 64; i++) {
        const sg_validated *r = &v->rows[i];
        if (r->cls == cls && !r->skipped[0] && strcmp(r->part, part) == 0)
            error[n++] = fabs(r->predicted / r->measured - 1);
    }
    assert_true(n > 0);
    qsort(error, n, sizeof *error, ascending);
    *worst = error[n - 1];
    return error[n / 2];
}

/* The trainings that ship, by the parameters that ship: prices that change must not spoil what they were fitted to. */
static void shipped_trainings(void **state) {
    (void)state;
    sg_csv_table table;
    sg_status status;
    sg_validation v = {0};
    sg_validate_options options = {.config_dir = CONFIGS};
    if (sg_csv_table_read(SG_SOURCE_DIR "/configs/validation/reports.csv", &table, &status))
        fail_msg("%s", status.text);
    if (sg_validate_reports(&table, &options, &v, &status)) fail_msg("%s", status.text);
    double worst, median = median_error(&v, SG_VALIDATE_REPORTS_STEP, "eager, cameras known", &worst);
    if (median > 0.10 || worst > 0.25) fail_msg("eager trainings: median %.3f, worst %.3f", median, worst);
    median = median_error(&v, SG_VALIDATE_REPORTS_STEP, "cameras by busy share", &worst);
    if (worst > 0.20) fail_msg("4 x H100: worst %.3f", worst);
    median = median_error(&v, SG_VALIDATE_REPORTS_STEP, "compiled", &worst);
    if (worst > 0.20) fail_msg("compiled trainings: worst %.3f", worst);
    median = median_error(&v, SG_VALIDATE_REPORTS_MEMORY, "CNN allocated", &worst);
    if (median > 0.01 || worst > 0.01) fail_msg("memory of CNN policies: median %.4f, worst %.4f", median, worst);
    median = median_error(&v, SG_VALIDATE_REPORTS_MEMORY, "driver", &worst);
    if (median > 0.03 || worst > 0.08) fail_msg("memory by the driver: median %.4f, worst %.4f", median, worst);
    for (size_t i = 0; i < v.n; i++) {
        const sg_validated *r = &v.rows[i];
        if (!r->skipped[0] && !r->cause[0] && !(r->measured >= r->low && r->measured <= r->high))
            fail_msg("%s: %g is not within %g to %g", r->row, r->measured, r->low, r->high);
    }
    sg_validation_clear(&v);
    sg_csv_table_clear(&table);
}

/* Batch sizes of a training from others of the same: no row sees itself, and none outside of a group has one. */
static void other_batches(void **state) {
    (void)state;
    sg_csv_table table;
    sg_status status;
    sg_validation v = {0};
    sg_validate_options options = {.config_dir = CONFIGS, .left_out = SG_LEFT_OUT_BATCHES};
    if (sg_csv_table_read(SG_SOURCE_DIR "/configs/validation/reports.csv", &table, &status))
        fail_msg("%s", status.text);
    if (sg_validate_reports(&table, &options, &v, &status)) fail_msg("%s", status.text);
    double worst, median = median_error(&v, SG_VALIDATE_BATCHES, "from one batch", &worst);
    if (median > 0.10 || worst > 0.15) fail_msg("another batch: median %.3f, worst %.3f", median, worst);
    sg_validation_clear(&v);
    sg_csv_table_clear(&table);
    v = validate("policy,policy_details,hardware,gpu_count,batch_per_gpu,update_s,framework,source,id\n"
                 "act,2 cameras 96x96,RTX 3090,1,8,0.060,lerobot,one,A\n"
                 "act,2 cameras 96x96,RTX 3090,1,64,0.180,lerobot,one,B\n"
                 "act,1 camera 96x96,RTX 3090,1,32,0.050,lerobot,one,C\n"
                 "act,2 cameras 96x96,RTX 4090,1,32,0.070,lerobot,one,D\n"
                 "act,2 cameras 96x96,RTX 3090,1,32,0.070,lerobot,two,E\n",
                 SG_LEFT_OUT_BATCHES);
    assert_int_equal(v.n, 4); /* other cameras, another GPU and another source are other trainings */
    assert_non_null(strstr(v.rows[0].row, "A, batch 8 from batch 64"));
    assert_non_null(strstr(v.rows[2].row, "B, batch 64 from batch 8"));
    for (size_t i = 1; i < 4; i += 2) { /* the same rows by the sheet alone */
        assert_int_equal(v.rows[i].cls, SG_VALIDATE_BATCHES_SHIPPED);
        assert_string_equal(v.rows[i].row, v.rows[i - 1].row);
        assert_true(v.rows[i].predicted != v.rows[i - 1].predicted);
    }
    sg_validation_clear(&v);
}

static void tables_that_are_none(void **state) {
    (void)state;
    sg_csv_table table = read_table("a,b\n1,2\n");
    sg_validate_options options = {.config_dir = CONFIGS};
    sg_validation v = {0};
    sg_status status;
    assert_int_equal(sg_validate_reports(&table, &options, &v, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "policy"));
    sg_csv_table_clear(&table);
    char *many = malloc(32 + 3 * 10001 + 1);
    assert_non_null(many);
    memcpy(many, "policy,batch_per_gpu\n", sizeof "policy,batch_per_gpu\n");
    for (size_t i = 0, n = strlen(many); i < 10001; i++, n += 3) memcpy(many + n, "a,\n", 4);
    table = read_table(many);
    assert_int_equal(sg_validate_reports(&table, &options, &v, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "more than 10000"));
    sg_csv_table_clear(&table);
    free(many);
    v = validate("policy,batch_per_gpu\n", SG_LEFT_OUT_DEVICES);
    assert_int_equal(v.n, 0);
    sg_validation_clear(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_and_reasons),    cmocka_unit_test(memory),
                                       cmocka_unit_test(cameras_by_share),     cmocka_unit_test(devices_left_out),
                                       cmocka_unit_test(fit_follows_the_rows), cmocka_unit_test(counts_tell_variants),
                                       cmocka_unit_test(shipped_trainings),    cmocka_unit_test(other_batches),
                                       cmocka_unit_test(tables_that_are_none)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
