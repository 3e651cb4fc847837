/* platform.h: the one place that serves both nvcc and the host compiler under which tests execute the kernels.
 *
 * SG_LAUNCH(kernel, grid, block, stream, arguments...) queues a kernel whose threads never meet; SG_LAUNCH_TOGETHER one that
 * uses __syncthreads, shuffles, votes or SG_SHARED (every thread of the block reaches every one of them). Both are a
 * cudaError_t. SG_SHARED(type, name, count) is an array of the block. Whole warps shuffle: mask SG_WARP. */
#ifndef SG_KERNELS_CUDA_PLATFORM_H
#define SG_KERNELS_CUDA_PLATFORM_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <curand_philox4x32_x.h>

#define SG_WARP 0xffffffffu

#if defined(__CUDACC__)
#define SG_UNROLL                    _Pragma("unroll")
#define SG_SHARED(type, name, count) __shared__ type name[count]
/* clang-format off */
#define SG_LAUNCH(kernel, grid, block, stream, ...)                                                                    \
    ((kernel)<<<(grid), (block), 0, (stream)>>>(__VA_ARGS__), cudaGetLastError())
/* clang-format on */
#define SG_LAUNCH_TOGETHER(kernel, grid, block, stream, ...) SG_LAUNCH(kernel, grid, block, stream, __VA_ARGS__)
#else
#define SG_UNROLL
#define SG_SHARED(type, name, count)                                                                                   \
    static const char name##_key = 0;                                                                                  \
    type(&name)[count] = *static_cast<type(*)[count]>(sg_emu_shared(&name##_key, sizeof(type[count])))
#define SG_LAUNCH(kernel, grid, block, stream, ...)                                                                    \
    sg_emu_launch_kernel(#kernel, 0, (grid), (block), (stream), (kernel), __VA_ARGS__)
#define SG_LAUNCH_TOGETHER(kernel, grid, block, stream, ...)                                                           \
    sg_emu_launch_kernel(#kernel, 1, (grid), (block), (stream), (kernel), __VA_ARGS__)
#endif

#endif
