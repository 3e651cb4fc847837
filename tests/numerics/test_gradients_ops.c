/* Every gradient rule against central differences, and proof that a wrong rule would be noticed. */
#include "tests/support/lab.h"
#include "tests/support/op_trainings.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct setting {
    const char *name;
    sg_framework framework;
    sg_device_class device_class;
} setting;

static const setting SETTINGS[] = {
    {"pytorch-eager on CUDA", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA},
    {"pytorch-eager on a CPU", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU},
    {"native on CUDA", SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CUDA},
    {"native on a CPU", SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU},
};
enum { N_SETTINGS = sizeof SETTINGS / sizeof *SETTINGS };

static sg_training *built(const sg_op_training *one, int setting) {
    sg_profile profile = sg_profile_make(SETTINGS[setting].framework, SETTINGS[setting].device_class);
    sg_status status = {0};
    sg_training *training = NULL;
    if (sg_op_training_build(one, &profile, &training, &status) != SG_OK) fail_msg("%s: %s", one->name, status.text);
    return training;
}

static void open_lab(sg_lab *lab, const sg_training *training) {
    sg_lab_open(lab, training, &(sg_lab_options){.wide = true, .seed = 5});
    sg_lab_measure_slopes(lab);
}

static void test_every_rule(void **state) {
    (void)state;
    int wrong = 0;
    for (int s = 0; s < N_SETTINGS; s++)
        for (size_t i = 0; i < SG_N_OP_TRAININGS; i++) {
            sg_training *training = built(&SG_OP_TRAININGS[i], s);
            sg_lab lab;
            const char *worst = "";
            open_lab(&lab, training);
            double deviation = sg_lab_deviation(&lab, &worst);
            if (!(deviation < SG_LAB_TOLERANCE)) {
                print_error("%s, %s: gradient of %s is off by %.3g\n", SETTINGS[s].name, SG_OP_TRAININGS[i].name, worst,
                            deviation);
                wrong++;
            }
            sg_lab_close(&lab);
            sg_training_free(training);
        }
    assert_int_equal(wrong, 0);
}

static sg_tid times_detached(sg_graph *g, const sg_op_training *self) {
    sg_param_spec spec = {.dtype = SG_F32, .init = SG_INIT_NORMAL, .scale = 1};
    sg_tid x = sg_param(g, "x", 1, (int64_t[]){5}, spec), cut = sg_param(g, "cut", 1, (int64_t[]){5}, spec);
    return sg_mul(g, x, sg_detach(g, sg_unary(g, self->fn, cut, 0, 0)));
}

/* The loss does depend on what is behind a detach, but no gradient may go there. */
static void test_detach(void **state) {
    (void)state;
    static const sg_op_training one = {"detach", times_detached, SG_FN_SIN, 0, 0, 0};
    for (int s = 0; s < N_SETTINGS; s++) {
        sg_training *training = built(&one, s);
        sg_lab lab;
        open_lab(&lab, training);
        assert_int_equal(lab.n_weights, 2);
        assert_null(lab.weight[1].gradient);
        for (int d = 0; d < SG_LAB_DIRECTIONS; d++) {
            assert_true(fabs(lab.weight[1].slope[d]) > 0.01);
            lab.weight[1].slope[d] = 0;
        }
        assert_true(sg_lab_deviation(&lab, NULL) < SG_LAB_TOLERANCE);
        sg_lab_close(&lab);
        sg_training_free(training);
    }
}

static void test_a_wrong_rule_is_noticed(void **state) {
    (void)state;
    static sg_lab_mutants all;
    for (int s = 0; s < N_SETTINGS; s++)
        for (size_t i = 0; i < SG_N_OP_TRAININGS; i++) {
            sg_training *training = built(&SG_OP_TRAININGS[i], s);
            sg_lab lab;
            open_lab(&lab, training);
            int before = all.unnoticed;
            sg_lab_mutate(&lab, &all);
            if (all.unnoticed > before) print_error("... in %s, %s\n", SETTINGS[s].name, SG_OP_TRAININGS[i].name);
            sg_lab_close(&lab);
            sg_training_free(training);
        }
    sg_lab_expect_noticed(&all);
}

/* Kinds whose gradient the trainings above check, are themselves part of a backward, or have none. */
typedef enum gradient { CHECKED, BACKWARD, NONE } gradient;

