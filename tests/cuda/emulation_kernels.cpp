#include "tests/cuda/emulation_kernels.h"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/platform.h"

enum { THREADS = 64, MANY = 1024 };

static __global__ void fill(int *to, int n, int value) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) to[i] = value;
}
static __global__ void twice(const int *from, int *to, int n) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) to[i] = 2 * from[i];
}
static __global__ void count(int *at) {
    *at += 1;
}
static __global__ void sum(int *to) {
    int total = sg_block_reduce<sg_sum_of<int>>((int)threadIdx.x);
    if (threadIdx.x == THREADS - 1) to[blockIdx.x] = total;
}
static __global__ void leftover(int *to) {
    SG_SHARED(int, kept, 1);
    if (threadIdx.x == 0) {
        to[blockIdx.x] = kept[0];
        kept[0] = (int)blockIdx.x;
    }
    __syncthreads();
}
static __global__ void diverge(int *to) {
    if (threadIdx.x > 0) __syncthreads();
    *to = 1;
}
/* Without a barrier each thread passes on whatever its neighbour has written by then. */
static __global__ void pass_on(int *to, bool with_barrier) {
    SG_SHARED(int, here, THREADS);
    here[threadIdx.x] = (int)threadIdx.x;
    if (with_barrier) __syncthreads();
    to[blockIdx.x * THREADS + threadIdx.x] = here[(threadIdx.x + 1) % THREADS];
    __syncthreads();
}
/* In place, each element from its neighbour's: which must have been read before it is written. */
static __global__ void shift(int *at, int n) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 1 < n) at[i] = at[i + 1];
}
static __global__ void barriers(int *to, int times) {
    SG_SHARED(int, here, MANY);
    here[threadIdx.x] = 0;
    for (int i = 0; i < times; i++) {
        __syncthreads();
        here[(threadIdx.x + (unsigned)i) % blockDim.x] += 1;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    int total = 0;
    for (unsigned i = 0; i < blockDim.x; i++) total += here[i];
    to[blockIdx.x] = total;
}

static dim3 blocks_for(int n) {
    return dim3((unsigned)((n + THREADS - 1) / THREADS));
}

cudaError_t emu_fill(int *to, int n, int value, cudaStream_t stream) {
    return SG_LAUNCH(fill, blocks_for(n), dim3(THREADS), stream, to, n, value);
}
cudaError_t emu_double(const int *from, int *to, int n, cudaStream_t stream) {
    return SG_LAUNCH(twice, blocks_for(n), dim3(THREADS), stream, from, to, n);
}
cudaError_t emu_count(int *at, cudaStream_t stream) {
    return SG_LAUNCH(count, dim3(1), dim3(1), stream, at);
}
cudaError_t emu_sum(int *to, int blocks, cudaStream_t stream) {
    return SG_LAUNCH_TOGETHER(sum, dim3((unsigned)blocks), dim3(THREADS), stream, to);
}
cudaError_t emu_leftover(int *to, int blocks, cudaStream_t stream) {
    return SG_LAUNCH_TOGETHER(leftover, dim3((unsigned)blocks), dim3(THREADS), stream, to);
}
cudaError_t emu_diverge(int *to, cudaStream_t stream) {
    return SG_LAUNCH_TOGETHER(diverge, dim3(1), dim3(THREADS), stream, to);
}
cudaError_t emu_pass_on(int *to, int blocks, bool with_barrier, cudaStream_t stream) {
    return SG_LAUNCH_TOGETHER(pass_on, dim3((unsigned)blocks), dim3(THREADS), stream, to, with_barrier);
}
cudaError_t emu_shift(int *at, int n, cudaStream_t stream) {
    return SG_LAUNCH(shift, blocks_for(n), dim3(THREADS), stream, at, n);
}
cudaError_t emu_barriers(int *to, int blocks, int threads, int times, cudaStream_t stream) {
    return SG_LAUNCH_TOGETHER(barriers, dim3((unsigned)blocks), dim3((unsigned)threads), stream, to, times);
}
