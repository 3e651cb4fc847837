/* transformer.c: a pre-norm transformer over a sequence of states or tokens that regresses a target per token. */
#include <stdlib.h>
#include <string.h>

#include "models/families/regression.h"
#include "models/layers/mlp.h"
#include "models/layers/norm.h"

typedef struct block {
    const char *name;
    sg_norm_layer norm1, norm2;
    sg_linear_layer query, key, value, out, up, down;
} block;

typedef struct transformer {
    int64_t batch, layers, width, heads, feedforward, tokens, vocabulary, in, out;
    bool causal, rms;
    bool checkpoint; /* each layer is a checkpointed segment */
    sg_fn activation;
    double dropout;
    sg_regression regression;
    sg_linear_layer input, head;
    sg_tid embedding, position; /* [vocabulary, width], [tokens, width] */
    block *blocks;
    sg_norm_layer norm;
} transformer;

/* ---- configuration and parameters ---- */

static void configure(transformer *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    *m = (transformer){.batch = build->batch,
                       .layers = sg_option_int(o, "n_layers"),
                       .width = sg_option_int(o, "dim_model"),
                       .heads = sg_option_int(o, "n_heads"),
                       .feedforward = sg_option_int(o, "dim_feedforward"),
                       .tokens = sg_option_int(o, "sequence_length"),
                       .vocabulary = sg_option_int(o, "vocab_size"),
                       .in = sg_option_int(o, "input_dim"),
                       .out = sg_option_int(o, "output_dim"),
                       .causal = sg_option_bool(o, "causal"),
                       .checkpoint = sg_option_bool(o, "gradient_checkpointing"),
                       .rms = strcmp(sg_option_text(o, "norm"), "rms_norm") == 0,
                       .activation = sg_activation_named(sg_option_text(o, "activation")),
                       .dropout = sg_option_real(o, "dropout")};
}

static const sg_layer_style fp32 = {.dtype = SG_F32};

static sg_norm_layer norm_make(sg_graph *g, const transformer *m, const char *name) {
    return m->rms ? sg_rms_norm_make(g, name, m->width, 1e-5, fp32) : sg_layer_norm_make(g, name, m->width, 1e-5, fp32);
}

static block block_make(sg_graph *g, const transformer *m, int64_t index) {
    block b = {.name = sg_graph_text(g, "layers.%lld", (long long)index)};
    sg_module_begin(g, "%s", b.name);
    b.norm1 = norm_make(g, m, "norm1");
    b.query = sg_linear_make(g, "q_proj", m->width, m->width, true, fp32);
    b.key = sg_linear_make(g, "k_proj", m->width, m->width, true, fp32);
    b.value = sg_linear_make(g, "v_proj", m->width, m->width, true, fp32);
    b.out = sg_linear_make(g, "out_proj", m->width, m->width, true, fp32);
    b.norm2 = norm_make(g, m, "norm2");
    b.up = sg_linear_make(g, "linear1", m->width, m->feedforward, true, fp32);
    b.down = sg_linear_make(g, "linear2", m->feedforward, m->width, true, fp32);
    sg_module_end(g);
    return b;
}

static void parameters(sg_graph *g, transformer *m) {
    m->embedding = SG_NO_TENSOR;
    if (m->vocabulary)
        m->embedding = sg_param_normal(g, "embedding", 2, (int64_t[]){m->vocabulary, m->width}, 0.02, fp32);
    else
        m->input = sg_linear_make(g, "input", m->in, m->width, true, fp32);
    m->position = sg_param_normal(g, "position", 2, (int64_t[]){m->tokens, m->width}, 0.02, fp32);
    for (int64_t i = 0; i < m->layers; i++) m->blocks[i] = block_make(g, m, i);
    m->norm = norm_make(g, m, "norm");
    m->head = sg_linear_make(g, "head", m->width, m->out, true, fp32);
}

/* ---- forward ---- */

static sg_tid norm_apply(sg_graph *g, const sg_norm_layer *norm, sg_tid x) {
    return norm->bias == SG_NO_TENSOR ? sg_rms_norm_apply(g, norm, x) : sg_layer_norm_apply(g, norm, x);
}

