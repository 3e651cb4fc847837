/* Fits of bandwidth-bound kernels: known parameters come back from made tables, odd rows do not bend them, few rows keep to
 * the prior, and a prior from relatives is as wide as they differ. */
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

#include "calibration/kernels/kernel_fit_rows.h"
#include "calibration/predict/predict.h"
#include "tests/support/noise.h"
#include "tests/support/priced.h"

static const char *const ops[] = {"add",  "mul",  "div",  "pow",  "addu", "mulu",   "divu",
                                  "powu", "relu", "gelu", "tanh", "ln",   "softmax"};
enum { N_OPS = sizeof ops / sizeof *ops };

/* A card that is none of the sheets. */
static sg_machine truth(void) {
    sg_machine m = sg_sheet("rtx-3090");
    m.p[SG_M_EFF_ELEMENTWISE].value = 0.81;
    m.p[SG_M_ELEMENTWISE_TWO].value = 1.03;
    m.p[SG_M_POWER_TRAFFIC].value = 1.12;
    m.p[SG_M_EVENT_ELEMENTWISE_S].value = 13e-6;
    m.p[SG_M_EVENT_NORM_S].value = 30e-6;
    m.p[SG_M_LAYER_NORM_TRAFFIC].value = 0.8;
    m.p[SG_M_LAYER_NORM_REREAD].value = 0.7;
    m.p[SG_M_LAYER_NORM_COLUMNS].value = 1.1;
    m.p[SG_M_EVENT_SOFTMAX_S].value = 20e-6;
    m.p[SG_M_SOFTMAX_TRAFFIC].value = 0.62;
    m.p[SG_M_SOFTMAX_LOOP].value = 1.35;
    m.p[SG_M_SOFTMAX_UNALIGNED].value = 0.10;
    return m;
}

/* n rows of every op, times as the machine gives them with this scatter. Every `odd`-th row takes three times as long (0: none). */
static size_t make_rows(const sg_machine *m, size_t n, double log_sd, size_t odd, sg_kernel_row *rows) {
    uint64_t state = 7;
    size_t made = 0;
    for (size_t i = 0; i < n * N_OPS; i++) {
        /* through the reader, as a table's rows are */
        char op_text[16], row_text[32], text[32];
        int64_t columns = 64 + (int64_t)(sg_noise_draw(&state) % 20000),
                count = (int64_t)(4e6 + (double)(sg_noise_draw(&state) % 100) * 2e6);
        (void)snprintf(op_text, sizeof op_text, "%s", ops[i % N_OPS]);
        (void)snprintf(row_text, sizeof row_text, "%ld", (long)(count / columns));
        (void)snprintf(text, sizeof text, "%ld", (long)columns);
        char *cells[] = {"device", "op", "rows", "cols", "latency_ms", "Made", op_text, row_text, text, "1"};
        sg_csv_table one = {.n_columns = 5, .n_rows = 1, .cells = cells};
        assert_null(sg_kernel_row_read(&one, 0, &rows[made]));
        double seconds;
        sg_status status = {0};
        if (sg_machine_price_alone(m, sg_kernel_row_op(&rows[made]), &seconds, NULL, &status))
            fail_msg("%s", status.text);
        rows[made].seconds = seconds * exp(log_sd * sg_noise_normal(&state)) * (odd && i % odd == 0 ? 3 : 1);
        made++;
    }
    return made;
}

static void fit(const sg_kernel_row *rows, size_t n, sg_machine *m, sg_row_scatter *scatter) {
    const sg_kernel_row **at = calloc(n, sizeof(const sg_kernel_row *));
    sg_status status = {0};
    assert_non_null(at);
    for (size_t i = 0; i < n; i++) at[i] = &rows[i];
    if (sg_fit_rows(at, n, "made.csv: rows", m, scatter, &status)) fail_msg("%s", status.text);
    free((void *)at);
}

