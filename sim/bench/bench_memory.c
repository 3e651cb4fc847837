/* bench_memory.c: ops that only move memory, against the device's own copy. */
#include "sim/bench/bench_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const int64_t default_sizes[] = {1 << 20, 8 << 20, 64 << 20, 256 << 20};
enum { MOST_CALLS = 256, WIDTH = 1024, MOST_IN = 4 };

static const double LR = 1e-3, BETA1 = 0.9, BETA2 = 0.999, ADAM_EPS = 1e-8, DECAY = 0.01, NORM_EPS = 1e-5;
/* Inputs lie in [LOW, HIGH): no op meets NaNs, zeros or subnormals. */
static const double LOW = 0.25, HIGH = 1.25;

typedef enum memory_kind { DEVICE_COPY, COPY, ADD, RELU, LAYER_NORM, SOFTMAX, ADAMW, REDUCE, CAST, KINDS } memory_kind;

const char *const sg_bench_memory_names[] = {"device_copy", "copy",  "add",    "relu", "layer_norm",
                                             "softmax",     "adamw", "reduce", "cast"};
const size_t sg_bench_memory_count = KINDS;

typedef struct memory_op {
    memory_kind kind;
    sg_op_kind op;
    sg_attrs attrs;
    int n_in, n_out;
    sg_desc desc[SG_BENCH_TENSORS];
    int alias[SG_BENCH_TENSORS];
} memory_op;

/* ---- the ops ----------------------------------------------------------------------------------------------------- */

static void set_op(memory_op *m, sg_op_kind op, sg_fn fn, int n_in, int n_out) {
    m->op = op;
    m->attrs.fn = (int32_t)fn;
    m->n_in = n_in;
    m->n_out = n_out;
}

/* One tensor: rows x width elements of fp32. */
static memory_op describe(memory_kind kind, int64_t rows, int64_t width) {
    memory_op m = {.kind = kind};
    const sg_desc whole = sg_desc_make(SG_F32, 2, (int64_t[]){rows, width});
    const sg_desc row = sg_desc_make(SG_F32, 1, &width), column = sg_desc_make(SG_F32, 1, &rows);
    for (int i = 0; i < SG_BENCH_TENSORS; i++) {
        m.desc[i] = whole;
        m.alias[i] = -1;
    }
    switch (kind) {
    case ADD: set_op(&m, SG_OP_BINARY, SG_FN_ADD, 2, 1), m.attrs.alpha = 1; break;
    case RELU: set_op(&m, SG_OP_UNARY, SG_FN_RELU, 1, 1); break;
    case SOFTMAX: set_op(&m, SG_OP_SOFTMAX, SG_FN_NONE, 1, 1); break;
    case LAYER_NORM:
        set_op(&m, SG_OP_LAYER_NORM, SG_FN_NONE, 3, 3);
        m.attrs.eps = NORM_EPS;
        m.desc[1] = m.desc[2] = row;
        m.desc[4] = m.desc[5] = column;
        break;
    case REDUCE:
        set_op(&m, SG_OP_REDUCE, SG_FN_SUM, 1, 1);
        m.attrs.dims_mask = 1u << 1;
        m.desc[1] = sg_desc_make(SG_F32, 2, (int64_t[]){rows, 1});
        break;
    case CAST:
        set_op(&m, SG_OP_COPY, SG_FN_NONE, 1, 1);
        m.desc[1] = sg_desc_make(SG_BF16, 2, (int64_t[]){rows, width});
        break;
    case ADAMW:
        set_op(&m, SG_OP_ADAMW, SG_FN_NONE, 4, 3);
        m.attrs.count = 1;
        m.attrs.lr = LR;
        m.attrs.beta1 = BETA1;
        m.attrs.beta2 = BETA2;
        m.attrs.eps = ADAM_EPS;
        m.attrs.weight_decay = DECAY;
        m.alias[0] = 0, m.alias[1] = 2, m.alias[2] = 3;
        break;
    default: set_op(&m, SG_OP_COPY, SG_FN_NONE, 1, 1); break;
    }
    return m;
}

/* ---- what must come out ------------------------------------------------------------------------------------------ */

