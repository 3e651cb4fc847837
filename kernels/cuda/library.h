/* library.h: how the cuda device takes functions from CUDA's libraries, which are opened at run time. */
#ifndef SG_KERNELS_CUDA_LIBRARY_H
#define SG_KERNELS_CUDA_LIBRARY_H

#include "kernels/cuda/cuda.h"
#include "kernels/nvidia/libraries.h"

/* Finds and opens a library (it stays open as long as the process). SG_MACHINE names what is missing and what installs it. */
sg_code sg_cuda_library_load(const sg_device *device, sg_cuda_library which, void **handle, sg_status *status);
/* Writes the address of a function to `function`, which points to a function pointer. SG_MACHINE names library and symbol. */
sg_code sg_cuda_library_symbol(void *handle, sg_cuda_library which, const char *symbol, void *function,
                               sg_status *status);

#endif
