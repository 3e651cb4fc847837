/* cpu against reference: softmax, layer norm and RMS norm over the last dim. */
#include "tests/support/op_device.h"

static op_bench bench;

static const int64_t SHAPES[][2] = {{1, 1}, {3, 5}, {7, 33}, {2, 16}, {64, 130}, {100, 768}, {5, 4097}};
enum { N_SHAPES = sizeof SHAPES / sizeof *SHAPES };
static const sg_dtype DTYPES[] = {SG_F32, SG_BF16, SG_F16, SG_F64};
enum { N_DTYPES = sizeof DTYPES / sizeof *DTYPES };
/* Large enough for threads: the rarer dtypes take the same path. */
static int dtypes_of(int shape) {
    return SHAPES[shape][0] * SHAPES[shape][1] > 9000 ? 2 : N_DTYPES;
}
static const op_layout LAYOUTS[] = {OP_PLAIN, OP_SLICED, OP_TRANSPOSED};
enum { N_LAYOUTS = sizeof LAYOUTS / sizeof *LAYOUTS };

static void check(op_case *c, const sg_desc *x, op_layout layout) {
    op_case_check(&bench, c, "%s %dd, last %lld, %s, flags %x", sg_dtype_name((sg_dtype)x->dtype), x->ndim,
                  (long long)x->size[x->ndim - 1], op_layout_name(layout), c->op.attrs.flags);
}

/* y of softmax(x), to be freed. */
static double *probabilities(const sg_desc *x) {
    op_case one;
    double *y = NULL;
    op_case_begin(&one, SG_OP_SOFTMAX, (sg_attrs){0});
    op_case_input(&one, *x, -4, 4);
    op_case_output(&one, *x);
    op_case_solve(&bench, &one, 1, &y);
    return y;
}

static void softmax(sg_desc x, op_layout layout, double range, uint32_t flags) {
    op_case one;
    op_case_begin(&one, SG_OP_SOFTMAX, (sg_attrs){.flags = flags});
    op_case_input(&one, x, -range, range);
    op_case_output(&one, x);
    check(&one, &x, layout);
    double *y = probabilities(&x);
    op_case_begin(&one, SG_OP_SOFTMAX_BWD, (sg_attrs){.flags = flags});
    op_case_input(&one, x, -1, 1);
    op_case_values(&one, x, y);
    op_case_output(&one, x);
    check(&one, &x, layout);
    free(y);
}

static void norm(sg_desc x, op_layout layout, bool layer, double offset) {
    sg_desc w = op_desc((sg_dtype)x.dtype, OP_PLAIN, 1, &x.size[x.ndim - 1]);
    sg_desc rows = op_desc(x.dtype == SG_F64 ? SG_F64 : SG_F32, OP_PLAIN, x.ndim - 1, x.size);
    sg_attrs attrs = {.eps = 1e-5};
    double *vx = op_values(&x, offset - 2, offset + 2, 1), *vw = op_values(&w, 0.5, 1.5, 2), *out[3];
    for (int pass = 0; pass < 2; pass++) {
        op_case one;
        op_case_begin(&one, layer ? SG_OP_LAYER_NORM : SG_OP_RMS_NORM, attrs);
        op_case_values(&one, x, vx);
        op_case_values(&one, w, vw);
        if (layer) op_case_input(&one, w, -1, 1);
        op_case_output(&one, x);
        for (int i = 0; i < 1 + layer; i++) op_case_output(&one, rows);
        if (pass == 0)
            check(&one, &x, layout);
        else
            op_case_solve(&bench, &one, 2 + layer, out);
    }
    static const uint32_t wanted[] = {0, SG_NO_DX, SG_NO_DW};
    for (int f = 0; f < 3; f++) {
        op_case one;
        attrs.flags = wanted[f];
        op_case_begin(&one, layer ? SG_OP_LAYER_NORM_BWD : SG_OP_RMS_NORM_BWD, attrs);
        op_case_input(&one, x, -1, 1);
        op_case_values(&one, x, vx);
        for (int i = 0; i < 1 + layer; i++) op_case_values(&one, rows, out[1 + i]);
        op_case_values(&one, w, vw);
        if (wanted[f] != SG_NO_DX) op_case_output(&one, x);
        if (wanted[f] != SG_NO_DW)
            for (int i = 0; i < 1 + layer; i++) op_case_output(&one, w);
        check(&one, &x, layout);
    }
    for (int i = 0; i < 2 + layer; i++) free(out[i]);
    free(vx);
    free(vw);
}

static void test_softmax(void **state) {
    (void)state;
    for (int s = 0; s < N_SHAPES; s++)
        for (int t = 0; t < dtypes_of(s); t++)
            for (int l = 0; l < N_LAYOUTS; l++) {
                sg_desc x = op_desc(DTYPES[t], LAYOUTS[l], 2, SHAPES[s]);
                softmax(x, LAYOUTS[l], 4, 0);
                softmax(x, LAYOUTS[l], 40, SG_IN_PLACE);
            }
    softmax(op_desc(SG_F32, OP_HEADS, 4, (int64_t[]){2, 3, 4, 17}), OP_HEADS, 4, 0);
    softmax(op_desc(SG_F32, OP_PLAIN, 1, (int64_t[]){9}), OP_PLAIN, 4, 0);
    op_bench_expect_all(&bench);
}

/* Masked scores are -inf or the dtype's lowest number; at least one key stays. */
static void test_softmax_of_masked(void **state) {
    (void)state;
    static const double masked[] = {-INFINITY, -3.3895313892515355e38};
    for (int t = 0; t < 2; t++)
        for (int m = 0; m < 2; m++) {
            sg_desc x = op_desc(DTYPES[t], OP_PLAIN, 2, (int64_t[]){6, 37});
            double *values = op_values(&x, -3, 3, 4);
            for (int64_t i = 0; i < 6 * 37; i++)
                if (i % 37 % 6 != i / 37 && i % 3) values[i] = masked[m];
            op_case one;
            op_case_begin(&one, SG_OP_SOFTMAX, (sg_attrs){0});
            op_case_values(&one, x, values);
            op_case_output(&one, x);
            check(&one, &x, OP_PLAIN);
            free(values);
        }
    op_bench_expect_all(&bench);
}

static void norms(bool layer) {
    for (int s = 0; s < N_SHAPES; s++)
        for (int t = 0; t < dtypes_of(s); t++)
            for (int l = 0; l < N_LAYOUTS; l++) {
                if (SHAPES[s][1] == 1) continue; /* a single element has no spread */
                norm(op_desc(DTYPES[t], LAYOUTS[l], 2, SHAPES[s]), LAYOUTS[l], layer, 0);
            }
    norm(op_desc(SG_F32, OP_HEADS, 4, (int64_t[]){2, 3, 4, 17}), OP_HEADS, layer, 0);
    norm(op_desc(SG_F32, OP_PLAIN, 3, (int64_t[]){2, 30, 64}), OP_PLAIN, layer, 20); /* mean far above the spread */
    op_bench_expect_all(&bench);
}

static void test_layer_norm(void **state) {
    (void)state;
    norms(true);
}

static void test_rms_norm(void **state) {
    (void)state;
    norms(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_softmax_of_masked),
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_rms_norm),
    };
    return op_device_tests(tests, &bench);
}
