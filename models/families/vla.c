/* vla.c: what LeRobot's vision-language-action models share. Key names are LeRobot's. */
#include "models/families/vla.h"

#include "models/layers/into.h"

/* ---- configuration ---- */

sg_vla sg_vla_make(const sg_family_build *build, const sg_vla_keys *keys) {
    const sg_options *o = build->options;
    size_t n;
    sg_vla m = {.batch = build->batch,
                .cameras = sg_option_int(o, "cameras"),
                .height = sg_option_int(o, "image_height"),
                .width = sg_option_int(o, "image_width"),
                .state = sg_option_int(o, "state_dim"),
                .action = sg_option_int(o, "action_dim"),
                .chunk = sg_option_int(o, "chunk_size"),
                .max_state = sg_option_int(o, "max_state_dim"),
                .max_action = sg_option_int(o, "max_action_dim"),
                .language = sg_option_int(o, keys->language),
                .layers = sg_option_int(o, keys->layers),
                .vocabulary = sg_option_int(o, "vocab_size"),
                .min_period = sg_option_real(o, "min_period"),
                .max_period = sg_option_real(o, "max_period"),
                .freeze_language = sg_option_bool(o, "train_expert_only"),
                .dtype = build->own_bf16 ? SG_BF16 : SG_F32,
                .vision_config = {.side = sg_option_list(o, keys->resolution, &n)[0],
                                  .patch = sg_option_int(o, "vision_patch_size"),
                                  .width = sg_option_int(o, "vision_hidden_size"),
                                  .feedforward = sg_option_int(o, "vision_intermediate_size"),
                                  .heads = sg_option_int(o, "vision_num_attention_heads"),
                                  .layers = sg_option_int(o, "vision_num_hidden_layers")}};
    m.freeze_vision = m.freeze_language || sg_option_bool(o, "freeze_vision_encoder");
    return m;
}

static void check_heads(sg_graph *g, const sg_vla *m, const sg_vla_keys *keys) {
    const sg_vision_config *v = &m->vision_config;
    const sg_decoder_config *t = &m->text_config;
    if (v->width % v->heads != 0)
        sg_graph_fail(g, SG_BAD_INPUT, "vision_hidden_size %lld must be a multiple of vision_num_attention_heads %lld",
                      (long long)v->width, (long long)v->heads);
    if (t->heads % t->kv_heads != 0)
        sg_graph_fail(g, SG_BAD_INPUT, "%s %lld must be a multiple of %s %lld", keys->heads, (long long)t->heads,
                      keys->kv_heads, (long long)t->kv_heads);
    if (t->head % 2 != 0 || m->expert_config.width % 2 != 0)
        sg_graph_fail(
            g, SG_BAD_INPUT,
            "%s %lld and the expert's width %lld (%s) must be even and positive: sines and cosines share them",
            keys->head, (long long)t->head, (long long)m->expert_config.width, keys->expert_width);
}

void sg_vla_check(sg_graph *g, const sg_vla *m, const sg_vla_keys *keys, const sg_options *o, int64_t tokens) {
    size_t n;
    const int64_t *size = sg_option_list(o, keys->resolution, &n);
    if (n != 2 || size[0] != size[1])
        sg_graph_fail(g, SG_BAD_INPUT, "%s (%s) must be two equal numbers, such as 224,224", keys->resolution,
                      sg_option_origin(o, keys->resolution));
    check_heads(g, m, keys);
    if (m->state > m->max_state || m->action > m->max_action)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "state_dim %lld and action_dim %lld must not exceed max_state_dim %lld and max_action_dim %lld",
                      (long long)m->state, (long long)m->action, (long long)m->max_state, (long long)m->max_action);
    if (tokens > SG_LIMIT_TOKENS)
        sg_graph_fail(g, SG_BAD_INPUT, "cameras, language and chunk_size make %lld tokens, more than %d",
                      (long long)tokens, SG_LIMIT_TOKENS);
}

/* ---- batch ---- */

