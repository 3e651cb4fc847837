/* smolvla.c: SmolVLA as LeRobot trains it: a SigLIP vision tower, the first layers of a small language model, and
 * an action expert beside them, trained by flow matching. Key names and defaults are LeRobot's. */
#include "models/families/smolvla.h"

#include <stdlib.h>

int64_t sg_smolvla_image_tokens(const sg_smolvla *m) {
    int64_t per_side = m->vla.vision_config.side / m->vla.vision_config.patch / m->scale;
    return per_side * per_side;
}

int64_t sg_smolvla_prefix(const sg_smolvla *m) {
    return m->vla.cameras * sg_smolvla_image_tokens(m) + m->vla.language + 1;
}

bool sg_smolvla_is_joint(const sg_smolvla *m, int64_t index) {
    return m->self_every > 0 && index % m->self_every == 0;
}

/* ---- configuration ---- */

/* Width of the expert's feed-forward layers: 4 x 2/3 of its own, rounded up to a multiple of 256. */
static int64_t expert_feedforward(int64_t width) {
    return (4 * (2 * width / 3) + 255) / 256 * 256;
}

static const sg_vla_keys keys = {.resolution = "resize_imgs_with_padding",
                                 .language = "language_tokens",
                                 .layers = "num_vlm_layers",
                                 .heads = "text_num_attention_heads",
                                 .kv_heads = "text_num_key_value_heads",
                                 .head = "text_head_dim",
                                 .expert_width = "text_hidden_size x expert_width_multiplier"};

static sg_smolvla configure(const sg_family_build *build) {
    const sg_options *o = build->options;
    sg_smolvla m = {.vla = sg_vla_make(build, &keys),
                    .self_every = sg_option_int(o, "self_attn_every_n_layers"),
                    .scale = sg_option_int(o, "scale_factor"),
                    .train_state = sg_option_bool(o, "train_state_proj")};
    if (sg_option_text(o, "attention_mode")[0] == 's') m.self_every = 1;
    int64_t width = sg_option_int(o, "text_hidden_size");
    m.vla.padded = true;
    m.vla.text_config = (sg_decoder_config){.width = width,
                                            .feedforward = sg_option_int(o, "text_intermediate_size"),
                                            .heads = sg_option_int(o, keys.heads),
                                            .kv_heads = sg_option_int(o, keys.kv_heads),
                                            .head = sg_option_int(o, keys.head),
                                            .kv_width = width};
    m.vla.expert_config = m.vla.text_config;
    m.vla.expert_config.width = (int64_t)((double)width * sg_option_real(o, "expert_width_multiplier"));
    m.vla.expert_config.feedforward = expert_feedforward(m.vla.expert_config.width);
    return m;
}

static void check(sg_graph *g, const sg_smolvla *m, const sg_options *o) {
    int64_t experts = sg_option_int(o, "num_expert_layers"), most = sg_option_int(o, "tokenizer_max_length");
    int64_t side = m->vla.vision_config.side, unit = m->vla.vision_config.patch * m->scale;
    sg_vla_check(g, &m->vla, &keys, o, sg_smolvla_prefix(m) + m->vla.chunk);
    if (side % unit != 0)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "resize_imgs_with_padding %lld must be a multiple of vision_patch_size x scale_factor = %lld",
                      (long long)side, (long long)unit);
    if (m->vla.expert_config.width < 2)
        sg_graph_fail(g, SG_BAD_INPUT, "expert_width_multiplier leaves the expert no width");
    if (experts > 0 && experts != m->vla.layers)
        sg_graph_fail(g, SG_BAD_INPUT, "num_expert_layers %lld (%s) must be 0 or num_vlm_layers %lld",
                      (long long)experts, sg_option_origin(o, "num_expert_layers"), (long long)m->vla.layers);
    if (m->vla.language > most)
        sg_graph_fail(g, SG_BAD_INPUT, "language_tokens %lld (%s) exceeds tokenizer_max_length %lld",
                      (long long)m->vla.language, sg_option_origin(o, "language_tokens"), (long long)most);
}

/* ---- parameters ---- */

