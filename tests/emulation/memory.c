/* memory.c: device and pinned memory, each with red zones around it, and copies between them. */
#include "tests/emulation/state.h"

#include <stdlib.h>
#include <string.h>

enum { RED_ZONE = 512, ALIGNMENT = 512, RED = 0xa5, FRESH = 0xff };

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
#endif

sg_emu_segment *sg_emu_segment_of(const void *at, size_t bytes) {
    const char *p = at;
    for (sg_emu_segment *s = sg_emu()->segments; s; s = s->next)
        if (p >= s->at && p <= s->at + s->bytes && bytes <= (size_t)(s->at + s->bytes - p)) return s;
    return NULL;
}

bool sg_emu_is_device_memory(const void *at, size_t bytes) {
    if (!at) return bytes == 0;
    sg_emu_lock();
    sg_emu_segment *s = sg_emu_segment_of(at, bytes);
    bool is = s && !s->pinned;
    sg_emu_unlock();
    return is;
}

static size_t rounded_bytes(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static cudaError_t take(void **pointer, size_t bytes, bool pinned) {
    sg_emu_state *e = sg_emu();
    int device = sg_emu_current();
    *pointer = NULL;
    sg_emu_lock();
    cudaError_t error = sg_emu_forbid_while_thread_records();
    if (!error) error = sg_emu_device_error(device);
    size_t most = sg_emu_memory_of(device);
    if (!error && !pinned && (bytes > most || e->used_bytes[device] > most - bytes)) error = cudaErrorMemoryAllocation;
    size_t rounded = rounded_bytes(bytes);
    sg_emu_segment *s = error ? NULL : calloc(1, sizeof *s);
    void *base = NULL;
    if (!error && (!s || posix_memalign(&base, ALIGNMENT, rounded + 2 * RED_ZONE) != 0))
        error = cudaErrorMemoryAllocation;
    if (error) {
        free(s);
        sg_emu_unlock();
        return sg_emu_set_error(error);
    }
    *s = (sg_emu_segment){e->segments, base, (char *)base + RED_ZONE, bytes, device, pinned};
    memset(s->base, RED, RED_ZONE);
    memset(s->at + bytes, RED, rounded - bytes + RED_ZONE);
    memset(s->at, FRESH, bytes);
    ASAN_POISON_MEMORY_REGION(s->base, RED_ZONE);
    ASAN_POISON_MEMORY_REGION(s->at + bytes, rounded - bytes + RED_ZONE);
    e->segments = s;
    if (pinned) {
        e->alive.pinned++;
    } else {
        e->used_bytes[device] += bytes;
        e->alive.allocations++;
        e->alive.bytes += bytes;
    }
    sg_emu_unlock();
    *pointer = s->at;
    return cudaSuccess;
}

static bool is_red(const char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)at[i] != RED) return false;
    return true;
}

static void check_red(const sg_emu_segment *s) {
    bool before = is_red(s->base, RED_ZONE);
    if (before && is_red(s->at + s->bytes, rounded_bytes(s->bytes) - s->bytes + RED_ZONE)) return;
    sg_emu_report_fault("memory %s a device allocation of %zu bytes was overwritten", before ? "behind" : "before",
                        s->bytes);
}

