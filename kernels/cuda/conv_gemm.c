/* conv_gemm.c: convolutions by writing out their windows and multiplying matrices, where cuDNN is missing or has no plan.
 *
 * Images go through in groups, so that the written-out windows take little memory. All products are MATMUL plans. */
#include "kernels/cuda/conv.h"

#include <stdlib.h>

/* What one group of images needs; the last group may be smaller. */
typedef struct group {
    int64_t images;
    sg_columns columns;
    sg_plan *product;
    sg_plan *turn; /* NCHW backward-weights: dy to [n, positions, o]; else NULL */
} group;

struct sg_cuda_unfold {
    sg_cuda_window window;
    int64_t taps, positions, groups;
    group whole, rest; /* images 0: there is none */
    sg_plan *sum;      /* backward-weights of several groups: adds their results */
    uint64_t turned_offset, partial_offset, product_offset, bytes;
    uint64_t partial_bytes; /* of one group's result */
};

/* ---- shapes -------------------------------------------------------------------------------------------------------------- */

/* [images, taps, positions] as a [rows, columns] matrix per image, in the order that the memory format has. */
static sg_desc matrix_of(int32_t dtype, int64_t images, int64_t rows, int64_t columns, int64_t image_stride,
                         int64_t row_stride, int64_t column_stride) {
    return (sg_desc){.dtype = dtype,
                     .ndim = 3,
                     .size = {images, rows, columns},
                     .stride = {image_stride, row_stride, column_stride}};
}

static sg_desc transposed(sg_desc d) {
    int64_t size = d.size[1], stride = d.stride[1];
    d.size[1] = d.size[2];
    d.stride[1] = d.stride[2];
    d.size[2] = size;
    d.stride[2] = stride;
    return d;
}

/* y or dy of some images: [images, o, positions]. */
static sg_desc y_matrix(const sg_cuda_unfold *u, int64_t images) {
    int64_t o = u->window.y.size[1], p = u->positions;
    return u->window.last ? matrix_of(u->window.y.dtype, images, o, p, o * p, 1, o)
                          : matrix_of(u->window.y.dtype, images, o, p, o * p, p, 1);
}

/* The weights, the same for all images: [images, o, taps]. */
static sg_desc w_matrix(const sg_cuda_unfold *u, int64_t images) {
    return matrix_of(u->window.w.dtype, images, u->window.w.size[0], u->taps, 0, u->taps, 1);
}

/* The written-out windows: [images, taps, positions]. */
static sg_desc column_matrix(const sg_cuda_unfold *u, int32_t dtype, int64_t images) {
    int64_t k = u->taps, p = u->positions;
    return u->window.last ? matrix_of(dtype, images, k, p, k * p, 1, k) : matrix_of(dtype, images, k, p, k * p, p, 1);
}

static sg_columns columns_of(const sg_cuda_unfold *u, int32_t dtype, int64_t images) {
    const sg_cuda_window *win = &u->window;
    int64_t c = win->w.size[1], kh = win->w.size[2], kw = win->w.size[3], k = u->taps, p = u->positions;
    int64_t tap = win->last ? 1 : p, position = win->last ? k : 1; /* elements from one to the next */
    sg_columns columns = {.x = win->x,
                          .column = {.dtype = dtype,
                                     .ndim = 6,
                                     .size = {images, c, kh, kw, win->y.size[2], win->y.size[3]},
                                     .stride = {k * p, 0, 0, 0, win->y.size[3] * position, position}},
                          .stride = {win->attrs.stride[0], win->attrs.stride[1]},
                          .pad = {win->attrs.pad[0], win->attrs.pad[1]}};
    /* taps as the weights lie: (c, kh, kw), channels-last (kh, kw, c) */
    columns.column.stride[1] = win->last ? tap : kh * kw * tap;
    columns.column.stride[2] = win->last ? kw * c * tap : kw * tap;
    columns.column.stride[3] = win->last ? c * tap : tap;
    columns.x.size[0] = images;
    return columns;
}

/* ---- preparation --------------------------------------------------------------------------------------------------------- */

static sg_code new_matmul(sg_device *device, const sg_cuda_unfold *u, sg_desc a, sg_desc b, sg_desc c, sg_plan **plan,
                          sg_status *status) {
    sg_desc descs[3] = {a, b, c};
    sg_op op = {.kind = SG_OP_MATMUL,
                .n_in = 2,
                .n_out = 1,
                .attrs = {.alpha = 1, .compute = u->window.attrs.compute},
                .desc = descs};
    return sg_cuda_plan_new(device, &op, plan, status);
}

static sg_code new_copy(sg_device *device, sg_desc from, sg_desc to, sg_plan **plan, sg_status *status) {
    sg_desc descs[2] = {from, to};
    sg_op op = {.kind = SG_OP_COPY, .n_in = 1, .n_out = 1, .desc = descs};
    return sg_cuda_plan_new(device, &op, plan, status);
}

