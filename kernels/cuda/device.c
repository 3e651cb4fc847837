/* device.c: the table of functions of the cuda device. */
#include "kernels/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- errors -------------------------------------------------------------------------------------------------------------- */

sg_code sg_cuda_check(cudaError_t error, const char *what, sg_status *status) {
    if (error == cudaSuccess) return SG_OK;
    (void)cudaGetLastError(); /* it was told; a later call must not repeat it */
    if (error == cudaErrorMemoryAllocation) return sg_fail(status, SG_NO, "%s: the GPU is out of memory", what);
    const char *remedy = "'stepgauge devices' tells the state of the GPU";
    if (error == cudaErrorInsufficientDriver)
        remedy = "the driver is older than CUDA 13 needs: install driver 580 or newer";
    else if (error == cudaErrorNoDevice || error == cudaErrorInvalidDevice)
        remedy = "look at CUDA_VISIBLE_DEVICES and 'stepgauge devices'";
    else if (error == cudaErrorNoKernelImageForDevice)
        remedy = "this build has no code for the GPU: take the package, or build with -DSG_CUDA_ARCHITECTURES=all";
    else if (error == cudaErrorLaunchFailure || error == cudaErrorIllegalAddress || error == cudaErrorECCUncorrectable)
        remedy = "the GPU was lost or a kernel failed: look at 'dmesg' for Xid lines and start again";
    return sg_fail(status, SG_MACHINE, "%s: %s (%s); %s", what, cudaGetErrorString(error), cudaGetErrorName(error),
                   remedy);
}

sg_code sg_cuda_launched(const sg_call *call, cudaError_t error) {
    if (error == cudaSuccess) return SG_OK;
    char text[256], what[288];
    sg_op_text(&call->plan->op, text, sizeof text);
    (void)snprintf(what, sizeof what, "launching %s", text);
    return sg_cuda_check(error, what, call->status);
}

sg_code sg_cuda_use(sg_device *device, sg_status *status) {
    int current = -1;
    cudaError_t error = cudaGetDevice(&current);
    if (error == cudaSuccess && current != device->index) error = cudaSetDevice(device->index);
    return error == cudaSuccess ? SG_OK : sg_cuda_check(error, "choosing the GPU", status);
}

unsigned sg_cuda_blocks(const sg_device *device, int64_t count, int threads) {
    enum { PER_UNIT = 32 };
    int64_t blocks = (count + threads - 1) / threads, most = (int64_t)device->units * PER_UNIT;
    return (unsigned)(blocks < 1 ? 1 : blocks > most ? most : blocks);
}

sg_cuda_draw sg_cuda_draw_of(const sg_call *call) {
    const sg_launch *l = call->launch;
    return (sg_cuda_draw){.seed = l->seed,
                          .step = l->step,
                          .salt = l->salt,
                          .sample_offset = (uint64_t)l->sample_offset,
                          .step_at = call->device->recording ? call->device->step_at : NULL};
}

/* ---- life ---------------------------------------------------------------------------------------------------------------- */

static void cuda_close(sg_device *device) {
    if (!device) return;
    (void)sg_cuda_use(device, NULL);
    sg_cuda_dnn_close(device->dnn);
    sg_cuda_blas_close(device->blas);
    if (device->step_at) (void)cudaFree(device->step_at);
    sg_cuda_clock_close(device);
    sg_cuda_streams_close(device);
    free(device);
}

/* What this program was built for: sm_75 (T4, RTX 20) and newer. */
static sg_code check_capability(const struct cudaDeviceProp *p, sg_status *status) {
    enum { LEAST = 75 };
    if (10 * p->major + p->minor >= LEAST) return SG_OK;
    return sg_fail(status, SG_MACHINE,
                   "%s has compute capability %d.%d, CUDA 13 needs 7.5 or more: it cannot be measured; 'stepgauge "
                   "predict --machine' answers from its data sheet",
                   p->name, p->major, p->minor);
}

/* cuBLAS and cuDNN would take another precision than the program asks for, and points would bear the wrong name. */
static sg_code check_environment(sg_status *status) {
    const char *override = getenv("NVIDIA_TF32_OVERRIDE");
    if (!override || !*override) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "NVIDIA_TF32_OVERRIDE=%.16s is set and would change the precision of products unseen: unset it and "
                   "choose with --precision",
                   override);
}

static sg_code check_index(int index, sg_status *status) {
    int count = 0;
    sg_code code = sg_cuda_check(cudaGetDeviceCount(&count), "counting GPUs", status);
    if (code == SG_OK && (index < 0 || index >= count))
        code = sg_fail(status, SG_BAD_INPUT,
                       "GPU %d was asked for, %d can be seen here: use --gpus %d or fewer, or look "
                       "at CUDA_VISIBLE_DEVICES",
                       index, count, count);
    return code;
}

/* 256 MiB, on small GPUs a 64th of the memory. */
static uint64_t part_bytes_of(uint64_t memory_bytes) {
    const uint64_t most = (uint64_t)256 << 20;
    return memory_bytes / 64 < most ? memory_bytes / 64 : most;
}

