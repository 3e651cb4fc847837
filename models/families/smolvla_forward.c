/* smolvla_forward.c: what SmolVLA computes in a training step. Sizes: b samples, p prefix tokens (cameras,
 * language, state), s = chunk suffix tokens (noisy actions), t = p + s. */
#include "models/families/smolvla.h"
#include "models/layers/block_mask.h"
#include "models/layers/flow.h"
#include "models/layers/grouped.h"
#include "models/layers/position.h"
#include "models/layers/rotary.h"

#include <math.h>

/* ---- inputs ---- */

/* Keeps the aspect ratio, pads at the top and left to a square, scales to [-1, 1]. */
static sg_tid fit_image(sg_graph *g, const sg_smolvla *m, sg_tid image) {
    int64_t side = m->vla.vision_config.side;
    double ratio = fmax((double)m->vla.width / (double)side, (double)m->vla.height / (double)side);
    int64_t height = (int64_t)((double)m->vla.height / ratio), width = (int64_t)((double)m->vla.width / ratio);
    image = sg_resize2d(g, image, height < 1 ? 1 : height, width < 1 ? 1 : width);
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc fitted = *sg_desc_of(g, image);
    if (fitted.size[2] != side || fitted.size[3] != side)
        image = sg_pad2d(g, image, side - fitted.size[3], 0, side - fitted.size[2], 0, 0.0);
    if (sg_graph_profile(g)->fused_activation) return sg_unary(g, SG_FN_AFFINE, image, 2.0, -1.0);
    return sg_add_scalar(g, sg_scale(g, image, 2.0), -1.0);
}

static sg_tid ones(sg_graph *g, int64_t rows, int64_t columns) {
    return sg_full(g, SG_BOOL, 2, (int64_t[]){rows, columns}, 1.0);
}

typedef struct stream {
    sg_tid embedded, valid; /* [b, n, width], bool[b, n] */
} stream;

static sg_tid embed_camera(sg_graph *g, const sg_smolvla *m, sg_tid image) {
    sg_module_begin(g, "vlm_with_expert");
    sg_module_begin(g, SG_VISION_MODEL);
    sg_tid x = sg_vision_apply(g, &m->vla.vision, sg_to(g, image, m->vla.dtype));
    sg_module_end(g);
    sg_module_begin(g, SG_CONNECTOR);
    x = sg_linear_apply(g, &m->connector, sg_pixel_shuffle(g, x, m->scale));
    sg_module_end(g);
    sg_module_end(g);
    return sg_scale(g, x, sqrt((double)m->vla.text_config.width));
}

static stream embed_prefix(sg_graph *g, const sg_smolvla *m, const sg_tid *images, sg_tid seen, sg_tid state) {
    sg_tid part[SG_LIMIT_CAMERAS + 2], valid[SG_LIMIT_CAMERAS + 2];
    int n = 0;
    for (int64_t i = 0; i < m->vla.cameras; i++, n++) {
        part[n] = embed_camera(g, m, images[i]);
        valid[n] = sg_expand(g, seen, 2, (int64_t[]){m->vla.batch, sg_smolvla_image_tokens(m)});
    }
    part[n] = sg_scale(g, sg_embedding(g, m->vla.embedding, m->vla.tokens), sqrt((double)m->vla.text_config.width));
    valid[n++] = m->vla.tokens_valid;
    part[n] = sg_unsqueeze(g, sg_linear_apply(g, &m->vla.state_proj, state), 1);
    valid[n++] = ones(g, m->vla.batch, 1);
    return (stream){sg_cat(g, n, part, 1), sg_cat(g, n, valid, 1)};
}

