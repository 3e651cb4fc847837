/* Recording: lifetimes, accumulation, optimizer, mixed precision, counting. */
#include "tests/models/graph_fixture.h"

#include <time.h>

/* ---- looking at programs ------------------------------------------------------------------------------------------ */

static int64_t count_entries(const sg_training *t, size_t program, sg_entry_kind kind, int32_t index) {
    int64_t n = 0;
    for (size_t i = 0; i < t->programs[program].n_entries; i++) {
        const sg_entry *e = &t->programs[program].entries[i];
        n += e->kind == kind && (index < 0 || e->index == index);
    }
    return n;
}

static int64_t count_ops(const sg_training *t, size_t program, sg_op_kind kind, sg_pass pass) {
    int64_t n = 0;
    for (size_t i = 0; i < t->programs[program].n_entries; i++) {
        const sg_entry *e = &t->programs[program].entries[i];
        n += e->kind == SG_ENTRY_OP && e->pass == pass && t->ops[e->index].kind == (int)kind;
    }
    return n;
}

/* Bytes of storages that are not persistent: the most alive at a time in a pass. */
static uint64_t peak_bytes(const sg_training *t, size_t program, sg_pass pass) {
    uint64_t live = 0, peak = 0;
    for (size_t i = 0; i < t->programs[program].n_entries; i++) {
        const sg_entry *e = &t->programs[program].entries[i];
        if (e->kind == SG_ENTRY_ALLOC) live += t->storages[e->index].bytes;
        if (e->kind == SG_ENTRY_FREE) live -= t->storages[e->index].bytes;
        if (e->pass == pass && live > peak) peak = live;
    }
    return peak;
}

/* Position of the FREE of a tensor's storage in a program, or -1. */
static int64_t freed_at(const sg_training *t, size_t program, int32_t tensor) {
    for (size_t i = 0; i < t->programs[program].n_entries; i++)
        if (t->programs[program].entries[i].kind == SG_ENTRY_FREE &&
            t->programs[program].entries[i].index == t->tensors[tensor].storage)
            return (int64_t)i;
    return -1;
}

static int64_t mark_at(const sg_training *t, size_t program, sg_mark mark) {
    for (size_t i = 0; i < t->programs[program].n_entries; i++)
        if (t->programs[program].entries[i].kind == SG_ENTRY_MARK &&
            t->programs[program].entries[i].index == (int32_t)mark)
            return (int64_t)i;
    return -1;
}

/* ---- lifetimes ----------------------------------------------------------------------------------------------------- */

/* Without gradients each result goes as soon as the next one is there. */
static void temporaries_are_freed_after_their_last_use(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = input(g, 2, N(16, 32));
    sg_program_begin(g, "inference");
    for (int i = 0; i < 10; i++) x = sg_unary(g, SG_FN_EXP, x, 0, 0);
    sg_program_end(g);
    sg_training *t = finish(g);
    assert_int_equal(peak_bytes(t, 0, SG_PASS_FORWARD), 2 * 16 * 32 * 4);
    sg_training_free(t);
}

static void a_held_tensor_outlives_its_last_use(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "w", 2, N(4, 8)), x = input(g, 2, N(2, 8));
    sg_program_begin(g, "update");
    sg_tid first = sg_scale(g, x, 2), second = sg_scale(g, x, 3), third = sg_scale(g, x, 4);
    sg_hold_forward(g, second);
    sg_hold_program(g, third);
    sg_backward(g, sg_mean_all(g, sg_linear(g, x, w, SG_NO_TENSOR)), true, true);
    sg_program_end(g);
    sg_training *t = finish(g);
    int64_t backward = mark_at(t, 0, SG_MARK_BACKWARD), end = (int64_t)t->programs[0].n_entries;
    assert_true(freed_at(t, 0, first) < 10);
    assert_in_range(freed_at(t, 0, second), backward - 3, backward - 1);
    assert_in_range(freed_at(t, 0, third), end - 3, end - 1);
    sg_training_free(t);
}

