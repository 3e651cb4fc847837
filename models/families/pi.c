/* pi.c: pi0 and pi05 as LeRobot's ports of openpi train them: a SigLIP vision tower and Gemma (PaliGemma) with an action expert
 * beside it that shares its attention, trained by flow matching. Key names and defaults are LeRobot's. */
#include "models/families/pi.h"

#include <stdlib.h>
#include <string.h>

#include "models/layers/into.h"

int64_t sg_pi_image_tokens(const sg_pi *m) {
    int64_t per_side = m->vision_config.side / m->vision_config.patch;
    return per_side * per_side;
}

int64_t sg_pi_prefix(const sg_pi *m) {
    return (m->cameras + m->blanks) * sg_pi_image_tokens(m) + m->language;
}

int64_t sg_pi_suffix(const sg_pi *m) {
    return m->chunk + (m->adaptive ? 0 : 1);
}

/* ---- configuration ---- */

/* Widths of openpi's variants (gemma.py, get_config). */
static int64_t width_of(const sg_options *o, const char *variant, const char *key, int64_t of_2b, int64_t of_300m) {
    int64_t asked = sg_option_int(o, key);
    if (asked > 0) return asked;
    return strcmp(sg_option_text(o, variant), "gemma_2b") == 0 ? of_2b : of_300m;
}

static sg_gemma_config gemma_config(const sg_options *o, const char *variant, const char *width, const char *inner) {
    return (sg_gemma_config){.width = width_of(o, variant, width, 2048, 1024),
                             .feedforward = width_of(o, variant, inner, 16384, 4096),
                             .heads = sg_option_int(o, "num_attention_heads"),
                             .kv_heads = sg_option_int(o, "num_key_value_heads"),
                             .head = sg_option_int(o, "head_dim")};
}

static void configure_sizes(sg_pi *m, const sg_options *o) {
    size_t n;
    m->vision_config = (sg_vision_config){.side = sg_option_list(o, "image_resolution", &n)[0],
                                          .patch = sg_option_int(o, "vision_patch_size"),
                                          .width = sg_option_int(o, "vision_hidden_size"),
                                          .feedforward = sg_option_int(o, "vision_intermediate_size"),
                                          .heads = sg_option_int(o, "vision_num_attention_heads"),
                                          .layers = sg_option_int(o, "vision_num_hidden_layers"),
                                          .checkpoint = m->checkpoint};
    m->text_config = gemma_config(o, "paligemma_variant", "text_hidden_size", "text_intermediate_size");
    m->expert_config = gemma_config(o, "action_expert_variant", "expert_hidden_size", "expert_intermediate_size");
    if (m->adaptive) m->expert_config.condition = m->expert_config.width;
}

static void configure(sg_pi *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    m->batch = build->batch;
    m->cameras = sg_option_int(o, "cameras");
    m->blanks = sg_option_int(o, "empty_cameras");
    m->height = sg_option_int(o, "image_height");
    m->width = sg_option_int(o, "image_width");
    m->state = sg_option_int(o, "state_dim");
    m->action = sg_option_int(o, "action_dim");
    m->chunk = sg_option_int(o, "chunk_size");
    m->max_state = sg_option_int(o, "max_state_dim");
    m->max_action = sg_option_int(o, "max_action_dim");
    m->language = sg_option_int(o, "tokenizer_max_length");
    m->layers = sg_option_int(o, "num_hidden_layers");
    m->vocabulary = sg_option_int(o, "vocab_size");
    m->min_period = sg_option_real(o, "min_period");
    m->max_period = sg_option_real(o, "max_period");
    m->freeze_language = sg_option_bool(o, "train_expert_only");
    m->freeze_vision = m->freeze_language || sg_option_bool(o, "freeze_vision_encoder");
    m->checkpoint = sg_option_bool(o, "gradient_checkpointing");
    m->tied = sg_option_bool(o, "tie_word_embeddings");
    m->nested = m->checkpoint && strcmp(sg_option_text(o, "checkpointing_scope"), "nested") == 0;
    m->dtype = build->own_bf16 ? SG_BF16 : SG_F32;
    configure_sizes(m, o);
}

