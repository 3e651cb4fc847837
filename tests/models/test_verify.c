/* Every kind of damage to a sound training is found, with a message that says where and what. */
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

static const sg_optimizer_spec ADAM = {.decoupled_weight_decay = true,
                                       .lr = 1e-3,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .eps = 1e-8,
                                       .weight_decay = 0.01,
                                       .clip_norm = 1};

/* Two layers with an in-place relu between them, one frozen weight, a loss that is read. */
static sg_training *build(void) {
    sg_profile profile = sg_profile_make(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    sg_status status = {0};
    sg_graph *g = sg_graph_new(&profile, 2, 1, 2, &status);
    assert_non_null(g);
    const sg_param_spec spec = {.dtype = SG_F32, .init = SG_INIT_NORMAL, .scale = 0.1};
    sg_param_spec frozen = spec;
    frozen.frozen = true;
    sg_tid x = sg_input_tensor(g, "x", SG_INPUT_UNIFORM, sg_desc_make(SG_F32, 2, N(2, 8)), -1, 1);
    sg_tid w1 = sg_param(g, "w1", 2, N(4, 8), spec), b1 = sg_param(g, "b1", 1, N(4), spec);
    sg_tid w2 = sg_param(g, "w2", 2, N(3, 4), frozen);
    int32_t update = sg_program_begin(g, "update");
    sg_mark_here(g, SG_MARK_FORWARD);
    sg_copy_inputs(g);
    sg_tid h = sg_relu(g, sg_linear(g, x, w1, b1), true);
    sg_tid loss = sg_mean_all(g, sg_unary(g, SG_FN_SQUARE, sg_linear(g, h, w2, SG_NO_TENSOR), 0, 0));
    sg_backward(g, loss, true, true);
    sg_optimizer_step(g, &ADAM);
    sg_wait(g, loss);
    sg_program_end(g);
    sg_block_begin(g, "step", 1);
    sg_block_loader(g);
    sg_block_program(g, update);
    sg_block_end(g);
    sg_training *t = NULL;
    if (sg_graph_finish(g, &t, &status) != SG_OK) fail_msg("%s", status.text);
    return t;
}

/* The tables belong to the training; only its readers are told not to write them. */
static sg_entry *entries(const sg_training *t) {
    return (sg_entry *)t->programs[0].entries;
}
static int32_t *args(const sg_training *t) {
    return (int32_t *)t->args;
}
static sg_tensor *tensors(const sg_training *t) {
    return (sg_tensor *)t->tensors;
}
static sg_op *ops(const sg_training *t) {
    return (sg_op *)t->ops;
}
static sg_parameter *parameters(const sg_training *t) {
    return (sg_parameter *)t->parameters;
}

/* The n-th entry of a kind, from 0. */
static size_t entry_of(const sg_training *t, sg_entry_kind kind, int n) {
    for (size_t i = 0; i < t->programs[0].n_entries; i++)
        if (t->programs[0].entries[i].kind == kind && n-- == 0) return i;
    fail_msg("no such entry");
    return 0;
}

/* The n-th entry that runs an op of that kind and function. */
static size_t op_entry(const sg_training *t, sg_op_kind kind, sg_fn fn, int n) {
    for (size_t i = 0; i < t->programs[0].n_entries; i++) {
        const sg_entry *e = &t->programs[0].entries[i];
        if (e->kind == SG_ENTRY_OP && t->ops[e->index].kind == (int)kind && t->ops[e->index].attrs.fn == (int)fn &&
            n-- == 0)
            return i;
    }
    fail_msg("no such op");
    return 0;
}

static void into_mark(const sg_training *t, size_t entry) {
    entries(t)[entry] = (sg_entry){.kind = SG_ENTRY_MARK, .index = SG_MARK_FORWARD};
}

/* Some part of the message; frees the training. */
static void expect(sg_training *t, const char *part) {
    sg_status status = {0};
    assert_int_equal(sg_training_verify(t, &status), SG_BAD_INPUT);
    if (!strstr(status.text, part)) fail_msg("expected \"%s\" in: %s", part, status.text);
    sg_training_free(t);
}

static void sound(void **state) {
    (void)state;
    sg_training *t = build();
    sg_status status = {0};
    assert_int_equal(sg_training_verify(t, &status), SG_OK);
    sg_training_free(t);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void tables(void **state) {
    (void)state;
    sg_training *t = build();
    tensors(t)[3].storage = (int32_t)t->n_storages;
    expect(t, "tensor 3 names storage");
    t = build();
    tensors(t)[0].offset_bytes = 4;
    expect(t, "tensor 0 reaches past the end of storage");
    t = build();
    ((sg_storage *)t->storages)[1].role = SG_ROLE_COUNT;
    expect(t, "storage 1 has no known role");
    t = build();
    ops(t)[0].attrs.flags = SG_HAS_RESIDUAL;
    expect(t, "operation 0 (MATMUL): ");
    t = build();
    parameters(t)[0].gradient = (int32_t)t->n_tensors;
    expect(t, "parameter w1 names a tensor or module that does not exist");
    t = build();
    parameters(t)[0].state[0] = parameters(t)[1].tensor;
    expect(t, "parameter w1: its gradient or state has another shape");
    t = build();
    parameters(t)[0].trainable = 0;
    expect(t, "parameter w1 is frozen but has a gradient");
    t = build();
    ((sg_input *)t->inputs)[0].tensor = -2;
    expect(t, "input x names a tensor that does not exist");
    t = build();
    ((sg_module *)t->modules)[0].parent = 0;
    expect(t, "does not come after its parent");
    t = build();
    t->loss = (int32_t)t->n_tensors;
    expect(t, "the loss names tensor");
}

static void schedule(void **state) {
    (void)state;
    sg_training *t = build();
    ((sg_schedule_step *)t->blocks[0].steps)[1].index = 1;
    expect(t, "block step, step 1 names a program that does not exist");
    t = build();
    ((sg_block *)t->blocks)[0].repeat = -1;
    expect(t, "block step is repeated less than 0 times");
}

/* ---- entries ------------------------------------------------------------------------------------------------------ */

static void indices(void **state) {
    (void)state;
    sg_training *t = build();
    entries(t)[entry_of(t, SG_ENTRY_OP, 0)].index = (int32_t)t->n_ops;
    expect(t, "names operation");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_OP, 0)].args = (uint32_t)t->n_args - 1;
    expect(t, "its operands are out of range");
    t = build();
    args(t)[t->programs[0].entries[entry_of(t, SG_ENTRY_OP, 0)].args] = (int32_t)t->n_tensors;
    expect(t, "(MATMUL): names tensor");
    t = build();
    args(t)[t->programs[0].entries[entry_of(t, SG_ENTRY_VIEW, 0)].args] = -1;
    expect(t, "(VIEW): its operand is out of range");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_ALLOC, 0)].index = -1;
    expect(t, "(ALLOC): names storage -1");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_WAIT, 0)].index = (int32_t)t->n_tensors;
    expect(t, "(WAIT): names tensor");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_COPY, 0)].index = 1;
    expect(t, "(COPY): names input 1");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_GRAD_READY, 0)].index = (int32_t)t->n_parameters;
    expect(t, "(GRAD_READY): names parameter");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_MARK, 0)].index = SG_MARK_COUNT;
    expect(t, "(MARK): mark 7 is not known");
    t = build();
    entries(t)[0].kind = 99;
    expect(t, "is of no known kind");
    t = build();
    entries(t)[0].pass = SG_PASS_COUNT;
    expect(t, "belongs to no known pass");
    t = build();
    entries(t)[0].module = 1;
    expect(t, "belongs to no module");
}