static stream embed_suffix(sg_graph *g, const sg_smolvla *m, sg_tid noisy, sg_tid time) {
    int64_t width = m->vla.expert_config.width;
    sg_tid action = sg_linear_apply(g, &m->vla.action_in_proj, noisy);
    sg_tid when = sg_unsqueeze(g, sg_time_embedding(g, time, width, m->vla.min_period, m->vla.max_period), 1);
    sg_tid both[] = {action, sg_expand(g, when, 3, (int64_t[]){m->vla.batch, m->vla.chunk, width})};
    sg_tid x = sg_linear_apply_act(g, &m->vla.time_in, sg_cat(g, 2, both, 2), SG_FN_SILU);
    return (stream){sg_linear_apply(g, &m->vla.time_out, x), ones(g, m->vla.batch, m->vla.chunk)};
}

/* ---- masks ---- */

/* bool[b, t, t]: a token sees the blocks up to its own: images and language are one, the state and each action its
 * own. */
static sg_tid block_mask(sg_graph *g, const sg_smolvla *m, sg_tid valid) {
    int64_t prefix = sg_smolvla_prefix(m);
    sg_tid start[] = {sg_expand(g, m->no_block, 2, (int64_t[]){m->vla.batch, prefix - 1}),
                      sg_expand(g, m->new_block, 2, (int64_t[]){m->vla.batch, 1 + m->vla.chunk})};
    return sg_block_mask(g, sg_cat(g, 2, start, 1), valid, true);
}

static sg_tid part_of_mask(sg_graph *g, sg_tid mask, int64_t from, int64_t rows, int64_t columns) {
    return sg_slice(g, sg_slice(g, mask, 1, from, rows), 2, 0, columns);
}

/* ---- layers ---- */

typedef struct layers {
    const sg_smolvla *m;
    sg_tid prefix, suffix; /* [b, p, text width], [b, s, expert width] */
    sg_tid mask, prefix_mask, cross_mask;
    sg_rotary all, of_prefix, of_suffix;
} layers;

static sg_tid normed(sg_graph *g, const char *model, const sg_decoder_layer *layer, sg_tid x) {
    sg_module_begin(g, "%s", model);
    x = sg_decoder_normed(g, layer, x);
    sg_module_end(g);
    return x;
}

static sg_tid project(sg_graph *g, const char *model, const sg_projections *p, const sg_linear_layer *projection,
                      sg_tid x) {
    sg_module_begin(g, "%s", model);
    x = sg_project_heads(g, p, projection, x);
    sg_module_end(g);
    return x;
}

static sg_tid finish(sg_graph *g, const char *model, const sg_decoder_layer *layer, sg_tid x, sg_tid attended) {
    sg_module_begin(g, "%s", model);
    x = sg_decoder_finish(g, layer, x, attended);
    sg_module_end(g);
    return x;
}

/* The prefix's output of the last layer feeds nothing. */
static bool prefix_is_used(const sg_graph *g, const layers *l, int64_t index) {
    return sg_graph_profile(g)->unused_results || index + 1 < l->m->vla.layers;
}

/* Prefix and actions attend over all tokens together. */
static void joint_layer(sg_graph *g, layers *l, int64_t index) {
    const sg_decoder_layer *text = &l->m->text[index], *expert = &l->m->expert[index];
    const sg_projections *of_text = &text->projections, *of_expert = &expert->projections;
    int64_t p = sg_smolvla_prefix(l->m), s = l->m->vla.chunk;
    sg_tid x = normed(g, SG_TEXT_MODEL, text, l->prefix);
    sg_tid q[2] = {project(g, SG_TEXT_MODEL, of_text, &of_text->query, x)};
    sg_tid k[2] = {project(g, SG_TEXT_MODEL, of_text, &of_text->key, x)};
    sg_tid v[2] = {project(g, SG_TEXT_MODEL, of_text, &of_text->value, x)};
    sg_tid y = normed(g, SG_EXPERT_MODEL, expert, l->suffix);
    q[1] = project(g, SG_EXPERT_MODEL, of_expert, &of_expert->query, y);
    k[1] = project(g, SG_EXPERT_MODEL, of_expert, &of_expert->key, y);
    v[1] = project(g, SG_EXPERT_MODEL, of_expert, &of_expert->value, y);
    sg_tid query = sg_cat(g, 2, q, 1), key = sg_cat(g, 2, k, 1), value = sg_cat(g, 2, v, 1);
    query = sg_rotary_apply(g, &l->all, query);
    key = sg_rotary_apply(g, &l->all, key);
    sg_tid out = sg_grouped_attention(g, query, key, value, l->mask);
    if (prefix_is_used(g, l, index)) l->prefix = finish(g, SG_TEXT_MODEL, text, l->prefix, sg_slice(g, out, 1, 0, p));
    l->suffix = finish(g, SG_EXPERT_MODEL, expert, l->suffix, sg_slice(g, out, 1, p, s));
}

