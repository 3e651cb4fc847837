/* pi.c: pi0 and pi05 as LeRobot's ports of openpi train them: a SigLIP vision tower and Gemma (PaliGemma) with an action expert
 * beside it that shares its attention, trained by flow matching. Key names and defaults are LeRobot's. */
#include "models/families/pi.h"

#include <stdlib.h>
#include <string.h>

int64_t sg_pi_image_tokens(const sg_pi *m) {
    int64_t per_side = m->vla.vision_config.side / m->vla.vision_config.patch;
    return per_side * per_side;
}

int64_t sg_pi_prefix(const sg_pi *m) {
    return (m->vla.cameras + m->blanks) * sg_pi_image_tokens(m) + m->vla.language;
}

int64_t sg_pi_suffix(const sg_pi *m) {
    return m->vla.chunk + (m->adaptive ? 0 : 1);
}

/* ---- configuration ---- */

/* Widths of openpi's variants (gemma.py, get_config). */
static int64_t width_of(const sg_options *o, const char *variant, const char *key, int64_t of_2b, int64_t of_300m) {
    int64_t asked = sg_option_int(o, key);
    if (asked > 0) return asked;
    return strcmp(sg_option_text(o, variant), "gemma_2b") == 0 ? of_2b : of_300m;
}

static const sg_vla_keys keys = {.resolution = "image_resolution",
                                 .language = "tokenizer_max_length",
                                 .layers = "num_hidden_layers",
                                 .heads = "num_attention_heads",
                                 .kv_heads = "num_key_value_heads",
                                 .head = "head_dim",
                                 .expert_width = "expert_hidden_size"};

static sg_decoder_config gemma_config(const sg_options *o, const char *variant, const char *width, const char *inner) {
    int64_t size = width_of(o, variant, width, 2048, 1024);
    return (sg_decoder_config){.width = size,
                               .kv_width = size,
                               .feedforward = width_of(o, variant, inner, 16384, 4096),
                               .heads = sg_option_int(o, keys.heads),
                               .kv_heads = sg_option_int(o, keys.kv_heads),
                               .head = sg_option_int(o, keys.head)};
}

static sg_pi configure(const sg_family_build *build, bool adaptive) {
    const sg_options *o = build->options;
    sg_pi m = {.vla = sg_vla_make(build, &keys),
               .adaptive = adaptive,
               .blanks = sg_option_int(o, "empty_cameras"),
               .checkpoint = sg_option_bool(o, "gradient_checkpointing"),
               .tied = sg_option_bool(o, "tie_word_embeddings")};
    m.nested = m.checkpoint && strcmp(sg_option_text(o, "checkpointing_scope"), "nested") == 0;
    m.vla.quantiles = adaptive;
    m.vla.vision_config.checkpoint = m.checkpoint;
    m.vla.text_config = gemma_config(o, "paligemma_variant", "text_hidden_size", "text_intermediate_size");
    m.vla.expert_config = gemma_config(o, "action_expert_variant", "expert_hidden_size", "expert_intermediate_size");
    m.condition = adaptive ? m.vla.expert_config.width : 0;
    return m;
}

static void check(sg_graph *g, const sg_pi *m, const sg_options *o) {
    sg_vla_check(g, &m->vla, &keys, o, sg_pi_prefix(m) + sg_pi_suffix(m));
    if (m->vla.vision_config.side % m->vla.vision_config.patch != 0)
        sg_graph_fail(g, SG_BAD_INPUT, "image_resolution %lld must be a multiple of vision_patch_size %lld",
                      (long long)m->vla.vision_config.side, (long long)m->vla.vision_config.patch);
    if (m->vla.cameras + m->blanks < 1 || m->vla.cameras + m->blanks > SG_LIMIT_CAMERAS)
        sg_graph_fail(g, SG_BAD_INPUT, "cameras %lld and empty_cameras %lld must be 1 to %d together",
                      (long long)m->vla.cameras, (long long)m->blanks, SG_LIMIT_CAMERAS);
}

/* ---- parameters ---- */

static sg_gemma_layer *layers_make(sg_graph *g, const sg_pi *m, const sg_decoder_config *config, int64_t condition,
                                   bool frozen) {
    sg_layer_style style = {.dtype = m->vla.dtype, .frozen = frozen}, norms = {.dtype = SG_F32, .frozen = frozen};
    sg_gemma_layer *layers = sg_layers_alloc(g, m->vla.layers, sizeof *layers);
    for (int64_t i = 0; layers && i < m->vla.layers; i++)
        layers[i] = sg_gemma_make(g, sg_graph_text(g, "layers.%lld", (long long)i), config, condition, style, norms);
    return layers;
}

