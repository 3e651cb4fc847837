/* Structure of the derived backward: ops and views per rule, as PyTorch 2 dispatches them. */
#include "tests/models/graph_fixture.h"

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
    sg_tid y = sg_add(g, sg_unary(g, SG_FN_GELU_ERF, x, 0, 0), sg_unary(g, SG_FN_GELU_TANH, x, 0, 0));
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

/* The halves of a rotary embedding: PyTorch 2 runs 2 copies forward; backward, for the second one, a copy, a clone, zeros
 * and their copy, for the first one (into empty memory) a copy and a clone. */
static void copy_into_slices_counts(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = weight(g, "x", 2, N(6, 8)), half[2];
    sg_program_begin(g, "update");
    sg_chunk(g, x, 1, 2, half);
    sg_tid y = sg_empty(g, SG_F32, 2, N(6, 8));
    y = sg_copy_slice(g, y, 1, 0, half[1]);
    y = sg_copy_slice(g, y, 1, 4, half[0]);
    /* views: chunk, empty, 2 slices, 2 new values; backward 2 empties, 2 slices, detach */
    expect_counts(of_mean(g, y, NULL), 2, 6, 4 + 2 + 1, 5);
}

/* A weight without a bias gets its gradient before the input (mm); with one, after it (addmm). */
static void order_of_factors(void **state) {
    (void)state;
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        sg_graph *g = eager();
        sg_tid x = weight(g, "x", 2, N(2, 8)), w = weight(g, "w", 2, N(4, 8)), b = weight(g, "b", 1, N(4));
        sg_program_begin(g, "update");
        sg_training *t;
        (void)of_mean(g, sg_linear(g, x, w, with_bias ? b : SG_NO_TENSOR), &t);
        int64_t rows = 0;
        for (size_t i = 0; i < t->programs[0].n_entries && rows == 0; i++) {
            const sg_entry *e = &t->programs[0].entries[i];
            if (e->kind == SG_ENTRY_OP && e->pass == SG_PASS_BACKWARD && t->ops[e->index].kind == SG_OP_MATMUL)
                rows = t->ops[e->index].desc[0].size[0];
        }
        assert_int_equal(rows, with_bias ? 2 : 4);
        sg_training_free(t);
    }
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
        cmocka_unit_test(copy_into_slices_counts),
        cmocka_unit_test(order_of_factors),
        cmocka_unit_test(encoder_layer_counts),
    };
    return cmocka_run_group_tests_name("autodiff structure", tests, NULL, NULL);
}
