/* Fixed places: nothing that lives together shares bytes, little is wasted, and a walk computes what it computes without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/measure/measure.h"
#include "sim/walk/placement.h"
#include "sim/walk/walk.h"
#include "tests/reference/reference.h"
#include "tests/support/small_policies.h"

/* Walks the schedule twice with a list of what lives. */
typedef struct living {
    const sg_training *training;
    const sg_placement *placement;
    int32_t *list;
    size_t n;
} living;

static void born(living *l, int32_t storage) {
    uint64_t from = l->placement->offset[storage], bytes = l->training->storages[storage].bytes;
    assert_true(from != UINT64_MAX && from % 64 == 0 && from + bytes <= l->placement->bytes);
    for (size_t i = 0; i < l->n; i++) {
        uint64_t other = l->placement->offset[l->list[i]], end = other + l->training->storages[l->list[i]].bytes;
        assert_true(l->list[i] != storage);
        assert_true(from + bytes <= other || end <= from);
    }
    l->list[l->n++] = storage;
}

static void gone(living *l, int32_t storage) {
    for (size_t i = 0; i < l->n; i++)
        if (l->list[i] == storage) l->list[i--] = l->list[--l->n];
}

static void check_places(const sg_training *t) {
    sg_placement p;
    sg_status status = {0};
    if (sg_placement_make(t, &p, &status)) fail_msg("%s", status.text);
    living l = {.training = t, .placement = &p, .list = calloc(t->n_storages + 1, sizeof *l.list)};
    assert_non_null(l.list);
    for (int round = 0; round < 2; round++)
        for (size_t b = 0; b < t->n_blocks; b++)
            for (int64_t r = 0; r < t->blocks[b].repeat; r++)
                for (size_t s = 0; s < t->blocks[b].n_steps; s++) {
                    if (t->blocks[b].steps[s].kind != SG_STEP_PROGRAM) continue;
                    const sg_program *program = &t->programs[t->blocks[b].steps[s].index];
                    for (size_t i = 0; i < program->n_entries; i++) {
                        if (program->entries[i].kind == SG_ENTRY_ALLOC) born(&l, program->entries[i].index);
                        if (program->entries[i].kind == SG_ENTRY_FREE) gone(&l, program->entries[i].index);
                    }
                }
    free(l.list);
    /* no plan can be smaller than what lives at the peak; persistent storages stand apart */
    uint64_t least = sg_training_peak_bytes(t);
    for (size_t i = 0; i < t->n_storages; i++)
        if (t->storages[i].persistent) least -= t->storages[i].bytes;
    assert_true((double)p.bytes <= 1.25 * (double)least + 64.0 * (double)t->n_storages);
    sg_placement_clear(&p);
}

static void nothing_overlaps(void **unused) {
    (void)unused;
    for (int which = 0; which < SG_SMALL_COUNT; which++)
        for (int s = 0; s < SG_SMALL_SETTINGS; s++)
            for (int accumulation = 1; accumulation <= 3; accumulation += 2) {
                bool ppo = which == SG_SMALL_PPO || which == SG_SMALL_PPO_UNCLIPPED;
                if (ppo && accumulation > 1) continue;
                const sg_small_options o = {.accumulation = accumulation, .clip = true};
                sg_training *t = sg_small_build((sg_small)which, &SG_SMALL_SETTING[s], &o);
                check_places(t);
                sg_training_free(t);
            }
}

/* Weights after three iterations, and the visits; memory that is shared by mistake shows as NaN or as other numbers. */
static double *weights_after(const sg_training *t, bool placed, size_t *n, uint64_t *visits, sg_memory_peak *peak) {
    sg_device *d;
    sg_walker *w;
    sg_status status = {0};
    assert_int_equal(sg_reference_device()->open(&(sg_device_options){0}, &d, NULL), SG_OK);
    const sg_walk_options o = {.api = sg_reference_device(), .device = d, .seed = 2, .placed_storages = placed};
    if (sg_walker_open(t, &o, &w, &status)) fail_msg("%s", status.text);
    for (int i = 0; i < 3; i++)
        if (sg_walker_iteration(w, NULL, &status)) fail_msg("%s", status.text);
    *n = 0;
    for (size_t i = 0; i < t->n_parameters; i++) *n += (size_t)sg_desc_count(&t->tensors[t->parameters[i].tensor].desc);
    double *all = calloc(*n + 1, sizeof *all);
    assert_non_null(all);
    size_t at = 0;
    for (size_t i = 0; i < t->n_parameters; i++) {
        size_t count = (size_t)sg_desc_count(&t->tensors[t->parameters[i].tensor].desc);
        assert_int_equal(sg_walker_read(w, t->parameters[i].tensor, all + at, count, NULL), SG_OK);
        at += count;
    }
    *visits = sg_walker_visit_hash(w);
    sg_walker_peak(w, peak);
    if (placed) assert_int_equal(sg_walker_keep(w, t->loss, NULL), SG_BAD_INPUT);
    sg_walker_close(w);
    sg_reference_device()->close(d);
    return all;
}

static void places_change_no_number(void **unused) {
    (void)unused;
    static const sg_small policies[] = {SG_SMALL_ACT, SG_SMALL_PPO, SG_SMALL_TRANSFORMER};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        for (int accumulation = 1; accumulation <= 2; accumulation++) {
            if (policies[i] == SG_SMALL_PPO && accumulation > 1) continue;
            const sg_small_options o = {.accumulation = accumulation};
            sg_training *t = sg_small_build(policies[i], &SG_SMALL_SETTING[0], &o);
            size_t n[2];
            uint64_t visits[2];
            sg_memory_peak peak[2];
            double *a = weights_after(t, false, &n[0], &visits[0], &peak[0]);
            double *b = weights_after(t, true, &n[1], &visits[1], &peak[1]);
            assert_memory_equal(a, b, n[0] * sizeof *a);
            for (size_t k = 0; k < n[0]; k++) assert_true(isfinite(a[k]));
            assert_true(visits[0] == visits[1]);
            assert_int_equal(peak[0].allocated_bytes, peak[1].allocated_bytes);
            assert_int_equal(peak[0].entry, peak[1].entry);
            assert_true(peak[1].reserved_bytes >= peak[1].allocated_bytes);
            free(a);
            free(b);
            sg_training_free(t);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_overlaps),
        cmocka_unit_test(places_change_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
