/* peak_bytes.c: what a training needs at most, from its entries alone: sums over lifetimes, no allocator. */
#include <stdlib.h>

#include "sim/measure/measure.h"

typedef struct sums {
    const sg_training *training;
    unsigned char *live;
    uint64_t now, peak;
} sums;

static void run_program(sums *s, const sg_program *p) {
    const sg_training *t = s->training;
    for (size_t i = 0; i < p->n_entries; i++) {
        const sg_entry *e = &p->entries[i];
        bool alloc = e->kind == SG_ENTRY_ALLOC;
        if ((!alloc && e->kind != SG_ENTRY_FREE) || e->index < 0 || (size_t)e->index >= t->n_storages) continue;
        if (s->live[e->index] == alloc) continue;
        s->live[e->index] = alloc;
        s->now = alloc ? s->now + t->storages[e->index].bytes : s->now - t->storages[e->index].bytes;
        if (s->now > s->peak) s->peak = s->now;
    }
}

uint64_t sg_training_peak_bytes(const sg_training *t) {
    sums s = {.training = t, .live = calloc(t->n_storages + 1, 1)};
    if (!s.live) return UINT64_MAX;
    for (size_t i = 0; i < t->n_storages; i++)
        if (t->storages[i].persistent) s.now += t->storages[i].bytes;
    s.peak = s.now;
    for (size_t b = 0; b < t->n_blocks; b++)
        for (int r = 0; r < 2 && r < t->blocks[b].repeat; r++) /* what a first run leaves, a second may still find */
            for (size_t k = 0; k < t->blocks[b].n_steps; k++) {
                const sg_schedule_step *step = &t->blocks[b].steps[k];
                if (step->kind == SG_STEP_PROGRAM && step->index >= 0 && (size_t)step->index < t->n_programs)
                    run_program(&s, &t->programs[step->index]);
            }
    free(s.live);
    return s.peak;
}