typedef struct row {
    double in[MOST_IN][WIDTH], out[WIDTH];
    int64_t n;
} row;

static const double EPS = 0x1p-23;

static void check_softmax(const row *r, double *error) {
    double sum = 0;
    for (int64_t i = 0; i < r->n; i++) sum += exp(r->in[0][i]);
    for (int64_t i = 0; i < r->n; i++) {
        double expected = exp(r->in[0][i]) / sum;
        sg_bench_compare(r->out[i], expected, 64 * EPS * expected, error);
    }
}

static void check_layer_norm(const row *r, double *error) {
    double mean = 0, square = 0;
    for (int64_t i = 0; i < r->n; i++) mean += r->in[0][i] / (double)r->n;
    for (int64_t i = 0; i < r->n; i++) square += (r->in[0][i] - mean) * (r->in[0][i] - mean) / (double)r->n;
    double scale = 1 / sqrt(square + NORM_EPS);
    for (int64_t i = 0; i < r->n; i++) {
        double y = r->in[1][i] * (r->in[0][i] - mean) * scale + r->in[2][i];
        sg_bench_compare(r->out[i], y, 64 * EPS * (fabs(y) + scale), error); /* x - mean loses what they share */
    }
}

/* Loshchilov and Hutter (2019), as PyTorch's AdamW computes the first step from given moments. */
static double adamw(const row *r, int64_t i) {
    double p = r->in[0][i] * (1 - LR * DECAY), g = r->in[1][i];
    double m = BETA1 * r->in[2][i] + (1 - BETA1) * g, v = BETA2 * r->in[3][i] + (1 - BETA2) * g * g;
    return p - LR / (1 - BETA1) * m / (sqrt(v) / sqrt(1 - BETA2) + ADAM_EPS);
}

static void check_row(memory_kind kind, const row *r, double *error) {
    if (kind == SOFTMAX) check_softmax(r, error);
    if (kind == LAYER_NORM) check_layer_norm(r, error);
    if (kind == REDUCE) {
        double sum = 0;
        for (int64_t i = 0; i < r->n; i++) sum += r->in[0][i];
        sg_bench_compare(r->out[0], sum, 4 * sqrt((double)r->n) * EPS * sum, error); /* as for products */
    }
    for (int64_t i = 0; i < r->n; i++) {
        double x = r->in[0][i];
        if (kind == COPY || kind == DEVICE_COPY || kind == RELU) sg_bench_compare(r->out[i], x, 0, error);
        if (kind == ADD) sg_bench_compare(r->out[i], x + r->in[1][i], EPS * (x + r->in[1][i]), error);
        if (kind == CAST) sg_bench_compare(r->out[i], x, 0x1p-8 * x, error);
        if (kind == ADAMW) sg_bench_compare(r->out[i], adamw(r, i), 16 * EPS, error); /* values near 1 */
    }
}

