/* gemma.c: a Gemma decoder layer without its attention. */
#include "models/layers/gemma.h"

static const double norm_eps = 1e-6; /* Gemma */

static bool is_eager(const sg_graph *g) {
    return sg_by_call(sg_graph_profile(g));
}

/* ---- norms ---- */

sg_gemma_norm sg_gemma_norm_make(sg_graph *g, const char *name, int64_t width, int64_t condition,
                                 sg_layer_style style) {
    sg_gemma_norm norm = {.name = sg_graph_text(g, "%s", name), .weight = SG_NO_TENSOR};
    sg_module_begin(g, "%s", name);
    if (condition > 0)
        norm.dense = sg_linear_make(g, "dense", condition, 3 * width, true, style);
    else
        norm.weight = sg_param_constant(g, "weight", 1, &width, 0.0, style);
    sg_module_end(g);
    return norm;
}

/* x / sqrt(mean(x^2) + eps) in fp32: pow, mean, add, rsqrt and multiply, behind a cast where x is narrower. */
static sg_tid scaled_to_one(sg_graph *g, sg_tid x) {
    sg_tid square = sg_unary(g, SG_FN_SQUARE, sg_to(g, x, SG_F32), 0, 0);
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    sg_tid variance = sg_reduce(g, SG_FN_MEAN, square, 1u << (sg_desc_of(g, x)->ndim - 1), true);
    return sg_mul(g, x, sg_unary(g, SG_FN_RSQRT, sg_add_scalar(g, variance, norm_eps), 0, 0));
}

static sg_tid norm_by_condition(sg_graph *g, const sg_gemma_norm *norm, sg_tid x, sg_tid condition, sg_tid *gate) {
    sg_dtype dtype = (sg_dtype)sg_desc_of(g, x)->dtype;
    sg_tid normed = scaled_to_one(g, x), part[3];
    sg_tid modulation = sg_unsqueeze(g, sg_linear_apply(g, &norm->dense, condition), 1);
    sg_chunk(g, modulation, -1, 3, part);
    normed = sg_mul(g, normed, sg_add_scalar(g, sg_to(g, part[0], SG_F32), 1.0));
    normed = sg_add(g, normed, sg_to(g, part[1], SG_F32));
    normed = sg_to(g, normed, dtype);
    *gate = sg_to(g, part[2], dtype);
    return normed;
}

static sg_tid norm_by_weight(sg_graph *g, const sg_gemma_norm *norm, sg_tid x) {
    sg_dtype dtype = (sg_dtype)sg_desc_of(g, x)->dtype;
    if (sg_graph_profile(g)->fused_norms) {
        sg_tid weight = sg_to(g, sg_add_scalar(g, norm->weight, 1.0), dtype);
        return sg_rms_norm(g, x, weight, norm_eps);
    }
    sg_tid normed = scaled_to_one(g, x);
    sg_tid weight = sg_add_scalar(g, sg_to(g, norm->weight, SG_F32), 1.0);
    return sg_to(g, sg_mul(g, normed, weight), dtype);
}

sg_tid sg_gemma_norm_apply(sg_graph *g, const sg_gemma_norm *norm, sg_tid x, sg_tid condition, sg_tid *gate) {
    *gate = SG_NO_TENSOR;
    if (sg_graph_failed(g)) return SG_NO_TENSOR;
    sg_module_begin(g, "%s", norm->name);
    sg_tid y =
        norm->weight == SG_NO_TENSOR ? norm_by_condition(g, norm, x, condition, gate) : norm_by_weight(g, norm, x);
    sg_module_end(g);
    return y;
}

/* ---- layer ---- */

sg_gemma_layer sg_gemma_make(sg_graph *g, const char *name, const sg_decoder_config *config, int64_t condition,
                             sg_layer_style style, sg_layer_style norm_style) {
    sg_gemma_layer layer;
    sg_module_begin(g, "%s", name);
    layer.projections = sg_projections_make(g, name, config, style);
    layer.input_norm = sg_gemma_norm_make(g, "input_layernorm", config->width, condition, norm_style);
    layer.post_norm = sg_gemma_norm_make(g, "post_attention_layernorm", config->width, condition, norm_style);
    sg_module_end(g);
    return layer;
}

sg_tid sg_gemma_normed(sg_graph *g, const sg_gemma_layer *layer, sg_tid x, sg_tid condition, sg_tid *gate) {
    sg_module_begin(g, "%s", layer->projections.layer);
    x = sg_to(g, sg_gemma_norm_apply(g, &layer->input_norm, x, condition, gate), layer->projections.dtype);
    sg_module_end(g);
    return x;
}

static sg_tid gated_mlp(sg_graph *g, const sg_gemma_layer *layer, sg_tid x) {
    sg_module_begin(g, "mlp");
    sg_tid gate = sg_linear_apply_act(g, &layer->projections.gate, x, SG_FN_GELU_TANH);
    sg_tid up = sg_linear_apply(g, &layer->projections.up, x);
    sg_tid y = sg_linear_apply(g, &layer->projections.down, sg_mul(g, gate, up));
    sg_module_end(g);
    return y;
}

static sg_tid add_residual(sg_graph *g, sg_tid x, sg_tid y, sg_tid gate) {
    return sg_add(g, x, gate == SG_NO_TENSOR ? y : sg_mul(g, y, gate));
}

sg_tid sg_gemma_finish(sg_graph *g, const sg_gemma_layer *layer, sg_tid x, sg_tid attended, sg_tid condition,
                       sg_tid gate) {
    sg_tid post_gate;
    sg_module_begin(g, "%s", layer->projections.layer);
    sg_tid out = sg_project_out(g, &layer->projections, attended);
    out = add_residual(g, x, out, gate);
    sg_tid residual = is_eager(g) ? sg_clone(g, out) : out;
    sg_tid y = sg_gemma_norm_apply(g, &layer->post_norm, out, condition, &post_gate);
    y = add_residual(g, residual, gated_mlp(g, layer, sg_to(g, y, layer->projections.dtype)), post_gate);
    sg_module_end(g);
    return y;
}
