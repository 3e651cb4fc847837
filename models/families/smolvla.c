/* smolvla.c: SmolVLA as LeRobot trains it: a SigLIP vision tower, the first layers of a small language model, and
 * an action expert beside them, trained by flow matching. Key names and defaults are LeRobot's. */
#include "models/families/smolvla.h"

#include <stdlib.h>

int64_t sg_smolvla_image_tokens(const sg_smolvla *m) {
    int64_t per_side = m->vision_config.side / m->vision_config.patch / m->scale;
    return per_side * per_side;
}

int64_t sg_smolvla_prefix(const sg_smolvla *m) {
    return m->cameras * sg_smolvla_image_tokens(m) + m->language + 1;
}

bool sg_smolvla_is_joint(const sg_smolvla *m, int64_t index) {
    return m->self_every > 0 && index % m->self_every == 0;
}

/* ---- configuration ---- */

/* Width of the expert's feed-forward layers: 4 x 2/3 of its own, rounded up to a multiple of 256. */
static int64_t expert_feedforward(int64_t width) {
    return (4 * (2 * width / 3) + 255) / 256 * 256;
}

static void configure_sizes(sg_smolvla *m, const sg_options *o) {
    size_t n;
    int64_t text_width = sg_option_int(o, "text_hidden_size");
    m->vision_config = (sg_vision_config){.side = sg_option_list(o, "resize_imgs_with_padding", &n)[0],
                                          .patch = sg_option_int(o, "vision_patch_size"),
                                          .width = sg_option_int(o, "vision_hidden_size"),
                                          .feedforward = sg_option_int(o, "vision_intermediate_size"),
                                          .heads = sg_option_int(o, "vision_num_attention_heads"),
                                          .layers = sg_option_int(o, "vision_num_hidden_layers")};
    m->text_config = (sg_decoder_config){.width = text_width,
                                         .feedforward = sg_option_int(o, "text_intermediate_size"),
                                         .heads = sg_option_int(o, "text_num_attention_heads"),
                                         .kv_heads = sg_option_int(o, "text_num_key_value_heads"),
                                         .head = sg_option_int(o, "text_head_dim"),
                                         .kv_width = text_width};
    m->expert_config = m->text_config;
    m->expert_config.width = (int64_t)((double)text_width * sg_option_real(o, "expert_width_multiplier"));
    m->expert_config.feedforward = expert_feedforward(m->expert_config.width);
}

static void configure(sg_smolvla *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    m->batch = build->batch;
    m->cameras = sg_option_int(o, "cameras");
    m->height = sg_option_int(o, "image_height");
    m->width = sg_option_int(o, "image_width");
    m->state = sg_option_int(o, "state_dim");
    m->action = sg_option_int(o, "action_dim");
    m->chunk = sg_option_int(o, "chunk_size");
    m->max_state = sg_option_int(o, "max_state_dim");
    m->max_action = sg_option_int(o, "max_action_dim");
    m->language = sg_option_int(o, "language_tokens");
    m->layers = sg_option_int(o, "num_vlm_layers");
    bool all_joint = sg_option_text(o, "attention_mode")[0] == 's';
    m->self_every = all_joint ? 1 : sg_option_int(o, "self_attn_every_n_layers");
    m->vocabulary = sg_option_int(o, "vocab_size");
    m->scale = sg_option_int(o, "scale_factor");
    m->min_period = sg_option_real(o, "min_period");
    m->max_period = sg_option_real(o, "max_period");
    m->train_state = sg_option_bool(o, "train_state_proj");
    m->freeze_language = sg_option_bool(o, "train_expert_only");
    m->freeze_vision = m->freeze_language || sg_option_bool(o, "freeze_vision_encoder");
    m->dtype = build->own_bf16 ? SG_BF16 : SG_F32;
    configure_sizes(m, o);
}

static void check_images(sg_graph *g, const sg_smolvla *m, const sg_options *o) {
    size_t n;
    const int64_t *size = sg_option_list(o, "resize_imgs_with_padding", &n);
    int64_t side = m->vision_config.side, unit = m->vision_config.patch * m->scale;
    if (n != 2 || size[0] != size[1])
        sg_graph_fail(g, SG_BAD_INPUT, "resize_imgs_with_padding (%s) must be two equal numbers, such as 512,512",
                      sg_option_origin(o, "resize_imgs_with_padding"));
    if (side % unit != 0)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "resize_imgs_with_padding %lld must be a multiple of vision_patch_size x scale_factor = %lld",
                      (long long)side, (long long)unit);
}

