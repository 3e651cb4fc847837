/* unary.cu: UNARY. */
#include "kernels/cuda/pointwise_plan.cuh"

SG_POINTWISE_KIND(sg_unary, SG_UNARY_FNS)

SG_POINTWISE_TUPLE(sg_unary_tuple, sg_unary)

extern "C" sg_code sg_cuda_unary(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    return sg_pointwise_prepare<sg_unary>(plan, run, status);
}
