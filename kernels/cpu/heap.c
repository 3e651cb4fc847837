#include "kernels/cpu/heap.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GRANULE = 512, STEPS = 16, STEP_BITS = 4, POWERS = 40, SCANNED = 16 };
/* Blocks of whole pages are made longer by this, so that tensors of one shape do not all start at the same place of a page:
 * streams in step would compete for the same sets of the caches. */
enum { PAGE = 4096, SHIFT = 1536 };
enum { NODES_PER_SLAB = 256, FIRST_TABLE = 1024 };
static const uint64_t REGION_BYTES = (uint64_t)1 << 30, HUGE_PAGE = (uint64_t)2 << 20;

typedef struct block block;
struct block {
    char *at;
    uint64_t bytes;
    bool taken;
    block *before, *after; /* neighbours in the region */
    block *last, *next;    /* in the bin, or in the list of unused nodes */
};

/* Memory from the system: one mapping. */
typedef struct region region;
struct region {
    char *at;
    uint64_t bytes;
    region *next;
};

typedef struct slab slab;
struct slab {
    slab *next;
    block nodes[NODES_PER_SLAB];
};

struct sg_heap {
    pthread_mutex_t lock;
    uint64_t limit, mapped;
    region *regions;
    slab *slabs;
    block *unused;
    block *bins[POWERS][STEPS];
    uint64_t powers_used;
    uint32_t steps_used[POWERS];
    block **table; /* taken blocks by address, open addressing */
    uint64_t table_size, table_used;
};

/* ---- bins ----------------------------------------------------------------------------------------------------------------- */

typedef struct bin {
    int power, step;
} bin;

/* Bin of a size in granules: sizes of a bin share the leading bit and the 4 bits after it. */
static bin bin_of(uint64_t bytes) {
    uint64_t n = bytes / GRANULE;
    int power = 63 - __builtin_clzll(n);
    int step = power >= STEP_BITS ? (int)(n >> (power - STEP_BITS)) & (STEPS - 1)
                                  : (int)(n << (STEP_BITS - power)) & (STEPS - 1);
    return (bin){power, step};
}

static void bin_add(sg_heap *a, block *b) {
    bin to = bin_of(b->bytes);
    block **head = &a->bins[to.power][to.step];
    b->last = NULL;
    b->next = *head;
    if (*head) (*head)->last = b;
    *head = b;
    a->powers_used |= (uint64_t)1 << to.power;
    a->steps_used[to.power] |= 1u << to.step;
}

static void bin_remove(sg_heap *a, block *b) {
    bin from = bin_of(b->bytes);
    block **head = &a->bins[from.power][from.step];
    if (b->last)
        b->last->next = b->next;
    else
        *head = b->next;
    if (b->next) b->next->last = b->last;
    if (*head) return;
    a->steps_used[from.power] &= ~(1u << from.step);
    if (!a->steps_used[from.power]) a->powers_used &= ~((uint64_t)1 << from.power);
}

/* The first bin after `from` that is not empty. */
static block *larger_block(const sg_heap *a, bin from) {
    uint32_t steps = from.step + 1 < STEPS ? a->steps_used[from.power] >> (from.step + 1) << (from.step + 1) : 0;
    if (steps) return a->bins[from.power][__builtin_ctz(steps)];
    uint64_t powers = from.power + 1 < POWERS ? a->powers_used >> (from.power + 1) << (from.power + 1) : 0;
    if (!powers) return NULL;
    int power = __builtin_ctzll(powers);
    return a->bins[power][__builtin_ctz(a->steps_used[power])];
}

/* The tightest of the first blocks of its own bin, else any of the next larger bin. */
static block *fitting_block(const sg_heap *a, uint64_t bytes) {
    bin own = bin_of(bytes);
    block *best = NULL;
    int seen = 0;
    for (block *b = a->bins[own.power][own.step]; b && seen < SCANNED; b = b->next, seen++)
        if (b->bytes >= bytes && (!best || b->bytes < best->bytes)) best = b;
    return best ? best : larger_block(a, own);
}

/* ---- nodes and the table of taken blocks -------------------------------------------------------------------------------------- */

static block *node_new(sg_heap *a) {
    if (!a->unused) {
        slab *s = calloc(1, sizeof *s);
        if (!s) return NULL;
        s->next = a->slabs;
        a->slabs = s;
        for (int i = 0; i < NODES_PER_SLAB; i++) {
            s->nodes[i].next = a->unused;
            a->unused = &s->nodes[i];
        }
    }
    block *b = a->unused;
    a->unused = b->next;
    *b = (block){0};
    return b;
}

static void node_free(sg_heap *a, block *b) {
    b->next = a->unused;
    a->unused = b;
}

