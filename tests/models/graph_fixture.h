/* graph_fixture.h: small graphs for the tests of models/. */
#ifndef SG_TESTS_MODELS_GRAPH_FIXTURE_H
#define SG_TESTS_MODELS_GRAPH_FIXTURE_H

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

static const sg_optimizer_spec ADAMW = {.decoupled_weight_decay = true,
                                        .lr = 1e-3,
                                        .beta1 = 0.9,
                                        .beta2 = 0.999,
                                        .eps = 1e-8,
                                        .weight_decay = 0.01,
                                        .clip_norm = 10};

static inline sg_graph *new_graph(sg_framework framework, sg_device_class device_class) {
    sg_profile profile = sg_profile_make(framework, device_class);
    sg_status status = {0};
    sg_graph *g = sg_graph_new(&profile, 2, 1, 1, &status);
    assert_non_null(g);
    return g;
}

static inline sg_graph *eager(void) {
    return new_graph(SG_FRAMEWORK_PYTORCH_EAGER, SG_DEVICE_CLASS_CUDA);
}

static inline sg_training *finish(sg_graph *g) {
    sg_training *t = NULL;
    sg_status status = {0};
    sg_code code = sg_graph_finish(g, &t, &status);
    if (code != SG_OK) fail_msg("%s", status.text);
    return t;
}

static inline void expect_failure(sg_graph *g, sg_code code, const char *part) {
    sg_training *t = NULL;
    sg_status status = {0};
    assert_int_equal(sg_graph_finish(g, &t, &status), code);
    assert_null(t);
    if (!strstr(status.text, part)) fail_msg("expected \"%s\" in: %s", part, status.text);
}

static inline sg_tid weight(sg_graph *g, const char *name, int ndim, const int64_t *size) {
    return sg_param(g, name, ndim, size, (sg_param_spec){.dtype = SG_F32, .init = SG_INIT_NORMAL, .scale = 0.02});
}

static inline sg_tid input(sg_graph *g, int ndim, const int64_t *size) {
    return sg_input_tensor(g, "x", SG_INPUT_UNIFORM, sg_desc_make(SG_F32, ndim, size), -1, 1);
}

#endif
