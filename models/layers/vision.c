/* vision.c: SigLIP's vision tower over image patches, and the connector that hands its tokens to a language model. */
#include "models/layers/vision.h"

#include <math.h>
#include <stdlib.h>

static const double norm_eps = 1e-6; /* SigLIP */

static int64_t patches(const sg_vision_config *config) {
    int64_t per_side = config->side / config->patch;
    return per_side * per_side;
}

/* ---- parameters ---- */

static sg_vision_layer layer_make(sg_graph *g, const sg_vision_config *config, int64_t index, sg_layer_style style) {
    int64_t width = config->width;
    sg_vision_layer layer = {.name = sg_graph_text(g, "layers.%lld", (long long)index)};
    sg_module_begin(g, "%s", layer.name);
    sg_module_begin(g, "self_attn");
    layer.key = sg_linear_make(g, "k_proj", width, width, true, style);
    layer.value = sg_linear_make(g, "v_proj", width, width, true, style);
    layer.query = sg_linear_make(g, "q_proj", width, width, true, style);
    layer.out = sg_linear_make(g, "out_proj", width, width, true, style);
    sg_module_end(g);
    layer.norm1 = sg_layer_norm_make(g, "layer_norm1", width, norm_eps, style);
    sg_module_begin(g, "mlp");
    layer.up = sg_linear_make(g, "fc1", width, config->feedforward, true, style);
    layer.down = sg_linear_make(g, "fc2", config->feedforward, width, true, style);
    sg_module_end(g);
    layer.norm2 = sg_layer_norm_make(g, "layer_norm2", width, norm_eps, style);
    sg_module_end(g);
    return layer;
}

static void embeddings_make(sg_graph *g, sg_vision *vision, sg_layer_style style) {
    const sg_vision_config *config = &vision->config;
    double fan_in = 3.0 * (double)config->patch * (double)config->patch;
    sg_module_begin(g, "embeddings");
    sg_module_begin(g, "patch_embedding");
    sg_param_spec spec = {.dtype = style.dtype,
                          .frozen = style.frozen,
                          .channels_last = sg_graph_profile(g)->channels_last,
                          .init = SG_INIT_UNIFORM,
                          .scale = 1.0 / sqrt(fan_in)};
    vision->patch_weight = sg_param(g, "weight", 4, (int64_t[]){config->width, 3, config->patch, config->patch}, spec);
    vision->patch_bias = sg_param(g, "bias", 1, &config->width, spec);
    sg_module_end(g);
    sg_module_begin(g, "position_embedding");
    vision->position = sg_param_normal(g, "weight", 2, (int64_t[]){patches(config), config->width}, 0.02, style);
    sg_module_end(g);
    sg_module_end(g);
}

void sg_vision_make(sg_graph *g, sg_vision *vision, const sg_vision_config *config, sg_layer_style style) {
    vision->config = *config;
    vision->layers = sg_layers_alloc(g, config->layers, sizeof *vision->layers);
    if (!vision->layers) return;
    embeddings_make(g, vision, style);
    sg_module_begin(g, "encoder");
    for (int64_t i = 0; i < config->layers; i++) vision->layers[i] = layer_make(g, config, i, style);
    sg_module_end(g);
    vision->norm = sg_layer_norm_make(g, "post_layernorm", config->width, norm_eps, style);
}

void sg_vision_free(sg_vision *vision) {
    free(vision->layers);
    vision->layers = NULL;
}

/* ---- forward ---- */

/* [b, n, width] -> [b, heads, n, width / heads] */
static sg_tid split_heads(sg_graph *g, const sg_vision_config *config, const int64_t *size, sg_tid x) {
    const int64_t heads[] = {size[0], size[1], config->heads, config->width / config->heads};
    return sg_transpose(g, sg_view(g, x, 4, heads), 1, 2);
}

static sg_tid self_attention(sg_graph *g, const sg_vision_layer *layer, const sg_vision_config *config, sg_tid x) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const int64_t size[] = {sg_desc_of(g, x)->size[0], sg_desc_of(g, x)->size[1], config->width};
    sg_module_begin(g, "self_attn");
    sg_tid q = split_heads(g, config, size, sg_linear_apply(g, &layer->query, x));
    sg_tid k = split_heads(g, config, size, sg_linear_apply(g, &layer->key, x));
    sg_tid v = split_heads(g, config, size, sg_linear_apply(g, &layer->value, x));
    sg_tid y = sg_transpose(g, sg_attention(g, q, k, v, SG_NO_TENSOR), 1, 2);
    y = sg_linear_apply(g, &layer->out, sg_reshape(g, y, 3, size));
    sg_module_end(g);
    return y;
}

