#include "tests/support/bent_device.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RECORDED = 256, MOST_TENSORS = 16, MOST_PLANS = 16 };

typedef struct recorded {
    sg_plan *plan;
    void *pointer[MOST_TENSORS], *workspace;
} recorded;

struct sg_graph_exec {
    recorded op[MOST_RECORDED];
    int n;
};

static sg_bent *bent;
static sg_graph_exec *recording;
/* How many tensors a plan's op has, and the bytes of its first output. */
static struct sg_known_plan {
    sg_plan *plan;
    int n_in, n;
    uint64_t output_bytes;
} plans[MOST_PLANS];

static bool fails(sg_status *status) {
    if (++bent->calls != bent->fail_at) return false;
    (void)sg_fail(status, SG_MACHINE, "injected failure %d", bent->fail_at);
    return true;
}

static struct sg_known_plan *known(const sg_plan *plan) {
    for (int i = 0; i < MOST_PLANS; i++)
        if (plans[i].plan == plan) return &plans[i];
    return NULL;
}

static sg_code bent_open(const sg_device_options *options, sg_device **device, sg_status *status) {
    *device = NULL;
    return fails(status) ? SG_MACHINE : bent->inner->open(options, device, status);
}

static sg_code bent_info(sg_device *device, sg_device_info *info, sg_status *status) {
    if (fails(status)) return SG_MACHINE;
    sg_code code = bent->inner->info(device, info, status);
    if (bent->free_bytes) info->free_bytes = bent->free_bytes;
    return code;
}

static sg_code bent_segment_alloc(sg_device *device, uint64_t bytes, void **segment, sg_status *status) {
    if (fails(status)) return SG_MACHINE;
    sg_code code = bent->inner->segment_alloc(device, bytes, segment, status);
    if (!code) bent->allocated++;
    return code;
}

static void bent_segment_free(sg_device *device, void *segment, uint64_t bytes) {
    bent->allocated--;
    bent->inner->segment_free(device, segment, bytes);
}

static sg_code bent_prepare(sg_device *device, const sg_op *ops, size_t n, sg_plan **out, sg_status *status) {
    if (fails(status)) return SG_MACHINE;
    if (bent->refused != SG_COMPUTE_F32 && (sg_compute)ops[0].attrs.compute == bent->refused)
        return sg_fail(status, SG_NO, "this device has no such products");
    sg_code code = bent->inner->prepare(device, ops, n, out, status);
    struct sg_known_plan *free_place = known(NULL);
    if (code || !free_place || n != 1) return code;
    *free_place = (struct sg_known_plan){out[0], ops[0].n_in, ops[0].n_in + ops[0].n_out,
                                         sg_desc_span_bytes(&ops[0].desc[ops[0].n_in])};
    bent->alive++;
    return code;
}

static void bent_plans_free(sg_device *device, sg_plan **out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct sg_known_plan *plan = known(out[i]);
        if (plan) {
            plan->plan = NULL;
            bent->alive--;
        }
    }
    bent->inner->plans_free(device, out, n);
}

static sg_code really_launch(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                             const sg_launch *launch, sg_status *status) {
    sg_code code = bent->inner->launch(device, plan, stream, pointers, workspace, launch, status);
    const struct sg_known_plan *k = known(plan);
    bent->launches++;
    if (!code && bent->wrong_results && k) {
        unsigned char *y = pointers[k->n_in];
        y[k->output_bytes - 1] ^= 0x40; /* the exponent's high bit of a last element that is little-endian */
        y[k->output_bytes > 4 ? 3 : 0] ^= 0x40;
    }
    return code;
}

static sg_code bent_launch(sg_device *device, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                           const sg_launch *launch, sg_status *status) {
    if (fails(status)) return SG_MACHINE;
    const struct sg_known_plan *k = known(plan);
    if (!recording || !k) return really_launch(device, plan, stream, pointers, workspace, launch, status);
    if (recording->n == MOST_RECORDED) return sg_fail(status, SG_MACHINE, "too much was recorded");
    recorded *r = &recording->op[recording->n++];
    *r = (recorded){.plan = plan, .workspace = workspace};
    memcpy((void *)r->pointer, (const void *)pointers, (size_t)k->n * sizeof *pointers);
    return SG_OK;
}

static sg_code bent_event_create(sg_device *device, sg_event **event, sg_status *status) {
    *event = NULL;
    if (fails(status)) return SG_MACHINE;
    sg_code code = bent->inner->event_create(device, event, status);
    if (!code) bent->alive++;
    return code;
}