static void text_make(sg_graph *g, sg_smolvla *m) {
    sg_layer_style style = {.dtype = m->vla.dtype, .frozen = m->vla.freeze_language};
    m->text = sg_layers_alloc(g, m->vla.layers, sizeof *m->text);
    sg_module_begin(g, SG_TEXT_MODEL);
    sg_module_begin(g, "embed_tokens");
    m->vla.embedding =
        sg_param_normal(g, "weight", 2, (int64_t[]){m->vla.vocabulary, m->vla.text_config.width}, 0.02, style);
    sg_module_end(g);
    for (int64_t i = 0; m->text && i < m->vla.layers; i++) {
        /* The last layer's own output is not used: LeRobot freezes it, so that no parameter stays without a
         * gradient. */
        style.frozen = m->vla.freeze_language || i == m->vla.layers - 1;
        m->text[i] = sg_decoder_make(g, sg_graph_text(g, "layers.%lld", (long long)i), &m->vla.text_config, style);
    }
    style.frozen = true;
    m->text_norm = sg_rms_norm_make(g, "norm", m->vla.text_config.width, 1e-5, style);
    sg_module_end(g);
}

static void vlm_make(sg_graph *g, sg_smolvla *m) {
    sg_layer_style vision = {.dtype = m->vla.dtype, .frozen = m->vla.freeze_vision};
    sg_layer_style connector = {.dtype = m->vla.dtype, .frozen = m->vla.freeze_language};
    sg_layer_style frozen = {.dtype = m->vla.dtype, .frozen = true};
    sg_module_begin(g, SG_VISION_MODEL);
    sg_vision_make(g, &m->vla.vision, &m->vla.vision_config, vision);
    sg_module_end(g);
    sg_module_begin(g, SG_CONNECTOR);
    int64_t joined = m->vla.vision_config.width * m->scale * m->scale;
    m->connector = sg_linear_make(g, "modality_projection.proj", joined, m->vla.text_config.width, false, connector);
    sg_module_end(g);
    text_make(g, m);
    m->lm_head = sg_linear_make(g, "vlm.lm_head", m->vla.text_config.width, m->vla.vocabulary, false, frozen);
}

static void expert_make(sg_graph *g, sg_smolvla *m) {
    sg_layer_style style = {.dtype = m->vla.dtype};
    m->expert = sg_layers_alloc(g, m->vla.layers, sizeof *m->expert);
    sg_module_begin(g, SG_EXPERT_MODEL);
    for (int64_t i = 0; m->expert && i < m->vla.layers; i++) {
        sg_decoder_config config = m->vla.expert_config;
        config.kv_width = sg_smolvla_is_joint(m, i) ? config.width : config.kv_heads * config.head;
        m->expert[i] = sg_decoder_make(g, sg_graph_text(g, "layers.%lld", (long long)i), &config, style);
    }
    m->expert_norm = sg_rms_norm_make(g, "norm", m->vla.expert_config.width, 1e-5, style);
    sg_module_end(g);
}

static void parameters(sg_graph *g, sg_smolvla *m) {
    sg_layer_style style = {.dtype = SG_F32}, state = {.dtype = SG_F32, .frozen = !m->train_state};
    int64_t width = m->vla.expert_config.width, prefix = sg_smolvla_prefix(m);
    sg_module_begin(g, "model");
    sg_module_begin(g, "vlm_with_expert");
    vlm_make(g, m);
    expert_make(g, m);
    sg_module_end(g);
    m->vla.state_proj = sg_linear_make(g, "state_proj", m->vla.max_state, m->vla.text_config.width, true, state);
    m->vla.action_in_proj = sg_linear_make(g, "action_in_proj", m->vla.max_action, width, true, style);
    m->vla.action_out_proj = sg_linear_make(g, "action_out_proj", width, m->vla.max_action, true, style);
    m->vla.time_in = sg_linear_make(g, "action_time_mlp_in", 2 * width, width, true, style);
    m->vla.time_out = sg_linear_make(g, "action_time_mlp_out", width, width, true, style);
    m->no_block = sg_buffer(g, "no_block", 2, (int64_t[]){1, prefix - 1}, 0.0);
    m->new_block = sg_buffer(g, "new_block", 2, (int64_t[]){1, 1 + m->vla.chunk}, 1.0);
    sg_module_end(g);
}

/* ---- the training ---- */

static void preprocess(sg_graph *g, void *policy) {
    sg_vla_preprocess(g, &((sg_smolvla *)policy)->vla);
}

void sg_smolvla_build(sg_graph *g, const sg_family_build *build) {
    sg_smolvla m = configure(build);
    check(g, &m, build->options);
    if (!sg_graph_failed(g)) parameters(g, &m);
    sg_supervised supervised = {.policy = &m, .preprocess = preprocess, .forward = sg_smolvla_forward};
    sg_vla_build(g, &m.vla, build, supervised);
    sg_vision_free(&m.vla.vision);
    free(m.text);
    free(m.expert);
}
