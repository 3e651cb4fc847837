/* kernel_rows.h: rows of a table of bandwidth-bound kernels measured alone: device, op, rows, cols, latency_ms.
 *
 * Ops are float32 over a rows x cols tensor: add, mul, div, pow of two tensors; addu, mulu, divu, powu of a tensor and a
 * number; relu, gelu, tanh; ln (layer norm with weight and bias) and softmax over the columns. */
#ifndef SG_CALIBRATION_KERNEL_ROWS_H
#define SG_CALIBRATION_KERNEL_ROWS_H

#include "formats/csv_table.h"
#include "kernels/op.h"

typedef enum sg_row_kind { SG_ROW_ELEMENTWISE, SG_ROW_NORM, SG_ROW_SOFTMAX, SG_ROW_KIND_COUNT } sg_row_kind;
const char *sg_row_kind_name(sg_row_kind kind); /* "elementwise", "layer_norm", "softmax" */

typedef struct sg_kernel_row {
    sg_row_kind kind;
    char name[12]; /* as in the table: "addu" */
    int64_t rows, columns;
    double seconds;
    size_t line; /* row of the table, from 0 */
    sg_op op;    /* op.desc is set by sg_kernel_row_op */
    sg_desc desc[6];
} sg_kernel_row;

/* SG_BAD_INPUT: the table lacks a column. */
sg_code sg_kernel_rows_check(const sg_csv_table *table, sg_status *status);
/* NULL and *row filled, or why the row says nothing (static text): an op not listed above, a number missing or out of range. */
const char *sg_kernel_row_read(const sg_csv_table *table, size_t line, sg_kernel_row *row);
/* The op of a row, with descriptors that lie in it. */
const sg_op *sg_kernel_row_op(sg_kernel_row *row);

#endif
