/* gpt2.c: GPT-2 and GPT-3 sizes, as Hugging Face's GPT2LMHeadModel (transformers 4, attention as separate calls). */
#include <math.h>
#include <stdlib.h>

#include "models/families/language.h"
#include "models/layers/gelu.h"
#include "models/layers/heads.h"
#include "models/layers/norm.h"

/* weight[in, out]: transformers' Conv1D */
typedef struct conv1d {
    sg_tid weight, bias;
} conv1d;

typedef struct layer {
    const char *name;
    sg_norm_layer norm1, norm2;
    conv1d attention, attention_out, up, down;
} layer;

typedef struct gpt2 {
    sg_language language;
    int64_t layers, width, heads, feedforward, positions;
    double embedding_dropout, attention_dropout, residual_dropout, eps;
    sg_activation activation;
    sg_tid words, position; /* [vocabulary, width], [positions, width] */
    layer *layer;
    sg_norm_layer norm;
} gpt2;

static const sg_layer_style fp32 = {.dtype = SG_F32};

static void configure(sg_graph *g, gpt2 *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    *m = (gpt2){.layers = sg_option_int(o, "n_layer"),
                .width = sg_option_int(o, "n_embd"),
                .heads = sg_option_int(o, "n_head"),
                .feedforward = sg_option_int(o, "n_inner"),
                .positions = sg_option_int(o, "n_positions"),
                .eps = sg_option_real(o, "layer_norm_epsilon"),
                .activation = sg_activation_of(sg_option_text(o, "activation_function"))};
    if (m->feedforward == 0) m->feedforward = 4 * m->width;
    m->language = sg_language_make(g, build);
    m->embedding_dropout = sg_language_dropout(&m->language, sg_option_real(o, "embd_pdrop"));
    m->attention_dropout = sg_language_dropout(&m->language, sg_option_real(o, "attn_pdrop"));
    m->residual_dropout = sg_language_dropout(&m->language, sg_option_real(o, "resid_pdrop"));
}

/* ---- parameters ---- */

static conv1d conv1d_make(sg_graph *g, const char *name, int64_t in, int64_t out) {
    sg_module_begin(g, "%s", name);
    conv1d c = {sg_param_normal(g, "weight", 2, (int64_t[]){in, out}, 0.02, fp32),
                sg_param_constant(g, "bias", 1, &out, 0.0, fp32)};
    sg_module_end(g);
    return c;
}

static layer layer_make(sg_graph *g, const gpt2 *m, int64_t index) {
    layer l = {.name = sg_graph_text(g, "h.%lld", (long long)index)};
    sg_module_begin(g, "%s", l.name);
    l.norm1 = sg_layer_norm_make(g, "ln_1", m->width, m->eps, fp32);
    l.attention = conv1d_make(g, "attn.c_attn", m->width, 3 * m->width);
    l.attention_out = conv1d_make(g, "attn.c_proj", m->width, m->width);
    l.norm2 = sg_layer_norm_make(g, "ln_2", m->width, m->eps, fp32);
    l.up = conv1d_make(g, "mlp.c_fc", m->width, m->feedforward);
    l.down = conv1d_make(g, "mlp.c_proj", m->feedforward, m->width);
    sg_module_end(g);
    return l;
}

static void parameters(sg_graph *g, void *policy) {
    gpt2 *m = policy;
    m->words = sg_language_embedding(g, "wte", m->language.vocabulary, m->width);
    m->position = sg_language_embedding(g, "wpe", m->positions, m->width);
    for (int64_t i = 0; i < m->layers; i++) m->layer[i] = layer_make(g, m, i);
    m->norm = sg_layer_norm_make(g, "ln_f", m->width, m->eps, fp32);
}

/* ---- forward ---- */

static sg_tid attend(sg_graph *g, const gpt2 *m, const layer *l, sg_tid x, sg_tid causal) {
    sg_tid part[3];
    sg_chunk(g, sg_addmm(g, l->attention.bias, x, l->attention.weight), -1, 3, part);
    for (int i = 0; i < 3; i++) part[i] = sg_heads_split(g, part[i], m->heads);
    sg_tid scores = sg_heads_scores(g, part[0], part[1]);
    sg_tid scale = sg_full(g, sg_float(g), 0, NULL, sqrt((double)(m->width / m->heads)));
    scores = sg_div(g, scores, scale);
    sg_tid least = sg_full(g, sg_float(g), 0, NULL, sg_least_score(g));
    scores = sg_where(g, causal, scores, least);
    sg_tid y = sg_heads_join(g, sg_heads_mix(g, scores, part[2], m->attention_dropout));
    return sg_addmm(g, l->attention_out.bias, y, l->attention_out.weight);
}

static sg_tid layer_apply(sg_graph *g, const gpt2 *m, const layer *l, sg_tid x, sg_tid causal) {
    sg_module_begin(g, "%s", l->name);
    sg_tid y = attend(g, m, l, sg_layer_norm_apply(g, &l->norm1, x), causal);
    x = sg_add(g, sg_dropout(g, y, m->residual_dropout, 0, 1), x);
    y = sg_addmm(g, l->up.bias, sg_layer_norm_apply(g, &l->norm2, x), l->up.weight);
    y = sg_addmm(g, l->down.bias, sg_activation_apply(g, m->activation, y), l->down.weight);
    x = sg_add(g, x, sg_dropout(g, y, m->residual_dropout, 0, 1));
    sg_module_end(g);
    return x;
}

static sg_tid logits(sg_graph *g, void *policy) {
    const gpt2 *m = policy;
    sg_tid places = sg_language_places(g, &m->language), causal = sg_causal_mask(g, m->language.tokens);
    sg_tid x = sg_add(g, sg_embedding(g, m->words, m->language.ids), sg_embedding(g, m->position, places));
    x = sg_dropout(g, x, m->embedding_dropout, 0, 1);
    for (int64_t i = 0; i < m->layers; i++) x = layer_apply(g, m, &m->layer[i], x, causal);
    return sg_linear(g, sg_layer_norm_apply(g, &m->norm, x), m->words, SG_NO_TENSOR);
}

void sg_gpt2_build(sg_graph *g, const sg_family_build *build) {
    gpt2 m;
    configure(g, &m, build);
    sg_language_check_heads(g, "n_embd", m.width, "n_head", m.heads);
    sg_language_check_positions(g, &m.language, "n_positions", m.positions);
    m.layer = sg_layers_alloc(g, m.layers, sizeof *m.layer);
    sg_language_build(g, build, &m.language, &(sg_language_policy){&m, parameters, logits});
    free(m.layer);
}
