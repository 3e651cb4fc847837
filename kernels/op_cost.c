#include "kernels/op.h"

/* ---- multi-tensor apply (PyTorch ATen/native/cuda/MultiTensorApply.cuh) ------------------------------------------- */

enum { APPLY_BLOCKS = 320, APPLY_CHUNK = 65536, APPLY_MAX_LISTS = 5 };

/* Kernels for `count` tensors in `lists` parallel lists: a kernel is full when it holds as many tensors or blocks as its
 * arguments have room for; a tensor whose blocks do not fit goes on in the next one, in the first place. */
static int64_t apply_launches(const sg_desc *tensors, int64_t count, int lists) {
    static const int max_tensors[APPLY_MAX_LISTS] = {110, 64, 48, 36, 30};
    int64_t launches = 0, blocks = 0, held = 0;
    int64_t room = max_tensors[(lists < 1 ? 1 : lists > APPLY_MAX_LISTS ? APPLY_MAX_LISTS : lists) - 1];
    for (int64_t i = 0; i < count; i++) {
        int64_t chunks = (sg_desc_count(&tensors[i]) - 1) / APPLY_CHUNK + 1;
        held++;
        if (blocks + chunks >= APPLY_BLOCKS) {
            launches += (blocks + chunks) / APPLY_BLOCKS;
            blocks = (blocks + chunks) % APPLY_BLOCKS;
            held = blocks > 0 ? 1 : 0;
        } else {
            blocks += chunks;
        }
        if (held == room && blocks > 0) {
            launches++;
            blocks = held = 0;
        }
    }
    return launches + (blocks > 0);
}

static int64_t foreach_launches(const sg_op *op) {
    int lists = sg_fn_arity((sg_fn)op->attrs.fn) + (op->attrs.flags & SG_IN_PLACE ? 0 : 1);
    return apply_launches(op->desc, op->attrs.count, lists);
}

/* ---- launches ---------------------------------------------------------------------------------------------------- */

static int64_t launches_of(const sg_op *op) {
    bool has_bias = (op->attrs.flags & SG_HAS_BIAS) != 0;
    switch ((sg_op_kind)op->kind) {
    case SG_OP_CONV:                                      /* cuDNN's kernel, then the bias is added */
    case SG_OP_CONV_BWD_WEIGHTS: return has_bias ? 2 : 1; /* and a sum for the bias */
    case SG_OP_MAXPOOL_BWD: return 2;                     /* zeros, then scatter */
    case SG_OP_LAYER_NORM_BWD:
    case SG_OP_RMS_NORM_BWD: return op->attrs.flags & (SG_NO_DX | SG_NO_DW) ? 1 : 2;
    case SG_OP_CHANNEL_NORM: /* cuDNN's batch norm; ATen's group norm: moments, their coefficients, the values */
        return op->attrs.count ? 3 : 1;
    case SG_OP_CHANNEL_NORM_BWD: /* ATen/native/cuda/group_norm_kernel.cu: sums, coefficients, dx, dw with db */
        return op->attrs.count ? 4 : 2;
    case SG_OP_ATTENTION_BWD: return 3; /* row sums of do * o, the main kernel, conversion of dq */
    case SG_OP_EMBEDDING_BWD: return 2; /* zeros, then accumulation */
    case SG_OP_CAT: return (op->n_in + 127) / 128;
    case SG_OP_NORM_ALL: return apply_launches(op->desc, op->n_in, 1) + 1;
    case SG_OP_FOREACH: return foreach_launches(op);
    case SG_OP_ADAMW: return apply_launches(op->desc, op->attrs.count, 4);
    case SG_OP_AMP_UNSCALE: return apply_launches(op->desc, op->attrs.count, 1); /* ATen/native/cuda/AmpKernels.cu */
    default: return 1;
    }
}

/* ---- work -------------------------------------------------------------------------------------------------------- */

static double flops_of(const sg_op *op) {
    const sg_desc *in = op->desc, *out = op->desc + op->n_in;
    switch ((sg_op_kind)op->kind) {
    case SG_OP_MATMUL: return 2.0 * (double)sg_desc_count(&out[0]) * (double)in[0].size[in[0].ndim - 1];
    case SG_OP_CONV: /* per output: one dot product over c * kh * kw */
        return 2.0 * (double)sg_desc_count(&out[0]) * (double)in[1].size[1] * (double)in[1].size[2] *
               (double)in[1].size[3];
    case SG_OP_CONV_BWD_DATA:
        return 2.0 * (double)sg_desc_count(&in[0]) * (double)in[1].size[1] * (double)in[1].size[2] *
               (double)in[1].size[3];
    case SG_OP_CONV_BWD_WEIGHTS:
        return 2.0 * (double)sg_desc_count(&in[0]) * (double)out[0].size[1] * (double)out[0].size[2] *
               (double)out[0].size[3];
    case SG_OP_ATTENTION: /* q k^T and p v */ return 4.0 * (double)sg_desc_count(&in[0]) * (double)in[1].size[2];
    case SG_OP_ATTENTION_BWD: /* q k^T again, dv = p^T do, dp = do v^T, dq = ds k, dk = ds^T q */
        return 10.0 * (double)sg_desc_count(&in[1]) * (double)in[2].size[2];
    default: return 0;
    }
}

static double bytes_of(const sg_desc *desc, int n) {
    double bytes = 0;
    for (int i = 0; i < n; i++) bytes += (double)sg_desc_distinct_bytes(&desc[i]);
    return bytes;
}

/* Of an embedding's table no more rows are read than there are indices. */
static double embedding_bytes_read(const sg_op *op) {
    const sg_desc *table = &op->desc[0], *index = &op->desc[1];
    double rows = (double)sg_desc_count(index);
    if (rows > (double)table->size[0]) rows = (double)table->size[0];
    double row_bytes = (double)table->size[1] * (double)sg_dtype_bytes((sg_dtype)table->dtype);
    return rows * row_bytes + (double)sg_desc_distinct_bytes(index);
}

static double bytes_read(const sg_op *op) {
    double bytes = bytes_of(op->desc, op->n_in);
    switch ((sg_op_kind)op->kind) {
    case SG_OP_EMBEDDING: return embedding_bytes_read(op);
    case SG_OP_CHANNEL_NORM: return bytes + bytes_of(op->desc, 1);
    case SG_OP_CHANNEL_NORM_BWD: return bytes + (op->attrs.flags & SG_NO_DX ? 0 : bytes_of(op->desc, 2));
    default: return bytes;
    }
}

sg_cost sg_op_cost(const sg_op *op) {
    sg_cost cost = {
        .flops = flops_of(op),
        .bytes_read = bytes_read(op),
        .bytes_written = bytes_of(op->desc + op->n_in, op->n_out),
        .launches = launches_of(op),
    };
    return cost;
}
