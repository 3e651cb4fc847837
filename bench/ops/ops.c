/* ops: what single ops cost on the cpu device: time, bytes and FLOPs per second, beside what memory and caches allow here.
 *
 *     build/release/bench_ops [threads] [part of a name]
 *
 * Shapes are those of ACT with 2 cameras of 480 x 640 and batch 2 unless said otherwise. Times are medians and, in
 * brackets, the shortest. With one thread they are processor time, which other programs disturb less. */
#include "kernels/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_TENSORS = 32, MOST_RUNS = 400 };

typedef struct bench {
    const sg_device_api *api;
    sg_device *device;
    const char *filter;
    clockid_t clock;
} bench;

static double clock_s(clockid_t clock) {
    struct timespec at;
    (void)clock_gettime(clock, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void die(const char *name, const sg_status *status) {
    (void)fprintf(stderr, "%s: %s\n", name, status->text);
    exit(EXIT_FAILURE);
}

/* Fills with small positive values, so that no op meets NaNs or subnormals; integers and bools with 0. */
static void fill(const sg_desc *desc, void *memory, uint64_t bytes) {
    memset(memory, 0, bytes);
    if (desc->dtype != SG_F32) return;
    float *x = memory;
    for (uint64_t i = 0; i < bytes / sizeof *x; i++) x[i] = 0.25f + (float)(i * 2654435761u % 1024) / 1024.0f;
}

typedef struct timing {
    double median_s, least_s;
} timing;

static timing run_op(const bench *b, const char *name, sg_plan *plan, void *const *pointers, void *workspace) {
    static double times[MOST_RUNS];
    sg_status status = {0};
    sg_launch launch = {.seed = 1, .step = 1, .salt = 1};
    double begin = clock_s(CLOCK_MONOTONIC);
    int n = 0;
    for (; n < MOST_RUNS && (n < 7 || clock_s(CLOCK_MONOTONIC) - begin < 0.3); n++) {
        double t = clock_s(b->clock);
        if (b->api->launch(b->device, plan, SG_STREAM_COMPUTE, pointers, workspace, &launch, &status) != SG_OK)
            die(name, &status);
        times[n] = clock_s(b->clock) - t;
    }
    qsort(times, (size_t)n, sizeof *times, by_value);
    return (timing){times[n / 2], times[0]};
}

static void measure(const bench *b, const char *name, sg_op_kind kind, sg_attrs attrs, int n_in, int n_out,
                    const sg_desc *descs) {
    if (b->filter && !strstr(name, b->filter)) return;
    sg_op op = {.kind = (int32_t)kind, .n_in = n_in, .n_out = n_out, .attrs = attrs, .desc = descs};
    sg_status status = {0};
    sg_plan *plan = NULL;
    void *pointers[MOST_TENSORS], *workspace = NULL;
    if (b->api->prepare(b->device, &op, 1, &plan, &status) != SG_OK) die(name, &status);
    for (int i = 0; i < n_in + n_out; i++) {
        bool shared = i >= n_in && (attrs.flags & SG_IN_PLACE);
        if (kind == SG_OP_ADAMW && i >= n_in) {
            pointers[i] = pointers[i - n_in < attrs.count ? i - n_in : i - n_in + attrs.count];
        } else if (shared) {
            pointers[i] = pointers[i - n_in];
        } else {
            uint64_t bytes = sg_desc_span_bytes(&descs[i]);
            if (b->api->segment_alloc(b->device, bytes, &pointers[i], &status) != SG_OK) die(name, &status);
            fill(&descs[i], pointers[i], bytes);
        }
    }
    uint64_t workspace_bytes = b->api->plan_workspace_bytes(plan);
    if (workspace_bytes && b->api->segment_alloc(b->device, workspace_bytes, &workspace, &status) != SG_OK)
        die(name, &status);
    if (workspace) memset(workspace, 0, workspace_bytes);
    timing t = run_op(b, name, plan, pointers, workspace);
    sg_cost cost = sg_op_cost(&op);
    printf("%-52s %10.1f us [%10.1f] %7.1f GB/s %7.1f GF/s %6.1f MB\n", name, 1e6 * t.median_s, 1e6 * t.least_s,
           1e-9 * (cost.bytes_read + cost.bytes_written) / t.least_s, 1e-9 * cost.flops / t.least_s,
           1e-6 * (double)workspace_bytes);
    (void)fflush(stdout);
    for (int i = 0; i < n_in + n_out; i++) {
        bool shared = i >= n_in && (attrs.flags & SG_IN_PLACE || kind == SG_OP_ADAMW);
        if (!shared) b->api->segment_free(b->device, pointers[i], 0);
    }
    if (workspace) b->api->segment_free(b->device, workspace, workspace_bytes);
    b->api->plans_free(b->device, &plan, 1);
}

static sg_desc d1(int64_t n) {
    return sg_desc_make(SG_F32, 1, (int64_t[]){n});
}
static sg_desc d2(int64_t m, int64_t n) {
    return sg_desc_make(SG_F32, 2, (int64_t[]){m, n});
}
static sg_desc d3(int64_t a, int64_t b, int64_t c) {
    return sg_desc_make(SG_F32, 3, (int64_t[]){a, b, c});
}
static sg_desc typed(sg_desc d, sg_dtype dtype) {
    d.dtype = (int32_t)dtype;
    return d;
}
static sg_desc transposed(sg_desc d) {
    int a = d.ndim - 2, b = d.ndim - 1;
    int64_t size = d.size[a], stride = d.stride[a];
    d.size[a] = d.size[b];
    d.stride[a] = d.stride[b];
    d.size[b] = size;
    d.stride[b] = stride;
    return d;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void memory_ops(const bench *b) {
    for (int64_t n = 1 << 10; n <= 1 << 26; n <<= 4) {
        char name[64];
        (void)snprintf(name, sizeof name, "copy %lld", (long long)n);
        measure(b, name, SG_OP_COPY, (sg_attrs){0}, 1, 1, (sg_desc[]){d1(n), d1(n)});
        (void)snprintf(name, sizeof name, "relu %lld", (long long)n);
        measure(b, name, SG_OP_UNARY, (sg_attrs){.fn = SG_FN_RELU}, 1, 1, (sg_desc[]){d1(n), d1(n)});
        (void)snprintf(name, sizeof name, "add in place %lld", (long long)n);
        measure(b, name, SG_OP_BINARY, (sg_attrs){.fn = SG_FN_ADD, .alpha = 1, .flags = SG_IN_PLACE}, 2, 1,
                (sg_desc[]){d1(n), d1(n), d1(n)});
        (void)snprintf(name, sizeof name, "add %lld", (long long)n);
        measure(b, name, SG_OP_BINARY, (sg_attrs){.fn = SG_FN_ADD, .alpha = 1}, 2, 1, (sg_desc[]){d1(n), d1(n), d1(n)});
    }
}

static void elementwise_ops(const bench *b) {
    int64_t n = 1 << 22;
    static const sg_fn fns[] = {SG_FN_EXP, SG_FN_TANH, SG_FN_GELU_TANH, SG_FN_GELU_ERF, SG_FN_SILU,
                                SG_FN_ELU, SG_FN_SIN,  SG_FN_LOG,       SG_FN_SQRT,     SG_FN_AFFINE};
    for (size_t i = 0; i < sizeof fns / sizeof *fns; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s 4M", sg_fn_name(fns[i]));
        measure(b, name, SG_OP_UNARY, (sg_attrs){.fn = fns[i], .alpha = 1}, 1, 1, (sg_desc[]){d1(n), d1(n)});
        (void)snprintf(name, sizeof name, "%s bwd 4M", sg_fn_name(fns[i]));
        measure(b, name, SG_OP_UNARY_BWD, (sg_attrs){.fn = fns[i], .alpha = 1}, 2, 1, (sg_desc[]){d1(n), d1(n), d1(n)});
        sg_desc h = typed(d1(n), SG_BF16);
        (void)snprintf(name, sizeof name, "%s 4M bf16", sg_fn_name(fns[i]));
        measure(b, name, SG_OP_UNARY, (sg_attrs){.fn = fns[i], .alpha = 1}, 1, 1, (sg_desc[]){h, h});
    }
    sg_desc image = sg_desc_channels_last(SG_F32, 2, 64, 240, 320), scale = {.dtype = SG_F32, .ndim = 4};
    memcpy(scale.size, image.size, sizeof scale.size);
    scale.stride[1] = 1;
    measure(b, "mul [1,64,1,1] channels-last", SG_OP_BINARY, (sg_attrs){.fn = SG_FN_MUL, .flags = SG_IN_PLACE}, 2, 1,
            (sg_desc[]){image, scale, image});
    sg_desc plain = sg_desc_make(SG_F32, 4, image.size);
    measure(b, "mul [1,64,1,1] plain", SG_OP_BINARY, (sg_attrs){.fn = SG_FN_MUL, .flags = SG_IN_PLACE}, 2, 1,
            (sg_desc[]){plain, scale, plain});
    measure(b, "copy channels-last -> plain", SG_OP_COPY, (sg_attrs){0}, 1, 1, (sg_desc[]){image, plain});
    measure(b, "copy plain -> channels-last", SG_OP_COPY, (sg_attrs){0}, 1, 1, (sg_desc[]){plain, image});
    sg_desc camera = typed(sg_desc_make(SG_F32, 4, (int64_t[]){2, 3, 480, 640}), SG_U8);
    sg_desc camera_last = typed(sg_desc_channels_last(SG_F32, 2, 3, 480, 640), SG_U8);
    measure(b, "u8 -> f32 plain", SG_OP_UNARY, (sg_attrs){.fn = SG_FN_DIV_SCALAR, .alpha = 255}, 1, 1,
            (sg_desc[]){camera, typed(camera, SG_F32)});
    measure(b, "u8 plain -> f32 channels-last", SG_OP_UNARY, (sg_attrs){.fn = SG_FN_DIV_SCALAR, .alpha = 255}, 1, 1,
            (sg_desc[]){camera, typed(camera_last, SG_F32)});
    measure(b, "u8 channels-last -> f32 same", SG_OP_UNARY, (sg_attrs){.fn = SG_FN_DIV_SCALAR, .alpha = 255}, 1, 1,
            (sg_desc[]){camera_last, typed(camera_last, SG_F32)});
    sg_desc rows = d2(1204, 512), bias = rows;
    bias.stride[0] = 0;
    measure(b, "add bias [1204,512]", SG_OP_BINARY, (sg_attrs){.fn = SG_FN_ADD, .alpha = 1}, 2, 1,
            (sg_desc[]){rows, bias, rows});
    sg_desc heads = sg_desc_make(SG_F32, 4, (int64_t[]){2, 602, 8, 64});
    sg_desc swapped = heads;
    swapped.size[1] = 8, swapped.size[2] = 602, swapped.stride[1] = 64, swapped.stride[2] = 512;
    measure(b, "heads contiguous [2,8,602,64]", SG_OP_COPY, (sg_attrs){0}, 1, 1,
            (sg_desc[]){swapped, sg_desc_make(SG_F32, 4, swapped.size)});
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static void row_ops(const bench *b) {
    sg_desc scores = d3(16, 602, 602), rows = d2(1204, 512), vector = d1(512), mean = d1(1204);
    measure(b, "softmax [16,602,602]", SG_OP_SOFTMAX, (sg_attrs){0}, 1, 1, (sg_desc[]){scores, scores});
    measure(b, "softmax bwd [16,602,602]", SG_OP_SOFTMAX_BWD, (sg_attrs){0}, 2, 1, (sg_desc[]){scores, scores, scores});
    measure(b, "dropout [16,602,602]", SG_OP_DROPOUT, (sg_attrs){.alpha = 0.1}, 1, 2,
            (sg_desc[]){scores, scores, typed(scores, SG_BOOL)});
    measure(b, "dropout per sample [16,602,602]", SG_OP_DROPOUT,
            (sg_attrs){.alpha = 0.1, .flags = SG_PER_SAMPLE, .dim = 0, .sample_group = 8}, 1, 2,
            (sg_desc[]){scores, scores, typed(scores, SG_BOOL)});
    measure(b, "dropout bwd [16,602,602]", SG_OP_DROPOUT_BWD, (sg_attrs){.alpha = 0.1}, 2, 1,
            (sg_desc[]){scores, typed(scores, SG_BOOL), scores});
    measure(b, "normal 4M", SG_OP_RANDOM, (sg_attrs){.fn = SG_FN_NORMAL, .beta = 1}, 0, 1, (sg_desc[]){d1(1 << 22)});
    measure(b, "bernoulli 4M", SG_OP_RANDOM, (sg_attrs){.fn = SG_FN_BERNOULLI, .alpha = 0.9}, 0, 1,
            (sg_desc[]){d1(1 << 22)});
    measure(b, "layer norm [1204,512]", SG_OP_LAYER_NORM, (sg_attrs){.eps = 1e-5}, 3, 3,
            (sg_desc[]){rows, vector, vector, rows, mean, mean});
    measure(b, "layer norm bwd [1204,512]", SG_OP_LAYER_NORM_BWD, (sg_attrs){0}, 5, 3,
            (sg_desc[]){rows, rows, mean, mean, vector, rows, vector, vector});
    measure(b, "rms norm [1204,512]", SG_OP_RMS_NORM, (sg_attrs){.eps = 1e-5}, 2, 2,
            (sg_desc[]){rows, vector, rows, mean});
    sg_desc plain = sg_desc_make(SG_F32, 4, (int64_t[]){2, 64, 240, 320});
    sg_desc last = sg_desc_channels_last(SG_F32, 2, 64, 240, 320), channel = d1(64);
    measure(b, "batch norm [2,64,240,320]", SG_OP_CHANNEL_NORM, (sg_attrs){.eps = 1e-5}, 3, 3,
            (sg_desc[]){plain, channel, channel, plain, channel, channel});
    measure(b, "batch norm bwd [2,64,240,320]", SG_OP_CHANNEL_NORM_BWD, (sg_attrs){0}, 5, 3,
            (sg_desc[]){plain, plain, channel, channel, channel, plain, channel, channel});
    measure(b, "batch norm, channels last", SG_OP_CHANNEL_NORM, (sg_attrs){.eps = 1e-5}, 3, 3,
            (sg_desc[]){last, channel, channel, last, channel, channel});
    measure(b, "sum rows [1204,512] -> [1,512]", SG_OP_REDUCE, (sg_attrs){.fn = SG_FN_SUM, .dims_mask = 1}, 1, 1,
            (sg_desc[]){rows, d2(1, 512)});
    measure(b, "sum rows [1204,3200] -> [1,3200]", SG_OP_REDUCE, (sg_attrs){.fn = SG_FN_SUM, .dims_mask = 1}, 1, 1,
            (sg_desc[]){d2(1204, 3200), d2(1, 3200)});
    measure(b, "mean all 16M", SG_OP_REDUCE, (sg_attrs){.fn = SG_FN_MEAN, .dims_mask = 1}, 1, 1,
            (sg_desc[]){d1(1 << 24), d1(1)});
    measure(b, "norm all 16M", SG_OP_NORM_ALL, (sg_attrs){.count = 1}, 1, 1, (sg_desc[]){d1(1 << 24), d1(1)});
    sg_desc p = d1(51600000);
    measure(b, "adamw 51.6M", SG_OP_ADAMW,
            (sg_attrs){.lr = 1e-5, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 1e-4, .count = 1}, 4, 3,
            (sg_desc[]){p, p, p, p, p, p, p});
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

static void matmul_ops(const bench *b) {
    sg_attrs one = {.alpha = 1};
    measure(b, "linear [1204,512] x [512,512]^T", SG_OP_MATMUL, (sg_attrs){.alpha = 1, .flags = SG_HAS_BIAS}, 3, 1,
            (sg_desc[]){d2(1204, 512), transposed(d2(512, 512)), d1(512), d2(1204, 512)});
    measure(b, "linear [1204,512] x [3200,512]^T relu", SG_OP_MATMUL,
            (sg_attrs){.alpha = 1, .flags = SG_HAS_BIAS, .act = SG_FN_RELU}, 3, 1,
            (sg_desc[]){d2(1204, 512), transposed(d2(3200, 512)), d1(3200), d2(1204, 3200)});
    measure(b, "linear [1204,3200] x [512,3200]^T", SG_OP_MATMUL, (sg_attrs){.alpha = 1, .flags = SG_HAS_BIAS}, 3, 1,
            (sg_desc[]){d2(1204, 3200), transposed(d2(512, 3200)), d1(512), d2(1204, 512)});
    measure(b, "dx [1204,512] x [512,3200]", SG_OP_MATMUL, one, 2, 1,
            (sg_desc[]){d2(1204, 512), d2(512, 3200), d2(1204, 3200)});
    measure(b, "dx [1204,3200] x [3200,512]", SG_OP_MATMUL, one, 2, 1,
            (sg_desc[]){d2(1204, 3200), d2(3200, 512), d2(1204, 512)});
    measure(b, "dw [1204,512]^T x [1204,3200]", SG_OP_MATMUL, one, 2, 1,
            (sg_desc[]){transposed(d2(1204, 512)), d2(1204, 3200), d2(512, 3200)});
    measure(b, "dw [1204,3200]^T x [1204,512]", SG_OP_MATMUL, one, 2, 1,
            (sg_desc[]){transposed(d2(1204, 3200)), d2(1204, 512), d2(3200, 512)});
    measure(b, "scores [16,602,64] x [16,602,64]^T", SG_OP_MATMUL, one, 2, 1,
            (sg_desc[]){d3(16, 602, 64), transposed(d3(16, 602, 64)), d3(16, 602, 602)});
    measure(b, "values [16,602,602] x [16,602,64]", SG_OP_MATMUL, one, 2, 1,
            (sg_desc[]){d3(16, 602, 602), d3(16, 602, 64), d3(16, 602, 64)});
    measure(b, "d scores [16,602,602]^T x [16,602,64]", SG_OP_MATMUL, one, 2, 1,
            (sg_desc[]){transposed(d3(16, 602, 602)), d3(16, 602, 64), d3(16, 602, 64)});
    sg_desc heads = d3(16, 602, 64); /* [t, b h, d] seen as [b h, t, d] */
    heads.stride[0] = 64, heads.stride[1] = 16 * 64;
    measure(b, "scores, heads interleaved", SG_OP_MATMUL, one, 2, 1,
            (sg_desc[]){heads, transposed(heads), d3(16, 602, 602)});
    measure(b, "values, heads interleaved", SG_OP_MATMUL, one, 2, 1, (sg_desc[]){d3(16, 602, 602), heads, heads});
    measure(b, "small [16,64] x [64,64]", SG_OP_MATMUL, one, 2, 1, (sg_desc[]){d2(16, 64), d2(64, 64), d2(16, 64)});
    sg_desc q = sg_desc_make(SG_F32, 4, (int64_t[]){2, 8, 602, 64}), lse = d3(2, 8, 602);
    measure(b, "attention [2,8,602,64]", SG_OP_ATTENTION, (sg_attrs){.alpha = 0.125}, 3, 2,
            (sg_desc[]){q, q, q, q, lse});
    measure(b, "attention bwd [2,8,602,64]", SG_OP_ATTENTION_BWD, (sg_attrs){.alpha = 0.125}, 6, 3,
            (sg_desc[]){q, q, q, q, q, lse, q, q, q});
}

static void conv_layer(const bench *b, bool last, int64_t n, int64_t c, int64_t h, int64_t w, int64_t o, int k, int s) {
    int p = k / 2;
    int64_t oh = (h + 2 * p - k) / s + 1, ow = (w + 2 * p - k) / s + 1;
    sg_desc x = sg_desc_channels_last(SG_F32, n, c, h, w), y = sg_desc_channels_last(SG_F32, n, o, oh, ow);
    sg_desc weights = sg_desc_channels_last(SG_F32, o, c, k, k);
    if (!last) {
        x = sg_desc_make(SG_F32, 4, x.size);
        y = sg_desc_make(SG_F32, 4, y.size);
        weights = sg_desc_make(SG_F32, 4, weights.size);
    }
    sg_attrs a = {.kernel = {k, k}, .stride = {s, s}, .pad = {p, p}};
    char name[96];
    const char *layout = last ? "nhwc" : "nchw";
    (void)snprintf(name, sizeof name, "conv %s %lldx%lldx%lldx%lld o%lld k%d s%d", layout, (long long)n, (long long)c,
                   (long long)h, (long long)w, (long long)o, k, s);
    measure(b, name, SG_OP_CONV, a, 2, 1, (sg_desc[]){x, weights, y});
    char text[112];
    (void)snprintf(text, sizeof text, "%s relu", name);
    sg_attrs relu = a;
    relu.act = SG_FN_RELU;
    relu.flags = SG_HAS_BIAS;
    measure(b, text, SG_OP_CONV, relu, 3, 1, (sg_desc[]){x, weights, d1(o), y});
    (void)snprintf(text, sizeof text, "%s residual", name);
    relu.flags |= SG_HAS_RESIDUAL;
    measure(b, text, SG_OP_CONV, relu, 4, 1, (sg_desc[]){x, weights, d1(o), y, y});
    (void)snprintf(text, sizeof text, "%s bwd data", name);
    if (c > 3) measure(b, text, SG_OP_CONV_BWD_DATA, a, 2, 1, (sg_desc[]){y, weights, x});
    (void)snprintf(text, sizeof text, "%s bwd weights", name);
    measure(b, text, SG_OP_CONV_BWD_WEIGHTS, a, 2, 1, (sg_desc[]){y, x, weights});
}

static void conv_ops(const bench *b) {
    for (int last = 1; last >= 0; last--) {
        conv_layer(b, last, 2, 3, 480, 640, 64, 7, 2);
        conv_layer(b, last, 2, 64, 120, 160, 64, 3, 1);
        conv_layer(b, last, 2, 64, 120, 160, 128, 3, 2);
        conv_layer(b, last, 2, 64, 120, 160, 128, 1, 2);
        conv_layer(b, last, 2, 128, 60, 80, 128, 3, 1);
        conv_layer(b, last, 2, 128, 60, 80, 256, 3, 2);
        conv_layer(b, last, 2, 256, 30, 40, 256, 3, 1);
        conv_layer(b, last, 2, 256, 30, 40, 512, 3, 2);
        conv_layer(b, last, 2, 512, 15, 20, 512, 3, 1);
        conv_layer(b, last, 2, 512, 15, 20, 512, 1, 1);
    }
}

static void pool_ops(const bench *b) {
    sg_attrs a = {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}};
    for (int last = 1; last >= 0; last--) {
        sg_desc x = sg_desc_channels_last(SG_F32, 2, 64, 240, 320), y = sg_desc_channels_last(SG_F32, 2, 64, 120, 160);
        if (!last) x = sg_desc_make(SG_F32, 4, x.size), y = sg_desc_make(SG_F32, 4, y.size);
        for (int wide = 0; wide < 2; wide++) {
            char name[64];
            sg_desc index = typed(y, wide ? SG_I64 : SG_U8);
            (void)snprintf(name, sizeof name, "pool %s %s", last ? "nhwc" : "nchw", wide ? "i64" : "u8");
            measure(b, name, SG_OP_MAXPOOL, a, 1, 2, (sg_desc[]){x, y, index});
            (void)snprintf(name, sizeof name, "pool bwd %s %s", last ? "nhwc" : "nchw", wide ? "i64" : "u8");
            measure(b, name, SG_OP_MAXPOOL_BWD, a, 2, 1, (sg_desc[]){y, index, x});
        }
    }
    measure(b, "resize 480x640 -> 384x512", SG_OP_RESIZE, (sg_attrs){0}, 1, 1,
            (sg_desc[]){sg_desc_make(SG_F32, 4, (int64_t[]){2, 3, 480, 640}),
                        sg_desc_make(SG_F32, 4, (int64_t[]){2, 3, 384, 512})});
}

int main(int argc, char **argv) {
    sg_status status = {0};
    sg_device_info info;
    bench b = {.filter = argc > 2 ? argv[2] : NULL};
    if (sg_module_device("cpu", &b.api, &status) != SG_OK) die("cpu", &status);
    sg_device_options options = {.threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0};
    if (b.api->open(&options, &b.device, &status) != SG_OK) die("cpu", &status);
    if (b.api->info(b.device, &info, &status) != SG_OK) die("cpu", &status);
    printf("%s, %s, %d threads\n", info.name, info.library, info.units);
    b.clock = info.units == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    memory_ops(&b);
    elementwise_ops(&b);
    row_ops(&b);
    matmul_ops(&b);
    conv_ops(&b);
    pool_ops(&b);
    b.api->close(b.device);
    return EXIT_SUCCESS;
}
