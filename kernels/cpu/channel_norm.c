/* channel_norm.c: CHANNEL_NORM and its backward: batch norm and group norm.
 *
 * The work is done plane by plane (one channel of one sample) in chunks that stay in the first-level cache: one sweep leaves
 * moments or sums of every plane, which meet in the means of their group, a second one writes the result. Planes that are not
 * contiguous fp32 pass through buffers; channels-last images are transposed there, a few channels at a time. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scalar.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 16, BLOCK_CHUNK = 256, CHUNK = 4096, GRAIN = 16384, TENSORS = 3 };

/* A tensor [n, c, outer.., inner] that is walked plane by plane; strides in elements. */
typedef struct walked {
    int pointer; /* which of the call's pointers */
    bool direct; /* planes are runs of contiguous fp32 */
    sg_dtype dtype;
    int64_t bytes, sample, channel, outer[SG_MAX_DIMS], inner;
} walked;

typedef struct norm {
    int64_t samples, channels, groups; /* groups 0: of a channel over all samples */
    int outer_dims;
    int64_t outer_size[SG_MAX_DIMS], outer, inner, chunk;
    int64_t block; /* channels that a thread takes at once */
    int tensors;
    walked tensor[TENSORS]; /* x, y; or dy, x, dx */
    int dx, dw;             /* walked index of dx and pointer of dw, or -1 */
    uint64_t part_bytes;    /* of the workspace, per thread; the planes' records are behind all of them */
    bool backward;
} norm;

/* What the first sweep leaves of a plane, and what the second needs: forward mean and squares around it; backward the sums of
 * dy and dy (x - mean). Then y = (x - mean) scale + shift, or dx = along (x - mean) + shift + scale dy. */
typedef struct plane {
    double first, second;
    float mean, scale, shift, along;
} plane;

typedef struct job {
    const sg_call *call;
    const norm *n;
    plane *planes; /* [samples, channels] */
    bool second;   /* which sweep */
} job;

typedef struct worker {
    const job *job;
    const sg_loops *loops;
    float *buffer[TENSORS + 1]; /* block x chunk each; the last is scratch */
    char *staging;              /* block x chunk elements of a narrow dtype */
    float *row[TENSORS][BLOCK]; /* the chunk of each channel */
} worker;

/* ---- a chunk ------------------------------------------------------------------------------------------------------------ */

static char *chunk_at(const worker *w, const walked *t, int64_t sample, int64_t channel, int64_t outer, int64_t at) {
    const norm *n = w->job->n;
    int64_t offset = sample * t->sample + channel * t->channel + at * t->inner;
    for (int d = n->outer_dims - 1; d >= 0; d--) {
        offset += outer % n->outer_size[d] * t->outer[d];
        outer /= n->outer_size[d];
    }
    return (char *)w->job->call->pointers[t->pointer] + offset * t->bytes;
}

static void place_rows(worker *w, int i, char *from, int64_t channels) {
    const walked *t = &w->job->n->tensor[i];
    for (int64_t k = 0; k < channels; k++)
        w->row[i][k] =
            t->direct ? (float *)(void *)(from + k * t->channel * t->bytes) : w->buffer[i] + k * w->job->n->chunk;
}

static void fetch(worker *w, int i, const char *from, int64_t channels, int64_t count) {
    const walked *t = &w->job->n->tensor[i];
    int64_t chunk = w->job->n->chunk;
    if (t->direct) return;
    if (channels == 1 || t->channel != 1) {
        for (int64_t k = 0; k < channels; k++)
            w->loops->load[t->dtype](w->row[i][k], from + k * t->channel * t->bytes, count, t->inner);
        return;
    }
    bool wide = t->dtype == SG_F32;
    void *to = wide ? (void *)w->buffer[i] : w->staging;
    w->loops->transpose(to, from, channels, count, chunk, t->inner, (size_t)t->bytes);
    for (int64_t k = 0; k < channels && !wide; k++)
        w->loops->load[t->dtype](w->row[i][k], w->staging + k * chunk * t->bytes, count, 1);
}

static void deliver(worker *w, int i, char *to, int64_t channels, int64_t count) {
    const walked *t = &w->job->n->tensor[i];
    int64_t chunk = w->job->n->chunk;
    if (t->direct) return;
    if (channels == 1 || t->channel != 1) {
        for (int64_t k = 0; k < channels; k++)
            w->loops->store[t->dtype](to + k * t->channel * t->bytes, w->row[i][k], count, t->inner);
        return;
    }
    bool wide = t->dtype == SG_F32;
    for (int64_t k = 0; k < channels && !wide; k++)
        w->loops->store[t->dtype](w->staging + k * chunk * t->bytes, w->row[i][k], count, 1);
    const void *from = wide ? (const void *)w->buffer[i] : w->staging;
    w->loops->transpose(to, from, count, channels, t->inner, chunk, (size_t)t->bytes);
}

