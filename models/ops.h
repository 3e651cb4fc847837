/* ops.h: the calls that layers are written in, each lowered to what the profile's framework would run.
 *
 * Names and shapes follow PyTorch; t.dims below are sizes. Dims may be negative (from the end). Each returns a new tensor
 * id (SG_NO_TENSOR once the graph has failed). "1 op" means one framework call with a kernel; views cost host time only. */
#ifndef SG_MODELS_OPS_H
#define SG_MODELS_OPS_H

#include "models/graph.h"

/* Views: 0 ops, 1 view each (reshape of a tensor that cannot be viewed copies first: 1 op). */
sg_tid sg_view(sg_graph *g, sg_tid x, int ndim, const int64_t *size); /* one size may be -1 */
sg_tid sg_reshape(sg_graph *g, sg_tid x, int ndim, const int64_t *size);
sg_tid sg_transpose(sg_graph *g, sg_tid x, int dim0, int dim1);
sg_tid sg_permute(sg_graph *g, sg_tid x, const int *order);
sg_tid sg_slice(sg_graph *g, sg_tid x, int dim, int64_t start, int64_t length); /* narrow */
sg_tid sg_select(sg_graph *g, sg_tid x, int dim, int64_t index);                /* drops dim */
sg_tid sg_unsqueeze(sg_graph *g, sg_tid x, int dim);
sg_tid sg_squeeze(sg_graph *g, sg_tid x, int dim);
sg_tid sg_expand(sg_graph *g, sg_tid x, int ndim, const int64_t *size);
/* n equal parts of dim: one framework call that makes n views; its backward is one CAT. */
void sg_chunk(sg_graph *g, sg_tid x, int dim, int n, sg_tid *out);
/* Parts with given lengths, as chunk. */
void sg_split(sg_graph *g, sg_tid x, int dim, int n, const int64_t *length, sg_tid *out);
/* size(dim) tensors without that dim: one call, n views; backward is one stack. */
void sg_unbind(sg_graph *g, sg_tid x, int dim, sg_tid *out);
sg_tid sg_detach(sg_graph *g, sg_tid x);

/* Copies: 1 op unless nothing is to do. */
sg_tid sg_contiguous(sg_graph *g, sg_tid x);
sg_tid sg_clone(sg_graph *g, sg_tid x);
sg_tid sg_to(sg_graph *g, sg_tid x, sg_dtype dtype); /* nothing when already of dtype */
sg_tid sg_cat(sg_graph *g, int n, const sg_tid *x, int dim);
sg_tid sg_stack(sg_graph *g, int n, const sg_tid *x, int dim);
sg_tid sg_pad2d(sg_graph *g, sg_tid x, int64_t left, int64_t right, int64_t top, int64_t bottom, double value);

/* Writes source into start.. of dim of base (x[.., start:] = source): 1 view, 1 op. Returns base's new value; base itself
 * must not be used any more. */
sg_tid sg_copy_slice(sg_graph *g, sg_tid base, int dim, int64_t start, sg_tid source);

/* Memory without values (to be written by sg_copy_slice or sg_emit_into): no op, 1 view. */
sg_tid sg_empty(sg_graph *g, sg_dtype dtype, int ndim, const int64_t *size);
/* Sources: 1 op. */
sg_tid sg_full(sg_graph *g, sg_dtype dtype, int ndim, const int64_t *size, double value);
sg_tid sg_arange(sg_graph *g, sg_dtype dtype, double start, double step, int64_t n);
/* per_sample_dim: the batch dim (values then do not depend on how samples are spread over ranks), or -1. */
sg_tid sg_randn(sg_graph *g, sg_dtype dtype, int ndim, const int64_t *size, int per_sample_dim);
sg_tid sg_rand(sg_graph *g, sg_dtype dtype, int ndim, const int64_t *size, double low, double high, int per_sample_dim);
sg_tid sg_randperm(sg_graph *g, int64_t n);
/* i64, low <= value < high. */
sg_tid sg_randint(sg_graph *g, int64_t low, int64_t high, int ndim, const int64_t *size, int per_sample_dim);

