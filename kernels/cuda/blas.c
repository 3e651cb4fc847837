/* blas.c: opens cuBLAS and cuBLASLt; handles, workspaces, errors. */
#include "kernels/cuda/blas.h"
#include "kernels/cuda/library.h"

#include <stdio.h>
#include <stdlib.h>

sg_code sg_cuda_blas_check(const sg_cuda_blas *blas, cublasStatus_t result, const char *doing, sg_status *status) {
    if (result == CUBLAS_STATUS_SUCCESS) return SG_OK;
    const char *why = blas->cublasGetStatusString(result);
    if (result == CUBLAS_STATUS_ALLOC_FAILED)
        return sg_fail(status, SG_NO, "out of memory: %s: %s", doing, why ? why : "cuBLAS has no memory");
    return sg_fail(status, SG_MACHINE, "%s: %s (cuBLAS status %d); look at the GPU with 'stepgauge devices'", doing,
                   why ? why : "no reason given", (int)result);
}

cudaDataType_t sg_cuda_blas_dtype(int32_t dtype) {
    switch ((sg_dtype)dtype) {
    case SG_F64: return CUDA_R_64F;
    case SG_BF16: return CUDA_R_16BF;
    case SG_F16: return CUDA_R_16F;
    default: return CUDA_R_32F;
    }
}

/* PyTorch gives cuBLAS 2 x 4 MiB and 8 x 16 KiB, and 32 MiB on Hopper and Blackwell; since 2.8 cuBLASLt works in the same
 * memory (aten/src/ATen/cuda/CublasHandlePool.cpp, parseChosenWorkspaceSize and getCUDABlasLtWorkspaceSize). */
static size_t workspace_bytes_of(int capability) {
    int major = capability / 10;
    return major == 9 || major == 10 || major == 12 ? (size_t)32 << 20 : ((size_t)2 * 4096 + 8 * 16) << 10;
}

static sg_code load(sg_device *device, sg_cuda_blas *blas, sg_status *status) {
    void *handle = NULL;
    sg_code code = sg_cuda_library_load(device, SG_CUDA_CUBLAS, &handle, status);
#define X(f)                                                                                                           \
    if (code == SG_OK) code = sg_cuda_library_symbol(handle, SG_CUDA_CUBLAS, #f, &blas->f, status);
    SG_CUBLAS_LIST(X)
#undef X
    if (code == SG_OK) code = sg_cuda_library_load(device, SG_CUDA_CUBLASLT, &handle, status);
#define X(f)                                                                                                           \
    if (code == SG_OK) code = sg_cuda_library_symbol(handle, SG_CUDA_CUBLASLT, #f, &blas->f, status);
    SG_CUBLASLT_LIST(X)
#undef X
    return code;
}

static sg_code open_lane(sg_cuda_blas *blas, cudaStream_t stream, sg_cuda_blas_lane *lane, sg_status *status) {
    lane->stream = stream;
    sg_code code =
        sg_cuda_check(cudaMalloc(&lane->workspace, blas->workspace_bytes), "allocating cuBLAS's workspace", status);
    if (code == SG_OK) code = sg_cuda_blas_check(blas, blas->cublasCreate_v2(&lane->handle), "starting cuBLAS", status);
    if (code == SG_OK)
        code =
            sg_cuda_blas_check(blas, blas->cublasSetStream_v2(lane->handle, stream), "giving cuBLAS a stream", status);
    if (code == SG_OK)
        code =
            sg_cuda_blas_check(blas, blas->cublasSetWorkspace_v2(lane->handle, lane->workspace, blas->workspace_bytes),
                               "giving cuBLAS a workspace", status);
    return code;
}

static void close_lane(const sg_cuda_blas *blas, sg_cuda_blas_lane *lane) {
    if (lane->handle && blas->cublasDestroy_v2) (void)blas->cublasDestroy_v2(lane->handle);
    if (lane->workspace) (void)cudaFree(lane->workspace);
    *lane = (sg_cuda_blas_lane){0};
}

sg_code sg_cuda_blas_open(sg_device *device, sg_status *status) {
    if (device->blas) return SG_OK;
    sg_cuda_blas *blas = calloc(1, sizeof *blas);
    if (!blas) return sg_fail_memory(status, sizeof *blas, "cuBLAS's functions");
    blas->workspace_bytes = workspace_bytes_of(device->capability);
    sg_code code = load(device, blas, status);
    if (code == SG_OK) code = open_lane(blas, device->stream[SG_STREAM_COMPUTE], &blas->lane[0], status);
    if (code == SG_OK) code = sg_cuda_blas_check(blas, blas->cublasLtCreate(&blas->lt), "starting cuBLASLt", status);
    if (code != SG_OK) {
        sg_cuda_blas_close(blas);
        return sg_fail_in(status, "preparing matrix products on GPU %d", device->index);
    }
    device->blas = blas;
    return SG_OK;
}

sg_code sg_cuda_blas_lane_of(sg_device *device, cudaStream_t stream, const sg_cuda_blas_lane **out, sg_status *status) {
    sg_cuda_blas *blas = device->blas;
    int i = 0;
    while (i < SG_STREAM_COUNT && blas->lane[i].handle && blas->lane[i].stream != stream) i++;
    if (i == SG_STREAM_COUNT)
        return sg_fail(status, SG_BAD_INPUT, "a product was queued on a stream of another device");
    *out = &blas->lane[i];
    if (blas->lane[i].handle) return SG_OK;
    sg_code code = open_lane(blas, stream, &blas->lane[i], status);
    if (code != SG_OK) close_lane(blas, &blas->lane[i]);
    return code;
}

void sg_cuda_blas_close(sg_cuda_blas *blas) {
    if (!blas) return;
    if (blas->lt) (void)blas->cublasLtDestroy(blas->lt);
    for (int i = 0; i < SG_STREAM_COUNT; i++) close_lane(blas, &blas->lane[i]);
    free(blas);
}
