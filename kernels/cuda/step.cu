/* step.cu: the step that a replay is for, written to where recorded kernels read it. It travels as a kernel's argument: a
 * copy might read the host's memory after the call. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/platform.h"

static __global__ void write_step(uint64_t *to, uint64_t step) {
    *to = step;
}

extern "C" sg_code sg_cuda_write_step(sg_device *device, cudaStream_t stream, uint64_t step, sg_status *status) {
    return sg_cuda_check(SG_LAUNCH(write_step, dim3(1), dim3(1), stream, device->step_at, step), "writing the step",
                         status);
}
