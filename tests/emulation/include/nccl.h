/* nccl.h of the emulation: the part of NCCL that the cuda device uses, with NCCL's own names and values (2.28). */
#ifndef SG_EMULATION_NCCL_H
#define SG_EMULATION_NCCL_H

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;
typedef struct sg_emu_nccl *ncclComm_t;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7
} ncclResult_t;
typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 } ncclRedOp_t;
typedef enum { ncclInt8 = 0, ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat64 = 8, ncclBfloat16 = 9 } ncclDataType_t;

typedef struct ncclConfig {
    size_t size;
    unsigned magic, version;
    int blocking;
} ncclConfig_t;
#define NCCL_CONFIG_INITIALIZER                                                                                        \
    { sizeof(ncclConfig_t), 0xcafebeefu, 22800u, (int)0x80000000 }

SG_EMU_API ncclResult_t ncclGetVersion(int *version);
SG_EMU_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
SG_EMU_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                               ncclConfig_t *config);
SG_EMU_API ncclResult_t ncclCommFinalize(ncclComm_t comm);
SG_EMU_API ncclResult_t ncclCommDestroy(ncclComm_t comm);
SG_EMU_API ncclResult_t ncclCommAbort(ncclComm_t comm);
SG_EMU_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error);
SG_EMU_API const char *ncclGetErrorString(ncclResult_t result);
SG_EMU_API const char *ncclGetLastError(ncclComm_t comm);
SG_EMU_API ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, cudaStream_t stream);
SG_EMU_API ncclResult_t ncclReduceScatter(const void *from, void *to, size_t part_count, ncclDataType_t type,
                                          ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
SG_EMU_API ncclResult_t ncclAllGather(const void *from, void *to, size_t part_count, ncclDataType_t type,
                                      ncclComm_t comm, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
