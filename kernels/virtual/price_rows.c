/* price_rows.c: bandwidth-bound ops: bytes at a share of the bandwidth, and what rows of norms and softmax add.
 *
 * time = rows x row time + nominal bytes x traffic / (efficiency x bandwidth) + a fixed time per kernel. Layer norm and
 * softmax read a row twice; the second read misses the cache once the rows in flight no longer fit: a smooth step in the
 * columns. The softmax keeps rows of up to 1,024 columns in registers; above, a block loops over the row, as well as its
 * threads divide it. Fitted to float32 kernels of seven GPUs (tables of the NeuSight artefact, PyTorch 2.1;
 * docs/bandwidth-bound.md); thresholds scale with the size of an element. */
#include "kernels/virtual/price.h"

#include <math.h>

/* A factor with its derivatives by log parameter, as shares (d log factor). */
typedef struct multiple {
    double value;
    struct {
        sg_machine_id id;
        double share;
    } by[8];
    int n;
} multiple;

static double value_of(const sg_machine *m, sg_machine_id id) {
    return m->p[id].value;
}

static bool has(const sg_machine *m, sg_machine_id id) {
    return isfinite(value_of(m, id));
}

static void by(multiple *x, sg_machine_id id, double share) {
    x->by[x->n].id = id;
    x->by[x->n++].share = share;
}

/* x p[id]^power where the machine states it */
static void times(multiple *x, const sg_machine *m, sg_machine_id id, double power) {
    if (!has(m, id)) return;
    x->value *= power == 1 ? value_of(m, id) : pow(value_of(m, id), power);
    by(x, id, power);
}

/* x (1 + p[id] weight) */
static void grows(multiple *x, const sg_machine *m, sg_machine_id id, double weight) {
    if (!has(m, id) || !(weight > 0)) return;
    double more = value_of(m, id) * weight;
    x->value *= 1 + more;
    by(x, id, more / (1 + more));
}

/* Columns of the rows that the cache holds when each SM has 16 of them in flight, 4 bytes an element: cache / (64 SMs). */
static double cached_columns(const sg_machine *m) {
    return m->l2_bytes > 0 && m->units > 0 ? m->l2_bytes / (64.0 * m->units) : 0;
}

/* x (1 + reread s), s = 1 / (1 + (columns / limit)^-steep): the share of second reads that miss. */
static void second_read(multiple *x, const sg_machine *m, double columns, sg_machine_id reread, sg_machine_id at,
                        sg_machine_id steep) {
    double cached = cached_columns(m);
    if (!(cached > 0) || !has(m, reread) || !has(m, at) || !has(m, steep)) return;
    double w = value_of(m, steep), distance = log(columns / (value_of(m, at) * cached));
    double s = 1 / (1 + exp(-w * distance)), more = value_of(m, reread) * s;
    x->value *= 1 + more;
    by(x, reread, more / (1 + more));
    by(x, at, -more / (1 + more) * (1 - s) * w);
    by(x, steep, more / (1 + more) * (1 - s) * w * distance);
}

static double power_of_two_from(double least) {
    double v = 32; /* a warp */
    while (v < least) v *= 2;
    return v;
}

/* Share of a block's threads that have work while it loops over a row in pieces of 4 columns each: threads = the smallest
 * power of two that is half of the pieces or more, 32 to 512. */
static double block_use(double columns) {
    double threads = power_of_two_from(fmin(floor(columns / 4), 1024) / 2), wide = 4 * threads;
    return columns / (wide * ceil(columns / wide));
}

/* Up to this many columns a warp holds the row of a softmax in registers (PyTorch's persistent kernel). */
static const double REGISTER_COLUMNS = 1024;

/* Rows of an op over the last dimension, in columns of 4 bytes. */
typedef struct rows {
    double n, columns;   /* columns as counted */
    double wide_columns; /* columns of 4 bytes that hold the same bytes */
    bool aligned;        /* a row is a multiple of 16 bytes */
} rows;

static rows rows_of(const sg_desc *desc) {
    rows r = {.n = 1, .columns = 1, .wide_columns = 1, .aligned = true};
    double count = (double)sg_desc_count(desc);
    if (desc->ndim == 0 || count <= 0) return r;
    int64_t columns = desc->size[desc->ndim - 1], bytes = columns * (int64_t)sg_dtype_bytes((sg_dtype)desc->dtype);
    r.columns = (double)columns;
    r.n = count / r.columns;
    r.wide_columns = (double)bytes / 4;
    r.aligned = bytes % 16 == 0;
    return r;
}

static multiple layer_norm(const sg_machine *m, const rows *r) {
    multiple x = {.value = 1};
    times(&x, m, SG_M_LAYER_NORM_TRAFFIC, 1);
    second_read(&x, m, r->wide_columns, SG_M_LAYER_NORM_REREAD, SG_M_LAYER_NORM_COLUMNS, SG_M_LAYER_NORM_STEEP);
    return x;
}

static multiple softmax(const sg_machine *m, const rows *r) {
    multiple x = {.value = 1};
    times(&x, m, SG_M_SOFTMAX_TRAFFIC, 1);
    second_read(&x, m, r->wide_columns, SG_M_SOFTMAX_REREAD, SG_M_SOFTMAX_COLUMNS, SG_M_SOFTMAX_STEEP);
    if (!r->aligned) grows(&x, m, SG_M_SOFTMAX_UNALIGNED, 1);
    if (r->columns <= REGISTER_COLUMNS || !has(m, SG_M_SOFTMAX_LOOP) || !has(m, SG_M_SOFTMAX_BLOCK)) return x;
    times(&x, m, SG_M_SOFTMAX_LOOP, 1);
    double use = block_use(r->columns), exponent = value_of(m, SG_M_SOFTMAX_BLOCK);
    x.value *= pow(use, -exponent);
    by(&x, SG_M_SOFTMAX_BLOCK, -exponent * log(use));
    return x;
}

