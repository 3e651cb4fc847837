/* matmul.c: MATMUL as one oneDNN primitive: alpha, bias, residual and activation ride along. */
#include "kernels/cpu/move.h"
#include "kernels/cpu/primitive.h"

#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 5 };

/* An operand that oneDNN cannot read where it lies (a repeated row, a strided bias) is first copied to the workspace. */
typedef struct operand {
    int argument; /* of the primitive */
    int pointer;  /* of the call */
    int at;       /* among the primitive's args */
    bool copied;
    uint64_t offset; /* of the copy in the workspace */
    sg_move move;
} operand;

typedef struct matmul {
    sg_primitive primitive;
    operand operands[OPERANDS];
    int n;
    uint64_t scratch_offset;
} matmul;

typedef struct copy_job {
    const sg_call *call;
    const operand *o;
} copy_job;

static void copy_work(void *context, int64_t begin, int64_t end, int thread) {
    const copy_job *job = context;
    (void)thread;
    sg_move_work(job->call->device->loops, &job->o->move, job->call->workspace + job->o->offset,
                 job->call->pointers[job->o->pointer], begin, end);
}

static sg_code run_matmul(const sg_call *call) {
    const matmul *m = call->plan->state;
    for (int i = 0; i < m->n; i++) {
        const operand *o = &m->operands[i];
        void *memory = call->pointers[o->pointer];
        if (o->copied) {
            copy_job job = {call, o};
            sg_parallel(call->device->threads, o->move.items, 1024, copy_work, &job);
            memory = call->workspace + o->offset;
        }
        sg_primitive_point(&m->primitive, o->at, memory);
    }
    return sg_primitive_run(call, &m->primitive, call->workspace + m->scratch_offset);
}

static void free_matmul(void *state) {
    matmul *m = state;
    if (m) sg_primitive_free(&m->primitive);
    free(m);
}

/* Repeated rows or columns, or batches that could not be made single. */
static bool repeats(const sg_desc *desc) {
    for (int d = 0; d < desc->ndim; d++)
        if (desc->stride[d] == 0 && desc->size[d] > 1) return true;
    return false;
}

/* Repeated batches are read in place, as size 1: oneDNN repeats one factor, but not both. */
static sg_desc with_single_batches(sg_desc desc, const sg_desc *other) {
    for (int d = 0; d < desc.ndim - 2; d++)
        if (desc.stride[d] == 0 && (!other || other->stride[d] != 0)) desc.size[d] = 1;
    return desc;
}

/* Gives operand `pointer` an argument; `view` is what the primitive shall see of it. */
static sg_code add_operand(sg_plan *plan, int argument, int pointer, const sg_desc *view, dnnl_memory_desc_t *layout,
                           sg_status *status) {
    matmul *m = plan->state;
    operand *o = &m->operands[m->n++];
    sg_desc seen = *view;
    o->argument = argument;
    o->pointer = pointer;
    if (repeats(view) && pointer < plan->op.n_in) {
        sg_desc dense = sg_desc_make((sg_dtype)view->dtype, view->ndim, view->size);
        o->copied = true;
        o->move = sg_move_make(&dense, view, 0);
        o->offset = plan->workspace_bytes;
        plan->workspace_bytes += sg_align(sg_desc_span_bytes(&dense));
        seen = dense;
    }
    return sg_dnnl_layout(&plan->op, &seen, layout, status);
}

/* A vector of c's columns as a tensor of c's rank. */
static sg_desc as_row(const sg_desc *vector, int ndim) {
    sg_desc row = {.dtype = vector->dtype, .ndim = ndim};
    for (int d = 0; d < ndim; d++) {
        row.size[d] = d == ndim - 1 ? vector->size[0] : 1;
        row.stride[d] = vector->stride[0];
    }
    return row;
}

/* oneDNN 2.6 puts its batch-reduce kernel first. Its older GEMM is 5 to 20 % faster where a is transposed and for large plain
 * products (bench/ops), but runs bias, residual and activation as passes of their own. */
static const char *preferred_of(const sg_plan *plan) {
    const sg_op *op = &plan->op;
    const sg_desc *a = sg_in(plan, 0), *b = sg_in(plan, 1);
    int m = a->ndim - 2, n = a->ndim - 1;
    if (a->dtype != SG_F32 || op->attrs.act != SG_FN_NONE || sg_flag(plan, SG_HAS_BIAS | SG_HAS_RESIDUAL)) return NULL;
    bool a_transposed = a->stride[m] == 1 && a->stride[n] > 1, b_plain = b->stride[n] == 1;
    double products = (double)a->size[m] * (double)a->size[n] * (double)b->size[n];
    if (a_transposed && products > 1e6) return "gemm:jit";
    return a->ndim == 2 && b_plain && products > 3e7 ? "gemm:jit" : NULL;
}