/* [b, t, width] -> [b, heads, t, head] */
static sg_tid heads_of(sg_graph *g, const transformer *m, const sg_linear_layer *projection, sg_tid x) {
    x = sg_linear_apply(g, projection, x);
    x = sg_view(g, x, 4, (int64_t[]){m->batch, m->tokens, m->heads, m->width / m->heads});
    return sg_transpose(g, x, 1, 2);
}

static sg_tid attend(sg_graph *g, const transformer *m, const block *b, sg_tid x, sg_tid mask) {
    sg_tid q = heads_of(g, m, &b->query, x), k = heads_of(g, m, &b->key, x), v = heads_of(g, m, &b->value, x);
    sg_tid y = sg_transpose(g, sg_attention(g, q, k, v, mask), 1, 2);
    y = sg_reshape(g, y, 3, (int64_t[]){m->batch, m->tokens, m->width});
    return sg_linear_apply(g, &b->out, y);
}

static sg_tid block_apply(sg_graph *g, const transformer *m, const block *b, sg_tid x, sg_tid mask) {
    sg_module_begin(g, "%s", b->name);
    sg_tid y = attend(g, m, b, norm_apply(g, &b->norm1, x), mask);
    x = sg_add(g, x, sg_dropout(g, y, m->dropout, 0, 1));
    y = sg_linear_apply_act(g, &b->up, norm_apply(g, &b->norm2, x), m->activation);
    y = sg_linear_apply(g, &b->down, y);
    x = sg_add(g, x, sg_dropout(g, y, m->dropout, 0, 1));
    sg_module_end(g);
    return x;
}

/* bool[1, 1, t, t], true where the row's token comes at or behind the column's. */
static sg_tid causal_mask(sg_graph *g, const transformer *m) {
    if (!m->causal) return SG_NO_TENSOR;
    sg_tid index = sg_arange(g, sg_float(g), 0, 1, m->tokens);
    sg_tid column = sg_view(g, index, 4, (int64_t[]){1, 1, 1, m->tokens});
    sg_tid row = sg_view(g, index, 4, (int64_t[]){1, 1, m->tokens, 1});
    return sg_binary(g, SG_FN_LE, column, row, 0);
}

static sg_tid forward(sg_graph *g, void *policy) {
    transformer *m = policy;
    sg_module_begin(g, "model");
    sg_tid x = m->vocabulary ? sg_embedding(g, m->embedding, m->regression.input)
                             : sg_linear_apply(g, &m->input, m->regression.input);
    x = sg_dropout(g, sg_add(g, x, m->position), m->dropout, 0, 1);
    sg_tid mask = causal_mask(g, m);
    for (int64_t i = 0; i < m->layers; i++) {
        sg_checkpoint_begin_if(g, m->checkpoint);
        x = block_apply(g, m, &m->blocks[i], x, mask);
        sg_checkpoint_end_if(g, m->checkpoint);
    }
    x = sg_linear_apply(g, &m->head, norm_apply(g, &m->norm, x));
    sg_module_end(g);
    return sg_regression_loss(g, &m->regression, x);
}

static void preprocess(sg_graph *g, void *policy) {
    sg_regression_preprocess(g, &((transformer *)policy)->regression);
}

void sg_transformer_build(sg_graph *g, const sg_family_build *build) {
    transformer m;
    configure(&m, build);
    if (m.width % m.heads != 0) {
        sg_graph_fail(g, SG_BAD_INPUT,
                      "dim_model %lld must be a multiple of n_heads %lld: each head gets an equal part",
                      (long long)m.width, (long long)m.heads);
        return;
    }
    m.blocks = sg_layers_alloc(g, m.layers, sizeof *m.blocks);
    if (!m.blocks) return;
    sg_module_begin(g, "model");
    parameters(g, &m);
    sg_module_end(g);
    sg_desc target = sg_desc_make(SG_F32, 3, (int64_t[]){m.batch, m.tokens, m.out});
    sg_desc input = m.vocabulary ? sg_desc_make(SG_I64, 2, (int64_t[]){m.batch, m.tokens})
                                 : sg_desc_make(SG_F32, 3, (int64_t[]){m.batch, m.tokens, m.in});
    m.regression = sg_regression_make(g, build->options, &input, m.vocabulary ? (double)m.vocabulary : 1.0, &target);
    sg_regression_build(g, build, &m, preprocess, forward);
    free(m.blocks);
}
