#include "tests/support/op_samples.h"

static sg_desc f32(int ndim, const int64_t *size) {
    return op_desc(SG_F32, OP_PLAIN, ndim, size);
}

static const int64_t ROWS[] = {4, 6}, LAST[] = {6}, COUNT[] = {4}, IMAGE[] = {2, 3, 6, 6}, HALF[] = {2, 3, 3, 3};
static const int64_t WINDOW[] = {3, 3, 3, 3}, HEADS[] = {2, 2, 4, 6};

static void inputs(op_case *c, int n, sg_desc desc) {
    for (int i = 0; i < n; i++) op_case_input(c, desc, 0.25, 1);
}

static void outputs(op_case *c, int n, sg_desc desc) {
    for (int i = 0; i < n; i++) op_case_output(c, desc);
}

/* n inputs and one output of one shape. */
static void same_shape(op_case *c, sg_op_kind kind, sg_attrs attrs, int n) {
    op_case_begin(c, kind, attrs);
    inputs(c, n, f32(2, ROWS));
    outputs(c, 1, f32(2, ROWS));
}

static void convolution(op_case *c, sg_op_kind kind) {
    op_case_begin(c, kind, (sg_attrs){.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1}});
    inputs(c, 1, f32(4, IMAGE));
    inputs(c, 1, f32(4, kind == SG_OP_CONV_BWD_WEIGHTS ? IMAGE : WINDOW));
    outputs(c, 1, f32(4, kind == SG_OP_CONV_BWD_WEIGHTS ? WINDOW : IMAGE));
}

static void pool(op_case *c, bool backward) {
    op_case_begin(c, backward ? SG_OP_MAXPOOL_BWD : SG_OP_MAXPOOL, (sg_attrs){.kernel = {2, 2}, .stride = {2, 2}});
    inputs(c, 1, f32(4, backward ? HALF : IMAGE));
    if (backward) op_case_input(c, op_desc(SG_U8, OP_PLAIN, 4, HALF), 0, 4);
    outputs(c, 1, f32(4, backward ? IMAGE : HALF));
    if (!backward) outputs(c, 1, op_desc(SG_U8, OP_PLAIN, 4, HALF));
}

static void norm(op_case *c, sg_op_kind kind, bool layer, bool backward) {
    op_case_begin(c, kind, (sg_attrs){.eps = 1e-5});
    inputs(c, backward ? 2 : 1, f32(2, ROWS));
    if (backward) inputs(c, 1 + layer, f32(1, COUNT));
    inputs(c, backward ? 1 : 1 + layer, f32(1, LAST));
    outputs(c, 1, f32(2, ROWS));
    outputs(c, 1 + layer, backward ? f32(1, LAST) : f32(1, COUNT));
}

static void channel_norm(op_case *c, sg_op_kind kind, bool backward) {
    static const int64_t GROUPS[] = {2, 1};
    op_case_begin(c, kind, (sg_attrs){.eps = 1e-5, .count = 1});
    inputs(c, backward ? 2 : 1, f32(4, IMAGE));
    if (backward) inputs(c, 2, f32(2, GROUPS));
    inputs(c, backward ? 1 : 2, f32(1, &IMAGE[1]));
    outputs(c, 1, f32(4, IMAGE));
    outputs(c, 2, backward ? f32(1, &IMAGE[1]) : f32(2, GROUPS));
}

static void attention(op_case *c, bool backward) {
    op_case_begin(c, backward ? SG_OP_ATTENTION_BWD : SG_OP_ATTENTION, (sg_attrs){.alpha = 0.5});
    inputs(c, backward ? 5 : 3, f32(4, HEADS));
    if (backward) op_case_input(c, f32(3, HEADS), 3, 4);
    outputs(c, backward ? 3 : 1, f32(4, HEADS));
    if (!backward) outputs(c, 1, f32(3, HEADS));
}

static void embedding(op_case *c, bool backward) {
    op_case_begin(c, backward ? SG_OP_EMBEDDING_BWD : SG_OP_EMBEDDING, (sg_attrs){0});
    inputs(c, 1, f32(2, ROWS));
    op_case_input(c, op_desc(SG_I64, OP_PLAIN, 1, COUNT), 0, 4);
    outputs(c, 1, f32(2, ROWS));
}

static void dropout(op_case *c, bool backward) {
    op_case_begin(c, backward ? SG_OP_DROPOUT_BWD : SG_OP_DROPOUT, (sg_attrs){.alpha = 0.5});
    inputs(c, 1, f32(2, ROWS));
    if (backward) op_case_input(c, op_desc(SG_BOOL, OP_PLAIN, 2, ROWS), 0, 2);
    outputs(c, 1, f32(2, ROWS));
    if (!backward) outputs(c, 1, op_desc(SG_BOOL, OP_PLAIN, 2, ROWS));
}

