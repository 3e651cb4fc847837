/* pad.cu: PAD: the last two dims grow; what is new holds alpha. One pass over the output. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/pointwise.cuh"

/* y's coordinates (h, w) of the padded dims that lie inside x. */
struct inside {
    int64_t first[2], last[2];
};

/* Tensors: y, x, and two without memory whose offsets are h and w. x's offset is that of y's coordinates, which is `before`
 * elements too far. */
template <typename T>
static __global__ void __launch_bounds__(SG_POINTWISE_THREADS)
    pad(sg_walk<4> walk, inside in, T *to, const T *x, int64_t before, T value) {
    enum { U = SG_POINTWISE_EACH };
    uint32_t first = blockIdx.x * (uint32_t)(SG_POINTWISE_THREADS * U) + threadIdx.x;
    int64_t at[U] = {0};
    T v[U] = {};
    SG_UNROLL
    for (int u = 0; u < U; u++) {
        uint32_t i = first + (uint32_t)(u * SG_POINTWISE_THREADS);
        if (i >= walk.count) break;
        sg_offsets<4> o = walk.offsets(i);
        int64_t h = o.at[2], w = o.at[3];
        bool is_inside = h >= in.first[0] && h < in.last[0] && w >= in.first[1] && w < in.last[1];
        at[u] = o.at[0];
        v[u] = is_inside ? x[o.at[1] - before] : value;
    }
    SG_UNROLL
    for (int u = 0; u < U; u++)
        if (first + (uint32_t)(u * SG_POINTWISE_THREADS) < walk.count) to[at[u]] = v[u];
}

template <typename T> static cudaError_t pad_as(const sg_call *call) {
    const sg_desc *x = sg_in(call->plan, 0), *y = sg_out(call->plan, 0);
    const sg_attrs &attrs = call->plan->op.attrs;
    sg_desc source = *y, index[2] = {*y, *y};
    inside whole = {};
    int64_t before = 0;
    for (int d = 0; d < y->ndim; d++) {
        int i = d - (y->ndim - 2);
        source.stride[d] = x->stride[d];
        for (int k = 0; k < 2; k++) index[k].stride[d] = i == k ? 1 : 0;
        if (i < 0) continue;
        whole.first[i] = attrs.pad[i];
        whole.last[i] = attrs.pad[i] + x->size[d];
        before += attrs.pad[i] * x->stride[d];
    }
    const sg_desc *descs[4] = {y, &source, &index[0], &index[1]};
    const size_t bytes[4] = {sizeof(T), sizeof(T), 1, 1};
    char *at[4] = {static_cast<char *>(sg_out_at(call, 0)), static_cast<char *>(sg_in_at(call, 0)), NULL, NULL};
    T value = sg_from_double<T>(attrs.alpha);
    return sg_in_parts<4>(sg_space_of<4>(descs), at, bytes, [&](const sg_space<4> &part, char *const *moved) {
        sg_walk<4> walk = sg_walk_of<4>(part, 1);
        inside in = whole;
        for (int i = 0; i < 2; i++) {
            in.first[i] -= (int64_t)(uintptr_t)moved[2 + i];
            in.last[i] -= (int64_t)(uintptr_t)moved[2 + i];
        }
        return SG_LAUNCH((pad<T>), dim3(sg_pointwise_blocks(walk.count, SG_POINTWISE_EACH)), dim3(SG_POINTWISE_THREADS),
                         call->stream, walk, in, reinterpret_cast<T *>(moved[0]), reinterpret_cast<const T *>(moved[1]),
                         before, value);
    });
}

static sg_code run(const sg_call *call) {
    cudaError_t error = cudaErrorInvalidValue;
    switch (sg_out(call->plan, 0)->dtype) {
    case SG_F32: error = pad_as<float>(call); break;
    case SG_BF16: error = pad_as<__nv_bfloat16>(call); break;
    case SG_F16: error = pad_as<__half>(call); break;
    case SG_F64: error = pad_as<double>(call); break;
    case SG_I64: error = pad_as<int64_t>(call); break;
    case SG_I32: error = pad_as<int32_t>(call); break;
    case SG_U8: error = pad_as<uint8_t>(call); break;
    case SG_BOOL: error = pad_as<bool>(call); break;
    }
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_pad(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run;
    return SG_OK;
}