/* The input of a linear with a trained weight is saved, its output is not; nothing of a frozen one is. */
static void saved_is_what_the_backward_reads(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = input(g, 2, N(2, 8)), w1 = weight(g, "w1", 2, N(16, 8));
    sg_tid w2 = sg_param(g, "w2", 2, N(4, 16), (sg_param_spec){.dtype = SG_F32, .frozen = true});
    sg_program_begin(g, "update");
    sg_tid h = sg_linear(g, x, w1, SG_NO_TENSOR);
    sg_tid a = sg_unary(g, SG_FN_GELU_TANH, h, 0, 0);
    sg_tid y = sg_linear(g, a, w2, SG_NO_TENSOR);
    sg_backward(g, sg_mean_all(g, y), true, true);
    sg_program_end(g);
    sg_training *t = finish(g);
    assert_int_equal(t->storages[t->tensors[h].storage].role, SG_ROLE_SAVED);
    assert_int_equal(t->storages[t->tensors[a].storage].role, SG_ROLE_TEMPORARY);
    assert_int_equal(t->storages[t->tensors[y].storage].role, SG_ROLE_TEMPORARY);
    assert_int_equal(t->storages[t->tensors[x].storage].role, SG_ROLE_BATCH);
    assert_int_equal(sg_count_program(t, 0).saved_bytes, 2 * 16 * 4 + 2 * 8 * 4);
    sg_training_free(t);
}

/* A square's result is not needed for its gradient; a layer may say that the framework keeps it all the same. */
static void a_kept_result_is_saved(void **state) {
    (void)state;
    for (int keep = 0; keep < 2; keep++) {
        sg_graph *g = eager();
        sg_tid w = weight(g, "w", 2, N(2, 8));
        sg_program_begin(g, "update");
        sg_tid x = sg_scale(g, w, 2), y = sg_unary(g, SG_FN_SQUARE, x, 0, 0);
        if (keep) sg_keep_for_backward(g, y);
        sg_backward(g, sg_mean_all(g, y), true, true);
        sg_program_end(g);
        sg_training *t = finish(g);
        assert_int_equal(t->storages[t->tensors[x].storage].role, SG_ROLE_SAVED);
        assert_int_equal(t->storages[t->tensors[y].storage].role, keep ? SG_ROLE_SAVED : SG_ROLE_TEMPORARY);
        assert_int_equal(freed_at(t, 0, y) > mark_at(t, 0, SG_MARK_BACKWARD), keep);
        sg_training_free(t);
    }
}

/* A result that nobody reads keeps its graph, and that its saved tensors, as long as the forward holds it. */
static void a_held_result_keeps_its_graph(void **state) {
    (void)state;
    for (int held = 0; held < 2; held++) {
        sg_graph *g = eager();
        sg_tid w = weight(g, "w", 2, N(2, 8)), v = weight(g, "v", 2, N(2, 8));
        sg_program_begin(g, "update");
        sg_tid x = sg_scale(g, w, 2);
        sg_tid unused = sg_unary(g, SG_FN_GELU_TANH, sg_mul(g, x, v), 0, 0);
        if (held) sg_hold_forward(g, unused);
        sg_backward(g, sg_mean_all(g, v), true, true);
        sg_program_end(g);
        sg_training *t = finish(g);
        assert_int_equal(t->storages[t->tensors[x].storage].role, held ? SG_ROLE_SAVED : SG_ROLE_TEMPORARY);
        assert_true(freed_at(t, 0, x) < mark_at(t, 0, SG_MARK_BACKWARD));
        assert_int_equal(freed_at(t, 0, x) > freed_at(t, 0, unused) - 3, held);
        sg_training_free(t);
    }
}

