/* placement.c: see placement.h. */
#include "sim/placement.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 }; /* a cache line */

/* Positions on a line on which the programs stand one after the other, in the order of the schedule. */
typedef struct life {
    int64_t begin, end; /* both included; begin < 0: never allocated */
    uint64_t bytes, offset;
    int32_t storage;
    bool open;  /* allocated, and no program further on has freed it yet */
    bool wraps; /* freed in a program that stands before the one that allocates it */
} life;

typedef struct line {
    const sg_training *training;
    life *lives; /* per storage */
    bool *seen;  /* per program */
    int64_t length;
} line;

static void append_program(line *l, size_t program) {
    const sg_training *t = l->training;
    if (program >= t->n_programs || l->seen[program]) return;
    l->seen[program] = true;
    const sg_program *p = &t->programs[program];
    for (size_t i = 0; i < p->n_entries; i++, l->length++) {
        const sg_entry *e = &p->entries[i];
        bool alloc = e->kind == SG_ENTRY_ALLOC;
        if ((!alloc && e->kind != SG_ENTRY_FREE) || e->index < 0 || (size_t)e->index >= t->n_storages) continue;
        life *s = &l->lives[e->index];
        if (alloc) {
            if (s->begin < 0) s->begin = l->length;
            s->open = true;
        } else {
            if (s->begin < 0) s->wraps = true;
            s->open = false;
        }
        s->end = l->length;
    }
}

static void draw_line(line *l) {
    const sg_training *t = l->training;
    for (size_t i = 0; i < t->n_storages; i++)
        l->lives[i] = (life){.begin = -1, .bytes = t->storages[i].bytes, .storage = (int32_t)i};
    for (size_t b = 0; b < t->n_blocks; b++)
        for (size_t k = 0; k < t->blocks[b].n_steps; k++)
            if (t->blocks[b].steps[k].kind == SG_STEP_PROGRAM && t->blocks[b].steps[k].index >= 0)
                append_program(l, (size_t)t->blocks[b].steps[k].index);
    for (size_t i = 0; i < t->n_programs; i++) append_program(l, i);
    for (size_t i = 0; i < t->n_storages; i++) {
        life *s = &l->lives[i];
        if (s->begin >= 0 && (s->open || s->wraps)) { /* it lives on into the next iteration */
            s->begin = 0;
            s->end = l->length;
        }
    }
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
        if (other->end < s->begin || s->end < other->begin) continue;
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

static sg_code place_all(const line *l, life **order, life **placed, sg_placement *p, sg_status *status) {
    size_t n = 0, n_placed = 0;
    for (size_t i = 0; i < l->training->n_storages; i++)
        if (l->lives[i].begin >= 0) order[n++] = &l->lives[i];
    qsort(order, n, sizeof(life *), larger_first);
    for (size_t i = 0; i < n; i++) {
        sg_code code = put(order[i], placed, &n_placed, &p->bytes, status);
        if (code) return code;
        p->offset[order[i]->storage] = order[i]->offset;
    }
    return SG_OK;
}

sg_code sg_placement_make(const sg_training *t, sg_placement *p, sg_status *status) {
    *p = (sg_placement){.offset = malloc((t->n_storages + 1) * sizeof *p->offset)};
    line l = {.training = t,
              .lives = calloc(t->n_storages + 1, sizeof *l.lives),
              .seen = calloc(t->n_programs + 1, sizeof *l.seen)};
    life **order = calloc(2 * t->n_storages + 2, sizeof(life *));
    sg_code code = SG_OK;
    if (p->offset && l.lives && l.seen && order) {
        for (size_t i = 0; i < t->n_storages; i++) p->offset[i] = UINT64_MAX;
        draw_line(&l);
        code = place_all(&l, order, order + t->n_storages + 1, p, status);
    } else {
        code = sg_fail_memory(status, t->n_storages * sizeof *l.lives, "the places of storages");
    }
    free(order);
    free(l.lives);
    free(l.seen);
    if (code) sg_placement_clear(p);
    return code;
}

void sg_placement_clear(sg_placement *p) {
    free(p->offset);
    *p = (sg_placement){0};
}
