/* allocator.c: see allocator.h. Free blocks of a pool stand in a tree ordered by (bytes, age of place). */
#include "sim/walk/allocator.h"

#include <stdlib.h>

#include "kernels/clock.h"
#include "sim/walk/block_tree.h"

/* c10/core/AllocatorConfig.h, c10/cuda/CUDACachingAllocator.cpp */
static const uint64_t MIN_BLOCK = 512;
static const uint64_t SMALL_SIZE = 1u << 20; /* largest request of the small pool */
static const uint64_t SMALL_SEGMENT = 2u << 20;
static const uint64_t LARGE_SEGMENT = 20u << 20;
static const uint64_t OWN_SEGMENT = 10u << 20; /* requests from here on get a segment of their own ... */
static const uint64_t OWN_ROUNDING = 2u << 20; /* ... in multiples of this */

enum { SLAB_BLOCKS = 256 };

typedef struct slab {
    struct slab *next;
    sg_block blocks[SLAB_BLOCKS];
} slab;

struct sg_allocator {
    const sg_device_api *api;
    sg_device *device;
    sg_allocator_policy policy;
    sg_block_tree pool[2]; /* free blocks: small, large */
    sg_block *segments;    /* first blocks of all segments, a list through segment_next and segment_prev */
    sg_block *spare;       /* unused block records, a list through next */
    slab *slabs;
    uint64_t next_segment; /* age of the next segment */
    sg_allocator_state state;
    double *device_s;
};

sg_code sg_allocator_open(const sg_device_api *api, sg_device *device, sg_allocator_policy policy,
                          sg_allocator **allocator, sg_status *status) {
    *allocator = NULL;
    sg_allocator *a = calloc(1, sizeof *a);
    if (!a) return sg_fail_memory(status, sizeof *a, "the allocator");
    a->api = api;
    a->device = device;
    a->policy = policy;
    *allocator = a;
    return SG_OK;
}

/* ---- block records ----------------------------------------------------------------------------------------------- */

static sg_block *record_new(sg_allocator *a) {
    if (!a->spare) {
        slab *s = malloc(sizeof *s);
        if (!s) return NULL;
        s->next = a->slabs;
        a->slabs = s;
        for (int i = 0; i < SLAB_BLOCKS; i++) {
            s->blocks[i].next = a->spare;
            a->spare = &s->blocks[i];
        }
    }
    sg_block *b = a->spare;
    a->spare = b->next;
    *b = (sg_block){0};
    return b;
}

