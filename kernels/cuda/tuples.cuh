/* tuples.cuh: one element-wise function on one tuple of tensors, for lists that no kernel takes at once. desc, at: the output,
 * then the inputs. */
#ifndef SG_KERNELS_CUDA_TUPLES_CUH
#define SG_KERNELS_CUDA_TUPLES_CUH

#include "kernels/cuda/alpha.cuh"

cudaError_t sg_unary_tuple(const sg_attrs &attrs, const sg_alpha &alpha, const sg_desc *const *desc, char *const *at,
                           cudaStream_t stream);
cudaError_t sg_binary_tuple(const sg_attrs &attrs, const sg_alpha &alpha, const sg_desc *const *desc, char *const *at,
                            cudaStream_t stream);
cudaError_t sg_ternary_tuple(const sg_attrs &attrs, const sg_alpha &alpha, const sg_desc *const *desc, char *const *at,
                             cudaStream_t stream);

#endif
