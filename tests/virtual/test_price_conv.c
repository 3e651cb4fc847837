/* Prices of convolutions and fused attention: derivatives, occupancy of small ones, autocast, one row as a product. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "kernels/virtual/machine.h"
#include "tests/support/priced.h"

typedef struct sample {
    sg_op op;
    sg_desc desc[10];
} sample;

/* 3x3 (one row: 1x3) with padding, b images of c x h x w to o channels. */
static void make_conv(sample *s, sg_op_kind kind, sg_compute compute, int64_t b, int64_t c, int64_t h, int64_t w,
                      int64_t o, int stride) {
    sg_dtype type = compute == SG_COMPUTE_BF16 ? SG_BF16 : compute == SG_COMPUTE_F16 ? SG_F16 : SG_F32;
    int kh = h > 1 ? 3 : 1;
    int64_t x[4] = {b, c, h, w}, weight[4] = {o, c, kh, 3},
            y[4] = {b, o, h > 1 ? (h - 1) / stride + 1 : 1, (w - 1) / stride + 1};
    sg_desc dx = sg_desc_make(type, 4, x), dw = sg_desc_make(type, 4, weight), dy = sg_desc_make(type, 4, y);
    memset(s, 0, sizeof *s);
    s->op = (sg_op){.kind = kind, .n_in = 2, .n_out = 1, .desc = s->desc};
    s->op.attrs.compute = compute;
    s->op.attrs.kernel[0] = kh;
    s->op.attrs.kernel[1] = 3;
    s->op.attrs.stride[0] = h > 1 ? stride : 1;
    s->op.attrs.stride[1] = stride;
    s->op.attrs.pad[0] = h > 1;
    s->op.attrs.pad[1] = 1;
    s->desc[0] = kind == SG_OP_CONV ? dx : dy;
    s->desc[1] = kind == SG_OP_CONV_BWD_WEIGHTS ? dx : dw;
    s->desc[2] = kind == SG_OP_CONV ? dy : kind == SG_OP_CONV_BWD_DATA ? dx : dw;
    const char *wrong = sg_op_check(&s->op);
    if (wrong) fail_msg("%s", wrong);
}

static void make_attention(sample *s, bool backward, bool mask, sg_compute compute, int64_t b, int64_t h, int64_t t,
                           int64_t keys, int64_t d) {
    sg_dtype type = compute == SG_COMPUTE_BF16 ? SG_BF16 : SG_F32;
    int64_t q[4] = {b, h, t, d}, k[4] = {b, h, keys, d}, rows[3] = {b, h, t}, m[4] = {b, h, t, keys};
    sg_desc dq = sg_desc_make(type, 4, q), dk = sg_desc_make(type, 4, k), lse = sg_desc_make(SG_F32, 3, rows),
            dm = sg_desc_make(SG_BOOL, 4, m);
    memset(s, 0, sizeof *s);
    s->op = (sg_op){.kind = backward ? SG_OP_ATTENTION_BWD : SG_OP_ATTENTION, .desc = s->desc};
    s->op.attrs.compute = compute;
    s->op.attrs.alpha = 0.125;
    sg_desc forward[6] = {dq, dk, dk}, back[9] = {dq, dq, dk, dk, dq, lse};
    int n = backward ? 6 : 3;
    memcpy(s->desc, backward ? back : forward, (size_t)n * sizeof *s->desc);
    if (mask) {
        s->op.attrs.flags |= SG_HAS_MASK;
        dm.stride[0] = dm.stride[1] = 0;
        s->desc[n++] = dm;
    }
    s->op.n_in = n;
    s->op.n_out = backward ? 3 : 2;
    if (n + s->op.n_out > 10) fail_msg("no room");
    s->desc[n] = dq;
    s->desc[n + 1] = backward ? dk : lse;
    if (backward) s->desc[n + 2] = dk;
    const char *wrong = sg_op_check(&s->op);
    if (wrong) fail_msg("%s", wrong);
}

static const sg_op_kind kinds[] = {SG_OP_CONV, SG_OP_CONV_BWD_DATA, SG_OP_CONV_BWD_WEIGHTS};

