/* epilogue.cu: bias, residual and activation after a product, in one pass over memory. */
#include "kernels/cuda/any.cuh"
#include "kernels/cuda/epilogue.h"
#include "kernels/cuda/functions.cuh"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/platform.h"
#include "kernels/cuda/values.cuh"

enum { THREADS = 256 };

/* The dtype is the same for all threads, so that the branch costs next to nothing beside the access. */
template <typename V> __device__ __forceinline__ V load(const void *from, int dtype, int64_t i) {
    return dtype == SG_F64 ? (V) static_cast<const double *>(from)[i] : (V)sg_any_load(from, dtype, i);
}
template <typename V> __device__ __forceinline__ void store(void *to, int dtype, int64_t i, V v) {
    if (dtype == SG_F64)
        static_cast<double *>(to)[i] = (double)v;
    else
        sg_any_store(to, dtype, i, (float)v);
}

template <typename V> __device__ __forceinline__ V activate(int act, V x) {
    switch (act) {
    case SG_FN_RELU: return sg_unary_value<SG_FN_RELU, V>(x, 1, 0);
    case SG_FN_GELU_TANH: return sg_unary_value<SG_FN_GELU_TANH, V>(x, 1, 0);
    case SG_FN_GELU_ERF: return sg_unary_value<SG_FN_GELU_ERF, V>(x, 1, 0);
    case SG_FN_SILU: return sg_unary_value<SG_FN_SILU, V>(x, 1, 0);
    case SG_FN_ELU: return sg_unary_value<SG_FN_ELU, V>(x, 1, 0);
    case SG_FN_TANH: return sg_unary_value<SG_FN_TANH, V>(x, 1, 0);
    case SG_FN_SIGMOID: return sg_unary_value<SG_FN_SIGMOID, V>(x, 1, 0);
    default: return x;
    }
}

struct operands {
    const void *product, *bias, *residual;
    void *out;
    int product_dtype, out_dtype, bias_dtype, residual_dtype, act;
};

enum { PRODUCT, OUT, BIAS, RESIDUAL, OPERANDS };

template <typename V> static __global__ void finish(operands o, sg_layout<OPERANDS> layout) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < layout.count; i += step) {
        sg_offsets<OPERANDS> at = layout.offsets(i);
        V v = load<V>(o.product, o.product_dtype, at.at[PRODUCT]);
        if (o.bias) v += load<V>(o.bias, o.bias_dtype, at.at[BIAS]);
        if (o.residual) v += load<V>(o.residual, o.residual_dtype, at.at[RESIDUAL]);
        store<V>(o.out, o.out_dtype, at.at[OUT], activate<V>(o.act, v));
    }
}

extern "C" sg_desc sg_cuda_along(const sg_desc *vector, const sg_desc *shape, int dim) {
    sg_desc d = *shape;
    d.dtype = vector->dtype;
    for (int i = 0; i < shape->ndim; i++) d.stride[i] = i == dim ? vector->stride[0] : 0;
    return d;
}

extern "C" sg_code sg_cuda_epilogue(const sg_call *call, const sg_epilogue *e, const void *product, void *out,
                                    const void *bias, const void *residual) {
    operands o = {};
    o.product = product;
    o.out = out;
    o.bias = e->has_bias ? bias : nullptr;
    o.residual = e->has_residual ? residual : nullptr;
    o.product_dtype = e->product.dtype;
    o.out_dtype = e->out.dtype;
    o.bias_dtype = e->bias.dtype;
    o.residual_dtype = e->residual.dtype;
    o.act = e->act;
    const sg_desc *descs[OPERANDS] = {&e->product, &e->out, e->has_bias ? &e->bias : &e->out,
                                      e->has_residual ? &e->residual : &e->out};
    sg_layout<OPERANDS> layout = sg_layout_of<OPERANDS>(descs);
    dim3 blocks(sg_cuda_blocks(call->device, layout.count, THREADS)), threads(THREADS);
    cudaError_t error = e->product.dtype == SG_F64 ? SG_LAUNCH(finish<double>, blocks, threads, call->stream, o, layout)
                                                   : SG_LAUNCH(finish<float>, blocks, threads, call->stream, o, layout);
    return sg_cuda_launched(call, error);
}
