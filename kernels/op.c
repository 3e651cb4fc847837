#include "kernels/op.h"

#include <string.h>

size_t sg_dtype_bytes(sg_dtype dtype) {
    static const size_t bytes[SG_DTYPE_COUNT] = {
        [SG_F64] = 8, [SG_F32] = 4, [SG_BF16] = 2, [SG_F16] = 2, [SG_I64] = 8, [SG_I32] = 4, [SG_U8] = 1, [SG_BOOL] = 1,
    };
    return (unsigned)dtype < SG_DTYPE_COUNT ? bytes[dtype] : 0;
}

const char *sg_dtype_name(sg_dtype dtype) {
    static const char *const names[SG_DTYPE_COUNT] = {
        [SG_F64] = "f64", [SG_F32] = "f32", [SG_BF16] = "bf16", [SG_F16] = "f16",
        [SG_I64] = "i64", [SG_I32] = "i32", [SG_U8] = "u8",     [SG_BOOL] = "bool",
    };
    return (unsigned)dtype < SG_DTYPE_COUNT ? names[dtype] : "unknown";
}

bool sg_dtype_is_float(sg_dtype dtype) {
    return dtype == SG_F64 || dtype == SG_F32 || dtype == SG_BF16 || dtype == SG_F16;
}

sg_desc sg_desc_make(sg_dtype dtype, int ndim, const int64_t *size) {
    sg_desc desc = {.dtype = dtype, .ndim = ndim};
    int64_t stride = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        desc.size[d] = size[d];
        desc.stride[d] = stride;
        if (__builtin_mul_overflow(stride, size[d], &stride)) stride = INT64_MAX; /* sg_op_check refuses it */
    }
    return desc;
}

sg_desc sg_desc_channels_last(sg_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w) {
    sg_desc desc = sg_desc_make(dtype, 4, (const int64_t[]){n, h, w, c});
    sg_desc out = {.dtype = dtype, .ndim = 4, .size = {n, c, h, w}};
    static const int from[4] = {0, 3, 1, 2};
    for (int d = 0; d < 4; d++) out.stride[d] = desc.stride[from[d]];
    return out;
}

int64_t sg_desc_count(const sg_desc *desc) {
    int64_t count = 1;
    for (int d = 0; d < desc->ndim; d++)
        if (__builtin_mul_overflow(count, desc->size[d], &count)) return INT64_MAX;
    return count;
}

int64_t sg_desc_distinct(const sg_desc *desc) {
    int64_t count = 1;
    for (int d = 0; d < desc->ndim; d++) {
        int64_t size = desc->stride[d] == 0 && desc->size[d] > 1 ? 1 : desc->size[d];
        if (__builtin_mul_overflow(count, size, &count)) return INT64_MAX;
    }
    return count;
}

uint64_t sg_desc_span_bytes(const sg_desc *desc) {
    uint64_t last = 0, bytes;
    for (int d = 0; d < desc->ndim; d++) {
        uint64_t step;
        if (desc->size[d] <= 0) return 0;
        if (__builtin_mul_overflow((uint64_t)(desc->size[d] - 1), (uint64_t)desc->stride[d], &step) ||
            __builtin_add_overflow(last, step, &last))
            return UINT64_MAX;
    }
    if (__builtin_add_overflow(last, 1, &last) ||
        __builtin_mul_overflow(last, (uint64_t)sg_dtype_bytes((sg_dtype)desc->dtype), &bytes))
        return UINT64_MAX;
    return bytes;
}

uint64_t sg_desc_distinct_bytes(const sg_desc *desc) {
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)sg_desc_distinct(desc), (uint64_t)sg_dtype_bytes((sg_dtype)desc->dtype),
                               &bytes))
        return UINT64_MAX;
    return bytes;
}

/* True when the dims, walked from the innermost in the given order, follow each other without gaps. */
static bool is_packed_in_order(const sg_desc *desc, const int *inner_to_outer) {
    int64_t stride = 1;
    for (int i = 0; i < desc->ndim; i++) {
        int d = inner_to_outer[i];
        if (desc->size[d] == 1) continue;
        if (desc->stride[d] != stride) return false;
        if (__builtin_mul_overflow(stride, desc->size[d], &stride)) return false;
    }
    return true;
}

