/* binary.cu: BINARY. */
#include "kernels/cuda/pointwise_plan.cuh"

SG_POINTWISE_KIND(sg_binary, SG_BINARY_FNS)

SG_POINTWISE_TUPLE(sg_binary_tuple, sg_binary)

extern "C" sg_code sg_cuda_binary(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    return sg_pointwise_prepare<sg_binary>(plan, run, status);
}
