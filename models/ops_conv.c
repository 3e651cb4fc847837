/* ops_conv.c: convolutions over images and sequences, and transposed ones. */
#include "models/graph_state.h"
#include "models/ops.h"

bool sg_window_output(sg_graph *g, const sg_desc *x, const sg_window *window, int64_t *out) {
    for (int i = 0; i < 2; i++) {
        int64_t padded, kernel = window->kernel[i];
        int stride = window->stride[i], pad = window->pad[i];
        if (x->ndim != 4 || stride < 1 || pad < 0 ||
            __builtin_add_overflow(x->size[2 + i], 2 * (int64_t)pad, &padded) || padded < kernel || kernel < 1 ||
            kernel > INT32_MAX) {
            sg_graph_fail(g, SG_BAD_INPUT, "%s: a window of %lld elements does not fit its image (stride %d, pad %d)",
                          sg_graph_module_name(g), (long long)kernel, stride, pad);
            return false;
        }
        out[i] = (padded - kernel) / stride + 1;
    }
    return true;
}

sg_desc sg_desc_as_image(const sg_desc *x) {
    sg_desc out = *x;
    if (x->ndim != 3) return out;
    out.ndim = 4;
    out.size[2] = 1;
    out.size[3] = x->size[2];
    out.stride[2] = x->size[2] * x->stride[2];
    out.stride[3] = x->stride[2];
    return out;
}

static bool is_nhwc(const sg_desc *x) {
    return sg_desc_is_channels_last(x) && !sg_desc_is_contiguous(x);
}

static sg_attrs attrs_of(const sg_graph *g, const sg_window *window, sg_dtype dtype, sg_tid weight) {
    return (sg_attrs){.compute = (int32_t)sg_compute_of(&g->profile, dtype, true),
                      .flags = sg_is_weight(g, weight) ? SG_WEIGHT_B : 0,
                      .kernel = {(int32_t)window->kernel[0], (int32_t)window->kernel[1]},
                      .stride = {window->stride[0], window->stride[1]},
                      .pad = {window->pad[0], window->pad[1]}};
}

static sg_desc image_desc(sg_dtype dtype, bool channels_last, const int64_t *size) {
    return channels_last ? sg_desc_channels_last(dtype, size[0], size[1], size[2], size[3])
                         : sg_desc_make(dtype, 4, size);
}

/* ---- images ------------------------------------------------------------------------------------------------------ */

static sg_tid conv(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, sg_tid residual, sg_fn act, int stride, int pad) {
    const sg_desc in = *sg_graph_desc(g, x), w = *sg_graph_desc(g, weight);
    int64_t hw[2];
    if (w.ndim != 4) {
        sg_graph_fail(g, SG_BAD_INPUT, "conv2d: the weight must have 4 dims");
        return SG_NO_TENSOR;
    }
    const sg_window window = {{w.size[2], w.size[3]}, {stride, stride}, {pad, pad}};
    if (!sg_window_output(g, &in, &window, hw)) return SG_NO_TENSOR;
    sg_dtype dtype = (sg_dtype)in.dtype;
    bool channels_last = g->profile.channels_last || is_nhwc(&in) || is_nhwc(&w);
    sg_desc out = image_desc(dtype, channels_last, (const int64_t[]){in.size[0], w.size[0], hw[0], hw[1]});
    sg_attrs attrs = attrs_of(g, &window, dtype, weight);
    attrs.act = (int32_t)act;
    sg_tid operands[4] = {x, weight}, y;
    int n = 2;
    if (bias != SG_NO_TENSOR) {
        attrs.flags |= SG_HAS_BIAS;
        operands[n++] = bias;
    }
    if (residual != SG_NO_TENSOR) {
        attrs.flags |= SG_HAS_RESIDUAL;
        operands[n++] = residual;
    }
    sg_emit(g, SG_OP_CONV, &attrs, operands, n, &out, &y, 1);
    return y;
}

sg_tid sg_conv2d_fused(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, sg_tid residual, sg_fn act, int stride,
                       int pad) {
    x = sg_autocast_down(g, x);
    weight = sg_autocast_down(g, weight);
    if (bias != SG_NO_TENSOR) bias = sg_autocast_down(g, bias);
    if (!sg_graph_has(g, x) || !sg_graph_has(g, weight)) return SG_NO_TENSOR;
    const sg_tid operands[4] = {x, weight, bias, residual};
    bool fuse = g->profile.fused_activation, fused_act = sg_fuses_activation(g, act, sg_tracks(g, operands, 4));
    bool fused_residual = fuse && (act == SG_FN_NONE || fused_act);
    sg_tid y =
        conv(g, x, weight, bias, fused_residual ? residual : SG_NO_TENSOR, fused_act ? act : SG_FN_NONE, stride, pad);
    if (residual != SG_NO_TENSOR && !fused_residual) y = sg_binary_in_place(g, SG_FN_ADD, y, residual, 1);
    if (act == SG_FN_NONE || fused_act) return y;
    return sg_fn_saves_output(act) ? sg_unary_in_place(g, act, y, 0, 0) : sg_activate(g, y, act);
}

