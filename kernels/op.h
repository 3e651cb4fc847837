/* op.h: the vocabulary that policies, devices and cost models share. It includes nothing of the project.
 *
 * An op is a kind, attributes and the descriptors of its inputs and outputs: everything that decides what it computes
 * and what it costs, but no data. Equal ops are interned once per training, prepared once and priced once. */
#ifndef SG_KERNELS_OP_H
#define SG_KERNELS_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- data types --------------------------------------------------------------------------------------------- */

typedef enum sg_dtype { SG_F64, SG_F32, SG_BF16, SG_F16, SG_I64, SG_I32, SG_U8, SG_BOOL, SG_DTYPE_COUNT } sg_dtype;

/* How products of a matmul, convolution or attention are formed; accumulation is fp32 (fp64 for SG_COMPUTE_F64). */
typedef enum sg_compute {
    SG_COMPUTE_F32,
    SG_COMPUTE_TF32,
    SG_COMPUTE_BF16,
    SG_COMPUTE_F16,
    SG_COMPUTE_F64,
    SG_COMPUTE_COUNT
} sg_compute;

/* Bytes of one element (bool: 1). */
size_t sg_dtype_bytes(sg_dtype dtype);
/* "f32", "bf16", ... */
const char *sg_dtype_name(sg_dtype dtype);
bool sg_dtype_is_float(sg_dtype dtype);

/* ---- tensor descriptors ------------------------------------------------------------------------------------- */

enum { SG_MAX_DIMS = 6 };

/* A strided tensor. Strides are in elements; 0 repeats (broadcast). ndim 0 is a scalar with one element.
 * Unused dims are zero, so that descriptors compare with memcmp. */
typedef struct sg_desc {
    int32_t dtype; /* sg_dtype */
    int32_t ndim;
    int64_t size[SG_MAX_DIMS];
    int64_t stride[SG_MAX_DIMS];
} sg_desc;

/* Row-major ("contiguous") descriptor. */
sg_desc sg_desc_make(sg_dtype dtype, int ndim, const int64_t *size);
/* NCHW sizes with channels-last (NHWC) strides. */
sg_desc sg_desc_channels_last(sg_dtype dtype, int64_t n, int64_t c, int64_t h, int64_t w);
int64_t sg_desc_count(const sg_desc *desc);           /* elements, repeated ones counted */
int64_t sg_desc_distinct(const sg_desc *desc);        /* elements that differ in address: stride-0 dims count once */
uint64_t sg_desc_span_bytes(const sg_desc *desc);     /* bytes from the first to past the last element */
uint64_t sg_desc_distinct_bytes(const sg_desc *desc); /* bytes a kernel has to move: distinct elements x size */
bool sg_desc_is_contiguous(const sg_desc *desc);      /* row-major; dims of size 1 are ignored */
bool sg_desc_is_channels_last(const sg_desc *desc);   /* 4-D, NHWC in memory */
bool sg_desc_is_dense(const sg_desc *desc);           /* some permutation of dims is row-major: no gaps, no repeats */
bool sg_desc_same_shape(const sg_desc *a, const sg_desc *b);