static sg_code cuda_open(const sg_device_options *options, sg_device **out, sg_status *status) {
    *out = NULL;
    struct cudaDeviceProp properties;
    sg_code code = check_environment(status);
    if (code == SG_OK) code = check_index(options->index, status);
    if (code == SG_OK)
        code =
            sg_cuda_check(cudaGetDeviceProperties(&properties, options->index), "reading the GPU's properties", status);
    if (code == SG_OK) code = check_capability(&properties, status);
    if (code != SG_OK) return code;
    sg_device *device = calloc(1, sizeof *device);
    if (!device) return sg_fail_memory(status, sizeof *device, "the cuda device");
    device->index = options->index;
    device->capability = 10 * properties.major + properties.minor;
    device->units = properties.multiProcessorCount;
    device->bf16 = device->capability >= 80;
    device->benchmark = options->benchmark;
    device->part_bytes = part_bytes_of(properties.totalGlobalMem);
    if (options->library_dir)
        (void)snprintf(device->library_dir, sizeof device->library_dir, "%s", options->library_dir);
    if (options->host_s) {
        memcpy(device->host_s, options->host_s, sizeof device->host_s);
        device->emulates_host = true;
    }
    code = sg_cuda_check(cudaSetDevice(device->index), "choosing the GPU", status);
    if (code == SG_OK) code = sg_cuda_streams_open(device, status);
    if (code == SG_OK) code = sg_cuda_clock_open(device, status);
    if (code != SG_OK) {
        cuda_close(device);
        return sg_fail_in(status, "opening GPU %d (%s)", options->index, properties.name);
    }
    *out = device;
    return SG_OK;
}

static sg_code cuda_info(sg_device *device, sg_device_info *info, sg_status *status) {
    struct cudaDeviceProp properties;
    size_t free_bytes = 0, total_bytes = 0;
    int runtime = 0;
    sg_code code = sg_cuda_use(device, status);
    if (code == SG_OK)
        code =
            sg_cuda_check(cudaGetDeviceProperties(&properties, device->index), "reading the GPU's properties", status);
    if (code == SG_OK)
        code = sg_cuda_check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory", status);
    if (code == SG_OK) code = sg_cuda_check(cudaRuntimeGetVersion(&runtime), "asking for CUDA's version", status);
    if (code != SG_OK) return code;
    *info = (sg_device_info){.kind = "cuda",
                             .executes = true,
                             .caching = true,
                             .bf16_native = device->bf16,
                             .fp16_native = true,
                             .units = device->units,
                             .compute_capability = device->capability,
                             .memory_bytes = total_bytes,
                             .free_bytes = free_bytes};
    (void)snprintf(info->name, sizeof info->name, "%.95s", properties.name);
    (void)snprintf(info->library, sizeof info->library, "CUDA %d.%d", runtime / 1000, runtime % 1000 / 10);
    sg_cuda_library_text(device, info->library, sizeof info->library);
    return sg_cuda_check(cudaDeviceGetPCIBusId(info->bus, sizeof info->bus, device->index), "asking for the bus id",
                         status);
}

/* ---- memory -------------------------------------------------------------------------------------------------------------- */

static sg_code cuda_segment_alloc(sg_device *device, uint64_t bytes, void **segment, sg_status *status) {
    *segment = NULL;
    sg_code code = sg_cuda_use(device, status);
    if (code != SG_OK) return code;
    cudaError_t error = cudaMalloc(segment, (size_t)(bytes ? bytes : 1));
    if (error != cudaErrorMemoryAllocation) return sg_cuda_check(error, "allocating GPU memory", status);
    (void)cudaGetLastError();
    size_t free_bytes = 0, total_bytes = 0;
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) free_bytes = total_bytes = 0;
    return sg_fail(status, SG_NO, "out of memory: %.2f GiB more were asked for, %.2f of %.2f GiB are free on GPU %d",
                   (double)bytes / 0x1p30, (double)free_bytes / 0x1p30, (double)total_bytes / 0x1p30, device->index);
}

static void cuda_segment_free(sg_device *device, void *segment, uint64_t bytes) {
    (void)bytes;
    (void)sg_cuda_use(device, NULL);
    (void)cudaFree(segment);
}

static sg_code cuda_host_alloc(sg_device *device, uint64_t bytes, void **memory, sg_status *status) {
    *memory = NULL;
    sg_code code = sg_cuda_use(device, status);
    if (code != SG_OK) return code;
    cudaError_t error = cudaMallocHost(memory, (size_t)(bytes ? bytes : 1));
    if (error != cudaErrorMemoryAllocation) return sg_cuda_check(error, "allocating pinned host memory", status);
    (void)cudaGetLastError();
    return sg_fail(status, SG_MACHINE,
                   "%llu bytes of pinned host memory are not to be had: free memory or use fewer "
                   "loader workers",
                   (unsigned long long)bytes);
}

static void cuda_host_free(sg_device *device, void *memory) {
    (void)sg_cuda_use(device, NULL);
    if (memory) (void)cudaFreeHost(memory);
}

