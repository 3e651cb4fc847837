/* conv.c: CONV, CONV_BWD_DATA and CONV_BWD_WEIGHTS: chooses how, and does what surrounds it.
 *
 * cuDNN computes what it has a plan for. The rest is written out and multiplied (conv_gemm.c): where cuDNN is missing, where
 * dtypes differ or products are to be formed in another precision than the tensors', and for 16-bit results with addends or
 * activation, which cuDNN would round before they are added. */
#include "kernels/cuda/conv.h"
#include "kernels/cuda/epilogue.h"

#include <stdlib.h>

enum { INPUTS = 2 };

/* An input in another memory format than the convolution's is copied to the workspace, as PyTorch makes it contiguous. */
typedef struct input {
    sg_plan *copy; /* NULL: read where it lies */
    uint64_t offset;
} input;

typedef struct conv {
    sg_cuda_window window;
    input input[INPUTS];
    sg_cuda_dnn_plan *dnn; /* NULL: unfold */
    sg_cuda_unfold *unfold;
    uint64_t inner_offset; /* of their workspace */
    bool staged;           /* the result goes to the workspace first */
    uint64_t result_offset;
    bool finishes;
    sg_epilogue epilogue;
    sg_plan *bias_sum; /* db */
    uint64_t bias_sum_offset;
} conv;

/* Which of window.x, .w, .y the op's inputs and its output are. */
typedef struct roles {
    int input[INPUTS], result; /* 0 x, 1 w, 2 y */
} roles;

static roles roles_of(int32_t kind) {
    if (kind == SG_OP_CONV) return (roles){{0, 1}, 2};
    return kind == SG_OP_CONV_BWD_DATA ? (roles){{2, 1}, 0} : (roles){{2, 0}, 1};
}

static sg_desc *tensor(sg_cuda_window *window, int role) {
    return role == 0 ? &window->x : role == 1 ? &window->w : &window->y;
}

/* ---- launch -------------------------------------------------------------------------------------------------------------- */

static sg_code run_conv(const sg_call *call) {
    const sg_plan *plan = call->plan;
    const conv *c = plan->state;
    roles r = roles_of(plan->op.kind);
    void *at[3], *out = sg_out_at(call, 0);
    char *inner = call->workspace + c->inner_offset;
    sg_code code = SG_OK;
    for (int i = 0; i < INPUTS && code == SG_OK; i++) {
        void *pointers[2] = {sg_in_at(call, i), call->workspace + c->input[i].offset};
        at[r.input[i]] = pointers[c->input[i].copy ? 1 : 0];
        if (c->input[i].copy) code = sg_cuda_run_part(call, c->input[i].copy, pointers, NULL);
    }
    at[r.result] = c->staged ? call->workspace + c->result_offset : out;
    if (code == SG_OK)
        code = c->dnn ? sg_cuda_dnn_plan_run(call, c->dnn, at[0], at[1], at[2], inner)
                      : sg_cuda_unfold_run(call, c->unfold, at[0], at[1], at[2], inner);
    if (code == SG_OK && c->bias_sum)
        code = sg_cuda_run_part(call, c->bias_sum, (void *[]){sg_in_at(call, 0), sg_out_at(call, 1)},
                                call->workspace + c->bias_sum_offset);
    if (code != SG_OK || !c->finishes) return code;
    const void *bias = c->epilogue.has_bias ? sg_in_at(call, 2) : NULL;
    const void *residual = c->epilogue.has_residual ? sg_in_at(call, plan->op.n_in - 1) : NULL;
    return sg_cuda_epilogue(call, &c->epilogue, at[r.result], out, bias, residual);
}

static void free_conv(void *state) {
    conv *c = state;
    if (!c) return;
    for (int i = 0; i < INPUTS; i++) sg_cuda_plan_free(c->input[i].copy);
    sg_cuda_dnn_plan_free(c->dnn);
    sg_cuda_unfold_free(c->unfold);
    sg_cuda_plan_free(c->bias_sum);
    free(c);
}

/* ---- preparation --------------------------------------------------------------------------------------------------------- */

static uint64_t take(sg_plan *plan, uint64_t bytes) {
    uint64_t at = plan->workspace_bytes;
    plan->workspace_bytes += sg_cuda_align(bytes);
    return at;
}

/* As PyTorch decides: channels-last as soon as one of the two inputs is (ATen/native/ConvUtils.h,
 * cudnn_conv_suggest_memory_format). */
static bool is_last(const sg_plan *plan) {
    for (int i = 0; i < INPUTS; i++)
        if (sg_desc_is_channels_last(sg_in(plan, i)) && !sg_desc_is_contiguous(sg_in(plan, i))) return true;
    return false;
}

static sg_desc in_format(const sg_desc *d, int32_t dtype, bool last) {
    return last ? sg_desc_channels_last((sg_dtype)dtype, d->size[0], d->size[1], d->size[2], d->size[3])
                : sg_desc_make((sg_dtype)dtype, 4, d->size);
}

static bool has_format(const sg_desc *d, bool last) {
    return last ? sg_desc_is_channels_last(d) : sg_desc_is_contiguous(d);
}

