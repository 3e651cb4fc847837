/* decoder.c: a Llama-style decoder layer without its attention. */
#include "models/layers/decoder.h"

static const double norm_eps = 1e-5; /* SmolLM2 */

sg_decoder_layer sg_decoder_make(sg_graph *g, const char *name, const sg_decoder_config *config, sg_layer_style style) {
    sg_decoder_layer layer = {.name = sg_graph_text(g, "%s", name), .head = config->head, .dtype = style.dtype};
    int64_t inner = config->heads * config->head, kv_inner = config->kv_heads * config->head;
    sg_module_begin(g, "%s", name);
    sg_module_begin(g, "self_attn");
    layer.query = sg_linear_make(g, "q_proj", config->width, inner, false, style);
    layer.key = sg_linear_make(g, "k_proj", config->kv_width, kv_inner, false, style);
    layer.value = sg_linear_make(g, "v_proj", config->kv_width, kv_inner, false, style);
    layer.out = sg_linear_make(g, "o_proj", inner, config->width, false, style);
    sg_module_end(g);
    sg_module_begin(g, "mlp");
    layer.gate = sg_linear_make(g, "gate_proj", config->width, config->feedforward, false, style);
    layer.up = sg_linear_make(g, "up_proj", config->width, config->feedforward, false, style);
    layer.down = sg_linear_make(g, "down_proj", config->feedforward, config->width, false, style);
    sg_module_end(g);
    layer.input_norm = sg_rms_norm_make(g, "input_layernorm", config->width, norm_eps, style);
    layer.post_norm = sg_rms_norm_make(g, "post_attention_layernorm", config->width, norm_eps, style);
    sg_module_end(g);
    return layer;
}

sg_tid sg_decoder_normed(sg_graph *g, const sg_decoder_layer *layer, sg_tid x) {
    sg_module_begin(g, "%s", layer->name);
    x = sg_to(g, sg_rms_norm_apply(g, &layer->input_norm, x), layer->dtype);
    sg_module_end(g);
    return x;
}

sg_tid sg_decoder_project(sg_graph *g, const sg_decoder_layer *layer, const sg_linear_layer *projection, sg_tid x) {
    sg_module_begin(g, "%s", layer->name);
    sg_module_begin(g, "self_attn");
    sg_tid y = sg_linear_apply(g, projection, x);
    if (!sg_graph_failed(g)) {
        const sg_desc shape = *sg_desc_of(g, y);
        y = sg_view(g, y, 4, (int64_t[]){shape.size[0], shape.size[1], shape.size[2] / layer->head, layer->head});
    }
    sg_module_end(g);
    sg_module_end(g);
    return y;
}

static sg_tid gated_mlp(sg_graph *g, const sg_decoder_layer *layer, sg_tid x) {
    sg_module_begin(g, "mlp");
    sg_tid gate = sg_unary(g, SG_FN_SILU, sg_linear_apply(g, &layer->gate, x), 0, 0);
    sg_tid y = sg_linear_apply(g, &layer->down, sg_mul(g, gate, sg_linear_apply(g, &layer->up, x)));
    sg_module_end(g);
    return y;
}

sg_tid sg_decoder_finish(sg_graph *g, const sg_decoder_layer *layer, sg_tid x, sg_tid attended) {
    bool eager = sg_by_call(sg_graph_profile(g));
    sg_module_begin(g, "%s", layer->name);
    sg_module_begin(g, "self_attn");
    sg_tid out = sg_linear_apply(g, &layer->out, sg_to(g, attended, layer->dtype));
    sg_module_end(g);
    out = sg_binary_in_place(g, SG_FN_ADD, out, x, 1.0);
    sg_tid residual = eager ? sg_clone(g, out) : out;
    sg_tid y = gated_mlp(g, layer, sg_rms_norm_apply(g, &layer->post_norm, out));
    y = sg_binary_in_place(g, SG_FN_ADD, y, residual, 1.0);
    sg_module_end(g);
    return y;
}
