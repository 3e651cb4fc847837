/* Gradient checkpointing: what is computed stays the same to the bit, random masks included; what is kept and how often the
 * forward runs follow from the segments. */
#include "models/graph.h"
#include "models/ops.h"
#include "tests/support/lab.h"
#include "tests/support/small_policies.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct variant {
    sg_small which;
    const char *scope;
    int64_t accumulation;
    const char *precision;
} variant;

static const variant VARIANTS[] = {
    {SG_SMALL_ACT, NULL, 1, NULL},      {SG_SMALL_ACT_PRE_NORM, NULL, 2, "bf16"},
    {SG_SMALL_PI0, "nested", 1, NULL},  {SG_SMALL_PI05, "nested", 1, "bf16"},
    {SG_SMALL_PI05, "layers", 2, NULL}, {SG_SMALL_PI05_EXPERT, "nested", 1, NULL},
    {SG_SMALL_TOKENS, NULL, 1, "fp16"}, {SG_SMALL_TRANSFORMER, NULL, 2, "bf16-pure"},
};

static void expect_equal(const sg_lab *with, const sg_lab *without, const variant *v, const char *setting) {
    assert_int_equal(with->n_weights, without->n_weights);
    if (memcmp(&with->value, &without->value, sizeof with->value) != 0)
        fail_msg("%s, %s: the losses are %.17g and %.17g", sg_small_name(v->which), setting, with->value,
                 without->value);
    for (size_t i = 0; i < with->n_weights; i++) {
        const sg_lab_weight *a = &with->weight[i], *b = &without->weight[i];
        assert_int_equal(a->gradient != NULL, b->gradient != NULL);
        if (a->gradient && memcmp(a->gradient, b->gradient, a->count * sizeof *a->gradient) != 0)
            fail_msg("%s, %s: the gradient of %s differs", sg_small_name(v->which), setting,
                     with->original->parameters[a->parameter].name);
    }
}

static void test_gradients_are_the_same(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof VARIANTS / sizeof *VARIANTS; i++)
        for (int s = 0; s < SG_SMALL_SETTINGS; s++) {
            const variant *v = &VARIANTS[i];
            sg_small_options options = {.accumulation = v->accumulation, .precision = v->precision};
            sg_training *plain = sg_small_build(v->which, &SG_SMALL_SETTING[s], &options);
            options.checkpointing = true;
            options.scope = v->scope;
            sg_training *again = sg_small_build(v->which, &SG_SMALL_SETTING[s], &options);
            sg_counts before = sg_count_program(plain, sg_main_program(plain));
            sg_counts after = sg_count_program(again, sg_main_program(again));
            assert_true(after.saved_bytes < before.saved_bytes);
            assert_int_equal(after.pass[SG_PASS_FORWARD].ops, before.pass[SG_PASS_FORWARD].ops);
            assert_true(after.pass[SG_PASS_BACKWARD].flops > before.pass[SG_PASS_BACKWARD].flops);
            sg_lab with, without;
            sg_lab_open(&without, plain, &(sg_lab_options){.wide = true, .seed = 5});
            sg_lab_open(&with, again, &(sg_lab_options){.wide = true, .seed = 5});
            expect_equal(&with, &without, v, SG_SMALL_SETTING[s].name);
            sg_lab_close(&with);
            sg_lab_close(&without);
            sg_training_free(plain);
            sg_training_free(again);
        }
}

/* ---- structure, on a small graph: products and activations as PyTorch 2.15's dispatcher counts them in the backward ---- */

typedef struct graph {
    sg_graph *g;
    sg_tid weight[4], x;
} graph;

enum { WIDTH = 4, ROWS = 3 };

static graph open_graph(void) {
    sg_status status;
    sg_profile profile = sg_profile_make(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    graph t = {.g = sg_graph_new(&profile, ROWS, 1, 1, &status)};
    assert_non_null(t.g);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"w0", "w1", "w2", "w3"};
        sg_param_spec spec = {.dtype = SG_F32, .init = SG_INIT_UNIFORM, .scale = 1};
        t.weight[i] = sg_param(t.g, names[i], 2, (int64_t[]){WIDTH, WIDTH}, spec);
    }
    t.x = sg_state_tensor(t.g, "x", sg_desc_make(SG_F32, 2, (int64_t[]){ROWS, WIDTH}));
    (void)sg_program_begin(t.g, "update");
    return t;
}

static sg_tid layer(graph *t, int i, sg_tid x) {
    return sg_unary(t->g, SG_FN_GELU_TANH, sg_matmul(t->g, x, t->weight[i]), 0, 0);
}

