/* graph.c: recordings of the compute stream. Kernels that depend on the step read it from device memory, which each replay
 * writes before it starts. */
#include "kernels/cuda/cuda.h"

#include <stdlib.h>

struct sg_graph_exec {
    cudaGraphExec_t exec;
};

/* Relaxed: a library that allocates or loads a kernel when it is first needed spoils a recording of any other mode. */
sg_code sg_cuda_graph_begin(sg_device *device, sg_status *status) {
    sg_code code = sg_cuda_use(device, status);
    if (code == SG_OK && device->recording)
        code = sg_fail(status, SG_BAD_INPUT, "a recording was begun while another one runs");
    if (code == SG_OK && !device->step_at)
        code = sg_cuda_check(cudaMalloc((void **)&device->step_at, sizeof *device->step_at),
                             "allocating the step of a recording", status);
    if (code == SG_OK)
        code = sg_cuda_check(cudaStreamBeginCapture(device->stream[SG_STREAM_COMPUTE], cudaStreamCaptureModeRelaxed),
                             "beginning to record", status);
    if (code == SG_OK) device->recording = true;
    return code;
}

sg_code sg_cuda_graph_end(sg_device *device, sg_graph_exec **out, sg_status *status) {
    *out = NULL;
    cudaGraph_t graph = NULL;
    if (!device->recording) return sg_fail(status, SG_BAD_INPUT, "a recording was ended that was never begun");
    sg_code code = sg_cuda_use(device, status);
    device->recording = false;
    cudaError_t error = cudaStreamEndCapture(device->stream[SG_STREAM_COMPUTE], &graph);
    if (code == SG_OK) code = sg_cuda_check(error, "ending a recording", status);
    sg_graph_exec *g = code == SG_OK ? calloc(1, sizeof *g) : NULL;
    if (code == SG_OK && !g) code = sg_fail_memory(status, sizeof *g, "a recording");
    if (code == SG_OK) code = sg_cuda_check(cudaGraphInstantiate(&g->exec, graph, 0), "building a graph", status);
    if (graph) (void)cudaGraphDestroy(graph);
    if (code == SG_OK)
        *out = g;
    else
        free(g);
    return code;
}

sg_code sg_cuda_graph_launch(sg_device *device, sg_graph_exec *graph, const sg_launch *launch, sg_status *status) {
    cudaStream_t stream = device->stream[SG_STREAM_COMPUTE];
    uint64_t step = launch ? launch->step : 1;
    sg_code code = sg_cuda_use(device, status);
    if (code == SG_OK) code = sg_cuda_write_step(device, stream, step, status);
    return code == SG_OK ? sg_cuda_check(cudaGraphLaunch(graph->exec, stream), "replaying a graph", status) : code;
}

void sg_cuda_graph_destroy(sg_device *device, sg_graph_exec *graph) {
    if (!graph) return;
    (void)sg_cuda_use(device, NULL);
    (void)cudaGraphExecDestroy(graph->exec);
    free(graph);
}
