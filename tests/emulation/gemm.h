/* gemm.h: the product that the emulated cuBLAS, cuBLASLt and cuDNN compute with. */
#ifndef SG_TESTS_EMULATION_GEMM_H
#define SG_TESTS_EMULATION_GEMM_H

#include "tests/emulation/include/cublasLt.h"
#include "tests/emulation/numbers.h"

#include <stdbool.h>

typedef struct sg_emu_matrix {
    const void *at;
    const void *const *pointers; /* of each batch, device memory; NULL: at + batch * stride */
    cudaDataType type;
    bool transposed;
    int64_t ld, stride;
} sg_emu_matrix;

/* d = act(alpha op(a) op(b) + beta c + bias), column-major; d is c. */
typedef struct sg_emu_gemm {
    int64_t m, n, k, batches;
    double alpha, beta;
    sg_emu_matrix a, b, d;
    sg_emu_rounding rounding; /* of factors */
    const void *bias;         /* NULL: none; a value per row of d, of d's type */
    cublasLtEpilogue_t epilogue;
} sg_emu_gemm;

/* False where cuBLAS has no product of these types; else how it takes the factors. */
bool sg_emu_gemm_types(cublasComputeType_t compute, cudaDataType a, cudaDataType b, cudaDataType d,
                       sg_emu_rounding *rounding);
/* Shapes and leading dimensions are sound, and all operands lie in device memory. */
bool sg_emu_gemm_is_sound(const sg_emu_gemm *gemm);
/* Takes a copy and queues it. `fails`: the caller was told to. */
cudaError_t sg_emu_gemm_enqueue(const sg_emu_gemm *gemm, cudaStream_t stream);

#endif
