/* device.c: the reference's table of functions: memory, plans, events and a stream that runs in line. */
#include "tests/reference/kinds.h"
#include "tests/reference/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sg_device {
    bool caching;
    int64_t until_disturbed; /* launches before the one that goes wrong; negative: none does */
    int disturbed_output;
    double factor, offset;
};

struct sg_plan {
    sg_op op; /* op.desc is owned */
};

struct sg_event {
    double seconds;
};

static const ref_kind KINDS[SG_OP_KIND_COUNT] = {
#define X(name, cls) [SG_OP_##name] = ref_##name,
    SG_OP_LIST(X)
#undef X
};

bool sg_reference_has(sg_op_kind kind) {
    return (unsigned)kind < SG_OP_KIND_COUNT && KINDS[kind];
}

const sg_desc *ref_in(const ref_call *call, int i) {
    return &call->op->desc[i];
}

const sg_desc *ref_out(const ref_call *call, int i) {
    return &call->op->desc[call->op->n_in + i];
}

int64_t ref_extent(const sg_desc *desc, int first, int last) {
    int64_t product = 1;
    for (int d = first; d < last; d++) product *= desc->size[d];
    return product;
}

int64_t ref_rows(const sg_desc *desc) {
    return ref_extent(desc, 0, desc->ndim - 1);
}

int64_t ref_last(const sg_desc *desc) {
    return desc->ndim ? desc->size[desc->ndim - 1] : 1;
}

bool ref_flag(const ref_call *call, uint32_t flag) {
    return (call->op->attrs.flags & flag) != 0;
}

sg_code sg_reference_compute(const sg_op *op, const double *const *in, double *const *out, const sg_launch *launch,
                             sg_status *status) {
    ref_call call = {op, in, out, launch, status};
    for (int i = 0; i < op->n_out; i++)
        memset(out[i], 0, (size_t)sg_desc_count(&op->desc[op->n_in + i]) * sizeof *out[i]);
    return KINDS[op->kind](&call);
}

static double seconds_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static sg_code device_open(const sg_device_options *options, sg_device **device, sg_status *status) {
    *device = calloc(1, sizeof **device);
    if (!*device) return sg_fail_memory(status, sizeof **device, "the reference device");
    (*device)->caching = options && options->index == SG_REFERENCE_CACHING;
    (*device)->until_disturbed = -1;
    return SG_OK;
}

void sg_reference_disturb(sg_device *device, int64_t at, int output, double factor, double offset) {
    device->until_disturbed = at;
    device->disturbed_output = output;
    device->factor = factor;
    device->offset = offset;
}

static void disturb(sg_device *device, const sg_op *op, double *const *out) {
    if (device->until_disturbed < 0 || device->until_disturbed-- > 0) return;
    int64_t count = sg_desc_count(&op->desc[op->n_in + device->disturbed_output]);
    double *x = out[device->disturbed_output];
    for (int64_t i = 0; i < count; i++) x[i] = device->factor * x[i] + device->offset;
}

static void device_close(sg_device *device) {
    free(device);
}

static sg_code device_info(sg_device *device, sg_device_info *info, sg_status *status) {
    (void)status;
    memset(info, 0, sizeof *info);
    (void)snprintf(info->kind, sizeof info->kind, "reference");
    (void)snprintf(info->name, sizeof info->name, "plain double loops");
    (void)snprintf(info->library, sizeof info->library, "libm");
    info->executes = true;
    info->caching = device->caching;
    info->units = 1;
    info->memory_bytes = UINT64_C(1) << 34;
    return SG_OK;
}

static sg_code segment_alloc(sg_device *device, uint64_t bytes, void **segment, sg_status *status) {
    (void)device;
    enum { ALIGNMENT = 512 };
    if (bytes > UINT64_MAX / 2) return sg_fail(status, SG_NO, "%llu bytes do not exist", (unsigned long long)bytes);
    uint64_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    *segment = aligned_alloc(ALIGNMENT, rounded ? rounded : ALIGNMENT);
    if (!*segment) return sg_fail(status, SG_NO, "out of memory: %llu bytes asked for", (unsigned long long)bytes);
    memset(*segment, 0xff, rounded);
    return SG_OK;
}

static void segment_free(sg_device *device, void *segment, uint64_t bytes) {
    (void)device;
    (void)bytes;
    free(segment);
}

static void plans_free(sg_device *device, sg_plan **plans, size_t n) {
    (void)device;
    for (size_t i = 0; i < n; i++) {
        if (plans[i]) free((void *)plans[i]->op.desc);
        free(plans[i]);
        plans[i] = NULL;
    }
}

static sg_code plan_make(const sg_op *op, sg_plan **made, sg_status *status) {
    const char *unsound = sg_op_check(op);
    if (unsound) return sg_fail(status, SG_NO, "reference: %s: %s", sg_op_kind_name((sg_op_kind)op->kind), unsound);
    size_t bytes = (size_t)(op->n_in + op->n_out) * sizeof *op->desc;
    sg_plan *plan = calloc(1, sizeof *plan);
    sg_desc *desc = malloc(bytes);
    if (!plan || !desc) {
        free(plan);
        free(desc);
        return sg_fail_memory(status, bytes + sizeof *plan, "a plan");
    }
    memcpy(desc, op->desc, bytes);
    plan->op = *op;
    plan->op.desc = desc;
    *made = plan;
    return SG_OK;
}