static void recovers(double log_sd, size_t odd, double tolerance) {
    sg_machine true_one = truth(), m = sg_sheet("rtx-3090");
    enum { EACH = 60 };
    sg_kernel_row *rows = calloc((size_t)EACH * N_OPS, sizeof *rows);
    assert_non_null(rows);
    size_t n = make_rows(&true_one, EACH, log_sd, odd, rows);
    sg_row_scatter scatter;
    fit(rows, n, &m, &scatter);
    static const sg_machine_id seen[] = {SG_M_EFF_ELEMENTWISE,     SG_M_ELEMENTWISE_TWO,    SG_M_POWER_TRAFFIC,
                                         SG_M_EVENT_ELEMENTWISE_S, SG_M_LAYER_NORM_TRAFFIC, SG_M_SOFTMAX_TRAFFIC,
                                         SG_M_SOFTMAX_LOOP};
    for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
        const sg_machine_parameter *p = &m.p[seen[i]];
        double off = fabs(log(p->value / true_one.p[seen[i]].value));
        /* layer norm's traffic and time per row are told apart by little: within the doubt that the fit states */
        if (off > fmax(tolerance, 2 * p->log_sd) || off > 3 * p->log_sd)
            fail_msg("%s: %.4g fitted, %.4g true, log sd %.4g", sg_machine_key(seen[i]), p->value,
                     true_one.p[seen[i]].value, p->log_sd);
        assert_int_equal(p->evidence, SG_EVIDENCE_CALIBRATED);
        assert_string_equal(p->source, "made.csv: rows");
        assert_true(p->log_sd < sg_sheet("rtx-3090").p[seen[i]].log_sd);
    }
    for (int k = 0; k < SG_ROW_KIND_COUNT; k++) {
        if (log_sd > 0.005) assert_true(scatter.log_sd[k] > 0.6 * log_sd && scatter.log_sd[k] < 2.2 * log_sd);
        assert_true(scatter.log_sd[k] >= 0.002);
    }
    /* what was fitted is in the covariance, and what was not is as before */
    assert_non_null(m.covariance);
    const size_t eff = (size_t)SG_M_EFF_ELEMENTWISE * SG_M_COUNT;
    assert_true(fabs(sqrt(m.covariance[eff + SG_M_EFF_ELEMENTWISE]) - m.p[SG_M_EFF_ELEMENTWISE].log_sd) < 1e-6);
    assert_true(m.covariance[eff + SG_M_ELEMENTWISE_TWO] < 0); /* a faster one means a smaller other */
    assert_true(m.p[SG_M_EFF_GEMM].value == true_one.p[SG_M_EFF_GEMM].value);
    assert_true(m.p[SG_M_EFF_COPY].value == m.p[SG_M_EFF_ELEMENTWISE].value);
    sg_machine_clear(&m);
    free(rows);
}

static void test_recovers_what_is_true(void **state) {
    (void)state;
    recovers(0.001, 0, 0.02);
    recovers(0.03, 0, 0.05);
}

static void test_odd_rows(void **state) {
    (void)state;
    recovers(0.01, 17, 0.05);
}

/* Two rows move a parameter by what they say against the prior, not to what they say. */
static void test_few_rows(void **state) {
    (void)state;
    sg_machine slow = sg_sheet("rtx-3090"), m = sg_sheet("rtx-3090");
    slow.p[SG_M_EFF_ELEMENTWISE].value = 0.4;
    sg_kernel_row rows[2 * N_OPS];
    (void)make_rows(&slow, 2, 0, 0, rows);
    const sg_kernel_row *add[2] = {&rows[0], &rows[N_OPS]};
    assert_string_equal(add[1]->name, "add");
    sg_status status = {0};
    sg_row_scatter scatter;
    assert_int_equal(sg_fit_rows(add, 2, "x", &m, &scatter, &status), SG_OK);
    assert_true(m.p[SG_M_EFF_ELEMENTWISE].value < 0.7 && m.p[SG_M_EFF_ELEMENTWISE].value > 0.4);
    assert_true(scatter.log_sd[SG_ROW_NORM] == sg_row_scatter_usual().log_sd[SG_ROW_NORM]);
    assert_true(m.p[SG_M_LAYER_NORM_TRAFFIC].value == slow.p[SG_M_LAYER_NORM_TRAFFIC].value);
    sg_machine_clear(&m);
}

/* Times that cannot be (a clock that jumped) end in a fit or in a reason, never in a value that is none. */
static void test_impossible_times(void **state) {
    (void)state;
    static const double factors[] = {1e-9, 1e9, 1e-3, 1};
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
        sg_machine true_one = truth(), m = sg_sheet("rtx-3090");
        sg_kernel_row rows[3 * N_OPS];
        size_t n = make_rows(&true_one, 3, 0.02, 0, rows);
        for (size_t i = 0; i < n; i += 2) rows[i].seconds *= factors[k];
        fit(rows, n, &m, NULL);
        for (int i = 0; i < SG_M_COUNT; i++) {
            const sg_machine_parameter *p = &m.p[i];
            if (!(isnan(p->value) || (p->value > 0 && isfinite(p->value))) || !isfinite(p->log_sd))
                fail_msg("times 1, %g: %s is %g, log sd %g", factors[k], sg_machine_key((sg_machine_id)i), p->value,
                         p->log_sd);
        }
        sg_machine_clear(&m);
    }
}

static sg_csv_table table_of(const char *text) {
    char *path = NULL;
    if (asprintf(&path, "/tmp/stepgauge-rows-%d.csv", (int)getpid()) < 0) fail();
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    sg_csv_table table;
    sg_status status = {0};
    if (sg_csv_table_read(path, &table, &status)) fail_msg("%s", status.text);
    (void)unlink(path);
    free(path);
    return table;
}

