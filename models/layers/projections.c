/* projections.c: the matrices of a decoder layer with few key heads and a gated MLP. */
#include "models/layers/projections.h"

sg_projections sg_projections_make(sg_graph *g, const char *layer, const sg_decoder_config *config,
                                   sg_layer_style style) {
    sg_projections p = {.layer = sg_graph_text(g, "%s", layer), .head = config->head, .dtype = style.dtype};
    int64_t inner = config->heads * config->head, kv_inner = config->kv_heads * config->head;
    sg_module_begin(g, "self_attn");
    p.query = sg_linear_make(g, "q_proj", config->width, inner, false, style);
    p.key = sg_linear_make(g, "k_proj", config->kv_width, kv_inner, false, style);
    p.value = sg_linear_make(g, "v_proj", config->kv_width, kv_inner, false, style);
    p.out = sg_linear_make(g, "o_proj", inner, config->width, false, style);
    sg_module_end(g);
    sg_module_begin(g, "mlp");
    p.gate = sg_linear_make(g, "gate_proj", config->width, config->feedforward, false, style);
    p.up = sg_linear_make(g, "up_proj", config->width, config->feedforward, false, style);
    p.down = sg_linear_make(g, "down_proj", config->feedforward, config->width, false, style);
    sg_module_end(g);
    return p;
}

sg_tid sg_project_heads(sg_graph *g, const sg_projections *p, const sg_linear_layer *projection, sg_tid x) {
    sg_module_begin(g, "%s", p->layer);
    sg_module_begin(g, "self_attn");
    sg_tid y = sg_linear_apply(g, projection, x);
    if (!sg_graph_failed(g)) {
        const sg_desc shape = *sg_desc_of(g, y);
        y = sg_view(g, y, 4, (int64_t[]){shape.size[0], shape.size[1], shape.size[2] / p->head, p->head});
    }
    sg_module_end(g);
    sg_module_end(g);
    return y;
}

sg_tid sg_project_out(sg_graph *g, const sg_projections *p, sg_tid attended) {
    sg_module_begin(g, "self_attn");
    sg_tid out = sg_linear_apply(g, &p->out, sg_to(g, attended, p->dtype));
    sg_module_end(g);
    return out;
}
