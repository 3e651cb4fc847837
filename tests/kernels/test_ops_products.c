/* cpu against reference: matrix products and convolutions. */
#include "tests/support/op_case.h"
#include "tests/support/op_device.h"

static op_bench bench;

typedef struct product {
    int ndim;
    int64_t size[5]; /* batch dims, m, k, n */
} product;

static const product PRODUCTS[] = {
    {2, {1, 1, 1}},       {2, {3, 5, 7}},          {2, {17, 33, 65}},     {2, {1, 512, 300}},
    {2, {5, 130, 1}},     {2, {128, 192, 160}},    {3, {1, 4, 4, 4}},     {3, {5, 7, 9, 11}},
    {4, {2, 3, 5, 6, 4}}, {4, {2, 4, 33, 16, 65}}, {3, {12, 64, 64, 64}},
};

typedef struct mode {
    sg_dtype in, out;
    sg_compute compute;
} mode;

static const mode MODES[] = {
    {SG_F32, SG_F32, SG_COMPUTE_F32},  {SG_BF16, SG_BF16, SG_COMPUTE_BF16}, {SG_BF16, SG_F32, SG_COMPUTE_BF16},
    {SG_F32, SG_F32, SG_COMPUTE_TF32}, {SG_F32, SG_F32, SG_COMPUTE_BF16},   {SG_F16, SG_F16, SG_COMPUTE_F16},
    {SG_F64, SG_F64, SG_COMPUTE_F64},
};

static void matmul(const product *p, mode m, op_layout a, op_layout b, op_layout c, sg_attrs attrs) {
    op_case one;
    attrs.compute = m.compute;
    op_case_begin(&one, SG_OP_MATMUL, attrs);
    int batch = p->ndim - 2;
    int64_t rows = p->size[batch], inner = p->size[batch + 1], columns = p->size[batch + 2];
    int64_t sa[4], sb[4], sc[4];
    for (int d = 0; d < batch; d++) sa[d] = sb[d] = sc[d] = p->size[d];
    sa[batch] = sc[batch] = rows;
    sa[batch + 1] = sb[batch] = inner;
    sb[batch + 1] = sc[batch + 1] = columns;
    op_case_input(&one, op_desc(m.in, a, p->ndim, sa), -1, 1);
    op_case_input(&one, op_desc(m.in, b, p->ndim, sb), -1, 1);
    if (attrs.flags & SG_HAS_BIAS) op_case_input(&one, op_desc(m.in, OP_PLAIN, 1, &columns), -1, 1);
    if (attrs.flags & SG_HAS_RESIDUAL) op_case_input(&one, op_desc(m.out, c, p->ndim, sc), -1, 1);
    op_case_output(&one, op_desc(m.out, c, p->ndim, sc));
    op_case_check(&bench, &one, "%s->%s compute %d, %dd %lldx%lldx%lld, %s %s %s, flags %x act %s", sg_dtype_name(m.in),
                  sg_dtype_name(m.out), m.compute, p->ndim, (long long)rows, (long long)inner, (long long)columns,
                  op_layout_name(a), op_layout_name(b), op_layout_name(c), attrs.flags, sg_fn_name((sg_fn)attrs.act));
}

static void test_matmul_shapes(void **state) {
    (void)state;
    for (size_t p = 0; p < sizeof PRODUCTS / sizeof *PRODUCTS; p++)
        for (size_t m = 0; m < sizeof MODES / sizeof *MODES; m++)
            matmul(&PRODUCTS[p], MODES[m], OP_PLAIN, OP_PLAIN, OP_PLAIN, (sg_attrs){.alpha = 1});
    op_bench_expect_all(&bench);
}