/* ---- both sweeps -------------------------------------------------------------------------------------------------------- */

/* Moments of the chunk join the plane's (Chan, Golub and LeVeque): `before` elements are in them already. */
static void add_moments(const worker *w, plane *p, const float *x, int64_t count, int64_t before) {
    float *scratch = w->buffer[TENSORS];
    double mean = w->loops->sum(x, count) / (double)count;
    w->loops->unary[SG_FN_AFFINE](scratch, x, count, 1, -(float)mean);
    /* Around the rounded mean: the squares are corrected by what rounding moved it. */
    double moved = mean - (double)(float)mean;
    double squares = w->loops->sum_squares(scratch, count) - moved * moved * (double)count;
    double away = mean - p->first, share = (double)count / (double)(before + count);
    p->first += away * share;
    p->second += squares + away * away * (double)before * share;
}

static void add_sums(const worker *w, plane *p, const float *dy, const float *x, int64_t count) {
    float *scratch = w->buffer[TENSORS];
    w->loops->unary[SG_FN_AFFINE](scratch, x, count, 1, -p->mean);
    p->first += w->loops->sum(dy, count);
    p->second += w->loops->dot(dy, scratch, count);
}

static void finish_chunk(const worker *w, const plane *p, int64_t k, int64_t count) {
    float *scratch = w->buffer[TENSORS];
    bool backward = w->job->n->backward;
    w->loops->unary[SG_FN_AFFINE](scratch, w->row[backward][k], count, 1, -p->mean);
    if (!backward) {
        w->loops->unary[SG_FN_AFFINE](w->row[1][k], scratch, count, p->scale, p->shift);
        return;
    }
    w->loops->unary[SG_FN_AFFINE](scratch, scratch, count, p->along, p->shift);
    w->loops->binary[SG_FN_ADD](w->row[2][k], scratch, w->row[0][k], count, p->scale, 0);
}

static void work_chunk(worker *w, int64_t sample, int64_t channel, int64_t channels, int64_t outer, int64_t at,
                       int64_t count) {
    const norm *n = w->job->n;
    plane *planes = w->job->planes + sample * n->channels + channel;
    char *place[TENSORS];
    int inputs = n->backward ? 2 : 1;
    for (int i = 0; i < n->tensors; i++) {
        place[i] = chunk_at(w, &n->tensor[i], sample, channel, outer, at);
        place_rows(w, i, place[i], channels);
        if (i < inputs) fetch(w, i, place[i], channels, count);
    }
    for (int64_t k = 0; k < channels; k++) {
        if (w->job->second)
            finish_chunk(w, &planes[k], k, count);
        else if (n->backward)
            add_sums(w, &planes[k], w->row[0][k], w->row[1][k], count);
        else
            add_moments(w, &planes[k], w->row[0][k], count, outer * n->inner + at);
    }
    if (w->job->second) deliver(w, n->tensors - 1, place[n->tensors - 1], channels, count);
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    const job *job = context;
    const norm *n = job->n;
    worker w = {.job = job, .loops = job->call->device->loops};
    char *at = job->call->workspace + (uint64_t)thread * n->part_bytes;
    uint64_t bytes = sg_align((uint64_t)(n->block * n->chunk) * sizeof(float));
    for (int i = 0; i <= TENSORS; i++) w.buffer[i] = (float *)(void *)(at + (uint64_t)i * bytes);
    w.staging = at + (TENSORS + 1) * bytes;
    int64_t blocks = (n->channels + n->block - 1) / n->block;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t sample = unit / blocks, channel = unit % blocks * n->block;
        int64_t channels = n->channels - channel < n->block ? n->channels - channel : n->block;
        for (int64_t outer = 0; outer < n->outer; outer++)
            for (int64_t i = 0; i < n->inner; i += n->chunk)
                work_chunk(&w, sample, channel, channels, outer, i, n->inner - i < n->chunk ? n->inner - i : n->chunk);
    }
}

static void sweep(job *job, bool second) {
    const norm *n = job->n;
    int64_t blocks = (n->channels + n->block - 1) / n->block, size = n->block * n->outer * n->inner;
    job->second = second;
    sg_parallel(job->call->device->threads, n->samples * blocks, size < GRAIN ? GRAIN / size : 1, work, job);
}

/* ---- between the sweeps --------------------------------------------------------------------------------------------------- */

static double element(const sg_call *call, int pointer, int64_t i) {
    const sg_desc *desc = &call->plan->op.desc[pointer];
    const char *at = call->pointers[pointer];
    return sg_scalar_load((sg_dtype)desc->dtype,
                          at + i * desc->stride[0] * (int64_t)sg_dtype_bytes((sg_dtype)desc->dtype));
}

