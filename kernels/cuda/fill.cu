/* fill.cu: FILL, 16 bytes per thread and turn where the memory is dense. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/platform.h"
#include "kernels/cuda/values.cuh"

enum { THREADS = 256 };

/* Dense memory: the same 16 bytes again and again; the last few elements by themselves. */
template <typename T> static __global__ void fill_dense(T *to, int64_t count, T value) {
    const int64_t per_vector = 16 / (int64_t)sizeof(T);
    sg_vector<T> v;
    for (int i = 0; i < per_vector; i++) v.at[i] = value;
    int64_t vectors = count / per_vector, step = (int64_t)gridDim.x * blockDim.x;
    int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < vectors; i += step) reinterpret_cast<sg_vector<T> *>(to)[i] = v;
    for (int64_t i = vectors * per_vector + first; i < count; i += step) to[i] = value;
}

template <typename T> static __global__ void fill_strided(T *to, sg_layout<1> layout, T value) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < layout.count; i += step)
        to[layout.offsets(i).at[0]] = value;
}

template <typename T> static cudaError_t fill(const sg_call *call) {
    const sg_desc *y = sg_out(call->plan, 0);
    T *to = static_cast<T *>(sg_out_at(call, 0));
    T value = sg_from_double<T>(call->plan->op.attrs.alpha);
    int64_t count = sg_desc_count(y);
    if (count == 0) return cudaSuccess;
    if (sg_desc_is_dense(y) && sg_is_aligned(to)) {
        unsigned blocks = sg_cuda_blocks(call->device, count * (int64_t)sizeof(T) / 16 + 1, THREADS);
        return SG_LAUNCH(fill_dense<T>, dim3(blocks), dim3(THREADS), call->stream, to, count, value);
    }
    const sg_desc *descs[1] = {y};
    return SG_LAUNCH(fill_strided<T>, dim3(sg_cuda_blocks(call->device, count, THREADS)), dim3(THREADS), call->stream,
                     to, sg_layout_of<1>(descs), value);
}

static sg_code run(const sg_call *call) {
    cudaError_t error = cudaErrorInvalidValue;
    switch (sg_out(call->plan, 0)->dtype) {
    case SG_F32: error = fill<float>(call); break;
    case SG_BF16: error = fill<__nv_bfloat16>(call); break;
    case SG_F16: error = fill<__half>(call); break;
    case SG_I64: error = fill<int64_t>(call); break;
    case SG_I32: error = fill<int32_t>(call); break;
    case SG_U8: error = fill<uint8_t>(call); break;
    case SG_BOOL: error = fill<bool>(call); break;
    case SG_F64: error = fill<double>(call); break;
    }
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_fill(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run;
    return SG_OK;
}
