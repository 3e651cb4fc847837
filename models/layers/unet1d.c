/* unet1d.c: the conditional U-Net over sequences of actions that diffusion policies use. Module names are LeRobot's. */
#include "models/layers/unet1d.h"

#include "models/layers/position.h"

/* ---- parameters ---- */

static sg_film_block block_make(sg_graph *g, const char *name, const sg_unet1d_config *c, int64_t in, int64_t out,
                                sg_layer_style style) {
    sg_film_block block = {.name = sg_graph_text(g, "%s", name), .out = out, .scales = c->scales, .widens = in != out};
    sg_module_begin(g, "%s", name);
    block.first = sg_conv1d_block_make(g, "conv1", in, out, c->kernel, c->groups, style);
    block.condition =
        sg_linear_make(g, "cond_encoder.1", c->step_width + c->condition, c->scales ? 2 * out : out, true, style);
    block.second = sg_conv1d_block_make(g, "conv2", out, out, c->kernel, c->groups, style);
    if (block.widens) block.skip = sg_conv1d_make(g, "residual_conv", in, out, 1, 1, 0, style);
    sg_module_end(g);
    return block;
}

static sg_unet1d_stage stage_make(sg_graph *g, const char *name, const sg_unet1d_config *c, int64_t in, int64_t out,
                                  bool up, bool resizes, sg_layer_style style) {
    sg_unet1d_stage stage = {.name = sg_graph_text(g, "%s", name), .resizes = resizes};
    sg_module_begin(g, "%s", name);
    stage.block[0] = block_make(g, "0", c, in, out, style);
    stage.block[1] = block_make(g, "1", c, out, out, style);
    if (resizes)
        stage.resize = up ? sg_conv_transpose1d_make(g, "2", out, out, 4, 2, 1, style)
                          : sg_conv1d_make(g, "2", out, out, 3, 2, 1, style);
    sg_module_end(g);
    return stage;
}

void sg_unet1d_make(sg_graph *g, sg_unet1d *net, const char *name, const sg_unet1d_config *config,
                    sg_layer_style style) {
    const sg_unet1d_config *c = &net->config;
    net->config = *config;
    int last = c->stages - 1;
    sg_module_begin(g, "%s", name);
    net->step[0] = sg_linear_make(g, "diffusion_step_encoder.1", c->step_width, 4 * c->step_width, true, style);
    net->step[1] = sg_linear_make(g, "diffusion_step_encoder.3", 4 * c->step_width, c->step_width, true, style);
    for (int i = 0; i <= last; i++)
        net->down[i] = stage_make(g, sg_graph_text(g, "down_modules.%d", i), c, i ? c->width[i - 1] : c->in,
                                  c->width[i], false, i < last, style);
    for (int i = 0; i < 2; i++)
        net->middle[i] = block_make(g, sg_graph_text(g, "mid_modules.%d", i), c, c->width[last], c->width[last], style);
    for (int i = 0; i < last; i++) /* what comes from below and what went down side by side */
        net->up[i] = stage_make(g, sg_graph_text(g, "up_modules.%d", i), c, 2 * c->width[last - i],
                                c->width[last - i - 1], true, true, style);
    net->last = sg_conv1d_block_make(g, "final_conv.0", c->width[0], c->width[0], c->kernel, c->groups, style);
    net->out = sg_conv1d_make(g, "final_conv.1", c->width[0], c->in, 1, 1, 0, style);
    sg_module_end(g);
}

/* ---- forward ---- */

/* condition[b, ..] -> what scales and shifts [b, out, l], each [b, out, 1]. */
static sg_tid modulate(sg_graph *g, const sg_film_block *block, sg_tid x, sg_tid condition) {
    sg_module_begin(g, "%s", "cond_encoder");
    condition = sg_unary(g, SG_FN_MISH, condition, 0, 0);
    sg_module_end(g);
    sg_tid film = sg_unsqueeze(g, sg_linear_apply(g, &block->condition, condition), -1);
    if (!block->scales) return sg_add(g, x, film);
    sg_tid scale = sg_slice(g, film, 1, 0, block->out), shift = sg_slice(g, film, 1, block->out, block->out);
    return sg_add(g, sg_mul(g, scale, x), shift);
}

static sg_tid block_apply(sg_graph *g, const sg_film_block *block, sg_tid x, sg_tid condition) {
    sg_module_begin(g, "%s", block->name);
    sg_tid y = modulate(g, block, sg_conv1d_block_apply(g, &block->first, x), condition);
    y = sg_conv1d_block_apply(g, &block->second, y);
    y = sg_add(g, y, block->widens ? sg_conv1d_apply(g, &block->skip, x) : x);
    sg_module_end(g);
    return y;
}

static sg_tid blocks_apply(sg_graph *g, const sg_unet1d_stage *stage, sg_tid x, sg_tid condition) {
    return block_apply(g, &stage->block[1], block_apply(g, &stage->block[0], x, condition), condition);
}

static sg_tid resize(sg_graph *g, const sg_unet1d_stage *stage, sg_tid x) {
    return stage->resizes ? sg_conv1d_apply(g, &stage->resize, x) : x;
}

static sg_tid embed_step(sg_graph *g, const sg_unet1d *net, sg_tid step) {
    sg_tid x = sg_step_embedding(g, step, net->config.step_width);
    x = sg_unary(g, SG_FN_MISH, sg_linear_apply(g, &net->step[0], x), 0, 0);
    return sg_linear_apply(g, &net->step[1], x);
}

sg_tid sg_unet1d_apply(sg_graph *g, const sg_unet1d *net, const char *name, sg_tid x, sg_tid step, sg_tid condition) {
    int last = net->config.stages - 1;
    sg_tid skip[SG_UNET_MAX_STAGES];
    sg_module_begin(g, "%s", name);
    x = sg_transpose(g, x, 1, 2);
    sg_tid whole[] = {embed_step(g, net, step), condition};
    condition = sg_cat(g, 2, whole, -1);
    for (int i = 0; i <= last; i++) {
        sg_module_begin(g, "%s", net->down[i].name);
        skip[i] = x = blocks_apply(g, &net->down[i], x, condition);
        x = resize(g, &net->down[i], x);
        sg_module_end(g);
    }
    for (int i = 0; i < 2; i++) x = block_apply(g, &net->middle[i], x, condition);
    for (int i = 0; i < last; i++) {
        sg_module_begin(g, "%s", net->up[i].name);
        sg_tid both[] = {x, skip[last - i]};
        x = blocks_apply(g, &net->up[i], sg_cat(g, 2, both, 1), condition);
        x = resize(g, &net->up[i], x);
        sg_module_end(g);
    }
    x = sg_conv1d_apply(g, &net->out, sg_conv1d_block_apply(g, &net->last, x));
    sg_module_end(g);
    return sg_transpose(g, x, 1, 2);
}
