/* optimizer.c: lists of tensors: functions of tuples, and AdamW. */
#include "tests/reference/kinds.h"

#include <float.h>
#include <math.h>

sg_code ref_FOREACH(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    sg_fn fn = (sg_fn)attrs->fn;
    int n = attrs->count;
    bool scalar = ref_flag(call, SG_SCALAR_TENSOR);
    double alpha = scalar ? call->in[call->op->n_in - 1][0] : ref_alpha(attrs, call->launch);
    for (int t = 0; t < n; t++)
        for (int64_t i = 0, count = sg_desc_count(ref_out(call, t)); i < count; i++) {
            const double *const *in = call->in + t;
            double *w = &call->out[t][i];
            switch (sg_fn_arity(fn)) {
            case 1: *w = ref_unary_value(fn, in[0][i], alpha, attrs->beta); break;
            case 2: *w = ref_binary_value(fn, in[0][i], in[n][i], alpha); break;
            default: *w = ref_ternary_value(fn, in[0][i], in[n][i], in[2 * n][i], alpha, attrs->beta);
            }
        }
    return SG_OK;
}

/* PyTorch, ATen/native/cuda/AmpKernels.cu: _amp_foreach_non_finite_check_and_unscale_, _amp_update_scale_. */
sg_code ref_AMP_UNSCALE(const ref_call *call) {
    int n = call->op->attrs.count;
    double inverse = call->in[n + 1][0];
    call->out[n][0] = call->in[n][0];
    for (int t = 0; t < n; t++)
        for (int64_t i = 0, count = sg_desc_count(ref_in(call, t)); i < count; i++) {
            if (!isfinite(call->in[t][i])) call->out[n][0] = 1;
            call->out[t][i] = call->in[t][i] * inverse;
        }
    return SG_OK;
}

sg_code ref_AMP_UPDATE(const ref_call *call) {
    const sg_attrs *a = &call->op->attrs;
    double scale = call->in[0][0], steps = call->in[1][0] + 1;
    bool found = call->in[2][0] != 0, grows = !found && steps == a->count;
    call->out[1][0] = found || grows ? 0 : steps;
    if (found) scale *= a->beta;
    if (grows && scale * a->alpha <= FLT_MAX) scale *= a->alpha;
    call->out[0][0] = scale;
    return SG_OK;
}

/* Loshchilov & Hutter, "Decoupled weight decay regularization", algorithm 2, as PyTorch orders it. */
sg_code ref_ADAMW(const ref_call *call) {
    const sg_attrs *a = &call->op->attrs;
    int n = a->count;
    double step = (double)call->launch->step;
    double correction1 = 1 - pow(a->beta1, step), correction2 = 1 - pow(a->beta2, step);
    for (int t = 0; t < n; t++)
        for (int64_t i = 0, count = sg_desc_count(ref_in(call, t)); i < count; i++) {
            double p = call->in[t][i], g = call->in[n + t][i];
            if (ref_flag(call, SG_COUPLED_DECAY)) g += a->weight_decay * p;
            double m = a->beta1 * call->in[2 * n + t][i] + (1 - a->beta1) * g;
            double v = a->beta2 * call->in[3 * n + t][i] + (1 - a->beta2) * g * g;
            if (!ref_flag(call, SG_COUPLED_DECAY)) p *= 1 - a->lr * a->weight_decay;
            call->out[t][i] = p - a->lr * (m / correction1) / (sqrt(v / correction2) + a->eps);
            call->out[n + t][i] = m;
            call->out[2 * n + t][i] = v;
        }
    return SG_OK;
}
