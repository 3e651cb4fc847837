/* Structure of recorded programs: counts of ops and views, lifetimes, programs that accumulate, refusals. */
#include "models/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N(...)                                                                                                         \
    (const int64_t[]) {                                                                                                \
        __VA_ARGS__                                                                                                    \
    }

static sg_graph *new_graph(sg_framework framework, sg_device_class device_class) {
    sg_profile profile = sg_profile_make(framework, device_class);
    sg_status status = {0};
    sg_graph *g = sg_graph_new(&profile, 2, 1, 1, &status);
    assert_non_null(g);
    return g;
}

static sg_graph *eager(void) {
    return new_graph(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
}

static sg_training *finish(sg_graph *g) {
    sg_training *t = NULL;
    sg_status status = {0};
    sg_code code = sg_graph_finish(g, &t, &status);
    if (code != SG_OK) fail_msg("%s", status.text);
    return t;
}

static void expect_failure(sg_graph *g, sg_code code, const char *part) {
    sg_training *t = NULL;
    sg_status status = {0};
    assert_int_equal(sg_graph_finish(g, &t, &status), code);
    assert_null(t);
    if (!strstr(status.text, part)) fail_msg("expected \"%s\" in: %s", part, status.text);
}

static sg_tid weight(sg_graph *g, const char *name, int ndim, const int64_t *size) {
    return sg_param(g, name, ndim, size, (sg_param_spec){.dtype = SG_F32, .init = SG_INIT_NORMAL, .scale = 0.02});
}

static sg_tid input(sg_graph *g, int ndim, const int64_t *size) {
    return sg_input_tensor(g, "x", SG_INPUT_UNIFORM, sg_desc_make(SG_F32, ndim, size), -1, 1);
}

typedef struct counts {
    int64_t forward_ops, forward_views, backward_ops, backward_views;
} counts;

/* Mean of y as the loss, backward, end; counts without the loss's mean (1 op) and what starts the backward (fill, expand,
 * div: 2 ops, 1 view). */
static counts of_mean(sg_graph *g, sg_tid y, sg_training **out) {
    sg_backward(g, sg_mean_all(g, y), true, true);
    sg_program_end(g);
    sg_training *t = finish(g);
    sg_counts c = sg_count_program(t, 0);
    counts n = {c.pass[SG_PASS_FORWARD].ops - 1, c.pass[SG_PASS_FORWARD].views, c.pass[SG_PASS_BACKWARD].ops - 2,
                c.pass[SG_PASS_BACKWARD].views - 1};
    if (out)
        *out = t;
    else
        sg_training_free(t);
    return n;
}

static void expect_counts(counts n, int64_t forward_ops, int64_t forward_views, int64_t backward_ops,
                          int64_t backward_views) {
    assert_int_equal(n.forward_ops, forward_ops);
    assert_int_equal(n.forward_views, forward_views);
    assert_int_equal(n.backward_ops, backward_ops);
    assert_int_equal(n.backward_views, backward_views);
}

/* PyTorch on a [2, 8] batch: t, addmm; backward t, mm, sum, view, detach, t, detach: no gradient for the input. */
static void linear_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "weight", 2, N(4, 8)), b = weight(g, "bias", 1, N(4)), x = input(g, 2, N(2, 8));
    sg_program_begin(g, "update");
    expect_counts(of_mean(g, sg_linear(g, x, w, b), NULL), 1, 1, 2, 6);
}

static void mlp_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w1 = weight(g, "0.weight", 2, N(4, 8)), b1 = weight(g, "0.bias", 1, N(4)), x = input(g, 2, N(2, 8));
    sg_tid w2 = weight(g, "1.weight", 2, N(3, 4)), b2 = weight(g, "1.bias", 1, N(3));
    sg_program_begin(g, "update");
    sg_tid h = sg_relu(g, sg_linear(g, x, w1, b1), false);
    expect_counts(of_mean(g, sg_linear(g, h, w2, b2), NULL), 3, 3, 6, 14);
}

/* A 3-D input is flattened and the result unflattened by views. */
static void linear_on_sequences(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "weight", 2, N(4, 8)), x = input(g, 3, N(2, 5, 8));
    sg_program_begin(g, "update");
    expect_counts(of_mean(g, sg_linear(g, x, w, SG_NO_TENSOR), NULL), 1, 3, 1, 5);
}

