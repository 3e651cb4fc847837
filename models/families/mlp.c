/* mlp.c: a multi-layer perceptron that regresses targets from inputs: the simplest policy a user can describe. */
#include "models/layers/mlp.h"

#include <string.h>

#include "models/families/regression.h"

typedef struct mlp_policy {
    sg_mlp network;
    sg_regression regression;
} mlp_policy;

static void preprocess(sg_graph *g, void *policy) {
    sg_regression_preprocess(g, &((mlp_policy *)policy)->regression);
}

static sg_tid forward(sg_graph *g, void *policy) {
    mlp_policy *m = policy;
    sg_module_begin(g, "model");
    sg_tid y = sg_mlp_apply(g, &m->network, m->regression.input);
    sg_module_end(g);
    return sg_regression_loss(g, &m->regression, y);
}

void sg_mlp_build(sg_graph *g, const sg_family_build *build) {
    const sg_options *o = build->options;
    int64_t in = sg_option_int(o, "input_dim"), out = sg_option_int(o, "output_dim");
    size_t n;
    const int64_t *hidden = sg_option_list(o, "hidden_dims", &n);
    mlp_policy m;
    sg_module_begin(g, "model");
    m.network = sg_mlp_make(g, "network", in, hidden, n, out, sg_activation_named(sg_option_text(o, "activation")),
                            (sg_layer_style){.dtype = SG_F32});
    sg_module_end(g);
    sg_desc input = sg_desc_make(SG_F32, 2, (int64_t[]){build->batch, in});
    sg_desc target = sg_desc_make(SG_F32, 2, (int64_t[]){build->batch, out});
    m.regression = sg_regression_make(g, o, &input, 1, &target);
    sg_regression_build(g, build, &m, preprocess, forward);
}
