/* switch.c: Switch Transformers, as Hugging Face's SwitchTransformersForConditionalGeneration (transformers 4): T5 with
 * some feed-forward layers replaced by experts. The decoder reads as many tokens as the encoder. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/families/language.h"
#include "models/layers/experts.h"
#include "models/layers/heads.h"
#include "models/layers/norm.h"
#include "models/layers/relative.h"

typedef struct attention {
    const char *name;
    sg_norm_layer norm;
    sg_linear_layer query, key, value, out;
} attention;

typedef struct layer {
    const char *name;
    attention self, cross; /* cross: of the decoder */
    const char *feed;      /* module of the feed-forward layer */
    sg_norm_layer feed_norm;
    bool sparse;
    sg_expert dense;
    sg_experts experts;
} layer;

typedef struct stack {
    const char *name;
    int64_t layers, sparse_step; /* 0: none is sparse */
    bool decoder;
    sg_tid bias; /* relative positions [buckets, heads] */
    layer *layer;
    sg_norm_layer norm;
} stack;

typedef struct model {
    sg_language language;
    int64_t width, head, heads, buckets, max_distance;
    double dropout, eps;
    sg_experts_config feed;
    sg_tid words;
    stack encoder, decoder;
    layer *layers;      /* of both stacks */
    sg_expert *experts; /* of all sparse layers */
} model;

static const sg_layer_style fp32 = {.dtype = SG_F32};

static void configure(sg_graph *g, model *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    *m = (model){.width = sg_option_int(o, "d_model"),
                 .head = sg_option_int(o, "d_kv"),
                 .heads = sg_option_int(o, "num_heads"),
                 .buckets = sg_option_int(o, "relative_attention_num_buckets"),
                 .max_distance = sg_option_int(o, "relative_attention_max_distance"),
                 .eps = sg_option_real(o, "layer_norm_epsilon"),
                 .encoder = {.name = "encoder", .layers = sg_option_int(o, "num_layers")},
                 .decoder = {.name = "decoder", .layers = sg_option_int(o, "num_decoder_layers"), .decoder = true}};
    if (m->decoder.layers == 0) m->decoder.layers = m->encoder.layers;
    int64_t sparse[2] = {sg_option_int(o, "num_sparse_encoder_layers"), sg_option_int(o, "num_sparse_decoder_layers")};
    m->encoder.sparse_step = sparse[0] > 0 ? m->encoder.layers / sparse[0] : 0;
    m->decoder.sparse_step = sparse[1] > 0 ? m->decoder.layers / sparse[1] : 0;
    m->language = sg_language_make(g, build);
    m->dropout = sg_language_dropout(&m->language, sg_option_real(o, "dropout_rate"));
    m->feed =
        (sg_experts_config){.width = m->width,
                            .feedforward = sg_option_int(o, "d_ff"),
                            .experts = sg_option_int(o, "num_experts"),
                            .capacity = sg_option_int(o, "expert_capacity"),
                            .alike = strcmp(sg_option_text(o, "routing"), "alike") == 0,
                            .activation = sg_activation_of(sg_option_text(o, "dense_act_fn")),
                            .dropout = m->dropout,
                            .jitter = sg_language_dropout(&m->language, sg_option_real(o, "router_jitter_noise"))};
}

/* ---- parameters ---- */

static attention attention_make(sg_graph *g, const model *m, const char *name, const char *inner) {
    attention a = {.name = sg_graph_text(g, "%s", name)};
    int64_t width = m->heads * m->head;
    sg_module_begin(g, "%s", name);
    sg_module_begin(g, "%s", inner);
    a.query = sg_language_linear(g, "q", m->width, width, false);
    a.key = sg_language_linear(g, "k", m->width, width, false);
    a.value = sg_language_linear(g, "v", m->width, width, false);
    a.out = sg_language_linear(g, "o", width, m->width, false);
    sg_module_end(g);
    a.norm = sg_rms_norm_make(g, "layer_norm", m->width, m->eps, fp32);
    sg_module_end(g);
    return a;
}