static void test_gradients(void **state) {
    (void)state;
    static const char *const names[] = {"a100-sxm-80gb", "rtx-3090", "t4"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        sg_machine m = sg_sheet(names[n]);
        sample s;
        for (int k = 0; k < 3; k++) {
            static const sg_compute modes[] = {SG_COMPUTE_F32, SG_COMPUTE_TF32, SG_COMPUTE_F16};
            for (size_t c = 0; c < 3; c++) {
                make_conv(&s, kinds[k], modes[c], 8, 64, 120, 160, 64, 1);
                sg_expect_price_gradient(&m, &s.op, sg_machine_price);
                make_conv(&s, kinds[k], modes[c], 8, 256, 6, 6, 512, 2);
                sg_expect_price_gradient(&m, &s.op, sg_machine_price);
                make_conv(&s, kinds[k], modes[c], 64, 512, 1, 16, 512, 1);
                sg_expect_price_gradient(&m, &s.op, sg_machine_price);
            }
        }
        for (int masked = 0; masked < 2; masked++)
            for (int backward = 0; backward < 2; backward++) {
                make_attention(&s, backward, masked, SG_COMPUTE_TF32, 8, 12, 1024, 1024, 64);
                sg_expect_price_gradient(&m, &s.op, sg_machine_price);
                make_attention(&s, backward, masked, SG_COMPUTE_F32, 1, 8, 50, 200, 80);
                sg_expect_price_gradient(&m, &s.op, sg_machine_price);
            }
    }
}

/* Over large images every SM has work: FLOP at the efficiency and bytes. */
static void test_large_images(void **state) {
    (void)state;
    sg_machine m = sg_sheet("rtx-3090");
    for (int k = 0; k < 3; k++) {
        sample s;
        make_conv(&s, kinds[k], SG_COMPUTE_TF32, 64, 128, 240, 320, 128, 1);
        sg_cost cost = sg_op_cost(&s.op);
        double eff = m.p[sg_machine_eff_of(sg_op_class_of(&s.op))].value,
               plain = cost.flops / (eff * m.p[SG_M_PEAK_TF32].value) +
                       (cost.bytes_read + cost.bytes_written) /
                           (m.p[SG_M_EFF_ELEMENTWISE].value * m.p[SG_M_BANDWIDTH].value);
        double ratio = sg_op_price_s(&m, &s.op) / plain;
        if (!(ratio > 0.999 && ratio < 1.06)) fail_msg("%s: %.3f", sg_op_kind_name(kinds[k]), ratio);
    }
}

/* Small ones leave SMs idle: less than in proportion to their size, and never less than a smaller one. */
static void test_small_images(void **state) {
    (void)state;
    sg_machine m = sg_sheet("a100-sxm-80gb");
    for (int k = 0; k < 3; k++) {
        double before = 0, first = 0, last = 0;
        for (int64_t b = 1; b <= 1024; b *= 2) {
            sample s;
            make_conv(&s, kinds[k], SG_COMPUTE_TF32, b, 256, 8, 8, 256, 1);
            double now = sg_op_price_s(&m, &s.op) - m.p[SG_M_KERNEL_START_S].value;
            assert_true(now >= before * 0.999);
            before = now;
            if (b == 1) first = now;
            last = now / (double)b;
        }
        assert_true(first > 2 * last);
        /* a machine whose SMs are not counted has no idle ones */
        sg_machine unknown = m;
        unknown.units = 0;
        sample s;
        make_conv(&s, kinds[k], SG_COMPUTE_TF32, 1, 256, 8, 8, 256, 1);
        assert_true(sg_op_price_s(&unknown, &s.op) < sg_op_price_s(&m, &s.op));
    }
}

/* Autocast: 0.89 of the tf32 time over float32 images, whatever the listed rate; without tf32 a share of the fp16 rate. */
static void test_autocast(void **state) {
    (void)state;
    static const char *const names[] = {"a100-sxm-80gb", "h100-sxm", "rtx-4090"};
    sample s;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        sg_machine m = sg_sheet(names[n]);
        double start = m.p[SG_M_KERNEL_START_S].value, rule = m.p[SG_M_CONV_LOW_PRECISION].value;
        for (int k = 0; k < 3; k++) {
            make_conv(&s, kinds[k], SG_COMPUTE_TF32, 32, 64, 120, 160, 64, 1);
            double tf32 = sg_op_price_s(&m, &s.op) - start;
            make_conv(&s, kinds[k], SG_COMPUTE_BF16, 32, 64, 120, 160, 64, 1);
            double bf16 = sg_op_price_s(&m, &s.op) - start;
            assert_true(fabs(bf16 / tf32 / rule - 1) < 1e-9);
        }
    }
    sg_machine v100 = sg_sheet("v100-sxm-16gb");
    make_conv(&s, SG_OP_CONV, SG_COMPUTE_F32, 32, 64, 120, 160, 64, 1);
    double fp32 = sg_op_price_s(&v100, &s.op);
    make_conv(&s, SG_OP_CONV, SG_COMPUTE_F16, 32, 64, 120, 160, 64, 1);
    double gain = fp32 / sg_op_price_s(&v100, &s.op);
    assert_true(gain > 1.8 && gain < 4);
    /* a CPU's own rates hold */
    sg_machine cpu = sg_sheet("cpu");
    make_conv(&s, SG_OP_CONV, SG_COMPUTE_BF16, 4, 64, 60, 80, 64, 1);
    sg_cost cost = sg_op_cost(&s.op);
    double plain =
        cost.flops / (cpu.p[SG_M_EFF_CONV].value * cpu.p[SG_M_PEAK_BF16].value) +
        (cost.bytes_read + cost.bytes_written) / (cpu.p[SG_M_EFF_ELEMENTWISE].value * cpu.p[SG_M_BANDWIDTH].value) +
        cpu.p[SG_M_KERNEL_START_S].value;
    assert_true(fabs(sg_op_price_s(&cpu, &s.op) / plain - 1) < 1e-9);
}

