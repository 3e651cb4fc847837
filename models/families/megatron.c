/* megatron.c: GPT as Megatron-LM trains it on one GPU of a data-parallel group: tokens first, heads side by side in one
 * batched product, the scale inside it, mask and softmax as one kernel, bias with the activation, dropout with the residual
 * sum as one call, logits and loss in fp32. */
#include <math.h>
#include <stdlib.h>

#include "models/families/language.h"
#include "models/layers/norm.h"
#include "models/layers/products.h"

typedef struct layer {
    const char *name;
    sg_norm_layer norm1, norm2;
    sg_linear_layer attention, attention_out, up, down;
} layer;

typedef struct megatron {
    sg_language language;
    int64_t layers, width, heads, feedforward, positions;
    double hidden_dropout, attention_dropout;
    bool fp32_logits;
    sg_tid words, position; /* [vocabulary, width], [positions, width] */
    layer *layer;
    sg_norm_layer norm;
} megatron;

static const sg_layer_style fp32 = {.dtype = SG_F32};
static const double norm_eps = 1e-5; /* --layernorm-epsilon */

static void configure(sg_graph *g, megatron *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    *m = (megatron){.layers = sg_option_int(o, "num_layers"),
                    .width = sg_option_int(o, "hidden_size"),
                    .heads = sg_option_int(o, "num_attention_heads"),
                    .feedforward = sg_option_int(o, "ffn_hidden_size"),
                    .positions = sg_option_int(o, "max_position_embeddings"),
                    .fp32_logits = sg_option_bool(o, "fp32_logits")};
    if (m->feedforward == 0) m->feedforward = 4 * m->width;
    m->language = sg_language_make(g, build);
    if (m->positions == 0) m->positions = m->language.tokens;
    m->hidden_dropout = sg_language_dropout(&m->language, sg_option_real(o, "hidden_dropout"));
    m->attention_dropout = sg_language_dropout(&m->language, sg_option_real(o, "attention_dropout"));
}

/* ---- parameters ---- */

static layer layer_make(sg_graph *g, const megatron *m, int64_t index) {
    layer l = {.name = sg_graph_text(g, "layers.%lld", (long long)index)};
    sg_module_begin(g, "%s", l.name);
    l.norm1 = sg_layer_norm_make(g, "input_layernorm", m->width, norm_eps, fp32);
    l.attention = sg_language_linear(g, "self_attention.query_key_value", m->width, 3 * m->width, true);
    l.attention_out = sg_language_linear(g, "self_attention.dense", m->width, m->width, true);
    l.norm2 = sg_layer_norm_make(g, "post_attention_layernorm", m->width, norm_eps, fp32);
    l.up = sg_language_linear(g, "mlp.dense_h_to_4h", m->width, m->feedforward, true);
    l.down = sg_language_linear(g, "mlp.dense_4h_to_h", m->feedforward, m->width, true);
    sg_module_end(g);
    return l;
}

static void parameters(sg_graph *g, void *policy) {
    megatron *m = policy;
    m->words = sg_language_embedding(g, "word_embeddings", m->language.vocabulary, m->width);
    m->position = sg_language_embedding(g, "position_embeddings", m->positions, m->width);
    for (int64_t i = 0; i < m->layers; i++) m->layer[i] = layer_make(g, m, i);
    m->norm = sg_layer_norm_make(g, "final_layernorm", m->width, norm_eps, fp32);
}

/* ---- forward; x[t, b, width] ---- */

/* part[t, b, heads, head] -> [b heads, t, head]: views */
static sg_tid heads_of(sg_graph *g, const megatron *m, sg_tid part) {
    int64_t b = m->language.batch, t = m->language.tokens;
    part = sg_view(g, part, 3, (int64_t[]){t, b * m->heads, m->width / m->heads});
    return sg_transpose(g, part, 0, 1);
}

static sg_tid attend(sg_graph *g, const megatron *m, const layer *l, sg_tid x) {
    int64_t b = m->language.batch, t = m->language.tokens, head = m->width / m->heads;
    sg_tid part[3], qkv = sg_linear_apply(g, &l->attention, x);
    sg_chunk(g, sg_view(g, qkv, 4, (int64_t[]){t, b, m->heads, 3 * head}), -1, 3, part);
    for (int i = 0; i < 3; i++) part[i] = heads_of(g, m, part[i]);
    sg_tid keys = sg_transpose(g, part[1], 1, 2);
    sg_tid scores = sg_matmul_scaled(g, part[0], keys, 1.0 / sqrt((double)head), SG_NO_TENSOR);
    sg_tid weights = sg_dropout(g, sg_softmax(g, scores), m->attention_dropout, 0, (int)m->heads);
    sg_tid y = sg_view(g, sg_matmul(g, weights, part[2]), 4, (int64_t[]){b, m->heads, t, head});
    y = sg_contiguous(g, sg_permute(g, y, (const int[]){2, 0, 1, 3}));
    return sg_linear_apply(g, &l->attention_out, sg_view(g, y, 3, (int64_t[]){t, b, m->width}));
}

/* x + dropout(y): one call */
static sg_tid drop_and_add(sg_graph *g, const megatron *m, sg_tid y, sg_tid x) {
    y = sg_dropout(g, y, m->hidden_dropout, 1, 1);
    if (m->hidden_dropout > 0) sg_same_dispatch(g);
    return sg_add(g, x, y);
}

static sg_tid layer_apply(sg_graph *g, const megatron *m, const layer *l, sg_tid x) {
    sg_module_begin(g, "%s", l->name);
    x = drop_and_add(g, m, attend(g, m, l, sg_layer_norm_apply(g, &l->norm1, x)), x);
    sg_tid y = sg_linear_apply(g, &l->up, sg_layer_norm_apply(g, &l->norm2, x));
    y = sg_linear_apply(g, &l->down, sg_unary(g, SG_FN_GELU_TANH, y, 0, 0));
    x = drop_and_add(g, m, y, x);
    sg_module_end(g);
    return x;
}

static sg_tid logits(sg_graph *g, void *policy) {
    const megatron *m = policy;
    sg_tid places = sg_language_places(g, &m->language);
    sg_tid x = sg_add(g, sg_embedding(g, m->words, m->language.ids), sg_embedding(g, m->position, places));
    x = sg_contiguous(g, sg_transpose(g, x, 0, 1));
    x = sg_dropout(g, x, m->hidden_dropout, 1, 1);
    for (int64_t i = 0; i < m->layers; i++) x = layer_apply(g, m, &m->layer[i], x);
    x = sg_layer_norm_apply(g, &m->norm, x);
    x = m->fp32_logits ? sg_linear(g, sg_to(g, x, SG_F32), sg_to(g, m->words, SG_F32), SG_NO_TENSOR)
                       : sg_linear(g, x, m->words, SG_NO_TENSOR);
    return sg_to(g, sg_contiguous(g, sg_transpose(g, x, 0, 1)), SG_F32);
}

void sg_megatron_build(sg_graph *g, const sg_family_build *build) {
    megatron m;
    configure(g, &m, build);
    sg_language_check_heads(g, "hidden_size", m.width, "num_attention_heads", m.heads);
    sg_language_check_positions(g, &m.language, "max_position_embeddings", m.positions);
    m.layer = sg_layers_alloc(g, m.layers, sizeof *m.layer);
    sg_language_build(g, build, &m.language, &(sg_language_policy){&m, parameters, logits});
    free(m.layer);
}
