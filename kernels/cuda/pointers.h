/* pointers.h: addresses of the matrices of a product whose batch needs two strides. */
#ifndef SG_KERNELS_CUDA_POINTERS_H
#define SG_KERNELS_CUDA_POINTERS_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_POINTERS_OPERANDS = 3 };

typedef struct sg_pointers {
    int outer, inner;                                                             /* matrices: outer x inner */
    int64_t outer_bytes[SG_POINTERS_OPERANDS], inner_bytes[SG_POINTERS_OPERANDS]; /* strides */
} sg_pointers;

/* Queues the writing of operand after operand, outer x inner addresses each, to device memory at `to`. */
sg_code sg_cuda_pointers(const sg_call *call, const sg_pointers *pointers, const char *const base[SG_POINTERS_OPERANDS],
                         const char **to);

#ifdef __cplusplus
}
#endif
#endif
