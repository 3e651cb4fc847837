/* A hundred optimizer steps (AdamW, Adam, SGD) of every profile on the cpu device against the algorithm written down in double. */
#include "kernels/module.h"
#include "models/ops.h"
#include "sim/walk/walk.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WEIGHTS = 3, STEPS = 100 };
static const int64_t SIZES[WEIGHTS] = {1, 37, 5000};

typedef struct setting {
    const char *name;
    sg_framework framework;
    sg_device_class device_class;
    double weight_decay, clip_norm;
    bool decoupled, sgd;
} setting;

static const setting SETTINGS[] = {
    {"native", SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU, 0.01, 0, true, false},
    {"native, clipped", SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU, 0.01, 2, true, false},
    {"single tensors", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU, 0.01, 0, true, false},
    {"single tensors, clipped", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU, 0.01, 2, true, false},
    {"lists", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA, 0.01, 0, true, false},
    {"lists, clipped", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA, 0.01, 2, true, false},
    {"Adam, single tensors", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU, 0, 1, false, false},
    {"Adam, lists", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA, 0, 1, false, false},
    {"SGD, native", SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU, 0, 0, false, true},
    {"SGD, single tensors", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU, 0, 100, false, true},
    {"SGD, lists", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA, 0, 100, false, true},
    {"Adam, single tensors, decay", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CPU, 0.01, 1, false, false},
    {"Adam, lists, decay", SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA, 0.01, 1, false, false},
    {"Adam, native, decay", SG_FRAMEWORK_NATIVE, SG_DEVICE_CLASS_CPU, 0.01, 1, false, false},
};

static const double LR = 2e-3, BETA1 = 0.9, BETA2 = 0.99, EPS = 1e-8;

/* loss = sum over weights of sum curvature (w - target)^2 / 2; buffers hold curvature and target. */
static sg_training *quadratic(const setting *s) {
    sg_status status = {0};
    sg_training *training = NULL;
    sg_profile profile = sg_profile_make(s->framework, s->device_class);
    sg_graph *g = sg_graph_new(&profile, 1, 1, 1, &status);
    if (!g) fail_msg("%s", status.text);
    sg_graph_training(g)->policy = "quadratic";
    sg_tid w[WEIGHTS], target[WEIGHTS], curvature[WEIGHTS], loss = SG_NO_TENSOR;
    for (int i = 0; i < WEIGHTS; i++) {
        sg_param_spec trained = {.dtype = SG_F32, .init = SG_INIT_UNIFORM, .scale = 0.25};
        sg_param_spec there = {.dtype = SG_F32, .frozen = true, .buffer = true, .init = SG_INIT_CONSTANT, .scale = 1};
        sg_param_spec how_steep = there;
        how_steep.scale = 0.5 + i;
        w[i] = sg_param(g, sg_graph_text(g, "w%d", i), 1, &SIZES[i], trained);
        target[i] = sg_param(g, sg_graph_text(g, "target%d", i), 1, &SIZES[i], there);
        curvature[i] = sg_param(g, sg_graph_text(g, "curvature%d", i), 1, &SIZES[i], how_steep);
    }
    int32_t program = sg_program_begin(g, "update");
    sg_pass_set(g, SG_PASS_FORWARD);
    sg_mark_here(g, SG_MARK_FORWARD);
    for (int i = 0; i < WEIGHTS; i++) {
        sg_tid off = sg_sub(g, w[i], target[i]);
        sg_tid part = sg_sum_all(g, sg_scale(g, sg_mul(g, curvature[i], sg_mul(g, off, off)), 0.5));
        loss = i ? sg_add(g, loss, part) : part;
    }
    sg_backward(g, loss, true, true);
    sg_optimizer_step(g, &(sg_optimizer_spec){.sgd = s->sgd,
                                              .decoupled_weight_decay = s->decoupled,
                                              .lr = LR,
                                              .beta1 = BETA1,
                                              .beta2 = BETA2,
                                              .eps = EPS,
                                              .weight_decay = s->weight_decay,
                                              .clip_norm = s->clip_norm});
    sg_program_end(g);
    sg_block_begin(g, "step", 1);
    sg_block_program(g, program);
    sg_block_end(g);
    if (sg_graph_finish(g, &training, &status) != SG_OK) fail_msg("%s: %s", s->name, status.text);
    return training;
}

typedef struct exact {
    double *w, *target, *curvature, *m, *v;
    size_t count;
} exact;