static sg_statistics statistics_make(sg_graph *g, const sg_vla *m, const char *feature, int64_t size) {
    if (!m->quantiles) return sg_statistics_make(g, feature, 1, &size);
    sg_statistics quantiles;
    sg_module_begin(g, "%s", feature);
    quantiles.mean = sg_buffer(g, "q01", 1, &size, 0.0);
    quantiles.deviation = sg_buffer(g, "q99", 1, &size, 1.0);
    sg_module_end(g);
    return quantiles;
}

static void inputs(sg_graph *g, sg_vla *m) {
    int64_t b = m->batch;
    for (int64_t i = 0; i < m->cameras; i++) m->frames[i] = sg_camera_input(g, i, b, m->height, m->width);
    sg_desc state = sg_desc_make(SG_F32, 2, (int64_t[]){b, m->state});
    sg_desc action = sg_desc_make(SG_F32, 3, (int64_t[]){b, m->chunk, m->action});
    sg_desc tokens = sg_desc_make(SG_I64, 2, (int64_t[]){b, m->language});
    sg_desc padding = sg_desc_make(SG_BOOL, 2, (int64_t[]){b, m->chunk});
    m->raw_state = sg_input_tensor(g, "observation.state", SG_INPUT_UNIFORM, state, 0, 1);
    m->raw_action = sg_input_tensor(g, "action", SG_INPUT_UNIFORM, action, 0, 1);
    if (m->padded) m->padding = sg_input_tensor(g, "action_is_pad", SG_INPUT_INTEGER, padding, 0, 1);
    m->tokens = sg_input_tensor(g, "observation.language.tokens", SG_INPUT_INTEGER, tokens, 0, (double)m->vocabulary);
    tokens.dtype = SG_BOOL;
    m->tokens_valid = sg_input_tensor(g, "observation.language.attention_mask", SG_INPUT_INTEGER, tokens, 1, 2);
    m->state_in = sg_state_tensor(g, "state", state);
    m->action_in = sg_state_tensor(g, "action normalised", action);
    m->state_statistics = statistics_make(g, m, "normalize.state", m->state);
    m->action_statistics = statistics_make(g, m, "normalize.action", m->action);
    for (int64_t i = 0; i < m->cameras; i++) m->image[i] = sg_camera_image(g, i, m->frames[i]);
}

/* 2 (x - q01) / (q99 - q01) - 1; a span of 0 counts as eps (LeRobot's NormalizerProcessorStep, QUANTILES). */
static void normalise_quantiles(sg_graph *g, sg_tid x, sg_statistics quantiles, sg_tid out) {
    sg_tid span = sg_sub(g, quantiles.deviation, quantiles.mean);
    sg_tid none = sg_compare_scalar(g, SG_FN_EQ, span, 0.0);
    span = sg_where(g, none, sg_full(g, sg_float(g), 0, NULL, 1e-8), span);
    sg_tid scaled = sg_div(g, sg_scale(g, sg_sub(g, x, quantiles.mean), 2.0), span);
    sg_unary_into(g, SG_FN_AFFINE, scaled, 1.0, -1.0, out);
}

void sg_vla_preprocess(sg_graph *g, const sg_vla *m) {
    void (*normalise)(sg_graph *, sg_tid, sg_statistics, sg_tid) =
        m->quantiles ? normalise_quantiles : sg_normalise_vector;
    for (int64_t i = 0; i < m->cameras; i++) sg_scale_image(g, m->frames[i], m->image[i]);
    normalise(g, m->raw_state, m->state_statistics, m->state_in);
    normalise(g, m->raw_action, m->action_statistics, m->action_in);
}

/* ---- the training ---- */

void sg_vla_build(sg_graph *g, sg_vla *m, const sg_family_build *build, sg_supervised supervised) {
    if (sg_graph_failed(g)) return;
    sg_supervised_cameras(g, m->cameras, m->height, m->width, 1);
    inputs(g, m);
    if (sg_graph_failed(g)) return;
    supervised.optimizer = sg_supervised_optimizer(build->options, 0.95);
    sg_supervised_build(g, &supervised, build->accumulation);
}
