/* products.c: matrix products, convolutions and attention. */
#include "tests/reference/kinds.h"

#include <math.h>
#include <stdlib.h>

static double activated(const sg_attrs *attrs, double x) {
    return attrs->act == SG_FN_NONE ? x : ref_unary_value((sg_fn)attrs->act, x, 1, 0);
}

sg_code ref_MATMUL(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    const sg_desc *a = ref_in(call, 0), *c = ref_out(call, 0);
    int64_t m = c->size[c->ndim - 2], n = c->size[c->ndim - 1], k = a->size[a->ndim - 1];
    int64_t batches = ref_extent(c, 0, c->ndim - 2);
    int next = 2;
    const double *bias = ref_flag(call, SG_HAS_BIAS) ? call->in[next++] : NULL;
    const double *residual = ref_flag(call, SG_HAS_RESIDUAL) ? call->in[next] : NULL;
    for (int64_t s = 0; s < batches; s++) {
        const double *as = call->in[0] + s * m * k, *bs = call->in[1] + s * k * n;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                int64_t at = (s * m + i) * n + j;
                double sum = 0;
                for (int64_t l = 0; l < k; l++) sum += as[i * k + l] * bs[l * n + j];
                sum *= attrs->alpha;
                if (bias) sum += bias[j];
                if (residual) sum += residual[at];
                call->out[0][at] = activated(attrs, sum);
            }
    }
    return SG_OK;
}

/* Visits every product of a convolution: y[n,o,i,j] pairs with x[n,c,i*stride+r-pad,j*stride+s-pad] through w[o,c,r,s]. */
typedef struct conv_pair {
    int64_t x, w, y, o;
} conv_pair;

typedef void (*conv_visit)(const ref_call *call, const conv_pair *pair);

static void conv_pairs(const ref_call *call, const sg_desc *x, const sg_desc *w, const sg_desc *y, conv_visit visit) {
    const sg_attrs *attrs = &call->op->attrs;
    int64_t channels = x->size[1], height = x->size[2], width = x->size[3];
    int64_t outputs = y->size[1], rows = y->size[2], columns = y->size[3];
    int64_t kernel_rows = w->size[2], kernel_columns = w->size[3];
    for (int64_t n = 0; n < y->size[0]; n++)
        for (int64_t o = 0; o < outputs; o++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < columns; j++)
                    for (int64_t c = 0; c < channels; c++)
                        for (int64_t r = 0; r < kernel_rows; r++)
                            for (int64_t s = 0; s < kernel_columns; s++) {
                                int64_t h = i * attrs->stride[0] + r - attrs->pad[0];
                                int64_t v = j * attrs->stride[1] + s - attrs->pad[1];
                                if (h < 0 || h >= height || v < 0 || v >= width) continue;
                                conv_pair pair = {((n * channels + c) * height + h) * width + v,
                                                  ((o * channels + c) * kernel_rows + r) * kernel_columns + s,
                                                  ((n * outputs + o) * rows + i) * columns + j, o};
                                visit(call, &pair);
                            }
}

static void conv_forward(const ref_call *call, const conv_pair *p) {
    call->out[0][p->y] += call->in[0][p->x] * call->in[1][p->w];
}

static void conv_to_data(const ref_call *call, const conv_pair *p) {
    call->out[0][p->x] += call->in[0][p->y] * call->in[1][p->w];
}

static void conv_to_weights(const ref_call *call, const conv_pair *p) {
    call->out[0][p->w] += call->in[0][p->y] * call->in[1][p->x];
}

sg_code ref_CONV(const ref_call *call) {
    const sg_desc *y = ref_out(call, 0);
    int64_t outputs = y->size[1], plane = y->size[2] * y->size[3], count = sg_desc_count(y);
    int next = 2;
    const double *bias = ref_flag(call, SG_HAS_BIAS) ? call->in[next++] : NULL;
    const double *residual = ref_flag(call, SG_HAS_RESIDUAL) ? call->in[next] : NULL;
    conv_pairs(call, ref_in(call, 0), ref_in(call, 1), y, conv_forward);
    for (int64_t i = 0; i < count; i++) {
        double sum = call->out[0][i];
        if (bias) sum += bias[i / plane % outputs];
        if (residual) sum += residual[i];
        call->out[0][i] = activated(&call->op->attrs, sum);
    }
    return SG_OK;
}

sg_code ref_CONV_BWD_DATA(const ref_call *call) {
    conv_pairs(call, ref_out(call, 0), ref_in(call, 1), ref_in(call, 0), conv_to_data);
    return SG_OK;
}

sg_code ref_CONV_BWD_WEIGHTS(const ref_call *call) {
    const sg_desc *y = ref_in(call, 0);
    conv_pairs(call, ref_in(call, 1), ref_out(call, 0), y, conv_to_weights);
    if (!ref_flag(call, SG_HAS_BIAS)) return SG_OK;
    int64_t outputs = y->size[1], plane = y->size[2] * y->size[3], count = sg_desc_count(y);
    for (int64_t i = 0; i < count; i++) call->out[1][i / plane % outputs] += call->in[0][i];
    return SG_OK;
}

