/* bert.c: BERT, as Hugging Face's BertLMHeadModel, BertForPreTraining and BertForSequenceClassification (transformers 4,
 * attention as separate calls). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/families/language.h"
#include "models/layers/gelu.h"
#include "models/layers/heads.h"
#include "models/layers/norm.h"

typedef struct layer {
    const char *name;
    sg_linear_layer query, key, value, attention_out, up, down;
    sg_norm_layer attention_norm, norm;
} layer;

typedef struct bert {
    sg_language language;
    int64_t layers, width, heads, feedforward, positions, types;
    double hidden_dropout, attention_dropout, eps;
    sg_activation activation;
    sg_tid words, position, type; /* [vocabulary, width], [positions, width], [types, width] */
    sg_norm_layer embedding_norm, head_norm;
    layer *layer;
    bool predicts, pools; /* a token per place; something of the first token */
    sg_linear_layer transform;
    sg_tid head_bias; /* of the decoder, whose weight is the word embedding */
    sg_linear_layer pooler, classifier;
} bert;

enum { CLASSES = 2 }; /* num_labels; the next segment follows or does not */

static const sg_layer_style fp32 = {.dtype = SG_F32};

static void configure(sg_graph *g, bert *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    *m = (bert){.layers = sg_option_int(o, "num_hidden_layers"),
                .width = sg_option_int(o, "hidden_size"),
                .heads = sg_option_int(o, "num_attention_heads"),
                .feedforward = sg_option_int(o, "intermediate_size"),
                .positions = sg_option_int(o, "max_position_embeddings"),
                .types = sg_option_int(o, "type_vocab_size"),
                .eps = sg_option_real(o, "layer_norm_eps"),
                .activation = sg_activation_of(sg_option_text(o, "hidden_act")),
                .predicts = strcmp(sg_option_text(o, "head"), "classification") != 0,
                .pools = strcmp(sg_option_text(o, "head"), "lm") != 0};
    m->language = sg_language_make(g, build);
    m->hidden_dropout = sg_language_dropout(&m->language, sg_option_real(o, "hidden_dropout_prob"));
    m->attention_dropout = sg_language_dropout(&m->language, sg_option_real(o, "attention_probs_dropout_prob"));
}

/* ---- parameters ---- */

static layer layer_make(sg_graph *g, const bert *m, int64_t index) {
    layer l = {.name = sg_graph_text(g, "encoder.layer.%lld", (long long)index)};
    sg_module_begin(g, "%s", l.name);
    l.query = sg_language_linear(g, "attention.self.query", m->width, m->width, true);
    l.key = sg_language_linear(g, "attention.self.key", m->width, m->width, true);
    l.value = sg_language_linear(g, "attention.self.value", m->width, m->width, true);
    l.attention_out = sg_language_linear(g, "attention.output.dense", m->width, m->width, true);
    l.attention_norm = sg_layer_norm_make(g, "attention.output.LayerNorm", m->width, m->eps, fp32);
    l.up = sg_language_linear(g, "intermediate.dense", m->width, m->feedforward, true);
    l.down = sg_language_linear(g, "output.dense", m->feedforward, m->width, true);
    l.norm = sg_layer_norm_make(g, "output.LayerNorm", m->width, m->eps, fp32);
    sg_module_end(g);
    return l;
}

static void parameters(sg_graph *g, void *policy) {
    bert *m = policy;
    m->words = sg_language_embedding(g, "embeddings.word_embeddings", m->language.vocabulary, m->width);
    m->position = sg_language_embedding(g, "embeddings.position_embeddings", m->positions, m->width);
    m->type = sg_language_embedding(g, "embeddings.token_type_embeddings", m->types, m->width);
    m->embedding_norm = sg_layer_norm_make(g, "embeddings.LayerNorm", m->width, m->eps, fp32);
    for (int64_t i = 0; i < m->layers; i++) m->layer[i] = layer_make(g, m, i);
    if (m->pools) {
        m->pooler = sg_language_linear(g, "pooler.dense", m->width, m->width, true);
        m->classifier =
            sg_language_linear(g, m->predicts ? "cls.seq_relationship" : "classifier", m->width, CLASSES, true);
    }
    if (!m->predicts) return;
    m->head_bias = sg_param_constant(g, "cls.predictions.bias", 1, &m->language.vocabulary, 0.0, fp32);
    m->transform = sg_language_linear(g, "cls.predictions.transform.dense", m->width, m->width, true);
    m->head_norm = sg_layer_norm_make(g, "cls.predictions.transform.LayerNorm", m->width, m->eps, fp32);
}

