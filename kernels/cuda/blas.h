/* blas.h: cuBLAS and cuBLASLt as the cuda device uses them. */
#ifndef SG_KERNELS_CUDA_BLAS_H
#define SG_KERNELS_CUDA_BLAS_H

#include "kernels/cuda/cuda.h"

#include <cublasLt.h>
#include <cublas_v2.h>

#define SG_CUBLAS_LIST(X)                                                                                              \
    X(cublasCreate_v2)                                                                                                 \
    X(cublasDestroy_v2)                                                                                                \
    X(cublasSetStream_v2)                                                                                              \
    X(cublasSetWorkspace_v2)                                                                                           \
    X(cublasGetStatusString)                                                                                           \
    X(cublasGemmEx)                                                                                                    \
    X(cublasGemmBatchedEx)                                                                                             \
    X(cublasGemmStridedBatchedEx)
#define SG_CUBLASLT_LIST(X)                                                                                            \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtDestroy)                                                                                                 \
    X(cublasLtMatmul)                                                                                                  \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                                                     \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)

/* cuBLAS on one stream. A handle of its own keeps the host's part of a launch to one call. */
typedef struct sg_cuda_blas_lane {
    cudaStream_t stream;
    cublasHandle_t handle;
    void *workspace;
} sg_cuda_blas_lane;

struct sg_cuda_blas {
#define X(f) __typeof__(f) *(f);
    SG_CUBLAS_LIST(X)
    SG_CUBLASLT_LIST(X)
#undef X
    sg_cuda_blas_lane lane[SG_STREAM_COUNT];
    cublasLtHandle_t lt;
    size_t workspace_bytes; /* of each lane, for cuBLAS and cuBLASLt */
};

/* Opens the libraries unless they are open, with the lane of the compute stream. */
sg_code sg_cuda_blas_open(sg_device *device, sg_status *status);
/* The lane of one of the device's streams, made when it is first asked for. */
sg_code sg_cuda_blas_lane_of(sg_device *device, cudaStream_t stream, const sg_cuda_blas_lane **lane, sg_status *status);
/* SG_OK, or the failure of a call with what was being done and what to do about it. */
sg_code sg_cuda_blas_check(const sg_cuda_blas *blas, cublasStatus_t result, const char *doing, sg_status *status);
/* CUDA's name of a floating-point dtype. */
cudaDataType_t sg_cuda_blas_dtype(int32_t dtype);

#endif
