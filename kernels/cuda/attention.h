/* attention.h: the passes over an attention's scores between its products. */
#ifndef SG_KERNELS_CUDA_ATTENTION_H
#define SG_KERNELS_CUDA_ATTENTION_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Some batches and heads; scores and what is made of them lie contiguous, [batches, heads, t, s]. */
typedef struct sg_attention_rows {
    int64_t batches, heads, t, s, d;
    double alpha;
    sg_desc mask;         /* strides of [b, h, t, s]; ndim 0: none */
    int64_t lse[3];       /* strides of [b, h, t] */
    sg_desc d_o, o;       /* backward: strides of [b, h, t, d] */
    int32_t narrow_dtype; /* of probabilities and dS; fp32: they take the scores' place */
} sg_attention_rows;

/* probabilities = softmax(scores + mask), lse its logarithm of sums; a row without any key is zero, its lse -inf. The
 * addresses are those of the first batch and head. */
sg_code sg_cuda_attention_softmax(const sg_call *call, const sg_attention_rows *rows, const float *scores,
                                  const void *mask, float *lse, void *probabilities);
/* probabilities from scores and lse; ds = alpha probabilities (dp - do o), do o a row's dot product. */
sg_code sg_cuda_attention_slopes(const sg_call *call, const sg_attention_rows *rows, const float *scores,
                                 const float *dp, const void *mask, const float *lse, const void *d_o, const void *o,
                                 void *probabilities, void *ds);

#ifdef __cplusplus
}
#endif
#endif
