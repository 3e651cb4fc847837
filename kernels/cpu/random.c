/* random.c: DROPOUT, DROPOUT_BWD and RANDOM. Numbers are functions of an element's place (kernels/philox.h), so tensors are
 * walked in row-major order and words are made for stretches of consecutive indices of one sample. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/nest.h"
#include "kernels/cpu/scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 512, GRAIN = 4096 };

static const double TWO_PI = 6.28318530717958647693;

typedef struct drawn {
    sg_nest nest; /* unsorted; DROPOUT: y mask x, DROPOUT_BWD: dx mask dy, RANDOM: y */
    sg_random_split split;
    bool per_sample;
    uint64_t threshold;
    float scale;
    bool in_double;
} drawn;

typedef struct job {
    const sg_call *call;
    const drawn *d;
    sg_philox_key key;
    uint64_t first_sample;
    char *base[3];
} job;

/* ---- words -------------------------------------------------------------------------------------------------------------- */

/* Consecutive indices of one sample from a row-major position on. */
static int64_t stretch(const sg_random_split *split, uint64_t position) {
    uint64_t sample_run = split->group * split->inner;
    uint64_t k = position % split->inner, d = position / split->inner % split->batch % split->group;
    return (int64_t)(sample_run - (d * split->inner + k));
}

/* Words of n <= CHUNK elements from `position` on, which lie in one stretch. Returns where the first one is; the word
 * before it is its partner of a pair when its index is odd. */
static const uint32_t *words_at(const job *job, uint32_t *buffer, int64_t position, int64_t n) {
    sg_random_place place = sg_random_place_of(&job->d->split, (uint64_t)position);
    uint64_t skip = place.index % 4;
    int64_t blocks = ((int64_t)skip + n + 3) / 4;
    job->call->device->loops->philox(buffer, job->key, place.sample + job->first_sample, place.index / 4, blocks);
    return buffer + skip;
}

/* ---- values --------------------------------------------------------------------------------------------------------------- */

static double normal_of(const uint32_t *word, bool odd) {
    const uint32_t *pair = word - odd;
    double radius = sqrt(-2 * log(sg_random_unit_above_zero(pair[0]))), angle = TWO_PI * sg_random_unit(pair[1]);
    return radius * (odd ? sin(angle) : cos(angle));
}

static double value_of(const sg_attrs *a, const drawn *d, const uint32_t *word, bool odd) {
    switch ((sg_fn)a->fn) {
    case SG_FN_UNIFORM: return a->alpha + (a->beta - a->alpha) * sg_random_unit(*word);
    case SG_FN_NORMAL: return a->alpha + a->beta * normal_of(word, odd);
    case SG_FN_BERNOULLI: return *word >= d->threshold;
    default: return (double)sg_random_integer(*word, (int64_t)a->alpha, (uint64_t)(a->beta - a->alpha));
    }
}

/* n values in fp32. Normal deviates are made in whole pairs. */
static void floats_of(const job *job, float *out, const uint32_t *words, int64_t n, bool odd) {
    const sg_loops *loops = job->call->device->loops;
    const sg_attrs *a = &job->call->plan->op.attrs;
    if (a->fn == SG_FN_UNIFORM) {
        loops->uniform(out, words, n, (float)a->alpha, (float)(a->beta - a->alpha));
    } else if (a->fn == SG_FN_BERNOULLI) {
        loops->bernoulli(out, words, n, job->d->threshold);
    } else if (a->fn == SG_FN_NORMAL) {
        float pairs[CHUNK + 2];
        loops->normal(pairs, words - odd, (n + odd + 1) / 2 * 2, (float)a->alpha, (float)a->beta);
        memcpy(out, pairs + odd, (size_t)n * sizeof *out);
    } else {
        for (int64_t i = 0; i < n; i++) out[i] = (float)value_of(a, job->d, &words[i], false);
    }
}

/* ---- one piece: n elements of one run and one stretch ------------------------------------------------------------------ */

