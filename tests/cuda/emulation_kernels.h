/* emulation_kernels.h: small kernels by which the emulation itself is tested, launched from C. */
#ifndef SG_TESTS_CUDA_EMULATION_KERNELS_H
#define SG_TESTS_CUDA_EMULATION_KERNELS_H

#include "tests/emulation/include/cuda_runtime_api.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* to[i] = value for i < n, each by a thread of its own. */
cudaError_t emu_fill(int *to, int n, int value, cudaStream_t stream);
/* to[i] = 2 from[i] */
cudaError_t emu_double(const int *from, int *to, int n, cudaStream_t stream);
/* *at += 1 */
cudaError_t emu_count(int *at, cudaStream_t stream);
/* Blocks of 64 threads: to[block] = the sum of the thread numbers, by shuffles, shared memory and a barrier. */
cudaError_t emu_sum(int *to, int blocks, cudaStream_t stream);
/* to[block] = what a block finds in its shared memory before it writes the block's number there. */
cudaError_t emu_leftover(int *to, int blocks, cudaStream_t stream);
/* Thread 0 does not come to the barrier. */
cudaError_t emu_diverge(int *to, cudaStream_t stream);
/* to[i] = the place in its block of the next of 64 threads, through shared memory; right without the barrier by luck alone. */
cudaError_t emu_pass_on(int *to, int blocks, bool with_barrier, cudaStream_t stream);
/* at[i] = at[i + 1], in place: right by luck alone. */
cudaError_t emu_shift(int *at, int n, cudaStream_t stream);
/* blocks x threads, `barriers` barriers; to[block] = threads x barriers. */
cudaError_t emu_barriers(int *to, int blocks, int threads, int barriers, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
