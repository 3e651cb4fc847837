#include "kernels/cpu/move.h"

#include <stdlib.h>
#include <string.h>

enum { GRAIN_BYTES = 65536, TILE = 64 };

/* ---- one move -------------------------------------------------------------------------------------------------------- */

static int64_t blocks_of(int64_t n) {
    return (n + TILE - 1) / TILE;
}

sg_move sg_move_make(const sg_desc *to, const sg_desc *from, int64_t to_bytes) {
    const sg_desc *descs[2] = {to, from};
    sg_move move = {.nest = sg_nest_make(2, descs), .cross = -1, .to_bytes = to_bytes};
    const sg_nest *nest = &move.nest;
    int inner = nest->ndim - 1;
    move.items = nest->count;
    if (nest->stride[0][inner] != 1 || nest->stride[1][inner] == 1) return move;
    for (int d = 0; d < inner; d++)
        if (nest->stride[1][d] == 1 && nest->size[d] >= 8 && nest->size[inner] >= 8) move.cross = d;
    if (move.cross >= 0) /* strips of TILE rows, one matrix per combination of the other dims */
        move.items = nest->count / nest->size[inner] / nest->size[move.cross] * blocks_of(nest->size[move.cross]);
    return move;
}

static void move_strided(char *to, const char *from, int64_t n, int64_t to_step, int64_t from_step, int64_t bytes) {
    switch (bytes) {
    case 1:
        for (int64_t i = 0; i < n; i++) to[i * to_step] = from[i * from_step];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, 2);
        break;
    case 4:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, 4);
        break;
    default:
        for (int64_t i = 0; i < n; i++) memcpy(to + i * to_step, from + i * from_step, 8);
        break;
    }
}

static void work_runs(const sg_move *move, char *to, const char *from, int64_t begin, int64_t end) {
    const sg_nest *nest = &move->nest;
    int inner = nest->ndim - 1;
    int64_t bytes = nest->bytes[0], to_stride = nest->stride[0][inner], from_stride = nest->stride[1][inner];
    sg_nest_place place;
    sg_nest_seek(nest, begin, &place);
    while (begin < end) {
        int64_t n = sg_nest_run(nest, &place);
        if (n > end - begin) n = end - begin;
        if (to_stride == 1 && from_stride == 1)
            memcpy(to + place.offset[0], from + place.offset[1], (size_t)(n * bytes));
        else
            move_strided(to + place.offset[0], from + place.offset[1], n, to_stride * bytes, from_stride * bytes,
                         bytes);
        sg_nest_advance(nest, &place, n);
        begin += n;
    }
}

/* Item = (combination of the outer dims, strip of the crossing dim). */
static void work_tiles(const sg_loops *loops, const sg_move *move, char *to, const char *from, int64_t begin,
                       int64_t end) {
    const sg_nest *nest = &move->nest;
    int inner = nest->ndim - 1, cross = move->cross;
    int64_t strips = blocks_of(nest->size[cross]), bytes = nest->bytes[0];
    for (int64_t item = begin; item < end; item++) {
        int64_t rest = item / strips, first = item % strips * TILE;
        int64_t to_at = first * nest->stride[0][cross], from_at = first;
        for (int d = inner - 1; d >= 0; d--) {
            if (d == cross) continue;
            to_at += rest % nest->size[d] * nest->stride[0][d];
            from_at += rest % nest->size[d] * nest->stride[1][d];
            rest /= nest->size[d];
        }
        int64_t rows = nest->size[cross] - first < TILE ? nest->size[cross] - first : TILE;
        loops->transpose(to + to_at * bytes, from + from_at * bytes, rows, nest->size[inner], nest->stride[0][cross],
                         nest->stride[1][inner], (size_t)bytes);
    }
}

void sg_move_work(const sg_loops *loops, const sg_move *move, char *to, const char *from, int64_t begin, int64_t end) {
    to += move->to_bytes;
    if (move->cross >= 0)
        work_tiles(loops, move, to, from, begin, end);
    else
        work_runs(move, to, from, begin, end);
}

/* ---- COPY and CAT ------------------------------------------------------------------------------------------------------ */

typedef struct moves {
    int64_t count, bytes_per_item;
    int64_t total;
    sg_move list[];
} moves;

typedef struct job {
    const sg_call *call;
    const moves *m;
} job;

static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    (void)thread;
    int64_t first = 0;
    for (int64_t i = 0; i < job->m->count && first < end; i++) {
        const sg_move *move = &job->m->list[i];
        int64_t from = begin > first ? begin - first : 0, to = end - first < move->items ? end - first : move->items;
        if (from < to)
            sg_move_work(job->call->device->loops, move, sg_out_at(job->call, 0), sg_in_at(job->call, (int)i), from,
                         to);
        first += move->items;
    }
}

static sg_code run_moves(const sg_call *call) {
    job job = {call, call->plan->state};
    sg_parallel(call->device->threads, job.m->total, GRAIN_BYTES / job.m->bytes_per_item, work, &job);
    return SG_OK;
}

static sg_code prepare_moves(sg_plan *plan, int64_t count, int dim, sg_status *status) {
    sg_code code = sg_plan_state(plan, sizeof(moves) + (size_t)count * sizeof(sg_move), status);
    if (code != SG_OK) return code;
    moves *m = plan->state;
    plan->run = run_moves;
    m->count = count;
    m->bytes_per_item = 1;
    int64_t at = 0;
    const sg_desc *y = sg_out(plan, 0);
    int64_t element = (int64_t)sg_dtype_bytes((sg_dtype)y->dtype);
    for (int64_t i = 0; i < count; i++) {
        const sg_desc *x = sg_in(plan, (int)i);
        sg_desc part = *y;
        if (count > 1) part.size[dim] = x->size[dim];
        m->list[i] = sg_move_make(&part, x, count > 1 ? at * y->stride[dim] * element : 0);
        m->total += m->list[i].items;
        int64_t per_item = m->list[i].nest.count * element / m->list[i].items;
        if (per_item > m->bytes_per_item) m->bytes_per_item = per_item;
        if (count > 1) at += x->size[dim];
    }
    return SG_OK;
}

sg_code sg_prepare_copy(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_in(plan, 0)->dtype != sg_out(plan, 0)->dtype) return sg_prepare_elementwise(device, plan, status);
    return prepare_moves(plan, 1, 0, status);
}

sg_code sg_prepare_cat(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    return prepare_moves(plan, plan->op.n_in, plan->op.attrs.dim, status);
}
