/* pi_forward.c: what pi0 and pi05 compute in a training step. Sizes: b samples, p prefix tokens (cameras, language), s suffix
 * tokens (pi0: the state; noisy actions), t = p + s.
 *
 * Checkpointing wraps what LeRobot's _apply_checkpoint wraps (each camera's encoding, the language embedding, each small
 * projection, the stack of layers) and inside it each layer and the final norms. */
#include "models/families/pi.h"
#include "models/layers/block_mask.h"
#include "models/layers/flow.h"
#include "models/layers/gemma_attention.h"
#include "models/layers/position.h"

#include <math.h>

/* ---- inputs ---- */

/* Keeps the aspect ratio, pads on both sides to a square, scales to [-1, 1]. Channels lie last while that is done. */
static sg_tid fit_image(sg_graph *g, const sg_pi *m, sg_tid image) {
    int64_t side = m->vla.vision_config.side;
    if (m->vla.height != side || m->vla.width != side) {
        double ratio = fmax((double)m->vla.width / (double)side, (double)m->vla.height / (double)side);
        int64_t height = (int64_t)((double)m->vla.height / ratio), width = (int64_t)((double)m->vla.width / ratio);
        height = height < 1 ? 1 : height > side ? side : height;
        width = width < 1 ? 1 : width > side ? side : width;
        image = sg_unary(g, SG_FN_CLAMP, sg_resize2d(g, image, height, width), 0.0, 1.0);
        int64_t top = (side - height) / 2, left = (side - width) / 2;
        image = sg_pad2d(g, image, left, side - width - left, top, side - height - top, 0.0);
    }
    if (sg_graph_profile(g)->fused_activation) return sg_unary(g, SG_FN_AFFINE, image, 2.0, -1.0);
    return sg_add_scalar(g, sg_scale(g, image, 2.0), -1.0);
}

static sg_tid blank_image(sg_graph *g, const sg_pi *m) {
    int64_t side = m->vla.vision_config.side;
    if (!sg_graph_profile(g)->channels_last)
        return sg_full(g, sg_float(g), 4, (int64_t[]){m->vla.batch, 3, side, side}, -1.0);
    sg_tid blank = sg_full(g, sg_float(g), 4, (int64_t[]){m->vla.batch, side, side, 3}, -1.0);
    return sg_permute(g, blank, (int[]){0, 3, 1, 2});
}

typedef struct stream {
    sg_tid embedded, valid, starts; /* [b, n, width], bool[b, n]; starts[b, n]: 1 where an attention block begins */
    sg_tid condition;               /* [b, width] or SG_NO_TENSOR */
} stream;

static sg_tid flags(sg_graph *g, int64_t rows, int64_t columns, double value) {
    return sg_full(g, SG_BOOL, 2, (int64_t[]){rows, columns}, value);
}

static sg_tid embed_camera(sg_graph *g, const sg_pi *m, sg_tid image) {
    sg_checkpoint_begin_if(g, m->nested);
    sg_module_begin(g, "paligemma_with_expert");
    sg_module_begin(g, SG_PI_TOWER);
    sg_tid x = sg_vision_apply(g, &m->vla.vision, image);
    sg_module_end(g);
    sg_module_begin(g, SG_PI_PROJECTOR);
    x = sg_linear_apply(g, &m->projector, x);
    sg_module_end(g);
    sg_module_end(g);
    sg_checkpoint_end_if(g, m->nested);
    return x;
}

static sg_tid embed_language(sg_graph *g, const sg_pi *m) {
    sg_checkpoint_begin_if(g, m->nested);
    sg_module_begin(g, "paligemma_with_expert");
    sg_module_begin(g, SG_PI_LANGUAGE);
    sg_module_begin(g, "embed_tokens");
    sg_tid x = sg_scale(g, sg_embedding(g, m->vla.embedding, m->vla.tokens), sqrt((double)m->vla.text_config.width));
    sg_module_end(g);
    sg_module_end(g);
    sg_module_end(g);
    sg_checkpoint_end_if(g, m->nested);
    return x;
}

static stream embed_prefix(sg_graph *g, const sg_pi *m, const sg_tid *images, const sg_tid *seen) {
    sg_tid part[SG_LIMIT_CAMERAS + 1], valid[SG_LIMIT_CAMERAS + 1];
    int n = 0;
    for (; n < m->vla.cameras + m->blanks; n++) {
        part[n] = embed_camera(g, m, images[n]);
        valid[n] = sg_expand(g, seen[n], 2, (int64_t[]){m->vla.batch, sg_pi_image_tokens(m)});
    }
    part[n] = embed_language(g, m);
    valid[n++] = m->vla.tokens_valid;
    stream prefix = {.condition = SG_NO_TENSOR};
    prefix.embedded = sg_cat(g, n, part, 1);
    prefix.valid = sg_cat(g, n, valid, 1);
    sg_tid starts = sg_slice(g, m->no_block, 1, 0, sg_pi_prefix(m));
    prefix.starts = sg_expand(g, starts, 2, (int64_t[]){m->vla.batch, sg_pi_prefix(m)});
    return prefix;
}