/* The first and the last row of the first output, after one run. */
static sg_code check(sg_bench_op *o, memory_kind kind, int64_t rows, int64_t width, double *error, sg_status *status) {
    row r = {.n = width};
    *error = 0;
    sg_code code = SG_OK;
    for (int64_t end = 0; !code && end < (rows > 1 ? 2 : 1); end++) {
        int64_t at = end * (rows - 1);
        for (int t = 0; t < o->op.n_in; t++) {
            int64_t first = o->desc[t].ndim == 1 ? 0 : at * width; /* a norm's weights serve every row */
            for (int64_t i = 0; i < width; i++) r.in[t][i] = sg_bench_element(t, first + i, SG_F32, LOW, HIGH);
        }
        bool one = kind == REDUCE;
        code = sg_bench_op_read(o, o->op.n_in, one ? at : at * width, one ? 1 : width, r.out, status);
        if (!code) check_row(kind, &r, error);
    }
    return code ? code : sg_bench_judge(sg_bench_memory_names[kind], *error, status);
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

static sg_code device_copy(sg_bench_op *o, sg_status *status) {
    const sg_bench *b = o->bench;
    return b->api->copy(b->device, o->pointer[1], o->pointer[0], o->bytes[0], SG_COPY_ON_DEVICE, SG_STREAM_COMPUTE,
                        status);
}

static sg_code device_copy_timed(void *user, int64_t calls, double *seconds, sg_status *status) {
    sg_bench_op *o = user;
    const sg_bench *b = o->bench;
    double begin = 0, end = 0;
    sg_code code = b->api->event_record(b->device, b->edge[0], SG_STREAM_COMPUTE, status);
    for (int64_t i = 0; !code && i < calls; i++) code = device_copy(o, status);
    if (!code) code = b->api->event_record(b->device, b->edge[1], SG_STREAM_COMPUTE, status);
    if (!code) code = b->api->stream_wait(b->device, SG_STREAM_COMPUTE, status);
    if (!code) code = b->api->event_seconds(b->device, b->edge[0], &begin, status);
    if (!code) code = b->api->event_seconds(b->device, b->edge[1], &end, status);
    *seconds = (end - begin) / (double)calls;
    return code;
}

static sg_code run_kind(sg_bench *b, const memory_op *m, int64_t rows, int64_t width, sg_status *status) {
    static const sg_bench_precision single = {"fp32", SG_F32, SG_COMPUTE_F32};
    sg_bench_op o;
    sg_bench_samples samples;
    double error = 0;
    sg_code code = sg_bench_op_open(b, m->op, &m->attrs, m->n_in, m->n_out, m->desc, m->alias, &o, status);
    for (int t = 0; !code && t < m->n_in; t++) code = sg_bench_op_fill(&o, t, LOW, HIGH, status);
    bool plain = m->kind == DEVICE_COPY;
    if (!code) code = plain ? device_copy(&o, status) : sg_bench_op_launch(&o, status);
    if (!code) code = check(&o, m->kind, rows, width, &error, status);
    if (!code)
        code = sg_bench_repeat(b, plain ? device_copy_timed : sg_bench_op_timed, &o, MOST_CALLS, &samples, status);
    if (!code) {
        sg_micro micro = sg_bench_micro(b, "memory", sg_bench_memory_names[m->kind], &single);
        micro.config.bytes = rows * width * 4;
        micro.flops = plain ? NAN : o.cost.flops;
        micro.bytes_moved = o.cost.bytes_read + o.cost.bytes_written;
        micro.checked = true;
        micro.error = error;
        code = sg_bench_keep(b, &micro, &samples, status);
    }
    sg_bench_op_close(&o);
    return code;
}

static sg_code one(sg_bench *b, memory_kind kind, int64_t bytes, sg_status *status) {
    int64_t elements = bytes / 4, width = elements < WIDTH ? elements : WIDTH, rows = elements / width;
    char name[64];
    (void)snprintf(name, sizeof name, "memory %s %lld bytes", sg_bench_memory_names[kind], (long long)bytes);
    sg_bench_tell(b, name);
    bool omitted;
    sg_code over = sg_bench_time_is_over(b, name, 1, &omitted, status);
    if (over || omitted) return over;
    memory_op m = describe(kind, rows, width);
    sg_status reason = {0};
    sg_code code = run_kind(b, &m, rows, width, &reason);
    if (code == SG_NO) return sg_bench_omit(b, name, reason.text, true, status);
    return code ? sg_fail(status, code, "%s: %s", name, reason.text) : SG_OK;
}

sg_code sg_bench_memory(sg_bench *b, sg_status *status) {
    const sg_bench_options *o = &b->options;
    const int64_t *sizes = o->n_sizes ? o->sizes : default_sizes;
    size_t n_sizes = o->n_sizes ? o->n_sizes : sizeof default_sizes / sizeof *default_sizes;
    for (size_t s = 0; s < n_sizes; s++)
        if (sizes[s] < 4 || sizes[s] > INT64_C(1) << 50)
            return sg_fail(status, SG_BAD_INPUT, "tensors of %lld bytes: give at least 4, one element",
                           (long long)sizes[s]);
    b->planned = n_sizes * KINDS;
    sg_code code = SG_OK;
    for (size_t s = 0; !code && s < n_sizes; s++)
        for (int k = 0; !code && k < KINDS && !sg_bench_stopped(b); k++)
            code = one(b, (memory_kind)k, sizes[s], status);
    return code;
}
