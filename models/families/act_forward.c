/* act_forward.c: what ACT computes in a training step. Sizes: b samples, c cameras, d model width, t encoder tokens. */
#include "models/families/act.h"
#include "models/layers/position.h"

#include <stdlib.h>

int64_t sg_act_map_tokens(const sg_act *m) {
    return sg_resnet_side(m->height) * sg_resnet_side(m->width);
}

/* Tokens of one feature that is not an image: [b, d] -> [b, 1, d] where the batch is first. */
static sg_tid as_token(sg_graph *g, sg_tid x) {
    return sg_unsqueeze(g, x, 1);
}

/* ---- variational encoder ---- */

/* The chunk to be learned, as tokens [b, 1 + (state) + chunk, d]. */
static sg_tid vae_tokens(sg_graph *g, const sg_act *m) {
    int64_t d = m->transformer.width;
    sg_tid part[3];
    int n = 0;
    part[n++] = sg_expand(g, sg_unsqueeze(g, m->vae_class, 1), 3, (int64_t[]){m->batch, 1, d});
    if (m->state) part[n++] = as_token(g, sg_linear_apply(g, &m->vae_state, m->state_in));
    part[n++] = sg_linear_apply(g, &m->vae_action, m->action_in);
    return sg_cat(g, n, part, 1);
}

/* bool[b, tokens]: true where the chunk reaches beyond its episode. */
static sg_tid vae_padding(sg_graph *g, const sg_act *m) {
    sg_tid part[] = {sg_full(g, SG_BOOL, 2, (int64_t[]){m->batch, 1 + (m->state > 0)}, 0.0), m->padding};
    return sg_cat(g, 2, part, 1);
}

/* -> mean and log variance [b, latent] of the latent, by the first token of the encoder's output. */
static void vae_encode(sg_graph *g, const sg_act *m, sg_tid *mean, sg_tid *log_variance) {
    bool batch_first = sg_batch_first(g);
    sg_tid x = vae_tokens(g, m), position = m->vae_position;
    if (!batch_first) position = sg_detach(g, sg_clone(g, position));
    sg_tid padding = vae_padding(g, m);
    if (!batch_first) {
        x = sg_permute(g, x, (int[]){1, 0, 2});
        position = sg_permute(g, position, (int[]){1, 0, 2});
    }
    sg_module_begin(g, "vae_encoder");
    for (int64_t i = 0; i < m->vae_layers; i++) {
        bool last = batch_first && i + 1 == m->vae_layers; /* eager runs all of it for the one token that is read */
        sg_checkpoint_begin_if(g, m->checkpoint);
        x = last ? sg_detr_encoder_first(g, &m->vae[i], &m->transformer, x, position, padding)
                 : sg_detr_encoder_apply(g, &m->vae[i], &m->transformer, x, position, padding);
        sg_checkpoint_end_if(g, m->checkpoint);
    }
    if (m->transformer.pre_norm) x = sg_layer_norm_apply(g, &m->vae_norm, x);
    sg_module_end(g);
    sg_tid latent = sg_linear_apply(g, &m->vae_latent, sg_select(g, x, batch_first ? 1 : 0, 0));
    *mean = sg_slice(g, latent, 1, 0, m->latent);
    *log_variance = sg_slice(g, latent, 1, m->latent, m->latent);
}

static sg_tid sample_latent(sg_graph *g, const sg_act *m, sg_tid mean, sg_tid log_variance) {
    sg_tid deviation = sg_unary(g, SG_FN_EXP, sg_unary(g, SG_FN_DIV_SCALAR, log_variance, 2.0, 0), 0, 0);
    sg_tid noise = sg_randn(g, sg_float(g), 2, (int64_t[]){m->batch, m->latent}, 0);
    return sg_add(g, mean, sg_mul(g, deviation, noise));
}

/* ---- encoder tokens ---- */

static sg_tid feature_map(sg_graph *g, const sg_act *m, sg_tid images) {
    sg_checkpoint_begin_if(g, m->checkpoint);
    sg_tid map = sg_resnet_apply(g, &m->backbone, images);
    sg_checkpoint_end_if(g, m->checkpoint);
    return map;
}

