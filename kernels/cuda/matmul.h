/* matmul.h: a product as cuBLAS sees it: column-major, with the factors in the order that makes the result so. */
#ifndef SG_KERNELS_CUDA_MATMUL_H
#define SG_KERNELS_CUDA_MATMUL_H

#include "kernels/cuda/blas.h"

/* A matrix: stored column by column, or (transposed) row by row; ld elements from one to the next. */
typedef struct sg_cuda_matrix {
    cublasOperation_t op;
    cudaDataType_t type;
    int ld;
} sg_cuda_matrix;

enum { SG_LEFT, SG_RIGHT, SG_RESULT, SG_FACTORS };

typedef struct sg_cuda_product {
    sg_cuda_matrix matrix[SG_FACTORS];
    int m, n, k;  /* result m x n, column-major */
    bool swapped; /* left is b: the result is c's transpose */
    cublasComputeType_t compute;
    int batches[2];                /* outer, inner; 1: none */
    int64_t stride[2][SG_FACTORS]; /* of them, in elements */
} sg_cuda_product;

/* Whether cuBLAS can read the last two dims as a matrix. */
bool sg_cuda_matrix_fits(const sg_desc *desc);
/* Describes c = a b; all three fit, c's type is one that cuBLAS writes for a's. SG_NO: larger than cuBLAS counts. */
sg_code sg_cuda_product_of(const sg_op *op, const sg_desc *a, const sg_desc *b, const sg_desc *c,
                           sg_cuda_product *product, sg_status *status);

#endif
