/* pi0 and pi05 at full size against a sheet of facts: parameters, work by class, what is kept, what a step needs of memory.
 *
 * The sheet is LeRobot's source, shapes multiplied out, and an equivalent PyTorch graph counted by its dispatcher (August 2026);
 * memory anchors are LeRobot's own CI (pi0) and a public report of full fine-tuning on an A100 (pi05). */
#include "models/policy.h"
#include "sim/measure/measure.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_SETTINGS = 4 };

typedef struct what {
    const char *policy, *precision;
    int64_t batch;
    const char *settings[2 * MOST_SETTINGS]; /* key, value, key, value .. */
} what;

#define EXPERT_ONLY "train_expert_only", "true"
#define CHECKPOINT  "gradient_checkpointing", "true"

static sg_training *build(const what *w, sg_framework framework) {
    sg_setting settings[MOST_SETTINGS];
    sg_policy_request asked = {.policy = w->policy,
                               .framework = framework,
                               .precision = w->precision,
                               .batch = w->batch,
                               .settings = settings};
    for (const char *const *s = w->settings; asked.n_settings < MOST_SETTINGS && *s; s += 2)
        settings[asked.n_settings++] = (sg_setting){s[0], s[1], "test"};
    sg_training *training = NULL;
    sg_status status = {0};
    if (sg_policy_build(&asked, &training, &status) != SG_OK) fail_msg("%s: %s", w->policy, status.text);
    return training;
}

static sg_counts count(const what *w) {
    sg_training *t = build(w, SG_FRAMEWORK_PYTORCH_EAGER);
    sg_counts counts = sg_count_program(t, sg_main_program(t));
    sg_training_free(t);
    return counts;
}

/* |found - wanted| <= tolerance x wanted */
static void near(const what *w, const char *figure, double found, double wanted, double tolerance) {
    if (!(fabs(found - wanted) <= tolerance * wanted))
        fail_msg("%s %s, %s %s: %s is %.6g instead of %.6g (%+.2f %%)", w->policy, w->precision,
                 w->settings[0] ? w->settings[0] : "", w->settings[0] ? w->settings[1] : "", figure, found, wanted,
                 100 * (found / wanted - 1));
}

/* ---- parameters ---- */

typedef struct size_row {
    what w;
    int64_t parameters, trainable, with_gradient, tensors, trainable_tensors;
} size_row;

/* Without a gradient: both heads, and of the language model's last layer what only the prefix's output would need. */
static const size_row SIZES[] = {
    {{"pi0", "fp32", 1, {0}}, 4028019472, 4028019472, 3133186832, 778, 778},
    {{"pi0", "bf16", 1, {0}}, 4028019472, 4028019472, 3133186832, 778, 778},
    {{"pi0", "fp32", 1, {EXPERT_ONLY}}, 4028019472, 578036768, 314713120, 778, 174},
    {{"pi05", "fp32", 1, {0}}, 4143404816, 4143404816, 3248572176, 813, 813},
    {{"pi05", "bf16", 1, {CHECKPOINT}}, 4143404816, 4143404816, 3248572176, 813, 813},
    {{"pi05", "fp32", 1, {EXPERT_ONLY}}, 4143404816, 693422112, 430098464, 813, 209},
    {{"pi0", "bf16", 1, {"tie_word_embeddings", "true"}}, 3501372176, 3501372176, 3133186832, 777, 777},
    {{"pi05", "bf16", 1, {"tie_word_embeddings", "true"}}, 3616757520, 3616757520, 3248572176, 812, 812},
    {{"pi05", "fp32", 1, {"freeze_vision_encoder", "true"}},
     4143404816,
     4143404816 - 412442352,
     3248572176 - 412442352,
     813,
     813 - 437},
};

static void test_parameters(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        const size_row *row = &SIZES[i];
        sg_counts c = count(&row->w);
        assert_int_equal(c.parameters, row->parameters);
        assert_int_equal(c.trainable, row->trainable);
        assert_int_equal(c.with_gradient, row->with_gradient);
        assert_int_equal(c.tensors, row->tensors);
        assert_int_equal(c.trainable_tensors, row->trainable_tensors);
    }
}

