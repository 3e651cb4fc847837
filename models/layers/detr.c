/* detr.c: the encoder and decoder layers of ACT (DETR's), post-norm unless asked otherwise. */
#include "models/layers/detr.h"

sg_detr_layer sg_detr_layer_make(sg_graph *g, const char *name, const sg_detr_config *config, bool cross,
                                 sg_layer_style style) {
    sg_detr_layer layer = {.name = sg_graph_text(g, "%s", name), .cross = cross};
    int64_t width = config->width;
    sg_module_begin(g, "%s", name);
    layer.self_attention = sg_mha_make(g, "self_attn", width, config->heads, config->dropout, style);
    if (cross) layer.cross_attention = sg_mha_make(g, "multihead_attn", width, config->heads, config->dropout, style);
    layer.linear1 = sg_linear_make(g, "linear1", width, config->feedforward, true, style);
    layer.linear2 = sg_linear_make(g, "linear2", config->feedforward, width, true, style);
    static const char *const names[] = {"norm1", "norm2", "norm3"};
    for (int i = 0; i < (cross ? 3 : 2); i++) layer.norm[i] = sg_layer_norm_make(g, names[i], width, 1e-5, style);
    sg_module_end(g);
    return layer;
}

static sg_tid with_position(sg_graph *g, sg_tid x, sg_tid position) {
    return position == SG_NO_TENSOR ? x : sg_add(g, x, position);
}

/* skip + dropout(x), normed behind where post-norm. */
static sg_tid join(sg_graph *g, const sg_detr_config *config, const sg_norm_layer *norm, sg_tid skip, sg_tid x) {
    x = sg_dropout(g, x, config->dropout, sg_token_batch_dim(g), 1);
    x = sg_batch_first(g) ? sg_binary_in_place(g, SG_FN_ADD, x, skip, 1.0) : sg_add(g, skip, x);
    return config->pre_norm ? x : sg_layer_norm_apply(g, norm, x);
}

static sg_tid before(sg_graph *g, const sg_detr_config *config, const sg_norm_layer *norm, sg_tid x) {
    return config->pre_norm ? sg_layer_norm_apply(g, norm, x) : x;
}

static sg_tid self_block(sg_graph *g, const sg_detr_layer *layer, const sg_detr_config *config, sg_tid x,
                         sg_tid position, sg_tid padding) {
    sg_tid y = before(g, config, &layer->norm[0], x), query = with_position(g, y, position);
    y = sg_mha_apply(g, &layer->self_attention, query, query, y, padding);
    return join(g, config, &layer->norm[0], x, y);
}

static sg_tid feedforward_block(sg_graph *g, const sg_detr_layer *layer, const sg_detr_config *config,
                                const sg_norm_layer *norm, sg_tid x) {
    sg_tid y = sg_linear_apply_act(g, &layer->linear1, before(g, config, norm, x), config->activation);
    y = sg_linear_apply(g, &layer->linear2, sg_dropout(g, y, config->dropout, sg_token_batch_dim(g), 1));
    return join(g, config, norm, x, y);
}

sg_tid sg_detr_encoder_apply(sg_graph *g, const sg_detr_layer *layer, const sg_detr_config *config, sg_tid x,
                             sg_tid position, sg_tid padding) {
    sg_module_begin(g, "%s", layer->name);
    x = self_block(g, layer, config, x, position, padding);
    x = feedforward_block(g, layer, config, &layer->norm[1], x);
    sg_module_end(g);
    return x;
}

sg_tid sg_detr_encoder_first(sg_graph *g, const sg_detr_layer *layer, const sg_detr_config *config, sg_tid x,
                             sg_tid position, sg_tid padding) {
    sg_module_begin(g, "%s", layer->name);
    sg_tid value = before(g, config, &layer->norm[0], x), key = with_position(g, value, position);
    sg_tid y = sg_mha_apply(g, &layer->self_attention, sg_slice(g, key, 1, 0, 1), key, value, padding);
    x = join(g, config, &layer->norm[0], sg_slice(g, x, 1, 0, 1), y);
    x = feedforward_block(g, layer, config, &layer->norm[1], x);
    sg_module_end(g);
    return x;
}

sg_tid sg_detr_decoder_apply(sg_graph *g, const sg_detr_layer *layer, const sg_detr_config *config, sg_tid x,
                             sg_tid memory, sg_tid position, sg_tid memory_position) {
    sg_module_begin(g, "%s", layer->name);
    x = self_block(g, layer, config, x, position, SG_NO_TENSOR);
    sg_tid query = with_position(g, before(g, config, &layer->norm[1], x), position);
    sg_tid key = with_position(g, memory, memory_position);
    sg_tid y = sg_mha_apply(g, &layer->cross_attention, query, key, memory, SG_NO_TENSOR);
    x = join(g, config, &layer->norm[1], x, y);
    x = feedforward_block(g, layer, config, &layer->norm[2], x);
    sg_module_end(g);
    return x;
}