static void conv_relu_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "weight", 4, N(4, 3, 3, 3)), b = weight(g, "bias", 1, N(4)), x = input(g, 4, N(2, 3, 8, 8));
    sg_program_begin(g, "update");
    sg_training *t;
    counts n = of_mean(g, sg_relu(g, sg_conv2d(g, x, w, b, 1, 1), true), &t);
    expect_counts(n, 2, 1, 2, 3);
    sg_training_free(t);
}

/* convolution_backward is one framework call with two kernels. */
static void conv_backward_is_one_dispatch(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w1 = weight(g, "0", 4, N(4, 3, 3, 3)), w2 = weight(g, "1", 4, N(4, 4, 3, 3)), x = input(g, 4, N(2, 3, 8, 8));
    sg_program_begin(g, "update");
    sg_training *t;
    counts n = of_mean(g, sg_conv2d(g, sg_conv2d(g, x, w1, SG_NO_TENSOR, 1, 1), w2, SG_NO_TENSOR, 2, 1), &t);
    expect_counts(n, 2, 0, 2, 2);
    assert_int_equal(sg_count_program(t, 0).pass[SG_PASS_BACKWARD].launches, 2 + 3);
    sg_training_free(t);
}

static void layer_norm_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = weight(g, "x", 2, N(2, 8)), w = weight(g, "weight", 1, N(8)), b = weight(g, "bias", 1, N(8));
    sg_program_begin(g, "update");
    expect_counts(of_mean(g, sg_layer_norm(g, x, w, b, 1e-5), NULL), 1, 0, 1, 3);
}

/* slice_backward: one call that fills zeros and copies into a view of them. */
static void slice_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = weight(g, "x", 2, N(6, 8));
    sg_program_begin(g, "update");
    sg_training *t;
    expect_counts(of_mean(g, sg_slice(g, x, 0, 2, 3), &t), 0, 1, 1, 1);
    assert_int_equal(sg_count_program(t, 0).pass[SG_PASS_BACKWARD].launches, 2 + 2);
    sg_training_free(t);
}

static void chunk_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = weight(g, "x", 2, N(6, 8)), part[3];
    sg_program_begin(g, "update");
    sg_chunk(g, x, 0, 3, part);
    sg_tid y = sg_add(g, sg_mul(g, part[0], part[1]), part[2]);
    /* mul's two products, one cat */
    expect_counts(of_mean(g, y, NULL), 2, 1, 3, 1);
}

/* Rows taken apart and stacked again: one call with many views, one stack; backward a select per row, one stack. */
static void unbind_and_stack_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = weight(g, "x", 2, N(6, 8)), row[6];
    sg_program_begin(g, "update");
    sg_unbind(g, x, 0, row);
    expect_counts(of_mean(g, sg_stack(g, 6, row, 0), NULL), 1, 1, 1, 7);
}

static void broadcast_add_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = input(g, 3, N(2, 5, 8)), b = weight(g, "b", 1, N(8));
    sg_program_begin(g, "update");
    expect_counts(of_mean(g, sg_add(g, x, b), NULL), 1, 0, 1, 2);
}

/* A tensor used twice: its gradients are added once. */
static void gradients_add_up(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = weight(g, "x", 2, N(4, 8));
    sg_program_begin(g, "update");
    sg_tid y = sg_add(g, sg_unary(g, SG_FN_SILU, x, 0, 0), sg_unary(g, SG_FN_GELU_TANH, x, 0, 0));
    expect_counts(of_mean(g, y, NULL), 3, 0, 3, 1);
}

/* add hands the same gradient to both: the parameters cannot both take it over, so they copy. */
static void shared_gradient_is_copied(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = weight(g, "x", 2, N(4, 8)), y = weight(g, "y", 2, N(4, 8));
    sg_program_begin(g, "update");
    sg_training *t;
    counts n = of_mean(g, sg_add(g, x, y), &t);
    assert_int_equal(n.backward_ops, 1);
    assert_int_not_equal(t->tensors[t->parameters[0].gradient].storage, t->tensors[t->parameters[1].gradient].storage);
    sg_training_free(t);
}

