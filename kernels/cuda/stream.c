/* stream.c: the three streams, and waiting for one. */
#include "kernels/cuda/cuda.h"

#include <time.h>

sg_code sg_cuda_streams_open(sg_device *device, sg_status *status) {
    for (int i = 0; i < SG_STREAM_COUNT; i++) {
        sg_code code = sg_cuda_check(cudaStreamCreateWithFlags(&device->stream[i], cudaStreamNonBlocking),
                                     "making a stream", status);
        if (code != SG_OK) return code;
    }
    return SG_OK;
}

void sg_cuda_streams_close(sg_device *device) {
    for (int i = 0; i < SG_STREAM_COUNT; i++)
        if (device->stream[i]) (void)cudaStreamDestroy(device->stream[i]);
}

/* With peers a collective may never end, so the host asks again and again, and asks after the peers in between: it polls
 * as fast as a blocking read would for the first millisecond, then sleeps a little each time. */
static sg_code wait_watching_peers(sg_device *device, sg_stream stream, sg_status *status) {
    static const double EAGER_S = 1e-3, CHECK_S = 0.05;
    double start = sg_cuda_now(device), checked = start;
    for (;;) {
        cudaError_t error = cudaStreamQuery(device->stream[stream]);
        if (error != cudaErrorNotReady) return sg_cuda_check(error, "waiting for the GPU", status);
        (void)cudaGetLastError(); /* an answer, but CUDA keeps it as an error that the next launch would be taken for */
        double now = sg_cuda_now(device);
        if (now - start > EAGER_S) {
            const struct timespec nap = {.tv_nsec = 20000};
            (void)nanosleep(&nap, NULL);
        }
        if (now - checked < CHECK_S) continue;
        checked = now;
        sg_code code = sg_cuda_comm_check(device->comm, now - start, status);
        if (code != SG_OK) return code;
    }
}

sg_code sg_cuda_stream_wait(sg_device *device, sg_stream stream, sg_status *status) {
    sg_code code = sg_cuda_use(device, status);
    if (code == SG_OK && device->recording)
        code = sg_fail(status, SG_BAD_INPUT, "the host cannot wait for the GPU while work is recorded");
    if (code != SG_OK) return code;
    sg_cuda_spend_host(device); /* the framework gets to its blocking read only now */
    if (device->comm)
        code = wait_watching_peers(device, stream, status);
    else
        code = sg_cuda_check(cudaStreamSynchronize(device->stream[stream]), "waiting for the GPU", status);
    device->host_due_s = 0;
    return code == SG_OK && stream == SG_STREAM_COMPUTE ? sg_cuda_clock_refresh(device, status) : code;
}