static void gradients_live_until_zero_grad(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "w", 2, N(4, 8)), x = input(g, 2, N(2, 8));
    sg_program_begin(g, "update");
    sg_backward(g, sg_mean_all(g, sg_linear(g, x, w, SG_NO_TENSOR)), true, true);
    sg_optimizer_step(g, &ADAMW);
    sg_program_end(g);
    sg_training *t = finish(g);
    int32_t gradient = t->parameters[0].gradient;
    assert_int_equal(t->storages[t->tensors[gradient].storage].role, SG_ROLE_GRADIENT);
    int64_t freed = freed_at(t, 0, gradient);
    assert_int_equal(freed, mark_at(t, 0, SG_MARK_ZERO_GRAD) + 1);
    /* the norm is read after it, and the end of the step is marked last */
    assert_true(mark_at(t, 0, SG_MARK_END) > freed);
    assert_int_equal(count_entries(t, 0, SG_ENTRY_WAIT, -1), 1);
    sg_training_free(t);
}

/* ---- accumulation --------------------------------------------------------------------------------------------------- */

static void micro_step(sg_graph *g, sg_tid x, sg_tid w, bool first, bool last) {
    sg_backward(g, sg_mean_all(g, sg_linear(g, x, w, SG_NO_TENSOR)), first, last);
    if (last) sg_optimizer_step(g, &ADAMW);
}

static void accumulation_crosses_programs(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "w", 2, N(4, 8)), x = input(g, 2, N(2, 8));
    int32_t program[3];
    for (int i = 0; i < 3; i++) {
        program[i] = sg_program_begin(g, i == 0 ? "first" : i == 1 ? "middle" : "last");
        micro_step(g, x, w, i == 0, i == 2);
        sg_program_end(g);
    }
    static const int64_t repeat[3] = {1, 2, 1};
    for (int i = 0; i < 3; i++) {
        sg_block_begin(g, "step", repeat[i]);
        sg_block_program(g, program[i]);
        sg_block_end(g);
    }
    sg_training *t = finish(g);
    int32_t storage = t->tensors[t->parameters[0].gradient].storage;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(count_entries(t, i, SG_ENTRY_ALLOC, storage), i == 0);
        assert_int_equal(count_entries(t, i, SG_ENTRY_FREE, storage), i == 2);
        assert_int_equal(count_entries(t, i, SG_ENTRY_GRAD_READY, 0), i == 2);
        assert_int_equal(count_ops(t, i, SG_OP_BINARY, SG_PASS_BACKWARD), i > 0);
    }
    assert_int_equal(sg_main_program(t), 2);
    sg_training_free(t);
}

static void accumulation_needs_a_beginning(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid w = weight(g, "w", 2, N(4, 8)), x = input(g, 2, N(2, 8));
    sg_program_begin(g, "update");
    micro_step(g, x, w, false, true);
    sg_program_end(g);
    expect_failure(g, SG_BAD_INPUT, "the gradient of w is accumulated into before any program made it");
}

/* ---- optimizer ------------------------------------------------------------------------------------------------------- */

static sg_training *trained(sg_profile profile, int64_t ranks, const sg_optimizer_spec *spec) {
    sg_status status = {0};
    sg_graph *g = sg_graph_new(&profile, 2, 1, ranks, &status);
    assert_non_null(g);
    sg_tid x = input(g, 2, N(2, 8));
    sg_tid w1 = weight(g, "backbone.w", 2, N(8, 8)), w2 = weight(g, "head.w", 2, N(8, 8)),
           b2 = weight(g, "head.b", 1, N(8));
    sg_program_begin(g, "update");
    sg_backward(g, sg_mean_all(g, sg_linear(g, sg_linear(g, x, w1, SG_NO_TENSOR), w2, b2)), true, true);
    sg_optimizer_step(g, spec);
    sg_program_end(g);
    return finish(g);
}

static sg_profile profile_of(sg_framework framework, sg_device_class device_class) {
    return sg_profile_make(framework, device_class);
}