/* The traffic measured for a backward is that of both its kernels; dx or dw and db alone take half of it. */
static multiple norm_backward(const sg_machine *m, const sg_op *op) {
    multiple x = {.value = 1};
    times(&x, m, SG_M_LAYER_NORM_BACKWARD, 1);
    if (has(m, SG_M_LAYER_NORM_BACKWARD) && op->attrs.flags & (SG_NO_DX | SG_NO_DW)) x.value *= 0.5;
    return x;
}

static int tensors_read(const sg_op *op) {
    int n = 0;
    double most = (double)sg_desc_count(&op->desc[op->n_in]);
    for (int i = 0; i < op->n_in; i++) {
        bool whole = true;
        for (int d = 0; d < op->desc[i].ndim; d++)
            whole = whole && (op->desc[i].stride[d] != 0 || op->desc[i].size[d] == 1);
        n += whole && (double)sg_desc_count(&op->desc[i]) >= most;
    }
    return n;
}

/* How far an op lies within half of the last-level cache: 1 well inside, 0 beyond. */
static double within_cache(const sg_machine *m, double bytes) {
    if (!(m->l2_bytes > 0)) return 0;
    double ratio = bytes / (m->l2_bytes / 2);
    return 1 / (1 + pow(ratio, 4));
}

static multiple elementwise(const sg_machine *m, const sg_op *op, double bytes) {
    multiple x = {.value = 1};
    if (tensors_read(op) >= 2) times(&x, m, SG_M_ELEMENTWISE_TWO, -1);
    if (op->kind == SG_OP_UNARY && op->attrs.fn == SG_FN_POW && op->attrs.alpha != 2)
        times(&x, m, SG_M_POWER_TRAFFIC, 1);
    times(&x, m, SG_M_CACHE_GAIN, -within_cache(m, bytes));
    return x;
}

static multiple traffic_of(const sg_machine *m, const sg_op *op, double bytes, sg_machine_id *row_s, double *n_rows) {
    rows r = rows_of(&op->desc[0]);
    *row_s = SG_M_COUNT;
    *n_rows = r.n;
    switch ((sg_op_kind)op->kind) {
    case SG_OP_LAYER_NORM:
    case SG_OP_RMS_NORM: return *row_s = SG_M_LAYER_NORM_ROW_S, layer_norm(m, &r);
    case SG_OP_SOFTMAX: return *row_s = SG_M_SOFTMAX_ROW_S, softmax(m, &r);
    case SG_OP_LAYER_NORM_BWD:
    case SG_OP_RMS_NORM_BWD: return norm_backward(m, op);
    case SG_OP_SOFTMAX_BWD: {
        multiple x = {.value = 1};
        times(&x, m, SG_M_SOFTMAX_BACKWARD, 1);
        /* dy and y are read once where registers hold a row, twice where a block loops over it: 12 bytes of 20 */
        if (has(m, SG_M_SOFTMAX_BACKWARD) && r.columns <= REGISTER_COLUMNS) x.value *= 12.0 / 20;
        return x;
    }
    default:
        if (sg_op_class_of(op) == SG_CLASS_ELEMENTWISE) return elementwise(m, op, bytes);
        return (multiple){.value = 1};
    }
}

static sg_machine_id event_of(sg_op_class cls) {
    switch (cls) {
    case SG_CLASS_ELEMENTWISE: return SG_M_EVENT_ELEMENTWISE_S;
    case SG_CLASS_NORM: return SG_M_EVENT_NORM_S;
    case SG_CLASS_SOFTMAX: return SG_M_EVENT_SOFTMAX_S;
    default: return SG_M_COUNT;
    }
}

sg_code sg_price_rows(const sg_machine *machine, const sg_op *op, const sg_cost *cost, bool alone, sg_priced *price,
                      sg_status *status) {
    sg_op_class cls = sg_op_class_of(op);
    sg_machine_id start = alone ? event_of(cls) : SG_M_KERNEL_FLOOR_S, row_s;
    if (start >= SG_M_COUNT)
        return sg_fail(status, SG_NO, "pricing %s alone: no kernel table has this class of ops",
                       sg_op_kind_name((sg_op_kind)op->kind));
    sg_code code = sg_price_need(machine, op, start, status);
    if (code) return code;
    double bytes = cost->bytes_read + cost->bytes_written, n_rows;
    if (cls == SG_CLASS_ELEMENTWISE || cls == SG_CLASS_COPY) bytes += sg_strided_bytes(machine, op);
    multiple traffic = traffic_of(machine, op, bytes, &row_s, &n_rows);
    sg_priced t = sg_priced_rate(machine, bytes * traffic.value, sg_machine_eff_of(cls), SG_M_BANDWIDTH);
    for (int i = 0; i < traffic.n; i++) t.by_log[traffic.by[i].id] += t.seconds * traffic.by[i].share;
    if (row_s < SG_M_COUNT && has(machine, row_s)) {
        double rows_s = n_rows * value_of(machine, row_s);
        t.seconds += rows_s;
        t.by_log[row_s] += rows_s;
    }
    double fixed_s = (alone ? 1 : (double)cost->launches) * value_of(machine, start);
    t.seconds += fixed_s;
    t.by_log[start] += fixed_s;
    *price = t;
    return SG_OK;
}