static void check_images(sg_graph *g, const sg_pi *m, const sg_options *o) {
    size_t n;
    const int64_t *size = sg_option_list(o, "image_resolution", &n);
    if (n != 2 || size[0] != size[1])
        sg_graph_fail(g, SG_BAD_INPUT, "image_resolution (%s) must be two equal numbers, such as 224,224",
                      sg_option_origin(o, "image_resolution"));
    if (m->vision_config.side % m->vision_config.patch != 0)
        sg_graph_fail(g, SG_BAD_INPUT, "image_resolution %lld must be a multiple of vision_patch_size %lld",
                      (long long)m->vision_config.side, (long long)m->vision_config.patch);
    if (m->cameras + m->blanks < 1 || m->cameras + m->blanks > SG_LIMIT_CAMERAS)
        sg_graph_fail(g, SG_BAD_INPUT, "cameras %lld and empty_cameras %lld must be 1 to %d together",
                      (long long)m->cameras, (long long)m->blanks, SG_LIMIT_CAMERAS);
}

static void check(sg_graph *g, const sg_pi *m, const sg_options *o) {
    const sg_vision_config *v = &m->vision_config;
    const sg_gemma_config *t = &m->text_config;
    int64_t tokens = sg_pi_prefix(m) + sg_pi_suffix(m);
    check_images(g, m, o);
    if (v->width % v->heads != 0)
        sg_graph_fail(g, SG_BAD_INPUT, "vision_hidden_size %lld must be a multiple of vision_num_attention_heads %lld",
                      (long long)v->width, (long long)v->heads);
    if (t->heads % t->kv_heads != 0)
        sg_graph_fail(g, SG_BAD_INPUT, "num_attention_heads %lld must be a multiple of num_key_value_heads %lld",
                      (long long)t->heads, (long long)t->kv_heads);
    if (t->head % 2 != 0 || m->expert_config.width % 2 != 0)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "head_dim %lld and the expert's width %lld must be even: sines and cosines share them",
                      (long long)t->head, (long long)m->expert_config.width);
    if (m->state > m->max_state || m->action > m->max_action)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "state_dim %lld and action_dim %lld must not exceed max_state_dim %lld and max_action_dim %lld",
                      (long long)m->state, (long long)m->action, (long long)m->max_state, (long long)m->max_action);
    if (tokens > SG_LIMIT_TOKENS)
        sg_graph_fail(g, SG_BAD_INPUT, "cameras, language and chunk_size make %lld tokens, more than %d",
                      (long long)tokens, SG_LIMIT_TOKENS);
}

/* ---- parameters ---- */

static sg_gemma_layer *layers_make(sg_graph *g, const sg_pi *m, const sg_gemma_config *config, bool frozen) {
    sg_layer_style style = {.dtype = m->dtype, .frozen = frozen}, norms = {.dtype = SG_F32, .frozen = frozen};
    sg_gemma_layer *layers = calloc((size_t)m->layers, sizeof *layers);
    if (!layers) sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %lld layers", (long long)m->layers);
    for (int64_t i = 0; layers && i < m->layers; i++)
        layers[i] = sg_gemma_make(g, sg_graph_text(g, "layers.%lld", (long long)i), config, style, norms);
    return layers;
}