typedef struct piece {
    char *at[3];
    int64_t n, position;
} piece;

static void draw_piece(const job *job, const piece *p) {
    const sg_nest *nest = &job->d->nest;
    uint32_t buffer[CHUNK + 8];
    const uint32_t *words = words_at(job, buffer, p->position, p->n);
    bool odd = sg_random_place_of(&job->d->split, (uint64_t)p->position).index % 2 == 1;
    int64_t stride = nest->stride[0][nest->ndim - 1];
    if (job->d->in_double) {
        for (int64_t i = 0; i < p->n; i++) {
            double value = value_of(&job->call->plan->op.attrs, job->d, &words[i], (i % 2 == 1) != odd);
            sg_scalar_store((sg_dtype)nest->dtype[0], p->at[0] + i * stride * nest->bytes[0], value);
        }
        return;
    }
    float values[CHUNK];
    floats_of(job, values, words, p->n, odd);
    job->call->device->loops->store[nest->dtype[0]](p->at[0], values, p->n, stride);
}

static const float *floats_at(const job *job, int operand, const piece *p, float *buffer) {
    const sg_nest *nest = &job->d->nest;
    int64_t stride = nest->stride[operand][nest->ndim - 1];
    if (nest->dtype[operand] == SG_F32 && stride == 1) return (const float *)(const void *)p->at[operand];
    job->call->device->loops->load[nest->dtype[operand]](buffer, p->at[operand], p->n, stride);
    return buffer;
}

static void drop_piece(const job *job, const piece *p) {
    const sg_nest *nest = &job->d->nest;
    const sg_loops *loops = job->call->device->loops;
    int last = nest->ndim - 1;
    uint32_t buffer[CHUNK + 8];
    float x_buffer[CHUNK], y_buffer[CHUNK];
    uint8_t mask_buffer[CHUNK];
    const uint32_t *words = words_at(job, buffer, p->position, p->n);
    const float *x = floats_at(job, 2, p, x_buffer);
    bool y_direct = nest->dtype[0] == SG_F32 && nest->stride[0][last] == 1, mask_direct = nest->stride[1][last] == 1;
    float *y = y_direct ? (float *)(void *)p->at[0] : y_buffer;
    uint8_t *mask = mask_direct ? (uint8_t *)p->at[1] : mask_buffer;
    loops->dropout(y, mask, x, words, p->n, job->d->threshold, job->d->scale);
    if (!y_direct) loops->store[nest->dtype[0]](p->at[0], y, p->n, nest->stride[0][last]);
    for (int64_t i = 0; i < p->n && !mask_direct; i++) p->at[1][i * nest->stride[1][last]] = (char)mask[i];
}

static void undrop_piece(const job *job, const piece *p) {
    const sg_nest *nest = &job->d->nest;
    const sg_loops *loops = job->call->device->loops;
    int last = nest->ndim - 1;
    float dy_buffer[CHUNK], dx_buffer[CHUNK];
    uint8_t mask_buffer[CHUNK];
    const float *dy = floats_at(job, 2, p, dy_buffer);
    const uint8_t *mask = (const uint8_t *)p->at[1];
    if (nest->stride[1][last] != 1) {
        for (int64_t i = 0; i < p->n; i++) mask_buffer[i] = mask[i * nest->stride[1][last]];
        mask = mask_buffer;
    }
    bool direct = nest->dtype[0] == SG_F32 && nest->stride[0][last] == 1;
    float *dx = direct ? (float *)(void *)p->at[0] : dx_buffer;
    loops->dropout_bwd(dx, dy, mask, p->n, job->d->scale);
    if (!direct) loops->store[nest->dtype[0]](p->at[0], dx, p->n, nest->stride[0][last]);
}

/* ---- walk ------------------------------------------------------------------------------------------------------------------ */

