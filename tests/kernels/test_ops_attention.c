/* cpu against reference: fused attention. */
#include "tests/support/op_device.h"

static op_bench bench;

typedef struct heads {
    int64_t b, h, t, s, d;
} heads;

static const heads SHAPES[] = {
    {1, 1, 1, 1, 1}, {2, 3, 5, 7, 8}, {1, 2, 33, 65, 16}, {2, 4, 64, 100, 64}, {1, 1, 3, 130, 5}};

/* Size of a mask's dims: all, or 1 where it repeats. */
typedef enum mask_shape { NO_MASK, WHOLE, PER_BATCH, PER_QUERY, KEYS_ONLY, MASK_SHAPES } mask_shape;

static sg_desc mask_desc(sg_dtype dtype, mask_shape shape, const heads *a) {
    int64_t size[4] = {a->b, a->h, a->t, a->s};
    if (shape != WHOLE) size[1] = 1;
    if (shape == PER_QUERY || shape == KEYS_ONLY) size[0] = 1;
    if (shape == KEYS_ONLY) size[2] = 1;
    return shape == PER_QUERY ? op_desc(dtype, OP_PLAIN, 2, size + 2) : op_desc(dtype, OP_PLAIN, 4, size);
}

/* Boolean masks keep the first key of every query. */
static void add_mask(op_case *c, sg_dtype dtype, mask_shape shape, const heads *a) {
    if (shape == NO_MASK) return;
    sg_desc d = mask_desc(dtype, shape, a);
    double *values = op_values(&d, dtype == SG_BOOL ? 0 : -2, 2, 8);
    if (dtype == SG_BOOL)
        for (int64_t i = 0; i < sg_desc_count(&d); i += d.size[d.ndim - 1]) values[i] = 1;
    op_case_values(c, d, values);
    free(values);
}

static void attention(const heads *a, sg_dtype dtype, op_layout layout, mask_shape shape, sg_dtype mask,
                      bool backward) {
    sg_desc q = op_desc(dtype, layout, 4, (int64_t[]){a->b, a->h, a->t, a->d});
    sg_desc k = op_desc(dtype, layout, 4, (int64_t[]){a->b, a->h, a->s, a->d});
    sg_desc lse = op_desc(SG_F32, OP_PLAIN, 3, q.size);
    sg_attrs attrs = {.alpha = 1 / sqrt((double)a->d), .flags = shape == NO_MASK ? 0 : SG_HAS_MASK};
    attrs.compute = dtype == SG_F32 ? SG_COMPUTE_F32 : dtype == SG_BF16 ? SG_COMPUTE_BF16 : SG_COMPUTE_F16;
    double *vq = op_values(&q, -2, 2, 1), *vk = op_values(&k, -2, 2, 2), *vv = op_values(&k, -1, 1, 3);
    op_case one;
    op_case_begin(&one, SG_OP_ATTENTION, attrs);
    op_case_values(&one, q, vq);
    op_case_values(&one, k, vk);
    op_case_values(&one, k, vv);
    add_mask(&one, mask, shape, a);
    op_case_output(&one, q);
    op_case_output(&one, lse);
    if (backward) {
        double *out[2];
        op_case_solve(&bench, &one, 2, out);
        op_case_begin(&one, SG_OP_ATTENTION_BWD, attrs);
        op_case_input(&one, q, -1, 1);
        op_case_values(&one, q, vq);
        op_case_values(&one, k, vk);
        op_case_values(&one, k, vv);
        op_case_values(&one, q, out[0]);
        op_case_values(&one, lse, out[1]);
        add_mask(&one, mask, shape, a);
        op_case_output(&one, q);
        op_case_output(&one, k);
        op_case_output(&one, k);
        free(out[0]);
        free(out[1]);
    }
    op_case_check(&bench, &one, "%s, shape %d, %s, mask %d of %s", sg_dtype_name(dtype), (int)(a - SHAPES),
                  op_layout_name(layout), shape, sg_dtype_name(mask));
    free(vq);
    free(vk);
    free(vv);
}

static void test_shapes(void **state) {
    (void)state;
    static const sg_dtype dtypes[] = {SG_F32, SG_BF16, SG_F16};
    for (size_t s = 0; s < sizeof SHAPES / sizeof *SHAPES; s++)
        for (size_t t = 0; t < 3; t++)
            for (int layout = 0; layout < 2; layout++)
                for (int backward = 0; backward < 2; backward++)
                    attention(&SHAPES[s], dtypes[t], layout ? OP_HEADS : OP_PLAIN, NO_MASK, SG_BOOL, backward);
    op_bench_expect_all(&bench);
}

static void test_masks(void **state) {
    (void)state;
    for (int shape = WHOLE; shape < MASK_SHAPES; shape++)
        for (int real = 0; real < 2; real++)
            for (int low = 0; low < 2; low++)
                for (int backward = 0; backward < 2; backward++)
                    attention(&SHAPES[1 + low], low ? SG_BF16 : SG_F32, OP_HEADS, (mask_shape)shape,
                              real ? SG_F32 : SG_BOOL, backward);
    op_bench_expect_all(&bench);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_masks)};
    return op_device_tests(tests, &bench);
}