static sg_code prepare(sg_device *device, const sg_op *ops, size_t n, sg_plan **plans, sg_status *status) {
    for (size_t i = 0; i < n; i++) plans[i] = NULL;
    for (size_t i = 0; i < n; i++) {
        sg_code code = plan_make(&ops[i], &plans[i], status);
        if (code == SG_OK) continue;
        plans_free(device, plans, n);
        return code;
    }
    return SG_OK;
}

static uint64_t plan_workspace_bytes(const sg_plan *plan) {
    (void)plan;
    return 0;
}

/* Dense doubles for every tensor of the op: one block, and the start of each tensor in it. */
static double *dense_tensors(const sg_op *op, double **at) {
    size_t total = 0;
    for (int i = 0; i < op->n_in + op->n_out; i++) total += (size_t)sg_desc_count(&op->desc[i]);
    double *all = malloc((total ? total : 1) * sizeof *all);
    if (!all) return NULL;
    double *next = all;
    for (int i = 0; i < op->n_in + op->n_out; i++) {
        at[i] = next;
        next += sg_desc_count(&op->desc[i]);
    }
    return all;
}

static sg_code launch(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                      const sg_launch *parameters, sg_status *status) {
    (void)stream;
    (void)workspace;
    const sg_op *op = &plan->op;
    int tensors = op->n_in + op->n_out;
    double **at = calloc((size_t)tensors + 1, sizeof *at);
    double *all = at ? dense_tensors(op, at) : NULL;
    if (!all) {
        free(at);
        return sg_fail_memory(status, (size_t)tensors * sizeof *at, "the doubles of an op");
    }
    for (int i = 0; i < op->n_in; i++) sg_reference_read(&op->desc[i], pointers[i], at[i]);
    sg_code code = sg_reference_compute(op, (const double *const *)at, at + op->n_in, parameters, status);
    if (code == SG_OK) disturb(device, op, at + op->n_in);
    for (int i = op->n_in; i < tensors && code == SG_OK; i++) sg_reference_write(&op->desc[i], pointers[i], at[i]);
    free(all);
    free(at);
    return code;
}

static sg_code event_create(sg_device *device, sg_event **event, sg_status *status) {
    (void)device;
    *event = calloc(1, sizeof **event);
    return *event ? SG_OK : sg_fail_memory(status, sizeof **event, "an event");
}

static void event_destroy(sg_device *device, sg_event *event) {
    (void)device;
    free(event);
}

static sg_code event_record(sg_device *device, sg_event *event, sg_stream stream, sg_status *status) {
    (void)device;
    (void)stream;
    (void)status;
    event->seconds = seconds_now();
    return SG_OK;
}

static sg_code event_wait(sg_device *device, sg_event *event, sg_stream stream, sg_status *status) {
    (void)device;
    (void)event;
    (void)stream;
    (void)status;
    return SG_OK;
}

static sg_code event_seconds(sg_device *device, sg_event *event, double *seconds, sg_status *status) {
    (void)device;
    (void)status;
    *seconds = event->seconds;
    return SG_OK;
}

static sg_code stream_wait(sg_device *device, sg_stream stream, sg_status *status) {
    (void)device;
    (void)stream;
    (void)status;
    return SG_OK;
}

static sg_code copy(sg_device *device, void *to, const void *from, uint64_t bytes, sg_copy_kind kind, sg_stream stream,
                    sg_status *status) {
    (void)device;
    (void)kind;
    (void)stream;
    (void)status;
    memmove(to, from, bytes);
    return SG_OK;
}

static sg_code host_work(sg_device *device, sg_host_class cls, int64_t count, sg_status *status) {
    (void)device;
    (void)cls;
    (void)count;
    (void)status;
    return SG_OK;
}

static sg_code host_idle(sg_device *device, double seconds, sg_status *status) {
    (void)device;
    (void)seconds;
    return sg_fail(status, SG_BAD_INPUT, "reference: the host clock is real and cannot be advanced");
}

static double now(sg_device *device) {
    (void)device;
    return seconds_now();
}

const sg_device_api *sg_reference_device(void) {
    static const sg_device_api API = {
        .abi = SG_DEVICE_ABI,
        .struct_bytes = sizeof(sg_device_api),
        .kind = "reference",
        .open = device_open,
        .close = device_close,
        .info = device_info,
        .segment_alloc = segment_alloc,
        .segment_free = segment_free,
        .prepare = prepare,
        .plans_free = plans_free,
        .plan_workspace_bytes = plan_workspace_bytes,
        .launch = launch,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .event_record = event_record,
        .event_wait = event_wait,
        .event_seconds = event_seconds,
        .stream_wait = stream_wait,
        .copy = copy,
        .host_work = host_work,
        .host_idle = host_idle,
        .now = now,
    };
    return &API;
}
