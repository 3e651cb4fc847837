/* epilogue.h: what follows a product or a convolution in one pass: out = act(product + bias + residual), any dtypes and
 * strides. */
#ifndef SG_KERNELS_CUDA_EPILOGUE_H
#define SG_KERNELS_CUDA_EPILOGUE_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All descriptors have the shape of `out`; the bias repeats by stride 0. */
typedef struct sg_epilogue {
    sg_desc product, out, bias, residual; /* computed in fp64 where the product is, else in fp32 */
    int act;                              /* sg_fn */
    bool has_bias, has_residual;
} sg_epilogue;

/* The product may be `out` itself where the descriptors are equal. bias and residual: NULL where there are none. */
sg_code sg_cuda_epilogue(const sg_call *call, const sg_epilogue *epilogue, const void *product, void *out,
                         const void *bias, const void *residual);
/* A vector along dim `dim` of `shape`, repeated over all others. */
sg_desc sg_cuda_along(const sg_desc *vector, const sg_desc *shape, int dim);

#ifdef __cplusplus
}
#endif
#endif
