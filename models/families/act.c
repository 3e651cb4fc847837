/* act.c: ACT (action chunking with transformers) as LeRobot trains it: a ResNet over each camera, a variational encoder
 * over the action chunk, a transformer encoder and decoder, L1 and KL loss. Key names and defaults are LeRobot's. */
#include "models/families/act.h"

#include <math.h>
#include <stdlib.h>

/* ---- configuration ---- */

static void configure(sg_act *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    m->batch = build->batch;
    m->cameras = sg_option_int(o, "cameras");
    m->height = sg_option_int(o, "image_height");
    m->width = sg_option_int(o, "image_width");
    m->state = sg_option_int(o, "state_dim");
    m->action = sg_option_int(o, "action_dim");
    m->chunk = sg_option_int(o, "chunk_size");
    m->latent = sg_option_int(o, "latent_dim");
    m->encoder_layers = sg_option_int(o, "n_encoder_layers");
    m->decoder_layers = sg_option_int(o, "n_decoder_layers");
    m->vae_layers = sg_option_int(o, "n_vae_encoder_layers");
    m->use_vae = sg_option_bool(o, "use_vae");
    m->checkpoint = sg_option_bool(o, "gradient_checkpointing");
    m->kl_weight = sg_option_real(o, "kl_weight");
    bool gelu = sg_option_text(o, "feedforward_activation")[0] == 'g';
    m->transformer = (sg_detr_config){.width = sg_option_int(o, "dim_model"),
                                      .heads = sg_option_int(o, "n_heads"),
                                      .feedforward = sg_option_int(o, "dim_feedforward"),
                                      .dropout = sg_option_real(o, "dropout"),
                                      .activation = gelu ? SG_FN_GELU_ERF : SG_FN_RELU,
                                      .pre_norm = sg_option_bool(o, "pre_norm")};
}

static int64_t encoder_tokens(const sg_act *m) {
    return 1 + (m->state > 0) + m->cameras * sg_act_map_tokens(m);
}

static void check(sg_graph *g, const sg_act *m) {
    int64_t width = m->transformer.width, heads = m->transformer.heads;
    if (width % heads != 0 || width % 4 != 0)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "dim_model %lld must be a multiple of 4 and of n_heads %lld: each head gets an equal part",
                      (long long)width, (long long)heads);
    if (m->cameras == 0 && m->state == 0)
        sg_graph_fail(g, SG_BAD_INPUT, "act needs an observation: cameras and state_dim are both 0");
    if (encoder_tokens(m) > SG_LIMIT_TOKENS)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "%lld cameras of %lldx%lld pixels make %lld encoder tokens, more than %d: use smaller images",
                      (long long)m->cameras, (long long)m->height, (long long)m->width, (long long)encoder_tokens(m),
                      SG_LIMIT_TOKENS);
}

/* ---- parameters ---- */

static sg_detr_layer *layers_make(sg_graph *g, const sg_act *m, const char *name, int64_t count, bool cross) {
    sg_layer_style style = {.dtype = SG_F32, .xavier = true};
    sg_detr_layer *layers = sg_layers_alloc(g, count, sizeof *layers);
    sg_module_begin(g, "%s", name);
    for (int64_t i = 0; layers && i < count; i++)
        layers[i] = sg_detr_layer_make(g, sg_graph_text(g, "layers.%lld", (long long)i), &m->transformer, cross, style);
    sg_module_end(g);
    return layers;
}

static sg_norm_layer norm_make(sg_graph *g, const sg_act *m, const char *name) {
    sg_module_begin(g, "%s", name);
    sg_norm_layer norm = sg_layer_norm_make(g, "norm", m->transformer.width, 1e-5, (sg_layer_style){.dtype = SG_F32});
    sg_module_end(g);
    return norm;
}