static sg_tid project(sg_graph *g, const sg_pi *m, const sg_linear_layer *layer, sg_tid x) {
    sg_checkpoint_begin_if(g, m->nested);
    x = sg_linear_apply(g, layer, x);
    sg_checkpoint_end_if(g, m->nested);
    return x;
}

/* Ones where the state and the first action begin blocks of their own, zeros behind. */
static sg_tid suffix_starts(sg_graph *g, const sg_pi *m) {
    int64_t ones = m->adaptive ? 1 : 2, n = sg_pi_suffix(m);
    sg_tid both[] = {sg_slice(g, m->new_block, 1, 0, ones), SG_NO_TENSOR};
    if (n == ones) return sg_expand(g, both[0], 2, (int64_t[]){m->vla.batch, n});
    both[1] = sg_slice(g, m->no_block, 1, 0, n - ones);
    return sg_expand(g, sg_cat(g, 2, both, 1), 2, (int64_t[]){m->vla.batch, n});
}

/* The condition: time's embedding through two layers with SiLU behind each. */
static sg_tid time_condition(sg_graph *g, const sg_pi *m, sg_tid when) {
    sg_checkpoint_begin_if(g, m->nested);
    sg_tid x = sg_linear_apply_act(g, &m->vla.time_in, when, SG_FN_SILU);
    x = sg_linear_apply_act(g, &m->vla.time_out, x, SG_FN_SILU);
    sg_checkpoint_end_if(g, m->nested);
    return x;
}

/* Actions and time side by side through two layers. */
static sg_tid mix_time(sg_graph *g, const sg_pi *m, sg_tid action, sg_tid when) {
    int64_t width = m->vla.expert_config.width;
    sg_tid both[] = {action, sg_expand(g, sg_unsqueeze(g, when, 1), 3, (int64_t[]){m->vla.batch, m->vla.chunk, width})};
    sg_tid x = sg_cat(g, 2, both, 2);
    sg_checkpoint_begin_if(g, m->nested);
    x = sg_linear_apply(g, &m->vla.time_out, sg_linear_apply_act(g, &m->vla.time_in, x, SG_FN_SILU));
    sg_checkpoint_end_if(g, m->nested);
    return x;
}

static stream embed_suffix(sg_graph *g, const sg_pi *m, sg_tid state, const sg_flow *flow) {
    stream suffix = {.condition = SG_NO_TENSOR};
    sg_tid state_token = SG_NO_TENSOR;
    if (!m->adaptive) state_token = sg_unsqueeze(g, project(g, m, &m->vla.state_proj, state), 1);
    sg_tid when = sg_time_embedding(g, flow->time, m->vla.expert_config.width, m->vla.min_period, m->vla.max_period);
    suffix.embedded = project(g, m, &m->vla.action_in_proj, flow->noisy);
    if (m->adaptive) {
        suffix.condition = time_condition(g, m, when);
        suffix.valid = flags(g, m->vla.batch, m->vla.chunk, 1.0);
    } else {
        sg_tid both[] = {state_token, mix_time(g, m, suffix.embedded, when)}, valid[2];
        suffix.embedded = sg_cat(g, 2, both, 1);
        valid[0] = flags(g, m->vla.batch, 1, 1.0);
        valid[1] = flags(g, m->vla.batch, m->vla.chunk, 1.0);
        suffix.valid = sg_cat(g, 2, valid, 1);
    }
    suffix.starts = suffix_starts(g, m);
    return suffix;
}

/* ---- layers ---- */

enum { PREFIX, SUFFIX, STREAMS };

typedef struct stack {
    const sg_pi *m;
    sg_gemma_attention attention;
    sg_tid x[STREAMS], condition[STREAMS]; /* [b, p, text width], [b, s, expert width] */
} stack;

static const char *const MODEL[STREAMS] = {SG_PI_LANGUAGE, SG_PI_EXPERT};

/* The prefix's output of the last layer feeds nothing. */
static bool is_used(const sg_graph *g, const stack *l, int which, int64_t index) {
    return which == SUFFIX || sg_graph_profile(g)->unused_results || index + 1 < l->m->vla.layers;
}

static void apply_layer(sg_graph *g, stack *l, int64_t index) {
    const sg_gemma_layer *layer[STREAMS] = {&l->m->text[index], &l->m->expert[index]};
    const int64_t length[STREAMS] = {sg_pi_prefix(l->m), sg_pi_suffix(l->m)};
    sg_tid q[STREAMS], k[STREAMS], v[STREAMS], gate[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        sg_module_begin(g, "%s", MODEL[i]);
        const sg_projections *p = &layer[i]->projections;
        sg_tid y = sg_gemma_normed(g, layer[i], l->x[i], l->condition[i], &gate[i]);
        q[i] = sg_project_heads(g, p, &p->query, y);
        k[i] = sg_project_heads(g, p, &p->key, y);
        v[i] = sg_project_heads(g, p, &p->value, y);
        sg_module_end(g);
    }
    sg_tid out = sg_gemma_attention_apply(g, &l->attention, STREAMS, q, k, v);
    int64_t start = 0;
    for (int i = 0; i < STREAMS; start += length[i], i++) {
        if (!is_used(g, l, i, index)) continue;
        sg_module_begin(g, "%s", MODEL[i]);
        sg_tid own = sg_slice(g, out, 1, start, length[i]);
        l->x[i] = sg_gemma_finish(g, layer[i], l->x[i], own, l->condition[i], gate[i]);
        sg_module_end(g);
    }
}

