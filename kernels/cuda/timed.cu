/* timed.cu: how long the GPU takes for one op. A kernel that just spins keeps the GPU busy while the host queues event, op
 * and event, so that the time between the events is the op's alone and not the host's. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/platform.h"

/* By the GPU's clock of nanoseconds, whatever its frequency is; it counts in steps of up to a microsecond. */
static __global__ void spin(unsigned long long ns) {
#if defined(__CUDACC__)
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - start < ns);
#else
    (void)ns;
#endif
}

extern "C" sg_code sg_cuda_delay(sg_device *device, cudaStream_t stream, double microseconds, sg_status *status) {
    (void)device;
    return sg_cuda_check(SG_LAUNCH(spin, dim3(1), dim3(1), stream, (unsigned long long)(1e3 * microseconds)),
                         "launching a delay", status);
}

extern "C" sg_code sg_cuda_launch_timed(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers,
                                        void *workspace, const sg_launch *launch, double *seconds, sg_status *status) {
    const double COVER_US = 60; /* host time of the few calls below, with room */
    const sg_launch none = {0, 1, 0, 0};
    cudaEvent_t begin = NULL, end = NULL;
    *seconds = 0;
    sg_code code = sg_cuda_use(device, status);
    if (code != SG_OK) return code;
    cudaStream_t s = device->stream[stream];
    const sg_call call = {device, plan, pointers, static_cast<char *>(workspace), launch ? launch : &none, s, status};
    code = sg_cuda_check(cudaEventCreateWithFlags(&begin, cudaEventDefault), "making an event", status);
    if (code == SG_OK)
        code = sg_cuda_check(cudaEventCreateWithFlags(&end, cudaEventDefault), "making an event", status);
    if (code == SG_OK) code = sg_cuda_delay(device, s, COVER_US, status);
    if (code == SG_OK) code = sg_cuda_check(cudaEventRecord(begin, s), "recording an event", status);
    if (code == SG_OK) code = plan->run(&call);
    if (code == SG_OK) code = sg_cuda_check(cudaEventRecord(end, s), "recording an event", status);
    if (code == SG_OK) code = sg_cuda_stream_wait(device, stream, status);
    float ms = 0;
    if (code == SG_OK) code = sg_cuda_check(cudaEventElapsedTime(&ms, begin, end), "reading events", status);
    *seconds = 1e-3 * (double)ms;
    if (begin) (void)cudaEventDestroy(begin);
    if (end) (void)cudaEventDestroy(end);
    return code;
}
