/* pointers.cu: writes the addresses that cublasGemmBatchedEx reads; on the device, so that a recording may hold it. */
#include "kernels/cuda/platform.h"
#include "kernels/cuda/pointers.h"

enum { THREADS = 128 };

struct bases {
    const char *at[SG_POINTERS_OPERANDS];
};

static __global__ void write_pointers(sg_pointers p, bases base, const char **to) {
    int matrices = p.outer * p.inner, i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= matrices) return;
    int outer = i / p.inner, inner = i - outer * p.inner;
    for (int k = 0; k < SG_POINTERS_OPERANDS; k++)
        to[k * matrices + i] = base.at[k] + outer * p.outer_bytes[k] + inner * p.inner_bytes[k];
}

extern "C" sg_code sg_cuda_pointers(const sg_call *call, const sg_pointers *pointers,
                                    const char *const base[SG_POINTERS_OPERANDS], const char **to) {
    bases b = {{base[0], base[1], base[2]}};
    unsigned blocks = (unsigned)((pointers->outer * pointers->inner + THREADS - 1) / THREADS);
    return sg_cuda_launched(call,
                            SG_LAUNCH(write_pointers, dim3(blocks), dim3(THREADS), call->stream, *pointers, b, to));
}
