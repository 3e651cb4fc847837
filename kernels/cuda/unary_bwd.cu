/* unary_bwd.cu: UNARY_BWD. */
#include "kernels/cuda/pointwise_plan.cuh"

SG_POINTWISE_KIND(sg_slope, SG_SLOPE_FNS)

extern "C" sg_code sg_cuda_unary_bwd(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    return sg_pointwise_prepare<sg_slope>(plan, run, status);
}