static void set_element(const sg_call *call, int pointer, int64_t i, double value) {
    const sg_desc *desc = &call->plan->op.desc[pointer];
    char *at = call->pointers[pointer];
    sg_scalar_store((sg_dtype)desc->dtype, at + i * desc->stride[0] * (int64_t)sg_dtype_bytes((sg_dtype)desc->dtype),
                    value);
}

/* Calls f with the planes of statistic `unit`: `samples` samples from the first, `channels` channels from the first. */
typedef struct span {
    int64_t sample, samples, channel, channels;
} span;

static span span_of(const norm *n, int64_t unit) {
    if (n->groups == 0) return (span){0, n->samples, unit, 1};
    int64_t channels = n->channels / n->groups;
    return (span){unit / n->groups, 1, unit % n->groups * channels, channels};
}

static int64_t units_of(const norm *n) {
    return n->groups ? n->samples * n->groups : n->channels;
}

/* One value per plane, so that the merge is exact for planes of equal length. */
static void finish_moments(const job *job) {
    const norm *n = job->n;
    const sg_call *call = job->call;
    float *mean = call->pointers[4], *rstd = call->pointers[5];
    double eps = call->plan->op.attrs.eps, length = (double)(n->outer * n->inner);
    for (int64_t unit = 0; unit < units_of(n); unit++) {
        span s = span_of(n, unit);
        double middle = 0, squares = 0, planes = (double)(s.samples * s.channels);
        for (int64_t i = s.sample; i < s.sample + s.samples; i++)
            for (int64_t c = s.channel; c < s.channel + s.channels; c++)
                middle += job->planes[i * n->channels + c].first / planes;
        for (int64_t i = s.sample; i < s.sample + s.samples; i++)
            for (int64_t c = s.channel; c < s.channel + s.channels; c++) {
                const plane *p = &job->planes[i * n->channels + c];
                squares += p->second + (p->first - middle) * (p->first - middle) * length;
            }
        mean[unit] = (float)middle;
        rstd[unit] = (float)(1 / sqrt(squares / (planes * length) + eps));
        for (int64_t i = s.sample; i < s.sample + s.samples; i++)
            for (int64_t c = s.channel; c < s.channel + s.channels; c++) {
                plane *p = &job->planes[i * n->channels + c];
                p->mean = mean[unit];
                p->scale = (float)((double)rstd[unit] * element(call, 1, c));
                p->shift = (float)element(call, 2, c);
            }
    }
}

/* dw and db: sums over samples of what the planes have. */
static void finish_weights(const job *job, const float *rstd) {
    const norm *n = job->n;
    for (int64_t c = 0; c < n->channels; c++) {
        double dw = 0, db = 0;
        for (int64_t i = 0; i < n->samples; i++) {
            const plane *p = &job->planes[i * n->channels + c];
            int64_t unit = n->groups ? i * n->groups + c / (n->channels / n->groups) : c;
            dw += p->second * (double)rstd[unit];
            db += p->first;
        }
        set_element(job->call, n->dw, c, dw);
        set_element(job->call, n->dw + 1, c, db);
    }
}

/* With g = dy w and xh = (x - mean) rstd: dx = rstd (g - mean(g) - xh mean(g xh)). */
static void finish_sums(const job *job) {
    const norm *n = job->n;
    const sg_call *call = job->call;
    const float *rstd = call->pointers[3];
    if (n->dw >= 0) finish_weights(job, rstd);
    for (int64_t unit = 0; unit < units_of(n); unit++) {
        span s = span_of(n, unit);
        double g = 0, along = 0, scale = (double)rstd[unit];
        double share = 1.0 / (double)(s.samples * s.channels * n->outer * n->inner);
        for (int64_t i = s.sample; i < s.sample + s.samples; i++)
            for (int64_t c = s.channel; c < s.channel + s.channels; c++) {
                const plane *p = &job->planes[i * n->channels + c];
                g += p->first * element(call, 4, c) * share;
                along += p->second * element(call, 4, c) * scale * share;
            }
        for (int64_t i = s.sample; i < s.sample + s.samples; i++)
            for (int64_t c = s.channel; c < s.channel + s.channels; c++) {
                plane *p = &job->planes[i * n->channels + c];
                p->scale = (float)(scale * element(call, 4, c));
                p->along = (float)(-scale * scale * along);
                p->shift = (float)(-scale * g);
            }
    }
}

static void set_means(const job *job) {
    const norm *n = job->n;
    const float *mean = job->call->pointers[2];
    for (int64_t i = 0; i < n->samples * n->channels; i++) {
        int64_t sample = i / n->channels, channel = i % n->channels;
        int64_t unit = n->groups ? sample * n->groups + channel / (n->channels / n->groups) : channel;
        job->planes[i].mean = mean[unit];
    }
}