static void test_matmul_layouts(void **state) {
    (void)state;
    static const op_layout of_a[] = {OP_PLAIN, OP_TRANSPOSED, OP_SLICED, OP_HEADS, OP_REPEATED_ROWS};
    static const op_layout of_c[] = {OP_PLAIN, OP_TRANSPOSED, OP_SLICED, OP_HEADS};
    static const product shapes[] = {{2, {17, 33, 9}}, {3, {5, 7, 9, 11}}, {4, {2, 3, 5, 16, 7}}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (size_t m = 0; m < 2; m++)
            for (size_t a = 0; a < sizeof of_a / sizeof *of_a; a++)
                for (size_t b = 0; b < sizeof of_a / sizeof *of_a; b++)
                    for (size_t c = 0; c < sizeof of_c / sizeof *of_c; c++)
                        matmul(&shapes[s], MODES[m], of_a[a], of_a[b], of_c[c], (sg_attrs){.alpha = 0.375});
    op_bench_expect_all(&bench);
}

static const sg_fn ACTIVATIONS[] = {SG_FN_NONE, SG_FN_RELU, SG_FN_GELU_TANH, SG_FN_GELU_ERF,
                                    SG_FN_SILU, SG_FN_TANH, SG_FN_SIGMOID,   SG_FN_ELU};
static const uint32_t ADDENDS[] = {0, SG_HAS_BIAS, SG_HAS_RESIDUAL, SG_HAS_BIAS | SG_HAS_RESIDUAL};

/* An additive mask is the same for every sample and head. */
static void test_matmul_repeated_residual(void **state) {
    (void)state;
    static const op_layout layouts[] = {OP_REPEATED_ROWS, OP_REPEATED_LAST};
    for (size_t m = 0; m < 3; m++)
        for (size_t l = 0; l < 2; l++) {
            sg_desc a = op_desc(MODES[m].in, OP_PLAIN, 3, (int64_t[]){4, 5, 6}),
                    b = op_desc(MODES[m].in, OP_PLAIN, 3, (int64_t[]){4, 6, 7});
            sg_desc residual = op_desc(MODES[m].out, layouts[l], 3, (int64_t[]){4, 5, 7});
            op_case one;
            op_case_begin(&one, SG_OP_MATMUL,
                          (sg_attrs){.alpha = 0.5, .compute = MODES[m].compute, .flags = SG_HAS_RESIDUAL});
            op_case_input(&one, a, -1, 1);
            op_case_input(&one, b, -1, 1);
            op_case_input(&one, residual, -1, 1);
            op_case_output(&one, op_desc(MODES[m].out, OP_PLAIN, 3, residual.size));
            op_case_check(&bench, &one, "%s->%s, residual with %s", sg_dtype_name(MODES[m].in),
                          sg_dtype_name(MODES[m].out), op_layout_name(layouts[l]));
        }
    op_bench_expect_all(&bench);
}

static void test_matmul_fused(void **state) {
    (void)state;
    static const product shapes[] = {{2, {19, 24, 33}}, {3, {2, 9, 8, 17}}};
    for (size_t s = 0; s < 2; s++)
        for (size_t m = 0; m < 3; m++)
            for (size_t f = 0; f < 4; f++)
                for (size_t a = 0; a < sizeof ACTIVATIONS / sizeof *ACTIVATIONS; a++) {
                    sg_attrs attrs = {
                        .alpha = 1, .flags = ADDENDS[f] | (s == 0 ? SG_WEIGHT_B : 0), .act = ACTIVATIONS[a]};
                    matmul(&shapes[s], MODES[m], OP_PLAIN, OP_TRANSPOSED, OP_PLAIN, attrs);
                }
    op_bench_expect_all(&bench);
}

/* ---- convolutions ------------------------------------------------------------------------------------------------ */

typedef struct window {
    int64_t n, c, h, w, o;
    int kernel[2], stride[2], pad[2];
} window;

static const window WINDOWS[] = {
    {1, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}},       {2, 3, 9, 11, 4, {3, 3}, {1, 1}, {1, 1}},
    {1, 3, 33, 40, 16, {7, 7}, {2, 2}, {3, 3}},    {2, 16, 15, 13, 24, {3, 3}, {2, 2}, {1, 1}},
    {2, 8, 14, 14, 17, {1, 1}, {2, 2}, {0, 0}},    {1, 5, 7, 9, 3, {2, 3}, {1, 2}, {0, 1}},
    {2, 3, 32, 32, 8, {16, 16}, {16, 16}, {0, 0}}, {1, 32, 24, 24, 32, {3, 3}, {1, 1}, {1, 1}},
};

static sg_attrs window_attrs(const window *w) {
    sg_attrs attrs = {
        .kernel = {w->kernel[0], w->kernel[1]}, .stride = {w->stride[0], w->stride[1]}, .pad = {w->pad[0], w->pad[1]}};
    return attrs;
}

typedef struct planes {
    sg_desc x, w, y, bias;
} planes;