/* Element-wise: 1 op. Broadcasting as in PyTorch; the result takes the wider dtype. */
sg_tid sg_unary(sg_graph *g, sg_fn fn, sg_tid x, double alpha, double beta);
sg_tid sg_unary_in_place(sg_graph *g, sg_fn fn, sg_tid x, double alpha, double beta);
sg_tid sg_binary(sg_graph *g, sg_fn fn, sg_tid x, sg_tid y, double alpha);
sg_tid sg_binary_in_place(sg_graph *g, sg_fn fn, sg_tid x, sg_tid y, double alpha);
sg_tid sg_add(sg_graph *g, sg_tid x, sg_tid y);
sg_tid sg_sub(sg_graph *g, sg_tid x, sg_tid y);
sg_tid sg_mul(sg_graph *g, sg_tid x, sg_tid y);
sg_tid sg_div(sg_graph *g, sg_tid x, sg_tid y);
sg_tid sg_scale(sg_graph *g, sg_tid x, double factor);                   /* x * factor */
sg_tid sg_add_scalar(sg_graph *g, sg_tid x, double value);               /* x + value */
sg_tid sg_compare_scalar(sg_graph *g, sg_fn fn, sg_tid x, double value); /* fn EQ .. GE against a constant: bool */
sg_tid sg_where(sg_graph *g, sg_tid condition, sg_tid x, sg_tid y);
sg_tid sg_masked_fill(sg_graph *g, sg_tid x, sg_tid mask, double value);
sg_tid sg_relu(sg_graph *g, sg_tid x, bool in_place);
sg_tid sg_dropout(sg_graph *g, sg_tid x, double p, int batch_dim, int sample_group);

/* Reductions: 1 op. dims_mask bit d = dim d. */
sg_tid sg_reduce(sg_graph *g, sg_fn fn, sg_tid x, uint32_t dims_mask, bool keep_dims);
sg_tid sg_sum_all(sg_graph *g, sg_tid x);
sg_tid sg_mean_all(sg_graph *g, sg_tid x);
sg_tid sg_cumsum(sg_graph *g, sg_tid x, int dim);

/* Products. matmul/bmm: a[..,m,k] b[..,k,n]; 1 op. linear: weight[out,in], bias or SG_NO_TENSOR; x[..,in] -> [..,out].
 * act: applied after (inside the op where the profile fuses it, else as its own op). */
sg_tid sg_matmul(sg_graph *g, sg_tid a, sg_tid b);
/* residual + a b for 3-D operands; the residual (an additive attention mask) is broadcast. 1 op. */
sg_tid sg_baddbmm(sg_graph *g, sg_tid residual, sg_tid a, sg_tid b);
sg_tid sg_linear(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias);
/* bias[n] + x[..,k] weight[k,n] as one product over all rows of x: 1 op. */
sg_tid sg_addmm(sg_graph *g, sg_tid bias, sg_tid x, sg_tid weight);
sg_tid sg_linear_act(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, sg_fn act);
/* x[n,c,h,w], weight[o,c,kh,kw]; act and residual as for linear. */
sg_tid sg_conv2d(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, int stride, int pad);
sg_tid sg_conv2d_fused(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, sg_tid residual, sg_fn act, int stride,
                       int pad);
/* x[n,c,l], weight[o,c,k] -> [n,o,l']; one call, which is a convolution over images of height 1. */
sg_tid sg_conv1d(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, int stride, int pad);
/* x[n,c,l], weight[c,o,k] -> [n,o,(l-1) stride - 2 pad + k]: the gradient of a convolution by its input, then the bias is
 * added in place. */
sg_tid sg_conv_transpose1d(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, int stride, int pad);
sg_tid sg_max_pool2d(sg_graph *g, sg_tid x, int kernel, int stride, int pad);
sg_tid sg_resize2d(sg_graph *g, sg_tid x, int64_t height, int64_t width); /* bilinear */

sg_tid sg_softmax(sg_graph *g, sg_tid x); /* last dim */
sg_tid sg_layer_norm(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, double eps);
/* x[n,c,..], weight[c], bias[c]: batch norm as in training (groups 0) or group norm. 1 op. */
sg_tid sg_channel_norm(sg_graph *g, sg_tid x, sg_tid weight, sg_tid bias, int64_t groups, double eps);
sg_tid sg_rms_norm(sg_graph *g, sg_tid x, sg_tid weight,
                   double eps); /* fused kind; composed forms are written in layers */
/* q[b,h,t,d] k, v[b,h,s,d], mask or SG_NO_TENSOR: scaled_dot_product_attention. */
sg_tid sg_attention(sg_graph *g, sg_tid q, sg_tid k, sg_tid v, sg_tid mask);
sg_tid sg_embedding(sg_graph *g, sg_tid table, sg_tid index);
sg_tid sg_gather_rows(sg_graph *g, sg_tid x, sg_tid index); /* no gradient */

#endif
