#include "tests/support/op_trainings.h"

typedef const sg_op_training *self;

/* ---- weights ----------------------------------------------------------------------------------------------------- */

enum { N = 2, M = 3, K = 5 };

static sg_tid weight(sg_graph *g, const char *name, double centre, int ndim, const int64_t *size) {
    sg_param_spec spec = {.dtype = SG_F32, .init = SG_INIT_NORMAL, .scale = 1};
    if (centre != 0) {
        spec.init = SG_INIT_CONSTANT; /* the walker adds up to 0.1 either way */
        spec.scale = centre;
    }
    return sg_param(g, name, ndim, size, spec);
}

static sg_tid matrix(sg_graph *g, const char *name, int64_t rows, int64_t columns) {
    return weight(g, name, 0, 2, (int64_t[]){rows, columns});
}

static sg_tid cube(sg_graph *g, const char *name) {
    return weight(g, name, 0, 3, (int64_t[]){N, M, K});
}

static sg_tid image(sg_graph *g, const char *name, int64_t channels, int64_t height, int64_t width) {
    return weight(g, name, 0, 4, (int64_t[]){N, channels, height, width});
}

static sg_tid integers(sg_graph *g, const char *name, sg_dtype dtype, int ndim, const int64_t *size, double high) {
    return sg_input_tensor(g, name, SG_INPUT_INTEGER, sg_desc_make(dtype, ndim, size), 0, high);
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

static sg_tid unary(sg_graph *g, self s) {
    return sg_unary(g, s->fn, weight(g, "x", s->centre, 2, (int64_t[]){M, K}), s->alpha, s->beta);
}

static sg_tid unary_in_place(sg_graph *g, self s) {
    sg_tid x = sg_scale(g, weight(g, "x", s->centre, 2, (int64_t[]){M, K}), 1.25);
    return sg_unary_in_place(g, s->fn, x, s->alpha, s->beta);
}

static sg_tid binary(sg_graph *g, self s) {
    sg_tid x = weight(g, "x", s->centre, 2, (int64_t[]){M, K});
    return sg_binary(g, s->fn, x, weight(g, "y", s->centre * 1.5, 2, (int64_t[]){M, K}), s->alpha);
}

static sg_tid binary_broadcast(sg_graph *g, self s) {
    sg_tid x = weight(g, "x", s->centre, 3, (int64_t[]){N, M, 1});
    return sg_binary(g, s->fn, x, weight(g, "y", s->centre * 1.5, 2, (int64_t[]){1, K}), s->alpha);
}

static sg_tid binary_in_place(sg_graph *g, self s) {
    sg_tid x = sg_scale(g, weight(g, "x", s->centre, 2, (int64_t[]){M, K}), 1.25);
    return sg_binary_in_place(g, s->fn, x, weight(g, "y", s->centre * 1.5, 1, (int64_t[]){K}), s->alpha);
}

/* One side without gradient: its rule must not run. */
static sg_tid binary_with_constant(sg_graph *g, self s) {
    sg_param_spec fixed = {.dtype = SG_F32, .frozen = true, .init = SG_INIT_CONSTANT, .scale = 1.5};
    sg_tid c = sg_param(g, "c", 1, (int64_t[]){K}, fixed), x = weight(g, "x", s->centre, 2, (int64_t[]){M, K});
    sg_tid reversed = sg_binary(g, s->fn, c, x, s->alpha);
    return sg_add(g, sg_binary(g, s->fn, x, c, s->alpha), sg_unary(g, SG_FN_SIN, reversed, 0, 0));
}

/* Equal operands share the gradient. */
static sg_tid binary_of_equals(sg_graph *g, self s) {
    sg_tid x = matrix(g, "x", M, K);
    return sg_binary(g, s->fn, x, sg_unary(g, SG_FN_NEG, sg_unary(g, SG_FN_NEG, x, 0, 0), 0, 0), s->alpha);
}

static sg_tid where(sg_graph *g, self s) {
    (void)s;
    sg_tid condition = integers(g, "condition", SG_BOOL, 2, (int64_t[]){M, K}, 2);
    return sg_where(g, condition, matrix(g, "x", M, K), matrix(g, "y", 1, K));
}

static sg_tid masked_fill(sg_graph *g, self s) {
    (void)s;
    return sg_masked_fill(g, cube(g, "x"), integers(g, "mask", SG_BOOL, 2, (int64_t[]){M, K}, 2), -3);
}

static sg_tid dropout(sg_graph *g, self s) {
    (void)s;
    return sg_dropout(g, cube(g, "x"), 0.3, 0, 1);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

static sg_tid views(sg_graph *g, self s) {
    (void)s;
    sg_tid x = cube(g, "x");
    x = sg_view(g, x, 2, (int64_t[]){N * M, -1});
    x = sg_transpose(g, x, 0, 1);
    x = sg_reshape(g, x, 3, (int64_t[]){K, N, M}); /* a copy is needed here */
    return sg_permute(g, x, (const int[]){1, 2, 0});
}

static sg_tid slices(sg_graph *g, self s) {
    (void)s;
    sg_tid x = cube(g, "x");
    sg_tid a = sg_slice(g, x, 2, 1, 3), b = sg_select(g, x, 1, 2);
    return sg_add(g, sg_squeeze(g, sg_slice(g, a, 1, 0, 1), 1), sg_slice(g, b, 1, 0, 3));
}

static sg_tid expand(sg_graph *g, self s) {
    (void)s;
    sg_tid x = matrix(g, "x", 1, K);
    return sg_expand(g, sg_unsqueeze(g, x, 1), 3, (int64_t[]){N, M, K});
}

static sg_tid parts(sg_graph *g, self s) {
    (void)s;
    sg_tid x = weight(g, "x", 0, 3, (int64_t[]){4, M, K}), chunk[2], row[M], part[2];
    sg_chunk(g, x, 0, 2, chunk);
    sg_unbind(g, chunk[0], 1, row);
    sg_split(g, chunk[1], 2, 2, (int64_t[]){2, 3}, part);
    sg_tid first = sg_mul(g, row[0], sg_add(g, row[1], row[2]));
    return sg_add(g, sg_sum_all(g, sg_mul(g, part[0], part[0])),
                  sg_add(g, sg_sum_all(g, first), sg_sum_all(g, part[1])));
}

static sg_tid joins(sg_graph *g, self s) {
    (void)s;
    sg_tid a = matrix(g, "a", M, K), b = matrix(g, "b", M, K), c = matrix(g, "c", 1, K);
    sg_tid stacked = sg_stack(g, 2, (const sg_tid[]){a, b}, 1);
    sg_tid joined = sg_cat(g, 3, (const sg_tid[]){a, c, b}, 0);
    return sg_add(g, sg_sum_all(g, sg_mul(g, stacked, stacked)), sg_sum_all(g, sg_mul(g, joined, joined)));
}

static sg_tid copies(sg_graph *g, self s) {
    (void)s;
    sg_tid x = matrix(g, "x", M, K);
    sg_tid y = sg_contiguous(g, sg_transpose(g, x, 0, 1));
    return sg_to(g, sg_clone(g, sg_to(g, y, SG_BF16)), SG_F32);
}

static sg_tid pad(sg_graph *g, self s) {
    (void)s;
    return sg_pad2d(g, image(g, "x", 1, M, K), 1, 2, 3, 0, 0.5);
}

/* One weight used three times: gradients add up. */
static sg_tid reuse(sg_graph *g, self s) {
    (void)s;
    sg_tid x = matrix(g, "x", K, K);
    return sg_matmul(g, sg_add(g, x, sg_unary(g, SG_FN_TANH, x, 0, 0)), x);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

static sg_tid reduce(sg_graph *g, self s) {
    sg_tid x = cube(g, "x");
    sg_tid over_ends = sg_reduce(g, s->fn, x, 1u | 4u, false), over_middle = sg_reduce(g, s->fn, x, 2u, true);
    sg_tid all = sg_reduce(g, s->fn, x, 7u, false);
    return sg_add(
        g,
        sg_add(g, sg_sum_all(g, sg_mul(g, over_ends, over_ends)), sg_sum_all(g, sg_mul(g, over_middle, over_middle))),
        all);
}

static sg_tid running_sum(sg_graph *g, self s) {
    (void)s;
    return sg_cumsum(g, cube(g, "x"), 1);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static sg_tid products(sg_graph *g, self s) {
    (void)s;
    sg_tid a = cube(g, "a"), b = matrix(g, "b", K, 4), c = weight(g, "c", 0, 3, (int64_t[]){N, 4, 2});
    sg_tid heads = weight(g, "heads", 0, 4, (int64_t[]){N, 2, M, K}),
           keys = weight(g, "keys", 0, 4, (int64_t[]){N, 2, 4, K});
    sg_tid folded = sg_matmul(g, sg_matmul(g, a, b), c);
    sg_tid scores = sg_matmul(g, heads, sg_transpose(g, keys, 2, 3));
    return sg_add(g, sg_sum_all(g, sg_mul(g, folded, folded)), sg_sum_all(g, sg_mul(g, scores, scores)));
}

/* As the engine's attention forms its scores: scaled, with something added. */
static sg_tid scaled_product(sg_graph *g, sg_tid a, sg_tid b, sg_tid added) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc out = *sg_desc_of(g, added);
    sg_attrs attrs = {.alpha = 0.375, .flags = SG_HAS_RESIDUAL};
    sg_tid y = SG_NO_TENSOR;
    sg_emit(g, SG_OP_MATMUL, &attrs, (const sg_tid[]){a, b, added}, 3, &out, &y, 1);
    return y;
}

static sg_tid scaled_products(sg_graph *g, self s) {
    (void)s;
    sg_tid flat = scaled_product(g, matrix(g, "a", M, K), matrix(g, "b", K, 4), matrix(g, "c", M, 4));
    sg_tid q = weight(g, "q", 0, 4, (int64_t[]){N, 2, M, K}), k = weight(g, "k", 0, 4, (int64_t[]){N, 2, K, 4});
    sg_tid heads = scaled_product(g, q, k, weight(g, "mask", 0, 4, (int64_t[]){N, 2, M, 4}));
    return sg_add(g, sg_sum_all(g, sg_mul(g, flat, flat)), sg_sum_all(g, sg_mul(g, heads, heads)));
}

static sg_tid linear(sg_graph *g, self s) {
    sg_tid x = cube(g, "x");
    sg_tid y = sg_linear_act(g, x, matrix(g, "weight", 4, K), weight(g, "bias", 0, 1, (int64_t[]){4}), s->fn);
    return sg_linear(g, y, matrix(g, "second", 2, 4), SG_NO_TENSOR);
}

static sg_tid convolution(sg_graph *g, self s) {
    sg_tid x = image(g, "x", 3, 6, 7), first = weight(g, "first", 0, 4, (int64_t[]){4, 3, 3, 3});
    sg_tid y = sg_conv2d(g, x, first, weight(g, "bias", 0, 1, (int64_t[]){4}), 2, 1);
    sg_tid z = sg_conv2d(g, y, weight(g, "second", 0, 4, (int64_t[]){4, 4, 1, 1}), SG_NO_TENSOR, 1, 0);
    return sg_conv2d_fused(g, z, weight(g, "third", 0, 4, (int64_t[]){4, 4, 3, 3}),
                           weight(g, "bias3", 0, 1, (int64_t[]){4}), y, s->fn, 1, 1);
}

static sg_tid max_pool(sg_graph *g, self s) {
    (void)s;
    return sg_max_pool2d(g, image(g, "x", M, 6, 7), 3, 2, 1);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static sg_tid softmax(sg_graph *g, self s) {
    (void)s;
    return sg_softmax(g, cube(g, "x"));
}

static sg_tid layer_norm(sg_graph *g, self s) {
    (void)s;
    return sg_layer_norm(g, cube(g, "x"), weight(g, "w", 1, 1, (int64_t[]){K}), weight(g, "b", 0, 1, (int64_t[]){K}),
                         1e-5);
}

/* Input or weights frozen. */
static sg_tid layer_norm_in_part(sg_graph *g, self s) {
    (void)s;
    sg_param_spec fixed = {.dtype = SG_F32, .frozen = true, .init = SG_INIT_NORMAL, .scale = 1};
    sg_tid w = sg_param(g, "w", 1, (int64_t[]){K}, fixed), b = sg_param(g, "b", 1, (int64_t[]){K}, fixed);
    sg_tid x = sg_param(g, "x", 2, (int64_t[]){M, K}, fixed);
    sg_tid no_dw = sg_layer_norm(g, matrix(g, "trained", M, K), w, b, 1e-5);
    sg_tid no_dx =
        sg_layer_norm(g, x, weight(g, "w2", 1, 1, (int64_t[]){K}), weight(g, "b2", 0, 1, (int64_t[]){K}), 1e-5);
    return sg_mul(g, no_dw, no_dx);
}

static sg_tid rms_norm(sg_graph *g, self s) {
    (void)s;
    return sg_rms_norm(g, cube(g, "x"), weight(g, "w", 1, 1, (int64_t[]){K}), 1e-5);
}

/* Batch norm of images and group norm of sequences. */
static sg_tid channel_norms(sg_graph *g, self s) {
    (void)s;
    sg_tid x = image(g, "x", 4, 3, 2), y = weight(g, "y", 0, 3, (int64_t[]){N, 6, K});
    sg_tid batch =
        sg_channel_norm(g, x, weight(g, "w", 1, 1, (int64_t[]){4}), weight(g, "b", 0, 1, (int64_t[]){4}), 0, 1e-5);
    sg_tid group =
        sg_channel_norm(g, y, weight(g, "w2", 1, 1, (int64_t[]){6}), weight(g, "b2", 0, 1, (int64_t[]){6}), 2, 1e-5);
    sg_tid weighting =
        sg_param(g, "parts", 1, (int64_t[]){2},
                 (sg_param_spec){.dtype = SG_F32, .buffer = true, .frozen = true, .init = SG_INIT_NORMAL, .scale = 1});
    batch = sg_mul(g, sg_unary(g, SG_FN_SIN, batch, 0, 0), weighting);
    return sg_add(g, sg_sum_all(g, batch), sg_sum_all(g, sg_unary(g, SG_FN_SIN, sg_scale(g, group, 1.5), 0, 0)));
}

static sg_tid channel_norm_in_part(sg_graph *g, self s) {
    (void)s;
    sg_param_spec fixed = {.dtype = SG_F32, .frozen = true, .init = SG_INIT_NORMAL, .scale = 1};
    sg_tid w = sg_param(g, "w", 1, (int64_t[]){M}, fixed), b = sg_param(g, "b", 1, (int64_t[]){M}, fixed);
    sg_tid x = sg_param(g, "x", 3, (int64_t[]){N, M, K}, fixed);
    sg_tid no_dw = sg_channel_norm(g, cube(g, "trained"), w, b, 0, 1e-5);
    sg_tid no_dx =
        sg_channel_norm(g, x, weight(g, "w2", 1, 1, (int64_t[]){M}), weight(g, "b2", 0, 1, (int64_t[]){M}), 1, 1e-5);
    return sg_mul(g, no_dw, no_dx);
}

static sg_tid sequences(sg_graph *g, self s) {
    (void)s;
    sg_tid x = weight(g, "x", 0, 3, (int64_t[]){N, 3, 8});
    sg_tid y =
        sg_conv1d(g, x, weight(g, "first", 0, 3, (int64_t[]){4, 3, 3}), weight(g, "bias", 0, 1, (int64_t[]){4}), 2, 1);
    y = sg_conv_transpose1d(g, y, weight(g, "second", 0, 3, (int64_t[]){4, 2, 4}),
                            weight(g, "bias2", 0, 1, (int64_t[]){2}), 2, 1);
    y = sg_conv_transpose1d(g, y, weight(g, "third", 0, 3, (int64_t[]){2, 3, 1}), SG_NO_TENSOR, 1, 0);
    return sg_conv1d(g, sg_transpose(g, y, 1, 2), weight(g, "fourth", 0, 3, (int64_t[]){2, 8, 1}), SG_NO_TENSOR, 1, 0);
}

static sg_tid rms_norm_in_part(sg_graph *g, self s) {
    (void)s;
    sg_param_spec fixed = {.dtype = SG_F32, .frozen = true, .init = SG_INIT_NORMAL, .scale = 1};
    sg_tid w = sg_param(g, "w", 1, (int64_t[]){K}, fixed), x = sg_param(g, "x", 2, (int64_t[]){M, K}, fixed);
    sg_tid no_dx = sg_rms_norm(g, x, weight(g, "w2", 1, 1, (int64_t[]){K}), 1e-5);
    return sg_mul(g, sg_rms_norm(g, matrix(g, "trained", M, K), w, 1e-5), no_dx);
}

static sg_tid attention(sg_graph *g, self s) {
    (void)s;
    sg_tid q = weight(g, "q", 0, 4, (int64_t[]){N, 2, M, K}), k = weight(g, "k", 0, 4, (int64_t[]){N, 2, 4, K});
    return sg_attention(g, q, k, weight(g, "v", 0, 4, (int64_t[]){N, 2, 4, K}), SG_NO_TENSOR);
}

static sg_tid attention_masked(sg_graph *g, self s) {
    (void)s;
    sg_tid q = weight(g, "q", 0, 4, (int64_t[]){N, 2, M, K}), k = weight(g, "k", 0, 4, (int64_t[]){N, 2, 4, K});
    sg_desc mask = sg_desc_make(SG_F32, 4, (int64_t[]){N, 1, M, 4});
    sg_tid m = sg_input_tensor(g, "mask", SG_INPUT_UNIFORM, mask, -2, 2);
    return sg_attention(g, q, k, weight(g, "v", 0, 4, (int64_t[]){N, 2, 4, K}), m);
}

static sg_tid embedding(sg_graph *g, self s) {
    (void)s;
    return sg_embedding(g, matrix(g, "table", 6, K), integers(g, "index", SG_I64, 2, (int64_t[]){M, 4}, 6));
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

const sg_op_training SG_OP_TRAININGS[] = {
    {"relu", unary, SG_FN_RELU, 0, 0, 0},
    {"gelu_tanh", unary, SG_FN_GELU_TANH, 0, 0, 0},
    {"gelu_erf", unary, SG_FN_GELU_ERF, 0, 0, 0},
    {"silu", unary, SG_FN_SILU, 0, 0, 0},
    {"mish", unary, SG_FN_MISH, 0, 0, 0},
    {"elu", unary, SG_FN_ELU, 1, 0, 0},
    {"elu of another constant", unary, SG_FN_ELU, 0.5, 0, 0},
    {"tanh", unary, SG_FN_TANH, 0, 0, 0},
    {"sigmoid", unary, SG_FN_SIGMOID, 0, 0, 0},
    {"exp", unary, SG_FN_EXP, 0, 0, 0},
    {"log", unary, SG_FN_LOG, 0, 0, 1.5},
    {"sin", unary, SG_FN_SIN, 0, 0, 0},
    {"cos", unary, SG_FN_COS, 0, 0, 0},
    {"sqrt", unary, SG_FN_SQRT, 0, 0, 1.5},
    {"rsqrt", unary, SG_FN_RSQRT, 0, 0, 1.5},
    {"square", unary, SG_FN_SQUARE, 0, 0, 0},
    {"abs", unary, SG_FN_ABS, 0, 0, 0},
    {"neg", unary, SG_FN_NEG, 0, 0, 0},
    {"reciprocal", unary, SG_FN_RECIPROCAL, 0, 0, 1.5},
    {"affine", unary, SG_FN_AFFINE, -1.5, 0.5, 0},
    {"clamp", unary, SG_FN_CLAMP, -0.5, 0.75, 0},
    {"pow", unary, SG_FN_POW, 2.5, 0, 1.5},
    {"div by a number", unary, SG_FN_DIV_SCALAR, 1.75, 0, 0},
    {"relu in place", unary_in_place, SG_FN_RELU, 0, 0, 0},
    {"tanh in place", unary_in_place, SG_FN_TANH, 0, 0, 0},
    {"sigmoid in place", unary_in_place, SG_FN_SIGMOID, 0, 0, 0},
    {"exp in place", unary_in_place, SG_FN_EXP, 0, 0, 0},
    {"affine in place", unary_in_place, SG_FN_AFFINE, 0.5, -1, 0},
    {"div in place", unary_in_place, SG_FN_DIV_SCALAR, 1.75, 0, 0},
    {"add", binary, SG_FN_ADD, 0.75, 0, 0},
    {"sub", binary, SG_FN_SUB, 1.25, 0, 0},
    {"mul", binary, SG_FN_MUL, 0, 0, 0},
    {"div", binary, SG_FN_DIV, 0, 0, 1.5},
    {"max", binary, SG_FN_MAX, 0, 0, 0},
    {"min", binary, SG_FN_MIN, 0, 0, 0},
    {"squared difference", binary, SG_FN_SQUARED_DIFF, 0, 0, 0},
    {"absolute difference", binary, SG_FN_ABS_DIFF, 0, 0, 0},
    {"add, broadcast", binary_broadcast, SG_FN_ADD, 1, 0, 0},
    {"sub, broadcast", binary_broadcast, SG_FN_SUB, 1, 0, 0},
    {"mul, broadcast", binary_broadcast, SG_FN_MUL, 0, 0, 0},
    {"div, broadcast", binary_broadcast, SG_FN_DIV, 0, 0, 1.5},
    {"squared difference, broadcast", binary_broadcast, SG_FN_SQUARED_DIFF, 0, 0, 0},
    {"max of equals", binary_of_equals, SG_FN_MAX, 0, 0, 0},
    {"min of equals", binary_of_equals, SG_FN_MIN, 0, 0, 0},
    {"max, broadcast", binary_broadcast, SG_FN_MAX, 0, 0, 0},
    {"add in place", binary_in_place, SG_FN_ADD, 1, 0, 0},
    {"sub in place", binary_in_place, SG_FN_SUB, 1, 0, 0},
    {"add a constant", binary_with_constant, SG_FN_ADD, 1, 0, 0},
    {"sub a constant", binary_with_constant, SG_FN_SUB, 1, 0, 0},
    {"mul by a constant", binary_with_constant, SG_FN_MUL, 0, 0, 0},
    {"div by a constant", binary_with_constant, SG_FN_DIV, 0, 0, 1.5},
    {"squared difference from a constant", binary_with_constant, SG_FN_SQUARED_DIFF, 0, 0, 0},
    {"where", where, SG_FN_NONE, 0, 0, 0},
    {"masked fill", masked_fill, SG_FN_NONE, 0, 0, 0},
    {"dropout", dropout, SG_FN_NONE, 0, 0, 0},
    {"views", views, SG_FN_NONE, 0, 0, 0},
    {"slices", slices, SG_FN_NONE, 0, 0, 0},
    {"expand", expand, SG_FN_NONE, 0, 0, 0},
    {"chunk, unbind, split", parts, SG_FN_NONE, 0, 0, 0},
    {"cat and stack", joins, SG_FN_NONE, 0, 0, 0},
    {"copies and casts", copies, SG_FN_NONE, 0, 0, 0},
    {"pad", pad, SG_FN_NONE, 0, 0, 0},
    {"a weight used thrice", reuse, SG_FN_NONE, 0, 0, 0},
    {"sum", reduce, SG_FN_SUM, 0, 0, 0},
    {"mean", reduce, SG_FN_MEAN, 0, 0, 0},
    {"matrix products", products, SG_FN_NONE, 0, 0, 0},
    {"scaled products", scaled_products, SG_FN_NONE, 0, 0, 0},
    {"linear", linear, SG_FN_NONE, 0, 0, 0},
    {"linear and relu", linear, SG_FN_RELU, 0, 0, 0},
    {"linear and gelu", linear, SG_FN_GELU_TANH, 0, 0, 0},
    {"linear and elu", linear, SG_FN_ELU, 0, 0, 0},
    {"linear and tanh", linear, SG_FN_TANH, 0, 0, 0},
    {"convolutions", convolution, SG_FN_NONE, 0, 0, 0},
    {"convolutions and relu", convolution, SG_FN_RELU, 0, 0, 0},
    {"convolutions and silu", convolution, SG_FN_SILU, 0, 0, 0},
    {"max pool", max_pool, SG_FN_NONE, 0, 0, 0},
    {"softmax", softmax, SG_FN_NONE, 0, 0, 0},
    {"layer norm", layer_norm, SG_FN_NONE, 0, 0, 0},
    {"layer norm, partly frozen", layer_norm_in_part, SG_FN_NONE, 0, 0, 0},
    {"rms norm", rms_norm, SG_FN_NONE, 0, 0, 0},
    {"rms norm, partly frozen", rms_norm_in_part, SG_FN_NONE, 0, 0, 0},
    {"channel norms", channel_norms, SG_FN_NONE, 0, 0, 0},
    {"channel norm, partly frozen", channel_norm_in_part, SG_FN_NONE, 0, 0, 0},
    {"convolutions over sequences", sequences, SG_FN_NONE, 0, 0, 0},
    {"attention", attention, SG_FN_NONE, 0, 0, 0},
    {"attention, masked", attention_masked, SG_FN_NONE, 0, 0, 0},
    {"embedding", embedding, SG_FN_NONE, 0, 0, 0},
};
const size_t SG_N_OP_TRAININGS = sizeof SG_OP_TRAININGS / sizeof *SG_OP_TRAININGS;

static sg_tid reduce_once(sg_graph *g, self s) {
    return sg_reduce(g, s->fn, cube(g, "x"), 2u, false);
}

static sg_tid resize(sg_graph *g, self s) {
    (void)s;
    return sg_resize2d(g, image(g, "x", 1, M, K), 6, 7);
}

const sg_op_training SG_OP_REFUSALS[] = {
    {"sign", unary, SG_FN_SIGN, 0, 0, 0},
    {"floor", unary, SG_FN_FLOOR, 0, 0, 0},
    {"lerp", binary, SG_FN_LERP, 0.3, 0, 0},
    {"atan2", binary, SG_FN_ATAN2, 0, 0, 1.5},
    {"power of tensors", binary, SG_FN_POWV, 0, 0, 1.5},
    {"running sum", running_sum, SG_FN_NONE, 0, 0, 0},
    {"largest", reduce_once, SG_FN_MAX, 0, 0, 0},
    {"smallest", reduce_once, SG_FN_MIN, 0, 0, 0},
    {"standard deviation", reduce_once, SG_FN_STD, 0, 0, 0},
    {"resize", resize, SG_FN_NONE, 0, 0, 0},
};
const size_t SG_N_OP_REFUSALS = sizeof SG_OP_REFUSALS / sizeof *SG_OP_REFUSALS;

/* Sum over the result times fixed random numbers of its shape: every element's gradient differs. */
static sg_tid weighted_sum(sg_graph *g, sg_tid y) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc d = *sg_desc_of(g, y);
    sg_param_spec spec = {.dtype = SG_F32, .buffer = true, .frozen = true, .init = SG_INIT_NORMAL, .scale = 1};
    return sg_sum_all(g, sg_mul(g, y, sg_param(g, "weighting", d.ndim, d.size, spec)));
}

sg_code sg_op_training_build(const sg_op_training *one, const sg_profile *profile, sg_training **training,
                             sg_status *status) {
    *training = NULL;
    sg_graph *g = sg_graph_new(profile, N, 1, 1, status);
    if (!g) return status->code;
    sg_graph_training(g)->policy = one->name;
    int32_t program = sg_program_begin(g, "update");
    sg_pass_set(g, SG_PASS_FORWARD);
    sg_mark_here(g, SG_MARK_FORWARD);
    sg_tid y = one->build(g, one);
    sg_backward(g, weighted_sum(g, y), true, true);
    sg_optimizer_step(
        g, &(sg_optimizer_spec){.decoupled_weight_decay = true, .lr = 1e-5, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8});
    sg_program_end(g);
    sg_block_begin(g, "step", 1);
    sg_block_program(g, program);
    sg_block_end(g);
    return sg_graph_finish(g, training, status);
}