bool op_sample(op_case *c, sg_op_kind kind) {
    switch (kind) { /* no default: the compiler names a kind that is missing */
    case SG_OP_MATMUL:
        op_case_begin(c, kind, (sg_attrs){.alpha = 1});
        inputs(c, 1, f32(2, ROWS));
        inputs(c, 1, f32(2, (int64_t[]){6, 5}));
        outputs(c, 1, f32(2, (int64_t[]){4, 5}));
        return true;
    case SG_OP_CONV:
    case SG_OP_CONV_BWD_DATA:
    case SG_OP_CONV_BWD_WEIGHTS: convolution(c, kind); return true;
    case SG_OP_MAXPOOL:
    case SG_OP_MAXPOOL_BWD: pool(c, kind == SG_OP_MAXPOOL_BWD); return true;
    case SG_OP_RESIZE:
    case SG_OP_PAD:
        op_case_begin(c, kind, (sg_attrs){0});
        inputs(c, 1, f32(4, HALF));
        outputs(c, 1, f32(4, IMAGE));
        return true;
    case SG_OP_SOFTMAX:
    case SG_OP_COPY: same_shape(c, kind, (sg_attrs){0}, 1); return true;
    case SG_OP_SOFTMAX_BWD: same_shape(c, kind, (sg_attrs){0}, 2); return true;
    case SG_OP_LAYER_NORM: norm(c, kind, true, false); return true;
    case SG_OP_LAYER_NORM_BWD: norm(c, kind, true, true); return true;
    case SG_OP_RMS_NORM: norm(c, kind, false, false); return true;
    case SG_OP_RMS_NORM_BWD: norm(c, kind, false, true); return true;
    case SG_OP_CHANNEL_NORM:
    case SG_OP_CHANNEL_NORM_BWD: channel_norm(c, kind, kind == SG_OP_CHANNEL_NORM_BWD); return true;
    case SG_OP_ATTENTION:
    case SG_OP_ATTENTION_BWD: attention(c, kind == SG_OP_ATTENTION_BWD); return true;
    case SG_OP_UNARY: same_shape(c, kind, (sg_attrs){.fn = SG_FN_TANH}, 1); return true;
    case SG_OP_UNARY_BWD: same_shape(c, kind, (sg_attrs){.fn = SG_FN_TANH}, 2); return true;
    case SG_OP_BINARY: same_shape(c, kind, (sg_attrs){.fn = SG_FN_ADD, .alpha = 1}, 2); return true;
    case SG_OP_TERNARY: same_shape(c, kind, (sg_attrs){.fn = SG_FN_ADDCMUL, .alpha = 1}, 3); return true;
    case SG_OP_FILL: same_shape(c, kind, (sg_attrs){.alpha = 2}, 0); return true;
    case SG_OP_IOTA: same_shape(c, kind, (sg_attrs){.alpha = 2, .beta = 1}, 0); return true;
    case SG_OP_CUMSUM: same_shape(c, kind, (sg_attrs){.dim = 1}, 1); return true;
    case SG_OP_CAT:
        op_case_begin(c, kind, (sg_attrs){.dim = 0});
        inputs(c, 2, f32(2, ROWS));
        outputs(c, 1, f32(2, (int64_t[]){8, 6}));
        return true;
    case SG_OP_REDUCE:
        op_case_begin(c, kind, (sg_attrs){.fn = SG_FN_SUM, .dims_mask = 2});
        inputs(c, 1, f32(2, ROWS));
        outputs(c, 1, f32(2, (int64_t[]){4, 1}));
        return true;
    case SG_OP_NORM_ALL:
        op_case_begin(c, kind, (sg_attrs){.count = 4});
        inputs(c, 4, f32(2, ROWS));
        outputs(c, 1, f32(1, COUNT));
        return true;
    case SG_OP_EMBEDDING:
    case SG_OP_EMBEDDING_BWD: embedding(c, kind == SG_OP_EMBEDDING_BWD); return true;
    case SG_OP_DROPOUT:
    case SG_OP_DROPOUT_BWD: dropout(c, kind == SG_OP_DROPOUT_BWD); return true;
    case SG_OP_RANDOM: same_shape(c, kind, (sg_attrs){.fn = SG_FN_UNIFORM, .beta = 1}, 0); return true;
    case SG_OP_FOREACH:
        op_case_begin(c, kind, (sg_attrs){.fn = SG_FN_AFFINE, .alpha = 0.5, .count = 3, .flags = SG_IN_PLACE});
        inputs(c, 3, f32(2, ROWS));
        outputs(c, 3, f32(2, ROWS));
        return true;
    case SG_OP_ADAMW:
        op_case_begin(c, kind, (sg_attrs){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .count = 2});
        inputs(c, 8, f32(2, ROWS));
        outputs(c, 6, f32(2, ROWS));
        return true;
    case SG_OP_AMP_UNSCALE:
        op_case_begin(c, kind, (sg_attrs){.count = 3, .flags = SG_IN_PLACE});
        inputs(c, 3, f32(2, ROWS));
        op_case_values(c, f32(0, NULL), (const double[]){0});
        inputs(c, 1, f32(0, NULL));
        outputs(c, 3, f32(2, ROWS));
        outputs(c, 1, f32(0, NULL));
        return true;
    case SG_OP_AMP_UPDATE:
        op_case_begin(c, kind, (sg_attrs){.alpha = 2, .beta = 0.5, .count = 8, .flags = SG_IN_PLACE});
        op_case_values(c, f32(0, NULL), (const double[]){1024});
        op_case_values(c, op_desc(SG_I32, OP_PLAIN, 0, NULL), (const double[]){7});
        op_case_values(c, f32(0, NULL), (const double[]){0});
        outputs(c, 1, f32(0, NULL));
        outputs(c, 1, op_desc(SG_I32, OP_PLAIN, 0, NULL));
        return true;
    case SG_OP_KIND_COUNT: break;
    }
    return false;
}