/* A convolution over one row takes what the product of the same FLOP and sizes takes. */
static void test_one_row(void **state) {
    (void)state;
    sg_machine m = sg_sheet("rtx-3090");
    sample conv, product;
    make_conv(&conv, SG_OP_CONV, SG_COMPUTE_TF32, 64, 512, 1, 64, 512, 1);
    int64_t a[2] = {64 * 64, 512 * 3}, b[2] = {512 * 3, 512}, c[2] = {64 * 64, 512};
    memset(&product, 0, sizeof product);
    product.op = (sg_op){.kind = SG_OP_MATMUL, .n_in = 2, .n_out = 1, .desc = product.desc};
    product.op.attrs.compute = SG_COMPUTE_TF32;
    product.op.attrs.alpha = 1;
    product.desc[0] = sg_desc_make(SG_F32, 2, a);
    product.desc[1] = sg_desc_make(SG_F32, 2, b);
    product.desc[2] = sg_desc_make(SG_F32, 2, c);
    assert_null(sg_op_check(&product.op));
    double ratio = sg_op_price_s(&m, &conv.op) / sg_op_price_s(&m, &product.op);
    if (!(ratio > 0.9 && ratio < 1.02))
        fail_msg("%.3f of the product", ratio); /* the row is read once, not three times */
}

static void test_attention(void **state) {
    (void)state;
    sg_machine m = sg_sheet("a100-sxm-80gb");
    double start = m.p[SG_M_KERNEL_START_S].value;
    sample s;
    make_attention(&s, false, false, SG_COMPUTE_BF16, 64, 12, 1024, 1024, 64);
    sg_cost cost = sg_op_cost(&s.op);
    double forward = sg_op_price_s(&m, &s.op) - start,
           plain = cost.flops / (m.p[SG_M_EFF_ATTENTION].value * m.p[SG_M_PEAK_BF16].value);
    assert_true(forward / plain > 0.999 && forward / plain < 1.05);
    /* the scores are not in memory: four times the tokens, sixteen times the time, four times the bytes */
    make_attention(&s, false, false, SG_COMPUTE_BF16, 64, 12, 4096, 4096, 64);
    assert_true(fabs((sg_op_price_s(&m, &s.op) - start) / forward / 16 - 1) < 0.05);
    make_attention(&s, false, true, SG_COMPUTE_BF16, 64, 12, 1024, 1024, 64);
    double masked = sg_op_price_s(&m, &s.op) - start;
    assert_true(fabs(masked / forward * m.p[SG_M_ATTENTION_MASKED].value - 1) < 0.02);
    make_attention(&s, true, false, SG_COMPUTE_BF16, 64, 12, 1024, 1024, 64);
    double backward = sg_op_price_s(&m, &s.op) - 3 * start;
    assert_true(fabs(backward / forward / 2.5 * m.p[SG_M_ATTENTION_BACKWARD].value - 1) < 0.02);
    /* heads of 80 run as heads of 128 */
    make_attention(&s, false, false, SG_COMPUTE_BF16, 64, 12, 1024, 1024, 80);
    double wide = sg_op_price_s(&m, &s.op) - start;
    make_attention(&s, false, false, SG_COMPUTE_BF16, 64, 12, 1024, 1024, 128);
    assert_true(fabs(wide / (sg_op_price_s(&m, &s.op) - start) - 1) < 0.01);
    /* few queries leave tiles and SMs empty */
    make_attention(&s, false, false, SG_COMPUTE_BF16, 1, 8, 10, 1024, 64);
    cost = sg_op_cost(&s.op);
    assert_true(sg_op_price_s(&m, &s.op) - start >
                5 * cost.flops / (m.p[SG_M_EFF_ATTENTION].value * m.p[SG_M_PEAK_BF16].value));
    /* nothing at all where the machine says nothing of it */
    sg_machine plain_one = m;
    plain_one.p[SG_M_ATTENTION_MASKED].value = NAN;
    make_attention(&s, false, true, SG_COMPUTE_BF16, 64, 12, 1024, 1024, 64);
    assert_true(sg_op_price_s(&plain_one, &s.op) < sg_op_price_s(&m, &s.op));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients), cmocka_unit_test(test_large_images), cmocka_unit_test(test_small_images),
        cmocka_unit_test(test_autocast),  cmocka_unit_test(test_one_row),      cmocka_unit_test(test_attention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
