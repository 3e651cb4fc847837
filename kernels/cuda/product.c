/* product.c: from strides to cuBLAS' leading dimensions, transpositions and batches. */
#include "kernels/cuda/matmul.h"

/* Column-major: rows lie side by side, columns ld >= rows elements apart. */
static bool by_columns(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride, int64_t *ld) {
    if (rows > 1 && row_stride != 1) return false;
    if (columns > 1 && column_stride < rows) return false;
    *ld = columns > 1 ? column_stride : rows;
    return *ld <= INT32_MAX;
}

/* The matrix of the last two dims, or its transpose, as a left or right factor. */
static bool view(const sg_desc *d, bool transpose, sg_cuda_matrix *matrix) {
    int r = d->ndim - (transpose ? 1 : 2), c = d->ndim - (transpose ? 2 : 1);
    int64_t ld;
    matrix->type = sg_cuda_blas_dtype(d->dtype);
    matrix->op = CUBLAS_OP_N;
    if (!by_columns(d->size[r], d->size[c], d->stride[r], d->stride[c], &ld)) {
        matrix->op = CUBLAS_OP_T;
        if (!by_columns(d->size[c], d->size[r], d->stride[c], d->stride[r], &ld)) return false;
    }
    matrix->ld = (int)ld;
    return true;
}

bool sg_cuda_matrix_fits(const sg_desc *d) {
    sg_cuda_matrix ignored;
    return view(d, false, &ignored);
}

/* One batch dim of the three tensors. */
typedef struct batch {
    int64_t size, stride[3];
} batch;

/* Batch dims without those of size 1; two that lie behind one another in all tensors are one. */
static int batches_of(const sg_desc *a, const sg_desc *b, const sg_desc *c, batch out[2]) {
    int n = 0;
    for (int d = 0; d < c->ndim - 2; d++) {
        if (c->size[d] == 1) continue;
        batch one = {c->size[d], {a->stride[d], b->stride[d], c->stride[d]}};
        bool joins = n > 0;
        for (int t = 0; t < 3 && n > 0; t++) joins = joins && out[n - 1].stride[t] == one.stride[t] * one.size;
        if (joins) one.size *= out[--n].size;
        out[n++] = one;
    }
    return n;
}

/* Batches that share b and lie behind one another are more rows of one product, as nn.Linear on [b, t, d] is. */
static bool joins_rows(const batch *one, const sg_desc *a, const sg_desc *c, int64_t *row_a, int64_t *row_c) {
    int r = c->ndim - 2;
    int64_t rows = c->size[r];
    if (one->stride[1] != 0) return false;
    *row_a = rows == 1 ? one->stride[0] : a->stride[r];
    *row_c = rows == 1 ? one->stride[2] : c->stride[r];
    return rows == 1 || (one->stride[0] == rows * *row_a && one->stride[2] == rows * *row_c);
}

static void flatten(sg_desc *a, sg_desc *c, int *n, const batch *batches) {
    int64_t row_a, row_c;
    if (*n != 1 || !joins_rows(&batches[0], a, c, &row_a, &row_c)) return;
    int r = c->ndim - 2;
    sg_desc whole_a = *a, whole_c = *c;
    whole_a.size[r] = whole_c.size[r] = a->size[r] * batches[0].size;
    whole_a.stride[r] = row_a;
    whole_c.stride[r] = row_c;
    if (!sg_cuda_matrix_fits(&whole_a) || !sg_cuda_matrix_fits(&whole_c)) return;
    *a = whole_a;
    *c = whole_c;
    *n = 0;
}

static cublasComputeType_t compute_of(const sg_op *op) {
    if (op->desc[0].dtype == SG_F64) return CUBLAS_COMPUTE_64F;
    if (op->desc[0].dtype != SG_F32) return CUBLAS_COMPUTE_32F;
    switch ((sg_compute)op->attrs.compute) {
    case SG_COMPUTE_TF32: return CUBLAS_COMPUTE_32F_FAST_TF32;
    case SG_COMPUTE_BF16: return CUBLAS_COMPUTE_32F_FAST_16BF;
    case SG_COMPUTE_F16: return CUBLAS_COMPUTE_32F_FAST_16F;
    default: return CUBLAS_COMPUTE_32F;
    }
}

sg_code sg_cuda_product_of(const sg_op *op, const sg_desc *a_given, const sg_desc *b, const sg_desc *c_given,
                           sg_cuda_product *p, sg_status *status) {
    sg_desc a = *a_given, c = *c_given;
    batch batches[2];
    int n = batches_of(&a, b, &c, batches);
    flatten(&a, &c, &n, batches);
    int64_t rows = c.size[c.ndim - 2], columns = c.size[c.ndim - 1], inner = a.size[a.ndim - 1];
    bool large = rows > INT32_MAX || columns > INT32_MAX || inner > INT32_MAX;
    for (int i = 0; i < n; i++) large = large || batches[i].size > INT32_MAX / 2;
    if (large || (n == 2 && batches[0].size * batches[1].size > INT32_MAX / 4))
        return sg_cuda_refuse(op, "cuBLAS counts rows, columns and matrices to 2^31", status);
    /* row-major c first: it is its transpose that cuBLAS shall write */
    *p = (sg_cuda_product){.compute = compute_of(op), .swapped = true, .batches = {1, 1}};
    (void)view(&c, true, &p->matrix[SG_RESULT]);
    if (p->matrix[SG_RESULT].op != CUBLAS_OP_N) {
        p->swapped = false;
        (void)view(&c, false, &p->matrix[SG_RESULT]);
    }
    const sg_desc *left = p->swapped ? b : &a, *right = p->swapped ? &a : b;
    (void)view(left, p->swapped, &p->matrix[SG_LEFT]);
    (void)view(right, p->swapped, &p->matrix[SG_RIGHT]);
    p->m = (int)(p->swapped ? columns : rows);
    p->n = (int)(p->swapped ? rows : columns);
    p->k = (int)inner;
    for (int i = 0; i < n; i++) {
        int at = 2 - n + i;
        p->batches[at] = (int)batches[i].size;
        p->stride[at][SG_LEFT] = batches[i].stride[p->swapped ? 1 : 0];
        p->stride[at][SG_RIGHT] = batches[i].stride[p->swapped ? 0 : 1];
        p->stride[at][SG_RESULT] = batches[i].stride[2];
    }
    return SG_OK;
}