static sg_code cuda_copy(sg_device *device, void *to, const void *from, uint64_t bytes, sg_copy_kind kind,
                         sg_stream stream, sg_status *status) {
    static const enum cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                                cudaMemcpyDeviceToDevice};
    sg_code code = sg_cuda_use(device, status);
    if (code != SG_OK || bytes == 0) return code;
    return sg_cuda_check(cudaMemcpyAsync(to, from, (size_t)bytes, kinds[kind], device->stream[stream]), "copying",
                         status);
}

/* ---- plans --------------------------------------------------------------------------------------------------------------- */

static void cuda_plans_free(sg_device *device, sg_plan **plans, size_t n) {
    (void)sg_cuda_use(device, NULL);
    for (size_t i = 0; i < n; i++) {
        sg_cuda_plan_free(plans[i]);
        plans[i] = NULL;
    }
}

static sg_code cuda_prepare(sg_device *device, const sg_op *ops, size_t n, sg_plan **plans, sg_status *status) {
    for (size_t i = 0; i < n; i++) plans[i] = NULL;
    sg_code code = sg_cuda_use(device, status);
    for (size_t i = 0; i < n && code == SG_OK; i++) code = sg_cuda_plan_new(device, &ops[i], &plans[i], status);
    if (code != SG_OK) cuda_plans_free(device, plans, n);
    return code;
}

static uint64_t cuda_plan_workspace_bytes(const sg_plan *plan) {
    return plan->workspace_bytes;
}

static sg_code cuda_launch(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                           const sg_launch *launch, sg_status *status) {
    static const sg_launch none = {.step = 1};
    sg_code code = sg_cuda_use(device, status);
    if (code != SG_OK) return code;
    const sg_call call = {device, plan, pointers, workspace, launch ? launch : &none, device->stream[stream], status};
    return plan->run(&call);
}

/* ---- the host ------------------------------------------------------------------------------------------------------------- */

double sg_cuda_now(sg_device *device) {
    struct timespec at;
    (void)device;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

void sg_cuda_spend_host(sg_device *device) {
    while (sg_cuda_now(device) < device->host_due_s) {
    }
}

/* The framework's host would be free again at host_due_s. What our own calls took meanwhile is part of it, so this waits for
 * the end of the work before, not for the whole of its own; spinning, as a busy interpreter does. */
static sg_code cuda_host_work(sg_device *device, sg_host_class cls, int64_t count, sg_status *status) {
    (void)status;
    if (!device->emulates_host || device->recording) return SG_OK;
    sg_cuda_spend_host(device);
    double now = sg_cuda_now(device);
    if (device->host_due_s < now) device->host_due_s = now;
    device->host_due_s += device->host_s[cls] * (double)count;
    if (cls == SG_HOST_OPTIMIZER) device->host_due_s += device->host_s[SG_HOST_CLASS_COUNT];
    return SG_OK;
}

static sg_code cuda_host_idle(sg_device *device, double seconds, sg_status *status) {
    (void)device;
    return sg_fail(status, SG_BAD_INPUT,
                   "the cuda device cannot let %g s pass: on a device that executes others spend it", seconds);
}

__attribute__((visibility("default"))) const sg_device_api *sg_device_module(void);

const sg_device_api *sg_device_module(void) {
    static const sg_device_api api = {
        .abi = SG_DEVICE_ABI,
        .struct_bytes = sizeof(sg_device_api),
        .kind = "cuda",
        .open = cuda_open,
        .close = cuda_close,
        .info = cuda_info,
        .segment_alloc = cuda_segment_alloc,
        .segment_free = cuda_segment_free,
        .prepare = cuda_prepare,
        .plans_free = cuda_plans_free,
        .plan_workspace_bytes = cuda_plan_workspace_bytes,
        .launch = cuda_launch,
        .launch_timed = sg_cuda_launch_timed,
        .weights_changed = NULL,
        .event_create = sg_cuda_event_create,
        .event_destroy = sg_cuda_event_destroy,
        .event_record = sg_cuda_event_record,
        .event_wait = sg_cuda_event_wait,
        .event_seconds = sg_cuda_event_seconds,
        .host_alloc = cuda_host_alloc,
        .host_free = cuda_host_free,
        .graph_begin = sg_cuda_graph_begin,
        .graph_end = sg_cuda_graph_end,
        .graph_launch = sg_cuda_graph_launch,
        .graph_destroy = sg_cuda_graph_destroy,
        .stream_wait = sg_cuda_stream_wait,
        .copy = cuda_copy,
        .host_work = cuda_host_work,
        .host_idle = cuda_host_idle,
        .now = sg_cuda_now,
        .comm_create = sg_cuda_comm_create,
        .comm_destroy = sg_cuda_comm_destroy,
        .all_reduce_mean = sg_cuda_all_reduce_mean,
        .all_gather = sg_cuda_all_gather,
        .reduce_scatter_mean = sg_cuda_reduce_scatter_mean,
        .comm_abort = sg_cuda_comm_abort,
    };
    return &api;
}