static void bent_event_destroy(sg_device *device, sg_event *event) {
    if (event) bent->alive--;
    bent->inner->event_destroy(device, event);
}

static sg_code bent_event_record(sg_device *device, sg_event *event, sg_stream stream, sg_status *status) {
    return fails(status) ? SG_MACHINE : bent->inner->event_record(device, event, stream, status);
}

static sg_code bent_event_seconds(sg_device *device, sg_event *event, double *seconds, sg_status *status) {
    return fails(status) ? SG_MACHINE : bent->inner->event_seconds(device, event, seconds, status);
}

static sg_code bent_stream_wait(sg_device *device, sg_stream stream, sg_status *status) {
    return fails(status) ? SG_MACHINE : bent->inner->stream_wait(device, stream, status);
}

static sg_code bent_copy(sg_device *device, void *to, const void *from, uint64_t bytes, sg_copy_kind kind,
                         sg_stream stream, sg_status *status) {
    if (fails(status)) return SG_MACHINE;
    sg_code code = bent->inner->copy(device, to, from, bytes, kind, stream, status);
    if (!code && bent->wrong_copies && kind == SG_COPY_TO_HOST && bytes) ((unsigned char *)to)[bytes - 1] ^= 0x40;
    return code;
}

static sg_code bent_host_alloc(sg_device *device, uint64_t bytes, void **memory, sg_status *status) {
    (void)device;
    *memory = NULL;
    if (fails(status)) return SG_MACHINE;
    *memory = malloc(bytes ? (size_t)bytes : 1);
    if (!*memory) return sg_fail_memory(status, bytes, "pinned memory");
    bent->allocated++;
    return SG_OK;
}

static void bent_host_free(sg_device *device, void *memory) {
    (void)device;
    bent->allocated--;
    free(memory);
}

static sg_code bent_graph_begin(sg_device *device, sg_status *status) {
    (void)device;
    if (fails(status)) return SG_MACHINE;
    recording = calloc(1, sizeof *recording);
    return recording ? SG_OK : sg_fail_memory(status, sizeof *recording, "a graph");
}

static sg_code bent_graph_end(sg_device *device, sg_graph_exec **graph, sg_status *status) {
    (void)device;
    *graph = NULL;
    bool failed = fails(status);
    if (failed) free(recording);
    if (!failed) {
        *graph = recording;
        bent->alive++;
    }
    recording = NULL;
    return failed ? SG_MACHINE : SG_OK;
}

static sg_code bent_graph_launch(sg_device *device, sg_graph_exec *graph, const sg_launch *launch, sg_status *status) {
    if (fails(status)) return SG_MACHINE;
    sg_code code = SG_OK;
    bent->replays++;
    for (int i = 0; !code && i < graph->n; i++)
        code = really_launch(device, graph->op[i].plan, SG_STREAM_COMPUTE, graph->op[i].pointer, graph->op[i].workspace,
                             launch, status);
    return code;
}

static void bent_graph_destroy(sg_device *device, sg_graph_exec *graph) {
    (void)device;
    if (graph) bent->alive--;
    free(graph);
}

const sg_device_api *sg_bent_device(sg_bent *b, bool pinned, bool graphs) {
    static sg_device_api api;
    bent = b;
    recording = NULL;
    memset(plans, 0, sizeof plans);
    api = *b->inner;
    api.open = bent_open;
    api.info = bent_info;
    api.segment_alloc = bent_segment_alloc;
    api.segment_free = bent_segment_free;
    api.prepare = bent_prepare;
    api.plans_free = bent_plans_free;
    api.launch = bent_launch;
    api.event_create = bent_event_create;
    api.event_destroy = bent_event_destroy;
    api.event_record = bent_event_record;
    api.event_seconds = bent_event_seconds;
    api.stream_wait = bent_stream_wait;
    api.copy = bent_copy;
    api.host_alloc = pinned ? bent_host_alloc : NULL;
    api.host_free = pinned ? bent_host_free : NULL;
    api.graph_begin = graphs ? bent_graph_begin : NULL;
    api.graph_end = graphs ? bent_graph_end : NULL;
    api.graph_launch = graphs ? bent_graph_launch : NULL;
    api.graph_destroy = graphs ? bent_graph_destroy : NULL;
    return &api;
}
