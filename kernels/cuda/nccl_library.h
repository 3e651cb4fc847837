/* nccl_library.h: NCCL's functions, opened when a communicator needs them. */
#ifndef SG_KERNELS_CUDA_NCCL_LIBRARY_H
#define SG_KERNELS_CUDA_NCCL_LIBRARY_H

#include "kernels/status.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#define SG_NCCL_FUNCTIONS(X)                                                                                           \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclCommInitRankConfig)                                                                                          \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclCommFinalize)                                                                                                \
    X(ncclCommAbort)                                                                                                   \
    X(ncclCommGetAsyncError)                                                                                           \
    X(ncclGetErrorString)                                                                                              \
    X(ncclGetLastError)                                                                                                \
    X(ncclAllReduce)                                                                                                   \
    X(ncclAllGather)                                                                                                   \
    X(ncclReduceScatter)

typedef struct sg_nccl {
#define X(name) __typeof__(&name) name;
    SG_NCCL_FUNCTIONS(X)
#undef X
} sg_nccl;

/* dir: where to look first, or NULL. SG_MACHINE: NCCL is missing, or too old for a function, with the remedy. */
sg_code sg_nccl_open(const char *dir, sg_nccl *nccl, sg_status *status);

#endif