static sg_tid project_map(sg_graph *g, const sg_act *m, sg_tid map) {
    sg_module_begin(g, "encoder_img_feat_input_proj");
    map = sg_conv2d(g, map, m->projection_weight, m->projection_bias, 1, 0);
    sg_module_end(g);
    return map;
}

/* Eager: rows of [h w, b, d] appended to `rows` one by one, as LeRobot extends a Python list. */
static void append_map(sg_graph *g, sg_tid map, int64_t tokens, int64_t batch, int64_t d, sg_tid *rows) {
    sg_tid flat = sg_reshape(g, sg_permute(g, map, (int[]){2, 3, 0, 1}), 3, (int64_t[]){tokens, batch, d});
    sg_unbind(g, flat, 0, rows);
}

/* Eager: each camera through the backbone; every token is a row of a list that is stacked at last. */
static void tokens_eager(sg_graph *g, const sg_act *m, sg_tid latent, sg_tid *tokens, sg_tid *positions) {
    int64_t d = m->transformer.width, per_map = sg_act_map_tokens(m), first = 1 + (m->state > 0);
    int64_t count = first + m->cameras * per_map, at = first;
    sg_tid *rows = calloc((size_t)count * 2, sizeof *rows), *places = rows ? rows + count : NULL;
    if (!rows) {
        sg_graph_fail(g, SG_MACHINE, "cannot allocate host memory for %lld tokens", (long long)count);
        *tokens = *positions = SG_NO_TENSOR;
        return;
    }
    rows[0] = sg_linear_apply(g, &m->latent_in, latent);
    if (m->state) rows[1] = sg_linear_apply(g, &m->encoder_state, m->state_in);
    sg_unbind(g, sg_unsqueeze(g, m->encoder_position, 1), 0, places);
    for (int64_t i = 0; i < m->cameras; i++, at += per_map) {
        sg_tid map = feature_map(g, m, m->image[i]);
        /* Only the shape of one channel of one image counts. */
        sg_tid position = sg_sine_position_2d(g, sg_slice(g, sg_select(g, map, 0, 0), 0, 0, 1), d);
        append_map(g, project_map(g, m, map), per_map, m->batch, d, rows + at);
        append_map(g, position, per_map, 1, d, places + at);
    }
    *tokens = sg_stack(g, (int)count, rows, 0);
    *positions = sg_stack(g, (int)count, places, 0);
    free(rows);
}

/* Native: all cameras in one pass; tokens [b, t, d], positions [t, d]. */
static void tokens_native(sg_graph *g, const sg_act *m, sg_tid latent, sg_tid *tokens, sg_tid *positions) {
    int64_t d = m->transformer.width, per_map = sg_act_map_tokens(m);
    sg_tid part[3], place[1 + SG_LIMIT_CAMERAS] = {m->encoder_position};
    int n = 0;
    part[n++] = as_token(g, sg_linear_apply(g, &m->latent_in, latent));
    if (m->state) part[n++] = as_token(g, sg_linear_apply(g, &m->encoder_state, m->state_in));
    if (m->cameras) {
        sg_tid map = feature_map(g, m, m->images);
        sg_tid position = sg_sine_position_2d(g, map, d);
        position = sg_reshape(g, sg_permute(g, position, (int[]){0, 2, 3, 1}), 2, (int64_t[]){per_map, d});
        map = sg_permute(g, project_map(g, m, map), (int[]){0, 2, 3, 1});
        part[n++] = sg_reshape(g, map, 3, (int64_t[]){m->batch, m->cameras * per_map, d});
        for (int64_t i = 0; i < m->cameras; i++) place[1 + i] = position;
    }
    *tokens = sg_cat(g, n, part, 1);
    *positions = sg_cat(g, 1 + (int)m->cameras, place, 0);
}

/* ---- transformer ---- */

