/* libraries.h: finds the CUDA libraries of this machine: in a folder that is named, in a toolkit, or in the wheels of a
 * Python environment.
 *
 * Searched in this order, each library by itself; the first file wins:
 *   1. the folder given, and $STEPGAUGE_CUDA_LIBS: itself, its lib and lib64, or as an environment, a site-packages or
 *      its nvidia folder;
 *   2. the library path of the system (what dlopen finds by name);
 *   3. $VIRTUAL_ENV and $CONDA_PREFIX: the nvidia wheels in their site-packages, then their lib;
 *   4. /usr/local/cuda and /usr/local/cuda-*: lib64 and targets.
 * A cuBLAS takes its cuBLASLt from its own folder if it is there. Nothing is opened for global use. */
#ifndef SG_KERNELS_NVIDIA_LIBRARIES_H
#define SG_KERNELS_NVIDIA_LIBRARIES_H

#include "kernels/status.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SG_CUDA_MAJOR = 13, SG_CUDA_PATH_BYTES = 1024 };

typedef enum sg_cuda_library {
    SG_CUDA_CUBLAS,
    SG_CUDA_CUBLASLT,
    SG_CUDA_CUDNN,  /* optional: convolutions then go through im2col and GEMM */
    SG_CUDA_CURAND, /* optional: random numbers come from its header's device function, which needs no library */
    SG_CUDA_NCCL,   /* optional: needed by more than one GPU */
    SG_CUDA_LIBRARY_COUNT
} sg_cuda_library;

typedef struct sg_cuda_libraries {
    char path[SG_CUDA_LIBRARY_COUNT][SG_CUDA_PATH_BYTES]; /* "": not found */
    char version[SG_CUDA_LIBRARY_COUNT][24];              /* "13.0.2"; filled by sg_cuda_libraries_versions */
    int cuda[SG_CUDA_LIBRARY_COUNT];                      /* CUDA major that it was built for; 0: it does not tell */
    /* a library of another CUDA major on the way: "" or its path */
    char other_path[SG_CUDA_PATH_BYTES];
    int other_major;
    char searched[512]; /* places, for messages */
} sg_cuda_libraries;

/* "libcublas.so.13" */
const char *sg_cuda_library_file(sg_cuda_library which);
/* "cuBLAS" */
const char *sg_cuda_library_name(sg_cuda_library which);
/* What installs it: "pip install nvidia-cublas, or ..." */
const char *sg_cuda_library_remedy(sg_cuda_library which);
bool sg_cuda_library_optional(sg_cuda_library which);

/* dir: searched first, may be NULL; one that is no folder is SG_BAD_INPUT. SG_MACHINE names what is missing, where it was
 * looked for and what installs it, or the two paths of a mix of CUDA majors; *found then still holds what there is.
 * Optional libraries that are missing have an empty path and are no error. */
sg_code sg_cuda_libraries_find(const char *dir, sg_cuda_libraries *found, sg_status *status);

/* The same with other places of the system: the folder that stands for /usr/local, and whether the library path counts. */
typedef struct sg_cuda_places {
    const char *toolkits;
    bool library_path;
} sg_cuda_places;
sg_code sg_cuda_libraries_find_in(const sg_cuda_places *places, const char *dir, sg_cuda_libraries *found,
                                  sg_status *status);

/* Opens the found library for this caller's use alone (RTLD_LOCAL); it stays open as long as the process, as its threads
 * and exit handlers do. SG_MACHINE: not found, or does not load, with the remedy. */
sg_code sg_cuda_library_open(const sg_cuda_libraries *found, sg_cuda_library which, void **handle, sg_status *status);

/* Opens what was found, asks for versions and for the CUDA that each was built for. SG_MACHINE names the two paths of a
 * mix of majors. */
sg_code sg_cuda_libraries_versions(sg_cuda_libraries *found, sg_status *status);

#ifdef __cplusplus
}
#endif
#endif
