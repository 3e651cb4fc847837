/* diffusion_forward.c: what the diffusion policy computes in a training step. Sizes: b samples, o observations of each,
 * n cameras, f features of a camera's frame, t actions of a sequence. */
#include "models/families/diffusion.h"

/* ---- observations ---- */

/* Frames as the network takes them. One random crop serves a whole batch: it is cut by a view. */
static sg_tid resize_and_crop(sg_graph *g, const sg_diffusion *m, sg_tid x) {
    if (m->resized[0]) x = sg_resize2d(g, x, m->resized[0], m->resized[1]);
    for (int side = 0; side < 2 && m->cropped[0]; side++) {
        int64_t there = m->resized[side] ? m->resized[side] : side == 0 ? m->height : m->width;
        x = sg_slice(g, x, 2 + side, (there - m->cropped[side]) / 2, m->cropped[side]);
    }
    return m->cropped[0] ? sg_contiguous(g, x) : x;
}

/* frames[b o, 3, h, w] -> features [b o, f] */
static sg_tid encode(sg_graph *g, const sg_diffusion *m, const sg_frame_encoder *encoder, sg_tid frames) {
    sg_module_begin(g, "%s", encoder->name);
    sg_tid x = sg_resnet_apply(g, &encoder->backbone, resize_and_crop(g, m, frames));
    x = sg_keypoints_apply(g, &encoder->keypoints, "pool", x);
    x = sg_relu(g, sg_linear_apply(g, &encoder->out, x), false);
    sg_module_end(g);
    return x;
}

/* The cameras side by side, as LeRobot stacks them before anything else: [b, o, n, 3, h, w]. */
static sg_tid stack_cameras(sg_graph *g, const sg_diffusion *m) {
    sg_tid view[SG_LIMIT_CAMERAS];
    for (int64_t i = 0; i < m->cameras; i++)
        view[i] = sg_view(g, m->image[i], 5, (int64_t[]){m->batch, m->observations, 3, m->height, m->width});
    sg_tid stacked = sg_stack(g, (int)m->cameras, view, 2);
    sg_hold_forward(g, stacked); /* the batch names it while the loss is computed */
    return stacked;
}

/* -> features [b, o, n f] */
static sg_tid encode_separately(sg_graph *g, const sg_diffusion *m) {
    sg_tid part[SG_LIMIT_CAMERAS], row[SG_LIMIT_CAMERAS];
    bool eager = sg_by_call(sg_graph_profile(g));
    int64_t images = m->batch * m->observations;
    for (int64_t i = 0; i < m->cameras; i++) row[i] = m->image[i];
    if (eager) {
        sg_tid all = sg_permute(g, stack_cameras(g, m), (int[]){2, 0, 1, 3, 4, 5});
        sg_unbind(g, sg_reshape(g, all, 5, (int64_t[]){m->cameras, images, 3, m->height, m->width}), 0, row);
    }
    for (int64_t i = 0; i < m->cameras; i++) part[i] = encode(g, m, &m->encoder[i], row[i]);
    sg_tid features = sg_cat(g, (int)m->cameras, part, 0);
    features = sg_view(g, features, 4, (int64_t[]){m->cameras, m->batch, m->observations, -1});
    return sg_reshape(g, sg_permute(g, features, (int[]){1, 2, 0, 3}), 3, (int64_t[]){m->batch, m->observations, -1});
}

static sg_tid encode_together(sg_graph *g, const sg_diffusion *m) {
    int64_t images = m->batch * m->observations * m->cameras;
    sg_tid all = sg_view(g, stack_cameras(g, m), 4, (int64_t[]){images, 3, m->height, m->width});
    return sg_view(g, encode(g, m, &m->encoder[0], all), 3, (int64_t[]){m->batch, m->observations, -1});
}

/* -> what the actions are conditioned on: [b, o (s + n f)] */
static sg_tid condition(sg_graph *g, const sg_diffusion *m) {
    sg_tid part[] = {m->state_in, m->separate ? encode_separately(g, m) : encode_together(g, m)};
    return sg_view(g, sg_cat(g, 2, part, -1), 2, (int64_t[]){m->batch, -1});
}

/* ---- noise ---- */

/* sqrt(kept[step]) actions + sqrt(1 - kept[step]) noise: the forward process of DDPM. */
static sg_tid add_noise(sg_graph *g, const sg_diffusion *m, sg_tid noise, sg_tid step) {
    const int64_t shape[] = {m->batch, 1, 1};
    sg_tid signal = sg_unary(g, SG_FN_SQRT, sg_gather_rows(g, m->kept, step), 0, 0);
    sg_tid rest = sg_unary(g, SG_FN_AFFINE, sg_gather_rows(g, m->kept, step), -1, 1);
    rest = sg_unary(g, SG_FN_SQRT, rest, 0, 0);
    signal = sg_mul(g, sg_view(g, signal, 3, shape), m->action_in);
    return sg_add(g, signal, sg_mul(g, sg_view(g, rest, 3, shape), noise));
}

/* Mean over all elements, with what lies beyond the episode counting as 0 where the policy masks it. */
static sg_tid loss_of(sg_graph *g, const sg_diffusion *m, sg_tid predicted, sg_tid target) {
    sg_tid loss = sg_binary(g, SG_FN_SQUARED_DIFF, predicted, target, 0);
    if (m->masks) {
        sg_tid inside = sg_unary(g, SG_FN_NOT, m->padding, 0, 0);
        loss = sg_mul(g, loss, sg_unsqueeze(g, inside, -1));
    }
    return sg_mean_all(g, loss);
}

sg_tid sg_diffusion_forward(sg_graph *g, void *policy) {
    sg_diffusion *m = policy;
    const int64_t shape[] = {m->batch, m->horizon, m->action};
    sg_module_begin(g, "diffusion");
    sg_tid observed = condition(g, m);
    sg_tid noise = sg_randn(g, sg_float(g), 3, shape, 0);
    sg_tid step = sg_randint(g, 0, m->steps, 1, &m->batch, 0);
    sg_tid noisy = add_noise(g, m, noise, step);
    sg_tid predicted = sg_unet1d_apply(g, &m->unet, "unet", noisy, step, observed);
    sg_module_end(g);
    sg_module_begin(g, "loss");
    sg_tid loss = loss_of(g, m, predicted, m->predicts_noise ? noise : m->action_in);
    sg_module_end(g);
    return loss;
}