/* With alpha = 1 the bias is the primitive's own; else it must escape the scale, and is added after it. */
static sg_code make_primitive(sg_device *device, sg_plan *plan, dnnl_post_ops_t post_ops, sg_status *status) {
    matmul *m = plan->state;
    const sg_op *op = &plan->op;
    bool bias = sg_flag(plan, SG_HAS_BIAS), residual = sg_flag(plan, SG_HAS_RESIDUAL), fused = op->attrs.alpha == 1;
    const sg_desc *c = sg_out(plan, 0);
    sg_desc a = with_single_batches(*sg_in(plan, 0), NULL), b = with_single_batches(*sg_in(plan, 1), sg_in(plan, 0));
    dnnl_memory_desc_t layout[OPERANDS];
    dnnl_memory_desc_t *bias_layout = NULL;
    int extra = 0;
    sg_code code = add_operand(plan, DNNL_ARG_SRC, 0, &a, &layout[0], status);
    if (code == SG_OK) code = add_operand(plan, DNNL_ARG_WEIGHTS, 1, &b, &layout[1], status);
    if (code == SG_OK) code = add_operand(plan, DNNL_ARG_DST, op->n_in, c, &layout[2], status);
    if (code == SG_OK && bias) {
        sg_desc row = as_row(sg_in(plan, 2), c->ndim);
        int argument = fused ? DNNL_ARG_BIAS : DNNL_ARG_ATTR_MULTIPLE_POST_OP(extra++) | DNNL_ARG_SRC_1;
        code = add_operand(plan, argument, 2, &row, &layout[m->n], status);
        bias_layout = fused ? &layout[m->n - 1] : NULL;
        if (code == SG_OK && !fused &&
            dnnl_post_ops_append_binary(post_ops, dnnl_binary_add, &layout[m->n - 1]) != dnnl_success)
            return sg_dnnl_fail(op, dnnl_invalid_arguments, "fusing the bias", status);
    }
    if (code == SG_OK && residual) {
        code = add_operand(plan, DNNL_ARG_ATTR_MULTIPLE_POST_OP(extra) | DNNL_ARG_SRC_1, 2 + bias,
                           sg_in(plan, 2 + bias), &layout[m->n], status);
        if (code == SG_OK && dnnl_post_ops_append_binary(post_ops, dnnl_binary_add, &layout[m->n - 1]) != dnnl_success)
            return sg_dnnl_fail(op, dnnl_invalid_arguments, "fusing the residual", status);
    }
    if (code == SG_OK) code = sg_dnnl_append_activation(op, post_ops, status);
    dnnl_primitive_attr_t attributes = NULL;
    if (code == SG_OK) code = sg_dnnl_attributes(op, post_ops, op->attrs.alpha, &attributes, status);
    if (code != SG_OK) return code;
    dnnl_matmul_desc_t desc;
    dnnl_status_t result = dnnl_matmul_desc_init(&desc, &layout[0], &layout[1], bias_layout, &layout[2]);
    if (result != dnnl_success) {
        (void)dnnl_primitive_attr_destroy(attributes);
        return sg_dnnl_fail(op, result, "describing the product", status);
    }
    code = sg_primitive_make(device, op, &desc, attributes, NULL, preferred_of(plan), &m->primitive, status);
    for (int i = 0; i < m->n && code == SG_OK; i++)
        code = sg_primitive_add(device, op, &m->primitive, m->operands[i].argument, &layout[i], &m->operands[i].at,
                                status);
    return code;
}

sg_code sg_prepare_matmul(sg_device *device, sg_plan *plan, sg_status *status) {
    const sg_op *op = &plan->op;
    if (sg_must_widen(device, op)) return sg_prepare_widened(device, plan, status);
    if (op->attrs.compute == SG_COMPUTE_F64 || op->desc[0].dtype == SG_F64)
        return sg_refuse(op, "oneDNN has no fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(matmul), status);
    if (code != SG_OK) return code;
    matmul *m = plan->state;
    plan->free_state = free_matmul;
    plan->run = run_matmul;
    dnnl_post_ops_t post_ops = NULL;
    if (dnnl_post_ops_create(&post_ops) != dnnl_success)
        return sg_dnnl_fail(op, dnnl_out_of_memory, "creating post-operations", status);
    code = make_primitive(device, plan, post_ops, status);
    (void)dnnl_post_ops_destroy(post_ops);
    m->scratch_offset = plan->workspace_bytes;
    plan->workspace_bytes += sg_align(m->primitive.scratch_bytes);
    return code;
}
