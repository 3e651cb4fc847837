/* conv.h: the three convolutions as the ways to compute them see them: dense tensors of one memory format. */
#ifndef SG_KERNELS_CUDA_CONV_H
#define SG_KERNELS_CUDA_CONV_H

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sg_cuda_window {
    sg_op_kind kind;
    sg_desc x, w, y; /* all contiguous, or all channels-last; the kind tells which of them is the result */
    bool last;       /* channels-last */
    sg_attrs attrs;
} sg_cuda_window;

/* ---- cuDNN (conv_cudnn.c) -------------------------------------------------------------------------------------------------- */

typedef struct sg_cuda_dnn_plan sg_cuda_dnn_plan;

/* Opens cuDNN unless that was tried before; *there: it can be used. Not installed, or not loadable, is no error. */
sg_code sg_cuda_dnn_open(sg_device *device, bool *there, sg_status *status);
/* *plan stays NULL where cuDNN has none for this window (dtypes that differ among them). */
sg_code sg_cuda_dnn_plan_new(sg_device *device, const sg_cuda_window *window, sg_cuda_dnn_plan **plan,
                             sg_status *status);
void sg_cuda_dnn_plan_free(sg_cuda_dnn_plan *plan);
uint64_t sg_cuda_dnn_plan_bytes(const sg_cuda_dnn_plan *plan); /* of workspace */
sg_code sg_cuda_dnn_plan_run(const sg_call *call, sg_cuda_dnn_plan *plan, void *x, void *w, void *y, char *workspace);

/* ---- im2col and GEMM (conv_gemm.c) ----------------------------------------------------------------------------------------- */

typedef struct sg_cuda_unfold sg_cuda_unfold;

sg_code sg_cuda_unfold_new(sg_device *device, const sg_cuda_window *window, sg_cuda_unfold **unfold, sg_status *status);
void sg_cuda_unfold_free(sg_cuda_unfold *unfold);
uint64_t sg_cuda_unfold_bytes(const sg_cuda_unfold *unfold);
sg_code sg_cuda_unfold_run(const sg_call *call, const sg_cuda_unfold *unfold, void *x, void *w, void *y,
                           char *workspace);

/* ---- its kernels (im2col.cu) ----------------------------------------------------------------------------------------------- */

/* The windows of images as the columns of a matrix: per image [positions][taps] (channels-last) or [taps][positions], where
 * positions are (y rows, y columns) and taps in the order in which the weights lie. */
typedef struct sg_columns {
    sg_desc x; /* of all images */
    sg_desc
        column; /* sizes and strides of [n, c, kernel h, kernel w, h', w']; dtype as x (im2col), or what col2im sums */
    int stride[2], pad[2];
} sg_columns;

sg_code sg_cuda_im2col(const sg_call *call, const sg_columns *columns, const void *x, void *matrix);
/* Each x is the sum of what its windows' columns hold for it, always in the same order. */
sg_code sg_cuda_col2im(const sg_call *call, const sg_columns *columns, const void *matrix, void *x);

#ifdef __cplusplus
}
#endif
#endif
