/* cpu against reference: every function of one, two and three numbers, in every layout and dtype. */
#include "tests/support/op_device.h"

static op_bench bench;

static const int64_t TINY[] = {1}, ODD[] = {3, 5, 7}, IMAGE[] = {2, 5, 6, 9}, LARGE[] = {5, 41, 257};
typedef struct shape {
    int ndim;
    const int64_t *size;
} shape;
static const shape SHAPES[] = {{0, TINY}, {1, TINY}, {3, ODD}, {4, IMAGE}, {3, LARGE}};
enum { N_SHAPES = 5, LARGE_SHAPE = 4 };
static const sg_dtype DTYPES[] = {SG_F32, SG_BF16, SG_F16, SG_F64};
enum { N_DTYPES = 4 };
static const op_layout LAYOUTS[] = {OP_PLAIN, OP_TRANSPOSED, OP_SLICED, OP_CHANNELS_LAST};
enum { N_LAYOUTS = 4 };

/* Large enough for threads: the rarer dtypes take the same path. */
static int dtypes_of(int shape) {
    return shape == LARGE_SHAPE ? 2 : N_DTYPES;
}

/* Where fn is defined and does not overflow. */
typedef struct range {
    double low, high, alpha, beta;
} range;

static range range_of(sg_fn fn) {
    switch (fn) {
    case SG_FN_LOG:
    case SG_FN_SQRT:
    case SG_FN_RSQRT:
    case SG_FN_RECIPROCAL: return (range){0.125, 4, 0, 0};
    case SG_FN_POW: return (range){0.125, 4, 2.5, 0};
    case SG_FN_AFFINE: return (range){-3, 3, 0.75, -0.5};
    case SG_FN_CLAMP: return (range){-3, 3, -1.5, 0.5};
    case SG_FN_DIV_SCALAR: return (range){-3, 3, 3, 0};
    case SG_FN_ELU: return (range){-5, 3, 1.25, 0};
    case SG_FN_NOT: return (range){-1, 1, 0, 0};
    default: return (range){-5, 5, 0, 0};
    }
}

static void check(op_case *c, const sg_desc *d, op_layout layout) {
    op_case_check(&bench, c, "%s->%s %dd of %lld, %s, flags %x", sg_dtype_name((sg_dtype)c->desc[0].dtype),
                  sg_dtype_name((sg_dtype)d->dtype), d->ndim, (long long)sg_desc_count(d), op_layout_name(layout),
                  c->op.attrs.flags);
}

static void unary(sg_fn fn, sg_desc x, sg_desc y, op_layout layout, uint32_t flags) {
    range r = range_of(fn);
    op_case one;
    op_case_begin(&one, SG_OP_UNARY, (sg_attrs){.fn = fn, .alpha = r.alpha, .beta = r.beta, .flags = flags});
    op_case_input(&one, x, r.low, r.high);
    op_case_output(&one, y);
    check(&one, &y, layout);
}

static void test_unary(void **state) {
    (void)state;
    for (int fn = SG_FN_RELU; fn <= SG_FN_FLOOR; fn++)
        for (int s = 0; s < N_SHAPES; s++)
            for (int t = 0; t < dtypes_of(s); t++)
                for (int l = 0; l < (s == LARGE_SHAPE ? 1 : N_LAYOUTS); l++) {
                    sg_desc x = op_desc(DTYPES[t], LAYOUTS[l], SHAPES[s].ndim, SHAPES[s].size);
                    sg_desc plain = op_desc(DTYPES[t], OP_PLAIN, SHAPES[s].ndim, SHAPES[s].size);
                    unary((sg_fn)fn, x, x, LAYOUTS[l], 0);
                    if (s == 2) unary((sg_fn)fn, x, plain, LAYOUTS[l], 0);
                    if (s != LARGE_SHAPE) unary((sg_fn)fn, x, x, LAYOUTS[l], SG_IN_PLACE);
                }
    op_bench_expect_all(&bench);
}