static bool is_sparse(const stack *s, int64_t index) {
    return s->sparse_step > 0 && (s->sparse_step == 1 || index % s->sparse_step == 1);
}

static layer layer_make(sg_graph *g, const model *m, const stack *s, int64_t index, sg_expert **experts) {
    layer l = {.name = sg_graph_text(g, "block.%lld", (long long)index), .sparse = is_sparse(s, index)};
    sg_module_begin(g, "%s", l.name);
    l.self = attention_make(g, m, "layer.0", "SelfAttention");
    if (s->decoder) l.cross = attention_make(g, m, "layer.1", "EncDecAttention");
    l.feed = s->decoder ? "layer.2" : "layer.1";
    sg_module_begin(g, "%s", l.feed);
    if (l.sparse) {
        l.experts = sg_experts_make(g, "mlp", &m->feed, *experts);
        *experts += m->feed.experts;
    } else {
        l.dense = sg_expert_make(g, "mlp", &m->feed);
    }
    l.feed_norm = sg_rms_norm_make(g, "layer_norm", m->width, m->eps, fp32);
    sg_module_end(g);
    sg_module_end(g);
    return l;
}

static void stack_make(sg_graph *g, const model *m, stack *s, sg_expert **experts) {
    sg_module_begin(g, "%s", s->name);
    s->bias = sg_language_embedding(g, "block.0.layer.0.SelfAttention.relative_attention_bias", m->buckets, m->heads);
    for (int64_t i = 0; i < s->layers; i++) s->layer[i] = layer_make(g, m, s, i, experts);
    s->norm = sg_rms_norm_make(g, "final_layer_norm", m->width, m->eps, fp32);
    sg_module_end(g);
}

/* ---- forward ---- */

/* x + dropout(attention(norm(x), memory or norm(x)) + bias) */
static sg_tid attend(sg_graph *g, const model *m, const attention *a, sg_tid x, sg_tid memory, sg_tid bias) {
    sg_module_begin(g, "%s", a->name);
    sg_tid normed = sg_rms_norm_apply(g, &a->norm, x), from = memory == SG_NO_TENSOR ? normed : memory;
    sg_tid query = sg_heads_split(g, sg_linear_apply(g, &a->query, normed), m->heads);
    sg_tid key = sg_heads_split(g, sg_linear_apply(g, &a->key, from), m->heads);
    sg_tid value = sg_heads_split(g, sg_linear_apply(g, &a->value, from), m->heads);
    sg_tid scores = sg_binary_in_place(g, SG_FN_ADD, sg_heads_scores(g, query, key), bias, 1);
    sg_tid y = sg_linear_apply(g, &a->out, sg_heads_join(g, sg_heads_mix(g, scores, value, m->dropout)));
    x = sg_add(g, x, sg_dropout(g, y, m->dropout, 0, 1));
    sg_module_end(g);
    return x;
}

static sg_tid feed(sg_graph *g, const model *m, const layer *l, sg_tid x) {
    sg_module_begin(g, "%s", l->feed);
    sg_tid y = sg_rms_norm_apply(g, &l->feed_norm, x);
    if (l->sparse) {
        y = sg_experts_apply(g, &l->experts, &m->feed, y);
    } else {
        sg_module_begin(g, "mlp");
        y = sg_expert_apply(g, &l->dense, &m->feed, y);
        sg_module_end(g);
    }
    x = sg_add(g, x, sg_dropout(g, y, m->dropout, 0, 1));
    sg_module_end(g);
    return x;
}

static sg_tid bias_of(sg_graph *g, const model *m, const stack *s, sg_tid mask) {
    const sg_relative relative = {m->buckets, m->max_distance, !s->decoder};
    return sg_add(g, sg_relative_bias(g, &relative, s->bias, m->language.tokens), mask);
}