/* y = w columns: with channels last as its transpose, so that all images are the rows of one product. */
static sg_code prepare_forward(sg_device *device, const sg_cuda_unfold *u, group *g, sg_status *status) {
    sg_desc w = w_matrix(u, g->images), y = y_matrix(u, g->images),
            columns = column_matrix(u, u->window.x.dtype, g->images);
    if (u->window.last)
        return new_matmul(device, u, transposed(columns), transposed(w), transposed(y), &g->product, status);
    return new_matmul(device, u, w, columns, y, &g->product, status);
}

/* columns = w^T dy */
static sg_code prepare_data(sg_device *device, const sg_cuda_unfold *u, group *g, sg_status *status) {
    sg_desc w = w_matrix(u, g->images), y = y_matrix(u, g->images),
            columns = column_matrix(u, g->columns.column.dtype, g->images);
    if (u->window.last) return new_matmul(device, u, transposed(y), w, transposed(columns), &g->product, status);
    return new_matmul(device, u, transposed(w), y, columns, &g->product, status);
}

/* dw = dy columns^T, summed over the positions of all images: for that both lie as [images and positions][..]. */
static sg_code prepare_weights(sg_device *device, const sg_cuda_unfold *u, group *g, sg_status *status) {
    int64_t o = u->window.w.size[0], rows = g->images * u->positions;
    int32_t dtype = u->groups > 1 && u->window.w.dtype != SG_F64 ? SG_F32 : u->window.w.dtype;
    sg_desc dy = {.dtype = u->window.y.dtype, .ndim = 2, .size = {o, rows}, .stride = {1, o}};
    sg_desc columns = {.dtype = u->window.x.dtype, .ndim = 2, .size = {rows, u->taps}, .stride = {u->taps, 1}};
    sg_desc dw = {.dtype = dtype, .ndim = 2, .size = {o, u->taps}, .stride = {u->taps, 1}};
    if (!u->window.last) {
        sg_desc from = y_matrix(u, g->images), to = from;
        to.stride[0] = o * u->positions;
        to.stride[1] = 1;
        to.stride[2] = o;
        sg_code code = new_copy(device, from, to, &g->turn, status);
        if (code != SG_OK) return code;
    }
    return new_matmul(device, u, dy, columns, dw, &g->product, status);
}

static sg_code prepare_group(sg_device *device, sg_cuda_unfold *u, group *g, int64_t images, sg_status *status) {
    const sg_cuda_window *win = &u->window;
    bool data = win->kind == SG_OP_CONV_BWD_DATA, weights = win->kind == SG_OP_CONV_BWD_WEIGHTS;
    g->images = images;
    if (images == 0) return SG_OK;
    /* what col2im adds up is not rounded before */
    int32_t dtype = data && win->y.dtype != SG_F64 ? SG_F32 : win->x.dtype;
    g->columns = columns_of(u, dtype, images);
    if (weights && !win->last) { /* [positions][taps], taps as NCHW weights lie */
        sg_desc *c = &g->columns.column;
        int64_t kh = c->size[2], kw = c->size[3];
        c->stride[1] = kh * kw;
        c->stride[2] = kw;
        c->stride[3] = 1;
        c->stride[4] = c->size[5] * u->taps;
        c->stride[5] = u->taps;
    }
    return weights ? prepare_weights(device, u, g, status)
           : data  ? prepare_data(device, u, g, status)
                   : prepare_forward(device, u, g, status);
}

/* Adds the groups' results. */
static sg_code prepare_sum(sg_device *device, sg_cuda_unfold *u, sg_status *status) {
    int64_t count = u->window.w.size[0] * u->taps;
    int32_t dtype = u->window.w.dtype == SG_F64 ? SG_F64 : SG_F32;
    sg_desc descs[2] = {sg_desc_make((sg_dtype)dtype, 2, (int64_t[]){u->groups, count}),
                        sg_desc_make((sg_dtype)u->window.w.dtype, 2, (int64_t[]){1, count})};
    sg_op op = {.kind = SG_OP_REDUCE, .n_in = 1, .n_out = 1, .attrs = {.fn = SG_FN_SUM, .dims_mask = 1}, .desc = descs};
    u->partial_bytes = (uint64_t)count * sg_dtype_bytes((sg_dtype)dtype);
    return sg_cuda_plan_new(device, &op, &u->sum, status);
}

static uint64_t take(sg_cuda_unfold *u, uint64_t bytes) {
    uint64_t at = u->bytes;
    u->bytes += sg_cuda_align(bytes);
    return at;
}

static void place(sg_cuda_unfold *u) {
    uint64_t inner = 0;
    enum { PARTS = 5 };
    const sg_plan *parts[PARTS] = {u->whole.product, u->whole.turn, u->rest.product, u->rest.turn, u->sum};
    for (int i = 0; i < PARTS; i++)
        if (parts[i] && parts[i]->workspace_bytes > inner) inner = parts[i]->workspace_bytes;
    (void)take(u, sg_desc_span_bytes(&u->whole.columns.column)); /* at 0 */
    if (u->whole.turn) {
        sg_desc dy = y_matrix(u, u->whole.images);
        u->turned_offset = take(u, sg_desc_span_bytes(&dy));
    }
    if (u->sum) u->partial_offset = take(u, u->partial_bytes * (uint64_t)u->groups);
    u->product_offset = take(u, inner);
}