static void test_unary_mixed_dtypes(void **state) {
    (void)state;
    for (int fn = SG_FN_RELU; fn <= SG_FN_FLOOR; fn++) {
        sg_desc f32 = op_desc(SG_F32, OP_PLAIN, 3, ODD), bf16 = op_desc(SG_BF16, OP_PLAIN, 3, ODD);
        unary((sg_fn)fn, f32, bf16, OP_PLAIN, 0);
        unary((sg_fn)fn, bf16, f32, OP_PLAIN, 0);
    }
    static const sg_fn of_integers[] = {SG_FN_NEG, SG_FN_ABS, SG_FN_AFFINE, SG_FN_SQUARE, SG_FN_CLAMP};
    static const sg_dtype integers[] = {SG_I64, SG_I32, SG_U8};
    for (size_t f = 0; f < sizeof of_integers / sizeof *of_integers; f++)
        for (int t = 0; t < 3; t++) {
            op_case one;
            op_case_begin(&one, SG_OP_UNARY, (sg_attrs){.fn = of_integers[f], .alpha = 2, .beta = 3});
            if (of_integers[f] == SG_FN_NEG && integers[t] == SG_U8) continue;
            op_case_input(&one, op_desc(integers[t], OP_PLAIN, 3, ODD), integers[t] == SG_U8 ? 0 : -9, 9);
            op_case_output(&one, op_desc(integers[t], OP_PLAIN, 3, ODD));
            check(&one, &one.desc[1], OP_PLAIN);
        }
    unary(SG_FN_AFFINE, op_desc(SG_U8, OP_PLAIN, 4, IMAGE), op_desc(SG_F32, OP_CHANNELS_LAST, 4, IMAGE), OP_PLAIN, 0);
    unary(SG_FN_NOT, op_desc(SG_BOOL, OP_PLAIN, 3, ODD), op_desc(SG_BOOL, OP_PLAIN, 3, ODD), OP_PLAIN, 0);
    op_bench_expect_all(&bench);
}

static bool has_derivative(int fn) {
    return fn != SG_FN_NOT && fn != SG_FN_SIGN && fn != SG_FN_FLOOR;
}

/* What UNARY_BWD reads: fn of x where it reads the output, else x. */
static double *saved_of(sg_fn fn, const sg_desc *x) {
    range r = range_of(fn);
    if (!sg_fn_saves_output(fn)) return op_values(x, r.low, r.high, 5);
    op_case one;
    double *y = NULL;
    op_case_begin(&one, SG_OP_UNARY, (sg_attrs){.fn = fn, .alpha = r.alpha, .beta = r.beta});
    op_case_input(&one, *x, r.low, r.high);
    op_case_output(&one, *x);
    op_case_solve(&bench, &one, 1, &y);
    return y;
}

static void test_unary_backward(void **state) {
    (void)state;
    for (int fn = SG_FN_RELU; fn <= SG_FN_FLOOR; fn++)
        for (int s = 1; s < N_SHAPES && has_derivative(fn); s++)
            for (int t = 0; t < dtypes_of(s); t++)
                for (int l = 0; l < (s == LARGE_SHAPE ? 1 : N_LAYOUTS); l++)
                    for (int in_place = 0; in_place < 2; in_place++) {
                        range r = range_of((sg_fn)fn);
                        sg_desc x = op_desc(DTYPES[t], LAYOUTS[l], SHAPES[s].ndim, SHAPES[s].size);
                        double *saved = saved_of((sg_fn)fn, &x);
                        op_case one;
                        op_case_begin(
                            &one, SG_OP_UNARY_BWD,
                            (sg_attrs){
                                .fn = fn, .alpha = r.alpha, .beta = r.beta, .flags = in_place ? SG_IN_PLACE : 0});
                        op_case_input(&one, x, -1, 1);
                        op_case_values(&one, x, saved);
                        op_case_output(&one, x);
                        check(&one, &x, LAYOUTS[l]);
                        free(saved);
                    }
    op_bench_expect_all(&bench);
}

static bool compares(int fn) {
    return fn >= SG_FN_EQ && fn <= SG_FN_OR;
}

static void binary(sg_fn fn, sg_desc x, sg_desc y, sg_desc z, op_layout layout, uint32_t flags) {
    double low = fn == SG_FN_POWV || fn == SG_FN_DIV ? 0.25 : -2;
    op_case one;
    op_case_begin(&one, SG_OP_BINARY, (sg_attrs){.fn = fn, .alpha = 0.625, .flags = flags});
    op_case_input(&one, x, low, 2);
    op_case_input(&one, y, low, 2);
    op_case_output(&one, z);
    check(&one, &z, layout);
}