sg_tid sg_conv2d(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, int stride, int pad) {
    return sg_conv2d_fused(g, x, weight, bias, SG_NO_TENSOR, SG_FN_NONE, stride, pad);
}

/* ---- sequences --------------------------------------------------------------------------------------------------- */

static bool are_sequences(sg_graph *g, sg_tid x, sg_tid weight, int channel_dim, const char *call) {
    if (!sg_graph_has(g, x) || !sg_graph_has(g, weight)) return false;
    const sg_desc *in = sg_graph_desc(g, x), *w = sg_graph_desc(g, weight);
    if (in->ndim == 3 && w->ndim == 3 && in->size[1] == w->size[channel_dim]) return true;
    sg_graph_fail(g, SG_BAD_INPUT, "%s in %s: x and weight must have 3 dims and fit in channels", call,
                  sg_graph_module_name(g));
    return false;
}

/* The op sees images of height 1, the tensor made is a sequence. */
static sg_tid record_sequence(sg_graph *g, sg_op_kind kind, const sg_attrs *attrs, const sg_tid *in, int n_in,
                              const int64_t *size) {
    sg_desc in_desc[3], out = sg_desc_make(sg_graph_dtype(g, in[0]), 3, size), out_image = sg_desc_as_image(&out);
    for (int i = 0; i < n_in; i++) in_desc[i] = sg_desc_as_image(sg_graph_desc(g, in[i]));
    sg_record record = {.kind = kind,
                        .attrs = attrs,
                        .n_in = n_in,
                        .n_out = 1,
                        .in = in,
                        .in_desc = in_desc,
                        .out_desc = &out_image,
                        .out_tensor = &out,
                        .rule = SG_RULE_OP};
    sg_tid y = SG_NO_TENSOR;
    (void)sg_graph_record(g, &record, &y);
    return y;
}

sg_tid sg_conv1d(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, int stride, int pad) {
    x = sg_autocast_down(g, x);
    weight = sg_autocast_down(g, weight);
    if (bias != SG_NO_TENSOR) bias = sg_autocast_down(g, bias);
    x = sg_contiguous(g, x);
    if (!are_sequences(g, x, weight, 1, "conv1d")) return SG_NO_TENSOR;
    const sg_desc in = sg_desc_as_image(sg_graph_desc(g, x)), w = *sg_graph_desc(g, weight);
    const sg_window window = {{1, w.size[2]}, {1, stride}, {0, pad}};
    int64_t hw[2];
    if (!sg_window_output(g, &in, &window, hw)) return SG_NO_TENSOR;
    sg_attrs attrs = attrs_of(g, &window, (sg_dtype)in.dtype, weight);
    if (bias != SG_NO_TENSOR) attrs.flags |= SG_HAS_BIAS;
    const sg_tid operands[] = {x, weight, bias};
    const int64_t size[] = {in.size[0], w.size[0], hw[1]};
    return record_sequence(g, SG_OP_CONV, &attrs, operands, bias == SG_NO_TENSOR ? 2 : 3, size);
}

sg_tid sg_conv_transpose1d(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, int stride, int pad) {
    x = sg_autocast_down(g, x);
    weight = sg_autocast_down(g, weight);
    if (bias != SG_NO_TENSOR) bias = sg_autocast_down(g, bias);
    x = sg_contiguous(g, x);
    if (!are_sequences(g, x, weight, 0, "conv_transpose1d")) return SG_NO_TENSOR;
    const sg_desc in = *sg_graph_desc(g, x), w = *sg_graph_desc(g, weight);
    int64_t length = (in.size[2] - 1) * stride - 2 * (int64_t)pad + w.size[2];
    if (stride < 1 || pad < 0 || length < 1 || w.size[2] > INT32_MAX) {
        sg_graph_fail(g, SG_BAD_INPUT, "conv_transpose1d in %s: nothing is left of its output (stride %d, pad %d)",
                      sg_graph_module_name(g), stride, pad);
        return SG_NO_TENSOR;
    }
    const sg_window window = {{1, w.size[2]}, {1, stride}, {0, pad}};
    sg_attrs attrs = attrs_of(g, &window, (sg_dtype)in.dtype, weight);
    const int64_t size[] = {in.size[0], w.size[1], length};
    sg_tid y = record_sequence(g, SG_OP_CONV_BWD_DATA, &attrs, (const sg_tid[]){x, weight}, 2, size);
    if (bias == SG_NO_TENSOR) return y;
    sg_tid column = sg_view(g, bias, 2, (const int64_t[]){-1, 1});
    sg_same_dispatch(g);
    return sg_binary_in_place(g, SG_FN_ADD, y, column, 1);
}