static int64_t parameters_of(const sg_training *t, const sg_module_counts *counts, const char *module) {
    for (size_t i = 0; i < t->n_modules; i++)
        if (strcmp(t->modules[i].name, module) == 0) return counts[i].parameters;
    fail_msg("%s has no module %s", t->policy, module);
    return 0;
}

static void test_parameters_of_modules(void **state) {
    (void)state;
#define PALIGEMMA "model.paligemma_with_expert.paligemma."
#define EXPERT    "model.paligemma_with_expert.gemma_expert."
    static const struct {
        const char *module;
        int64_t pi0, pi05;
    } rows[] = {
        {PALIGEMMA "model.vision_tower.vision_model", 412442352, 412442352},
        {PALIGEMMA "model.vision_tower.vision_model.encoder.layers.26", 15239504, 15239504},
        {PALIGEMMA "model.multi_modal_projector", 2361344, 2361344},
        {PALIGEMMA "model.language_model.embed_tokens", 526647296, 526647296},
        {PALIGEMMA "model.language_model.layers.17", 110104576, 110104576},
        {PALIGEMMA "model.language_model.norm", 2048, 2048},
        {PALIGEMMA "lm_head", 526647296, 526647296},
        {EXPERT "model.layers.0", 17303552, 17303552 - 2 * 1024 + 2 * 3148800},
        {EXPERT "model.norm", 1024, 3148800},
        {EXPERT "lm_head", 263323648, 263323648},
        {"model.action_in_proj", 33792, 33792},
        {"model.action_out_proj", 32800, 32800},
    };
    for (int adaptive = 0; adaptive < 2; adaptive++) {
        what w = {adaptive ? "pi05" : "pi0", "bf16", 1, {0}};
        sg_training *t = build(&w, SG_FRAMEWORK_PYTORCH_EAGER);
        sg_module_counts *counts = test_calloc(t->n_modules, sizeof *counts);
        sg_count_modules(t, sg_main_program(t), counts);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            assert_int_equal(parameters_of(t, counts, rows[i].module), adaptive ? rows[i].pi05 : rows[i].pi0);
        if (adaptive)
            assert_int_equal(parameters_of(t, counts, "model.time_mlp_in"), 1049600);
        else
            assert_int_equal(parameters_of(t, counts, "model.action_time_mlp_in"), 2098176);
        test_free(counts);
        sg_training_free(t);
    }
}

