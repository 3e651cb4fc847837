/* gelu.c: activations by the names that Hugging Face configurations use. */
#include "models/layers/gelu.h"

#include <math.h>
#include <string.h>

sg_activation sg_activation_of(const char *name) {
    if (strcmp(name, "gelu_new") == 0) return SG_ACTIVATION_GELU_NEW;
    return strcmp(name, "gelu") == 0 ? SG_ACTIVATION_GELU : SG_ACTIVATION_RELU;
}

static const double cubic = 0.044715; /* Hendrycks and Gimpel 2016, the tanh form of the Gaussian error unit */

static sg_tid gelu_new(sg_graph *g, sg_tid x) {
    sg_tid half = sg_scale(g, x, 0.5);
    sg_tid cube = sg_scale(g, sg_unary(g, SG_FN_POW, x, 3, 0), cubic);
    sg_tid inner = sg_scale(g, sg_add(g, x, cube), sqrt(2.0 / acos(-1.0)));
    return sg_mul(g, half, sg_add_scalar(g, sg_unary(g, SG_FN_TANH, inner, 0, 0), 1.0));
}

sg_tid sg_activation_apply(sg_graph *g, sg_activation activation, sg_tid x) {
    switch (activation) {
    case SG_ACTIVATION_GELU: return sg_unary(g, SG_FN_GELU_ERF, x, 0, 0);
    case SG_ACTIVATION_RELU: return sg_relu(g, x, false);
    case SG_ACTIVATION_GELU_NEW: break;
    }
    if (sg_by_call(sg_graph_profile(g))) return gelu_new(g, x);
    return sg_unary(g, SG_FN_GELU_TANH, x, 0, 0);
}
