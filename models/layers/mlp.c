/* mlp.c: linear layers with an activation between them. */
#include "models/layers/mlp.h"

#include <string.h>

sg_mlp sg_mlp_make(sg_graph *g, const char *name, int64_t in, const int64_t *hidden, size_t n_hidden, int64_t out,
                   sg_fn activation, sg_layer_style style) {
    sg_mlp mlp = {.name = sg_graph_text(g, "%s", name), .activation = activation, .count = (int)n_hidden + 1};
    if (mlp.count > SG_MLP_MAX_LAYERS) {
        sg_graph_fail(g, SG_BAD_INPUT, "%s has %d layers, more than %d", name, mlp.count, SG_MLP_MAX_LAYERS);
        mlp.count = 0;
    }
    sg_module_begin(g, "%s", name);
    for (int i = 0; i < mlp.count; i++) {
        int64_t width = i + 1 < mlp.count ? hidden[i] : out;
        mlp.layer[i] = sg_linear_make(g, sg_graph_text(g, "%d", 2 * i), in, width, true, style);
        in = width;
    }
    sg_module_end(g);
    return mlp;
}

sg_tid sg_mlp_apply(sg_graph *g, const sg_mlp *mlp, sg_tid x) {
    sg_module_begin(g, "%s", mlp->name);
    for (int i = 0; i < mlp->count; i++)
        x = sg_linear_apply_act(g, &mlp->layer[i], x, i + 1 < mlp->count ? mlp->activation : SG_FN_NONE);
    sg_module_end(g);
    return x;
}

sg_fn sg_activation_named(const char *name) {
    static const struct {
        const char *name;
        sg_fn fn;
    } known[] = {
        {"relu", SG_FN_RELU}, {"elu", SG_FN_ELU}, {"tanh", SG_FN_TANH}, {"silu", SG_FN_SILU}, {"gelu", SG_FN_GELU_ERF}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return known[i].fn;
    return SG_FN_NONE;
}