/* ---- kinds ---------------------------------------------------------------------------------------------------
 * X(NAME, CLASS). Inputs and outputs in the order given; [x] is present when the flag beside it is set.
 *
 * MATMUL       a[..,m,k] b[..,k,n] [bias[n] HAS_BIAS] [residual[..,m,n] HAS_RESIDUAL] -> c[..,m,n]
 *              c = act(alpha * a b + bias + residual). Batch dims equal in a, b, c (2-D or 3-D, or 4-D [b,h,..]).
 * CONV         x[n,c,h,w] w[o,c,kh,kw] [bias[o]] [residual like y] -> y[n,o,h',w']   y = act(conv + bias + residual)
 * CONV_BWD_DATA     dy w -> dx                (attributes of the forward; act, bias, residual never set)
 * CONV_BWD_WEIGHTS  dy x -> dw [db HAS_BIAS]
 * MAXPOOL      x[n,c,h,w] -> y idx            idx: i64 = flat position in the h*w plane (PyTorch); u8 = in the window
 * MAXPOOL_BWD  dy idx -> dx
 * RESIZE       x[n,c,h,w] -> y[n,c,h',w']     bilinear, half-pixel centres (align_corners=False), no antialias
 * PAD          x -> y                         constant alpha; pad[] = elements before (dim ndim-2, dim ndim-1), rest after
 * SOFTMAX      x -> y                         last dim;    SOFTMAX_BWD  dy y -> dx
 * LAYER_NORM   x w b -> y mean rstd           last dim, eps; mean and rstd fp32 (fp64 of fp64) over the rows
 * LAYER_NORM_BWD  dy x mean rstd w -> dx dw db     NO_DX: without dx. NO_DW: without dw and db
 * RMS_NORM     x w -> y rstd                  y = w * x * rstd;  RMS_NORM_BWD  dy x rstd w -> dx dw (NO_DX, NO_DW)
 * CHANNEL_NORM x[n,c,..] w[c] b[c] -> y mean rstd    eps; `count` groups of channels in each sample, mean and rstd [n,count] (group
 *              norm); count 0: each channel over all samples, mean and rstd [c] (batch norm while training). Statistics fp32
 *              (fp64 of fp64). The averages that PyTorch's batch norm keeps for evaluation are not part of it: no step reads them.
 * CHANNEL_NORM_BWD  dy x mean rstd w -> dx dw db     (NO_DX, NO_DW as LAYER_NORM_BWD)
 * ATTENTION    q[b,h,t,d] k[b,h,s,d] v[b,h,s,d] [mask HAS_MASK, broadcastable to b,h,t,s; bool true = keep, float = added]
 *              -> o[b,h,t,d] lse[b,h,t]       fused softmax(alpha q k^T + mask) v; lse fp32 (fp64 of fp64)
 * ATTENTION_BWD   do q k v o lse [mask] -> dq dk dv
 * UNARY        x -> y                         fn; alpha, beta its constants; dtype of y may differ (computed in fp32)
 * UNARY_BWD    dy s -> dx                     s = the input or output of fn, see sg_fn_saves_output
 * BINARY       x y -> z                       broadcasting by stride 0; fn; alpha (ADD, SUB: x +- alpha y; LERP weight)
 * TERNARY      x y z -> w                     fn (WHERE: x ? y : z; ADDCMUL: x + alpha y z; ADDCDIV: x + alpha y / z ...)
 * COPY         x -> y                         same shape; converts dtype and layout
 * FILL         -> y                           alpha
 * IOTA         -> y                           last dim: alpha + beta * index
 * CUMSUM       x -> y                         along dim
 * CAT          x0 x1 .. -> y                  along dim
 * REDUCE       x -> y                         fn SUM, MEAN, MAX, MIN, ANY, STD; over dims_mask; y keeps reduced dims as size 1
 * NORM_ALL     x0 .. xn-1 -> y[n]             2-norm of each tensor (foreach norm); fp32 (fp64 of fp64)
 * EMBEDDING    table[v,d] idx[..] -> y[..,d]  also the gather of rows;  EMBEDDING_BWD  dy idx -> dtable (dense, zeroed first)
 * DROPOUT      x -> y mask(bool)              keeps with probability 1-alpha, scales by 1/(1-alpha)
 * DROPOUT_BWD  dy mask -> dx
 * RANDOM       -> y                           fn UNIFORM(alpha..beta), NORMAL(mean alpha, sd beta), INTEGER(alpha..beta-1), PERMUTATION,
 *                                             BERNOULLI(1 with probability alpha, else 0)
 * FOREACH      x0.. [y0..] [z0..] [scalar SCALAR_TENSOR] -> w0..   fn (unary, binary or ternary) on each of `count` tuples in
 *              one pass. With SCALAR_TENSOR the last input is a device scalar that is used in place of alpha.
 * ADAMW        p0.. g0.. m0.. v0.. (count each; all in place as outputs p m v order p0..,m0..,v0..)  one fused pass
 * AMP_UNSCALE  g0.. found inverse -> g0.. found   in place: g times inverse; found (fp32 scalar) becomes 1 where any of the
 *              `count` g is not finite before that, and keeps its value otherwise; inverse is an fp32 scalar
 * AMP_UPDATE   scale tracker found -> scale tracker   in place, one element each (fp32, i32, fp32): where found is not 0,
 *              scale times beta and tracker 0; else one more step counted, and at `count` of them scale times alpha
 *              (unless that is infinite) and tracker 0
 */
