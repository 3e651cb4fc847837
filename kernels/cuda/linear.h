/* linear.h: a product with bias and activation as one cuBLASLt call, as PyTorch's addmm runs it. */
#ifndef SG_KERNELS_CUDA_LINEAR_H
#define SG_KERNELS_CUDA_LINEAR_H

#include "kernels/cuda/matmul.h"

typedef struct sg_cuda_linear sg_cuda_linear;

/* True where cuBLASLt adds the bias (and applies the activation) of this op to this product itself. */
bool sg_cuda_linear_fits(const sg_plan *plan, const sg_cuda_product *product);
/* *linear stays NULL where cuBLASLt has no algorithm for the product. */
sg_code sg_cuda_linear_new(sg_device *device, const sg_plan *plan, const sg_cuda_product *product,
                           sg_cuda_linear **linear, sg_status *status);
void sg_cuda_linear_free(sg_cuda_linear *linear);
sg_code sg_cuda_linear_run(const sg_call *call, sg_cuda_linear *linear, const void *left, const void *right,
                           const void *bias, void *result);

#endif