bool sg_desc_is_contiguous(const sg_desc *desc) {
    int order[SG_MAX_DIMS] = {0};
    for (int i = 0; i < desc->ndim; i++) order[i] = desc->ndim - 1 - i;
    return is_packed_in_order(desc, order);
}

bool sg_desc_is_channels_last(const sg_desc *desc) {
    static const int order[4] = {1, 3, 2, 0};
    return desc->ndim == 4 && is_packed_in_order(desc, order);
}

bool sg_desc_is_dense(const sg_desc *desc) {
    int order[SG_MAX_DIMS] = {0}, n = 0;
    for (int d = 0; d < desc->ndim; d++) {
        int at = n++;
        for (; at > 0 && desc->stride[order[at - 1]] > desc->stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    return is_packed_in_order(desc, order);
}

bool sg_desc_same_shape(const sg_desc *a, const sg_desc *b) {
    return a->ndim == b->ndim && memcmp(a->size, b->size, sizeof a->size) == 0;
}

sg_op_class sg_op_class_of(const sg_op *op) {
    static const sg_op_class classes[SG_OP_KIND_COUNT] = {
#define X(name, cls) [SG_OP_##name] = SG_CLASS_##cls,
        SG_OP_LIST(X)
#undef X
    };
    if ((unsigned)op->kind >= SG_OP_KIND_COUNT) return SG_CLASS_COUNT;
    if (op->kind == SG_OP_MATMUL && op->desc[0].ndim > 2) return SG_CLASS_BMM;
    return classes[op->kind];
}

const char *sg_op_kind_name(sg_op_kind kind) {
    static const char *const names[SG_OP_KIND_COUNT] = {
#define X(name, cls) [SG_OP_##name] = #name,
        SG_OP_LIST(X)
#undef X
    };
    return (unsigned)kind < SG_OP_KIND_COUNT ? names[kind] : "unknown";
}

const char *sg_op_class_name(sg_op_class cls) {
    static const char *const names[SG_CLASS_COUNT] = {
        [SG_CLASS_GEMM] = "gemm",
        [SG_CLASS_BMM] = "bmm",
        [SG_CLASS_CONV] = "conv",
        [SG_CLASS_CONV_BWD_DATA] = "conv_bwd_data",
        [SG_CLASS_CONV_BWD_WEIGHTS] = "conv_bwd_weights",
        [SG_CLASS_ATTENTION] = "attention",
        [SG_CLASS_NORM] = "norm",
        [SG_CLASS_SOFTMAX] = "softmax",
        [SG_CLASS_ELEMENTWISE] = "elementwise",
        [SG_CLASS_COPY] = "copy",
        [SG_CLASS_POOL] = "pool",
        [SG_CLASS_REDUCE] = "reduce",
        [SG_CLASS_EMBEDDING] = "embedding",
        [SG_CLASS_RANDOM] = "random",
        [SG_CLASS_OPTIMIZER] = "optimizer",
    };
    return (unsigned)cls < SG_CLASS_COUNT ? names[cls] : "unknown";
}

const char *sg_fn_name(sg_fn fn) {
    static const char *const names[SG_FN_COUNT] = {
#define X(name) [SG_FN_##name] = #name,
        SG_FN_LIST(X)
#undef X
    };
    return (unsigned)fn < SG_FN_COUNT ? names[fn] : "unknown";
}

int sg_fn_arity(sg_fn fn) {
    if (fn >= SG_FN_RELU && fn <= SG_FN_FLOOR) return 1;
    if (fn >= SG_FN_ADD && fn <= SG_FN_POWV) return 2;
    if (fn >= SG_FN_WHERE && fn <= SG_FN_MASKED_FILL) return 3;
    return 0;
}

bool sg_fn_saves_output(sg_fn fn) {
    return fn == SG_FN_RELU || fn == SG_FN_TANH || fn == SG_FN_SIGMOID || fn == SG_FN_EXP || fn == SG_FN_SQRT ||
           fn == SG_FN_RSQRT;
}
