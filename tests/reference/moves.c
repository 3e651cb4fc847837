/* moves.c: copies, fills, concatenation and table look-ups. */
#include "tests/reference/kinds.h"

sg_code ref_COPY(const ref_call *call) {
    for (int64_t i = 0, count = sg_desc_count(ref_out(call, 0)); i < count; i++) call->out[0][i] = call->in[0][i];
    return SG_OK;
}

sg_code ref_FILL(const ref_call *call) {
    for (int64_t i = 0, count = sg_desc_count(ref_out(call, 0)); i < count; i++)
        call->out[0][i] = call->op->attrs.alpha;
    return SG_OK;
}

sg_code ref_IOTA(const ref_call *call) {
    const sg_attrs *attrs = &call->op->attrs;
    int64_t n = ref_last(ref_out(call, 0));
    for (int64_t i = 0, count = sg_desc_count(ref_out(call, 0)); i < count; i++)
        call->out[0][i] = attrs->alpha + attrs->beta * (double)(i % n);
    return SG_OK;
}

sg_code ref_CAT(const ref_call *call) {
    const sg_desc *y = ref_out(call, 0);
    int dim = call->op->attrs.dim;
    int64_t outer = ref_extent(y, 0, dim), inner = ref_extent(y, dim + 1, y->ndim), start = 0;
    for (int t = 0; t < call->op->n_in; t++) {
        int64_t length = ref_in(call, t)->size[dim];
        for (int64_t o = 0; o < outer; o++)
            for (int64_t d = 0; d < length; d++)
                for (int64_t i = 0; i < inner; i++)
                    call->out[0][(o * y->size[dim] + start + d) * inner + i] =
                        call->in[t][(o * length + d) * inner + i];
        start += length;
    }
    return SG_OK;
}

static sg_code row_of(const ref_call *call, double value, int64_t rows, int64_t *row) {
    *row = (int64_t)value;
    if (value >= 0 && *row < rows) return SG_OK;
    return sg_fail(call->status, SG_BAD_INPUT, "reference: %s: index %lld in a table of %lld rows",
                   sg_op_kind_name((sg_op_kind)call->op->kind), (long long)value, (long long)rows);
}

sg_code ref_EMBEDDING(const ref_call *call) {
    const sg_desc *table = ref_in(call, 0);
    int64_t rows = table->size[0], width = ref_extent(table, 1, table->ndim);
    for (int64_t i = 0, count = sg_desc_count(ref_in(call, 1)); i < count; i++) {
        int64_t row = 0;
        if (row_of(call, call->in[1][i], rows, &row) != SG_OK) return SG_BAD_INPUT;
        for (int64_t d = 0; d < width; d++) call->out[0][i * width + d] = call->in[0][row * width + d];
    }
    return SG_OK;
}

sg_code ref_EMBEDDING_BWD(const ref_call *call) {
    const sg_desc *table = ref_out(call, 0);
    int64_t rows = table->size[0], width = ref_extent(table, 1, table->ndim);
    for (int64_t i = 0, count = sg_desc_count(ref_in(call, 1)); i < count; i++) {
        int64_t row = 0;
        if (row_of(call, call->in[1][i], rows, &row) != SG_OK) return SG_BAD_INPUT;
        for (int64_t d = 0; d < width; d++) call->out[0][row * width + d] += call->in[0][i * width + d];
    }
    return SG_OK;
}