static void vlm_make(sg_graph *g, sg_pi *m) {
    sg_layer_style vision = {.dtype = SG_F32, .frozen = m->freeze_vision};
    sg_layer_style wide = {.dtype = SG_F32, .frozen = m->freeze_language};
    sg_layer_style narrow = {.dtype = m->dtype, .frozen = m->freeze_language};
    sg_module_begin(g, SG_PI_TOWER);
    sg_vision_make(g, &m->vision, &m->vision_config, vision);
    sg_module_end(g);
    sg_module_begin(g, SG_PI_PROJECTOR);
    m->projector = sg_linear_make(g, "linear", m->vision_config.width, m->text_config.width, true, wide);
    sg_module_end(g);
    sg_module_begin(g, SG_PI_LANGUAGE);
    sg_module_begin(g, "embed_tokens");
    m->embedding = sg_param_normal(g, "weight", 2, (int64_t[]){m->vocabulary, m->text_config.width}, 0.02, narrow);
    sg_module_end(g);
    m->text = layers_make(g, m, &m->text_config, m->freeze_language);
    m->text_norm = sg_gemma_norm_make(g, "norm", m->text_config.width, 0, wide);
    sg_module_end(g);
    /* Neither model's head takes part in training, but both are parameters that count and lie in memory. */
    if (!m->tied) (void)sg_linear_make(g, "paligemma.lm_head", m->text_config.width, m->vocabulary, false, narrow);
}

static void expert_make(sg_graph *g, sg_pi *m) {
    sg_layer_style wide = {.dtype = SG_F32}, narrow = {.dtype = m->dtype};
    sg_module_begin(g, SG_PI_EXPERT);
    m->expert = layers_make(g, m, &m->expert_config, false);
    m->expert_norm = sg_gemma_norm_make(g, "norm", m->expert_config.width, m->expert_config.condition, wide);
    sg_module_end(g);
    (void)sg_linear_make(g, "gemma_expert.lm_head", m->expert_config.width, m->vocabulary, false, narrow);
}

static void parameters(sg_graph *g, sg_pi *m) {
    sg_layer_style style = {.dtype = SG_F32};
    int64_t width = m->expert_config.width;
    sg_module_begin(g, "model");
    sg_module_begin(g, "paligemma_with_expert");
    vlm_make(g, m);
    expert_make(g, m);
    sg_module_end(g);
    m->action_in_proj = sg_linear_make(g, "action_in_proj", m->max_action, width, true, style);
    m->action_out_proj = sg_linear_make(g, "action_out_proj", width, m->max_action, true, style);
    if (!m->adaptive) m->state_proj = sg_linear_make(g, "state_proj", m->max_state, width, true, style);
    m->time_in = sg_linear_make(g, m->adaptive ? "time_mlp_in" : "action_time_mlp_in", m->adaptive ? width : 2 * width,
                                width, true, style);
    m->time_out = sg_linear_make(g, m->adaptive ? "time_mlp_out" : "action_time_mlp_out", width, width, true, style);
    m->no_block = sg_buffer(g, "no_block", 2, (int64_t[]){1, sg_pi_prefix(m) + m->chunk}, 0.0);
    m->new_block = sg_buffer(g, "new_block", 2, (int64_t[]){1, 2}, 1.0);
    sg_module_end(g);
}

/* ---- batch ---- */

static sg_statistics statistics_make(sg_graph *g, const sg_pi *m, const char *feature, int64_t size) {
    if (!m->adaptive) return sg_statistics_make(g, feature, 1, &size);
    sg_statistics quantiles;
    sg_module_begin(g, "%s", feature);
    quantiles.mean = sg_buffer(g, "q01", 1, &size, 0.0);
    quantiles.deviation = sg_buffer(g, "q99", 1, &size, 1.0);
    sg_module_end(g);
    return quantiles;
}