#define SG_OP_LIST(X)                                                                                                  \
    X(MATMUL, GEMM)                                                                                                    \
    X(CONV, CONV)                                                                                                      \
    X(CONV_BWD_DATA, CONV_BWD_DATA)                                                                                    \
    X(CONV_BWD_WEIGHTS, CONV_BWD_WEIGHTS)                                                                              \
    X(MAXPOOL, POOL)                                                                                                   \
    X(MAXPOOL_BWD, POOL)                                                                                               \
    X(RESIZE, POOL)                                                                                                    \
    X(PAD, COPY)                                                                                                       \
    X(SOFTMAX, SOFTMAX)                                                                                                \
    X(SOFTMAX_BWD, SOFTMAX)                                                                                            \
    X(LAYER_NORM, NORM)                                                                                                \
    X(LAYER_NORM_BWD, NORM)                                                                                            \
    X(RMS_NORM, NORM)                                                                                                  \
    X(RMS_NORM_BWD, NORM)                                                                                              \
    X(CHANNEL_NORM, NORM)                                                                                              \
    X(CHANNEL_NORM_BWD, NORM)                                                                                          \
    X(ATTENTION, ATTENTION)                                                                                            \
    X(ATTENTION_BWD, ATTENTION)                                                                                        \
    X(UNARY, ELEMENTWISE)                                                                                              \
    X(UNARY_BWD, ELEMENTWISE)                                                                                          \
    X(BINARY, ELEMENTWISE)                                                                                             \
    X(TERNARY, ELEMENTWISE)                                                                                            \
    X(COPY, COPY)                                                                                                      \
    X(FILL, COPY)                                                                                                      \
    X(IOTA, COPY)                                                                                                      \
    X(CUMSUM, REDUCE)                                                                                                  \
    X(CAT, COPY)                                                                                                       \
    X(REDUCE, REDUCE)                                                                                                  \
    X(NORM_ALL, OPTIMIZER)                                                                                             \
    X(EMBEDDING, EMBEDDING)                                                                                            \
    X(EMBEDDING_BWD, EMBEDDING)                                                                                        \
    X(DROPOUT, RANDOM)                                                                                                 \
    X(DROPOUT_BWD, ELEMENTWISE)                                                                                        \
    X(RANDOM, RANDOM)                                                                                                  \
    X(FOREACH, OPTIMIZER)                                                                                              \
    X(ADAMW, OPTIMIZER)                                                                                                \
    X(AMP_UNSCALE, OPTIMIZER)                                                                                          \
    X(AMP_UPDATE, OPTIMIZER)

typedef enum sg_op_kind {
#define X(name, cls) SG_OP_##name,
    SG_OP_LIST(X)
#undef X
        SG_OP_KIND_COUNT
} sg_op_kind;

/* Classes by which prices and framework factors are kept. BMM is a MATMUL with batch dims. */
typedef enum sg_op_class {
    SG_CLASS_GEMM,
    SG_CLASS_BMM,
    SG_CLASS_CONV,
    SG_CLASS_CONV_BWD_DATA,
    SG_CLASS_CONV_BWD_WEIGHTS,
    SG_CLASS_ATTENTION,
    SG_CLASS_NORM,
    SG_CLASS_SOFTMAX,
    SG_CLASS_ELEMENTWISE,
    SG_CLASS_COPY,
    SG_CLASS_POOL,
    SG_CLASS_REDUCE,
    SG_CLASS_EMBEDDING,
    SG_CLASS_RANDOM,
    SG_CLASS_OPTIMIZER,
    SG_CLASS_COUNT
} sg_op_class;

/* Functions of UNARY, BINARY, TERNARY, REDUCE, RANDOM and FOREACH. a = alpha, b = beta. */
/* clang-format off */
#define SG_FN_LIST(X)                                                                                         \
    X(NONE)                                                                                                   \
    /* unary: AFFINE a x + b; CLAMP to [a, b]; POW x^a; DIV_SCALAR x / a; MISH x tanh(log(1 + e^x)) */        \
    X(RELU) X(GELU_TANH) X(GELU_ERF) X(SILU) X(ELU) X(TANH) X(SIGMOID) X(EXP) X(LOG) X(SIN) X(COS) X(SQRT)    \
    X(RSQRT) X(SQUARE) X(ABS) X(NEG) X(SIGN) X(RECIPROCAL) X(AFFINE) X(CLAMP) X(NOT) X(POW) X(DIV_SCALAR)     \
    X(MISH) X(FLOOR)                                                                                          \
    /* binary: LERP x + a (y - x); POWV x^y */                                                                \
    X(ADD) X(SUB) X(MUL) X(DIV) X(MAX) X(MIN) X(LERP) X(SQUARED_DIFF) X(ABS_DIFF) X(EQ) X(NE) X(LT) X(LE)     \
    X(GT) X(GE) X(AND) X(OR) X(ATAN2) X(POWV)                                                                 \
    /* ternary: ADDCMUL x + a y z; ADDCDIV x + a y / z; SQUARED_DIFF_BWD a 2 (y - z) x;                       \
     * CLAMP_BWD x where a <= y <= b, else 0 (z = y); MASKED_FILL y ? a : x (z = y) */                        \
    X(WHERE) X(ADDCMUL) X(ADDCDIV) X(SQUARED_DIFF_BWD) X(CLAMP_BWD) X(MASKED_FILL)                            \
    /* reduce: STD unbiased */                                                                                \
    X(SUM) X(MEAN) X(ANY) X(STD)                                                                              \
    /* random */                                                                                              \
    X(UNIFORM) X(NORMAL) X(INTEGER) X(PERMUTATION) X(BERNOULLI)
/* clang-format on */

