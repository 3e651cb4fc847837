/* random.c: random tensors and dropout; numbers come from kernels/philox.h, which every device shares. */
#include "kernels/philox.h"
#include "tests/reference/kinds.h"

#include <math.h>
#include <stdlib.h>

static const double PI = 3.14159265358979323846;

typedef struct draws {
    sg_philox_key key;
    sg_random_split split;
    uint64_t first_sample;
} draws;

static draws draws_of(const ref_call *call, const sg_desc *shape) {
    const sg_attrs *attrs = &call->op->attrs;
    const sg_launch *l = call->launch;
    bool per_sample = ref_flag(call, SG_PER_SAMPLE);
    draws d = {sg_philox_key_of(l->seed, l->step, l->salt),
               sg_random_split_of(shape->ndim, shape->size, per_sample, attrs->dim, attrs->sample_group),
               per_sample ? (uint64_t)l->sample_offset : 0};
    return d;
}

static sg_random_place place_of(const draws *d, int64_t position) {
    sg_random_place place = sg_random_place_of(&d->split, (uint64_t)position);
    place.sample += d->first_sample;
    return place;
}

static uint32_t word_at(const draws *d, int64_t position) {
    sg_random_place place = place_of(d, position);
    return sg_philox_word(d->key, place.sample, place.index);
}

static double normal_at(const draws *d, int64_t position) {
    sg_random_place place = place_of(d, position);
    uint64_t even = place.index - place.index % 2;
    double radius = sqrt(-2 * log(sg_random_unit_above_zero(sg_philox_word(d->key, place.sample, even))));
    double angle = 2 * PI * sg_random_unit(sg_philox_word(d->key, place.sample, even + 1));
    return radius * (place.index % 2 ? sin(angle) : cos(angle));
}

static sg_code permutation(const ref_call *call, const draws *d) {
    int64_t n = sg_desc_count(ref_out(call, 0));
    int64_t *order = malloc((size_t)n * sizeof *order);
    if (!order) return sg_fail_memory(call->status, (unsigned long long)n * sizeof *order, "a permutation");
    sg_random_permutation(d->key, order, n);
    for (int64_t i = 0; i < n; i++) call->out[0][i] = (double)order[i];
    free(order);
    return SG_OK;
}

sg_code ref_RANDOM(const ref_call *call) {
    const sg_attrs *a = &call->op->attrs;
    draws d = draws_of(call, ref_out(call, 0));
    if (a->fn == SG_FN_PERMUTATION) return permutation(call, &d);
    for (int64_t i = 0, count = sg_desc_count(ref_out(call, 0)); i < count; i++) {
        double *y = &call->out[0][i];
        if (a->fn == SG_FN_NORMAL) {
            *y = a->alpha + a->beta * normal_at(&d, i);
        } else if (a->fn == SG_FN_UNIFORM) {
            *y = a->alpha + (a->beta - a->alpha) * sg_random_unit(word_at(&d, i));
        } else if (a->fn == SG_FN_BERNOULLI) {
            *y = word_at(&d, i) >= sg_random_drop_threshold(1 - a->alpha);
        } else {
            *y = (double)sg_random_integer(word_at(&d, i), (int64_t)a->alpha, (uint64_t)(a->beta - a->alpha));
        }
    }
    return SG_OK;
}

sg_code ref_DROPOUT(const ref_call *call) {
    double drop = call->op->attrs.alpha;
    draws d = draws_of(call, ref_in(call, 0));
    uint64_t threshold = sg_random_drop_threshold(drop);
    for (int64_t i = 0, count = sg_desc_count(ref_in(call, 0)); i < count; i++) {
        bool keep = word_at(&d, i) >= threshold;
        call->out[0][i] = keep ? call->in[0][i] / (1 - drop) : 0;
        call->out[1][i] = keep;
    }
    return SG_OK;
}

sg_code ref_DROPOUT_BWD(const ref_call *call) {
    double drop = call->op->attrs.alpha;
    for (int64_t i = 0, count = sg_desc_count(ref_in(call, 0)); i < count; i++)
        call->out[0][i] = call->in[1][i] != 0 ? call->in[0][i] / (1 - drop) : 0;
    return SG_OK;
}