/* [b, n, heads, head] -> [b, n, heads head] */
static sg_tid join_heads(sg_graph *g, sg_tid x) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc shape = *sg_desc_of(g, x);
    return sg_reshape(g, x, 3, (int64_t[]){shape.size[0], shape.size[1], shape.size[2] * shape.size[3]});
}

/* The prefix attends over itself; actions attend to keys and values made from the prefix's. */
static void cross_layer(sg_graph *g, layers *l, int64_t index) {
    const sg_decoder_layer *text = &l->m->text[index], *expert = &l->m->expert[index];
    const sg_projections *of_text = &text->projections, *of_expert = &expert->projections;
    sg_tid x = normed(g, SG_TEXT_MODEL, text, l->prefix), prefix_out = SG_NO_TENSOR, query = SG_NO_TENSOR;
    bool used = prefix_is_used(g, l, index);
    if (used) query = project(g, SG_TEXT_MODEL, of_text, &of_text->query, x);
    sg_tid key = project(g, SG_TEXT_MODEL, of_text, &of_text->key, x);
    sg_tid value = project(g, SG_TEXT_MODEL, of_text, &of_text->value, x);
    if (used) query = sg_rotary_apply(g, &l->of_prefix, query);
    key = sg_rotary_apply(g, &l->of_prefix, key);
    if (used) prefix_out = sg_grouped_attention(g, query, key, value, l->prefix_mask);
    sg_tid y = normed(g, SG_EXPERT_MODEL, expert, l->suffix);
    query = project(g, SG_EXPERT_MODEL, of_expert, &of_expert->query, y);
    key = project(g, SG_EXPERT_MODEL, of_expert, &of_expert->key, join_heads(g, key));
    value = project(g, SG_EXPERT_MODEL, of_expert, &of_expert->value, join_heads(g, value));
    query = sg_rotary_apply(g, &l->of_suffix, query);
    sg_tid suffix_out = sg_grouped_attention(g, query, key, value, l->cross_mask);
    if (used) l->prefix = finish(g, SG_TEXT_MODEL, text, l->prefix, prefix_out);
    l->suffix = finish(g, SG_EXPERT_MODEL, expert, l->suffix, suffix_out);
}

/* Positions of the actions counted from their own first: what a cross layer's queries turn by. */
static sg_rotary suffix_rotary(sg_graph *g, const sg_smolvla *m, sg_tid positions) {
    sg_tid own = sg_slice(g, positions, 1, sg_smolvla_prefix(m), m->vla.chunk);
    own = sg_sub(g, own, sg_reduce(g, SG_FN_MIN, own, 1u << 1, true));
    return sg_rotary_make(g, own, m->vla.text_config.head);
}

static void masks_and_tables(sg_graph *g, layers *l, sg_tid mask, sg_tid positions) {
    int64_t p = sg_smolvla_prefix(l->m), head = l->m->vla.text_config.head;
    l->mask = mask;
    l->all = sg_rotary_make(g, positions, head);
    if (sg_graph_profile(g)->unused_results) return; /* every layer cuts its own */
    l->prefix_mask = part_of_mask(g, mask, 0, p, p);
    l->cross_mask = part_of_mask(g, mask, p, l->m->vla.chunk, p);
    l->of_prefix = sg_rotary_make(g, sg_slice(g, positions, 1, 0, p), head);
    l->of_suffix = suffix_rotary(g, l->m, positions);
}