static uint64_t slot_of(const sg_heap *a, const void *at) {
    uint64_t key = (uint64_t)(uintptr_t)at / GRANULE;
    return (key * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (a->table_size - 1);
}

static void table_put(sg_heap *a, block *b) {
    uint64_t slot = slot_of(a, b->at);
    while (a->table[slot]) slot = (slot + 1) & (a->table_size - 1);
    a->table[slot] = b;
    a->table_used++;
}

static bool table_reserve(sg_heap *a) {
    if ((a->table_used + 1) * 2 <= a->table_size) return true;
    uint64_t old_size = a->table_size;
    block **old = a->table, **larger = calloc(old_size * 2, sizeof(block *));
    if (!larger) return false;
    a->table = larger;
    a->table_size = old_size * 2;
    a->table_used = 0;
    for (uint64_t i = 0; i < old_size; i++)
        if (old[i]) table_put(a, old[i]);
    free(old);
    return true;
}

/* Takes the block at this address out of the table; NULL when there is none. Followers in the same run move up. */
static block *table_take(sg_heap *a, const void *at) {
    uint64_t mask = a->table_size - 1, slot = slot_of(a, at);
    while (a->table[slot] && a->table[slot]->at != at) slot = (slot + 1) & mask;
    block *found = a->table[slot];
    if (!found) return NULL;
    for (uint64_t next = (slot + 1) & mask; a->table[next]; next = (next + 1) & mask) {
        uint64_t home = slot_of(a, a->table[next]->at);
        if (((next - home) & mask) < ((next - slot) & mask)) continue;
        a->table[slot] = a->table[next];
        slot = next;
    }
    a->table[slot] = NULL;
    a->table_used--;
    return found;
}

/* ---- memory from the system ------------------------------------------------------------------------------------------------------ */

static char *map(uint64_t bytes) {
    void *at =
        mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
    char *aligned = (char *)at + (HUGE_PAGE - (uint64_t)(uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
    uint64_t before = (uint64_t)(aligned - (char *)at), after = HUGE_PAGE - before;
    if (before) (void)munmap(at, before);
    if (after) (void)munmap(aligned + bytes, after);
    (void)madvise(aligned, bytes, MADV_HUGEPAGE);
    return aligned;
}

/* A new region with one free block of at least `bytes` bytes. */
static block *grow(sg_heap *a, uint64_t bytes) {
    uint64_t least = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE,
             size = least > REGION_BYTES ? least : REGION_BYTES;
    if (a->limit && a->limit - a->mapped < size) size = least;
    if (a->limit && a->limit - a->mapped < size) return NULL;
    region *r = malloc(sizeof *r);
    block *b = node_new(a);
    char *at = r && b ? map(size) : NULL;
    if (!at && size > least && r && b) {
        size = least;
        at = map(size);
    }
    if (!at) {
        free(r);
        if (b) node_free(a, b);
        return NULL;
    }
    *r = (region){at, size, a->regions};
    a->regions = r;
    a->mapped += size;
    *b = (block){.at = at, .bytes = size};
    bin_add(a, b);
    return b;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------------ */

/* Cuts what is beyond `bytes` off a free block that is in no bin. */
static bool split(sg_heap *a, block *b, uint64_t bytes) {
    if (b->bytes == bytes) return true;
    block *rest = node_new(a);
    if (!rest) return false;
    *rest = (block){.at = b->at + bytes, .bytes = b->bytes - bytes, .before = b, .after = b->after};
    if (b->after) b->after->before = rest;
    b->after = rest;
    b->bytes = bytes;
    bin_add(a, rest);
    return true;
}

/* Joins `b` with the free block after it. */
static void join_after(sg_heap *a, block *b) {
    block *after = b->after;
    b->bytes += after->bytes;
    b->after = after->after;
    if (b->after) b->after->before = b;
    node_free(a, after);
}

static void *take_locked(sg_heap *a, uint64_t bytes) {
    if (!table_reserve(a)) return NULL;
    block *b = fitting_block(a, bytes);
    if (!b) b = grow(a, bytes);
    if (!b) return NULL;
    bin_remove(a, b);
    if (!split(a, b, bytes)) {
        bin_add(a, b);
        return NULL;
    }
    b->taken = true;
    table_put(a, b);
    return b->at;
}

void *sg_heap_take(sg_heap *heap, uint64_t bytes) {
    if (bytes > (uint64_t)1 << 46) return NULL;
    uint64_t rounded = bytes ? (bytes + GRANULE - 1) / GRANULE * GRANULE : GRANULE;
    if (rounded % PAGE == 0) rounded += SHIFT;
    pthread_mutex_lock(&heap->lock);
    void *at = take_locked(heap, rounded);
    pthread_mutex_unlock(&heap->lock);
    return at;
}

static void give_locked(sg_heap *a, const void *at) {
    block *b = table_take(a, at);
    if (!b) return;
    b->taken = false;
    if (b->after && !b->after->taken) {
        bin_remove(a, b->after);
        join_after(a, b);
    }
    if (b->before && !b->before->taken) {
        b = b->before;
        bin_remove(a, b);
        join_after(a, b);
    }
    bin_add(a, b);
}

void sg_heap_give(sg_heap *heap, void *block) {
    if (!block) return;
    pthread_mutex_lock(&heap->lock);
    give_locked(heap, block);
    pthread_mutex_unlock(&heap->lock);
}

/* ---- life ---------------------------------------------------------------------------------------------------------------------------- */

sg_heap *sg_heap_open(uint64_t limit) {
    sg_heap *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    a->limit = limit;
    a->table_size = FIRST_TABLE;
    a->table = calloc(FIRST_TABLE, sizeof(block *));
    if (!a->table || pthread_mutex_init(&a->lock, NULL) != 0) {
        free(a->table);
        free(a);
        return NULL;
    }
    return a;
}

void sg_heap_close(sg_heap *heap) {
    if (!heap) return;
    for (region *r = heap->regions; r;) {
        region *next = r->next;
        (void)munmap(r->at, r->bytes);
        free(r);
        r = next;
    }
    for (slab *s = heap->slabs; s;) {
        slab *next = s->next;
        free(s);
        s = next;
    }
    pthread_mutex_destroy(&heap->lock);
    free(heap->table);
    free(heap);
}
