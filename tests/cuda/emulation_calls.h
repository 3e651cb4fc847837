/* emulation_calls.h: what tests of the emulation itself make again and again. Failures end the running test. */
#ifndef SG_TESTS_CUDA_EMULATION_CALLS_H
#define SG_TESTS_CUDA_EMULATION_CALLS_H

#include "tests/cuda/emulation_kernels.h"
#include "tests/emulation/emulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define OK(call) assert_int_equal((call), cudaSuccess)

static inline int *device_ints(int n) {
    void *at = NULL;
    OK(cudaMalloc(&at, (size_t)n * sizeof(int)));
    return at;
}
static inline cudaStream_t new_stream(void) {
    cudaStream_t s = NULL;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}
static inline cudaEvent_t new_event(unsigned flags) {
    cudaEvent_t e = NULL;
    OK(cudaEventCreateWithFlags(&e, flags));
    return e;
}

#endif