/* The device must be idle where it was used: real work might still be reading it. */
static cudaError_t give(void *pointer, bool pinned) {
    sg_emu_state *e = sg_emu();
    if (!pointer) return cudaSuccess;
    sg_emu_lock();
    cudaError_t forbidden = sg_emu_forbid_while_thread_records();
    if (forbidden) {
        sg_emu_unlock();
        return sg_emu_set_error(forbidden);
    }
    sg_emu_segment **at = &e->segments;
    while (*at && ((*at)->at != pointer || (*at)->pinned != pinned)) at = &(*at)->next;
    sg_emu_segment *s = *at;
    if (!s) {
        sg_emu_report_fault("%s of a pointer that is no allocation", pinned ? "cudaFreeHost" : "cudaFree");
        sg_emu_unlock();
        return sg_emu_set_error(cudaErrorInvalidValue);
    }
    for (struct sg_emu_stream *q = e->streams; q; q = q->next_of_all)
        if (q->device == s->device && !q->capture) (void)sg_emu_run_until(q, q->queued);
    /* others may have freed while the lock was open */
    at = &e->segments;
    while (*at && *at != s) at = &(*at)->next;
    if (*at) *at = s->next;
    ASAN_UNPOISON_MEMORY_REGION(s->base, rounded_bytes(s->bytes) + 2 * RED_ZONE);
    check_red(s);
    memset(s->at, FRESH, s->bytes); /* who still reads it finds no results */
    if (pinned) {
        e->alive.pinned--;
    } else {
        e->used_bytes[s->device] -= s->bytes;
        e->alive.allocations--;
        e->alive.bytes -= s->bytes;
    }
    free(s->base);
    free(s);
    sg_emu_unlock();
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    *pointer = NULL;
    if (SG_EMU_CALL_FAILS()) return sg_emu_set_error(cudaErrorMemoryAllocation);
    return take(pointer, bytes, false);
}
cudaError_t cudaFree(void *pointer) {
    return give(pointer, false);
}
cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
    *pointer = NULL;
    if (SG_EMU_CALL_FAILS()) return sg_emu_set_error(cudaErrorMemoryAllocation);
    return take(pointer, bytes, true);
}
cudaError_t cudaFreeHost(void *pointer) {
    return give(pointer, true);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    SG_EMU_ENTER();
    sg_emu_lock();
    sg_emu_state *e = sg_emu();
    size_t used = e->used_bytes[sg_emu_current()];
    size_t all = sg_emu_memory_of(sg_emu_current());
    *total_bytes = all;
    *free_bytes = used < all ? all - used : 0;
    cudaError_t error = sg_emu_device_error(sg_emu_current());
    sg_emu_unlock();
    return sg_emu_set_error(error);
}

/* ---- copies ------------------------------------------------------------------------------------------------------------ */

typedef struct copying {
    void *to;
    const void *from;
    size_t bytes;
    int value; /* memset, where from is NULL */
    char staged[];
} copying;

static bool run_copy(void *work) {
    copying *c = work;
    if (c->from)
        memmove(c->to, c->from, c->bytes);
    else
        memset(c->to, c->value, c->bytes);
    return true;
}

/* Device memory, pinned memory or (neither) pageable memory of the host. */
static int place_of(const void *at, size_t bytes) {
    sg_emu_lock();
    sg_emu_segment *s = sg_emu_segment_of(at, bytes);
    int place = !s ? 0 : s->pinned ? 1 : 2;
    sg_emu_unlock();
    return place;
}

/* Into pageable memory a copy waits. Out of it, it has as a rule read its source when the call returns, but that is no
 * promise (a GPU may address the host's memory itself): it reads late where the order of things is not the usual one. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
    SG_EMU_ENTER();
    if (bytes == 0) return cudaSuccess;
    int source = place_of(from, bytes), target = place_of(to, bytes);
    bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    if (!to || !from || from_device != (source == 2) || to_device != (target == 2)) {
        sg_emu_report_fault("cudaMemcpyAsync of kind %d: the memory is not where the call says", (int)kind);
        return sg_emu_set_error(cudaErrorInvalidValue);
    }
    bool stage = source == 0 && sg_emu()->order == 0;
    copying *c = malloc(sizeof *c + (stage ? bytes : 0));
    if (!c) return sg_emu_set_error(cudaErrorMemoryAllocation);
    *c = (copying){to, stage ? c->staged : from, bytes, 0};
    if (stage) memcpy(c->staged, from, bytes);
    cudaError_t error = sg_emu_enqueue(stream, "copy", run_copy, free, c);
    if (!error && target == 0) error = cudaStreamSynchronize(stream);
    return sg_emu_set_error(error);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
    SG_EMU_ENTER();
    if (bytes == 0) return cudaSuccess;
    if (place_of(to, bytes) != 2) return sg_emu_set_error(cudaErrorInvalidValue);
    copying *c = malloc(sizeof *c);
    if (!c) return sg_emu_set_error(cudaErrorMemoryAllocation);
    *c = (copying){to, NULL, bytes, value};
    return sg_emu_set_error(sg_emu_enqueue(stream, "memset", run_copy, free, c));
}