/* Clipping: norm of each, stack, norm, + eps, 1 / x, * max, clamp, scale: 8. AdamW: 8 passes per group. */
static void foreach_passes(void **state) {
    (void)state;
    sg_profile profile = profile_of(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    sg_training *t = trained(profile, 1, &ADAMW);
    assert_int_equal(sg_count_program(t, 0).pass[SG_PASS_OPTIMIZER].ops, 8 + 8);
    assert_int_equal(sg_count_program(t, 0).optimizer_bytes, 2 * (64 + 64 + 8) * 4);
    /* gradients, the roots of all second moments at once, and the norm that is read later */
    assert_int_equal(peak_bytes(t, 0, SG_PASS_OPTIMIZER), 2 * (64 + 64 + 8) * 4 + 4);
    assert_int_equal(count_entries(t, 0, SG_ENTRY_SYNC_GRADS, -1), 0);
    sg_training_free(t);
    sg_optimizer_spec groups = ADAMW;
    groups.group_prefix[0] = "backbone";
    t = trained(profile, 1, &groups);
    assert_int_equal(sg_count_program(t, 0).pass[SG_PASS_OPTIMIZER].ops, 8 + 2 * 8);
    sg_training_free(t);
}

/* Adam without weight decay has one pass less; clipping actor and critic apart reads no norm. */
static void adam_and_clip_groups(void **state) {
    (void)state;
    sg_optimizer_spec spec = ADAMW;
    spec.decoupled_weight_decay = false;
    spec.weight_decay = 0;
    spec.clip_prefix[0] = "backbone";
    spec.clip_prefix[1] = "head";
    sg_training *t = trained(profile_of(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA), 2, &spec);
    assert_int_equal(sg_count_program(t, 0).pass[SG_PASS_OPTIMIZER].ops, 2 * 8 + 7);
    assert_int_equal(sg_count_program(t, 0).waits, 0);
    assert_int_equal(count_entries(t, 0, SG_ENTRY_SYNC_GRADS, -1), 1);
    sg_training_free(t);
}

static void one_tensor_after_another_on_a_cpu(void **state) {
    (void)state;
    sg_training *t = trained(profile_of(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU), 1, &ADAMW);
    assert_int_equal(sg_count_program(t, 0).pass[SG_PASS_OPTIMIZER].ops, 8 + 3 * 8);
    assert_int_equal(count_ops(t, 0, SG_OP_FOREACH, SG_PASS_OPTIMIZER), 1);
    sg_training_free(t);
}

static void one_fused_pass_in_native(void **state) {
    (void)state;
    sg_training *t = trained(profile_of(SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU), 1, &ADAMW);
    assert_int_equal(count_ops(t, 0, SG_OP_ADAMW, SG_PASS_OPTIMIZER), 1);
    sg_training_free(t);
}

/* ---- precision and fusion ---------------------------------------------------------------------------------------------- */

/* A weight used twice is cast once; its gradients are summed in the low precision and cast back once. */
static void autocast_keeps_the_casts_of_weights(void **state) {
    (void)state;
    sg_profile profile = profile_of(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
    profile.autocast = true;
    profile.autocast_dtype = SG_BF16;
    sg_status status = {0};
    sg_graph *g = sg_graph_new(&profile, 2, 1, 1, &status);
    sg_tid w = weight(g, "w", 2, N(8, 8)), n = weight(g, "n", 1, N(8)), x = input(g, 2, N(2, 8));
    sg_program_begin(g, "update");
    sg_tid h = sg_linear(g, sg_linear(g, x, w, SG_NO_TENSOR), w, SG_NO_TENSOR);
    assert_int_equal(sg_desc_of(g, h)->dtype, SG_BF16);
    sg_tid y = sg_layer_norm(g, h, n, n, 1e-5);
    assert_int_equal(sg_desc_of(g, y)->dtype, SG_F32);
    sg_backward(g, sg_mean_all(g, y), true, true);
    sg_program_end(g);
    sg_training *t = finish(g);
    assert_int_equal(count_ops(t, 0, SG_OP_COPY, SG_PASS_FORWARD), 3);  /* x, w, h */
    assert_int_equal(count_ops(t, 0, SG_OP_COPY, SG_PASS_BACKWARD), 2); /* h, w */
    assert_int_equal(t->tensors[t->parameters[0].gradient].desc.dtype, SG_F32);
    sg_training_free(t);
}

/* relu goes into the product (its backward needs the output only), gelu does not. */
static void native_fuses_what_it_can_undo(void **state) {
    (void)state;
    for (int gelu = 0; gelu < 2; gelu++) {
        sg_graph *g = new_graph(SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU);
        sg_tid w = weight(g, "w", 2, N(4, 8)), b = weight(g, "b", 1, N(4)), x = weight(g, "x", 2, N(2, 8));
        sg_program_begin(g, "update");
        sg_tid y = sg_linear_act(g, x, w, b, gelu ? SG_FN_GELU_TANH : SG_FN_RELU);
        sg_backward(g, sg_mean_all(g, y), true, true);
        sg_program_end(g);
        sg_training *t = finish(g);
        assert_int_equal(sg_count_program(t, 0).pass[SG_PASS_FORWARD].ops, 2 + gelu);
        assert_int_equal(count_ops(t, 0, SG_OP_UNARY_BWD, SG_PASS_BACKWARD), 1);
        assert_int_equal(count_ops(t, 0, SG_OP_MATMUL, SG_PASS_BACKWARD), 2);
        sg_training_free(t);
    }
}

static void native_images_are_channels_last(void **state) {
    (void)state;
    sg_graph *g = new_graph(SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU);
    sg_param_spec spec = {.dtype = SG_F32, .channels_last = true, .init = SG_INIT_NORMAL, .scale = 0.1};
    sg_tid w = sg_param(g, "w", 4, N(4, 3, 3, 3), spec), b = weight(g, "b", 1, N(4)), x = input(g, 4, N(2, 3, 8, 8));
    sg_program_begin(g, "update");
    sg_tid first = sg_conv2d_fused(g, x, w, b, SG_NO_TENSOR, SG_FN_RELU, 1, 1);
    sg_tid w2 = sg_param(g, "w2", 4, N(4, 4, 3, 3), spec);
    sg_tid y = sg_conv2d_fused(g, first, w2, b, first, SG_FN_RELU, 1, 1);
    assert_true(sg_desc_is_channels_last(sg_desc_of(g, y)));
    sg_backward(g, sg_mean_all(g, y), true, true);
    sg_program_end(g);
    sg_training *t = finish(g);
    assert_int_equal(sg_count_program(t, 0).pass[SG_PASS_FORWARD].ops, 3);
    for (size_t i = 0; i < t->n_parameters; i++)
        assert_memory_equal(t->tensors[t->parameters[i].gradient].desc.stride,
                            t->tensors[t->parameters[i].tensor].desc.stride, sizeof(int64_t) * SG_MAX_DIMS);
    sg_training_free(t);
}

/* ---- counting ------------------------------------------------------------------------------------------------------------ */

static void modules_include_their_children(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = input(g, 2, N(2, 8));
    sg_module_begin(g, "model");
    sg_module_begin(g, "first");
    sg_tid w1 = weight(g, "w", 2, N(8, 8));
    sg_module_end(g);
    sg_tid w2 = weight(g, "w", 2, N(4, 8));
    sg_module_end(g);
    sg_program_begin(g, "update");
    sg_module_begin(g, "model");
    sg_module_begin(g, "first");
    sg_tid h = sg_linear(g, x, w1, SG_NO_TENSOR);
    sg_module_end(g);
    sg_tid loss = sg_mean_all(g, sg_linear(g, h, w2, SG_NO_TENSOR));
    sg_module_end(g);
    sg_backward(g, loss, true, true);
    sg_program_end(g);
    sg_training *t = finish(g);
    assert_int_equal(t->n_modules, 3);
    assert_string_equal(t->modules[2].name, "model.first");
    assert_string_equal(t->parameters[0].name, "model.first.w");
    sg_module_counts c[3];
    sg_count_modules(t, 0, c);
    const double flops1 = 2.0 * 2 * 8 * 8, flops2 = 2.0 * 2 * 8 * 4;
    assert_int_equal(c[2].parameters, 64);
    assert_int_equal(c[1].parameters, 96);
    assert_int_equal(c[0].trainable, 96);
    assert_true(c[2].forward_flops == flops1 && c[1].forward_flops == flops1 + flops2);
    assert_true(c[2].backward_flops == flops1 && c[0].backward_flops == flops1 + 2 * flops2);
    sg_training_free(t);
}

/* Equal ops are one: the table does not grow with depth. */
static void equal_ops_are_interned(void **state) {
    (void)state;
    sg_graph *g = eager();
    sg_tid x = input(g, 2, N(2, 8)), h = x;
    sg_program_begin(g, "update");
    for (int i = 0; i < 50; i++) h = sg_linear(g, h, weight(g, "w", 2, N(8, 8)), SG_NO_TENSOR);
    sg_backward(g, sg_mean_all(g, h), true, true);
    sg_program_end(g);
    sg_training *t = finish(g);
    assert_true(t->n_ops < 10);
    assert_int_equal(count_ops(t, 0, SG_OP_MATMUL, SG_PASS_FORWARD), 50);
    sg_training_free(t);
}

/* ---- time ---------------------------------------------------------------------------------------------------------------- */

static double build_s(int layers) {
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    sg_graph *g = eager();
    sg_tid x = input(g, 2, N(2, 8)), w[2000];
    for (int i = 0; i < layers; i++) w[i] = weight(g, "w", 2, N(8, 8));
    sg_program_begin(g, "update");
    for (int i = 0; i < layers; i++) x = sg_relu(g, sg_linear(g, x, w[i], SG_NO_TENSOR), true);
    sg_backward(g, sg_mean_all(g, x), true, true);
    sg_optimizer_step(g, &ADAMW);
    sg_program_end(g);
    sg_training_free(finish(g));
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    return (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
}

/* Ten times the layers take about ten times as long; anything quadratic would take a hundred times. */
static void building_takes_linear_time(void **state) {
    (void)state;
    double few = 1e9, many = 1e9;
    for (int i = 0; i < 5; i++) {
        double s = build_s(200);
        if (s < few) few = s;
        s = build_s(2000);
        if (s < many) many = s;
    }
    assert_true(many < 40 * few);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temporaries_are_freed_after_their_last_use),
        cmocka_unit_test(a_held_tensor_outlives_its_last_use),
        cmocka_unit_test(saved_is_what_the_backward_reads),
        cmocka_unit_test(a_kept_result_is_saved),
        cmocka_unit_test(a_held_result_keeps_its_graph),
        cmocka_unit_test(gradients_live_until_zero_grad),
        cmocka_unit_test(accumulation_crosses_programs),
        cmocka_unit_test(accumulation_needs_a_beginning),
        cmocka_unit_test(foreach_passes),
        cmocka_unit_test(adam_and_clip_groups),
        cmocka_unit_test(one_tensor_after_another_on_a_cpu),
        cmocka_unit_test(one_fused_pass_in_native),
        cmocka_unit_test(autocast_keeps_the_casts_of_weights),
        cmocka_unit_test(native_fuses_what_it_can_undo),
        cmocka_unit_test(native_images_are_channels_last),
        cmocka_unit_test(modules_include_their_children),
        cmocka_unit_test(equal_ops_are_interned),
        cmocka_unit_test(building_takes_linear_time),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
