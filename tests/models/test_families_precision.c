/* Precision: what products and convolutions compute in, the loss scaler of fp16, steps in bf16 alone. */
#include "tests/models/families_fixture.h"

static sg_compute compute_of(const char *policy, const char *precision, sg_device_class device_class) {
    sg_training *t = NULL;
    sg_status status = {0};
    sg_policy_request asked = {.policy = policy, .precision = precision, .device_class = device_class};
    if (sg_policy_build(&asked, &t, &status) != SG_OK) fail_msg("%s", status.text);
    sg_compute compute = SG_COMPUTE_COUNT;
    for (size_t i = 0; i < t->n_ops && compute == SG_COMPUTE_COUNT; i++)
        if (t->ops[i].kind == SG_OP_MATMUL) compute = (sg_compute)t->ops[i].attrs.compute;
    sg_training_free(t);
    return compute;
}

/* LeRobot and rsl_rl's runners let a GPU use TF32; PyTorch by itself does not; a CPU has none. */
static void test_products_of_fp32(void **state) {
    (void)state;
    static const char *const allowing[] = {"act", "ppo"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(compute_of(allowing[i], NULL, SG_DEVICE_CLASS_CUDA), SG_COMPUTE_TF32);
        assert_int_equal(compute_of(allowing[i], "fp32", SG_DEVICE_CLASS_CUDA), SG_COMPUTE_F32);
        assert_int_equal(compute_of(allowing[i], NULL, SG_DEVICE_CLASS_CPU), SG_COMPUTE_F32);
    }
    assert_int_equal(compute_of("mlp", NULL, SG_DEVICE_CLASS_CUDA), SG_COMPUTE_F32);
    assert_int_equal(compute_of("mlp", "tf32", SG_DEVICE_CLASS_CUDA), SG_COMPUTE_TF32);
    assert_int_equal(compute_of("mlp", "tf32", SG_DEVICE_CLASS_CPU), SG_COMPUTE_F32);
    assert_int_equal(compute_of("mlp", "bf16", SG_DEVICE_CLASS_CUDA), SG_COMPUTE_BF16);
    assert_int_equal(compute_of("mlp", "fp16", SG_DEVICE_CLASS_CUDA), SG_COMPUTE_F16);
}

/* PyTorch's convolutions are TF32 on a GPU even where matrix products are not (cudnn.allow_tf32 is on by default). */
static void test_convolutions_are_tf32(void **state) {
    (void)state;
    for (int device = 0; device < 2; device++) {
        request r;
        fill(&r, &TINY[0], SG_FRAMEWORK_PYTORCH_EAGER, device ? SG_DEVICE_CLASS_CPU : SG_DEVICE_CLASS_CUDA);
        r.asked.precision = "fp32";
        sg_training *t = build(&r);
        int convolutions = 0;
        for (size_t i = 0; i < t->n_ops; i++) {
            sg_op_class cls = sg_op_class_of(&t->ops[i]);
            bool conv = cls == SG_CLASS_CONV || cls == SG_CLASS_CONV_BWD_DATA || cls == SG_CLASS_CONV_BWD_WEIGHTS;
            if (conv) assert_int_equal(t->ops[i].attrs.compute, device ? SG_COMPUTE_F32 : SG_COMPUTE_TF32);
            if (cls == SG_CLASS_GEMM || cls == SG_CLASS_BMM) assert_int_equal(t->ops[i].attrs.compute, SG_COMPUTE_F32);
            convolutions += conv;
        }
        assert_true(convolutions > 3);
        sg_training_free(t);
    }
}

static int count_kind(const sg_training *t, sg_op_kind kind) {
    int n = 0;
    const sg_program *p = &t->programs[sg_main_program(t)];
    for (size_t i = 0; i < p->n_entries; i++)
        n += p->entries[i].kind == SG_ENTRY_OP && t->ops[p->entries[i].index].kind == (int32_t)kind;
    return n;
}

/* torch.amp.GradScaler beside a bf16 step: loss times scale; its backward; 1 / scale in fp64 (3), found = 0, two copies, one
 * pass over the gradients, one update; one .item(). */
static void test_loss_scaler(void **state) {
    (void)state;
    static const sg_pass passes[] = {SG_PASS_FORWARD, SG_PASS_BACKWARD, SG_PASS_OPTIMIZER};
    static const int64_t more[] = {1, 1, 8};
    for (size_t i = 0; i < N_TINY; i++) {
        if (strcmp(TINY[i].policy, "smolvla") == 0) continue;
        sg_counts counts[2];
        for (int scaled = 0; scaled < 2; scaled++) {
            request r;
            fill(&r, &TINY[i], SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
            r.asked.precision = scaled ? "fp16" : "bf16";
            sg_training *t = build(&r);
            counts[scaled] = sg_count_program(t, sg_main_program(t));
            assert_int_equal(count_kind(t, SG_OP_AMP_UNSCALE), scaled);
            assert_int_equal(count_kind(t, SG_OP_AMP_UPDATE), scaled);
            sg_training_free(t);
        }
        assert_int_equal(counts[1].waits, counts[0].waits + 1);
        assert_int_equal(counts[1].parameters, counts[0].parameters);
        for (int p = 0; p < 3; p++)
            assert_int_equal(counts[1].pass[passes[p]].ops, counts[0].pass[passes[p]].ops + more[p]);
    }
}

/* Weights, gradients and moments are bf16, and so is every product. */
static void test_pure_low_precision(void **state) {
    (void)state;
    for (size_t i = 0; i < N_TINY; i++) {
        for (int framework = 0; framework < SG_FRAMEWORK_COUNT; framework++) {
            request r;
            fill(&r, &TINY[i], (sg_framework)framework, SG_DEVICE_CLASS_CUDA);
            r.asked.precision = "bf16-pure";
            sg_training *t = build(&r);
            for (size_t k = 0; k < t->n_parameters; k++) {
                const sg_parameter *p = &t->parameters[k];
                if (!p->is_buffer) assert_int_equal(t->tensors[p->tensor].desc.dtype, SG_BF16);
                if (p->gradient < 0) continue;
                assert_int_equal(t->tensors[p->gradient].desc.dtype, SG_BF16);
                assert_int_equal(t->tensors[p->state[0]].desc.dtype, SG_BF16);
                assert_int_equal(t->tensors[p->state[1]].desc.dtype, SG_BF16);
            }
            for (size_t k = 0; k < t->n_ops; k++)
                if (sg_op_class_of(&t->ops[k]) == SG_CLASS_GEMM)
                    assert_int_equal(t->ops[k].attrs.compute, SG_COMPUTE_BF16);
            sg_training_free(t);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_convolutions_are_tf32),
        cmocka_unit_test(test_loss_scaler),
        cmocka_unit_test(test_pure_low_precision),
        cmocka_unit_test(test_products_of_fp32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
