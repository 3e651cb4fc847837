/* reduce.c: REDUCE.
 *
 * The dims of x are split into kept and reduced ones. Where memory runs along a reduced dim, runs are folded ("rows"); where
 * it runs along a kept dim, rows are added into a strip of accumulators ("columns"). Few outputs with long sums are split
 * over threads; the parts meet in the workspace. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/nest.h"
#include "kernels/cpu/scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STRIP = 512, BLOCK_ROWS = 256, CHUNK = 1024, GRAIN = 16384 };

/* ---- shape ----------------------------------------------------------------------------------------------------------------- */

typedef struct axes {
    int n;
    int64_t count;
    int64_t size[SG_MAX_DIMS], x_stride[SG_MAX_DIMS], y_stride[SG_MAX_DIMS]; /* outermost first; elements */
} axes;

typedef struct reduction {
    axes kept, reduced;
    bool columns, in_double;
    int64_t strips; /* columns: strips per row; rows: 1 */
    int64_t units;  /* outputs (rows) or strips of outputs (columns) */
    int splits;     /* parts of each sum */
} reduction;

typedef struct job {
    const sg_call *call;
    const reduction *r;
    sg_fn fn;
    double *partial; /* splits x outputs, or NULL */
    const char *x;
    char *y;
    sg_dtype x_dtype, y_dtype;
    int64_t x_bytes, y_bytes;
} job;

static void add_axis(axes *a, int64_t size, int64_t x_stride, int64_t y_stride) {
    int at = a->n++;
    for (; at > 0 && a->x_stride[at - 1] < x_stride; at--) {
        a->size[at] = a->size[at - 1];
        a->x_stride[at] = a->x_stride[at - 1];
        a->y_stride[at] = a->y_stride[at - 1];
    }
    a->size[at] = size;
    a->x_stride[at] = x_stride;
    a->y_stride[at] = y_stride;
    a->count *= size;
}

static void join_axes(axes *a) {
    for (int d = a->n - 2; d >= 0; d--) {
        if (a->x_stride[d] != a->x_stride[d + 1] * a->size[d + 1] ||
            a->y_stride[d] != a->y_stride[d + 1] * a->size[d + 1])
            continue;
        a->size[d + 1] *= a->size[d];
        a->n--;
        size_t tail = (size_t)(a->n - d) * sizeof(int64_t);
        memmove(&a->size[d], &a->size[d + 1], tail);
        memmove(&a->x_stride[d], &a->x_stride[d + 1], tail);
        memmove(&a->y_stride[d], &a->y_stride[d + 1], tail);
    }
    if (a->n == 0) {
        a->n = 1;
        a->size[0] = 1;
    }
}

/* Offset of a position among the first `n` axes. */
static int64_t offset_of(const axes *a, int n, int64_t position, const int64_t *stride) {
    int64_t offset = 0;
    for (int d = n - 1; d >= 0; d--) {
        offset += position % a->size[d] * stride[d];
        position /= a->size[d];
    }
    return offset;
}

/* ---- folding ------------------------------------------------------------------------------------------------------------- */

static double identity_of(sg_fn fn) {
    return fn == SG_FN_MAX ? -INFINITY : fn == SG_FN_MIN ? INFINITY : 0;
}

static double folded(sg_fn fn, double a, double b) {
    switch (fn) {
    case SG_FN_MAX: return a > b || isnan(a) ? a : b;
    case SG_FN_MIN: return a < b || isnan(a) ? a : b;
    case SG_FN_ANY: return a != 0 || b != 0;
    default: return a + b;
    }
}

static double fold_floats(const sg_loops *loops, sg_fn fn, const float *x, int64_t n) {
    switch (fn) {
    case SG_FN_MAX: return (double)loops->max(x, n);
    case SG_FN_MIN: return (double)loops->min(x, n);
    case SG_FN_ANY:
        for (int64_t i = 0; i < n; i++)
            if (x[i] != 0.0f) return 1;
        return 0;
    default: return loops->sum(x, n);
    }
}

static double fold_run(const job *job, const char *x, int64_t n, int64_t stride) {
    const sg_loops *loops = job->call->device->loops;
    if (job->x_dtype == SG_F32 && stride == 1) return fold_floats(loops, job->fn, (const float *)(const void *)x, n);
    double total = identity_of(job->fn);
    if (job->r->in_double) {
        for (int64_t i = 0; i < n; i++)
            total = folded(job->fn, total, sg_scalar_load(job->x_dtype, x + i * stride * job->x_bytes));
        return total;
    }
    float buffer[CHUNK];
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t now = n - at < CHUNK ? n - at : CHUNK;
        loops->load[job->x_dtype](buffer, x + at * stride * job->x_bytes, now, stride);
        total = folded(job->fn, total, fold_floats(loops, job->fn, buffer, now));
    }
    return total;
}