/* The layer of ACT's encoder as PyTorch 2 runs it: 22 ops forward; backward 6 linears x 3, 2 layer norms, 4 dropouts,
 * relu, 4 bmm, softmax, scale, 3 copies of transposed heads (batch > 1), 2 cats, 4 sums of gradients: 40. */
static sg_tid project(sg_graph *g, sg_tid x, sg_tid w, sg_tid b) {
    sg_tid y = sg_linear(g, x, w, b);
    return sg_transpose(g, sg_view(g, y, 3, N(10, 16, 8)), 0, 1);
}

static sg_tid encoder_layer(sg_graph *g, sg_tid x, sg_tid position) {
    sg_tid in_w = weight(g, "in_w", 2, N(192, 64)), in_b = weight(g, "in_b", 1, N(192)), w[3], b[3];
    sg_tid out_w = weight(g, "out_w", 2, N(64, 64)), out_b = weight(g, "out_b", 1, N(64));
    sg_tid w1 = weight(g, "w1", 2, N(128, 64)), b1 = weight(g, "b1", 1, N(128));
    sg_tid w2 = weight(g, "w2", 2, N(64, 128)), b2 = weight(g, "b2", 1, N(64));
    sg_tid n1w = weight(g, "n1w", 1, N(64)), n1b = weight(g, "n1b", 1, N(64));
    sg_tid n2w = weight(g, "n2w", 1, N(64)), n2b = weight(g, "n2b", 1, N(64));
    sg_tid qk = sg_add(g, x, position);
    sg_chunk(g, in_w, 0, 3, w);
    sg_chunk(g, in_b, 0, 3, b);
    sg_tid q = project(g, qk, w[0], b[0]), k = project(g, qk, w[1], b[1]), v = project(g, x, w[2], b[2]);
    sg_tid p = sg_softmax(g, sg_matmul(g, sg_scale(g, q, 0.35), sg_transpose(g, k, -2, -1)));
    sg_tid dropped = sg_dropout(g, p, 0.1, 0, 8);
    sg_tid heads = sg_transpose(g, sg_matmul(g, dropped, v), 0, 1);
    sg_tid joined = sg_reshape(g, heads, 2, N(20, 64));
    sg_tid out = sg_view(g, sg_linear(g, joined, out_w, out_b), 3, N(10, 2, 64));
    (void)sg_reduce(g, SG_FN_MEAN, sg_view(g, dropped, 4, N(2, 8, 10, 10)), 1u << 1, false);
    x = sg_layer_norm(g, sg_add(g, x, sg_dropout(g, out, 0.1, 1, 1)), n1w, n1b, 1e-5);
    sg_tid h = sg_dropout(g, sg_relu(g, sg_linear(g, x, w1, b1), false), 0.1, 1, 1);
    sg_tid y = sg_dropout(g, sg_linear(g, h, w2, b2), 0.1, 1, 1);
    return sg_layer_norm(g, sg_add(g, x, y), n2w, n2b, 1e-5);
}

static void encoder_layer_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = input(g, 3, N(10, 2, 64)), first = weight(g, "first", 3, N(10, 2, 64)),
           position = input(g, 3, N(10, 1, 64));
    sg_program_begin(g, "update");
    counts n = of_mean(g, encoder_layer(g, sg_mul(g, x, first), position), NULL);
    assert_int_equal(n.forward_ops, 1 + 22);
    assert_int_equal(n.backward_ops, 1 + 40);
}

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
        cmocka_unit_test(linear_counts),
        cmocka_unit_test(mlp_counts),
        cmocka_unit_test(linear_on_sequences),
        cmocka_unit_test(conv_relu_counts),
        cmocka_unit_test(conv_backward_is_one_dispatch),
        cmocka_unit_test(layer_norm_counts),
        cmocka_unit_test(slice_counts),
        cmocka_unit_test(chunk_counts),
        cmocka_unit_test(unbind_and_stack_counts),
        cmocka_unit_test(broadcast_add_counts),
        cmocka_unit_test(gradients_add_up),
        cmocka_unit_test(shared_gradient_is_copied),
        cmocka_unit_test(encoder_layer_counts),
        cmocka_unit_test(in_place_over_a_saved_tensor_is_refused),
        cmocka_unit_test(in_place_relu_is_fine),
        cmocka_unit_test(overflowing_batch_is_an_error),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
