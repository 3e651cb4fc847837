/* iota.cu: IOTA: alpha + beta * index along the last dim, in double, so that integers are exact. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dtypes.cuh"
#include "kernels/cuda/pointwise.cuh"

/* Tensor 1 has no memory: its offset is the index. */
static __global__ void __launch_bounds__(SG_POINTWISE_THREADS)
    count_up(sg_walk<2> walk, int dtype, void *to, double first, double step) {
    uint32_t i = blockIdx.x * (uint32_t)SG_POINTWISE_THREADS + threadIdx.x;
    if (i >= walk.count) return;
    sg_offsets<2> o = walk.offsets(i);
    sg_store_one<double>(dtype, to, o.at[0], first + step * (double)o.at[1]);
}

static sg_code run(const sg_call *call) {
    const sg_desc *y = sg_out(call->plan, 0);
    const sg_attrs &attrs = call->plan->op.attrs;
    sg_desc index = *y;
    for (int d = 0; d < index.ndim; d++) index.stride[d] = d == index.ndim - 1 ? 1 : 0;
    const sg_desc *descs[2] = {y, &index};
    const size_t bytes[2] = {sg_dtype_bytes((sg_dtype)y->dtype), 1};
    char *at[2] = {static_cast<char *>(sg_out_at(call, 0)), NULL};
    cudaError_t error = sg_in_parts<2>(sg_space_of<2>(descs), at, bytes, [&](const sg_space<2> &part, char *const *to) {
        sg_walk<2> walk = sg_walk_of<2>(part, 1);
        double first = attrs.alpha + attrs.beta * (double)(uintptr_t)to[1];
        return SG_LAUNCH(count_up, dim3(sg_pointwise_blocks(walk.count, 1)), dim3(SG_POINTWISE_THREADS), call->stream,
                         walk, y->dtype, static_cast<void *>(to[0]), first, attrs.beta);
    });
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_iota(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run;
    return SG_OK;
}