/* Positions begin..end-1 of the reduced space. */
static double fold_rows(const job *job, int64_t x_offset, int64_t begin, int64_t end) {
    const axes *reduced = &job->r->reduced;
    int inner = reduced->n - 1;
    double total = identity_of(job->fn);
    while (begin < end) {
        int64_t outer = begin / reduced->size[inner], index = begin % reduced->size[inner];
        int64_t n = reduced->size[inner] - index < end - begin ? reduced->size[inner] - index : end - begin;
        int64_t at = x_offset + offset_of(reduced, inner, outer, reduced->x_stride) + index * reduced->x_stride[inner];
        total = folded(job->fn, total, fold_run(job, job->x + at * job->x_bytes, n, reduced->x_stride[inner]));
        begin += n;
    }
    return total;
}

static void fold_strip_row(const sg_loops *loops, sg_fn fn, float *strip, const float *row, int64_t n) {
    switch (fn) {
    case SG_FN_MAX: loops->binary[SG_FN_MAX](strip, strip, row, n, 1, 0); break;
    case SG_FN_MIN: loops->binary[SG_FN_MIN](strip, strip, row, n, 1, 0); break;
    case SG_FN_ANY: loops->binary[SG_FN_OR](strip, strip, row, n, 1, 0); break;
    default: loops->binary[SG_FN_ADD](strip, strip, row, n, 1, 0); break;
    }
}

/* As fold_rows, for n neighbouring outputs; fp32 within a block of rows, double across blocks. */
static void fold_columns(const job *job, int64_t x_offset, int64_t n, int64_t begin, int64_t end, double *total) {
    const sg_loops *loops = job->call->device->loops;
    const axes *reduced = &job->r->reduced;
    int inner = reduced->n - 1;
    bool direct = job->x_dtype == SG_F32, sums = job->fn == SG_FN_SUM || job->fn == SG_FN_MEAN;
    float strip[STRIP], row[STRIP];
    for (int64_t i = 0; i < n; i++) total[i] = identity_of(job->fn);
    while (begin < end) {
        int64_t outer = begin / reduced->size[inner], index = begin % reduced->size[inner], rows = end - begin;
        if (rows > reduced->size[inner] - index) rows = reduced->size[inner] - index;
        if (rows > BLOCK_ROWS) rows = BLOCK_ROWS;
        int64_t stride = reduced->x_stride[inner];
        int64_t at = x_offset + offset_of(reduced, inner, outer, reduced->x_stride) + index * stride;
        loops->fill(strip, n, (float)identity_of(job->fn));
        if (direct && sums) {
            loops->add_rows(strip, (const float *)(const void *)(job->x + at * job->x_bytes), rows, n, stride);
        } else {
            for (int64_t i = 0; i < rows; i++) {
                const char *from = job->x + (at + i * stride) * job->x_bytes;
                if (!direct) loops->load[job->x_dtype](row, from, n, 1);
                fold_strip_row(loops, job->fn, strip, direct ? (const float *)(const void *)from : row, n);
            }
        }
        if (sums)
            for (int64_t i = 0; i < n; i++) total[i] += (double)strip[i];
        else
            for (int64_t i = 0; i < n; i++) total[i] = folded(job->fn, total[i], (double)strip[i]);
        begin += rows;
    }
}

/* Unbiased standard deviation of one output: mean first, then squared deviations. */
static double deviation(const job *job, int64_t x_offset) {
    const axes *reduced = &job->r->reduced;
    double mean = fold_rows(job, x_offset, 0, reduced->count) / (double)reduced->count, squares = 0;
    for (int64_t i = 0; i < reduced->count; i++) {
        int64_t at = x_offset + offset_of(reduced, reduced->n, i, reduced->x_stride);
        double d = sg_scalar_load(job->x_dtype, job->x + at * job->x_bytes) - mean;
        squares += d * d;
    }
    return sqrt(squares / ((double)reduced->count - 1));
}

/* ---- outputs -------------------------------------------------------------------------------------------------------------- */

static void put(const job *job, int64_t output, double value) {
    const axes *kept = &job->r->kept;
    if (job->fn == SG_FN_MEAN) value /= (double)job->r->reduced.count;
    int64_t at = offset_of(kept, kept->n, output, kept->y_stride);
    sg_scalar_store(job->y_dtype, job->y + at * job->y_bytes, value);
}