static gradient gradient_of(sg_op_kind kind) {
    switch (kind) { /* no default: the compiler names a kind that is missing */
    case SG_OP_MATMUL:
    case SG_OP_CONV:
    case SG_OP_MAXPOOL:
    case SG_OP_PAD:
    case SG_OP_SOFTMAX:
    case SG_OP_LAYER_NORM:
    case SG_OP_RMS_NORM:
    case SG_OP_CHANNEL_NORM:
    case SG_OP_ATTENTION:
    case SG_OP_UNARY:
    case SG_OP_BINARY:
    case SG_OP_TERNARY:
    case SG_OP_COPY:
    case SG_OP_CAT:
    case SG_OP_REDUCE:
    case SG_OP_EMBEDDING:
    case SG_OP_DROPOUT: return CHECKED;
    case SG_OP_CONV_BWD_DATA:
    case SG_OP_CONV_BWD_WEIGHTS:
    case SG_OP_MAXPOOL_BWD:
    case SG_OP_SOFTMAX_BWD:
    case SG_OP_LAYER_NORM_BWD:
    case SG_OP_RMS_NORM_BWD:
    case SG_OP_CHANNEL_NORM_BWD:
    case SG_OP_ATTENTION_BWD:
    case SG_OP_UNARY_BWD:
    case SG_OP_EMBEDDING_BWD:
    case SG_OP_DROPOUT_BWD: return BACKWARD;
    case SG_OP_RESIZE: /* images are inputs */
    case SG_OP_FILL:
    case SG_OP_IOTA:
    case SG_OP_CUMSUM: /* positions of tokens, returns */
    case SG_OP_RANDOM:
    case SG_OP_NORM_ALL: /* optimizer */
    case SG_OP_FOREACH:
    case SG_OP_ADAMW:
    case SG_OP_AMP_UNSCALE:
    case SG_OP_AMP_UPDATE:
    case SG_OP_KIND_COUNT: break;
    }
    return NONE;
}

static void test_no_kind_without_a_gradient_rule(void **state) {
    (void)state;
    bool seen[2][SG_OP_KIND_COUNT] = {{false}}, fn_seen[SG_FN_COUNT] = {false}; /* forward, backward */
    for (int s = 0; s < N_SETTINGS; s++)
        for (size_t i = 0; i < SG_N_OP_TRAININGS; i++) {
            sg_training *t = built(&SG_OP_TRAININGS[i], s);
            for (size_t p = 0; p < t->n_programs; p++)
                for (size_t e = 0; e < t->programs[p].n_entries; e++) {
                    const sg_entry *entry = &t->programs[p].entries[e];
                    if (entry->kind != SG_ENTRY_OP || entry->pass > SG_PASS_BACKWARD) continue;
                    seen[entry->pass == SG_PASS_BACKWARD][t->ops[entry->index].kind] = true;
                    if (entry->pass == SG_PASS_FORWARD) fn_seen[t->ops[entry->index].attrs.fn] = true;
                }
            sg_training_free(t);
        }
    for (int kind = 0; kind < SG_OP_KIND_COUNT; kind++) {
        gradient g = gradient_of((sg_op_kind)kind);
        if (g != NONE && !seen[g == BACKWARD][kind]) fail_msg("no training has %s", sg_op_kind_name((sg_op_kind)kind));
    }
    for (int fn = SG_FN_RELU; fn <= SG_FN_POWV; fn++) {
        bool none = fn == SG_FN_SIGN || fn == SG_FN_NOT || fn == SG_FN_FLOOR || fn == SG_FN_LERP || fn == SG_FN_ATAN2 ||
                    fn == SG_FN_POWV || (fn >= SG_FN_EQ && fn <= SG_FN_OR);
        if (!none && !fn_seen[fn]) fail_msg("no training has %s", sg_fn_name((sg_fn)fn));
    }
}

/* Better no training than one whose gradient lacks a part. */
static void test_ops_without_a_gradient_are_refused(void **state) {
    (void)state;
    for (int s = 0; s < N_SETTINGS; s++)
        for (size_t i = 0; i < SG_N_OP_REFUSALS; i++) {
            sg_profile profile = sg_profile_make(SETTINGS[s].framework, SETTINGS[s].device_class);
            sg_status status = {0};
            sg_training *training = NULL;
            if (sg_op_training_build(&SG_OP_REFUSALS[i], &profile, &training, &status) == SG_OK)
                fail_msg("%s was differentiated", SG_OP_REFUSALS[i].name);
            assert_int_equal(status.code, SG_BAD_INPUT);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_kind_without_a_gradient_rule),
        cmocka_unit_test(test_ops_without_a_gradient_are_refused),
        cmocka_unit_test(test_every_rule),
        cmocka_unit_test(test_detach),
        cmocka_unit_test(test_a_wrong_rule_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