static sg_code prepare_input(sg_device *device, sg_plan *plan, int i, sg_status *status) {
    conv *c = plan->state;
    const sg_desc *from = sg_in(plan, i);
    sg_desc to = in_format(from, from->dtype, c->window.last);
    *tensor(&c->window, roles_of(plan->op.kind).input[i]) = to;
    if (has_format(from, c->window.last)) return SG_OK;
    sg_desc pair[2] = {*from, to};
    sg_op copy = {.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = pair};
    c->input[i].offset = take(plan, sg_desc_span_bytes(&to));
    return sg_cuda_plan_new(device, &copy, &c->input[i].copy, status);
}

static bool adds(const sg_plan *plan) {
    return plan->op.kind == SG_OP_CONV &&
           (sg_flag(plan, SG_HAS_BIAS | SG_HAS_RESIDUAL) || plan->op.attrs.act != SG_FN_NONE);
}

/* cuDNN forms products as the tensors hold them; TF32 is its choice for fp32 where allowed. */
static bool is_for_dnn(const sg_plan *plan) {
    int32_t dtype = sg_in(plan, 0)->dtype, compute = plan->op.attrs.compute;
    if (sg_out(plan, 0)->dtype != dtype) return false;
    switch ((sg_dtype)dtype) {
    case SG_F32: return compute == SG_COMPUTE_F32 || compute == SG_COMPUTE_TF32;
    case SG_F64: return true;
    default: return !adds(plan);
    }
}

/* The result's dtype and place: the output itself, or the workspace where something follows that the output cannot hold. */
static void prepare_result(sg_plan *plan) {
    conv *c = plan->state;
    const sg_desc *out = sg_out(plan, 0);
    bool narrow = out->dtype == SG_BF16 || out->dtype == SG_F16;
    int32_t dtype = adds(plan) && narrow ? SG_F32 : out->dtype;
    c->staged = dtype != out->dtype || !has_format(out, c->window.last);
    c->finishes = adds(plan) || c->staged;
    sg_desc *result = tensor(&c->window, roles_of(plan->op.kind).result);
    *result = in_format(out, dtype, c->window.last);
    if (c->staged) c->result_offset = take(plan, sg_desc_span_bytes(result));
    if (!c->finishes) return;
    sg_epilogue *e = &c->epilogue;
    *e = (sg_epilogue){.product = c->staged ? *result : *out, .out = *out};
    if (plan->op.kind != SG_OP_CONV) return;
    e->act = plan->op.attrs.act;
    e->has_bias = sg_flag(plan, SG_HAS_BIAS);
    e->has_residual = sg_flag(plan, SG_HAS_RESIDUAL);
    if (e->has_bias) e->bias = sg_cuda_along(sg_in(plan, 2), out, 1);
    if (e->has_residual) e->residual = *sg_in(plan, plan->op.n_in - 1);
}

static sg_code prepare_bias_sum(sg_device *device, sg_plan *plan, sg_status *status) {
    conv *c = plan->state;
    if (plan->op.kind != SG_OP_CONV_BWD_WEIGHTS || !sg_flag(plan, SG_HAS_BIAS)) return SG_OK;
    const sg_desc *dy = sg_in(plan, 0), *db = sg_out(plan, 1);
    sg_desc pair[2] = {*dy, {.dtype = db->dtype, .ndim = 4, .size = {1, dy->size[1], 1, 1}}};
    for (int d = 0; d < 4; d++) pair[1].stride[d] = d == 1 ? db->stride[0] : db->stride[0] * dy->size[1];
    sg_op sum = {.kind = SG_OP_REDUCE,
                 .n_in = 1,
                 .n_out = 1,
                 .attrs = {.fn = SG_FN_SUM, .dims_mask = 1u << 0 | 1u << 2 | 1u << 3},
                 .desc = pair};
    sg_code code = sg_cuda_plan_new(device, &sum, &c->bias_sum, status);
    if (code == SG_OK) c->bias_sum_offset = take(plan, c->bias_sum->workspace_bytes);
    return code;
}

static sg_code prepare_core(sg_device *device, sg_plan *plan, sg_status *status) {
    conv *c = plan->state;
    bool there = false;
    sg_code code = is_for_dnn(plan) ? sg_cuda_dnn_open(device, &there, status) : SG_OK;
    if (code == SG_OK && there) code = sg_cuda_dnn_plan_new(device, &c->window, &c->dnn, status);
    if (code == SG_OK && !c->dnn) code = sg_cuda_unfold_new(device, &c->window, &c->unfold, status);
    if (code == SG_OK)
        c->inner_offset = take(plan, c->dnn ? sg_cuda_dnn_plan_bytes(c->dnn) : sg_cuda_unfold_bytes(c->unfold));
    return code;
}

sg_code sg_cuda_conv(sg_device *device, sg_plan *plan, sg_status *status) {
    sg_code code = sg_cuda_plan_state(plan, sizeof(conv), status);
    if (code != SG_OK) return code;
    conv *c = plan->state;
    plan->free_state = free_conv;
    plan->run = run_conv;
    c->window = (sg_cuda_window){.kind = (sg_op_kind)plan->op.kind, .last = is_last(plan), .attrs = plan->op.attrs};
    code = prepare_input(device, plan, 0, status);
    if (code == SG_OK) code = prepare_input(device, plan, 1, status);
    if (code != SG_OK) return code;
    prepare_result(plan);
    code = prepare_core(device, plan, status);
    return code == SG_OK ? prepare_bias_sum(device, plan, status) : code;
}
