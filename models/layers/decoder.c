/* decoder.c: a Llama-style decoder layer without its attention. */
#include "models/layers/decoder.h"

static const double norm_eps = 1e-5; /* SmolLM2 */

sg_decoder_layer sg_decoder_make(sg_graph *g, const char *name, const sg_decoder_config *config, sg_layer_style style) {
    sg_decoder_layer layer;
    sg_module_begin(g, "%s", name);
    layer.projections = sg_projections_make(g, name, config, style);
    layer.input_norm = sg_rms_norm_make(g, "input_layernorm", config->width, norm_eps, style);
    layer.post_norm = sg_rms_norm_make(g, "post_attention_layernorm", config->width, norm_eps, style);
    sg_module_end(g);
    return layer;
}

sg_tid sg_decoder_normed(sg_graph *g, const sg_decoder_layer *layer, sg_tid x) {
    sg_module_begin(g, "%s", layer->projections.layer);
    x = sg_to(g, sg_rms_norm_apply(g, &layer->input_norm, x), layer->projections.dtype);
    sg_module_end(g);
    return x;
}

static sg_tid gated_mlp(sg_graph *g, const sg_decoder_layer *layer, sg_tid x) {
    sg_module_begin(g, "mlp");
    sg_tid gate = sg_unary(g, SG_FN_SILU, sg_linear_apply(g, &layer->projections.gate, x), 0, 0);
    sg_tid y =
        sg_linear_apply(g, &layer->projections.down, sg_mul(g, gate, sg_linear_apply(g, &layer->projections.up, x)));
    sg_module_end(g);
    return y;
}

sg_tid sg_decoder_finish(sg_graph *g, const sg_decoder_layer *layer, sg_tid x, sg_tid attended) {
    bool eager = sg_by_call(sg_graph_profile(g));
    sg_module_begin(g, "%s", layer->projections.layer);
    sg_tid out = sg_project_out(g, &layer->projections, attended);
    out = sg_binary_in_place(g, SG_FN_ADD, out, x, 1.0);
    sg_tid residual = eager ? sg_clone(g, out) : out;
    sg_tid y = gated_mlp(g, layer, sg_rms_norm_apply(g, &layer->post_norm, out));
    y = sg_binary_in_place(g, SG_FN_ADD, y, residual, 1.0);
    sg_module_end(g);
    return y;
}
