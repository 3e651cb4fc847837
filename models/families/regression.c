/* regression.c: batch, loss and training of the generic families. */
#include "models/families/regression.h"

#include <string.h>

sg_regression sg_regression_make(sg_graph *g, const sg_options *options, const sg_desc *input, double high,
                                 const sg_desc *target) {
    sg_regression r = {.tokens = input->dtype == SG_I64,
                       .absolute = strcmp(sg_option_text(options, "loss"), "l1") == 0};
    const int64_t in = input->size[input->ndim - 1], out = target->size[target->ndim - 1];
    sg_input_source source = r.tokens ? SG_INPUT_INTEGER : SG_INPUT_UNIFORM;
    r.raw_input = sg_input_tensor(g, "input", source, *input, 0, high);
    r.raw_target = sg_input_tensor(g, "target", SG_INPUT_UNIFORM, *target, 0, 1);
    r.input = r.tokens ? r.raw_input : sg_state_tensor(g, "input normalised", *input);
    r.target = sg_state_tensor(g, "target normalised", *target);
    if (!r.tokens) r.input_statistics = sg_statistics_make(g, "normalize.input", 1, &in);
    r.target_statistics = sg_statistics_make(g, "normalize.target", 1, &out);
    return r;
}

void sg_regression_preprocess(sg_graph *g, const sg_regression *r) {
    if (!r->tokens) sg_normalise_vector(g, r->raw_input, r->input_statistics, r->input);
    sg_normalise_vector(g, r->raw_target, r->target_statistics, r->target);
}

sg_tid sg_regression_loss(sg_graph *g, const sg_regression *r, sg_tid y) {
    sg_module_begin(g, "loss");
    sg_tid error = r->absolute ? sg_unary(g, SG_FN_ABS, sg_sub(g, y, r->target), 0, 0)
                               : sg_binary(g, SG_FN_SQUARED_DIFF, y, r->target, 0);
    sg_tid loss = sg_mean_all(g, error);
    sg_module_end(g);
    return loss;
}

void sg_regression_build(sg_graph *g, const sg_family_build *build, void *policy,
                         void (*preprocess)(sg_graph *g, void *policy), sg_tid (*forward)(sg_graph *g, void *policy)) {
    if (sg_graph_failed(g)) return;
    sg_supervised supervised = {.policy = policy,
                                .preprocess = preprocess,
                                .forward = forward,
                                .optimizer = sg_supervised_optimizer(build->options, 0.999)};
    sg_supervised_build(g, &supervised, build->accumulation);
}