/* Vision tower, projector, norms and the small projections stay fp32; gradients and moments follow their weights. */
static void test_bytes(void **state) {
    (void)state;
    static const struct {
        what w;
        double weights, gradients;
    } rows[] = {
        {{"pi0", "fp32", 1, {0}}, 16112.1e6, 12532.7e6},
        {{"pi0", "bf16", 1, {0}}, 8892.4e6, 7102.7e6},
        {{"pi0", "bf16", 1, {EXPERT_ONLY}}, 8892.4e6, 636.0e6},
        {{"pi05", "bf16", 1, {0}}, 9353.9e6, 7564.2e6},
        {{"pi05", "fp32", 1, {EXPERT_ONLY}}, 16573.6e6, 1720.4e6},
        {{"pi05", "bf16", 1, {EXPERT_ONLY}}, 9353.9e6, 1097.5e6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        sg_counts c = count(&rows[i].w);
        near(&rows[i].w, "bytes of weights", (double)c.weights_bytes, rows[i].weights, 1e-4);
        near(&rows[i].w, "bytes of gradients", (double)c.gradients_bytes, rows[i].gradients, 1e-4);
        near(&rows[i].w, "bytes of moments", (double)c.optimizer_bytes, 2 * rows[i].gradients, 1e-4);
    }
}

/* ---- work ---- */

typedef struct work_row {
    what w;
    double forward, backward; /* FLOP per sample */
    double saved;             /* bytes per sample */
    double forward_ops, backward_ops;
    double saved_tolerance;
} work_row;

/* The sheet's graph keeps one tensor of the prefix's size more in each layer where weights are frozen or narrow: which, it does
 * not say. */
#define WIDE        0.01
#define NARROW      0.035
#define FROZEN      0.04
#define FROZEN_BOTH 0.075

static const work_row WORK[] = {
    {{"pi0", "fp32", 2, {"cameras", "1"}}, 1475.8e9, 2827.8e9, 2624.6e6, 1841, 3192, WIDE},
    {{"pi0", "fp32", 2, {"cameras", "2"}}, 2747.1e9, 5266.8e9, 4905.9e6, 2204, 4420, WIDE},
    {{"pi0", "fp32", 2, {"cameras", "3"}}, 4037.8e9, 7744.5e9, 7262.6e6, 2567, 5648, WIDE},
    {{"pi0", "bf16", 2, {0}}, 2747.1e9, 5266.8e9, 3551.9e6, 2410, 4676, NARROW},
    {{"pi0", "fp32", 2, {EXPERT_ONLY}}, 2747.1e9, 2270.6e9, 2844.8e6, 2204, 2174, FROZEN},
    {{"pi0", "bf16", 2, {EXPERT_ONLY}}, 2747.1e9, 2270.6e9, 1901.4e6, 2410, 2425, FROZEN_BOTH},
    {{"pi05", "fp32", 2, {"cameras", "1"}}, 2096.7e9, 4005.9e9, 3660.7e6, 1949, 3518, WIDE},
    {{"pi05", "fp32", 2, {0}}, 3379.5e9, 6467.7e9, 5986.5e6, 2312, 4746, WIDE},
    {{"pi05", "fp32", 2, {"cameras", "3"}}, 4681.5e9, 8968.2e9, 8387.7e6, 2675, 5974, WIDE},
    {{"pi05", "bf16", 2, {0}}, 3379.5e9, 6467.7e9, 4302.9e6, 2555, 5038, NARROW},
    {{"pi05", "bf16", 2, {"cameras", "3"}}, 4681.5e9, 8968.2e9, 6185.3e6, 2918, 6266, NARROW},
    {{"pi05", "fp32", 2, {EXPERT_ONLY}}, 3379.5e9, 2899.3e9, 3653e6, 2312, 2500, FROZEN},
};

/* Saved bytes: with few samples; what a step keeps once (casts, tables) counts little. Operations: the sheet's graph has one
 * sample, where reshapes of slices need no copies, and its attention's backward is two calls more. */
static void test_work(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof WORK / sizeof *WORK; i++) {
        const work_row *row = &WORK[i];
        sg_counts c = count(&row->w);
        double batch = (double)row->w.batch;
        const sg_pass_counts *forward = &c.pass[SG_PASS_FORWARD], *backward = &c.pass[SG_PASS_BACKWARD];
        near(&row->w, "forward FLOP", forward->flops / batch, row->forward, 0.001);
        near(&row->w, "backward FLOP", backward->flops / batch, row->backward, 0.001);
        near(&row->w, "saved bytes", (double)c.saved_bytes / batch, row->saved, row->saved_tolerance);
        near(&row->w, "forward ops", (double)forward->ops, row->forward_ops, 0.05);
        near(&row->w, "backward ops", (double)backward->ops, row->backward_ops, 0.06);
    }
}

typedef struct classes {
    double low, single, batched,
        attention; /* FLOP: bf16 products, products of fp32 operands, batched ones, fused attention */
} classes;

static classes classes_of(const what *w, sg_pass pass) {
    sg_training *t = build(w, SG_FRAMEWORK_PYTORCH_EAGER);
    const sg_program *p = &t->programs[sg_main_program(t)];
    classes sum = {0};
    for (size_t i = 0; i < p->n_entries; i++) {
        if (p->entries[i].kind != SG_ENTRY_OP || p->entries[i].pass != pass) continue;
        const sg_op *op = &t->ops[p->entries[i].index];
        double flops = sg_op_cost(op).flops / (double)t->batch / 1e9;
        sg_op_class cls = sg_op_class_of(op);
        if (cls == SG_CLASS_ATTENTION)
            sum.attention += flops;
        else if (cls == SG_CLASS_BMM)
            sum.batched += flops;
        else if (op->attrs.compute == SG_COMPUTE_BF16)
            sum.low += flops;
        else
            sum.single += flops;
    }
    sg_training_free(t);
    return sum;
}

