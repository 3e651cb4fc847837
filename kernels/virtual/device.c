/* The virtual device: nothing is computed, clocks advance by the prices of a machine.
 *
 * There is a clock for the host and one per stream. A launch starts when the host has issued it and its stream is free
 * and ends a price later; a wait joins clocks. Every clock carries its derivatives by the log parameters of the machine
 * (forward mode): where clocks join, the later one's derivatives win. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/virtual/clock.h"

/* A collective slows the compute that runs beside it from `start` to `end`. */
typedef struct interval {
    sg_vclock start, end;
} interval;

struct sg_plan {
    sg_vspan price;
    uint8_t cls; /* sg_op_class */
};

struct sg_event {
    sg_vclock at;
};

struct sg_comm {
    int ranks;
};

struct sg_device {
    sg_machine machine; /* a copy of the values; the covariance stays with its owner */
    bool in_line;       /* the host computes itself: it waits for each launch */
    sg_vclock host, stream[SG_STREAM_COUNT];
    interval *active; /* collectives that end after the compute stream's clock */
    size_t n_active, room;
    sg_virtual_report sums;
    uint64_t next_address, used_bytes, limit_bytes;
};

/* Addresses start where no real segment lies and are never handed out twice. */
static const uint64_t FIRST_ADDRESS = (uint64_t)1 << 44, LAST_ADDRESS = (uint64_t)1 << 62;
static const uint64_t SEGMENT_ALIGNMENT = (uint64_t)2 << 20;

