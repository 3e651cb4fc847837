/* widen.c: ops whose bf16 or fp16 tensors are stored as such but computed in fp32: the op with fp32 tensors is prepared as
 * another plan, and its operands are converted in the workspace around it. */
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

typedef struct widened {
    sg_plan *inner;
    sg_plan **convert; /* by pointer: the conversion before (inputs) or after (outputs), or NULL */
    uint64_t *offset;  /* by pointer: of its fp32 copy in the workspace */
    void **pointers;   /* scratch for the inner launch */
    uint64_t inner_offset;
    int n;
} widened;

static bool is_narrow(const sg_desc *desc) {
    return desc->dtype == SG_BF16 || desc->dtype == SG_F16;
}

bool sg_has_narrow_floats(const sg_op *op) {
    for (int i = 0; i < op->n_in + op->n_out; i++)
        if (is_narrow(&op->desc[i])) return true;
    return false;
}

/* The mask is the one input that need not be a matrix of rows. */
static bool is_loose(const sg_op *op, int i) {
    const sg_desc *desc = &op->desc[i];
    if (desc->ndim != 4 || (op->attrs.flags & SG_HAS_MASK && i == op->n_in - 1)) return false;
    return (desc->size[3] > 1 && desc->stride[3] != 1) || (desc->size[2] > 1 && desc->stride[2] < desc->size[3]);
}

bool sg_has_loose_rows(const sg_op *op) {
    for (int i = 0; i < op->n_in + op->n_out; i++)
        if (is_loose(op, i)) return true;
    return false;
}

bool sg_must_widen(const sg_device *device, const sg_op *op) {
    for (int i = 0; i < op->n_in + op->n_out; i++) {
        if (op->desc[i].dtype == SG_F16) return true;
        if (op->desc[i].dtype == SG_BF16 && !device->bf16_native) return true;
    }
    return false;
}

static sg_code convert(const sg_call *call, const sg_plan *plan, void *from, void *to) {
    void *pointers[2] = {from, to};
    sg_call inner = *call;
    inner.plan = plan;
    inner.pointers = pointers;
    return plan->run(&inner);
}

static sg_code run_widened(const sg_call *call) {
    widened *w = call->plan->state;
    sg_code code = SG_OK;
    int n_in = call->plan->op.n_in;
    for (int i = 0; i < w->n; i++) w->pointers[i] = w->convert[i] ? call->workspace + w->offset[i] : call->pointers[i];
    for (int i = 0; i < n_in && code == SG_OK; i++)
        if (w->convert[i]) code = convert(call, w->convert[i], call->pointers[i], w->pointers[i]);
    if (code != SG_OK) return code;
    sg_call inner = *call;
    inner.plan = w->inner;
    inner.pointers = w->pointers;
    inner.workspace = call->workspace + w->inner_offset;
    code = w->inner->run(&inner);
    for (int i = n_in; i < w->n && code == SG_OK; i++)
        if (w->convert[i]) code = convert(call, w->convert[i], w->pointers[i], call->pointers[i]);
    return code;
}

static void free_widened(void *state) {
    widened *w = state;
    if (!w) return;
    sg_plan_free(w->inner);
    for (int i = 0; i < w->n && w->convert; i++) sg_plan_free(w->convert[i]);
    free(w->convert);
    free(w->offset);
    free(w->pointers);
    free(w);
}

/* fp32 with the same order of dims in memory, without gaps. Repeated elements stay repeated. */
static sg_desc fp32_like(const sg_desc *desc) {
    sg_desc out = *desc;
    out.dtype = SG_F32;
    int order[SG_MAX_DIMS], n = 0;
    for (int d = 0; d < desc->ndim; d++) {
        int at = n++;
        for (; at > 0 && desc->stride[order[at - 1]] < desc->stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t stride = 1;
    for (int i = n - 1; i >= 0; i--) {
        int d = order[i];
        if (desc->stride[d] == 0 && desc->size[d] > 1) continue;
        out.stride[d] = stride;
        stride *= desc->size[d];
    }
    return out;
}

/* The conversion of one tensor; repeated elements are converted once. */
static sg_code prepare_conversion(sg_device *device, const sg_desc *narrow, const sg_desc *wide, bool input,
                                  sg_plan **plan, sg_status *status) {
    sg_desc descs[2] = {*narrow, *wide};
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < narrow->ndim; d++)
            if (narrow->stride[d] == 0 && wide->stride[d] == 0) descs[i].size[d] = 1;
    if (!input) {
        sg_desc kept = descs[0];
        descs[0] = descs[1];
        descs[1] = kept;
    }
    sg_op op = {.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = descs};
    return sg_plan_new(device, &op, plan, status);
}

static sg_code fill_widened(sg_device *device, sg_plan *plan, sg_desc *descs, sg_status *status) {
    widened *w = plan->state;
    bool is_attention = plan->op.kind == SG_OP_ATTENTION || plan->op.kind == SG_OP_ATTENTION_BWD;
    uint64_t at = 0;
    for (int i = 0; i < w->n; i++) {
        const sg_desc *desc = &plan->op.desc[i];
        descs[i] = *desc;
        bool loose = is_attention && is_loose(&plan->op, i);
        if (!is_narrow(desc) && !loose) continue;
        descs[i] = loose ? sg_desc_make(SG_F32, desc->ndim, desc->size) : fp32_like(desc);
        sg_code code = prepare_conversion(device, desc, &descs[i], i < plan->op.n_in, &w->convert[i], status);
        if (code != SG_OK) return code;
        w->offset[i] = at;
        at += sg_align(sg_desc_span_bytes(&descs[i]));
    }
    sg_op op = plan->op;
    op.desc = descs;
    op.attrs.compute = SG_COMPUTE_F32;
    op.attrs.flags &= ~(uint32_t)SG_IN_PLACE;
    sg_code code = sg_plan_new(device, &op, &w->inner, status);
    if (code != SG_OK) return code;
    w->inner_offset = at;
    plan->workspace_bytes = at + w->inner->workspace_bytes;
    return SG_OK;
}

sg_code sg_prepare_widened(sg_device *device, sg_plan *plan, sg_status *status) {
    sg_code code = sg_plan_state(plan, sizeof(widened), status);
    if (code != SG_OK) return code;
    widened *w = plan->state;
    plan->free_state = free_widened;
    plan->run = run_widened;
    w->n = plan->op.n_in + plan->op.n_out;
    w->convert = calloc((size_t)w->n, sizeof(sg_plan *));
    w->offset = calloc((size_t)w->n, sizeof *w->offset);
    w->pointers = calloc((size_t)w->n, sizeof(void *));
    sg_desc *descs = calloc((size_t)w->n, sizeof *descs);
    if (w->convert && w->offset && w->pointers && descs)
        code = fill_widened(device, plan, descs, status);
    else
        code = sg_fail_memory(status, (size_t)w->n * sizeof *descs, "a plan");
    free(descs);
    return code;
}