static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const sg_nest *nest = &job->d->nest;
    sg_op_kind kind = (sg_op_kind)job->call->plan->op.kind;
    (void)thread;
    sg_nest_place place;
    sg_nest_seek(nest, begin, &place);
    while (begin < end) {
        piece p = {.n = sg_nest_run(nest, &place), .position = begin};
        if (p.n > end - begin) p.n = end - begin;
        if (p.n > CHUNK) p.n = CHUNK;
        if (kind != SG_OP_DROPOUT_BWD) {
            int64_t most = stretch(&job->d->split, (uint64_t)begin);
            if (p.n > most) p.n = most;
        }
        for (int k = 0; k < nest->operands; k++) p.at[k] = job->base[k] + place.offset[k];
        (kind == SG_OP_RANDOM ? draw_piece : kind == SG_OP_DROPOUT ? drop_piece : undrop_piece)(job, &p);
        sg_nest_advance(nest, &place, p.n);
        begin += p.n;
    }
}

static sg_code run_drawn(const sg_call *call) {
    const drawn *d = call->plan->state;
    const sg_launch *l = call->launch;
    job job = {.call = call,
               .d = d,
               .key = sg_philox_key_of(l->seed, l->step, l->salt),
               .first_sample = d->per_sample ? (uint64_t)l->sample_offset : 0};
    if (call->plan->op.kind == SG_OP_RANDOM) {
        job.base[0] = sg_out_at(call, 0);
        if (call->plan->op.attrs.fn == SG_FN_PERMUTATION) {
            sg_random_permutation(job.key, sg_out_at(call, 0), d->nest.count);
            return SG_OK;
        }
    } else {
        job.base[0] = sg_out_at(call, 0);
        job.base[1] = call->plan->op.kind == SG_OP_DROPOUT ? sg_out_at(call, 1) : sg_in_at(call, 1);
        job.base[2] = sg_in_at(call, 0);
    }
    sg_parallel(call->device->threads, d->nest.count, GRAIN, work, &job);
    return SG_OK;
}

static sg_code prepare_drawn(sg_plan *plan, int operands, const sg_desc *const *descs, sg_status *status) {
    sg_code code = sg_plan_state(plan, sizeof(drawn), status);
    if (code != SG_OK) return code;
    drawn *d = plan->state;
    const sg_attrs *a = &plan->op.attrs;
    plan->run = run_drawn;
    d->nest = sg_nest_make_in_order(operands, descs);
    d->per_sample = sg_flag(plan, SG_PER_SAMPLE);
    d->split = sg_random_split_of(descs[0]->ndim, descs[0]->size, d->per_sample, a->dim, a->sample_group);
    return SG_OK;
}

sg_code sg_prepare_dropout(sg_device *device, sg_plan *plan, sg_status *status) {
    bool backward = plan->op.kind == SG_OP_DROPOUT_BWD;
    const sg_desc *descs[3] = {sg_out(plan, 0), backward ? sg_in(plan, 1) : sg_out(plan, 1), sg_in(plan, 0)};
    if (!device->loops->load[descs[0]->dtype] || !device->loops->load[descs[2]->dtype])
        return sg_refuse(&plan->op, "dropout runs in fp32, not fp64", status);
    sg_code code = prepare_drawn(plan, 3, descs, status);
    if (code != SG_OK) return code;
    drawn *d = plan->state;
    double drop = plan->op.attrs.alpha;
    d->threshold = sg_random_drop_threshold(drop);
    d->scale = drop < 1 ? (float)(1 / (1 - drop)) : 0;
    return SG_OK;
}

sg_code sg_prepare_random(sg_device *device, sg_plan *plan, sg_status *status) {
    const sg_desc *y = sg_out(plan, 0);
    sg_code code = prepare_drawn(plan, 1, &y, status);
    if (code != SG_OK) return code;
    drawn *d = plan->state;
    d->in_double = !device->loops->load[y->dtype];
    d->threshold = sg_random_drop_threshold(1 - plan->op.attrs.alpha);
    return SG_OK;
}
