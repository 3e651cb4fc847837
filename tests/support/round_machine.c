/* round_machine.c: numbers a test can multiply by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/round_machine.h"

sg_machine sg_round_machine(void) {
    sg_machine m;
    sg_machine_init(&m);
    (void)snprintf(m.name, sizeof m.name, "round");
    (void)snprintf(m.device_class, sizeof m.device_class, "cuda");
    m.caching_allocator = true;
    m.memory_bytes = (uint64_t)8 << 30;
    for (int i = 0; i < SG_M_COUNT; i++) m.p[i].value = 1;
    /* links by bandwidth and latency alone */
    for (int i = SG_M_COLLECTIVE_RANK_S; i <= SG_M_NETWORK_LATENCY_S; i++) m.p[i].value = NAN;
    for (int i = SG_M_EFF_PRODUCT_TF32; i <= SG_M_EVENT_PRODUCT_S; i++) m.p[i].value = NAN; /* no tiles */
    m.p[SG_M_PEAK_F32].value = 10e12;
    m.p[SG_M_PEAK_TF32].value = 20e12;
    m.p[SG_M_PEAK_BF16].value = 40e12;
    m.p[SG_M_PEAK_F16].value = 40e12;
    m.p[SG_M_BANDWIDTH].value = 1e12;
    for (int c = 0; c < SG_CLASS_COUNT; c++) {
        m.p[sg_machine_eff_of((sg_op_class)c)].value = 0.5 + 0.02 * c;
        m.p[sg_machine_factor_of((sg_op_class)c)].value = 1 + 0.03 * c;
    }
    m.p[SG_M_KERNEL_START_S].value = 4e-6;
    m.p[SG_M_KERNEL_FLOOR_S].value = 2e-6;
    m.p[SG_M_HOST_OP_S].value = 10e-6;
    m.p[SG_M_HOST_BACKWARD].value = 0.5;
    m.p[SG_M_HOST_VIEW].value = 0.3;
    m.p[SG_M_HOST_OPTIMIZER_OPS].value = 100;
    m.p[SG_M_HOST_OPTIMIZER_S].value = 1e-3;
    m.p[SG_M_HOST_SYNC_S].value = 15e-6;
    m.p[SG_M_COPY_BANDWIDTH].value = 10e9;
    m.p[SG_M_COLLECTIVE_BUSBW].value = 100e9;
    m.p[SG_M_COLLECTIVE_LATENCY_S].value = 50e-6;
    m.p[SG_M_OVERLAP_STRETCH].value = 1.25;
    m.p[SG_M_COLLECTIVE_STRETCH].value = NAN;
    m.p[SG_M_CONTEXT_BYTES].value = 0x1p29;
    return m;
}

static sg_desc shape(sg_dtype dtype, int ndim, int64_t a, int64_t b, int64_t c, int64_t d) {
    return sg_desc_make(dtype, ndim, (const int64_t[]){a, b, c, d});
}

void sg_make_matmul(sg_sample_op *s, int64_t m, int64_t k, int64_t n, sg_compute compute) {
    memset(s, 0, sizeof *s);
    s->desc[0] = shape(SG_F32, 2, m, k, 0, 0);
    s->desc[1] = shape(SG_F32, 2, k, n, 0, 0);
    s->desc[2] = shape(SG_F32, 2, m, n, 0, 0);
    s->op = (sg_op){.kind = SG_OP_MATMUL, .n_in = 2, .n_out = 1, .desc = s->desc};
    s->op.attrs.compute = compute;
    s->op.attrs.alpha = 1;
    assert_null(sg_op_check(&s->op));
}

void sg_make_conv(sg_sample_op *s, int64_t channels) {
    memset(s, 0, sizeof *s);
    s->desc[0] = shape(SG_F32, 4, 4, channels, 60, 80);
    s->desc[1] = shape(SG_F32, 4, channels, channels, 3, 3);
    s->desc[2] = shape(SG_F32, 4, 4, channels, 60, 80);
    s->op = (sg_op){.kind = SG_OP_CONV, .n_in = 2, .n_out = 1, .desc = s->desc};
    s->op.attrs = (sg_attrs){.compute = SG_COMPUTE_TF32, .kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}};
    assert_null(sg_op_check(&s->op));
}

void sg_make_unary(sg_sample_op *s, int64_t n) {
    memset(s, 0, sizeof *s);
    s->desc[0] = s->desc[1] = shape(SG_F32, 1, n, 0, 0, 0);
    s->op = (sg_op){.kind = SG_OP_UNARY, .n_in = 1, .n_out = 1, .desc = s->desc};
    s->op.attrs.fn = SG_FN_RELU;
    assert_null(sg_op_check(&s->op));
}

void sg_make_foreach(sg_sample_op *s, int64_t n) {
    memset(s, 0, sizeof *s);
    for (int i = 0; i < 8; i++) s->desc[i] = shape(SG_F32, 1, n, 0, 0, 0);
    s->op = (sg_op){.kind = SG_OP_FOREACH, .n_in = 4, .n_out = 4, .desc = s->desc};
    s->op.attrs.fn = SG_FN_SQRT;
    s->op.attrs.count = 4;
    assert_null(sg_op_check(&s->op));
}
