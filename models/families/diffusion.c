/* diffusion.c: the diffusion policy as LeRobot trains it: a ResNet with spatial softmax over the frames of every camera, and
 * a U-Net over the sequence of actions, conditioned on those features, that predicts the noise which was added to them. Key
 * names and defaults are LeRobot's. */
#include "models/families/diffusion.h"

#include <stdlib.h>

/* ---- configuration ---- */

static void configure_unet(sg_diffusion *m, const sg_options *o) {
    size_t stages;
    const int64_t *width = sg_option_list(o, "down_dims", &stages);
    int64_t frame_features = 2 * sg_option_int(o, "spatial_softmax_num_keypoints") * m->cameras;
    m->unet_config = (sg_unet1d_config){.in = m->action,
                                        .stages = stages <= SG_UNET_MAX_STAGES ? (int)stages : 0,
                                        .kernel = sg_option_int(o, "kernel_size"),
                                        .groups = sg_option_int(o, "n_groups"),
                                        .step_width = sg_option_int(o, "diffusion_step_embed_dim"),
                                        .condition = m->observations * (m->state + frame_features),
                                        .scales = sg_option_bool(o, "use_film_scale_modulation")};
    for (int i = 0; i < m->unet_config.stages; i++) m->unet_config.width[i] = width[i];
}

/* "h,w", or 0: not done. False: neither. */
static bool configure_size(const sg_options *o, const char *key, int64_t size[2]) {
    size_t count;
    const int64_t *given = sg_option_list(o, key, &count);
    size[0] = size[1] = 0;
    if (count == 1 && given[0] == 0) return true;
    if (count != 2 || given[0] < 1 || given[1] < 1) return false;
    size[0] = given[0];
    size[1] = given[1];
    return true;
}

static void configure(sg_graph *g, sg_diffusion *m, const sg_family_build *build) {
    const sg_options *o = build->options;
    m->batch = build->batch;
    m->cameras = sg_option_int(o, "cameras");
    m->height = sg_option_int(o, "image_height");
    m->width = sg_option_int(o, "image_width");
    m->state = sg_option_int(o, "state_dim");
    m->action = sg_option_int(o, "action_dim");
    m->observations = sg_option_int(o, "n_obs_steps");
    m->horizon = sg_option_int(o, "horizon");
    m->steps = sg_option_int(o, "num_train_timesteps");
    m->separate = sg_option_bool(o, "use_separate_rgb_encoder_per_camera");
    m->masks = sg_option_bool(o, "do_mask_loss_for_padding");
    m->predicts_noise = sg_option_text(o, "prediction_type")[0] == 'e';
    static const char *const sizes[] = {"resize_shape", "crop_shape"};
    int64_t *const size[] = {m->resized, m->cropped};
    for (int i = 0; i < 2; i++)
        if (!configure_size(o, sizes[i], size[i]))
            sg_graph_fail(g, SG_BAD_INPUT, "%s (%s) must be height,width in pixels, or 0 for none", sizes[i],
                          sg_option_origin(o, sizes[i]));
    configure_unet(m, o);
}

/* Height (0) or width (1) of the images that the backbone gets. */
static int64_t image_side(const sg_diffusion *m, int side) {
    if (m->cropped[side]) return m->cropped[side];
    if (m->resized[side]) return m->resized[side];
    return side == 0 ? m->height : m->width;
}

static void check_sequence(sg_graph *g, const sg_diffusion *m, const sg_options *o) {
    const sg_unet1d_config *c = &m->unet_config;
    if (c->stages == 0) {
        sg_graph_fail(g, SG_BAD_INPUT, "down_dims (%s) has more than %d stages", sg_option_origin(o, "down_dims"),
                      SG_UNET_MAX_STAGES);
        return;
    }
    if (m->horizon % (1 << c->stages) != 0)
        sg_graph_fail(g, SG_BAD_INPUT,
                      "horizon %lld must be a multiple of %d, which is 2 for each of the %d stages of down_dims",
                      (long long)m->horizon, 1 << c->stages, c->stages);
    for (int i = 0; i < c->stages; i++)
        if (c->width[i] % c->groups != 0)
            sg_graph_fail(g, SG_BAD_INPUT, "down_dims: %lld channels are no multiple of n_groups %lld",
                          (long long)c->width[i], (long long)c->groups);
    if (c->kernel % 2 == 0)
        sg_graph_fail(g, SG_BAD_INPUT, "kernel_size %lld must be odd: the sequence keeps its length",
                      (long long)c->kernel);
    if (c->step_width % 2 != 0)
        sg_graph_fail(g, SG_BAD_INPUT, "diffusion_step_embed_dim %lld must be even: sines and cosines",
                      (long long)c->step_width);
}

static void check_images(sg_graph *g, const sg_diffusion *m) {
    for (int side = 0; side < 2; side++) {
        int64_t there = m->resized[side] ? m->resized[side] : side == 0 ? m->height : m->width;
        if (m->cropped[side] > there)
            sg_graph_fail(g, SG_BAD_INPUT, "crop_shape: a %s of %lld pixels does not fit into frames of %lld",
                          side == 0 ? "height" : "width", (long long)m->cropped[side], (long long)there);
    }
}

/* ---- parameters ---- */

