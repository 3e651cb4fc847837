/* Graphs that cannot be recorded are refused, each in a sentence. */
#include "tests/models/graph_fixture.h"

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

/* Each misuse ends in a sentence; the calls after it do nothing. */
static void out_of_program(sg_graph *g, sg_tid x) {
    sg_program_end(g);
    (void)sg_add(g, x, x);
}
static void unknown_tensor(sg_graph *g, sg_tid x) {
    (void)sg_add(g, x, 1000);
}
static void shapes_do_not_broadcast(sg_graph *g, sg_tid x) {
    (void)sg_add(g, x, sg_full(g, SG_F32, 2, N(3, 8), 0));
}
static void linear_does_not_fit(sg_graph *g, sg_tid x) {
    (void)sg_linear(g, x, sg_full(g, SG_F32, 2, N(4, 9), 0), SG_NO_TENSOR);
}
static void dim_out_of_range(sg_graph *g, sg_tid x) {
    (void)sg_transpose(g, x, 0, 2);
}
static void view_of_other_size(sg_graph *g, sg_tid x) {
    (void)sg_view(g, x, 2, N(3, -1));
}
static void view_that_needs_a_copy(sg_graph *g, sg_tid x) {
    (void)sg_view(g, sg_transpose(g, x, 0, 1), 1, N(16));
}
static void slice_out_of_range(sg_graph *g, sg_tid x) {
    (void)sg_slice(g, x, 1, 4, 5);
}
static void too_many_dims(sg_graph *g, sg_tid x) {
    for (int i = 0; i < 5; i++) x = sg_unsqueeze(g, x, 0);
}
static void unsound_op(sg_graph *g, sg_tid x) {
    sg_attrs attrs = {.fn = SG_FN_ADD};
    sg_desc out = *sg_desc_of(g, x);
    sg_emit(g, SG_OP_UNARY, &attrs, &x, 1, &out, &x, 1);
}
static void window_does_not_fit(sg_graph *g, sg_tid x) {
    (void)sg_max_pool2d(g, sg_view(g, x, 4, N(1, 1, 2, 8)), 3, 1, 0);
}
static void loss_without_parameters(sg_graph *g, sg_tid x) {
    sg_backward(g, sg_mean_all(g, x), true, true);
}
static void loss_of_many_elements(sg_graph *g, sg_tid x) {
    sg_backward(g, sg_mul(g, x, weight(g, "w", 2, N(2, 8))), true, true);
}
static void no_gradient_known(sg_graph *g, sg_tid x) {
    sg_tid y = sg_cumsum(g, sg_mul(g, x, weight(g, "w", 2, N(2, 8))), 1);
    sg_backward(g, sg_mean_all(g, y), true, true);
}
static void optimizer_without_backward(sg_graph *g, sg_tid x) {
    (void)x;
    sg_optimizer_step(g, &ADAMW);
}
static void parameter_in_place(sg_graph *g, sg_tid x) {
    (void)sg_binary_in_place(g, SG_FN_ADD, weight(g, "w", 2, N(2, 8)), x, 1);
}
static void module_left_open(sg_graph *g, sg_tid x) {
    (void)x;
    sg_module_begin(g, "model");
    sg_program_end(g);
}
static void module_never_begun(sg_graph *g, sg_tid x) {
    (void)x;
    sg_module_end(g);
}
static void program_left_open(sg_graph *g, sg_tid x) {
    (void)sg_add(g, x, x);
}
static void block_names_no_program(sg_graph *g, sg_tid x) {
    (void)x;
    sg_block_begin(g, "step", 1);
    sg_block_program(g, 7);
}
static void empty_size(sg_graph *g, sg_tid x) {
    (void)x;
    (void)sg_full(g, SG_F32, 2, N(2, 0), 0);
}

static void misuse_is_a_sentence(void **state) {
    (void)state;
    static const struct {
        void (*act)(sg_graph *g, sg_tid x);
        const char *part;
    } cases[] = {
        {out_of_program, "outside of a program"},
        {unknown_tensor, "was given no tensor (id 1000)"},
        {shapes_do_not_broadcast, "shapes do not broadcast"},
        {linear_does_not_fit, "the input's last dim (8) differs from the weight's (9)"},
        {dim_out_of_range, "dim 2 is out of range"},
        {view_of_other_size, "do not hold the tensor's 16 elements"},
        {view_that_needs_a_copy, "memory order does not allow it"},
        {slice_out_of_range, "do not lie in a dim of 8"},
        {too_many_dims, "at most 6 are possible"},
        {unsound_op, "UNARY in the root module: fn takes another number of operands"},
        {window_does_not_fit, "does not fit its image"},
        {loss_without_parameters, "must be one element that depends on a trainable parameter"},
        {loss_of_many_elements, "must be one element"},
        {no_gradient_known, "CUMSUM in the root module has no gradient"},
        {optimizer_without_backward, "needs a backward before it"},
        {parameter_in_place, "changed in place"},
        {module_left_open, "module model was not ended"},
        {module_never_begun, "ended that had not begun"},
        {program_left_open, "program update was not ended"},
        {block_names_no_program, "names program 7"},
        {empty_size, "empty size"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sg_graph *g = eager();
        sg_tid x = input(g, 2, N(2, 8));
        sg_program_begin(g, "update");
        cases[i].act(g, x);
        if (sg_graph_failed(g)) assert_int_equal(sg_add(g, x, x), SG_NO_TENSOR);
        expect_failure(g, SG_BAD_INPUT, cases[i].part);
    }
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
        cmocka_unit_test(misuse_is_a_sentence),
        cmocka_unit_test(overflowing_batch_is_an_error),
    };
    return cmocka_run_group_tests_name("graph refusals", tests, NULL, NULL);
}