static sg_code run(const sg_call *call) {
    const norm *n = call->plan->state;
    uint64_t before = (uint64_t)call->device->threads * n->part_bytes;
    job job = {.call = call, .n = n, .planes = (plane *)(void *)(call->workspace + before)};
    memset(job.planes, 0, (size_t)(n->samples * n->channels) * sizeof *job.planes);
    if (n->backward) set_means(&job);
    sweep(&job, false);
    if (n->backward)
        finish_sums(&job);
    else
        finish_moments(&job);
    if (!n->backward || n->dx >= 0) sweep(&job, true);
    return SG_OK;
}

/* ---- preparation ---------------------------------------------------------------------------------------------------------- */

static void add_walked(norm *n, const sg_plan *plan, int pointer) {
    const sg_desc *desc = &plan->op.desc[pointer];
    walked *t = &n->tensor[n->tensors++];
    *t = (walked){.pointer = pointer,
                  .dtype = (sg_dtype)desc->dtype,
                  .bytes = (int64_t)sg_dtype_bytes((sg_dtype)desc->dtype),
                  .sample = desc->stride[0],
                  .channel = desc->stride[1],
                  .inner = 1};
    for (int d = 2; d < desc->ndim; d++) t->outer[d - 2] = desc->stride[d];
}

/* Dims behind the channel, joined where every tensor allows it; the last one is the inner one. */
static void set_planes(norm *n, const sg_desc *x) {
    n->samples = x->size[0];
    n->channels = x->size[1];
    n->outer = n->inner = 1;
    int dims = 0;
    for (int d = 2; d < x->ndim; d++) {
        if (x->size[d] == 1) continue;
        bool joins = dims > 0;
        for (int i = 0; i < n->tensors && joins; i++)
            joins = n->tensor[i].outer[dims - 1] == n->tensor[i].outer[d - 2] * x->size[d];
        if (!joins) n->outer_size[dims++] = 1;
        n->outer_size[dims - 1] *= x->size[d];
        for (int i = 0; i < n->tensors; i++) n->tensor[i].outer[dims - 1] = n->tensor[i].outer[d - 2];
    }
    if (dims > 0) n->inner = n->outer_size[dims - 1];
    for (int i = 0; i < n->tensors && dims > 0; i++) n->tensor[i].inner = n->tensor[i].outer[dims - 1];
    n->outer_dims = dims > 0 ? dims - 1 : 0;
    for (int d = 0; d < n->outer_dims; d++) n->outer *= n->outer_size[d];
}

static void set_buffers(norm *n) {
    bool crossed = false;
    for (int i = 0; i < n->tensors; i++) {
        walked *t = &n->tensor[i];
        t->direct = t->dtype == SG_F32 && (t->inner == 1 || n->inner == 1);
        crossed = crossed || (t->channel == 1 && t->inner > 1 && n->inner > 1);
    }
    n->block = crossed ? BLOCK : 1;
    n->chunk = crossed ? BLOCK_CHUNK : CHUNK;
    if (n->chunk > n->inner) n->chunk = n->inner;
    n->part_bytes = (TENSORS + 2) * sg_align((uint64_t)(n->block * n->chunk) * sizeof(float));
}

sg_code sg_prepare_channel_norm(sg_device *device, sg_plan *plan, sg_status *status) {
    for (int i = 0; i < plan->op.n_in + plan->op.n_out; i++)
        if (!device->loops->load[plan->op.desc[i].dtype])
            return sg_refuse(&plan->op, "norms run in fp32, not fp64", status);
    sg_code code = sg_plan_state(plan, sizeof(norm), status);
    if (code != SG_OK) return code;
    norm *n = plan->state;
    plan->run = run;
    n->backward = plan->op.kind == SG_OP_CHANNEL_NORM_BWD;
    n->groups = plan->op.attrs.count;
    n->dx = n->dw = -1;
    bool dx = n->backward && !sg_flag(plan, SG_NO_DX);
    add_walked(n, plan, 0);
    if (n->backward) add_walked(n, plan, 1);
    if (dx) n->dx = n->tensors;
    if (dx || !n->backward) add_walked(n, plan, plan->op.n_in);
    if (n->backward && !sg_flag(plan, SG_NO_DW)) n->dw = plan->op.n_in + dx;
    set_planes(n, sg_in(plan, 0));
    set_buffers(n);
    plan->workspace_bytes =
        (uint64_t)device->threads * n->part_bytes + sg_align((uint64_t)(n->samples * n->channels) * sizeof(plane));
    return SG_OK;
}
