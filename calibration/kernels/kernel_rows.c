#include "calibration/kernels/kernel_rows.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    sg_row_kind kind;
    sg_op_kind op;
    sg_fn fn;
} known[] = {
    {"add", SG_ROW_ELEMENTWISE, SG_OP_BINARY, SG_FN_ADD},
    {"mul", SG_ROW_ELEMENTWISE, SG_OP_BINARY, SG_FN_MUL},
    {"div", SG_ROW_ELEMENTWISE, SG_OP_BINARY, SG_FN_DIV},
    {"pow", SG_ROW_ELEMENTWISE, SG_OP_BINARY, SG_FN_POWV},
    {"addu", SG_ROW_ELEMENTWISE, SG_OP_UNARY, SG_FN_AFFINE},
    {"mulu", SG_ROW_ELEMENTWISE, SG_OP_UNARY, SG_FN_AFFINE},
    {"divu", SG_ROW_ELEMENTWISE, SG_OP_UNARY, SG_FN_DIV_SCALAR},
    {"powu", SG_ROW_ELEMENTWISE, SG_OP_UNARY, SG_FN_POW},
    {"relu", SG_ROW_ELEMENTWISE, SG_OP_UNARY, SG_FN_RELU},
    {"gelu", SG_ROW_ELEMENTWISE, SG_OP_UNARY, SG_FN_GELU_ERF},
    {"tanh", SG_ROW_ELEMENTWISE, SG_OP_UNARY, SG_FN_TANH},
    {"ln", SG_ROW_NORM, SG_OP_LAYER_NORM, SG_FN_NONE},
    {"softmax", SG_ROW_SOFTMAX, SG_OP_SOFTMAX, SG_FN_NONE},
};

/* A tensor of more elements than this fits no device. */
static const double MOST_ELEMENTS = 1e12, MOST_MS = 1e7;

const char *sg_row_kind_name(sg_row_kind kind) {
    static const char *const names[SG_ROW_KIND_COUNT] = {"elementwise", "layer_norm", "softmax"};
    return (unsigned)kind < SG_ROW_KIND_COUNT ? names[kind] : "";
}

sg_code sg_kernel_rows_check(const sg_csv_table *table, sg_status *status) {
    static const char *const columns[] = {"device", "op", "rows", "cols", "latency_ms"};
    return sg_csv_table_need(table, columns, sizeof columns / sizeof *columns, status);
}

static void describe(sg_kernel_row *row, size_t k) {
    int64_t size[2] = {row->rows, row->columns}, columns[1] = {row->columns};
    sg_desc x = sg_desc_make(SG_F32, 2, size), vector = sg_desc_make(SG_F32, 1, columns),
            per_row = sg_desc_make(SG_F32, 1, size);
    row->op = (sg_op){.kind = known[k].op, .n_in = 1, .n_out = 1};
    row->op.attrs.fn = known[k].fn;
    row->op.attrs.alpha = 3; /* any number: a power of two would be a square */
    row->op.attrs.eps = row->kind == SG_ROW_NORM ? 1e-5 : 0;
    for (int i = 0; i < 6; i++) row->desc[i] = x;
    if (row->op.kind == SG_OP_BINARY) row->op.n_in = 2;
    if (row->op.kind != SG_OP_LAYER_NORM) return;
    row->op.n_in = row->op.n_out = 3;
    row->desc[1] = row->desc[2] = vector;
    row->desc[4] = row->desc[5] = per_row;
}

const char *sg_kernel_row_read(const sg_csv_table *table, size_t line, sg_kernel_row *row) {
    double rows, columns, ms;
    const char *name = sg_csv_table_text(table, line, "op");
    if (!sg_csv_table_number(table, line, "rows", &rows) || !sg_csv_table_number(table, line, "cols", &columns) ||
        !sg_csv_table_number(table, line, "latency_ms", &ms))
        return "rows, cols or latency_ms is no number";
    if (!(rows >= 1 && columns >= 1 && rows * columns <= MOST_ELEMENTS) || rows != (double)(int64_t)rows ||
        columns != (double)(int64_t)columns)
        return "rows or cols is no size of a tensor";
    if (!(ms > 0 && ms < MOST_MS)) return "latency_ms is no duration";
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        if (strcmp(known[k].name, name) != 0) continue;
        *row = (sg_kernel_row){.kind = known[k].kind,
                               .rows = (int64_t)rows,
                               .columns = (int64_t)columns,
                               .seconds = ms * 1e-3,
                               .line = line};
        (void)snprintf(row->name, sizeof row->name, "%s", name);
        describe(row, k);
        return NULL;
    }
    return "no op that this program knows in tables of kernels";
}

const sg_op *sg_kernel_row_op(sg_kernel_row *row) {
    row->op.desc = row->desc;
    return &row->op;
}
