/* device.c: the table of functions of the cpu device. */
#include "kernels/cpu/collective.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/queue.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

enum { MOST_THREADS = 4096 };

/* ---- the processor --------------------------------------------------------------------------------------------------- */

static bool isa_has(dnnl_cpu_isa_t isa) {
    return (dnnl_get_effective_cpu_isa() & isa) == isa;
}

/* oneDNN's answer counts, so that its DNNL_MAX_CPU_ISA bounds our loops too. */
const sg_loops *sg_loops_best(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool fma = __builtin_cpu_supports("fma");
    if (isa_has(dnnl_cpu_isa_avx512_core) && fma) return &sg_loops_avx512;
    if (isa_has(dnnl_cpu_isa_avx2) && fma) return &sg_loops_avx2;
#endif
    return &sg_loops_baseline;
}

static int allowed_threads(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
    int online = get_nprocs();
    return online > 0 ? online : 1;
}

static void processor_name(char *name, size_t bytes) {
    (void)snprintf(name, bytes, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "model name", 10) != 0) continue;
        const char *value = strchr(line, ':');
        if (!value) continue;
        value += strspn(value, ": \t");
        (void)snprintf(name, bytes, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    (void)fclose(file);
}

/* Memory that this process may use: the machine's, or less where a control group says so. */
static uint64_t memory_bytes(void) {
    struct sysinfo info;
    uint64_t bytes = sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit : 0;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "r");
    if (!file) return bytes;
    char line[64] = ""; /* a number, or "max" */
    if (fgets(line, sizeof line, file)) {
        unsigned long long most = strtoull(line, NULL, 10);
        if (most > 0 && (bytes == 0 || most < bytes)) bytes = most;
    }
    (void)fclose(file);
    return bytes;
}

/* ---- life -------------------------------------------------------------------------------------------------------------- */

static void cpu_close(sg_device *device) {
    if (!device) return;
    sg_queue_close(device->queue);
    if (device->stream) (void)dnnl_stream_destroy(device->stream);
    if (device->engine) (void)dnnl_engine_destroy(device->engine);
    sg_heap_close(device->heap);
    free(device);
}

static sg_code cpu_open(const sg_device_options *options, sg_device **out, sg_status *status) {
    *out = NULL;
    if (options->index != 0)
        return sg_fail(status, SG_BAD_INPUT, "there is one cpu device, index 0, not %d", options->index);
    if (options->threads < 0 || options->threads > MOST_THREADS)
        return sg_fail(status, SG_BAD_INPUT, "%d threads: give 1 to %d, or 0 for all that are allowed",
                       options->threads, MOST_THREADS);
    sg_device *device = calloc(1, sizeof *device);
    if (!device) return sg_fail_memory(status, sizeof *device, "the cpu device");
    device->heap = sg_heap_open(memory_bytes());
    if (!device->heap) {
        cpu_close(device);
        return sg_fail_memory(status, 0, "the cpu device's heap");
    }
    device->loops = sg_loops_best();
    device->threads = options->threads ? options->threads : allowed_threads();
    device->bf16_native = isa_has(dnnl_cpu_isa_avx512_core);
    sg_parallel_set_threads(device->threads);
    dnnl_status_t code = dnnl_engine_create(&device->engine, dnnl_cpu, 0);
    if (code == dnnl_success) code = dnnl_stream_create(&device->stream, device->engine, dnnl_stream_default_flags);
    if (code != dnnl_success) {
        cpu_close(device);
        return sg_fail(status, SG_MACHINE,
                       "oneDNN cannot start on this CPU (status %d): check the installation of libdnnl", (int)code);
    }
    *out = device;
    return SG_OK;
}

static sg_code cpu_info(sg_device *device, sg_device_info *info, sg_status *status) {
    (void)status;
    const dnnl_version_t *version = dnnl_version();
    *info = (sg_device_info){
        .kind = "cpu",
        .executes = true,
        .bf16_native = device->bf16_native,
        .units = device->threads,
        .memory_bytes = memory_bytes(),
    };
    processor_name(info->name, sizeof info->name);
    (void)snprintf(info->library, sizeof info->library, "oneDNN %d.%d.%d, %s loops", version->major, version->minor,
                   version->patch, device->loops->isa);
    return SG_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

/* Sanitizers watch blocks of the C library, not parts of a mapping. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static void *take(sg_heap *heap, uint64_t bytes) {
    void *at = NULL;
    (void)heap;
    if (bytes > (uint64_t)1 << 38) return NULL; /* above it they stop the program */
    return posix_memalign(&at, 512, bytes ? (size_t)bytes : 1) == 0 ? at : NULL;
}
static void give(sg_heap *heap, void *segment) {
    (void)heap;
    free(segment);
}
#else
static void *take(sg_heap *heap, uint64_t bytes) {
    return sg_heap_take(heap, bytes);
}
static void give(sg_heap *heap, void *segment) {
    sg_heap_give(heap, segment);
}
#endif