static void check(sg_graph *g, const sg_smolvla *m, const sg_options *o) {
    const sg_vision_config *v = &m->vision_config;
    const sg_decoder_config *t = &m->text_config;
    int64_t experts = sg_option_int(o, "num_expert_layers");
    check_images(g, m, o);
    if (v->width % v->heads != 0)
        sg_graph_fail(g, SG_BAD_INPUT, "vision_hidden_size %lld must be a multiple of vision_num_attention_heads %lld",
                      (long long)v->width, (long long)v->heads);
    if (t->heads % t->kv_heads != 0)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "text_num_attention_heads %lld must be a multiple of text_num_key_value_heads %lld",
                      (long long)t->heads, (long long)t->kv_heads);
    if (t->head % 2 != 0 || m->expert_config.width % 2 != 0)
        sg_graph_fail(
            g, SG_BAD_INPUT,
            "text_head_dim %lld and the expert's width %lld (text_hidden_size x expert_width_multiplier) must be "
            "even and positive: sines and cosines share them",
            (long long)t->head, (long long)m->expert_config.width);
    if (m->expert_config.width < 2)
        sg_graph_fail(g, SG_BAD_INPUT, "expert_width_multiplier leaves the expert no width");
    if (experts > 0 && experts != m->layers)
        sg_graph_fail(g, SG_BAD_INPUT, "num_expert_layers %lld (%s) must be 0 or num_vlm_layers %lld",
                      (long long)experts, sg_option_origin(o, "num_expert_layers"), (long long)m->layers);
    if (m->state > m->max_state || m->action > m->max_action)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "state_dim %lld and action_dim %lld must not exceed max_state_dim %lld and max_action_dim %lld",
                      (long long)m->state, (long long)m->action, (long long)m->max_state, (long long)m->max_action);
    int64_t tokens = sg_smolvla_prefix(m) + m->chunk, most = sg_option_int(o, "tokenizer_max_length");
    if (m->language > most)
        sg_graph_fail(g, SG_BAD_INPUT, "language_tokens %lld (%s) exceeds tokenizer_max_length %lld",
                      (long long)m->language, sg_option_origin(o, "language_tokens"), (long long)most);
    if (tokens > SG_LIMIT_TOKENS)
        sg_graph_fail(g, SG_BAD_INPUT, "cameras, language and chunk_size make %lld tokens, more than %d",
                      (long long)tokens, SG_LIMIT_TOKENS);
}

/* ---- parameters ---- */

static sg_decoder_layer *layers_alloc(sg_graph *g, int64_t count) {
    sg_decoder_layer *layers = calloc((size_t)count, sizeof *layers);
    if (!layers) sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %lld layers", (long long)count);
    return layers;
}

static void text_make(sg_graph *g, sg_smolvla *m) {
    sg_layer_style style = {.dtype = m->dtype, .frozen = m->freeze_language};
    m->text = layers_alloc(g, m->layers);
    sg_module_begin(g, SG_TEXT_MODEL);
    sg_module_begin(g, "embed_tokens");
    m->embedding = sg_param_normal(g, "weight", 2, (int64_t[]){m->vocabulary, m->text_config.width}, 0.02, style);
    sg_module_end(g);
    for (int64_t i = 0; m->text && i < m->layers; i++) {
        /* The last layer's own output is not used: LeRobot freezes it, so that no parameter stays without a
         * gradient. */
        style.frozen = m->freeze_language || i == m->layers - 1;
        m->text[i] = sg_decoder_make(g, sg_graph_text(g, "layers.%lld", (long long)i), &m->text_config, style);
    }
    style.frozen = true;
    m->text_norm = sg_rms_norm_make(g, "norm", m->text_config.width, 1e-5, style);
    sg_module_end(g);
}

static void vlm_make(sg_graph *g, sg_smolvla *m) {
    sg_layer_style vision = {.dtype = m->dtype, .frozen = m->freeze_vision};
    sg_layer_style connector = {.dtype = m->dtype, .frozen = m->freeze_language};
    sg_layer_style frozen = {.dtype = m->dtype, .frozen = true};
    sg_module_begin(g, SG_VISION_MODEL);
    sg_vision_make(g, &m->vision, &m->vision_config, vision);
    sg_module_end(g);
    sg_module_begin(g, SG_CONNECTOR);
    int64_t joined = m->vision_config.width * m->scale * m->scale;
    m->connector = sg_linear_make(g, "modality_projection.proj", joined, m->text_config.width, false, connector);
    sg_module_end(g);
    text_make(g, m);
    m->lm_head = sg_linear_make(g, "vlm.lm_head", m->text_config.width, m->vocabulary, false, frozen);
}

static void expert_make(sg_graph *g, sg_smolvla *m) {
    sg_layer_style style = {.dtype = m->dtype};
    m->expert = layers_alloc(g, m->layers);
    sg_module_begin(g, SG_EXPERT_MODEL);
    for (int64_t i = 0; m->expert && i < m->layers; i++) {
        sg_decoder_config config = m->expert_config;
        config.kv_width = sg_smolvla_is_joint(m, i) ? config.width : config.kv_heads * config.head;
        m->expert[i] = sg_decoder_make(g, sg_graph_text(g, "layers.%lld", (long long)i), &config, style);
    }
    m->expert_norm = sg_rms_norm_make(g, "norm", m->expert_config.width, 1e-5, style);
    sg_module_end(g);
}