static void apply_norms(sg_graph *g, stack *l) {
    const sg_gemma_norm *norm[STREAMS] = {&l->m->text_norm, &l->m->expert_norm};
    for (int i = 0; i < STREAMS; i++) {
        sg_tid gate;
        if (i == PREFIX && !sg_graph_profile(g)->unused_results) continue;
        sg_module_begin(g, "%s", MODEL[i]);
        l->x[i] = sg_gemma_norm_apply(g, norm[i], l->x[i], l->condition[i], &gate);
        if (i == PREFIX) sg_hold_forward(g, l->x[i]); /* the result that nobody reads goes with the call's locals */
        sg_module_end(g);
    }
}

/* -> the expert's output [b, s, expert width] */
static sg_tid run_stack(sg_graph *g, stack *l) {
    sg_checkpoint_begin_if(g, l->m->nested);
    sg_module_begin(g, "paligemma_with_expert");
    for (int64_t i = 0; i < l->m->vla.layers; i++) {
        sg_checkpoint_begin_if(g, l->m->checkpoint);
        apply_layer(g, l, i);
        sg_checkpoint_end_if(g, l->m->checkpoint);
    }
    sg_checkpoint_begin_if(g, l->m->checkpoint);
    apply_norms(g, l);
    sg_checkpoint_end_if(g, l->m->checkpoint);
    sg_module_end(g);
    sg_checkpoint_end_if(g, l->m->nested);
    return l->x[SUFFIX];
}

static sg_tid join(sg_graph *g, sg_tid prefix, sg_tid suffix) {
    const sg_tid both[] = {prefix, suffix};
    return sg_cat(g, 2, both, 1);
}

/* ---- loss ---- */

static sg_tid loss_of(sg_graph *g, const sg_pi *m, sg_tid losses) {
    bool reads = sg_graph_profile(g)->reads_losses; /* LeRobot's loss per dimension and .item() for the log */
    sg_module_begin(g, "loss");
    losses = sg_slice(g, losses, 2, 0, m->vla.action);
    if (reads) sg_wait(g, sg_reduce(g, SG_FN_MEAN, losses, 3, false));
    sg_tid loss = sg_mean_all(g, losses);
    if (reads) sg_wait(g, loss);
    sg_module_end(g);
    return loss;
}

sg_tid sg_pi_forward(sg_graph *g, void *policy) {
    sg_pi *m = policy;
    sg_tid images[SG_LIMIT_CAMERAS], seen[SG_LIMIT_CAMERAS], state = SG_NO_TENSOR;
    for (int64_t i = 0; i < m->vla.cameras + m->blanks; i++) {
        images[i] = i < m->vla.cameras ? fit_image(g, m, m->vla.image[i]) : blank_image(g, m);
        sg_hold_forward(g, images[i]); /* a list of the forward names them all */
        seen[i] = flags(g, m->vla.batch, 1, i < m->vla.cameras);
    }
    if (!m->adaptive) state = sg_pad_features(g, m->vla.state_in, m->vla.max_state);
    sg_flow flow = sg_flow_make(g, sg_pad_features(g, m->vla.action_in, m->vla.max_action));
    sg_module_begin(g, "model");
    stream prefix = embed_prefix(g, m, images, seen), suffix = embed_suffix(g, m, state, &flow);
    stack l = {.m = m, .condition = {SG_NO_TENSOR, suffix.condition}};
    l.x[SUFFIX] = sg_to(g, suffix.embedded, m->vla.dtype);
    l.x[PREFIX] = sg_to(g, prefix.embedded, m->vla.dtype);
    sg_tid valid = join(g, prefix.valid, suffix.valid), starts = join(g, prefix.starts, suffix.starts);
    bool additive = sg_by_call(sg_graph_profile(g));
    sg_tid mask = sg_block_mask(g, starts, valid, additive), positions = sg_add_scalar(g, sg_cumsum(g, valid, 1), -1.0);
    l.attention = sg_gemma_attention_make(g, m->vla.text_config.head, positions, mask);
    sg_tid out = sg_slice(g, run_stack(g, &l), 1, sg_pi_suffix(m) - m->vla.chunk, m->vla.chunk);
    out = project(g, m, &m->vla.action_out_proj, sg_to(g, out, sg_float(g)));
    sg_module_end(g);
    return loss_of(g, m, sg_binary(g, SG_FN_SQUARED_DIFF, flow.target, out, 0));
}