/* -> actions [b, chunk, a] */
static sg_tid transform(sg_graph *g, const sg_act *m, sg_tid tokens, sg_tid positions) {
    bool batch_first = sg_batch_first(g);
    int64_t d = m->transformer.width;
    const int64_t shape[] = {batch_first ? m->batch : m->chunk, batch_first ? m->chunk : m->batch, d};
    sg_module_begin(g, "encoder");
    for (int64_t i = 0; i < m->encoder_layers; i++) {
        sg_checkpoint_begin_if(g, m->checkpoint);
        tokens = sg_detr_encoder_apply(g, &m->encoder[i], &m->transformer, tokens, positions, SG_NO_TENSOR);
        sg_checkpoint_end_if(g, m->checkpoint);
    }
    if (m->transformer.pre_norm) tokens = sg_layer_norm_apply(g, &m->encoder_norm, tokens);
    sg_module_end(g);
    sg_module_begin(g, "decoder");
    sg_tid x = sg_full(g, sg_float(g), 3, shape, 0.0), query = m->decoder_position;
    if (!batch_first) query = sg_unsqueeze(g, query, 1);
    for (int64_t i = 0; i < m->decoder_layers; i++) {
        sg_checkpoint_begin_if(g, m->checkpoint);
        x = sg_detr_decoder_apply(g, &m->decoder[i], &m->transformer, x, tokens, query, positions);
        sg_checkpoint_end_if(g, m->checkpoint);
    }
    x = sg_layer_norm_apply(g, &m->decoder_norm, x);
    sg_module_end(g);
    return sg_linear_apply(g, &m->head, batch_first ? x : sg_transpose(g, x, 0, 1));
}

/* ---- loss ---- */

/* Mean absolute error over the steps of the chunk that lie inside the episode. */
static sg_tid l1_loss(sg_graph *g, const sg_act *m, sg_tid actions) {
    static const double most = 9007199254740992.0; /* 2^53: no upper bound in effect */
    sg_tid error = sg_unary(g, SG_FN_ABS, sg_sub(g, m->action_in, actions), 0, 0);
    sg_tid valid = sg_unary(g, SG_FN_NOT, sg_unsqueeze(g, m->padding, -1), 0, 0);
    sg_tid count = sg_scale(g, sg_sum_all(g, valid), (double)m->action);
    count = sg_unary(g, SG_FN_CLAMP, count, 1.0, most);
    return sg_div(g, sg_sum_all(g, sg_mul(g, error, valid)), count);
}

/* KL divergence of the latent from a standard normal, mean over samples. */
static sg_tid kl_loss(sg_graph *g, sg_tid mean, sg_tid log_variance) {
    sg_tid x = sg_add_scalar(g, log_variance, 1.0);
    x = sg_sub(g, x, sg_unary(g, SG_FN_SQUARE, mean, 0, 0));
    x = sg_scale(g, sg_sub(g, x, sg_unary(g, SG_FN_EXP, log_variance, 0, 0)), -0.5);
    return sg_mean_all(g, sg_reduce(g, SG_FN_SUM, x, 1u << 1, false));
}

sg_tid sg_act_forward(sg_graph *g, void *policy) {
    sg_act *m = policy;
    sg_tid mean = SG_NO_TENSOR, log_variance = SG_NO_TENSOR, latent, tokens, positions;
    sg_module_begin(g, "model");
    if (m->use_vae) {
        vae_encode(g, m, &mean, &log_variance);
        latent = sample_latent(g, m, mean, log_variance);
    } else {
        latent = sg_full(g, sg_float(g), 2, (int64_t[]){m->batch, m->latent}, 0.0);
    }
    if (m->cameras) sg_resnet_fold(g, &m->backbone);
    if (sg_batch_first(g))
        tokens_native(g, m, latent, &tokens, &positions);
    else
        tokens_eager(g, m, latent, &tokens, &positions);
    sg_tid actions = transform(g, m, tokens, positions);
    sg_module_end(g);
    sg_module_begin(g, "loss");
    sg_tid loss = l1_loss(g, m, actions);
    bool reads = sg_graph_profile(g)->reads_losses; /* LeRobot's .item() for the log */
    if (reads) sg_wait(g, loss);
    if (m->use_vae) {
        sg_tid kl = kl_loss(g, mean, log_variance);
        if (reads) sg_wait(g, kl);
        loss = sg_add(g, loss, sg_scale(g, kl, m->kl_weight));
    }
    sg_module_end(g);
    return loss;
}