/* GFLOP of pi05 in bf16, two and three cameras: language model and expert in bf16, the vision tower in TF32, scores and
 * values, and the vision tower's attention (whose backward counts half as much again here as in the sheet's graph). */
static void test_work_by_class(void **state) {
    (void)state;
    static const struct {
        what w;
        classes forward, backward;
    } rows[] = {{{"pi05", "bf16", 2, {0}}, {2853, 424, 86, 16}, {5408, 847, 171, 41}},
                {{"pi05", "bf16", 2, {"cameras", "3"}}, {3868, 635, 153, 25}, {7330, 1270, 306, 61}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        classes forward = classes_of(&rows[i].w, SG_PASS_FORWARD), backward = classes_of(&rows[i].w, SG_PASS_BACKWARD);
        const classes *f = &rows[i].forward, *b = &rows[i].backward;
        near(&rows[i].w, "bf16, forward", forward.low, f->low, 0.02);
        near(&rows[i].w, "bf16, backward", backward.low, b->low, 0.02);
        near(&rows[i].w, "TF32, forward", forward.single, f->single, 0.02);
        near(&rows[i].w, "TF32, backward", backward.single, b->single, 0.02);
        near(&rows[i].w, "batched, forward", forward.batched, f->batched, 0.02);
        near(&rows[i].w, "batched, backward", backward.batched, b->batched, 0.02);
        near(&rows[i].w, "attention, forward", forward.attention, f->attention, 0.05);
        near(&rows[i].w, "attention, backward", backward.attention, b->attention, 0.25);
    }
}

typedef struct traffic {
    double elementwise, norm; /* bytes; copies and reductions are element-wise, softmax is a norm */
} traffic;

static traffic traffic_of(const what *w, sg_pass pass) {
    sg_training *t = build(w, SG_FRAMEWORK_PYTORCH_EAGER);
    const sg_program *p = &t->programs[sg_main_program(t)];
    traffic sum = {0};
    for (size_t i = 0; i < p->n_entries; i++) {
        if (p->entries[i].kind != SG_ENTRY_OP || p->entries[i].pass != pass) continue;
        const sg_op *op = &t->ops[p->entries[i].index];
        sg_cost cost = sg_op_cost(op);
        sg_op_class cls = sg_op_class_of(op);
        bool norm = cls == SG_CLASS_NORM || cls == SG_CLASS_SOFTMAX;
        bool elementwise = cls == SG_CLASS_ELEMENTWISE || cls == SG_CLASS_COPY || cls == SG_CLASS_REDUCE;
        if (norm) sum.norm += cost.bytes_read + cost.bytes_written;
        if (elementwise) sum.elementwise += cost.bytes_read + cost.bytes_written;
    }
    sg_training_free(t);
    return sum;
}

/* GB that a sample moves, and what a step moves whatever its batch: the gradients of the vision tower, added up over cameras. */
static void test_traffic(void **state) {
    (void)state;
    static const struct {
        const char *cameras;
        traffic forward, backward;
        double fixed;
    } rows[] = {{"2", {8.1, 0.93}, {15.0, 1.40}, 5.0}, {"3", {11.7, 1.59}, {21.2, 2.38}, 9.9}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const what few = {"pi05", "bf16", 2, {"cameras", rows[i].cameras}},
                   many = {"pi05", "bf16", 4, {"cameras", rows[i].cameras}};
        traffic f2 = traffic_of(&few, SG_PASS_FORWARD), f4 = traffic_of(&many, SG_PASS_FORWARD);
        traffic b2 = traffic_of(&few, SG_PASS_BACKWARD), b4 = traffic_of(&many, SG_PASS_BACKWARD);
        double backward = (b4.elementwise - b2.elementwise) / 2;
        near(&few, "element-wise, forward", (f4.elementwise - f2.elementwise) / 2e9, rows[i].forward.elementwise, 0.05);
        near(&few, "element-wise, backward", backward / 1e9, rows[i].backward.elementwise, 0.05);
        near(&few, "norms, forward", (f4.norm - f2.norm) / 2e9, rows[i].forward.norm, 0.02);
        near(&few, "norms, backward", (b4.norm - b2.norm) / 2e9, rows[i].backward.norm, 0.02);
        near(&few, "fixed, backward", (b2.elementwise - 2 * backward) / 1e9, rows[i].fixed, 0.02);
    }
}

/* As shipped the forward runs three times, but for what the last segments need not make again; wrapped once, twice. */
static void test_passes_of_checkpointing(void **state) {
    (void)state;
    const what plain = {"pi05", "bf16", 2, {0}}, nested = {"pi05", "bf16", 2, {CHECKPOINT}},
               once = {"pi05", "bf16", 2, {CHECKPOINT, "checkpointing_scope", "layers"}};
    double forward = count(&plain).pass[SG_PASS_FORWARD].flops, backward = count(&plain).pass[SG_PASS_BACKWARD].flops;
    double twice_more = count(&nested).pass[SG_PASS_BACKWARD].flops - backward;
    double once_more = count(&once).pass[SG_PASS_BACKWARD].flops - backward;
    near(&nested, "work done again", twice_more, 2 * forward - 2 * 2 * 27 * 2.0 * 256 * 4304 * 1152, 0.002);
    /* Early stop: a vision layer's last product is not needed again. */
    near(&once, "work done again", once_more, forward - 2 * 2 * 27 * 2.0 * 256 * 4304 * 1152, 0.002);
    near(&nested, "forward", count(&nested).pass[SG_PASS_FORWARD].flops, forward, 1e-9);
    /* Kept are embeddings and little else; wrapped once, what each layer is made from: prefix 712 x 2048 and suffix 50 x 1024
     * elements of bf16, and 256 x 1152 of fp32 for each camera's layers. */
    assert_true(count(&nested).saved_bytes / 2 < 10e6);
    double layers = 18 * 2.0 * (712 * 2048 + 50 * 1024) + 2 * 27 * 4.0 * 256 * 1152;
    near(&once, "saved bytes", (double)count(&once).saved_bytes / 2, layers, 0.2);
}

/* ---- memory ---- */

static double peak_gib(const what *w) {
    sg_training *t = build(w, SG_FRAMEWORK_PYTORCH_EAGER);
    double peak = (double)sg_training_peak_bytes(t) / 0x1p30;
    sg_training_free(t);
    return peak;
}

static void test_memory(void **state) {
    (void)state;
    /* LeRobot's CI: torch.cuda.max_memory_allocated of one update with SGD, 15.50 GiB. */
    const what ci = {"pi0", "bf16", 1, {"optimizer", "sgd"}};
    near(&ci, "peak", peak_gib(&ci), 15.50, 0.04);
    /* Readings of the driver: 61 and 73 GiB at batches 128 and 168, which hold 0.67 GiB and 5.7 % that are not allocated. */
#define OF_2025 CHECKPOINT, "tie_word_embeddings", "true"
    const what b128 = {"pi05", "bf16", 128, {OF_2025}}, b168 = {"pi05", "bf16", 168, {OF_2025}};
    near(&b128, "peak", 0.67 + 1.057 * peak_gib(&b128), 61, 0.04);
    near(&b168, "peak", 0.67 + 1.057 * peak_gib(&b168), 73, 0.04);
    /* Weights, moments and gradients at the optimizer's, and the roots of one dtype's moments. */
    const what expert = {"pi05", "bf16", 1, {EXPERT_ONLY, "cameras", "1"}};
    assert_true(peak_gib(&expert) > (9353.9e6 + 3 * 1097.5e6) / 0x1p30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters),
        cmocka_unit_test(test_parameters_of_modules),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_work_by_class),
        cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_passes_of_checkpointing),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