static void parameters(sg_graph *g, sg_smolvla *m) {
    sg_layer_style style = {.dtype = SG_F32}, state = {.dtype = SG_F32, .frozen = !m->train_state};
    int64_t width = m->expert_config.width, prefix = sg_smolvla_prefix(m);
    sg_module_begin(g, "model");
    sg_module_begin(g, "vlm_with_expert");
    vlm_make(g, m);
    expert_make(g, m);
    sg_module_end(g);
    m->state_proj = sg_linear_make(g, "state_proj", m->max_state, m->text_config.width, true, state);
    m->action_in_proj = sg_linear_make(g, "action_in_proj", m->max_action, width, true, style);
    m->action_out_proj = sg_linear_make(g, "action_out_proj", width, m->max_action, true, style);
    m->time_in = sg_linear_make(g, "action_time_mlp_in", 2 * width, width, true, style);
    m->time_out = sg_linear_make(g, "action_time_mlp_out", width, width, true, style);
    m->no_block = sg_buffer(g, "no_block", 2, (int64_t[]){1, prefix - 1}, 0.0);
    m->new_block = sg_buffer(g, "new_block", 2, (int64_t[]){1, 1 + m->chunk}, 1.0);
    sg_module_end(g);
}

/* ---- batch ---- */

static void inputs(sg_graph *g, sg_smolvla *m) {
    int64_t b = m->batch;
    for (int64_t i = 0; i < m->cameras; i++) m->frames[i] = sg_camera_input(g, i, b, m->height, m->width);
    sg_desc state = sg_desc_make(SG_F32, 2, (int64_t[]){b, m->state});
    sg_desc action = sg_desc_make(SG_F32, 3, (int64_t[]){b, m->chunk, m->action});
    sg_desc tokens = sg_desc_make(SG_I64, 2, (int64_t[]){b, m->language});
    sg_desc padding = sg_desc_make(SG_BOOL, 2, (int64_t[]){b, m->chunk});
    m->raw_state = sg_input_tensor(g, "observation.state", SG_INPUT_UNIFORM, state, 0, 1);
    m->raw_action = sg_input_tensor(g, "action", SG_INPUT_UNIFORM, action, 0, 1);
    m->padding = sg_input_tensor(g, "action_is_pad", SG_INPUT_INTEGER, padding, 0, 1);
    m->tokens = sg_input_tensor(g, "observation.language.tokens", SG_INPUT_INTEGER, tokens, 0, (double)m->vocabulary);
    tokens.dtype = SG_BOOL;
    m->tokens_valid = sg_input_tensor(g, "observation.language.attention_mask", SG_INPUT_INTEGER, tokens, 1, 2);
    m->state_in = sg_state_tensor(g, "state", state);
    m->action_in = sg_state_tensor(g, "action normalised", action);
    m->state_statistics = sg_statistics_make(g, "normalize.state", 1, &m->state);
    m->action_statistics = sg_statistics_make(g, "normalize.action", 1, &m->action);
    for (int64_t i = 0; i < m->cameras; i++) {
        sg_desc image = *sg_desc_of(g, m->frames[i]);
        image.dtype = SG_F32;
        m->image[i] = sg_state_tensor(g, sg_graph_text(g, "image %lld", (long long)i + 1), image);
    }
}

static void preprocess(sg_graph *g, void *policy) {
    sg_smolvla *m = policy;
    for (int64_t i = 0; i < m->cameras; i++) sg_scale_image(g, m->frames[i], m->image[i]);
    sg_normalise_vector(g, m->raw_state, m->state_statistics, m->state_in);
    sg_normalise_vector(g, m->raw_action, m->action_statistics, m->action_in);
}

/* ---- the training ---- */

static void emit(sg_graph *g, sg_smolvla *m, const sg_family_build *build) {
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
                                .forward = sg_smolvla_forward,
                                .optimizer = sg_supervised_optimizer(build->options, 0.95)};
    sg_supervised_build(g, &supervised, build->accumulation);
}

void sg_smolvla_build(sg_graph *g, const sg_family_build *build) {
    sg_smolvla *m = calloc(1, sizeof *m);
    if (!m) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate %zu bytes of host memory for smolvla", sizeof *m);
        return;
    }
    configure(m, build);
    check(g, m, build->options);
    if (!sg_graph_failed(g)) emit(g, m, build);
    sg_vision_free(&m->vision);
    free(m->text);
    free(m->expert);
    free(m);
}