static sg_tid embedding(sg_graph *g, const char *name, int64_t rows, int64_t width) {
    sg_module_begin(g, "%s", name);
    sg_tid weight = sg_param_normal(g, "weight", 2, (int64_t[]){rows, width}, 1.0, (sg_layer_style){.dtype = SG_F32});
    sg_module_end(g);
    return weight;
}

static void vae_make(sg_graph *g, sg_act *m) {
    sg_layer_style style = {.dtype = SG_F32};
    int64_t width = m->transformer.width, tokens = 1 + (m->state > 0) + m->chunk;
    m->vae = layers_make(g, m, "vae_encoder", m->vae_layers, false);
    if (m->transformer.pre_norm) m->vae_norm = norm_make(g, m, "vae_encoder");
    m->vae_class = embedding(g, "vae_encoder_cls_embed", 1, width);
    if (m->state) m->vae_state = sg_linear_make(g, "vae_encoder_robot_state_input_proj", m->state, width, true, style);
    m->vae_action = sg_linear_make(g, "vae_encoder_action_input_proj", m->action, width, true, style);
    m->vae_latent = sg_linear_make(g, "vae_encoder_latent_output_proj", width, 2 * m->latent, true, style);
    m->vae_position = sg_param(g, "vae_encoder_pos_enc", 3, (int64_t[]){1, tokens, width},
                               (sg_param_spec){.dtype = SG_F32,
                                               .frozen = true,
                                               .buffer = true,
                                               .init = SG_INIT_UNIFORM, /* the range of the sinusoids it stands for */
                                               .scale = 1.0});
}

static void backbone_make(sg_graph *g, sg_act *m, const sg_options *o) {
    static const int resnet18[] = {2, 2, 2, 2}, resnet34[] = {3, 4, 6, 3};
    sg_layer_style style = {.dtype = SG_F32};
    bool deep = sg_option_text(o, "vision_backbone")[6] == '3';
    sg_resnet_make(g, &m->backbone, "backbone", sg_option_int(o, "backbone_width"), deep ? resnet34 : resnet18,
                   SG_RESNET_NORM_FROZEN, style);
}

static void projection_make(sg_graph *g, sg_act *m) {
    int64_t width = m->transformer.width, in = 8 * m->backbone.width;
    sg_module_begin(g, "encoder_img_feat_input_proj");
    sg_param_spec spec = {.dtype = SG_F32,
                          .channels_last = sg_graph_profile(g)->channels_last,
                          .init = SG_INIT_UNIFORM,
                          .scale = 1.0 / sqrt((double)in)};
    m->projection_weight = sg_param(g, "weight", 4, (int64_t[]){width, in, 1, 1}, spec);
    m->projection_bias = sg_param(g, "bias", 1, &width, spec);
    sg_module_end(g);
}

static void parameters(sg_graph *g, sg_act *m, const sg_options *o) {
    sg_layer_style style = {.dtype = SG_F32};
    int64_t width = m->transformer.width;
    if (m->use_vae) vae_make(g, m);
    if (m->cameras) backbone_make(g, m, o);
    m->encoder = layers_make(g, m, "encoder", m->encoder_layers, false);
    if (m->transformer.pre_norm) m->encoder_norm = norm_make(g, m, "encoder");
    m->decoder = layers_make(g, m, "decoder", m->decoder_layers, true);
    m->decoder_norm = norm_make(g, m, "decoder");
    if (m->state) m->encoder_state = sg_linear_make(g, "encoder_robot_state_input_proj", m->state, width, true, style);
    m->latent_in = sg_linear_make(g, "encoder_latent_input_proj", m->latent, width, true, style);
    if (m->cameras) projection_make(g, m);
    m->encoder_position = embedding(g, "encoder_1d_feature_pos_embed", 1 + (m->state > 0), width);
    m->decoder_position = embedding(g, "decoder_pos_embed", m->chunk, width);
    m->head = sg_linear_make(g, "action_head", width, m->action, true, style);
}

/* ---- batch ---- */

