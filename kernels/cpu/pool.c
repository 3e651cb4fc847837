/* pool.c: MAXPOOL and MAXPOOL_BWD. Channels-last images are pooled across channels, plain ones row by row; bf16 and fp16 pass
 * through fp32 copies in the workspace (widen.c). */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STRIP = 256, GRAIN = 16384 };

typedef struct pool {
    bool across; /* channels are contiguous in every tensor */
    bool along;  /* columns are */
    int64_t n, c, h, w, rows, columns;
    int64_t kernel[2], stride[2], pad[2];
    bool small_index;
    sg_desc x, y, index; /* of the forward: x large, y and index small */
} pool;

typedef struct job {
    const sg_call *call;
    const pool *p;
    float *x, *y;
    char *index;
} job;

/* Window of output position `at`: first input position and the part of the kernel inside the image. */
typedef struct window {
    int64_t start, from, to;
} window;

static window window_at(int64_t at, int64_t kernel, int64_t stride, int64_t pad, int64_t size) {
    window w = {.start = at * stride - pad};
    w.from = w.start < 0 ? -w.start : 0;
    w.to = size - w.start < kernel ? size - w.start : kernel;
    return w;
}

static int64_t offset(const sg_desc *d, int64_t n, int64_t c, int64_t h, int64_t w) {
    return n * d->stride[0] + c * d->stride[1] + h * d->stride[2] + w * d->stride[3];
}

static int64_t code_of(const pool *p, int64_t i, int64_t j, int64_t kernel_i, int64_t kernel_j) {
    return p->small_index ? kernel_i * p->kernel[1] + kernel_j : i * p->w + j;
}

static void put_index(const job *job, int64_t at, int64_t value) {
    if (job->p->small_index)
        ((uint8_t *)job->index)[at] = (uint8_t)value;
    else
        ((int64_t *)(void *)job->index)[at] = value;
}

static int64_t get_index(const job *job, int64_t at) {
    return job->p->small_index ? ((const uint8_t *)job->index)[at] : ((const int64_t *)(const void *)job->index)[at];
}

/* ---- forward --------------------------------------------------------------------------------------------------------------- */

/* One output pixel, a strip of channels. Positions inside the kernel are turned into plane positions at the end. */
static void pool_strip(const job *job, int64_t n, int64_t c, int64_t channels, int64_t row, int64_t column) {
    const pool *p = job->p;
    const sg_loops *loops = job->call->device->loops;
    window v = window_at(row, p->kernel[0], p->stride[0], p->pad[0], p->h);
    window u = window_at(column, p->kernel[1], p->stride[1], p->pad[1], p->w);
    float *y = job->y + offset(&p->y, n, c, row, column);
    int32_t where[STRIP];
    int32_t first = (int32_t)(v.from * p->kernel[1] + u.from);
    loops->fill(y, channels, -INFINITY);
    for (int64_t i = 0; i < channels; i++) where[i] = first;
    for (int64_t i = v.from; i < v.to; i++)
        for (int64_t j = u.from; j < u.to; j++)
            loops->pool_max(y, where, job->x + offset(&p->x, n, c, v.start + i, u.start + j), channels, 1,
                            (int32_t)(i * p->kernel[1] + j));
    int64_t at = offset(&p->index, n, c, row, column);
    if (p->small_index) {
        uint8_t *index = (uint8_t *)job->index + at;
        for (int64_t i = 0; i < channels; i++) index[i] = (uint8_t)where[i];
    } else {
        int64_t *index = (int64_t *)(void *)job->index + at;
        for (int64_t i = 0; i < channels; i++) {
            int64_t kernel_i = where[i] / p->kernel[1], kernel_j = where[i] % p->kernel[1];
            index[i] = (v.start + kernel_i) * p->w + u.start + kernel_j;
        }
    }
}

/* Columns first..first+n-1 of one output row of a plane. Every position of the window is taken for all columns at once,
 * as far as it lies inside the image for them. */
