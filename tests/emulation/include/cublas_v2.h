/* cublas_v2.h of the emulation: the part of cuBLAS that the cuda device uses, with cuBLAS' own names and values (13.0). */
#ifndef SG_EMULATION_CUBLAS_V2_H
#define SG_EMULATION_CUBLAS_V2_H

#include "cuda_runtime_api.h"
#include "library_types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_NOT_INITIALIZED = 1,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8,
    CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
} cublasStatus_t;

typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 } cublasOperation_t;
typedef enum { CUBLAS_GEMM_DEFAULT = -1 } cublasGemmAlgo_t;
typedef enum {
    CUBLAS_COMPUTE_32F = 68,
    CUBLAS_COMPUTE_64F = 70,
    CUBLAS_COMPUTE_32F_FAST_16F = 74,
    CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
} cublasComputeType_t;

typedef struct cublasContext *cublasHandle_t;

SG_EMU_API cublasStatus_t cublasCreate_v2(cublasHandle_t *handle);
SG_EMU_API cublasStatus_t cublasDestroy_v2(cublasHandle_t handle);
SG_EMU_API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream);
SG_EMU_API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes);
SG_EMU_API const char *cublasGetStatusString(cublasStatus_t status);
SG_EMU_API cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value);
SG_EMU_API size_t cublasGetCudartVersion(void);
SG_EMU_API cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                                       int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
                                       const void *b, cudaDataType b_type, int ldb, const void *beta, void *c,
                                       cudaDataType c_type, int ldc, cublasComputeType_t compute,
                                       cublasGemmAlgo_t algo);
SG_EMU_API cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                                     cublasOperation_t transb, int m, int n, int k, const void *alpha,
                                                     const void *a, cudaDataType a_type, int lda, long long stride_a,
                                                     const void *b, cudaDataType b_type, int ldb, long long stride_b,
                                                     const void *beta, void *c, cudaDataType c_type, int ldc,
                                                     long long stride_c, int batches, cublasComputeType_t compute,
                                                     cublasGemmAlgo_t algo);
SG_EMU_API cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                              int m, int n, int k, const void *alpha, const void *const a[],
                                              cudaDataType a_type, int lda, const void *const b[], cudaDataType b_type,
                                              int ldb, const void *beta, void *const c[], cudaDataType c_type, int ldc,
                                              int batches, cublasComputeType_t compute, cublasGemmAlgo_t algo);

#ifdef __cplusplus
}
#endif
#endif
