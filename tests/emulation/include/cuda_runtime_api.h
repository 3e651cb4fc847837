/* cuda_runtime_api.h of the emulation: the part of the CUDA runtime that the cuda device uses, with CUDA's own names and
 * values (CUDA 13.0 Runtime API). What is missing here must not be used there. */
#ifndef SG_EMULATION_CUDA_RUNTIME_API_H
#define SG_EMULATION_CUDA_RUNTIME_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define SG_EMU_DEFAULT(value) = value
#else
#define SG_EMU_DEFAULT(value)
#endif

#define CUDART_VERSION 13000
#define CUDARTAPI
#define SG_EMU_API __attribute__((visibility("default")))

typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInitializationError = 3,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNoKernelImageForDevice = 209,
    cudaErrorECCUncorrectable = 214,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureUnjoined = 904,
    cudaErrorStreamCaptureIsolation = 905,
    cudaErrorCapturedEvent = 907,
    cudaErrorStreamCaptureWrongThread = 908,
    cudaErrorUnknown = 999
} cudaError_t;

typedef struct sg_emu_stream *cudaStream_t;
typedef struct sg_emu_event *cudaEvent_t;
typedef struct sg_emu_graph *cudaGraph_t;
typedef struct sg_emu_graph *cudaGraphExec_t;

enum { cudaStreamNonBlocking = 1 };
enum { cudaEventDefault = 0, cudaEventDisableTiming = 2 };
enum cudaMemcpyKind {
    cudaMemcpyHostToHost,
    cudaMemcpyHostToDevice,
    cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice,
    cudaMemcpyDefault
};
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};

struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    size_t sharedMemPerBlock;
    int major, minor;
    int multiProcessorCount;
    int l2CacheSize;
    int maxThreadsPerMultiProcessor;
};

SG_EMU_API const char *cudaGetErrorName(cudaError_t error);
SG_EMU_API const char *cudaGetErrorString(cudaError_t error);
SG_EMU_API cudaError_t cudaGetLastError(void);
SG_EMU_API cudaError_t cudaPeekAtLastError(void);

SG_EMU_API cudaError_t cudaDriverGetVersion(int *version);
SG_EMU_API cudaError_t cudaRuntimeGetVersion(int *version);
SG_EMU_API cudaError_t cudaGetDeviceCount(int *count);
SG_EMU_API cudaError_t cudaSetDevice(int device);
SG_EMU_API cudaError_t cudaGetDevice(int *device);
SG_EMU_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
SG_EMU_API cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device);
SG_EMU_API cudaError_t cudaDeviceSynchronize(void);

SG_EMU_API cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
SG_EMU_API cudaError_t cudaMalloc(void **pointer, size_t bytes);
SG_EMU_API cudaError_t cudaFree(void *pointer);
SG_EMU_API cudaError_t cudaMallocHost(void **pointer, size_t bytes);
SG_EMU_API cudaError_t cudaFreeHost(void *pointer);
SG_EMU_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                       cudaStream_t stream SG_EMU_DEFAULT(0));
SG_EMU_API cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream SG_EMU_DEFAULT(0));

SG_EMU_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
SG_EMU_API cudaError_t cudaStreamDestroy(cudaStream_t stream);
SG_EMU_API cudaError_t cudaStreamSynchronize(cudaStream_t stream);
SG_EMU_API cudaError_t cudaStreamQuery(cudaStream_t stream);
SG_EMU_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags SG_EMU_DEFAULT(0));

SG_EMU_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
SG_EMU_API cudaError_t cudaEventDestroy(cudaEvent_t event);
SG_EMU_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream SG_EMU_DEFAULT(0));
SG_EMU_API cudaError_t cudaEventQuery(cudaEvent_t event);
SG_EMU_API cudaError_t cudaEventSynchronize(cudaEvent_t event);
SG_EMU_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end);

SG_EMU_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
SG_EMU_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
SG_EMU_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                            unsigned long long flags SG_EMU_DEFAULT(0));
SG_EMU_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
SG_EMU_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
SG_EMU_API cudaError_t cudaGraphDestroy(cudaGraph_t graph);

#ifdef __cplusplus
}
#endif
#endif