static void inputs(sg_graph *g, sg_pi *m) {
    int64_t b = m->batch;
    for (int64_t i = 0; i < m->cameras; i++) m->frames[i] = sg_camera_input(g, i, b, m->height, m->width);
    sg_desc state = sg_desc_make(SG_F32, 2, (int64_t[]){b, m->state});
    sg_desc action = sg_desc_make(SG_F32, 3, (int64_t[]){b, m->chunk, m->action});
    sg_desc tokens = sg_desc_make(SG_I64, 2, (int64_t[]){b, m->language});
    m->raw_state = sg_input_tensor(g, "observation.state", SG_INPUT_UNIFORM, state, 0, 1);
    m->raw_action = sg_input_tensor(g, "action", SG_INPUT_UNIFORM, action, 0, 1);
    m->tokens = sg_input_tensor(g, "observation.language.tokens", SG_INPUT_INTEGER, tokens, 0, (double)m->vocabulary);
    tokens.dtype = SG_BOOL;
    m->tokens_valid = sg_input_tensor(g, "observation.language.attention_mask", SG_INPUT_INTEGER, tokens, 1, 2);
    m->state_in = sg_state_tensor(g, "state", state);
    m->action_in = sg_state_tensor(g, "action normalised", action);
    m->state_statistics = statistics_make(g, m, "normalize.state", m->state);
    m->action_statistics = statistics_make(g, m, "normalize.action", m->action);
    for (int64_t i = 0; i < m->cameras; i++) {
        sg_desc image = *sg_desc_of(g, m->frames[i]);
        image.dtype = SG_F32;
        m->image[i] = sg_state_tensor(g, sg_graph_text(g, "image %lld", (long long)i + 1), image);
    }
}

/* 2 (x - q01) / (q99 - q01) - 1; a span of 0 counts as eps (LeRobot's NormalizerProcessorStep, QUANTILES). */
static void normalise_quantiles(sg_graph *g, sg_tid x, sg_statistics quantiles, sg_tid out) {
    sg_tid span = sg_sub(g, quantiles.deviation, quantiles.mean);
    sg_tid none = sg_compare_scalar(g, SG_FN_EQ, span, 0.0);
    span = sg_where(g, none, sg_full(g, sg_float(g), 0, NULL, 1e-8), span);
    sg_tid scaled = sg_div(g, sg_scale(g, sg_sub(g, x, quantiles.mean), 2.0), span);
    sg_unary_into(g, SG_FN_AFFINE, scaled, 1.0, -1.0, out);
}

static void preprocess(sg_graph *g, void *policy) {
    sg_pi *m = policy;
    void (*normalise)(sg_graph *, sg_tid, sg_statistics, sg_tid) =
        m->adaptive ? normalise_quantiles : sg_normalise_vector;
    for (int64_t i = 0; i < m->cameras; i++) sg_scale_image(g, m->frames[i], m->image[i]);
    normalise(g, m->raw_state, m->state_statistics, m->state_in);
    normalise(g, m->raw_action, m->action_statistics, m->action_in);
    /* The state's bins are written into the prompt on the host. */
    if (m->adaptive) sg_wait(g, m->state_in);
}

/* ---- the training ---- */

static void emit(sg_graph *g, sg_pi *m, const sg_family_build *build) {
    sg_training *t = sg_graph_training(g);
    t->cameras = m->cameras;
    t->image_height = m->cameras ? m->height : 0;
    t->image_width = m->cameras ? m->width : 0;
    t->frames_per_sample = m->cameras > 0;
    parameters(g, m);
    if (!sg_graph_failed(g)) inputs(g, m);
    if (sg_graph_failed(g)) return;
    sg_supervised supervised = {.policy = m,
                                .preprocess = preprocess,
                                .forward = sg_pi_forward,
                                .optimizer = sg_supervised_optimizer(build->options, 0.95)};
    sg_supervised_build(g, &supervised, build->accumulation);
}

static void build_pi(sg_graph *g, const sg_family_build *build, bool adaptive) {
    sg_pi *m = calloc(1, sizeof *m);
    if (!m) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for the policy");
        return;
    }
    m->adaptive = adaptive;
    configure(m, build);
    check(g, m, build->options);
    if (!sg_graph_failed(g)) emit(g, m, build);
    sg_vision_free(&m->vision);
    free(m->text);
    free(m->expert);
    free(m);
}

void sg_pi0_build(sg_graph *g, const sg_family_build *build) {
    build_pi(g, build, false);
}

void sg_pi05_build(sg_graph *g, const sg_family_build *build) {
    build_pi(g, build, true);
}