static sg_code need(const sg_device *d, sg_machine_id id, const char *what, sg_status *status) {
    double v = d->machine.p[id].value;
    if (isfinite(v) && v >= 0) return SG_OK;
    return sg_fail(status, SG_NO, "%s on machine %s: it does not state %s; add it to the data sheet or measure it",
                   what, d->machine.name, sg_machine_key(id));
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static sg_code device_open(const sg_device_options *options, sg_device **device, sg_status *status) {
    *device = NULL;
    if (!options || !options->machine)
        return sg_fail(status, SG_BAD_INPUT, "opening the virtual device: no machine was given");
    sg_device *d = calloc(1, sizeof *d);
    if (!d) return sg_fail_memory(status, sizeof *d, "the virtual device");
    d->machine = *(const sg_machine *)options->machine;
    d->machine.covariance = NULL;
    d->in_line = strcmp(d->machine.device_class, "cpu") == 0;
    d->next_address = FIRST_ADDRESS;
    double context = d->machine.p[SG_M_CONTEXT_BYTES].value;
    uint64_t outside = isfinite(context) && context > 0 && context < 1e18 ? (uint64_t)context : 0;
    uint64_t total = d->machine.memory_bytes;
    d->limit_bytes = total == 0 ? UINT64_MAX : total > outside ? total - outside : 0;
    *device = d;
    return SG_OK;
}

static void device_close(sg_device *d) {
    if (!d) return;
    free(d->active);
    free(d);
}

static sg_code device_info(sg_device *d, sg_device_info *info, sg_status *status) {
    (void)status;
    const sg_machine *m = &d->machine;
    memset(info, 0, sizeof *info);
    memcpy(info->kind, "virtual", sizeof "virtual");
    const char *name = m->title[0] ? m->title : m->name;
    size_t n = strnlen(name, sizeof info->name - 1);
    memcpy(info->name, name, n);
    memcpy(info->library, "cost model", sizeof "cost model");
    info->executes = false;
    info->caching = m->caching_allocator;
    info->bf16_native = m->bf16;
    info->fp16_native = m->fp16;
    info->units = m->units;
    info->memory_bytes = m->memory_bytes;
    return SG_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static sg_code segment_alloc(sg_device *d, uint64_t bytes, void **segment, sg_status *status) {
    *segment = NULL;
    if (bytes > d->limit_bytes - d->used_bytes || bytes > LAST_ADDRESS - SEGMENT_ALIGNMENT - d->next_address)
        return sg_fail(status, SG_NO,
                       "machine %s is out of memory: %.2f GiB are in use, %.2f GiB more do not fit in %.2f GiB; "
                       "take a smaller batch",
                       d->machine.name, (double)d->used_bytes / 0x1p30, (double)bytes / 0x1p30,
                       (double)d->limit_bytes / 0x1p30);
    *segment = (void *)(uintptr_t)d->next_address; // NOLINT(performance-no-int-to-ptr)
    d->used_bytes += bytes;
    /* a gap behind each segment: an overrun cannot reach the next one */
    d->next_address += (bytes + 2 * SEGMENT_ALIGNMENT - 1) / SEGMENT_ALIGNMENT * SEGMENT_ALIGNMENT;
    return SG_OK;
}

static void segment_free(sg_device *d, void *segment, uint64_t bytes) {
    if (segment) d->used_bytes -= bytes <= d->used_bytes ? bytes : d->used_bytes;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

static void plans_free(sg_device *d, sg_plan **plans, size_t n) {
    (void)d;
    if (n) free(plans[0]); /* one block, see prepare */
}

static sg_code prepare(sg_device *d, const sg_op *ops, size_t n, sg_plan **plans, sg_status *status) {
    if (!n) return SG_OK;
    sg_plan *block = calloc(n, sizeof *block);
    if (!block) return sg_fail_memory(status, n * sizeof *block, "the prices of a training's operations");
    for (size_t i = 0; i < n; i++) {
        double by_log[SG_M_COUNT];
        sg_code code = sg_machine_price(&d->machine, &ops[i], &block[i].price.s, by_log, status);
        if (code) {
            free(block);
            return code;
        }
        for (int k = 0; k < SG_M_COUNT; k++)
            if (by_log[k] != 0) sg_vspan_depends(&block[i].price, (sg_machine_id)k, by_log[k]);
        block[i].cls = (uint8_t)sg_op_class_of(&ops[i]);
        plans[i] = &block[i];
    }
    return SG_OK;
}

static uint64_t plan_workspace_bytes(const sg_plan *plan) {
    (void)plan;
    return 0;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

/* Moves *clock by `work` seconds of compute, `stretch` times slower wherever a collective is active. */
static void run_compute(sg_device *d, sg_vclock *clock, const sg_vspan *work) {
    size_t kept = 0;
    for (size_t i = 0; i < d->n_active; i++)
        if (d->active[i].end.s > clock->s) {
            if (kept != i) d->active[kept] = d->active[i];
            kept++;
        }
    d->n_active = kept;
    double stretch = d->machine.p[SG_M_OVERLAP_STRETCH].value;
    if (!kept || !(stretch > 1)) {
        sg_vclock_add(clock, work, 1);
        return;
    }
    sg_vclock left = {0}; /* work still to do, as a clock: its derivatives come from the interval's ends too */
    sg_vclock_add(&left, work, 1);
    for (size_t i = 0; i < kept; i++) {
        const interval *a = &d->active[i];
        if (clock->s < a->start.s) {
            double gap = a->start.s - clock->s;
            if (left.s <= gap) break;
            for (int k = 0; k < SG_M_COUNT; k++) left.by_log[k] -= a->start.by_log[k] - clock->by_log[k];
            left.s -= gap;
            *clock = a->start;
        }
        double capacity = (a->end.s - clock->s) / stretch;
        if (left.s <= capacity) {
            for (int k = 0; k < SG_M_COUNT; k++) clock->by_log[k] += stretch * left.by_log[k];
            clock->by_log[SG_M_OVERLAP_STRETCH] += stretch * left.s;
            clock->s += stretch * left.s;
            return;
        }
        for (int k = 0; k < SG_M_COUNT; k++) left.by_log[k] -= (a->end.by_log[k] - clock->by_log[k]) / stretch;
        left.by_log[SG_M_OVERLAP_STRETCH] += capacity;
        left.s -= capacity;
        *clock = a->end;
    }
    for (int k = 0; k < SG_M_COUNT; k++) clock->by_log[k] += left.by_log[k];
    clock->s += left.s;
}

static sg_code launch(sg_device *d, sg_plan *plan, sg_stream stream, void *const *pointers, void *workspace,
                      const sg_launch *how, sg_status *status) {
    (void)pointers, (void)workspace, (void)how, (void)status;
    sg_vclock *clock = &d->stream[stream];
    sg_vclock_join(clock, &d->host);
    double start = clock->s;
    if (stream == SG_STREAM_COMPUTE)
        run_compute(d, clock, &plan->price);
    else
        sg_vclock_add(clock, &plan->price, 1);
    if (stream == SG_STREAM_COMPUTE) {
        d->sums.device_busy_s += clock->s - start;
        d->sums.class_s[plan->cls] += clock->s - start;
    }
    if (d->in_line && stream == SG_STREAM_COMPUTE) d->host = *clock;
    return SG_OK;
}

static sg_code event_create(sg_device *d, sg_event **event, sg_status *status) {
    (void)d;
    *event = calloc(1, sizeof **event);
    return *event ? SG_OK : sg_fail_memory(status, sizeof **event, "an event of the virtual device");
}

static void event_destroy(sg_device *d, sg_event *event) {
    (void)d;
    free(event);
}

static sg_code event_record(sg_device *d, sg_event *event, sg_stream stream, sg_status *status) {
    (void)status;
    /* an event in an empty stream happens when the host records it */
    event->at = d->stream[stream];
    sg_vclock_join(&event->at, &d->host);
    return SG_OK;
}

static sg_code event_wait(sg_device *d, sg_event *event, sg_stream stream, sg_status *status) {
    (void)status;
    sg_vclock_join(&d->stream[stream], &event->at);
    return SG_OK;
}

static sg_code event_seconds(sg_device *d, sg_event *event, double *seconds, sg_status *status) {
    (void)d, (void)status;
    *seconds = event->at.s;
    return SG_OK;
}

static sg_code stream_wait(sg_device *d, sg_stream stream, sg_status *status) {
    (void)status;
    sg_vclock_join(&d->host, &d->stream[stream]);
    return SG_OK;
}

static sg_code copy(sg_device *d, void *to, const void *from, uint64_t bytes, sg_copy_kind kind, sg_stream stream,
                    sg_status *status) {
    (void)to, (void)from;
    const sg_machine *m = &d->machine;
    sg_vspan t = {0};
    if (kind == SG_COPY_ON_DEVICE) {
        sg_code code = need(d, SG_M_EFF_COPY, "copying", status);
        if (!code) code = need(d, SG_M_BANDWIDTH, "copying", status);
        if (code) return code;
        t.s = 2 * (double)bytes / (m->p[SG_M_EFF_COPY].value * m->p[SG_M_BANDWIDTH].value);
        sg_vspan_depends(&t, SG_M_EFF_COPY, -t.s);
        sg_vspan_depends(&t, SG_M_BANDWIDTH, -t.s);
    } else {
        sg_code code = need(d, SG_M_COPY_BANDWIDTH, "copying between host and device", status);
        if (code) return code;
        t.s = (double)bytes / m->p[SG_M_COPY_BANDWIDTH].value;
        sg_vspan_depends(&t, SG_M_COPY_BANDWIDTH, -t.s);
    }
    sg_vclock *clock = &d->stream[stream];
    sg_vclock_join(clock, &d->host);
    sg_vclock_add(clock, &t, 1);
    if (stream == SG_STREAM_COMPUTE) {
        d->sums.device_busy_s += t.s;
        d->sums.class_s[SG_CLASS_COPY] += t.s;
    }
    if (d->in_line) sg_vclock_join(&d->host, clock);
    return SG_OK;
}

static sg_code host_work(sg_device *d, sg_host_class cls, int64_t count, sg_status *status) {
    static const sg_machine_id multiple_of[SG_HOST_CLASS_COUNT] = {
        [SG_HOST_OP_FORWARD] = SG_M_COUNT,
        [SG_HOST_OP_BACKWARD] = SG_M_HOST_BACKWARD,
        [SG_HOST_VIEW_FORWARD] = SG_M_HOST_VIEW,
        [SG_HOST_OPTIMIZER] = SG_M_HOST_OPTIMIZER_OPS,
    };
    /* a view's backward is a view made by the autograd engine: no dispatch of its own that the field reports would show */
    if (cls == SG_HOST_VIEW_BACKWARD || count <= 0) return SG_OK;
    const sg_machine_parameter *p = d->machine.p;
    sg_vspan t = {0};
    sg_code code;
    if (cls == SG_HOST_SYNC) {
        if ((code = need(d, SG_M_HOST_SYNC_S, "host time", status))) return code;
        t.s = p[SG_M_HOST_SYNC_S].value;
        sg_vspan_depends(&t, SG_M_HOST_SYNC_S, t.s);
    } else {
        if ((unsigned)cls >= SG_HOST_CLASS_COUNT)
            return sg_fail(status, SG_BAD_INPUT, "host time on machine %s: unknown class %d", d->machine.name,
                           (int)cls);
        if ((code = need(d, SG_M_HOST_OP_S, "host time", status))) return code;
        t.s = p[SG_M_HOST_OP_S].value;
        sg_machine_id multiple = multiple_of[cls];
        if (multiple < SG_M_COUNT) {
            if ((code = need(d, multiple, "host time", status))) return code;
            t.s *= p[multiple].value;
            sg_vspan_depends(&t, multiple, t.s);
        }
        sg_vspan_depends(&t, SG_M_HOST_OP_S, t.s);
    }
    sg_vclock_add(&d->host, &t, (double)count);
    d->sums.host_busy_s += (double)count * t.s;
    if (cls != SG_HOST_OPTIMIZER) return SG_OK;
    if ((code = need(d, SG_M_HOST_OPTIMIZER_S, "host time", status))) return code;
    sg_vspan step = {.s = p[SG_M_HOST_OPTIMIZER_S].value};
    sg_vspan_depends(&step, SG_M_HOST_OPTIMIZER_S, step.s);
    sg_vclock_add(&d->host, &step, 1);
    d->sums.host_busy_s += step.s;
    return SG_OK;
}

static sg_code host_idle(sg_device *d, double seconds, sg_status *status) {
    if (!(seconds >= 0) || !isfinite(seconds))
        return sg_fail(status, SG_BAD_INPUT, "waiting on machine %s: %g seconds is no duration", d->machine.name,
                       seconds);
    d->host.s += seconds;
    return SG_OK;
}

static double now(sg_device *d) {
    return d->host.s;
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

static sg_code comm_create(sg_device *d, const sg_comm_options *options, sg_comm **comm, sg_status *status) {
    *comm = NULL;
    if (options->ranks < 1)
        return sg_fail(status, SG_BAD_INPUT, "a communicator on machine %s: %d ranks", d->machine.name, options->ranks);
    if (options->ranks > 1) {
        sg_code code = need(d, SG_M_COLLECTIVE_BUSBW, "collectives", status);
        if (!code) code = need(d, SG_M_COLLECTIVE_LATENCY_S, "collectives", status);
        if (code) return code;
    }
    *comm = calloc(1, sizeof **comm);
    if (!*comm) return sg_fail_memory(status, sizeof **comm, "a communicator of the virtual device");
    (*comm)->ranks = options->ranks;
    return SG_OK;
}

static void comm_destroy(sg_device *d, sg_comm *comm) {
    (void)d;
    free(comm);
}

/* passes x (n - 1)/n x bytes over the bus: 2 for all-reduce, 1 for its halves (nccl-tests, PERFORMANCE.md). */
static sg_code collective(sg_device *d, const sg_comm *comm, double bytes, double passes, sg_status *status) {
    int n = comm->ranks;
    if (n <= 1) return SG_OK;
    sg_vspan t = {0};
    double wire = passes * bytes * (n - 1) / n / d->machine.p[SG_M_COLLECTIVE_BUSBW].value;
    double start = d->machine.p[SG_M_COLLECTIVE_LATENCY_S].value;
    t.s = wire + start;
    sg_vspan_depends(&t, SG_M_COLLECTIVE_BUSBW, -wire);
    sg_vspan_depends(&t, SG_M_COLLECTIVE_LATENCY_S, start);
    if (d->n_active == d->room) {
        size_t room = d->room ? 2 * d->room : 32;
        interval *grown = realloc(d->active, room * sizeof *grown);
        if (!grown) return sg_fail_memory(status, room * sizeof *grown, "the collectives of the virtual device");
        d->active = grown;
        d->room = room;
    }
    sg_vclock *clock = &d->stream[SG_STREAM_COLLECTIVE];
    sg_vclock_join(clock, &d->host);
    interval *a = &d->active[d->n_active++];
    a->start = *clock;
    sg_vclock_add(clock, &t, 1);
    a->end = *clock;
    d->sums.collective_busy_s += t.s;
    return SG_OK;
}

static sg_code all_reduce_mean(sg_device *d, sg_comm *comm, void *buffer, int64_t count, sg_dtype dtype,
                               sg_status *status) {
    (void)buffer;
    return collective(d, comm, (double)count * (double)sg_dtype_bytes(dtype), 2, status);
}

static sg_code all_gather(sg_device *d, sg_comm *comm, const void *part, void *whole, int64_t part_count,
                          sg_dtype dtype, sg_status *status) {
    (void)part, (void)whole;
    return collective(d, comm, (double)part_count * comm->ranks * (double)sg_dtype_bytes(dtype), 1, status);
}

static sg_code reduce_scatter_mean(sg_device *d, sg_comm *comm, const void *whole, void *part, int64_t part_count,
                                   sg_dtype dtype, sg_status *status) {
    (void)part, (void)whole;
    return collective(d, comm, (double)part_count * comm->ranks * (double)sg_dtype_bytes(dtype), 1, status);
}

static void comm_abort(sg_device *d, sg_comm *comm) {
    (void)d, (void)comm;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

void sg_virtual_read(const sg_device *d, sg_virtual_report *report) {
    *report = d->sums;
    report->host_s = d->host.s;
    memcpy(report->gradient, d->host.by_log, sizeof report->gradient);
}

void sg_virtual_reset(sg_device *d) {
    d->host = (sg_vclock){0};
    memset(d->stream, 0, sizeof d->stream);
    d->n_active = 0;
    d->sums = (sg_virtual_report){0};
}

const sg_device_api *sg_virtual_device(void) {
    static const sg_device_api api = {
        .abi = SG_DEVICE_ABI,
        .struct_bytes = sizeof(sg_device_api),
        .kind = "virtual",
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
        .comm_create = comm_create,
        .comm_destroy = comm_destroy,
        .all_reduce_mean = all_reduce_mean,
        .all_gather = all_gather,
        .reduce_scatter_mean = reduce_scatter_mean,
        .comm_abort = comm_abort,
    };
    return &api;
}