static void record_free(sg_allocator *a, sg_block *b) {
    b->next = a->spare;
    a->spare = b;
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

static sg_code device_take(sg_allocator *a, uint64_t bytes, void **address, sg_status *status) {
    double start = a->device_s ? sg_clock_s() : 0;
    sg_code code = a->api->segment_alloc(a->device, bytes, address, status);
    if (a->device_s) *a->device_s += sg_clock_s() - start;
    return code;
}

static void device_give(sg_allocator *a, void *address, uint64_t bytes) {
    double start = a->device_s ? sg_clock_s() : 0;
    a->api->segment_free(a->device, address, bytes);
    if (a->device_s) *a->device_s += sg_clock_s() - start;
}

static sg_code segment_new(sg_allocator *a, uint64_t bytes, bool large, sg_block **block, sg_status *status) {
    sg_block *b = record_new(a);
    if (!b) {
        (void)sg_fail_memory(status, sizeof(slab), "the allocator's records");
        return SG_MACHINE;
    }
    sg_code code = device_take(a, bytes, &b->address, status);
    if (code) {
        record_free(a, b);
        return code;
    }
    b->bytes = bytes;
    b->large = large;
    b->segment = a->next_segment++;
    b->priority = sg_block_priority(b->segment);
    b->segment_next = a->segments;
    if (a->segments) a->segments->segment_prev = b;
    a->segments = b;
    a->state.segments++;
    a->state.reserved_bytes += bytes;
    if (a->state.reserved_bytes > a->state.peak_reserved_bytes) a->state.peak_reserved_bytes = a->state.reserved_bytes;
    *block = b;
    return SG_OK;
}

/* b is the only block of its segment and in no tree. */
static void segment_end(sg_allocator *a, sg_block *b) {
    device_give(a, b->address, b->bytes);
    a->state.segments--;
    a->state.reserved_bytes -= b->bytes;
    if (b->segment_prev)
        b->segment_prev->segment_next = b->segment_next;
    else
        a->segments = b->segment_next;
    if (b->segment_next) b->segment_next->segment_prev = b->segment_prev;
    record_free(a, b);
}

void sg_allocator_trim(sg_allocator *a) {
    sg_block *next;
    for (sg_block *b = a->segments; b; b = next) {
        next = b->segment_next;
        if (b->taken || b->next) continue;
        sg_block_tree_remove(&a->pool[b->large], b);
        segment_end(a, b);
    }
}

void sg_allocator_close(sg_allocator *a) {
    if (!a) return;
    for (sg_block *b = a->segments; b;) {
        uint64_t bytes = 0;
        for (const sg_block *part = b; part; part = part->next) bytes += part->bytes;
        sg_block *next = b->segment_next;
        a->api->segment_free(a->device, b->address, bytes);
        b = next;
    }
    for (slab *s = a->slabs; s;) {
        slab *next = s->next;
        free(s);
        s = next;
    }
    free(a);
}

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static void count_taken(sg_allocator *a, sg_block *b) {
    b->taken = true;
    a->state.allocated_bytes += b->bytes;
    if (a->state.allocated_bytes > a->state.peak_allocated_bytes)
        a->state.peak_allocated_bytes = a->state.allocated_bytes;
}

/* Cuts b to `bytes`; the rest, at the higher addresses, becomes a free block. */
static sg_code split(sg_allocator *a, sg_block *b, uint64_t bytes, sg_status *status) {
    sg_block *rest = record_new(a);
    if (!rest) return sg_fail_memory(status, sizeof(slab), "the allocator's records");
    rest->address = (char *)b->address + bytes;
    rest->offset = b->offset + bytes;
    rest->bytes = b->bytes - bytes;
    rest->large = b->large;
    rest->segment = b->segment;
    rest->priority = sg_block_priority(b->segment ^ rest->offset << 20);
    rest->previous = b;
    rest->next = b->next;
    if (b->next) b->next->previous = rest;
    b->next = rest;
    b->bytes = bytes;
    sg_block_tree_insert(&a->pool[b->large], rest);
    return SG_OK;
}

static sg_code take_cached(sg_allocator *a, uint64_t bytes, sg_block **block, sg_status *status) {
    uint64_t size = bytes < MIN_BLOCK ? MIN_BLOCK : (bytes + MIN_BLOCK - 1) / MIN_BLOCK * MIN_BLOCK;
    bool large = size > SMALL_SIZE;
    sg_block *b = sg_block_tree_at_least(&a->pool[large], size);
    if (b) {
        sg_block_tree_remove(&a->pool[large], b);
    } else {
        uint64_t segment = !large               ? SMALL_SEGMENT
                           : size < OWN_SEGMENT ? LARGE_SEGMENT
                                                : (size + OWN_ROUNDING - 1) / OWN_ROUNDING * OWN_ROUNDING;
        sg_code code = segment_new(a, segment, large, &b, status);
        if (code == SG_NO && a->policy == SG_ALLOCATOR_CACHING) {
            a->state.retries++;
            sg_allocator_trim(a);
            code = segment_new(a, segment, large, &b, status);
        }
        if (code) return code;
    }
    uint64_t rest = b->bytes - size;
    if (large ? rest > SMALL_SIZE : rest >= MIN_BLOCK) {
        sg_code code = split(a, b, size, status);
        if (code) {
            sg_block_tree_insert(&a->pool[large], b);
            return code;
        }
    }
    count_taken(a, b);
    *block = b;
    return SG_OK;
}

sg_code sg_allocator_take(sg_allocator *a, uint64_t bytes, sg_block **block, sg_status *status) {
    *block = NULL;
    if (bytes > (uint64_t)INT64_MAX - LARGE_SEGMENT)
        return sg_fail(status, SG_NO, "%llu bytes at once are more than any device has", (unsigned long long)bytes);
    sg_code code;
    if (a->policy != SG_ALLOCATOR_PLAIN) {
        code = take_cached(a, bytes, block, status);
    } else {
        code = segment_new(a, bytes ? bytes : 1, true, block, status);
        if (!code) count_taken(a, *block);
    }
    if (code == SG_NO)
        (void)sg_fail_in(status, "taking %.2f MiB with %.2f MiB allocated and %.2f MiB reserved",
                         (double)bytes / 0x1p20, (double)a->state.allocated_bytes / 0x1p20,
                         (double)a->state.reserved_bytes / 0x1p20);
    return code;
}

/* Takes `right`, a free block outside the tree, into its left neighbour. */
static void absorb_next(sg_allocator *a, sg_block *left) {
    sg_block *right = left->next;
    left->bytes += right->bytes;
    left->next = right->next;
    if (left->next) left->next->previous = left;
    record_free(a, right);
}

void sg_allocator_give(sg_allocator *a, sg_block *b) {
    if (!b) return;
    b->taken = false;
    a->state.allocated_bytes -= b->bytes;
    if (a->policy == SG_ALLOCATOR_PLAIN) {
        segment_end(a, b);
        return;
    }
    sg_block_tree *pool = &a->pool[b->large];
    if (b->next && !b->next->taken) {
        sg_block_tree_remove(pool, b->next);
        absorb_next(a, b);
    }
    if (b->previous && !b->previous->taken) {
        b = b->previous;
        sg_block_tree_remove(pool, b);
        absorb_next(a, b);
    }
    sg_block_tree_insert(pool, b);
}

void *sg_block_address(const sg_block *block) {
    return block->address;
}

uint64_t sg_block_bytes(const sg_block *block) {
    return block->bytes;
}

void sg_allocator_read(const sg_allocator *a, sg_allocator_state *state) {
    *state = a->state;
    state->largest_free_bytes = 0;
    for (int i = 0; i < 2; i++) {
        const sg_block *b = sg_block_tree_last(&a->pool[i]);
        if (b && b->bytes > state->largest_free_bytes) state->largest_free_bytes = b->bytes;
    }
}

void sg_allocator_reset_peak(sg_allocator *a) {
    a->state.peak_allocated_bytes = a->state.allocated_bytes;
    a->state.peak_reserved_bytes = a->state.reserved_bytes;
}

void sg_allocator_time_device(sg_allocator *a, double *device_s) {
    a->device_s = device_s;
}
