/* opt.c: OPT, as Hugging Face's OPTForCausalLM (transformers 4, attention as separate calls). */
#include <math.h>
#include <stdlib.h>

#include "models/families/language.h"
#include "models/layers/gelu.h"
#include "models/layers/heads.h"
#include "models/layers/norm.h"

typedef struct layer {
    const char *name;
    sg_linear_layer query, key, value, out, up, down;
    sg_norm_layer attention_norm, norm;
} layer;

typedef struct opt {
    sg_language language;
    int64_t layers, width, embedding_width, heads, feedforward, positions;
    double dropout, attention_dropout;
    bool norm_before;
    sg_activation activation;
    sg_tid words, position;                  /* [vocabulary, embedding_width], [positions + 2, width] */
    sg_linear_layer project_in, project_out; /* where embedding_width is not width */
    layer *layer;
    sg_norm_layer norm;
} opt;

static const sg_layer_style fp32 = {.dtype = SG_F32};
static const double norm_eps = 1e-5;    /* torch.nn.LayerNorm */
static const int64_t position_skip = 2; /* OPTLearnedPositionalEmbedding.offset */

static void configure(sg_graph *g, opt *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    *m = (opt){.layers = sg_option_int(o, "num_hidden_layers"),
               .width = sg_option_int(o, "hidden_size"),
               .embedding_width = sg_option_int(o, "word_embed_proj_dim"),
               .heads = sg_option_int(o, "num_attention_heads"),
               .feedforward = sg_option_int(o, "ffn_dim"),
               .positions = sg_option_int(o, "max_position_embeddings"),
               .norm_before = sg_option_bool(o, "do_layer_norm_before"),
               .activation = sg_activation_of(sg_option_text(o, "activation_function"))};
    if (m->embedding_width == 0) m->embedding_width = m->width;
    m->language = sg_language_make(g, build);
    m->dropout = sg_language_dropout(&m->language, sg_option_real(o, "dropout"));
    m->attention_dropout = sg_language_dropout(&m->language, sg_option_real(o, "attention_dropout"));
}

/* ---- parameters ---- */

static layer layer_make(sg_graph *g, const opt *m, int64_t index) {
    layer l = {.name = sg_graph_text(g, "decoder.layers.%lld", (long long)index)};
    sg_module_begin(g, "%s", l.name);
    l.key = sg_language_linear(g, "self_attn.k_proj", m->width, m->width, true);
    l.value = sg_language_linear(g, "self_attn.v_proj", m->width, m->width, true);
    l.query = sg_language_linear(g, "self_attn.q_proj", m->width, m->width, true);
    l.out = sg_language_linear(g, "self_attn.out_proj", m->width, m->width, true);
    l.attention_norm = sg_layer_norm_make(g, "self_attn_layer_norm", m->width, norm_eps, fp32);
    l.up = sg_language_linear(g, "fc1", m->width, m->feedforward, true);
    l.down = sg_language_linear(g, "fc2", m->feedforward, m->width, true);
    l.norm = sg_layer_norm_make(g, "final_layer_norm", m->width, norm_eps, fp32);
    sg_module_end(g);
    return l;
}

static void parameters(sg_graph *g, void *policy) {
    opt *m = policy;
    m->words = sg_language_embedding(g, "decoder.embed_tokens", m->language.vocabulary, m->embedding_width);
    m->position = sg_language_embedding(g, "decoder.embed_positions", m->positions + position_skip, m->width);
    if (m->embedding_width != m->width) {
        m->project_out = sg_language_linear(g, "decoder.project_out", m->width, m->embedding_width, false);
        m->project_in = sg_language_linear(g, "decoder.project_in", m->embedding_width, m->width, false);
    }
    if (m->norm_before) m->norm = sg_layer_norm_make(g, "decoder.final_layer_norm", m->width, norm_eps, fp32);
    for (int64_t i = 0; i < m->layers; i++) m->layer[i] = layer_make(g, m, i);
}

/* ---- forward ---- */

/* [b, 1, t, t]: 0 where a token is seen, else the least number. */
static sg_tid additive_mask(sg_graph *g, const opt *m) {
    int64_t b = m->language.batch, t = m->language.tokens;
    double least = sg_least_score(g);
    sg_tid seen = sg_to(g, sg_causal_mask(g, t), sg_float(g));
    sg_tid causal = sg_scale(g, sg_unary(g, SG_FN_AFFINE, seen, -1.0, 1.0), least);
    sg_tid padding = sg_full(g, sg_float(g), 2, (int64_t[]){b, t}, 0);
    padding = sg_expand(g, sg_view(g, padding, 4, (int64_t[]){b, 1, 1, t}), 4, (int64_t[]){b, 1, t, t});
    return sg_add(g, padding, causal);
}

