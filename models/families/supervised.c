/* supervised.c: the programs and the schedule of a policy that learns from a data set: preprocess, update. */
#include "models/families/supervised.h"

#include <string.h>

#include "models/layers/into.h"

sg_optimizer_spec sg_supervised_optimizer(const sg_options *options, double beta2) {
    bool sgd = strcmp(sg_option_text(options, "optimizer"), "sgd") == 0;
    bool decays = !sgd || sg_option_given(options, "optimizer_weight_decay");
    return (sg_optimizer_spec){.sgd = sgd,
                               .decoupled_weight_decay = !sgd,
                               .lr = sg_option_real(options, "optimizer_lr"),
                               .beta1 = 0.9,
                               .beta2 = beta2,
                               .eps = 1e-8,
                               .weight_decay = decays ? sg_option_real(options, "optimizer_weight_decay") : 0,
                               .clip_norm = sg_option_real(options, "grad_clip_norm")};
}

/* One forward and backward, and behind the last micro-step of k the optimizer. */
static int32_t update_program(sg_graph *g, const sg_supervised *s, const char *name, int64_t k, bool first, bool last) {
    int32_t program = sg_program_begin(g, name);
    sg_pass_set(g, SG_PASS_FORWARD);
    sg_mark_here(g, SG_MARK_FORWARD);
    sg_tid loss = s->forward(g, s->policy);
    sg_graph_training(g)->loss = loss;
    sg_tid scaled = k > 1 ? sg_unary(g, SG_FN_DIV_SCALAR, loss, (double)k, 0) : loss;
    sg_shard_parameters(g, &s->optimizer);
    sg_backward(g, sg_scaled_loss(g, scaled), first, last);
    if (last) sg_optimizer_step(g, &s->optimizer);
    sg_wait(g, loss);
    sg_program_end(g);
    return program;
}

static void block(sg_graph *g, const char *name, int64_t repeat, int32_t preprocess, int32_t update) {
    if (repeat < 1) return;
    sg_block_begin(g, name, repeat);
    sg_block_loader(g);
    sg_block_program(g, preprocess);
    sg_block_program(g, update);
    sg_block_end(g);
}

void sg_supervised_build(sg_graph *g, const sg_supervised *supervised, int64_t accumulation) {
    int32_t preprocess = sg_program_begin(g, "preprocess");
    sg_pass_set(g, SG_PASS_PREPROCESS);
    sg_mark_here(g, SG_MARK_PREPROCESS);
    sg_copy_inputs(g);
    sg_no_grad_begin(g);
    supervised->preprocess(g, supervised->policy);
    sg_no_grad_end(g);
    sg_program_end(g);
    int64_t k = accumulation;
    int32_t first = -1, middle = -1;
    if (k > 1) first = update_program(g, supervised, "micro-step first", k, true, false);
    if (k > 2) middle = update_program(g, supervised, "micro-step", k, false, false);
    int32_t last = update_program(g, supervised, "update", k, k == 1, true);
    if (k > 1) block(g, "micro-step first", 1, preprocess, first);
    block(g, "micro-step", k - 2, preprocess, middle);
    block(g, "step", 1, preprocess, last);
}

/* ---- preprocessing ---- */

static sg_desc image_desc(const sg_graph *g, sg_dtype dtype, int64_t batch, int64_t height, int64_t width) {
    return sg_graph_profile(g)->channels_last ? sg_desc_channels_last(dtype, batch, 3, height, width)
                                              : sg_desc_make(dtype, 4, (int64_t[]){batch, 3, height, width});
}

void sg_supervised_cameras(sg_graph *g, int64_t cameras, int64_t height, int64_t width, int64_t frames_per_sample) {
    sg_training *t = sg_graph_training(g);
    t->cameras = cameras;
    t->image_height = cameras ? height : 0;
    t->image_width = cameras ? width : 0;
    t->frames_per_sample = cameras ? frames_per_sample : 0;
}