static sg_tid cross_bias(sg_graph *g, const model *m, sg_tid mask) {
    int64_t t = m->language.tokens;
    return sg_add(g, sg_full(g, sg_float(g), 4, (int64_t[]){1, m->heads, t, t}, 0), mask);
}

static sg_tid stack_apply(sg_graph *g, const model *m, const stack *s, sg_tid memory, sg_tid memory_mask) {
    sg_module_begin(g, "%s", s->name);
    sg_tid x = sg_dropout(g, sg_embedding(g, m->words, m->language.ids), m->dropout, 0, 1);
    sg_tid bias = bias_of(g, m, s, s->decoder ? sg_language_mask(g, &m->language, true) : memory_mask);
    sg_tid cross = s->decoder ? cross_bias(g, m, memory_mask) : SG_NO_TENSOR;
    for (int64_t i = 0; i < s->layers; i++) {
        const layer *l = &s->layer[i];
        sg_module_begin(g, "%s", l->name);
        x = attend(g, m, &l->self, x, SG_NO_TENSOR, bias);
        if (s->decoder) x = attend(g, m, &l->cross, x, memory, cross);
        x = feed(g, m, l, x);
        sg_module_end(g);
    }
    x = sg_dropout(g, sg_rms_norm_apply(g, &s->norm, x), m->dropout, 0, 1);
    sg_module_end(g);
    return x;
}

static sg_tid logits(sg_graph *g, void *policy) {
    const model *m = policy;
    sg_tid mask = sg_language_mask(g, &m->language, false);
    sg_tid memory = stack_apply(g, m, &m->encoder, SG_NO_TENSOR, mask);
    sg_tid x = stack_apply(g, m, &m->decoder, memory, mask);
    x = sg_scale(g, x, 1.0 / sqrt((double)m->width)); /* embedding and head are one matrix */
    return sg_linear(g, x, m->words, SG_NO_TENSOR);
}

/* ---- the family ---- */

static bool check(sg_graph *g, const model *m) {
    if (m->buckets % 2 || m->max_distance <= m->buckets / 2) {
        sg_graph_fail(g, SG_BAD_INPUT,
                      "relative_attention_num_buckets %lld must be even and relative_attention_max_distance %lld above "
                      "half of it",
                      (long long)m->buckets, (long long)m->max_distance);
        return false;
    }
    if (m->language.tokens >= m->feed.experts) return true;
    sg_graph_fail(g, SG_BAD_INPUT,
                  "sequence_length %lld is below num_experts %lld: tokens are spread evenly over experts",
                  (long long)m->language.tokens, (long long)m->feed.experts);
    return false;
}

static int64_t sparse_layers(const stack *s) {
    int64_t n = 0;
    for (int64_t i = 0; i < s->layers; i++) n += is_sparse(s, i);
    return n;
}

static void parameters(sg_graph *g, void *policy) {
    model *m = policy;
    sg_expert *experts = m->experts;
    m->encoder.layer = m->layers;
    m->decoder.layer = m->layers + m->encoder.layers;
    m->words = sg_language_embedding(g, "shared", m->language.vocabulary, m->width);
    stack_make(g, m, &m->encoder, &experts);
    stack_make(g, m, &m->decoder, &experts);
}

void sg_switch_build(sg_graph *g, const sg_family_build *build) {
    model m;
    configure(g, &m, build);
    if (!check(g, &m)) return;
    int64_t sparse = sparse_layers(&m.encoder) + sparse_layers(&m.decoder);
    m.layers = sg_layers_alloc(g, m.encoder.layers + m.decoder.layers, sizeof *m.layers);
    m.experts = sg_layers_alloc(g, sparse * m.feed.experts + 1, sizeof *m.experts);
    sg_language_build(g, build, &m.language, &(sg_language_policy){&m, parameters, logits});
    free(m.layers);
    free(m.experts);
}