/* ---- forward ---- */

static sg_tid embed(sg_graph *g, const bert *m) {
    int64_t b = m->language.batch, t = m->language.tokens;
    sg_module_begin(g, "embeddings");
    sg_tid types = sg_full(g, SG_I64, 2, (int64_t[]){b, t}, 0);
    sg_tid places = sg_language_places(g, &m->language);
    sg_tid x = sg_add(g, sg_embedding(g, m->words, m->language.ids), sg_embedding(g, m->type, types));
    x = sg_binary_in_place(g, SG_FN_ADD, x, sg_embedding(g, m->position, places), 1);
    sg_module_end(g);
    return sg_dropout(g, sg_layer_norm_apply(g, &m->embedding_norm, x), m->hidden_dropout, 0, 1);
}

static sg_tid attend(sg_graph *g, const bert *m, const layer *l, sg_tid x, sg_tid mask) {
    sg_tid query = sg_linear_apply(g, &l->query, x);
    sg_tid key = sg_heads_split(g, sg_linear_apply(g, &l->key, x), m->heads);
    sg_tid value = sg_heads_split(g, sg_linear_apply(g, &l->value, x), m->heads);
    sg_tid scores = sg_heads_scores(g, sg_heads_split(g, query, m->heads), key);
    scores = sg_unary(g, SG_FN_DIV_SCALAR, scores, sqrt((double)(m->width / m->heads)), 0);
    scores = sg_add(g, scores, mask);
    return sg_heads_join(g, sg_heads_mix(g, scores, value, m->attention_dropout));
}

/* norm(dropout(dense(y)) + x) */
static sg_tid add_norm(sg_graph *g, const bert *m, const sg_linear_layer *dense, const sg_norm_layer *norm, sg_tid y,
                       sg_tid x) {
    y = sg_dropout(g, sg_linear_apply(g, dense, y), m->hidden_dropout, 0, 1);
    return sg_layer_norm_apply(g, norm, sg_add(g, y, x));
}

static sg_tid layer_apply(sg_graph *g, const bert *m, const layer *l, sg_tid x, sg_tid mask) {
    sg_module_begin(g, "%s", l->name);
    x = add_norm(g, m, &l->attention_out, &l->attention_norm, attend(g, m, l, x, mask), x);
    sg_tid y = sg_activation_apply(g, m->activation, sg_linear_apply(g, &l->up, x));
    x = add_norm(g, m, &l->down, &l->norm, y, x);
    sg_module_end(g);
    return x;
}

static sg_tid classify(sg_graph *g, const bert *m, sg_tid x) {
    sg_tid first = sg_linear_apply(g, &m->pooler, sg_select(g, x, 1, 0));
    return sg_linear_apply(g, &m->classifier, sg_unary(g, SG_FN_TANH, first, 0, 0));
}

static sg_tid logits(sg_graph *g, void *policy) {
    const bert *m = policy;
    sg_tid mask = sg_language_mask(g, &m->language, false), x = embed(g, m);
    for (int64_t i = 0; i < m->layers; i++) x = layer_apply(g, m, &m->layer[i], x, mask);
    if (m->pools) {
        sg_tid y = classify(g, m, x);
        if (!m->predicts) return y;
    }
    sg_module_begin(g, "cls.predictions");
    x = sg_activation_apply(g, m->activation, sg_linear_apply(g, &m->transform, x));
    x = sg_linear(g, sg_layer_norm_apply(g, &m->head_norm, x), m->words, m->head_bias);
    sg_module_end(g);
    return x;
}

void sg_bert_build(sg_graph *g, const sg_family_build *build) {
    bert m;
    configure(g, &m, build);
    sg_language_check_heads(g, "hidden_size", m.width, "num_attention_heads", m.heads);
    sg_language_check_positions(g, &m.language, "max_position_embeddings", m.positions);
    if (!m.predicts && m.language.step != SG_LANGUAGE_INFERENCE)
        sg_graph_fail(g, SG_BAD_INPUT, "head classification has no loss over tokens: use step inference, or head lm");
    m.layer = sg_layers_alloc(g, m.layers, sizeof *m.layer);
    sg_language_build(g, build, &m.language, &(sg_language_policy){&m, parameters, logits});
    free(m.layer);
}