static void test_binary(void **state) {
    (void)state;
    for (int fn = SG_FN_ADD; fn <= SG_FN_POWV; fn++)
        for (int s = 0; s < N_SHAPES; s++)
            for (int t = 0; t < dtypes_of(s); t++)
                for (int l = 0; l < (s == LARGE_SHAPE ? 1 : N_LAYOUTS); l++) {
                    const shape *h = &SHAPES[s];
                    sg_desc x = op_desc(DTYPES[t], LAYOUTS[l], h->ndim, h->size),
                            plain = op_desc(DTYPES[t], OP_PLAIN, h->ndim, h->size);
                    sg_desc z = op_desc(compares(fn) ? SG_BOOL : DTYPES[t], LAYOUTS[l], h->ndim, h->size);
                    binary((sg_fn)fn, x, x, z, LAYOUTS[l], 0);
                    binary((sg_fn)fn, x, op_desc(DTYPES[t], OP_REPEATED_ROWS, h->ndim, h->size), z, LAYOUTS[l], 0);
                    if (s == LARGE_SHAPE) continue;
                    binary((sg_fn)fn, plain, x, z, LAYOUTS[l], 0);
                    binary((sg_fn)fn, op_desc(DTYPES[t], OP_REPEATED_LAST, h->ndim, h->size), x, z, LAYOUTS[l], 0);
                    if (!compares(fn)) binary((sg_fn)fn, x, plain, x, LAYOUTS[l], SG_IN_PLACE);
                }
    op_bench_expect_all(&bench);
}

/* A bias along the channels of an image, a scalar, and both operands repeated. */
static void test_binary_broadcast(void **state) {
    (void)state;
    for (int t = 0; t < N_DTYPES; t++)
        for (int l = 0; l < 2; l++) {
            op_layout layout = l ? OP_CHANNELS_LAST : OP_PLAIN;
            sg_desc x = op_desc(DTYPES[t], layout, 4, IMAGE), channel = x, scalar = x, column = x;
            for (int d = 0; d < 4; d++) {
                channel.stride[d] = d == 1;
                scalar.stride[d] = 0;
                column.stride[d] = d == 0 ? IMAGE[3] : d == 3;
            }
            binary(SG_FN_MUL, x, channel, x, layout, 0);
            binary(SG_FN_ADD, x, channel, x, layout, SG_IN_PLACE);
            binary(SG_FN_SUB, x, scalar, x, layout, 0);
            binary(SG_FN_SUB, scalar, x, x, layout, 0);
            binary(SG_FN_MUL, channel, column, x, layout, 0);
        }
    op_bench_expect_all(&bench);
}

static void test_binary_mixed_dtypes(void **state) {
    (void)state;
    for (int fn = SG_FN_ADD; fn <= SG_FN_POWV; fn++) {
        sg_desc f32 = op_desc(SG_F32, OP_PLAIN, 3, ODD), bf16 = op_desc(SG_BF16, OP_PLAIN, 3, ODD);
        sg_desc z = op_desc(compares(fn) ? SG_BOOL : SG_F32, OP_PLAIN, 3, ODD);
        binary((sg_fn)fn, f32, bf16, z, OP_PLAIN, 0);
        binary((sg_fn)fn, bf16, f32, z, OP_PLAIN, 0);
        if (!compares(fn)) binary((sg_fn)fn, f32, f32, bf16, OP_PLAIN, 0);
    }
    static const sg_dtype integers[] = {SG_I64, SG_I32, SG_U8, SG_BOOL};
    for (int fn = SG_FN_ADD; fn <= SG_FN_OR; fn++) {
        if (fn == SG_FN_DIV || fn == SG_FN_LERP || fn == SG_FN_SQUARED_DIFF || fn == SG_FN_ABS_DIFF) continue;
        for (int t = 0; t < 4; t++) {
            sg_desc x = op_desc(integers[t], OP_PLAIN, 3, ODD);
            sg_desc z = op_desc(compares(fn) ? SG_BOOL : integers[t], OP_PLAIN, 3, ODD);
            if (fn < SG_FN_EQ && integers[t] == SG_BOOL && fn != SG_FN_MUL) continue;
            if (fn == SG_FN_SUB && integers[t] == SG_U8) continue; /* would leave the range */
            op_case one;
            op_case_begin(&one, SG_OP_BINARY, (sg_attrs){.fn = fn, .alpha = 1});
            op_case_input(&one, x, 0, integers[t] == SG_BOOL ? 2 : 9);
            op_case_input(&one, x, 0, integers[t] == SG_BOOL ? 2 : 9);
            op_case_output(&one, z);
            check(&one, &z, OP_PLAIN);
        }
    }
    op_bench_expect_all(&bench);
}

