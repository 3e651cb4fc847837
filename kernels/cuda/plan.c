/* plan.c: from an op to a plan, whatever its kind. */
#include "kernels/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

sg_code sg_cuda_refuse(const sg_op *op, const char *reason, sg_status *status) {
    char text[384];
    sg_op_text(op, text, sizeof text);
    return sg_fail(status, SG_NO, "the cuda device cannot run %s: %s", text, reason);
}

/* ---- by kind ----------------------------------------------------------------------------------------------------------- */

static sg_prepare prepare_of(sg_op_kind kind) {
    switch (kind) {
    case SG_OP_FILL: return sg_cuda_fill;
    case SG_OP_REDUCE: return sg_cuda_reduce;
    case SG_OP_EMBEDDING: return sg_cuda_embedding;
    case SG_OP_EMBEDDING_BWD: return sg_cuda_embedding_bwd;
    case SG_OP_MAXPOOL:
    case SG_OP_MAXPOOL_BWD: return sg_cuda_maxpool;
    case SG_OP_RESIZE: return sg_cuda_resize;
    case SG_OP_SOFTMAX:
    case SG_OP_SOFTMAX_BWD: return sg_cuda_softmax;
    case SG_OP_MATMUL: return sg_cuda_matmul;
    case SG_OP_UNARY: return sg_cuda_unary;
    case SG_OP_UNARY_BWD: return sg_cuda_unary_bwd;
    case SG_OP_BINARY: return sg_cuda_binary;
    case SG_OP_TERNARY: return sg_cuda_ternary;
    case SG_OP_LAYER_NORM:
    case SG_OP_RMS_NORM: return sg_cuda_layer_norm;
    case SG_OP_LAYER_NORM_BWD:
    case SG_OP_RMS_NORM_BWD: return sg_cuda_layer_norm_bwd;
    case SG_OP_CHANNEL_NORM: return sg_cuda_channel_norm;
    case SG_OP_CHANNEL_NORM_BWD: return sg_cuda_channel_norm_bwd;
    case SG_OP_CONV:
    case SG_OP_CONV_BWD_DATA:
    case SG_OP_CONV_BWD_WEIGHTS: return sg_cuda_conv;
    case SG_OP_ATTENTION:
    case SG_OP_ATTENTION_BWD: return sg_cuda_attention;
    case SG_OP_COPY: return sg_cuda_copy;
    case SG_OP_CAT: return sg_cuda_cat;
    case SG_OP_PAD: return sg_cuda_pad;
    case SG_OP_IOTA: return sg_cuda_iota;
    case SG_OP_FOREACH: return sg_cuda_foreach;
    case SG_OP_ADAMW: return sg_cuda_adamw;
    case SG_OP_NORM_ALL: return sg_cuda_norm_all;
    case SG_OP_AMP_UNSCALE: return sg_cuda_amp_unscale;
    case SG_OP_AMP_UPDATE: return sg_cuda_amp_update;
    case SG_OP_DROPOUT:
    case SG_OP_DROPOUT_BWD: return sg_cuda_dropout;
    case SG_OP_RANDOM: return sg_cuda_random;
    case SG_OP_CUMSUM: return sg_cuda_cumsum;
    case SG_OP_KIND_COUNT: break;
    }
    return NULL;
}

static bool has_dtype(const sg_op *op, sg_dtype dtype) {
    for (int i = 0; i < op->n_in + op->n_out; i++)
        if (op->desc[i].dtype == (int32_t)dtype) return true;
    return false;
}

/* What this GPU has no hardware for is refused, as measuring something else under its name would mislead. */
static sg_code check_hardware(const sg_device *device, const sg_op *op, sg_status *status) {
    bool bf16 = has_dtype(op, SG_BF16) || op->attrs.compute == SG_COMPUTE_BF16;
    if (bf16 && !device->bf16)
        return sg_cuda_refuse(op, "this GPU has no bf16 (compute capability below 8.0): use --precision fp16 or fp32",
                              status);
    return SG_OK;
}

sg_code sg_cuda_plan_state(sg_plan *plan, size_t bytes, sg_status *status) {
    plan->state = calloc(1, bytes);
    return plan->state ? SG_OK : sg_fail_memory(status, bytes, "a plan");
}

sg_code sg_cuda_plan_new(sg_device *device, const sg_op *op, sg_plan **out, sg_status *status) {
    *out = NULL;
    const char *wrong = sg_op_check(op);
    if (wrong) return sg_fail(status, SG_BAD_INPUT, "unsound op %s: %s", sg_op_kind_name((sg_op_kind)op->kind), wrong);
    sg_code code = check_hardware(device, op, status);
    if (code != SG_OK) return code;
    size_t descs = (size_t)op->n_in + (size_t)op->n_out;
    sg_desc *desc = malloc(descs * sizeof *desc);
    sg_plan *plan = calloc(1, sizeof *plan);
    if (!desc || !plan) {
        free(desc);
        free(plan);
        return sg_fail_memory(status, descs * sizeof *desc + sizeof *plan, "a plan");
    }
    memcpy(desc, op->desc, descs * sizeof *desc);
    plan->op = *op;
    plan->op.desc = desc;
    code = prepare_of((sg_op_kind)op->kind)(device, plan, status);
    if (code != SG_OK) {
        sg_cuda_plan_free(plan);
        return code;
    }
    *out = plan;
    return SG_OK;
}

void sg_cuda_plan_free(sg_plan *plan) {
    if (!plan) return;
    if (plan->free_state)
        plan->free_state(plan->state);
    else
        free(plan->state);
    free((void *)plan->op.desc);
    free(plan);
}