typedef enum sg_fn {
#define X(name) SG_FN_##name,
    SG_FN_LIST(X)
#undef X
        SG_FN_COUNT
} sg_fn;

enum {
    SG_HAS_BIAS = 1u << 0,
    SG_HAS_RESIDUAL = 1u << 1,
    SG_HAS_MASK = 1u << 2,
    SG_NO_DX = 1u << 3,
    SG_NO_DW = 1u << 4,
    SG_IN_PLACE = 1u << 5,      /* output 0 is input 0's memory, same descriptor (lists: each output its input) */
    SG_WEIGHT_B = 1u << 6,      /* MATMUL: b, CONV: w is a parameter and constant within a step: packing may be kept */
    SG_PER_SAMPLE = 1u << 7,    /* DROPOUT, RANDOM: `dim` is the batch dim, see sample_group */
    SG_SCALAR_TENSOR = 1u << 8, /* FOREACH: see above */
    SG_STEP_SIZE = 1u << 9,  /* UNARY, BINARY, TERNARY, FOREACH: alpha = -lr / (1 - beta1^step), step from the launch */
    SG_STEP_SQRT = 1u << 10, /* ... alpha = sqrt(1 - beta2^step) (Adam's bias corrections) */
    SG_COUPLED_DECAY =
        1u << 11 /* ADAMW: weight_decay times p is added to the gradient (Adam), p itself is not shrunk */
};

/* Flat, zero-initialised, compared with memcmp. */
typedef struct sg_attrs {
    int32_t fn;      /* sg_fn */
    int32_t act;     /* sg_fn: RELU, GELU_TANH ... applied last by MATMUL and CONV (ELU with constant 1); NONE = none */
    int32_t compute; /* sg_compute */
    uint32_t flags;
    int32_t kernel[2], stride[2], pad[2]; /* (h, w) */
    int32_t dim;                          /* CAT, CUMSUM: along it. With SG_PER_SAMPLE: the batch dim */
    uint32_t dims_mask;                   /* REDUCE */
    int32_t sample_group;                 /* SG_PER_SAMPLE: elements of `dim` that belong to one sample (heads), >= 1 */
    int32_t
        count; /* FOREACH, ADAMW, NORM_ALL, AMP_UNSCALE: tensors per list; AMP_UPDATE: steps; CHANNEL_NORM: groups */
    double alpha, beta, eps;
    double lr, beta1, beta2, weight_decay; /* ADAMW; bias correction takes the step from the launch */
} sg_attrs;

/* n_in input descriptors, then n_out output descriptors. */
typedef struct sg_op {
    int32_t kind; /* sg_op_kind */
    int32_t n_in, n_out;
    sg_attrs attrs;
    const sg_desc *desc;
} sg_op;

/* What one execution must do, whatever device does it (docs/design.md, "The step program").
 * flops: 2 x multiply-adds for GEMM, convolution and attention; 0 for bandwidth-bound kinds, whose price is their bytes.
 * Bytes: distinct elements of each input and output once; CHANNEL_NORM and its backward read x (and dy) once for the
 * statistics and once more for the result. launches: kernels a CUDA library needs (lists are split as
 * PyTorch's multi-tensor apply splits them: 320 blocks of 65,536 elements, and at most 110/64/48/36/30 tensors for
 * 1-5 lists; PyTorch ATen/native/cuda/MultiTensorApply.cuh). */
typedef struct sg_cost {
    double flops, bytes_read, bytes_written;
    int64_t launches;
} sg_cost;

sg_cost sg_op_cost(const sg_op *op);
sg_op_class sg_op_class_of(const sg_op *op);
const char *sg_op_kind_name(sg_op_kind kind);  /* "MATMUL" */
const char *sg_op_class_name(sg_op_class cls); /* "gemm", "conv_bwd_data", ... as used in files */
const char *sg_fn_name(sg_fn fn);              /* "RELU" */
/* "MATMUL f32[8,16] f32[16,4] -> f32[8,4]": kind, function, at most four inputs and outputs. */
void sg_op_text(const sg_op *op, char *text, size_t bytes);
/* Operands of fn: 1, 2 or 3 for unary, binary and ternary functions, 0 for NONE, reductions and random kinds. (MAX and MIN are
 * binary and reductions.) */
int sg_fn_arity(sg_fn fn);
/* True when UNARY_BWD of fn reads the output (relu, tanh, sigmoid, exp, sqrt, rsqrt), false: the input. ELU reads
 * its input, as PyTorch's does when it is not in place. */
bool sg_fn_saves_output(sg_fn fn);
/* Checks arity, shapes and dtypes against the contract above. Returns NULL when sound, else a sentence that says what is
 * wrong (static text). Devices may rely on it: models/ calls it for every op that it interns. */
const char *sg_op_check(const sg_op *op);

#ifdef __cplusplus
}
#endif
#endif