static sg_training *close_graph(graph *t, sg_tid y) {
    sg_backward(t->g, sg_sum_all(t->g, y), true, true);
    sg_optimizer_spec spec = {.decoupled_weight_decay = true, .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    sg_optimizer_step(t->g, &spec);
    sg_program_end(t->g);
    sg_training *training = NULL;
    sg_status status;
    if (sg_graph_finish(t->g, &training, &status) != SG_OK) fail_msg("%s", status.text);
    return training;
}

static void expect_refused(graph *t, const char *words) {
    sg_training *training = NULL;
    sg_status status;
    assert_int_not_equal(sg_graph_finish(t->g, &training, &status), SG_OK);
    if (!strstr(status.text, words)) fail_msg("'%s' does not say '%s'", status.text, words);
}

static int count_ops(const sg_training *t, sg_op_kind kind, sg_fn fn, sg_pass pass) {
    int n = 0;
    for (size_t i = 0; i < t->programs[0].n_entries; i++) {
        const sg_entry *e = &t->programs[0].entries[i];
        if (e->kind != SG_ENTRY_OP || e->pass != pass) continue;
        n += t->ops[e->index].kind == (int32_t)kind && t->ops[e->index].attrs.fn == (int32_t)fn;
    }
    return n;
}

static int gelus(const sg_training *t, sg_pass pass) {
    return count_ops(t, SG_OP_UNARY, SG_FN_GELU_TANH, pass);
}

/* Two layers per segment; each runs again once, but for its last activation, of which only the input is kept (early stop). */
static void test_segments_run_once_more(void **state) {
    (void)state;
    graph t = open_graph();
    sg_tid x = t.x;
    for (int i = 0; i < 4; i += 2) {
        sg_checkpoint_begin(t.g);
        x = layer(&t, i + 1, layer(&t, i, x));
        sg_checkpoint_end(t.g);
    }
    sg_training *training = close_graph(&t, x);
    assert_int_equal(gelus(training, SG_PASS_FORWARD), 4);
    assert_int_equal(gelus(training, SG_PASS_BACKWARD), 2);
    /* 7 products of the backward (the batch needs no gradient) and 4 that run again. */
    assert_int_equal(count_ops(training, SG_OP_MATMUL, SG_FN_NONE, SG_PASS_BACKWARD), 7 + 4);
    /* Kept: what the second segment is made from; the batch lies there anyway. */
    size_t bytes = (size_t)ROWS * WIDTH * 4;
    assert_int_equal(sg_count_program(training, 0).saved_bytes, 2 * bytes);
    sg_training_free(training);
}

/* Segments of one layer in one around all of them: the outer run stops where the last inner segment begins, which runs by
 * itself. */
static void test_nested_segments(void **state) {
    (void)state;
    graph t = open_graph();
    sg_tid x = t.x;
    sg_checkpoint_begin(t.g);
    for (int i = 0; i < 4; i++) {
        sg_checkpoint_begin(t.g);
        x = layer(&t, i, x);
        sg_checkpoint_end(t.g);
    }
    sg_checkpoint_end(t.g);
    sg_training *training = close_graph(&t, x);
    assert_int_equal(gelus(training, SG_PASS_FORWARD), 4);
    assert_int_equal(gelus(training, SG_PASS_BACKWARD), 3);
    assert_int_equal(count_ops(training, SG_OP_MATMUL, SG_FN_NONE, SG_PASS_BACKWARD), 7 + 3 + 4);
    assert_int_equal(sg_count_program(training, 0).saved_bytes, (size_t)ROWS * WIDTH * 4);
    sg_training_free(training);
}

/* Where nothing is trained, nothing runs again. */
static void test_frozen_segment(void **state) {
    (void)state;
    graph t = open_graph();
    sg_checkpoint_begin(t.g);
    sg_no_grad_begin(t.g);
    sg_tid x = layer(&t, 0, t.x);
    sg_no_grad_end(t.g);
    sg_checkpoint_end(t.g);
    sg_training *training = close_graph(&t, layer(&t, 1, x));
    assert_int_equal(gelus(training, SG_PASS_BACKWARD), 0);
    sg_training_free(training);
}

/* Random ops that run again name the draw that they repeat. */
static void test_draws(void **state) {
    (void)state;
    graph t = open_graph();
    sg_tid x = sg_dropout(t.g, layer(&t, 0, t.x), 0.5, 0, 1);
    sg_checkpoint_begin(t.g);
    x = sg_dropout(t.g, layer(&t, 1, x), 0.5, 0, 1);
    x = layer(&t, 2, x);
    sg_checkpoint_end(t.g);
    sg_training *training = close_graph(&t, x);
    int repeated = 0;
    for (size_t i = 0; i < training->programs[0].n_entries; i++) {
        const sg_entry *e = &training->programs[0].entries[i];
        if (!(e->flags & SG_ENTRY_DRAWS_AGAIN)) continue;
        assert_int_equal(training->ops[e->index].kind, SG_OP_DROPOUT);
        assert_int_equal(e->draw, 1);
        repeated++;
    }
    assert_int_equal(repeated, 1);
    sg_training_free(training);
}

static void test_misuse_is_refused(void **state) {
    (void)state;
    graph t = open_graph();
    sg_checkpoint_end(t.g);
    expect_refused(&t, "had not begun");
    t = open_graph();
    sg_checkpoint_begin(t.g);
    sg_program_end(t.g);
    expect_refused(&t, "was not ended");
    t = open_graph();
    sg_checkpoint_begin(t.g);
    sg_backward(t.g, sg_sum_all(t.g, layer(&t, 0, t.x)), true, true);
    expect_refused(&t, "inside a checkpointed segment");
    t = open_graph();
    sg_tid x = layer(&t, 0, t.x);
    sg_checkpoint_begin(t.g);
    sg_tid y = layer(&t, 1, sg_unary_in_place(t.g, SG_FN_AFFINE, x, 2, 0));
    sg_checkpoint_end(t.g);
    sg_backward(t.g, sg_sum_all(t.g, y), true, true);
    expect_refused(&t, "writes what was made before it");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_are_the_same),
        cmocka_unit_test(test_segments_run_once_more),
        cmocka_unit_test(test_nested_segments),
        cmocka_unit_test(test_frozen_segment),
        cmocka_unit_test(test_draws),
        cmocka_unit_test(test_misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