static void pool_row(const job *job, int64_t n, int64_t c, int64_t row, int64_t first, int64_t count) {
    const pool *p = job->p;
    const sg_loops *loops = job->call->device->loops;
    window v = window_at(row, p->kernel[0], p->stride[0], p->pad[0], p->h);
    float *y = job->y + offset(&p->y, n, c, row, first);
    int32_t where[STRIP];
    loops->fill(y, count, -INFINITY);
    for (int64_t k = 0; k < count; k++) {
        int64_t start = (first + k) * p->stride[1] - p->pad[1];
        where[k] = (int32_t)(v.from * p->kernel[1] + (start < 0 ? -start : 0));
    }
    for (int64_t i = v.from; i < v.to; i++)
        for (int64_t j = 0; j < p->kernel[1]; j++) {
            int64_t at = first * p->stride[1] - p->pad[1] + j; /* column of x that the first output sees here */
            int64_t skip = at < 0 ? (-at + p->stride[1] - 1) / p->stride[1] : 0;
            int64_t end = p->w - at <= 0 ? 0 : (p->w - at - 1) / p->stride[1] + 1;
            if (end > count) end = count;
            if (skip >= end) continue;
            const float *x = job->x + offset(&p->x, n, c, v.start + i, at + skip * p->stride[1]);
            loops->pool_max(y + skip, where + skip, x, end - skip, p->stride[1], (int32_t)(i * p->kernel[1] + j));
        }
    for (int64_t k = 0; k < count; k++) {
        int64_t i = where[k] / p->kernel[1], j = where[k] % p->kernel[1];
        int64_t column = (first + k) * p->stride[1] - p->pad[1] + j;
        put_index(job, offset(&p->index, n, c, row, first + k), code_of(p, v.start + i, column, i, j));
    }
}

static void pool_pixel(const job *job, int64_t n, int64_t c, int64_t row, int64_t column) {
    const pool *p = job->p;
    window v = window_at(row, p->kernel[0], p->stride[0], p->pad[0], p->h);
    window u = window_at(column, p->kernel[1], p->stride[1], p->pad[1], p->w);
    const float *x = job->x + offset(&p->x, n, c, v.start, u.start);
    int64_t down = p->x.stride[2], right = p->x.stride[3], best_i = v.from, best_j = u.from;
    float best = -INFINITY;
    for (int64_t i = v.from; i < v.to; i++)
        for (int64_t j = u.from; j < u.to; j++) {
            float value = x[i * down + j * right];
            bool better = value > best || value != value;
            best = better ? value : best;
            best_i = better ? i : best_i;
            best_j = better ? j : best_j;
        }
    job->y[offset(&p->y, n, c, row, column)] = best;
    put_index(job, offset(&p->index, n, c, row, column),
              code_of(p, v.start + best_i, u.start + best_j, best_i, best_j));
}

/* Items: rows of output pixels (across channels), or planes' rows. */
static void forward(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const pool *p = job->p;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item % p->rows, rest = item / p->rows;
        for (int64_t first = 0; p->along && first < p->columns; first += STRIP)
            pool_row(job, rest / p->c, rest % p->c, row, first,
                     p->columns - first < STRIP ? p->columns - first : STRIP);
        if (p->along) continue;
        for (int64_t column = 0; column < p->columns; column++) {
            if (!p->across) {
                pool_pixel(job, rest / p->c, rest % p->c, row, column);
                continue;
            }
            for (int64_t c = 0; c < p->c; c += STRIP)
                pool_strip(job, rest, c, p->c - c < STRIP ? p->c - c : STRIP, row, column);
        }
    }
}

/* ---- backward ---------------------------------------------------------------------------------------------------------------- */

/* Output positions whose window holds input position `at`: from..to-1. */
static void covering(int64_t at, int64_t kernel, int64_t stride, int64_t pad, int64_t outputs, int64_t *from,
                     int64_t *to) {
    int64_t first = at + pad - kernel + 1;
    *from = first > 0 ? (first + stride - 1) / stride : 0;
    *to = (at + pad) / stride + 1;
    if (*to > outputs) *to = outputs;
}

/* One input pixel gathers from the windows that hold it. */
static void gather_pixel(const job *job, int64_t n, int64_t h, int64_t w) {
    const pool *p = job->p;
    const sg_loops *loops = job->call->device->loops;
    float *dx = job->x + offset(&p->x, n, 0, h, w);
    int64_t row_from, row_to, column_from, column_to;
    covering(h, p->kernel[0], p->stride[0], p->pad[0], p->rows, &row_from, &row_to);
    covering(w, p->kernel[1], p->stride[1], p->pad[1], p->columns, &column_from, &column_to);
    loops->fill(dx, p->c, 0);
    for (int64_t row = row_from; row < row_to; row++)
        for (int64_t column = column_from; column < column_to; column++) {
            int64_t kernel_i = h + p->pad[0] - row * p->stride[0], kernel_j = w + p->pad[1] - column * p->stride[1];
            int64_t code = code_of(p, h, w, kernel_i, kernel_j), at = offset(&p->index, n, 0, row, column);
            const float *dy = job->y + offset(&p->y, n, 0, row, column);
            if (p->small_index)
                loops->pool_gather_u8(dx, dy, (const uint8_t *)job->index + at, p->c, (uint8_t)code);
            else
                loops->pool_gather_i64(dx, dy, (const int64_t *)(const void *)job->index + at, p->c, code);
        }
}