/* n neighbouring outputs, from element `at` of y on. */
static void put_strip(const job *job, int64_t at, const double *total, int64_t n) {
    const sg_loops *loops = job->call->device->loops;
    int64_t stride = job->r->kept.y_stride[job->r->kept.n - 1];
    double scale = job->fn == SG_FN_MEAN ? 1.0 / (double)job->r->reduced.count : 1.0;
    float value[STRIP];
    for (int64_t i = 0; i < n; i++) value[i] = (float)(total[i] * scale);
    if (loops->store[job->y_dtype]) {
        loops->store[job->y_dtype](job->y + at * job->y_bytes, value, n, stride);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        sg_scalar_store(job->y_dtype, job->y + (at + i * stride) * job->y_bytes, total[i] * scale);
}

static void work_rows(const job *job, int64_t unit, int split, int64_t begin, int64_t end) {
    const axes *kept = &job->r->kept;
    int64_t x_offset = offset_of(kept, kept->n, unit, kept->x_stride);
    double value = job->fn == SG_FN_STD ? deviation(job, x_offset) : fold_rows(job, x_offset, begin, end);
    if (job->partial)
        job->partial[split * kept->count + unit] = value;
    else
        put(job, unit, value);
}

static void work_columns(const job *job, int64_t unit, int split, int64_t begin, int64_t end) {
    const axes *kept = &job->r->kept;
    int inner = kept->n - 1;
    int64_t outer = unit / job->r->strips, first = unit % job->r->strips * STRIP;
    int64_t n = kept->size[inner] - first < STRIP ? kept->size[inner] - first : STRIP;
    int64_t output = outer * kept->size[inner] + first;
    double total[STRIP];
    fold_columns(job, offset_of(kept, inner, outer, kept->x_stride) + first, n, begin, end, total);
    if (job->partial)
        memcpy(job->partial + split * kept->count + output, total, (size_t)n * sizeof *total);
    else
        put_strip(job, offset_of(kept, inner, outer, kept->y_stride) + first * kept->y_stride[inner], total, n);
}

/* Items are (split, unit). */
static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const reduction *r = job->r;
    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int split = (int)(item / r->units);
        int64_t unit = item % r->units, n = r->reduced.count;
        int64_t from = n / r->splits * split + n % r->splits * split / r->splits;
        int64_t to = n / r->splits * (split + 1) + n % r->splits * (split + 1) / r->splits;
        (r->columns ? work_columns : work_rows)(job, unit, split, from, to);
    }
}

static sg_code run_reduce(const sg_call *call) {
    const reduction *r = call->plan->state;
    const sg_desc *x = sg_in(call->plan, 0), *y = sg_out(call->plan, 0);
    job job = {.call = call,
               .r = r,
               .fn = (sg_fn)call->plan->op.attrs.fn,
               .partial = r->splits > 1 ? (double *)(void *)call->workspace : NULL,
               .x = sg_in_at(call, 0),
               .y = sg_out_at(call, 0),
               .x_dtype = (sg_dtype)x->dtype,
               .y_dtype = (sg_dtype)y->dtype,
               .x_bytes = (int64_t)sg_dtype_bytes((sg_dtype)x->dtype),
               .y_bytes = (int64_t)sg_dtype_bytes((sg_dtype)y->dtype)};
    int64_t items = r->units * r->splits, per_item = r->kept.count * r->reduced.count / items;
    sg_parallel(call->device->threads, items, per_item < GRAIN ? GRAIN / per_item : 1, work, &job);
    for (int64_t i = 0; job.partial && i < r->kept.count; i++) {
        double value = job.partial[i];
        for (int s = 1; s < r->splits; s++) value = folded(job.fn, value, job.partial[s * r->kept.count + i]);
        put(&job, i, value);
    }
    return SG_OK;
}

sg_code sg_prepare_reduce(sg_device *device, sg_plan *plan, sg_status *status) {
    sg_code code = sg_plan_state(plan, sizeof(reduction), status);
    if (code != SG_OK) return code;
    reduction *r = plan->state;
    const sg_desc *x = sg_in(plan, 0), *y = sg_out(plan, 0);
    r->kept.count = r->reduced.count = 1;
    for (int d = 0; d < x->ndim; d++) {
        if (x->size[d] == 1) continue;
        if (plan->op.attrs.dims_mask & 1u << d)
            add_axis(&r->reduced, x->size[d], x->stride[d], 0);
        else
            add_axis(&r->kept, x->size[d], x->stride[d], y->stride[d]);
    }
    join_axes(&r->kept);
    join_axes(&r->reduced);
    r->in_double = !device->loops->load[x->dtype];
    int64_t inner_kept = r->kept.x_stride[r->kept.n - 1];
    r->columns = !r->in_double && plan->op.attrs.fn != SG_FN_STD && inner_kept == 1 && r->kept.size[r->kept.n - 1] >= 4;
    r->strips = r->columns ? (r->kept.size[r->kept.n - 1] + STRIP - 1) / STRIP : 1;
    r->units = r->columns ? r->kept.count / r->kept.size[r->kept.n - 1] * r->strips : r->kept.count;
    r->splits = 1;
    if (r->units < 2 * device->threads && plan->op.attrs.fn != SG_FN_STD) {
        int64_t parts = r->kept.count * r->reduced.count / GRAIN;
        if (parts > device->threads) parts = device->threads;
        if (parts > r->reduced.count) parts = r->reduced.count;
        if (parts > 1) r->splits = (int)parts;
    }
    if (r->splits > 1) plan->workspace_bytes = sg_align((uint64_t)r->splits * (uint64_t)r->kept.count * sizeof(double));
    plan->run = run_reduce;
    return SG_OK;
}
