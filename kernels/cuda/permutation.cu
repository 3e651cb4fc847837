/* permutation.cu: the Fisher-Yates shuffle of kernels/philox.h by many threads, with the same result.
 *
 * Swap i (from the last down) exchanges places i and target(i) <= i. In rounds, every swap that is still to be done claims its
 * two places; the earliest claim of a place stands, and a swap that holds both is done now: no earlier one touches them
 * (Shun, Gu, Blelloch, Fineman, Gibbons: "Sequential random permutation, list contraction and tree contraction are highly
 * parallel", SODA 2015: O(log n) rounds). Claims are numbered by round, so that those of earlier rounds count for nothing. */
#include "kernels/cuda/draws.cuh"
#include "kernels/cuda/permutation.cuh"

enum { THREADS = 1024 };

/* target: where swap i goes; waiting: the swaps that each thread still has to do, in its own places thread, thread + THREADS
 * ...; claim: by place, round << 32 | swap. */
static __global__ void __launch_bounds__(THREADS)
    permute(sg_draws draws, int64_t n, int64_t *y, unsigned long long *claim, uint32_t *target, uint32_t *waiting) {
    SG_SHARED(int, busy, 2);
    uint2 key = draws.key_now();
    int64_t mine = 0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS) {
        sg_random_place place = {0, (uint64_t)i};
        uint32_t word = sg_word_of(draws.block(key, place), (uint64_t)i);
        y[i] = i;
        claim[i] = 0;
        target[i] = (uint32_t)((uint64_t)word * (uint64_t)(i + 1) >> 32);
    }
    for (int64_t i = n - 1 - threadIdx.x; i > 0; i -= THREADS) waiting[threadIdx.x + THREADS * mine++] = (uint32_t)i;
    if (threadIdx.x < 2) busy[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned long long round = 1;; round++) {
        for (int64_t k = 0; k < mine; k++) {
            uint32_t i = waiting[threadIdx.x + THREADS * k];
            atomicMax(&claim[i], round << 32 | i);
            atomicMax(&claim[target[i]], round << 32 | i);
        }
        if (mine > 0) busy[round & 1] = 1;
        __syncthreads();
        if (!busy[round & 1]) break;
        int64_t left = 0;
        for (int64_t k = 0; k < mine; k++) {
            uint32_t i = waiting[threadIdx.x + THREADS * k], j = target[i];
            if (claim[i] == (round << 32 | i) && claim[j] == (round << 32 | i)) {
                int64_t kept = y[i];
                y[i] = y[j];
                y[j] = kept;
            } else {
                waiting[threadIdx.x + THREADS * left++] = i;
            }
        }
        mine = left;
        if (threadIdx.x == 0) busy[(round + 1) & 1] = 0;
        __syncthreads();
    }
}

static sg_code run(const sg_call *call) {
    const sg_desc *y = sg_out(call->plan, 0);
    int64_t n = sg_desc_count(y);
    char *targets = call->workspace + sg_cuda_align((uint64_t)n * sizeof(unsigned long long));
    char *waiting = targets + sg_cuda_align((uint64_t)n * sizeof(uint32_t));
    return sg_cuda_launched(
        call, SG_LAUNCH_TOGETHER(permute, dim3(1), dim3(THREADS), call->stream, sg_draws_of(call, y), n,
                                 static_cast<int64_t *>(sg_out_at(call, 0)),
                                 reinterpret_cast<unsigned long long *>(call->workspace),
                                 reinterpret_cast<uint32_t *>(targets), reinterpret_cast<uint32_t *>(waiting)));
}

void sg_permutation_prepare(sg_plan *plan) {
    uint64_t n = (uint64_t)sg_desc_count(sg_out(plan, 0)), rounded = (n + THREADS - 1) / THREADS * THREADS;
    plan->workspace_bytes = sg_cuda_align(n * sizeof(unsigned long long)) + sg_cuda_align(n * sizeof(uint32_t)) +
                            sg_cuda_align(rounded * sizeof(uint32_t));
    plan->run = run;
}