static sg_tid layer_apply(sg_graph *g, const sg_vision_layer *layer, const sg_vision_config *config, sg_tid x) {
    sg_module_begin(g, "%s", layer->name);
    x = sg_add(g, x, self_attention(g, layer, config, sg_layer_norm_apply(g, &layer->norm1, x)));
    sg_tid y = sg_layer_norm_apply(g, &layer->norm2, x);
    sg_module_begin(g, "mlp");
    y = sg_linear_apply_act(g, &layer->up, y, SG_FN_GELU_TANH);
    y = sg_linear_apply(g, &layer->down, y);
    sg_module_end(g);
    x = sg_add(g, x, y);
    sg_module_end(g);
    return x;
}

/* Patches as rows of a matrix: a convolution whose windows do not overlap is one product. Channels last: a patch's
 * elements and a filter's lie in the same order, and only the patches' rows are brought together. -> [b, n, width] */
static sg_tid patch_product(sg_graph *g, const sg_vision *vision, sg_tid image, int64_t batch) {
    const sg_vision_config *config = &vision->config;
    int64_t patch = config->patch, side = config->side / patch, row = 3 * patch * patch;
    sg_tid x = sg_permute(g, image, (int[]){0, 2, 3, 1});
    x = sg_view(g, x, 6, (int64_t[]){batch, side, patch, side, patch, 3});
    x = sg_reshape(g, sg_permute(g, x, (int[]){0, 1, 3, 2, 4, 5}), 3, (int64_t[]){batch, side * side, row});
    sg_tid filters = sg_permute(g, vision->patch_weight, (int[]){0, 2, 3, 1});
    return sg_linear(g, x, sg_view(g, filters, 2, (int64_t[]){config->width, row}), vision->patch_bias);
}

static sg_tid patch_convolution(sg_graph *g, const sg_vision *vision, sg_tid image, int64_t batch) {
    const sg_vision_config *config = &vision->config;
    sg_tid x = sg_conv2d(g, image, vision->patch_weight, vision->patch_bias, (int)config->patch, 0);
    x = sg_view(g, x, 3, (int64_t[]){batch, config->width, patches(config)});
    return sg_transpose(g, x, 1, 2);
}

static sg_tid embed(sg_graph *g, const sg_vision *vision, sg_tid image) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    int64_t batch = sg_desc_of(g, image)->size[0];
    bool channels_last = sg_graph_profile(g)->channels_last;
    sg_module_begin(g, "embeddings");
    sg_tid x = channels_last ? patch_product(g, vision, image, batch) : patch_convolution(g, vision, image, batch);
    sg_tid position = vision->position;
    if (sg_graph_profile(g)->unused_results) /* looked up by 0, 1, 2 ... : the rows as they are */
        position = sg_embedding(g, position, sg_arange(g, SG_I64, 0, 1, patches(&vision->config)));
    x = sg_add(g, x, position);
    sg_module_end(g);
    return x;
}

sg_tid sg_vision_apply(sg_graph *g, const sg_vision *vision, sg_tid image) {
    sg_tid x = embed(g, vision, image);
    sg_module_begin(g, "encoder");
    for (int64_t i = 0; i < vision->config.layers; i++) {
        sg_checkpoint_begin_if(g, vision->config.checkpoint);
        x = layer_apply(g, &vision->layers[i], &vision->config, x);
        sg_checkpoint_end_if(g, vision->config.checkpoint);
    }
    sg_module_end(g);
    return sg_layer_norm_apply(g, &vision->norm, x);
}

sg_tid sg_pixel_shuffle(sg_graph *g, sg_tid x, int64_t scale) {
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    const sg_desc *in = sg_desc_of(g, x);
    int64_t batch = in->size[0], width = in->size[2], side = llround(sqrt((double)in->size[1])), few = side / scale;
    x = sg_view(g, x, 4, (int64_t[]){batch, side, few, width * scale});
    x = sg_permute(g, x, (int[]){0, 2, 1, 3});
    x = sg_reshape(g, x, 4, (int64_t[]){batch, few, few, width * scale * scale});
    x = sg_permute(g, x, (int[]){0, 2, 1, 3});
    return sg_reshape(g, x, 3, (int64_t[]){batch, few * few, width * scale * scale});
}
