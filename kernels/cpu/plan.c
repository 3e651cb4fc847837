/* plan.c: from an op to a plan, whatever its kind. */
#include "kernels/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

sg_code sg_refuse(const sg_op *op, const char *reason, sg_status *status) {
    char text[384];
    sg_op_text(op, text, sizeof text);
    return sg_fail(status, SG_NO, "the cpu device cannot run %s: %s", text, reason);
}

/* ---- by kind ----------------------------------------------------------------------------------------------------------- */

static sg_prepare prepare_of(sg_op_kind kind) {
    switch (kind) {
    case SG_OP_MATMUL: return sg_prepare_matmul;
    case SG_OP_CONV: return sg_prepare_conv;
    case SG_OP_CONV_BWD_DATA: return sg_prepare_conv_bwd_data;
    case SG_OP_CONV_BWD_WEIGHTS: return sg_prepare_conv_bwd_weights;
    case SG_OP_MAXPOOL: return sg_prepare_maxpool;
    case SG_OP_MAXPOOL_BWD: return sg_prepare_maxpool_bwd;
    case SG_OP_RESIZE: return sg_prepare_resize;
    case SG_OP_PAD: return sg_prepare_pad;
    case SG_OP_SOFTMAX:
    case SG_OP_SOFTMAX_BWD:
    case SG_OP_LAYER_NORM:
    case SG_OP_LAYER_NORM_BWD:
    case SG_OP_RMS_NORM:
    case SG_OP_RMS_NORM_BWD: return sg_prepare_rows;
    case SG_OP_CHANNEL_NORM:
    case SG_OP_CHANNEL_NORM_BWD: return sg_prepare_channel_norm;
    case SG_OP_ATTENTION: return sg_prepare_attention;
    case SG_OP_ATTENTION_BWD: return sg_prepare_attention_bwd;
    case SG_OP_UNARY:
    case SG_OP_UNARY_BWD:
    case SG_OP_BINARY:
    case SG_OP_TERNARY:
    case SG_OP_FOREACH: return sg_prepare_elementwise;
    case SG_OP_COPY: return sg_prepare_copy;
    case SG_OP_FILL: return sg_prepare_fill;
    case SG_OP_IOTA: return sg_prepare_iota;
    case SG_OP_CUMSUM: return sg_prepare_cumsum;
    case SG_OP_CAT: return sg_prepare_cat;
    case SG_OP_REDUCE: return sg_prepare_reduce;
    case SG_OP_NORM_ALL: return sg_prepare_norm_all;
    case SG_OP_EMBEDDING: return sg_prepare_embedding;
    case SG_OP_EMBEDDING_BWD: return sg_prepare_embedding_bwd;
    case SG_OP_DROPOUT:
    case SG_OP_DROPOUT_BWD: return sg_prepare_dropout;
    case SG_OP_RANDOM: return sg_prepare_random;
    case SG_OP_ADAMW: return sg_prepare_adamw;
    case SG_OP_AMP_UNSCALE: return sg_prepare_amp_unscale;
    case SG_OP_AMP_UPDATE: return sg_prepare_amp_update;
    case SG_OP_KIND_COUNT: break;
    }
    return NULL;
}

sg_code sg_plan_state(sg_plan *plan, size_t bytes, sg_status *status) {
    plan->state = calloc(1, bytes);
    return plan->state ? SG_OK : sg_fail_memory(status, bytes, "a plan");
}

sg_code sg_plan_new(sg_device *device, const sg_op *op, sg_plan **out, sg_status *status) {
    *out = NULL;
    const char *wrong = sg_op_check(op);
    if (wrong) return sg_fail(status, SG_BAD_INPUT, "unsound op %s: %s", sg_op_kind_name((sg_op_kind)op->kind), wrong);
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
    sg_code code = prepare_of((sg_op_kind)op->kind)(device, plan, status);
    if (code != SG_OK) {
        sg_plan_free(plan);
        return code;
    }
    *out = plan;
    return SG_OK;
}

void sg_plan_free(sg_plan *plan) {
    if (!plan) return;
    if (plan->free_state)
        plan->free_state(plan->state);
    else
        free(plan->state);
    free((void *)plan->op.desc);
    free(plan);
}
