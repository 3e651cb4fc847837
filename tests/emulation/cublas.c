/* cublas.c: the emulated cuBLAS: checks what it is given as cuBLAS does, and queues the product. */
#include "tests/emulation/emulation.h"
#include "tests/emulation/gemm.h"

#include <stdlib.h>

struct cublasContext {
    cudaStream_t stream;
    int device;
};

#define ENTER()                                                                                                        \
    do {                                                                                                               \
        if (SG_EMU_CALL_FAILS()) return CUBLAS_STATUS_INTERNAL_ERROR;                                                  \
    } while (0)

const char *cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED: return "the resource allocation failed";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the functionality is not supported";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "the function failed to launch on the GPU";
    default: return "an internal operation failed";
    }
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value) {
    static const int version[] = {13, 0, 2};
    if (!value || (unsigned)type > PATCH_LEVEL) return CUBLAS_STATUS_INVALID_VALUE;
    *value = version[type];
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasGetCudartVersion(void) {
    return CUDART_VERSION;
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle) {
    ENTER();
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = calloc(1, sizeof **handle);
    if (!*handle || cudaGetDevice(&(*handle)->device) != cudaSuccess) {
        free(*handle);
        *handle = NULL;
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    sg_emu_count_handle(1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    sg_emu_count_handle(-1);
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    ENTER();
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (sg_emu_stream_device(stream) != handle->device) return CUBLAS_STATUS_INVALID_VALUE;
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes) {
    enum { ALIGNMENT = 256 };
    ENTER();
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    bool sound = (uintptr_t)workspace % ALIGNMENT == 0 && sg_emu_is_device_memory(workspace, bytes);
    return sound ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static bool is_op(cublasOperation_t op) {
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T;
}

static double scale(cublasComputeType_t compute, const void *value) {
    return compute == CUBLAS_COMPUTE_64F ? *(const double *)value : (double)*(const float *)value;
}

/* What the three forms of a product share. */
static cublasStatus_t queue(cublasHandle_t handle, sg_emu_gemm *g, cublasComputeType_t compute, const void *alpha,
                            const void *beta) {
    if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
    if (!sg_emu_gemm_types(compute, g->a.type, g->b.type, g->d.type, &g->rounding)) return CUBLAS_STATUS_NOT_SUPPORTED;
    g->alpha = scale(compute, alpha);
    g->beta = scale(compute, beta);
    if (!sg_emu_gemm_is_sound(g)) return CUBLAS_STATUS_INVALID_VALUE;
    return sg_emu_gemm_enqueue(g, handle->stream) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                 : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void *alpha, const void *a, cudaDataType a_type, int lda, const void *b,
                            cudaDataType b_type, int ldb, const void *beta, void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algo) {
    ENTER();
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_op(transa) || !is_op(transb) || algo != CUBLAS_GEMM_DEFAULT) return CUBLAS_STATUS_INVALID_VALUE;
    sg_emu_gemm g = {.m = m, .n = n, .k = k, .batches = 1};
    g.a = (sg_emu_matrix){.at = a, .type = a_type, .transposed = transa == CUBLAS_OP_T, .ld = lda};
    g.b = (sg_emu_matrix){.at = b, .type = b_type, .transposed = transb == CUBLAS_OP_T, .ld = ldb};
    g.d = (sg_emu_matrix){.at = c, .type = c_type, .ld = ldc};
    return queue(handle, &g, compute, alpha, beta);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                          int m, int n, int k, const void *alpha, const void *a, cudaDataType a_type,
                                          int lda, long long stride_a, const void *b, cudaDataType b_type, int ldb,
                                          long long stride_b, const void *beta, void *c, cudaDataType c_type, int ldc,
                                          long long stride_c, int batches, cublasComputeType_t compute,
                                          cublasGemmAlgo_t algo) {
    ENTER();
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_op(transa) || !is_op(transb) || algo != CUBLAS_GEMM_DEFAULT) return CUBLAS_STATUS_INVALID_VALUE;
    sg_emu_gemm g = {.m = m, .n = n, .k = k, .batches = batches};
    g.a = (sg_emu_matrix){.at = a, .type = a_type, .transposed = transa == CUBLAS_OP_T, .ld = lda, .stride = stride_a};
    g.b = (sg_emu_matrix){.at = b, .type = b_type, .transposed = transb == CUBLAS_OP_T, .ld = ldb, .stride = stride_b};
    g.d = (sg_emu_matrix){.at = c, .type = c_type, .ld = ldc, .stride = stride_c};
    return queue(handle, &g, compute, alpha, beta);
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                                   int n, int k, const void *alpha, const void *const a[], cudaDataType a_type, int lda,
                                   const void *const b[], cudaDataType b_type, int ldb, const void *beta,
                                   void *const c[], cudaDataType c_type, int ldc, int batches,
                                   cublasComputeType_t compute, cublasGemmAlgo_t algo) {
    ENTER();
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_op(transa) || !is_op(transb) || algo != CUBLAS_GEMM_DEFAULT || !a || !b || !c)
        return CUBLAS_STATUS_INVALID_VALUE;
    sg_emu_gemm g = {.m = m, .n = n, .k = k, .batches = batches};
    g.a = (sg_emu_matrix){.pointers = a, .type = a_type, .transposed = transa == CUBLAS_OP_T, .ld = lda};
    g.b = (sg_emu_matrix){.pointers = b, .type = b_type, .transposed = transb == CUBLAS_OP_T, .ld = ldb};
    g.d = (sg_emu_matrix){.pointers = (const void *const *)c, .type = c_type, .ld = ldc};
    return queue(handle, &g, compute, alpha, beta);
}