static double *values(sg_walker *walker, const sg_training *t, size_t parameter, size_t count) {
    sg_status status = {0};
    double *out = calloc(count, sizeof *out);
    assert_non_null(out);
    if (sg_walker_read(walker, t->parameters[parameter].tensor, out, count, &status) != SG_OK)
        fail_msg("%s", status.text);
    return out;
}

/* Loshchilov & Hutter 2019, algorithm 2 (both ways of decay); clipping by the norm over all weights with PyTorch's 1e-6. */
static void exact_step(exact *e, const setting *s, int step) {
    double square = 0, scale = 1;
    for (int i = 0; i < WEIGHTS; i++)
        for (size_t k = 0; k < e[i].count; k++) square += pow(e[i].curvature[k] * (e[i].w[k] - e[i].target[k]), 2);
    if (s->clip_norm > 0) scale = fmin(1, s->clip_norm / (sqrt(square) + 1e-6));
    for (int i = 0; i < WEIGHTS; i++)
        for (size_t k = 0; k < e[i].count; k++) {
            double g = scale * e[i].curvature[k] * (e[i].w[k] - e[i].target[k]);
            if (!s->decoupled) g += s->weight_decay * e[i].w[k];
            if (s->sgd) {
                e[i].w[k] -= LR * g;
                continue;
            }
            e[i].m[k] = BETA1 * e[i].m[k] + (1 - BETA1) * g;
            e[i].v[k] = BETA2 * e[i].v[k] + (1 - BETA2) * g * g;
            double m = e[i].m[k] / (1 - pow(BETA1, step)), v = e[i].v[k] / (1 - pow(BETA2, step));
            if (s->decoupled) e[i].w[k] -= LR * s->weight_decay * e[i].w[k];
            e[i].w[k] -= LR * m / (sqrt(v) + EPS);
        }
}

/* Each step rounds the weight a few times to 2^-24 of itself. The step's own relative error (some 2^-24 times the few ops
 * that make it) is far smaller, because a step is 1/500 of a weight. */
static const double BOUND = STEPS * 4 * 0x1p-24;

static void check_setting(const setting *s, const sg_device_api *api) {
    sg_status status = {0};
    sg_device *device = NULL;
    sg_walker *walker = NULL;
    sg_training *t = quadratic(s);
    assert_int_equal(api->open(&(sg_device_options){.threads = 2}, &device, &status), SG_OK);
    sg_walk_options options = {.api = api, .device = device, .seed = 3, .ranks = 1, .random_weights = true};
    if (sg_walker_open(t, &options, &walker, &status) != SG_OK) fail_msg("%s", status.text);
    exact e[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) {
        size_t n = e[i].count = (size_t)SIZES[i];
        e[i].w = values(walker, t, 3 * (size_t)i, n);
        e[i].target = values(walker, t, 3 * (size_t)i + 1, n);
        e[i].curvature = values(walker, t, 3 * (size_t)i + 2, n);
        e[i].m = calloc(n, sizeof(double));
        e[i].v = calloc(n, sizeof(double));
        assert_true(e[i].m && e[i].v);
    }
    const exact *moved = &e[s->sgd ? WEIGHTS - 1 : 0]; /* a step of SGD is long where the loss is steep */
    double start = moved->w[0];
    for (int step = 1; step <= STEPS; step++) {
        if (sg_walker_iteration(walker, NULL, &status) != SG_OK) fail_msg("%s: %s", s->name, status.text);
        exact_step(e, s, step);
    }
    assert_true(fabs(moved->w[0] - start) > 0.1); /* it went somewhere */
    for (int i = 0; i < WEIGHTS; i++) {
        double *w = values(walker, t, 3 * (size_t)i, e[i].count);
        for (size_t k = 0; k < e[i].count; k++)
            if (!(fabs(w[k] - e[i].w[k]) <= BOUND))
                fail_msg("%s: weight %d, element %zu is %.9g instead of %.9g", s->name, i, k, w[k], e[i].w[k]);
        free(w);
        free(e[i].w);
        free(e[i].target);
        free(e[i].curvature);
        free(e[i].m);
        free(e[i].v);
    }
    sg_walker_close(walker);
    api->close(device);
    sg_training_free(t);
}

static void test_hundred_steps(void **state) {
    (void)state;
    const sg_device_api *api = NULL;
    sg_status status = {0};
    if (sg_module_device("cpu", &api, &status) != SG_OK) fail_msg("%s", status.text);
    for (size_t i = 0; i < sizeof SETTINGS / sizeof *SETTINGS; i++) check_setting(&SETTINGS[i], api);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hundred_steps)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
