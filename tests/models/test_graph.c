/* Recording: lifetimes, accumulation, optimizer, mixed precision, refusals. */
#include "tests/models/graph_fixture.h"

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static void in_place_over_a_saved_tensor_is_refused(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "w", 2, N(4, 8)), x = input(g, 2, N(2, 8));
    sg_program_begin(g, "update");
    sg_tid h = sg_linear(g, x, w, SG_NO_TENSOR);
    sg_tid s = sg_unary(g, SG_FN_SILU, h, 0, 0);
    sg_tid r = sg_relu(g, h, true);
    sg_backward(g, sg_mean_all(g, sg_add(g, s, r)), true, true);
    sg_program_end(g);
    expect_failure(g, SG_BAD_INPUT, "in place");
}

/* relu saves its output, so doing it in place is fine. */
static void in_place_relu_is_fine(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "w", 2, N(4, 8)), x = input(g, 2, N(2, 8));
    sg_program_begin(g, "update");
    sg_tid r = sg_relu(g, sg_linear(g, x, w, SG_NO_TENSOR), true);
    sg_backward(g, sg_mean_all(g, sg_mul(g, r, r)), true, true);
    sg_program_end(g);
    sg_training_free(finish(g));
}

static void overflowing_batch_is_an_error(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "w", 2, N(4096, 8)), x = input(g, 2, N(1000000000000, 8));
    sg_program_begin(g, "update");
    sg_tid y = sg_linear(g, x, w, SG_NO_TENSOR);
    y = sg_linear(g, sg_expand(g, sg_unsqueeze(g, y, 0), 3, N(1000000000, -1, -1)), w, SG_NO_TENSOR);
    assert_true(sg_graph_failed(g));
    assert_int_equal(y, SG_NO_TENSOR);
    sg_backward(g, sg_mean_all(g, y), true, true);
    sg_program_end(g);
    expect_failure(g, SG_BAD_INPUT, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_place_over_a_saved_tensor_is_refused),
        cmocka_unit_test(in_place_relu_is_fine),
        cmocka_unit_test(overflowing_batch_is_an_error),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