sg_tid sg_camera_input(sg_graph *g, int64_t index, int64_t batch, int64_t height, int64_t width) {
    const char *name = sg_graph_text(g, "observation.images.camera%lld", (long long)index + 1);
    return sg_input_tensor(g, name, SG_INPUT_IMAGE, image_desc(g, SG_U8, batch, height, width), 0, 256);
}

sg_tid sg_camera_image(sg_graph *g, int64_t index, sg_tid frames) {
    sg_desc image = *sg_desc_of(g, frames);
    image.dtype = SG_F32;
    return sg_state_tensor(g, sg_graph_text(g, "image %lld", (long long)index + 1), image);
}

sg_statistics sg_statistics_make(sg_graph *g, const char *feature, int ndim, const int64_t *size) {
    sg_statistics statistics;
    sg_module_begin(g, "%s", feature);
    statistics.mean = sg_buffer(g, "mean", ndim, size, 0.5);
    statistics.deviation = sg_buffer(g, "std", ndim, size, 0.25);
    sg_module_end(g);
    return statistics;
}

static const double normalise_eps = 1e-8; /* LeRobot's NormalizerProcessorStep */

void sg_normalise_vector(sg_graph *g, sg_tid x, sg_statistics statistics, sg_tid out) {
    sg_tid spread = sg_add_scalar(g, statistics.deviation, normalise_eps);
    sg_binary_into(g, SG_FN_DIV, sg_sub(g, x, statistics.mean), spread, out);
}

sg_range sg_range_make(sg_graph *g, const char *feature, int64_t width) {
    sg_range range;
    sg_module_begin(g, "%s", feature);
    range.low = sg_buffer(g, "min", 1, &width, 0.0);
    range.high = sg_buffer(g, "max", 1, &width, 1.0);
    sg_module_end(g);
    return range;
}

/* A range of 0 is taken as eps, as LeRobot's normaliser does. */
void sg_normalise_range(sg_graph *g, sg_tid x, sg_range range, sg_tid out) {
    sg_tid spread = sg_sub(g, range.high, range.low);
    sg_tid eps = sg_full(g, sg_float(g), 0, NULL, normalise_eps);
    spread = sg_where(g, sg_compare_scalar(g, SG_FN_EQ, spread, 0.0), eps, spread);
    sg_tid scaled = sg_div(g, sg_scale(g, sg_sub(g, x, range.low), 2.0), spread);
    sg_unary_into(g, SG_FN_AFFINE, scaled, 1.0, -1.0, out);
}

void sg_normalise_image(sg_graph *g, sg_tid frames, sg_statistics statistics, sg_tid out) {
    if (!sg_graph_profile(g)->fused_norms) {
        /* The loop still names the batch as it was before normalising: memory logs of ACT show one more copy of the
         * frames as floats than the graph keeps. */
        sg_desc desc = *sg_desc_of(g, frames);
        desc.dtype = SG_F32;
        sg_tid x = sg_state_tensor(g, "frames as floats", desc);
        sg_unary_into(g, SG_FN_DIV_SCALAR, sg_to(g, frames, sg_float(g)), 255.0, 0, x);
        sg_normalise_vector(g, x, statistics, out);
        return;
    }
    /* One pass: x / 255 - mean over deviation is x times a factor plus a shift. */
    sg_tid inverse = sg_unary(g, SG_FN_RECIPROCAL, sg_add_scalar(g, statistics.deviation, normalise_eps), 0, 0);
    sg_tid factor = sg_scale(g, inverse, 1.0 / 255.0), shift = sg_mul(g, sg_scale(g, statistics.mean, -1.0), inverse);
    sg_addcmul_into(g, shift, frames, factor, out);
}

void sg_scale_image(sg_graph *g, sg_tid frames, sg_tid out) {
    if (sg_graph_profile(g)->fused_norms)
        sg_unary_into(g, SG_FN_AFFINE, frames, 1.0 / 255.0, 0, out);
    else
        sg_unary_into(g, SG_FN_DIV_SCALAR, sg_to(g, frames, sg_float(g)), 255.0, 0, out);
}