/* Equal and unequal values both occur. */
static void test_comparisons_at_ties(void **state) {
    (void)state;
    for (int fn = SG_FN_MAX; fn <= SG_FN_OR; fn++)
        for (int t = 0; t < N_DTYPES; t++) {
            sg_desc x = op_desc(DTYPES[t], OP_PLAIN, 3, ODD),
                    z = op_desc(compares(fn) ? SG_BOOL : DTYPES[t], OP_PLAIN, 3, ODD);
            double *a = op_values(&x, -3, 3, 1), *b = op_values(&x, -3, 3, 2);
            for (int64_t i = 0; i < sg_desc_count(&x); i++) {
                a[i] = floor(a[i]);
                b[i] = floor(b[i]);
            }
            op_case one;
            op_case_begin(&one, SG_OP_BINARY, (sg_attrs){.fn = fn});
            op_case_values(&one, x, a);
            op_case_values(&one, x, b);
            op_case_output(&one, z);
            check(&one, &z, OP_PLAIN);
            free(a);
            free(b);
        }
    op_bench_expect_all(&bench);
}

static void ternary(sg_fn fn, sg_desc x, sg_desc y, sg_desc z, sg_desc w, op_layout layout, uint32_t flags) {
    double low = fn == SG_FN_ADDCDIV ? 0.25 : -2;
    op_case one;
    op_case_begin(&one, SG_OP_TERNARY, (sg_attrs){.fn = fn, .alpha = -0.75, .beta = 1, .flags = flags});
    op_case_input(&one, x, x.dtype == SG_BOOL ? 0 : low, 2);
    int second = op_case_input(&one, y, y.dtype == SG_BOOL ? 0 : low, 2);
    if (fn == SG_FN_CLAMP_BWD || fn == SG_FN_MASKED_FILL)
        op_case_values(&one, y, one.value[second]);
    else
        op_case_input(&one, z, low, 2);
    op_case_output(&one, w);
    check(&one, &w, layout);
}

static void test_ternary(void **state) {
    (void)state;
    for (int fn = SG_FN_WHERE; fn <= SG_FN_MASKED_FILL; fn++)
        for (int s = 0; s < N_SHAPES; s++)
            for (int t = 0; t < N_DTYPES; t++)
                for (int l = 0; l < (s == LARGE_SHAPE ? 1 : N_LAYOUTS); l++) {
                    const shape *h = &SHAPES[s];
                    sg_dtype first = fn == SG_FN_WHERE ? SG_BOOL : DTYPES[t],
                             second = fn == SG_FN_MASKED_FILL ? SG_BOOL : DTYPES[t];
                    sg_desc x = op_desc(first, LAYOUTS[l], h->ndim, h->size),
                            y = op_desc(second, LAYOUTS[l], h->ndim, h->size);
                    sg_desc z = op_desc(DTYPES[t], LAYOUTS[l], h->ndim, h->size),
                            repeated = op_desc(second, OP_REPEATED_ROWS, h->ndim, h->size);
                    ternary((sg_fn)fn, x, y, z, z, LAYOUTS[l], 0);
                    ternary((sg_fn)fn, x, repeated, z, z, LAYOUTS[l], 0);
                    if (fn != SG_FN_WHERE) ternary((sg_fn)fn, x, repeated, z, x, LAYOUTS[l], SG_IN_PLACE);
                }
    op_bench_expect_all(&bench);
}

/* Adam's corrections of alpha come from the launch. */
static void test_alpha_from_step(void **state) {
    (void)state;
    static const uint32_t flags[] = {SG_STEP_SIZE, SG_STEP_SQRT};
    for (int f = 0; f < 2; f++)
        for (int step = 1; step < 300; step += 99) {
            sg_desc x = op_desc(SG_F32, OP_PLAIN, 3, ODD);
            sg_attrs attrs = {.flags = flags[f] | SG_IN_PLACE, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999};
            for (int operands = 1; operands <= 3; operands++) {
                static const sg_op_kind kinds[] = {SG_OP_UNARY, SG_OP_BINARY, SG_OP_TERNARY};
                static const sg_fn fns[] = {SG_FN_DIV_SCALAR, SG_FN_ADD, SG_FN_ADDCDIV};
                op_case one;
                attrs.fn = fns[operands - 1];
                op_case_begin(&one, kinds[operands - 1], attrs);
                one.launch.step = (uint64_t)step;
                for (int i = 0; i < operands; i++) op_case_input(&one, x, 0.5, 1);
                op_case_output(&one, x);
                check(&one, &x, OP_PLAIN);
            }
        }
    op_bench_expect_all(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_unary_mixed_dtypes),
        cmocka_unit_test(test_unary_backward),
        cmocka_unit_test(test_binary),
        cmocka_unit_test(test_binary_broadcast),
        cmocka_unit_test(test_binary_mixed_dtypes),
        cmocka_unit_test(test_comparisons_at_ties),
        cmocka_unit_test(test_ternary),
        cmocka_unit_test(test_alpha_from_step),
    };
    return op_device_tests(tests, &bench);
}