static planes planes_of(const window *w, mode m, op_layout layout) {
    int64_t rows = (w->h + 2 * w->pad[0] - w->kernel[0]) / w->stride[0] + 1;
    int64_t columns = (w->w + 2 * w->pad[1] - w->kernel[1]) / w->stride[1] + 1;
    planes p = {op_desc(m.in, layout, 4, (int64_t[]){w->n, w->c, w->h, w->w}),
                op_desc(m.in, layout, 4, (int64_t[]){w->o, w->c, w->kernel[0], w->kernel[1]}),
                op_desc(m.out, layout, 4, (int64_t[]){w->n, w->o, rows, columns}), op_desc(m.in, OP_PLAIN, 1, &w->o)};
    return p;
}

static void check_conv(op_case *one, const window *w, mode m, op_layout layout) {
    op_case_check(&bench, one, "%s->%s compute %d, window %d, %s, flags %x act %s", sg_dtype_name(m.in),
                  sg_dtype_name(m.out), m.compute, (int)(w - WINDOWS), op_layout_name(layout), one->op.attrs.flags,
                  sg_fn_name((sg_fn)one->op.attrs.act));
}

static void conv(const window *w, mode m, op_layout layout, uint32_t flags, sg_fn act) {
    planes p = planes_of(w, m, layout);
    op_case one;
    sg_attrs attrs = window_attrs(w);
    attrs.compute = m.compute;
    attrs.flags = flags;
    attrs.act = act;
    op_case_begin(&one, SG_OP_CONV, attrs);
    op_case_input(&one, p.x, -1, 1);
    op_case_input(&one, p.w, -1, 1);
    if (flags & SG_HAS_BIAS) op_case_input(&one, p.bias, -1, 1);
    if (flags & SG_HAS_RESIDUAL) op_case_input(&one, p.y, -1, 1);
    op_case_output(&one, p.y);
    check_conv(&one, w, m, layout);
}

static void conv_backward(const window *w, mode m, op_layout layout) {
    planes p = planes_of(w, (mode){m.in, m.in, m.compute}, layout),
           q = planes_of(w, (mode){m.out, m.out, m.compute}, layout);
    op_case one;
    sg_attrs attrs = window_attrs(w);
    attrs.compute = m.compute;
    op_case_begin(&one, SG_OP_CONV_BWD_DATA, attrs);
    op_case_input(&one, p.y, -1, 1);
    op_case_input(&one, p.w, -1, 1);
    op_case_output(&one, q.x);
    check_conv(&one, w, m, layout);
    for (int bias = 0; bias < 2; bias++) {
        attrs.flags = bias ? SG_HAS_BIAS : 0;
        op_case_begin(&one, SG_OP_CONV_BWD_WEIGHTS, attrs);
        op_case_input(&one, p.y, -1, 1);
        op_case_input(&one, p.x, -1, 1);
        op_case_output(&one, q.w);
        if (bias) op_case_output(&one, q.bias);
        check_conv(&one, w, m, layout);
    }
}

static const op_layout IMAGES[] = {OP_PLAIN, OP_CHANNELS_LAST};

static void test_conv_shapes(void **state) {
    (void)state;
    /* a convolution's tensors share one dtype in every framework */
    for (size_t w = 0; w < sizeof WINDOWS / sizeof *WINDOWS; w++)
        for (size_t m = 0; m < sizeof MODES / sizeof *MODES; m++)
            for (size_t l = 0; l < 2 && MODES[m].in == MODES[m].out; l++) {
                conv(&WINDOWS[w], MODES[m], IMAGES[l], 0, SG_FN_NONE);
                conv_backward(&WINDOWS[w], MODES[m], IMAGES[l]);
            }
    op_bench_expect_all(&bench);
}

static void test_conv_fused(void **state) {
    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (size_t l = 0; l < 2; l++)
            for (size_t f = 0; f < 4; f++)
                for (size_t a = 0; a < sizeof ACTIVATIONS / sizeof *ACTIVATIONS; a++)
                    conv(&WINDOWS[3], MODES[m], IMAGES[l], ADDENDS[f] | SG_WEIGHT_B, ACTIVATIONS[a]);
    op_bench_expect_all(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_shapes), cmocka_unit_test(test_matmul_layouts),
        cmocka_unit_test(test_matmul_fused),  cmocka_unit_test(test_matmul_repeated_residual),
        cmocka_unit_test(test_conv_shapes),   cmocka_unit_test(test_conv_fused),
    };
    return op_device_tests(tests, &bench);
}