static sg_code cpu_segment_alloc(sg_device *device, uint64_t bytes, void **segment, sg_status *status) {
    *segment = take(device->heap, bytes);
    if (*segment) return SG_OK;
    return sg_fail(status, SG_NO, "out of memory: %llu bytes are not to be had on this host",
                   (unsigned long long)bytes);
}

static void cpu_segment_free(sg_device *device, void *segment, uint64_t bytes) {
    (void)bytes;
    give(device->heap, segment);
}

static sg_code cpu_copy(sg_device *device, void *to, const void *from, uint64_t bytes, sg_copy_kind kind,
                        sg_stream stream, sg_status *status) {
    (void)device, (void)kind, (void)status, (void)stream;
    if (bytes > 0) memmove(to, from, (size_t)bytes);
    return SG_OK;
}

/* ---- plans -------------------------------------------------------------------------------------------------------------- */

static void cpu_plans_free(sg_device *device, sg_plan **plans, size_t n) {
    (void)device;
    for (size_t i = 0; i < n; i++) {
        sg_plan_free(plans[i]);
        plans[i] = NULL;
    }
}

static sg_code cpu_prepare(sg_device *device, const sg_op *ops, size_t n, sg_plan **plans, sg_status *status) {
    sg_parallel_set_threads(device->threads);
    for (size_t i = 0; i < n; i++) plans[i] = NULL;
    for (size_t i = 0; i < n; i++) {
        sg_code code = sg_plan_new(device, &ops[i], &plans[i], status);
        if (code == SG_OK) continue;
        cpu_plans_free(device, plans, i);
        return code;
    }
    return SG_OK;
}

static uint64_t cpu_plan_workspace_bytes(const sg_plan *plan) {
    return plan->workspace_bytes;
}

static sg_code cpu_launch(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                          const sg_launch *launch, sg_status *status) {
    static const sg_launch none = {.step = 1};
    if (stream == SG_STREAM_COLLECTIVE)
        return sg_fail(status, SG_BAD_INPUT, "%s was launched on the collective stream, which only communicates",
                       sg_op_kind_name((sg_op_kind)plan->op.kind));
    sg_parallel_set_threads(device->threads);
    const sg_call call = {device, plan, pointers, workspace, launch ? launch : &none, status};
    return plan->run(&call);
}

/* ---- the host ----------------------------------------------------------------------------------------------------------- */

/* The program that walks really spends this time. */
static sg_code cpu_host_work(sg_device *device, sg_host_class cls, int64_t count, sg_status *status) {
    (void)device, (void)cls, (void)count, (void)status;
    return SG_OK;
}

static sg_code cpu_host_idle(sg_device *device, double seconds, sg_status *status) {
    (void)device;
    return sg_fail(status, SG_BAD_INPUT,
                   "the cpu device cannot let %g s pass: on a device that executes others spend it", seconds);
}

__attribute__((visibility("default"))) const sg_device_api *sg_device_module(void);

const sg_device_api *sg_device_module(void) {
    static const sg_device_api api = {
        .abi = SG_DEVICE_ABI,
        .struct_bytes = sizeof(sg_device_api),
        .kind = "cpu",
        .open = cpu_open,
        .close = cpu_close,
        .info = cpu_info,
        .segment_alloc = cpu_segment_alloc,
        .segment_free = cpu_segment_free,
        .prepare = cpu_prepare,
        .plans_free = cpu_plans_free,
        .plan_workspace_bytes = cpu_plan_workspace_bytes,
        .launch = cpu_launch,
        .weights_changed = NULL,
        .event_create = sg_cpu_event_create,
        .event_destroy = sg_cpu_event_destroy,
        .event_record = sg_cpu_event_record,
        .event_wait = sg_cpu_event_wait,
        .event_seconds = sg_cpu_event_seconds,
        .stream_wait = sg_cpu_stream_wait,
        .copy = cpu_copy,
        .host_work = cpu_host_work,
        .host_idle = cpu_host_idle,
        .now = sg_cpu_now,
        .comm_create = sg_cpu_comm_create,
        .comm_destroy = sg_cpu_comm_destroy,
        .all_reduce_mean = sg_cpu_all_reduce_mean,
        .all_gather = sg_cpu_all_gather,
        .reduce_scatter_mean = sg_cpu_reduce_scatter_mean,
        .comm_abort = sg_cpu_comm_abort,
    };
    return &api;
}