/* -> the expert's output [b, s, expert width] */
static sg_tid run_layers(sg_graph *g, layers *l, sg_tid mask, sg_tid positions) {
    int64_t p = sg_smolvla_prefix(l->m), head = l->m->vla.text_config.head;
    bool cuts = sg_graph_profile(g)->unused_results;
    sg_module_begin(g, "vlm_with_expert");
    masks_and_tables(g, l, mask, positions);
    for (int64_t i = 0; i < l->m->vla.layers; i++) {
        if (sg_smolvla_is_joint(l->m, i)) {
            joint_layer(g, l, i);
            continue;
        }
        if (cuts) {
            l->of_prefix = sg_rotary_make(g, sg_slice(g, positions, 1, 0, p), head);
            l->prefix_mask = part_of_mask(g, mask, 0, p, p);
            l->of_suffix = suffix_rotary(g, l->m, positions);
            l->cross_mask = part_of_mask(g, mask, p, l->m->vla.chunk, p);
        }
        cross_layer(g, l, i);
    }
    if (cuts) {
        sg_module_begin(g, SG_TEXT_MODEL);
        sg_tid unread = sg_rms_norm_apply(g, &l->m->text_norm, l->prefix);
        if (sg_graph_profile(g)->keeps_more) sg_hold_forward(g, unread);
        sg_module_end(g);
    }
    sg_module_begin(g, SG_EXPERT_MODEL);
    sg_tid out = sg_rms_norm_apply(g, &l->m->expert_norm, l->suffix);
    sg_module_end(g);
    sg_module_end(g);
    return out;
}

/* ---- loss ---- */

static void report(sg_graph *g, sg_tid losses) {
    sg_wait(g, sg_mean_all(g, sg_clone(g, losses)));
}

static sg_tid loss_of(sg_graph *g, const sg_smolvla *m, sg_tid losses) {
    bool reads = sg_graph_profile(g)->reads_losses; /* LeRobot's .item() for the log */
    sg_module_begin(g, "loss");
    if (reads) report(g, losses);
    sg_tid valid = sg_unsqueeze(g, sg_unary(g, SG_FN_NOT, m->vla.padding, 0, 0), -1);
    losses = sg_mul(g, losses, valid);
    if (reads) report(g, losses);
    losses = sg_slice(g, losses, 2, 0, m->vla.action);
    if (reads) report(g, losses);
    sg_tid loss = sg_mean_all(g, losses);
    if (reads) sg_wait(g, loss);
    sg_module_end(g);
    return loss;
}

sg_tid sg_smolvla_forward(sg_graph *g, void *policy) {
    sg_smolvla *m = policy;
    sg_tid images[SG_LIMIT_CAMERAS], seen = SG_NO_TENSOR;
    for (int64_t i = 0; i < m->vla.cameras; i++) {
        images[i] = fit_image(g, m, m->vla.image[i]);
        sg_hold_forward(g, images[i]); /* a list of the forward names them all */
        seen = ones(g, m->vla.batch, 1);
    }
    sg_tid state = sg_pad_features(g, m->vla.state_in, m->vla.max_state),
           action = sg_pad_features(g, m->vla.action_in, m->vla.max_action);
    sg_flow flow = sg_flow_make(g, action);
    sg_module_begin(g, "model");
    stream prefix = embed_prefix(g, m, images, seen, state), suffix = embed_suffix(g, m, flow.noisy, flow.time);
    sg_tid valid = sg_cat(g, 2, (sg_tid[]){prefix.valid, suffix.valid}, 1);
    sg_tid mask = block_mask(g, m, valid), positions = sg_add_scalar(g, sg_cumsum(g, valid, 1), -1.0);
    layers l = {.m = m, .prefix = prefix.embedded, .suffix = suffix.embedded};
    sg_tid out = sg_to(g, run_layers(g, &l, mask, positions), sg_float(g));
    out = sg_linear_apply(g, &m->vla.action_out_proj, out);
    sg_module_end(g);
    return loss_of(g, m, sg_binary(g, SG_FN_SQUARED_DIFF, flow.target, out, 0));
}