/* Tokens are counted by a running sum over the attention mask (all ones). */
static sg_tid positions(sg_graph *g, const opt *m) {
    sg_tid seen = sg_full(g, SG_I64, 2, (int64_t[]){m->language.batch, m->language.tokens}, 1);
    sg_tid index = sg_unary(g, SG_FN_AFFINE, sg_cumsum(g, seen, 1), 1.0, (double)(position_skip - 1));
    return sg_embedding(g, m->position, index);
}

/* [b, t, width] -> [b heads, t, head], copied */
static sg_tid heads_of(sg_graph *g, const opt *m, sg_tid x) {
    int64_t b = m->language.batch, t = m->language.tokens, head = m->width / m->heads;
    x = sg_contiguous(g, sg_heads_split(g, x, m->heads));
    return sg_view(g, x, 3, (int64_t[]){b * m->heads, t, head});
}

static sg_tid attend(sg_graph *g, const opt *m, const layer *l, sg_tid x, sg_tid mask, sg_tid least) {
    int64_t b = m->language.batch, t = m->language.tokens, head = m->width / m->heads;
    sg_tid query = sg_scale(g, sg_linear_apply(g, &l->query, x), 1.0 / sqrt((double)head));
    sg_tid key = heads_of(g, m, sg_linear_apply(g, &l->key, x));
    sg_tid value = heads_of(g, m, sg_linear_apply(g, &l->value, x));
    sg_tid scores = sg_matmul(g, heads_of(g, m, query), sg_transpose(g, key, 1, 2));
    scores = sg_add(g, sg_view(g, scores, 4, (int64_t[]){b, m->heads, t, t}), mask);
    scores = sg_binary(g, SG_FN_MAX, scores, least, 0);
    scores = sg_softmax(g, sg_view(g, scores, 3, (int64_t[]){b * m->heads, t, t}));
    sg_tid y = sg_matmul(g, sg_dropout(g, scores, m->attention_dropout, 0, (int)m->heads), value);
    y = sg_heads_join(g, sg_view(g, y, 4, (int64_t[]){b, m->heads, t, head}));
    return sg_linear_apply(g, &l->out, y);
}

static sg_tid feed(sg_graph *g, const opt *m, const layer *l, sg_tid x) {
    sg_tid y = sg_activation_apply(g, m->activation, sg_linear_apply(g, &l->up, x));
    return sg_dropout(g, sg_linear_apply(g, &l->down, y), m->dropout, 0, 1);
}

static sg_tid layer_apply(sg_graph *g, const opt *m, const layer *l, sg_tid x, sg_tid mask, sg_tid least) {
    sg_module_begin(g, "%s", l->name);
    sg_tid y = m->norm_before ? sg_layer_norm_apply(g, &l->attention_norm, x) : x;
    x = sg_add(g, x, sg_dropout(g, attend(g, m, l, y, mask, least), m->dropout, 0, 1));
    if (!m->norm_before) x = sg_layer_norm_apply(g, &l->attention_norm, x);
    y = m->norm_before ? sg_layer_norm_apply(g, &l->norm, x) : x;
    x = sg_add(g, x, feed(g, m, l, y));
    if (!m->norm_before) x = sg_layer_norm_apply(g, &l->norm, x);
    sg_module_end(g);
    return x;
}

static sg_tid logits(sg_graph *g, void *policy) {
    const opt *m = policy;
    bool projects = m->embedding_width != m->width;
    sg_tid x = sg_embedding(g, m->words, m->language.ids);
    sg_tid mask = additive_mask(g, m), place = positions(g, m);
    if (projects) x = sg_linear_apply(g, &m->project_in, x);
    x = sg_add(g, x, place);
    for (int64_t i = 0; i < m->layers; i++) {
        sg_tid least = sg_full(g, sg_float(g), 0, NULL, sg_least_score(g));
        x = layer_apply(g, m, &m->layer[i], x, mask, least);
    }
    if (m->norm_before) x = sg_layer_norm_apply(g, &m->norm, x);
    if (projects) x = sg_linear_apply(g, &m->project_out, x);
    return sg_linear(g, x, m->words, SG_NO_TENSOR);
}

void sg_opt_build(sg_graph *g, const sg_family_build *build) {
    opt m;
    configure(g, &m, build);
    sg_language_check_heads(g, "hidden_size", m.width, "num_attention_heads", m.heads);
    sg_language_check_positions(g, &m.language, "max_position_embeddings", m.positions);
    m.layer = sg_layers_alloc(g, m.layers, sizeof *m.layer);
    sg_language_build(g, build, &m.language, &(sg_language_policy){&m, parameters, logits});
    free(m.layer);
}