static void vlm_make(sg_graph *g, sg_pi *m) {
    sg_layer_style vision = {.dtype = SG_F32, .frozen = m->vla.freeze_vision};
    sg_layer_style wide = {.dtype = SG_F32, .frozen = m->vla.freeze_language};
    sg_layer_style narrow = {.dtype = m->vla.dtype, .frozen = m->vla.freeze_language};
    sg_module_begin(g, SG_PI_TOWER);
    sg_vision_make(g, &m->vla.vision, &m->vla.vision_config, vision);
    sg_module_end(g);
    sg_module_begin(g, SG_PI_PROJECTOR);
    m->projector = sg_linear_make(g, "linear", m->vla.vision_config.width, m->vla.text_config.width, true, wide);
    sg_module_end(g);
    sg_module_begin(g, SG_PI_LANGUAGE);
    sg_module_begin(g, "embed_tokens");
    m->vla.embedding =
        sg_param_normal(g, "weight", 2, (int64_t[]){m->vla.vocabulary, m->vla.text_config.width}, 0.02, narrow);
    sg_module_end(g);
    m->text = layers_make(g, m, &m->vla.text_config, 0, m->vla.freeze_language);
    m->text_norm = sg_gemma_norm_make(g, "norm", m->vla.text_config.width, 0, wide);
    sg_module_end(g);
    /* Neither model's head takes part in training, but both are parameters that count and lie in memory. */
    if (!m->tied)
        (void)sg_linear_make(g, "paligemma.lm_head", m->vla.text_config.width, m->vla.vocabulary, false, narrow);
}

static void expert_make(sg_graph *g, sg_pi *m) {
    sg_layer_style wide = {.dtype = SG_F32}, narrow = {.dtype = m->vla.dtype};
    sg_module_begin(g, SG_PI_EXPERT);
    m->expert = layers_make(g, m, &m->vla.expert_config, m->condition, false);
    m->expert_norm = sg_gemma_norm_make(g, "norm", m->vla.expert_config.width, m->condition, wide);
    sg_module_end(g);
    (void)sg_linear_make(g, "gemma_expert.lm_head", m->vla.expert_config.width, m->vla.vocabulary, false, narrow);
}

static void parameters(sg_graph *g, sg_pi *m) {
    sg_layer_style style = {.dtype = SG_F32};
    int64_t width = m->vla.expert_config.width;
    sg_module_begin(g, "model");
    sg_module_begin(g, "paligemma_with_expert");
    vlm_make(g, m);
    expert_make(g, m);
    sg_module_end(g);
    m->vla.action_in_proj = sg_linear_make(g, "action_in_proj", m->vla.max_action, width, true, style);
    m->vla.action_out_proj = sg_linear_make(g, "action_out_proj", width, m->vla.max_action, true, style);
    if (!m->adaptive) m->vla.state_proj = sg_linear_make(g, "state_proj", m->vla.max_state, width, true, style);
    m->vla.time_in = sg_linear_make(g, m->adaptive ? "time_mlp_in" : "action_time_mlp_in",
                                    m->adaptive ? width : 2 * width, width, true, style);
    m->vla.time_out =
        sg_linear_make(g, m->adaptive ? "time_mlp_out" : "action_time_mlp_out", width, width, true, style);
    m->no_block = sg_buffer(g, "no_block", 2, (int64_t[]){1, sg_pi_prefix(m) + m->vla.chunk}, 0.0);
    m->new_block = sg_buffer(g, "new_block", 2, (int64_t[]){1, 2}, 1.0);
    sg_module_end(g);
}

/* ---- the training ---- */

static void preprocess(sg_graph *g, void *policy) {
    const sg_pi *m = policy;
    sg_vla_preprocess(g, &m->vla);
    /* The state's bins are written into the prompt on the host. */
    if (m->adaptive) sg_wait(g, m->vla.state_in);
}

static void build_pi(sg_graph *g, const sg_family_build *build, bool adaptive) {
    sg_pi m = configure(build, adaptive);
    check(g, &m, build->options);
    if (!sg_graph_failed(g)) parameters(g, &m);
    sg_supervised supervised = {.policy = &m, .preprocess = preprocess, .forward = sg_pi_forward};
    sg_vla_build(g, &m.vla, build, supervised);
    sg_vision_free(&m.vla.vision);
    free(m.text);
    free(m.expert);
}

void sg_pi0_build(sg_graph *g, const sg_family_build *build) {
    build_pi(g, build, false);
}

void sg_pi05_build(sg_graph *g, const sg_family_build *build) {
    build_pi(g, build, true);
}
