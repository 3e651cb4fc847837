/* placement.c: see placement.h. */
#include "sim/walk/placement.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* a cache line */

/* Part of a storage's life: entries lo .. hi of a program, both included, over all runs of it. */
typedef struct span {
    int32_t program;
    int64_t lo, hi;
    struct span *next;
} span;

typedef struct life {
    span *spans;    /* NULL: never allocated */
    int64_t lo, hi; /* in the running program; lo < 0: not yet there */
    bool live;
    uint64_t bytes, offset;
    int32_t storage;
} life;

typedef struct history {
    const sg_training *training;
    life *lives; /* per storage */
} history;

/* What the running program has added. Several runs make one span per program: apart they are never needed. */
static bool keep_span(life *s, int32_t program, int64_t n_entries) {
    if (s->lo < 0) return true;
    if (s->live) s->hi = n_entries;
    span *p = s->spans;
    while (p && p->program != program) p = p->next;
    if (!p) {
        p = malloc(sizeof *p);
        if (!p) return false;
        *p = (span){.program = program, .lo = s->lo, .hi = s->hi, .next = s->spans};
        s->spans = p;
    }
    if (s->lo < p->lo) p->lo = s->lo;
    if (s->hi > p->hi) p->hi = s->hi;
    return true;
}

static bool run_program(history *h, int32_t program) {
    const sg_training *t = h->training;
    const sg_program *p = &t->programs[program];
    for (size_t s = 0; s < t->n_storages; s++) h->lives[s].lo = h->lives[s].live ? 0 : -1;
    for (size_t i = 0; i < p->n_entries; i++) {
        const sg_entry *e = &p->entries[i];
        bool alloc = e->kind == SG_ENTRY_ALLOC;
        if ((!alloc && e->kind != SG_ENTRY_FREE) || e->index < 0 || (size_t)e->index >= t->n_storages) continue;
        life *s = &h->lives[e->index];
        if (alloc && s->lo < 0) s->lo = (int64_t)i;
        s->hi = (int64_t)i;
        s->live = alloc;
    }
    for (size_t s = 0; s < t->n_storages; s++)
        if (!keep_span(&h->lives[s], program, (int64_t)p->n_entries)) return false;
    return true;
}

/* Two iterations: what the first leaves lives on in the second. More than two runs of a block's steps bring nothing new. */
static bool run_schedule(history *h) {
    const sg_training *t = h->training;
    for (size_t i = 0; i < t->n_storages; i++)
        h->lives[i] = (life){.lo = -1, .bytes = t->storages[i].bytes, .storage = (int32_t)i};
    for (int iteration = 0; iteration < 2; iteration++)
        for (size_t b = 0; b < t->n_blocks; b++)
            for (int r = 0; r < 2 && r < t->blocks[b].repeat; r++)
                for (size_t k = 0; k < t->blocks[b].n_steps; k++) {
                    const sg_schedule_step *step = &t->blocks[b].steps[k];
                    if (step->kind != SG_STEP_PROGRAM || step->index < 0 || (size_t)step->index >= t->n_programs)
                        continue;
                    if (!run_program(h, step->index)) return false;
                }
    return true;
}

static bool live_together(const life *a, const life *b) {
    for (const span *x = a->spans; x; x = x->next)
        for (const span *y = b->spans; y; y = y->next)
            if (x->program == y->program && x->lo <= y->hi && y->lo <= x->hi) return true;
    return false;
}

static int larger_first(const void *a, const void *b) {
    const life *x = *(const life *const *)a, *y = *(const life *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return (x->storage > y->storage) - (x->storage < y->storage);
}

/* Puts s at the lowest offset at which nothing lives that lives with it. `placed` stands in order of offsets. */
static sg_code put(life *s, life **placed, size_t *n, uint64_t *total, sg_status *status) {
    uint64_t bytes, offset = 0, end;
    if (__builtin_add_overflow(s->bytes, ALIGNMENT - 1, &bytes))
        return sg_fail(status, SG_NO, "a storage of %llu bytes fits nowhere", (unsigned long long)s->bytes);
    bytes = bytes / ALIGNMENT * ALIGNMENT;
    size_t at = 0;
    for (size_t i = 0; i < *n; i++) {
        const life *other = placed[i];
        if (!live_together(s, other)) continue;
        if (other->offset >= offset && other->offset - offset >= bytes) break;
        uint64_t past = other->offset + (other->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        if (past > offset) offset = past;
    }
    if (__builtin_add_overflow(offset, bytes, &end) || end > INT64_MAX)
        return sg_fail(status, SG_NO, "the storages of a training take more memory than can be addressed");
    s->offset = offset;
    if (end > *total) *total = end;
    while (at < *n && placed[at]->offset <= offset) at++;
    memmove(&placed[at + 1], &placed[at], (*n - at) * sizeof(life *));
    placed[at] = s;
    ++*n;
    return SG_OK;
}

static sg_code place_all(const history *h, life **order, life **placed, sg_placement *p, sg_status *status) {
    size_t n = 0, n_placed = 0;
    for (size_t i = 0; i < h->training->n_storages; i++)
        if (h->lives[i].spans) order[n++] = &h->lives[i];
    qsort(order, n, sizeof(life *), larger_first);
    for (size_t i = 0; i < n; i++) {
        sg_code code = put(order[i], placed, &n_placed, &p->bytes, status);
        if (code) return code;
        p->offset[order[i]->storage] = order[i]->offset;
    }
    return SG_OK;
}

static void clear_history(history *h) {
    for (size_t i = 0; h->lives && i < h->training->n_storages; i++)
        for (span *p = h->lives[i].spans; p;) {
            span *next = p->next;
            free(p);
            p = next;
        }
    free(h->lives);
}

sg_code sg_placement_make(const sg_training *t, sg_placement *p, sg_status *status) {
    *p = (sg_placement){.offset = malloc((t->n_storages + 1) * sizeof *p->offset)};
    history h = {.training = t, .lives = calloc(t->n_storages + 1, sizeof *h.lives)};
    life **order = calloc(2 * t->n_storages + 2, sizeof(life *));
    sg_code code = SG_OK;
    if (p->offset && h.lives && order && run_schedule(&h)) {
        for (size_t i = 0; i < t->n_storages; i++) p->offset[i] = UINT64_MAX;
        code = place_all(&h, order, order + t->n_storages + 1, p, status);
    } else {
        code = sg_fail_memory(status, t->n_storages * sizeof *h.lives, "the places of storages");
    }
    free(order);
    clear_history(&h);
    if (code) sg_placement_clear(p);
    return code;
}

void sg_placement_clear(sg_placement *p) {
    free(p->offset);
    *p = (sg_placement){0};
}