/* Scores alpha q k^T + mask of one query; false where a boolean mask leaves a key out. */
typedef struct attention {
    int64_t heads, queries, keys, width;
    const double *q, *k, *v, *mask;
    const sg_desc *mask_desc;
    double alpha;
} attention;

static attention attention_of(const ref_call *call, int q, int mask) {
    const sg_desc *d = ref_in(call, q), *dk = ref_in(call, q + 1);
    bool masked = ref_flag(call, SG_HAS_MASK);
    attention a = {.heads = d->size[0] * d->size[1],
                   .queries = d->size[2],
                   .keys = dk->size[2],
                   .width = d->size[3],
                   .q = call->in[q],
                   .k = call->in[q + 1],
                   .v = call->in[q + 2],
                   .mask = masked ? call->in[mask] : NULL,
                   .mask_desc = masked ? ref_in(call, mask) : NULL,
                   .alpha = call->op->attrs.alpha};
    return a;
}

static double mask_at(const attention *a, const sg_desc *q, int64_t head, int64_t t, int64_t s) {
    int64_t index[4] = {head / q->size[1], head % q->size[1], t, s}, at = 0;
    const sg_desc *m = a->mask_desc;
    for (int d = 0; d < m->ndim; d++) at = at * m->size[d] + (m->size[d] == 1 ? 0 : index[4 - m->ndim + d]);
    return a->mask[at];
}

static double score(const attention *a, const sg_desc *q, int64_t head, int64_t t, int64_t s) {
    const double *qt = a->q + (head * a->queries + t) * a->width, *ks = a->k + (head * a->keys + s) * a->width;
    double dot = 0;
    for (int64_t d = 0; d < a->width; d++) dot += qt[d] * ks[d];
    dot *= a->alpha;
    if (!a->mask) return dot;
    double mask = mask_at(a, q, head, t, s);
    if (a->mask_desc->dtype != SG_BOOL) return dot + mask;
    return mask != 0 ? dot : -INFINITY;
}

/* A query whose keys are all left out attends to nothing: zeros, lse = -inf. */
sg_code ref_ATTENTION(const ref_call *call) {
    attention a = attention_of(call, 0, 3);
    const sg_desc *q = ref_in(call, 0);
    for (int64_t head = 0; head < a.heads; head++)
        for (int64_t t = 0; t < a.queries; t++) {
            double *o = call->out[0] + (head * a.queries + t) * a.width, largest = -INFINITY, sum = 0;
            for (int64_t s = 0; s < a.keys; s++) largest = fmax(largest, score(&a, q, head, t, s));
            call->out[1][head * a.queries + t] = -INFINITY;
            if (largest == -INFINITY) continue;
            for (int64_t s = 0; s < a.keys; s++) {
                double weight = exp(score(&a, q, head, t, s) - largest);
                sum += weight;
                for (int64_t d = 0; d < a.width; d++) o[d] += weight * a.v[(head * a.keys + s) * a.width + d];
            }
            for (int64_t d = 0; d < a.width; d++) o[d] /= sum;
            call->out[1][head * a.queries + t] = largest + log(sum);
        }
    return SG_OK;
}

/* With p = exp(score - lse): dv += p do; ds = p (do.v - do.o); dq += alpha ds k; dk += alpha ds q. */
sg_code ref_ATTENTION_BWD(const ref_call *call) {
    attention a = attention_of(call, 1, 6);
    const sg_desc *q = ref_in(call, 1);
    double *dq = call->out[0], *dk = call->out[1], *dv = call->out[2];
    for (int64_t head = 0; head < a.heads; head++)
        for (int64_t t = 0; t < a.queries; t++) {
            int64_t row = (head * a.queries + t) * a.width;
            const double *go = call->in[0] + row, *o = call->in[4] + row;
            double lse = call->in[5][head * a.queries + t], go_o = 0;
            if (lse == -INFINITY) continue;
            for (int64_t d = 0; d < a.width; d++) go_o += go[d] * o[d];
            for (int64_t s = 0; s < a.keys; s++) {
                int64_t column = (head * a.keys + s) * a.width;
                double p = exp(score(&a, q, head, t, s) - lse), go_v = 0;
                for (int64_t d = 0; d < a.width; d++) go_v += go[d] * a.v[column + d];
                double ds = p * (go_v - go_o);
                for (int64_t d = 0; d < a.width; d++) {
                    dv[column + d] += p * go[d];
                    dq[row + d] += a.alpha * ds * a.k[column + d];
                    dk[column + d] += a.alpha * ds * a.q[row + d];
                }
            }
        }
    return SG_OK;
}