static void lifetimes(void **state) {
    (void)state;
    sg_training *t = build();
    into_mark(t, entry_of(t, SG_ENTRY_ALLOC, 0));
    expect(t, "outside of its lifetime");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_ALLOC, 1)].index = entries(t)[entry_of(t, SG_ENTRY_ALLOC, 0)].index;
    expect(t, "is allocated already");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_FREE, 1)].index = entries(t)[entry_of(t, SG_ENTRY_FREE, 0)].index;
    expect(t, "is not allocated");
    t = build();
    into_mark(t, entry_of(t, SG_ENTRY_FREE, 0));
    expect(t, "is still allocated when the iteration ends");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_ALLOC, 0)].index = t->tensors[t->parameters[0].tensor].storage;
    expect(t, "is persistent");
    /* freed in the forward, read in the backward */
    t = build();
    size_t relu = op_entry(t, SG_OP_UNARY, SG_FN_RELU, 0);
    int32_t storage = t->tensors[args(t)[entries(t)[relu].args]].storage;
    entries(t)[entry_of(t, SG_ENTRY_MARK, 1)] = (sg_entry){.kind = SG_ENTRY_FREE, .index = storage};
    expect(t, "uses storage");
}

static void unwritten(void **state) {
    (void)state;
    sg_training *t = build();
    into_mark(t, op_entry(t, SG_OP_FILL, SG_FN_NONE, 0));
    expect(t, "before anything wrote it");
    t = build();
    into_mark(t, op_entry(t, SG_OP_REDUCE, SG_FN_MEAN, 0));
    expect(t, "(WAIT): reads storage");
}

