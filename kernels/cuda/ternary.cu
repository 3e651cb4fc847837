/* ternary.cu: TERNARY. */
#include "kernels/cuda/pointwise_plan.cuh"

SG_POINTWISE_KIND(sg_ternary, SG_TERNARY_FNS)

SG_POINTWISE_TUPLE(sg_ternary_tuple, sg_ternary)

extern "C" sg_code sg_cuda_ternary(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    return sg_pointwise_prepare<sg_ternary>(plan, run, status);
}
