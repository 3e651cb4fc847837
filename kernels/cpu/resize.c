/* resize.c: RESIZE: bilinear, half-pixel centres, no antialias: output i reads at (i + 1/2) size_in / size_out - 1/2, clamped
 * at 0 (PyTorch's interpolate with align_corners=False). */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GRAIN = 8192 };

/* Where one output position reads: two neighbours and the weight of the second. */
typedef struct tap {
    int64_t low, high;
    float weight;
} tap;

typedef struct resize {
    tap *taps; /* rows of the output, then columns */
    int64_t n, c, h, w, rows, columns;
    sg_desc x, y;
} resize;

typedef struct job {
    const sg_call *call;
    const resize *r;
} job;

static tap tap_of(int64_t at, int64_t from, int64_t to) {
    double source = ((double)at + 0.5) * (double)from / (double)to - 0.5;
    if (source < 0) source = 0;
    tap t = {.low = (int64_t)source};
    if (t.low > from - 1) t.low = from - 1;
    t.high = t.low + 1 < from ? t.low + 1 : t.low;
    t.weight = (float)(source - (double)t.low);
    return t;
}

/* Items: rows of output pixels of one image and channel. */
static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const resize *r = job->r;
    (void)thread;
    const float *x = sg_in_at(job->call, 0);
    float *y = sg_out_at(job->call, 0);
    for (int64_t item = begin; item < end; item++) {
        int64_t row = item % r->rows, rest = item / r->rows, n = rest / r->c, c = rest % r->c;
        const tap *v = &r->taps[row];
        const float *plane = x + n * r->x.stride[0] + c * r->x.stride[1];
        const float *low = plane + v->low * r->x.stride[2], *high = plane + v->high * r->x.stride[2];
        float *to = y + n * r->y.stride[0] + c * r->y.stride[1] + row * r->y.stride[2];
        for (int64_t column = 0; column < r->columns; column++) {
            const tap *u = &r->taps[r->rows + column];
            int64_t a = u->low * r->x.stride[3], b = u->high * r->x.stride[3];
            float top = low[a] + u->weight * (low[b] - low[a]), bottom = high[a] + u->weight * (high[b] - high[a]);
            to[column * r->y.stride[3]] = top + v->weight * (bottom - top);
        }
    }
}

static sg_code run_resize(const sg_call *call) {
    job job = {call, call->plan->state};
    int64_t grain = job.r->columns < GRAIN ? GRAIN / job.r->columns : 1;
    sg_parallel(call->device->threads, job.r->n * job.r->c * job.r->rows, grain, work, &job);
    return SG_OK;
}

static void free_resize(void *state) {
    resize *r = state;
    if (r) free(r->taps);
    free(r);
}

sg_code sg_prepare_resize(sg_device *device, sg_plan *plan, sg_status *status) {
    if (sg_has_narrow_floats(&plan->op)) return sg_prepare_widened(device, plan, status);
    const sg_desc *x = sg_in(plan, 0), *y = sg_out(plan, 0);
    if (x->dtype != SG_F32) return sg_refuse(&plan->op, "resizing runs in fp32, not fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(resize), status);
    if (code != SG_OK) return code;
    resize *r = plan->state;
    plan->free_state = free_resize;
    plan->run = run_resize;
    *r = (resize){.n = x->size[0],
                  .c = x->size[1],
                  .h = x->size[2],
                  .w = x->size[3],
                  .rows = y->size[2],
                  .columns = y->size[3],
                  .x = *x,
                  .y = *y};
    r->taps = calloc((size_t)(r->rows + r->columns), sizeof *r->taps);
    if (!r->taps) return sg_fail_memory(status, (size_t)(r->rows + r->columns) * sizeof *r->taps, "a plan of a resize");
    for (int64_t i = 0; i < r->rows; i++) r->taps[i] = tap_of(i, r->h, r->rows);
    for (int64_t i = 0; i < r->columns; i++) r->taps[r->rows + i] = tap_of(i, r->w, r->columns);
    return SG_OK;
}