static void in_place(void **state) {
    (void)state;
    /* the backward of relu reads the tensor from before relu */
    sg_training *t = build();
    size_t relu = op_entry(t, SG_OP_UNARY, SG_FN_RELU, 0), back = op_entry(t, SG_OP_UNARY_BWD, SG_FN_RELU, 0);
    args(t)[entries(t)[back].args + 1] = args(t)[entries(t)[relu].args];
    expect(t, "overwritten in place since");
    /* the op says in place, but writes elsewhere */
    t = build();
    relu = op_entry(t, SG_OP_UNARY, SG_FN_RELU, 0);
    tensors(t)[args(t)[entries(t)[relu].args + 1]].offset_bytes = 0;
    tensors(t)[args(t)[entries(t)[relu].args + 1]].desc.stride[1] = 0;
    expect(t, "is in place, but tensor");
    /* the op does not say in place, but writes over its input */
    t = build();
    ops(t)[t->programs[0].entries[op_entry(t, SG_OP_UNARY, SG_FN_RELU, 0)].index].attrs.flags = 0;
    expect(t, "writes over its own input");
}

static void operands(void **state) {
    (void)state;
    sg_training *t = build();
    tensors(t)[t->parameters[0].tensor].desc.dtype = SG_I32;
    expect(t, "as another dtype");
    t = build();
    const sg_entry *product = &t->programs[0].entries[op_entry(t, SG_OP_MATMUL, SG_FN_NONE, 0)];
    args(t)[product->args] = t->parameters[1].tensor; /* the bias where x should be */
    expect(t, "reaches past the end of storage");
}

static void gradients(void **state) {
    (void)state;
    sg_training *t = build();
    entries(t)[entry_of(t, SG_ENTRY_GRAD_READY, 1)].index = entries(t)[entry_of(t, SG_ENTRY_GRAD_READY, 0)].index;
    expect(t, "becomes ready twice in one optimizer step");
    t = build();
    into_mark(t, entry_of(t, SG_ENTRY_GRAD_READY, 0));
    expect(t, "the optimizer step comes before the gradient of b1 is ready");
    t = build();
    entries(t)[entry_of(t, SG_ENTRY_GRAD_READY, 0)].index = 2;
    expect(t, "parameter w2 has no gradient");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound),    cmocka_unit_test(tables),    cmocka_unit_test(schedule),
        cmocka_unit_test(indices),  cmocka_unit_test(lifetimes), cmocka_unit_test(unwritten),
        cmocka_unit_test(in_place), cmocka_unit_test(operands),  cmocka_unit_test(gradients),
    };
    return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
