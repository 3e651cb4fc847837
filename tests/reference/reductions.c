/* reductions.c: sums, extremes and norms over some or all elements. */
#include "tests/reference/kinds.h"

#include <math.h>
#include <stdlib.h>

/* Row-major place in y (reduced dims of size 1) of row-major element i of x. */
static int64_t reduced_place(const sg_desc *x, const sg_desc *y, int64_t i) {
    int64_t place = 0, unit = 1;
    for (int d = x->ndim - 1; d >= 0; d--) {
        if (y->size[d] != 1) place += i % x->size[d] * unit;
        unit *= y->size[d];
        i /= x->size[d];
    }
    return place;
}

static void merge(sg_fn fn, double *into, double value, bool first) {
    if (fn == SG_FN_MAX || fn == SG_FN_MIN) {
        *into = first ? value : ref_binary_value(fn, *into, value, 0);
    } else if (fn == SG_FN_ANY) {
        *into = *into != 0 || value != 0;
    } else {
        *into += value;
    }
}

sg_code ref_REDUCE(const ref_call *call) {
    const sg_desc *x = ref_in(call, 0), *y = ref_out(call, 0);
    sg_fn fn = (sg_fn)call->op->attrs.fn;
    int64_t count = sg_desc_count(x), results = sg_desc_count(y);
    if (count == 0 || results == 0) return SG_OK;
    double *out = call->out[0], n = (double)count / (double)results;
    int64_t *seen = calloc((size_t)results, sizeof *seen);
    double *squares = calloc((size_t)results, sizeof *squares);
    if (!seen || !squares) {
        free(seen);
        free(squares);
        return sg_fail_memory(call->status, (unsigned long long)results * 16, "a reduction");
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = reduced_place(x, y, i);
        merge(fn, &out[at], call->in[0][i], seen[at]++ == 0);
    }
    if (fn == SG_FN_MEAN || fn == SG_FN_STD)
        for (int64_t i = 0; i < results; i++) out[i] /= n;
    if (fn == SG_FN_STD) {
        for (int64_t i = 0; i < count; i++) {
            int64_t at = reduced_place(x, y, i);
            squares[at] += (call->in[0][i] - out[at]) * (call->in[0][i] - out[at]);
        }
        for (int64_t i = 0; i < results; i++) out[i] = sqrt(squares[i] / (n - 1));
    }
    free(seen);
    free(squares);
    return SG_OK;
}

sg_code ref_CUMSUM(const ref_call *call) {
    const sg_desc *x = ref_in(call, 0);
    int dim = call->op->attrs.dim;
    int64_t outer = ref_extent(x, 0, dim), length = x->size[dim], inner = ref_extent(x, dim + 1, x->ndim);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            double sum = 0;
            for (int64_t d = 0; d < length; d++) {
                int64_t at = (o * length + d) * inner + i;
                call->out[0][at] = sum += call->in[0][at];
            }
        }
    return SG_OK;
}

sg_code ref_NORM_ALL(const ref_call *call) {
    for (int t = 0; t < call->op->n_in; t++) {
        double sum = 0;
        for (int64_t i = 0, count = sg_desc_count(ref_in(call, t)); i < count; i++)
            sum += call->in[t][i] * call->in[t][i];
        call->out[0][t] = sqrt(sum);
    }
    return SG_OK;
}