sg_code sg_cuda_unfold_new(sg_device *device, const sg_cuda_window *window, sg_cuda_unfold **out, sg_status *status) {
    *out = NULL;
    sg_cuda_unfold *u = calloc(1, sizeof *u);
    if (!u) return sg_fail_memory(status, sizeof *u, "a convolution");
    u->window = *window;
    u->taps = window->w.size[1] * window->w.size[2] * window->w.size[3];
    u->positions = window->y.size[2] * window->y.size[3];
    int64_t images = window->x.size[0];
    double one = (double)u->taps * (double)u->positions * (double)sg_dtype_bytes((sg_dtype)window->x.dtype);
    double fit = (double)device->part_bytes / one; /* one image may need more */
    int64_t per_group = fit < 1 ? 1 : fit > (double)images ? images : (int64_t)fit;
    u->groups = (images + per_group - 1) / per_group;
    sg_code code = one * (double)per_group > 0x1p62
                       ? sg_fail(status, SG_NO, "a convolution's written-out windows take %.0f bytes an image", one)
                       : SG_OK;
    if (code == SG_OK) code = prepare_group(device, u, &u->whole, per_group, status);
    if (code == SG_OK) code = prepare_group(device, u, &u->rest, images % per_group, status);
    if (code == SG_OK && window->kind == SG_OP_CONV_BWD_WEIGHTS && u->groups > 1) code = prepare_sum(device, u, status);
    if (code != SG_OK) {
        sg_cuda_unfold_free(u);
        return code;
    }
    place(u);
    *out = u;
    return SG_OK;
}

void sg_cuda_unfold_free(sg_cuda_unfold *u) {
    if (!u) return;
    sg_cuda_plan_free(u->whole.product);
    sg_cuda_plan_free(u->whole.turn);
    sg_cuda_plan_free(u->rest.product);
    sg_cuda_plan_free(u->rest.turn);
    sg_cuda_plan_free(u->sum);
    free(u);
}

uint64_t sg_cuda_unfold_bytes(const sg_cuda_unfold *u) {
    return u->bytes;
}

/* ---- launch -------------------------------------------------------------------------------------------------------------- */

static sg_code run_product(const sg_call *call, const sg_cuda_unfold *u, const group *g, void *a, void *b, void *c,
                           char *workspace) {
    return sg_cuda_run_part(call, g->product, (void *[]){a, b, c}, workspace + u->product_offset);
}

static sg_code run_group(const sg_call *call, const sg_cuda_unfold *u, const group *g, int64_t number, char *x, void *w,
                         char *y, char *workspace) {
    char *matrix = workspace;
    bool last = u->window.last;
    sg_code code;
    if (u->window.kind == SG_OP_CONV_BWD_DATA) {
        code = run_product(call, u, g, last ? (void *)y : w, last ? w : (void *)y, matrix, workspace);
        return code == SG_OK ? sg_cuda_col2im(call, &g->columns, matrix, x) : code;
    }
    code = sg_cuda_im2col(call, &g->columns, x, matrix);
    if (code != SG_OK) return code;
    if (u->window.kind == SG_OP_CONV)
        return run_product(call, u, g, last ? (void *)matrix : w, last ? w : (void *)matrix, y, workspace);
    char *dy = y;
    if (g->turn) {
        dy = workspace + u->turned_offset;
        code = sg_cuda_run_part(call, g->turn, (void *[]){y, dy}, workspace + u->product_offset);
    }
    void *dw = u->sum ? workspace + u->partial_offset + (uint64_t)number * u->partial_bytes : w;
    return code == SG_OK ? run_product(call, u, g, dy, matrix, dw, workspace) : code;
}

sg_code sg_cuda_unfold_run(const sg_call *call, const sg_cuda_unfold *u, void *x, void *w, void *y, char *workspace) {
    uint64_t x_bytes =
        (uint64_t)(sg_desc_count(&u->window.x) / u->window.x.size[0]) * sg_dtype_bytes((sg_dtype)u->window.x.dtype);
    uint64_t y_bytes =
        (uint64_t)(sg_desc_count(&u->window.y) / u->window.y.size[0]) * sg_dtype_bytes((sg_dtype)u->window.y.dtype);
    sg_code code = SG_OK;
    for (int64_t i = 0; i < u->groups && code == SG_OK; i++) {
        const group *g = i == u->groups - 1 && u->rest.images ? &u->rest : &u->whole;
        uint64_t image = (uint64_t)(i * u->whole.images);
        code = run_group(call, u, g, i, (char *)x + image * x_bytes, w, (char *)y + image * y_bytes, workspace);
    }
    if (code != SG_OK || !u->sum) return code;
    return sg_cuda_run_part(call, u->sum, (void *[]){workspace + u->partial_offset, w}, workspace + u->product_offset);
}