static void test_tables(void **state) {
    (void)state;
    sg_status status = {0};
    sg_machine m = sg_sheet("t4");
    sg_csv_table t = table_of("device,op,rows,cols,latency_ms\n"
                              "Tesla T4,add,32768,2048,3.4\n"
                              "Tesla T4,mulu,32768,4096,4.6\n"
                              "Tesla T4,conv,32768,2048,3.4\n"
                              "Tesla T4,add,0,2048,3.4\n"
                              "Tesla T4,add,1.5,2048,3.4\n"
                              "Tesla T4,add,1000000,1000000000,3.4\n"
                              "Tesla T4,add,5,2048,-1\n"
                              "Tesla T4,add,5,2048,nan\n"
                              "Tesla T4,softmax,5,,1\n"
                              "Other,add,32768,2048,9\n");
    assert_int_equal(sg_fit_kernel_rows(&t, "Tesla T4", &m, &status), SG_OK);
    assert_non_null(strstr(m.p[SG_M_EFF_ELEMENTWISE].source, "2 kernels"));
    /* in a step the share may be another than in a table; the listed bandwidth is nominal from here on */
    sg_machine alone = m;
    assert_true(m.p[SG_M_EFF_ELEMENTWISE].log_sd >= 0.03 && m.p[SG_M_BANDWIDTH].log_sd == 0);
    sg_row_doubt_of_kernels(&alone);
    assert_true(fabs(hypot(alone.p[SG_M_EFF_ELEMENTWISE].log_sd, 0.03) / m.p[SG_M_EFF_ELEMENTWISE].log_sd - 1) < 1e-9);
    assert_int_equal(sg_fit_kernel_rows(&t, "Nothing", &m, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "Nothing"));
    sg_kernel_row row;
    assert_null(sg_kernel_row_read(&t, 1, &row));
    assert_int_equal(row.kind, SG_ROW_ELEMENTWISE);
    assert_null(sg_op_check(sg_kernel_row_op(&row)));
    for (size_t i = 2; i < 9; i++) assert_non_null(sg_kernel_row_read(&t, i, &row));
    sg_csv_table_clear(&t);
    t = table_of("device,op,rows,latency_ms\nTesla T4,add,32768,3.4\n");
    assert_int_equal(sg_fit_kernel_rows(&t, NULL, &m, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "cols"));
    sg_csv_table_clear(&t);
    /* a machine that states no start cannot be fitted to kernels that start */
    sg_machine_clear(&m);
    m = sg_sheet("cpu");
    t = table_of("device,op,rows,cols,latency_ms\nX,add,32768,2048,3.4\n");
    assert_int_equal(sg_fit_kernel_rows(&t, "X", &m, &status), SG_BAD_INPUT);
    assert_non_null(strstr(status.text, "event_elementwise_s"));
    sg_csv_table_clear(&t);
    sg_machine_clear(&m);
}

/* Every op of a table is an op of the program, and moves what it should. */
static void test_ops_of_rows(void **state) {
    (void)state;
    sg_machine m = truth();
    sg_kernel_row rows[N_OPS];
    (void)make_rows(&m, 1, 0, 0, rows);
    for (size_t i = 0; i < N_OPS; i++) {
        const sg_op *op = sg_kernel_row_op(&rows[i]);
        assert_null(sg_op_check(op));
        sg_cost cost = sg_op_cost(op);
        double elements = (double)rows[i].rows * (double)rows[i].columns,
               each = (cost.bytes_read + cost.bytes_written) / elements;
        if (i < 4)
            assert_true(each == 12);
        else if (i < 11 || i == 12)
            assert_true(each == 8);
        else
            assert_true(each > 8 && each < 8.3);
    }
}

static void test_prior_from_relatives(void **state) {
    (void)state;
    sg_machine others[3] = {sg_sheet("a100-pcie-80gb"), sg_sheet("l4"), sg_sheet("t4")}, m = sg_sheet("a100-sxm-40gb");
    const double eff[3] = {0.9, 0.78, 0.75};
    for (int i = 0; i < 3; i++)
        others[i].p[SG_M_EFF_ELEMENTWISE] = (sg_machine_parameter){eff[i], 0.01, SG_EVIDENCE_CALIBRATED, 0, "made"};
    sg_row_prior_from(others, 3, &m);
    /* memory like that of the A100 counts most */
    assert_true(m.p[SG_M_EFF_ELEMENTWISE].value > 0.86 && m.p[SG_M_EFF_ELEMENTWISE].value < 0.9);
    assert_true(m.p[SG_M_EFF_ELEMENTWISE].log_sd > 0.04);
    assert_int_equal(m.p[SG_M_EFF_ELEMENTWISE].evidence, SG_EVIDENCE_DATA_SHEET);
    sg_machine gddr = sg_sheet("rtx-a6000");
    sg_row_prior_from(others, 3, &gddr);
    assert_true(gddr.p[SG_M_EFF_ELEMENTWISE].value > 0.75 && gddr.p[SG_M_EFF_ELEMENTWISE].value < 0.79);
    /* nobody else: the sheet's own stays */
    sg_machine alone = sg_sheet("rtx-a6000");
    double before = alone.p[SG_M_EFF_ELEMENTWISE].value;
    sg_row_prior_from(NULL, 0, &alone);
    assert_true(alone.p[SG_M_EFF_ELEMENTWISE].value == before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recovers_what_is_true),
        cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_few_rows),
        cmocka_unit_test(test_impossible_times),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_ops_of_rows),
        cmocka_unit_test(test_prior_from_relatives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