/* One plane: zeros, then every output adds to the pixel that it came from. Codes outside the plane are skipped. */
static void scatter_plane(const job *job, int64_t n, int64_t c) {
    const pool *p = job->p;
    for (int64_t i = 0; i < p->h; i++)
        for (int64_t j = 0; j < p->w; j++) job->x[offset(&p->x, n, c, i, j)] = 0;
    for (int64_t row = 0; row < p->rows; row++)
        for (int64_t column = 0; column < p->columns; column++) {
            int64_t code = get_index(job, offset(&p->index, n, c, row, column)), i = code / p->w, j = code % p->w;
            if (p->small_index) {
                i = row * p->stride[0] - p->pad[0] + code / p->kernel[1];
                j = column * p->stride[1] - p->pad[1] + code % p->kernel[1];
            }
            if (i < 0 || i >= p->h || j < 0 || j >= p->w) continue;
            job->x[offset(&p->x, n, c, i, j)] += job->y[offset(&p->y, n, c, row, column)];
        }
}

static void backward(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const pool *p = job->p;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        if (!p->across) {
            scatter_plane(job, item / p->c, item % p->c);
            continue;
        }
        for (int64_t w = 0; w < p->w; w++) gather_pixel(job, item / p->h, item % p->h, w);
    }
}

/* ---- plans --------------------------------------------------------------------------------------------------------------------- */

static sg_code run_maxpool(const sg_call *call) {
    const pool *p = call->plan->state;
    job job = {call, p, sg_in_at(call, 0), sg_out_at(call, 0), sg_out_at(call, 1)};
    int64_t per_item = p->columns * (p->across ? p->c : 1) * p->kernel[0] * p->kernel[1];
    sg_parallel(call->device->threads, p->n * p->rows * (p->across ? 1 : p->c), per_item < GRAIN ? GRAIN / per_item : 1,
                forward, &job);
    return SG_OK;
}

static sg_code run_maxpool_bwd(const sg_call *call) {
    const pool *p = call->plan->state;
    job job = {call, p, sg_out_at(call, 0), sg_in_at(call, 0), sg_in_at(call, 1)};
    int64_t per_item = p->across ? p->w * p->c : p->h * p->w;
    sg_parallel(call->device->threads, p->n * (p->across ? p->h : p->c), per_item < GRAIN ? GRAIN / per_item : 1,
                backward, &job);
    return SG_OK;
}

static sg_code prepare_pool(sg_plan *plan, const sg_desc *x, const sg_desc *y, const sg_desc *index,
                            sg_status *status) {
    sg_code code = sg_plan_state(plan, sizeof(pool), status);
    if (code != SG_OK) return code;
    pool *p = plan->state;
    *p = (pool){.n = x->size[0],
                .c = x->size[1],
                .h = x->size[2],
                .w = x->size[3],
                .rows = y->size[2],
                .columns = y->size[3],
                .small_index = index->dtype == SG_U8,
                .x = *x,
                .y = *y,
                .index = *index};
    p->across = p->c > 1 && x->stride[1] == 1 && y->stride[1] == 1 && index->stride[1] == 1;
    p->along = !p->across && x->stride[3] == 1 && y->stride[3] == 1;
    for (int i = 0; i < 2; i++) {
        p->kernel[i] = plan->op.attrs.kernel[i];
        p->stride[i] = plan->op.attrs.stride[i];
        p->pad[i] = plan->op.attrs.pad[i];
    }
    return SG_OK;
}

sg_code sg_prepare_maxpool(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_has_narrow_floats(&plan->op)) return sg_prepare_widened(device, plan, status);
    if (sg_in(plan, 0)->dtype != SG_F32) return sg_refuse(&plan->op, "pooling runs in fp32, not fp64", status);
    plan->run = run_maxpool;
    return prepare_pool(plan, sg_in(plan, 0), sg_out(plan, 0), sg_out(plan, 1), status);
}

sg_code sg_prepare_maxpool_bwd(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_has_narrow_floats(&plan->op)) return sg_prepare_widened(device, plan, status);
    if (sg_in(plan, 0)->dtype != SG_F32) return sg_refuse(&plan->op, "pooling runs in fp32, not fp64", status);
    plan->run = run_maxpool_bwd;
    return prepare_pool(plan, sg_out(plan, 0), sg_in(plan, 0), sg_in(plan, 1), status);
}
