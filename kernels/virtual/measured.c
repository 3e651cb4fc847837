#include "kernels/virtual/measured.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const double WIDTH = 0.5, NEARLY_EXACT = 1e-3, WEIGHT_OF_MODEL = 0.5;
/* Beyond four widths a place says less than one part in 3000. */
static const double REACH = 4;

struct sg_measured {
    atomic_int owners;
    size_t n;
    sg_measured_shape shape[];
};

static int by_family(const void *a, const void *b) {
    const sg_measured_shape *x = a, *y = b;
    return (x->shape.family > y->shape.family) - (x->shape.family < y->shape.family);
}

sg_code sg_measured_make(const sg_measured_shape *shapes, size_t n, sg_measured **measured, sg_status *status) {
    *measured = NULL;
    for (size_t i = 0; i < n; i++) {
        bool finite = isfinite(shapes[i].log_ratio);
        for (int k = 0; k < SG_SHAPE_PLACES; k++) finite = finite && isfinite(shapes[i].shape.at[k]);
        if (!finite)
            return sg_fail(status, SG_BAD_INPUT, "measured shape %zu holds a number that is not finite", i + 1);
    }
    size_t bytes;
    sg_measured *m = NULL;
    if (!__builtin_mul_overflow(n, sizeof *shapes, &bytes)) m = malloc(sizeof *m + bytes);
    if (!m) return sg_fail_memory(status, n * sizeof *shapes, "measured shapes");
    atomic_init(&m->owners, 1);
    m->n = n;
    if (n) memcpy(m->shape, shapes, bytes);
    qsort(m->shape, n, sizeof *m->shape, by_family);
    *measured = m;
    return SG_OK;
}

sg_measured *sg_measured_share(sg_measured *measured) {
    if (measured) atomic_fetch_add(&measured->owners, 1);
    return measured;
}

void sg_measured_release(sg_measured *measured) {
    if (measured && atomic_fetch_sub(&measured->owners, 1) == 1) free(measured);
}

const sg_measured_shape *sg_measured_shapes(const sg_measured *measured, size_t *n) {
    *n = measured ? measured->n : 0;
    return measured ? measured->shape : NULL;
}

static size_t first_of_family(const sg_measured *m, uint32_t family) {
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->shape[middle].shape.family < family)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

double sg_measured_log_ratio(const sg_measured *m, const sg_shape *shape) {
    if (!m || !m->n) return 0;
    double sum = 0, weights = WEIGHT_OF_MODEL;
    for (size_t i = first_of_family(m, shape->family); i < m->n && m->shape[i].shape.family == shape->family; i++) {
        double square = 0;
        for (int k = 0; k < SG_SHAPE_PLACES; k++) {
            double d = (m->shape[i].shape.at[k] - shape->at[k]) / WIDTH;
            square += d * d;
        }
        if (square > REACH * REACH) continue;
        double weight = exp(-square / 2) / (square + NEARLY_EXACT);
        sum += weight * m->shape[i].log_ratio;
        weights += weight;
    }
    return sum / weights;
}

/* FNV-1a */
static uint32_t mix(uint32_t hash, int64_t value) {
    for (int i = 0; i < 8; i++) hash = (hash ^ (uint32_t)(value >> (8 * i) & 0xff)) * 16777619u;
    return hash;
}

static double log_of(double amount) {
    return amount > 1 ? log(amount) : 0;
}

sg_shape sg_shape_of_op(const sg_op *op) {
    sg_op_class cls = sg_op_class_of(op);
    sg_cost cost = sg_op_cost(op);
    const sg_desc *out = &op->desc[op->n_in];
    sg_shape s = {.family = 2166136261u};
    s.family = mix(mix(mix(s.family, op->kind), op->attrs.fn), op->attrs.compute);
    for (int i = 0; i < op->n_in + op->n_out && i < 4; i++)
        s.family =
            mix(s.family, (int64_t)op->desc[i].dtype << 2 | (int64_t)sg_desc_is_channels_last(&op->desc[i]) << 1 |
                              (int64_t)sg_desc_is_contiguous(&op->desc[i]));
    if (cls == SG_CLASS_CONV || cls == SG_CLASS_CONV_BWD_DATA || cls == SG_CLASS_CONV_BWD_WEIGHTS)
        for (int i = 0; i < 2; i++) s.family = mix(mix(s.family, op->attrs.kernel[i]), op->attrs.stride[i]);
    if ((cls == SG_CLASS_GEMM || cls == SG_CLASS_BMM) && out->ndim >= 2) {
        double batch = 1, m = (double)out->size[out->ndim - 2], n = (double)out->size[out->ndim - 1];
        for (int i = 0; i + 2 < out->ndim; i++) batch *= (double)out->size[i];
        s.at[0] = log_of(batch);
        s.at[1] = log_of(m);
        s.at[2] = log_of(n);
        s.at[3] = log_of(cost.flops / (2 * batch * m * n));
        return s;
    }
    s.at[0] = log_of(cost.flops);
    s.at[1] = log_of(cost.bytes_read + cost.bytes_written);
    if (op->n_in > 0 && op->desc[0].ndim > 0) s.at[2] = log_of((double)op->desc[0].size[op->desc[0].ndim - 1]);
    return s;
}