static void inputs(sg_graph *g, sg_act *m) {
    int64_t b = m->batch;
    for (int64_t i = 0; i < m->cameras; i++) m->frames[i] = sg_camera_input(g, i, b, m->height, m->width);
    if (m->state) {
        sg_desc state = sg_desc_make(SG_F32, 2, (int64_t[]){b, m->state});
        m->raw_state = sg_input_tensor(g, "observation.state", SG_INPUT_UNIFORM, state, 0, 1);
        m->state_in = sg_state_tensor(g, "state", state);
        m->state_statistics = sg_statistics_make(g, "normalize.state", 1, &m->state);
    }
    sg_desc action = sg_desc_make(SG_F32, 3, (int64_t[]){b, m->chunk, m->action});
    m->raw_action = sg_input_tensor(g, "action", SG_INPUT_UNIFORM, action, 0, 1);
    m->action_in = sg_state_tensor(g, "action normalised", action);
    m->action_statistics = sg_statistics_make(g, "normalize.action", 1, &m->action);
    sg_desc padding = sg_desc_make(SG_BOOL, 2, (int64_t[]){b, m->chunk});
    m->padding = sg_input_tensor(g, "action_is_pad", SG_INPUT_INTEGER, padding, 0, 1);
}

/* Native keeps all cameras of a sample together, so that one pass of the backbone takes them all and its tokens lie in
 * the order in which the encoder reads them. */
static void image_tensors(sg_graph *g, sg_act *m) {
    int64_t b = m->batch, c = m->cameras, h = m->height, w = m->width;
    static const int64_t per_channel[] = {3, 1, 1};
    bool together = sg_batch_first(g);
    if (together && c) {
        m->images = sg_state_tensor(g, "images", sg_desc_channels_last(SG_F32, b * c, 3, h, w));
    }
    for (int64_t i = 0; i < c; i++) {
        if (!together) m->image[i] = sg_camera_image(g, i, m->frames[i]);
        const char *feature = sg_graph_text(g, "normalize.camera%lld", (long long)i + 1);
        m->image_statistics[i] = sg_statistics_make(g, feature, 3, per_channel);
    }
}

static void preprocess(sg_graph *g, void *policy) {
    sg_act *m = policy;
    for (int64_t i = 0; i < m->cameras; i++) {
        sg_tid out = m->image[i];
        if (sg_batch_first(g)) {
            out = sg_view(g, m->images, 5, (int64_t[]){m->batch, m->cameras, 3, m->height, m->width});
            out = sg_select(g, out, 1, i);
        }
        sg_normalise_image(g, m->frames[i], m->image_statistics[i], out);
    }
    if (m->state) sg_normalise_vector(g, m->raw_state, m->state_statistics, m->state_in);
    sg_normalise_vector(g, m->raw_action, m->action_statistics, m->action_in);
}

/* ---- the training ---- */

static void emit(sg_graph *g, sg_act *m, const sg_family_build *build) {
    sg_supervised_cameras(g, m->cameras, m->height, m->width, 1);
    inputs(g, m);
    image_tensors(g, m);
    sg_module_begin(g, "model");
    parameters(g, m, build->options);
    sg_module_end(g);
    if (sg_graph_failed(g)) return;
    sg_supervised supervised = {.policy = m,
                                .preprocess = preprocess,
                                .forward = sg_act_forward,
                                .optimizer = sg_supervised_optimizer(build->options, 0.999)};
    supervised.optimizer.group_prefix[0] = "model.backbone"; /* with a learning rate of its own */
    sg_supervised_build(g, &supervised, build->accumulation);
}

void sg_act_build(sg_graph *g, const sg_family_build *build) {
    sg_act m = {0};
    configure(&m, build);
    check(g, &m);
    if (!sg_graph_failed(g)) emit(g, &m, build);
    free(m.vae);
    free(m.encoder);
    free(m.decoder);
}