static void encoder_make(sg_graph *g, sg_diffusion *m, int64_t index, const sg_options *o) {
    static const int resnet18[] = {2, 2, 2, 2}, resnet34[] = {3, 4, 6, 3};
    sg_layer_style style = {.dtype = SG_F32};
    sg_frame_encoder *encoder = &m->encoder[index];
    bool deep = sg_option_text(o, "vision_backbone")[6] == '3', groups = sg_option_bool(o, "use_group_norm");
    int64_t count = sg_option_int(o, "spatial_softmax_num_keypoints");
    encoder->name = m->separate ? sg_graph_text(g, "rgb_encoder.%lld", (long long)index) : "rgb_encoder";
    sg_module_begin(g, "%s", encoder->name);
    sg_resnet_make(g, &encoder->backbone, "backbone", sg_option_int(o, "backbone_width"), deep ? resnet34 : resnet18,
                   groups ? SG_RESNET_NORM_GROUP : SG_RESNET_NORM_BATCH, style);
    int64_t height = sg_resnet_side(image_side(m, 0)), width = sg_resnet_side(image_side(m, 1));
    encoder->keypoints = sg_keypoints_make(g, "pool", 8 * encoder->backbone.width, count, height, width);
    encoder->out = sg_linear_make(g, "out", 2 * count, 2 * count, true, style);
    sg_module_end(g);
}

static void parameters(sg_graph *g, sg_diffusion *m, const sg_options *o) {
    int64_t encoders = m->separate ? m->cameras : 1;
    m->encoder = calloc((size_t)encoders, sizeof *m->encoder);
    if (!m->encoder) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %lld encoders", (long long)encoders);
        return;
    }
    sg_module_begin(g, "diffusion");
    for (int64_t i = 0; i < encoders; i++) encoder_make(g, m, i, o);
    sg_unet1d_make(g, &m->unet, "unet", &m->unet_config, (sg_layer_style){.dtype = SG_F32});
    sg_module_end(g);
}

/* ---- batch ---- */

static void image_inputs(sg_graph *g, sg_diffusion *m) {
    static const int64_t per_channel[] = {3, 1, 1};
    int64_t images = m->batch * m->observations;
    for (int64_t i = 0; i < m->cameras; i++) {
        m->frames[i] = sg_camera_input(g, i, images, m->height, m->width);
        m->image[i] = sg_camera_image(g, i, m->frames[i]);
        const char *feature = sg_graph_text(g, "normalize.camera%lld", (long long)i + 1);
        m->image_statistics[i] = sg_statistics_make(g, feature, 3, per_channel);
    }
}

static void inputs(sg_graph *g, sg_diffusion *m) {
    image_inputs(g, m);
    sg_desc state = sg_desc_make(SG_F32, 3, (int64_t[]){m->batch, m->observations, m->state});
    m->raw_state = sg_input_tensor(g, "observation.state", SG_INPUT_UNIFORM, state, 0, 1);
    m->state_in = sg_state_tensor(g, "state", state);
    m->state_range = sg_range_make(g, "normalize.state", m->state);
    sg_desc action = sg_desc_make(SG_F32, 3, (int64_t[]){m->batch, m->horizon, m->action});
    m->raw_action = sg_input_tensor(g, "action", SG_INPUT_UNIFORM, action, 0, 1);
    m->action_in = sg_state_tensor(g, "action normalised", action);
    m->action_range = sg_range_make(g, "normalize.action", m->action);
    sg_desc padding = sg_desc_make(SG_BOOL, 2, (int64_t[]){m->batch, m->horizon});
    m->padding = sg_input_tensor(g, "action_is_pad", SG_INPUT_INTEGER, padding, 0, 1);
    /* Constant values stand for the squared-cosine schedule: no cost depends on them. */
    m->kept = sg_buffer(g, "noise_scheduler.alphas_cumprod", 1, &m->steps, 0.5);
}

static void preprocess(sg_graph *g, void *policy) {
    sg_diffusion *m = policy;
    for (int64_t i = 0; i < m->cameras; i++) sg_normalise_image(g, m->frames[i], m->image_statistics[i], m->image[i]);
    sg_normalise_range(g, m->raw_state, m->state_range, m->state_in);
    sg_normalise_range(g, m->raw_action, m->action_range, m->action_in);
}

/* ---- the training ---- */

static sg_optimizer_spec optimizer(const sg_options *o) {
    sg_optimizer_spec spec = sg_supervised_optimizer(o, 0.999);
    spec.decoupled_weight_decay = false; /* torch.optim.Adam */
    spec.beta1 = 0.95;
    return spec;
}

static void emit(sg_graph *g, sg_diffusion *m, const sg_family_build *build) {
    sg_supervised_cameras(g, m->cameras, m->height, m->width, m->observations);
    inputs(g, m);
    parameters(g, m, build->options);
    if (sg_graph_failed(g)) return;
    sg_supervised supervised = {
        .policy = m, .preprocess = preprocess, .forward = sg_diffusion_forward, .optimizer = optimizer(build->options)};
    sg_supervised_build(g, &supervised, build->accumulation);
}

void sg_diffusion_build(sg_graph *g, const sg_family_build *build) {
    sg_diffusion m = {0};
    configure(g, &m, build);
    check_sequence(g, &m, build->options);
    check_images(g, &m);
    if (!sg_graph_failed(g)) emit(g, &m, build);
    free(m.encoder);
}
