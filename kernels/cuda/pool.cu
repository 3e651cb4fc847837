/* pool.cu: MAXPOOL, and MAXPOOL_BWD as a gather: each pixel of x adds the gradients of those windows that took it, so that
 * no atomics are needed. Neighbouring threads take neighbouring elements in memory, whether NCHW or NHWC. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/images.cuh"
#include "kernels/cuda/platform.h"
#include "kernels/cuda/values.cuh"

enum { THREADS = 256 };

/* n, c, h, w of x and of y; element offsets. */
struct pool {
    int64_t size[4], outputs[4];
    int64_t x[4], y[4], index[4];
    int kernel[2], stride[2], pad[2];
    bool channels_last;
};

/* idx: i64 the position in the plane, u8 the position in the window. */
template <typename I> __device__ __forceinline__ I code_of(const pool &p, int64_t h, int64_t w, int i, int j) {
    return sizeof(I) == 1 ? (I)(i * p.kernel[1] + j) : (I)(h * p.size[3] + w);
}

/* The first of equal values wins; a NaN wins over all before it. */
template <typename T, typename I>
static __global__ void __launch_bounds__(THREADS) maxpool(const T *x, T *y, I *index, pool p) {
    int64_t count = p.outputs[0] * p.outputs[1] * p.outputs[2] * p.outputs[3];
    for (int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x; k < count; k += (int64_t)gridDim.x * THREADS) {
        sg_place at = sg_place_of(p.outputs, count, p.channels_last, k);
        int64_t top = at.h * p.stride[0] - p.pad[0], left = at.w * p.stride[1] - p.pad[1];
        const T *plane = x + at.n * p.x[0] + at.c * p.x[1];
        float best = -INFINITY;
        int best_i = top < 0 ? (int)-top : 0, best_j = left < 0 ? (int)-left : 0;
        for (int i = best_i; i < p.kernel[0] && top + i < p.size[2]; i++)
            for (int j = left < 0 ? (int)-left : 0; j < p.kernel[1] && left + j < p.size[3]; j++) {
                float v = sg_to_float(plane[(top + i) * p.x[2] + (left + j) * p.x[3]]);
                if (!(v > best || v != v)) continue;
                best = v;
                best_i = i;
                best_j = j;
            }
        y[sg_place_offset(p.y, at)] = sg_from_float<T>(best);
        index[sg_place_offset(p.index, at)] = code_of<I>(p, top + best_i, left + best_j, best_i, best_j);
    }
}

/* Windows that hold position `at` of x along one side: from .. to - 1. */
__device__ __forceinline__ void covering(int64_t at, int kernel, int stride, int pad, int64_t outputs, int64_t *from,
                                         int64_t *to) {
    int first = (int)at + pad - kernel + 1;
    *from = first > 0 ? (first + stride - 1) / stride : 0;
    *to = ((int)at + pad) / stride + 1;
    if (*to > outputs) *to = outputs;
}

template <typename T, typename I>
static __global__ void __launch_bounds__(THREADS) maxpool_bwd(const T *dy, const I *index, T *dx, pool p) {
    int64_t count = p.size[0] * p.size[1] * p.size[2] * p.size[3];
    for (int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x; k < count; k += (int64_t)gridDim.x * THREADS) {
        sg_place at = sg_place_of(p.size, count, p.channels_last, k), from, to, out = at;
        covering(at.h, p.kernel[0], p.stride[0], p.pad[0], p.outputs[2], &from.h, &to.h);
        covering(at.w, p.kernel[1], p.stride[1], p.pad[1], p.outputs[3], &from.w, &to.w);
        float sum = 0;
        for (out.h = from.h; out.h < to.h; out.h++)
            for (out.w = from.w; out.w < to.w; out.w++) {
                int i = (int)(at.h + p.pad[0] - out.h * p.stride[0]), j = (int)(at.w + p.pad[1] - out.w * p.stride[1]);
                if (index[sg_place_offset(p.index, out)] == code_of<I>(p, at.h, at.w, i, j))
                    sum += sg_to_float(dy[sg_place_offset(p.y, out)]);
            }
        dx[sg_place_offset(p.x, at)] = sg_from_float<T>(sum);
    }
}

/* ---- plans ---------------------------------------------------------------------------------------------------------------- */

template <typename T, typename I> static sg_code launch(const sg_call *call) {
    const pool *p = static_cast<const pool *>(call->plan->state);
    bool backward = call->plan->op.kind == SG_OP_MAXPOOL_BWD;
    const int64_t *size = backward ? p->size : p->outputs;
    dim3 grid(sg_cuda_blocks(call->device, size[0] * size[1] * size[2] * size[3], THREADS));
    void *const *at = call->pointers;
    if (backward)
        return sg_cuda_launched(call, SG_LAUNCH((maxpool_bwd<T, I>), grid, dim3(THREADS), call->stream,
                                                static_cast<const T *>(at[0]), static_cast<const I *>(at[1]),
                                                static_cast<T *>(at[2]), *p));
    return sg_cuda_launched(call,
                            SG_LAUNCH((maxpool<T, I>), grid, dim3(THREADS), call->stream, static_cast<const T *>(at[0]),
                                      static_cast<T *>(at[1]), static_cast<I *>(at[2]), *p));
}

template <typename T> static sg_code launch_index(const sg_call *call) {
    const sg_desc *index = sg_in(call->plan, 1); /* of both: backward's second input, forward's second output */
    if (call->plan->op.kind == SG_OP_MAXPOOL) index = sg_out(call->plan, 1);
    return index->dtype == SG_U8 ? launch<T, uint8_t>(call) : launch<T, int64_t>(call);
}

static sg_code run(const sg_call *call) {
    switch (sg_in(call->plan, 0)->dtype) {
    case SG_BF16: return launch_index<__nv_bfloat16>(call);
    case SG_F16: return launch_index<__half>(call);
    default: return launch_index<float>(call);
    }
}

extern "C" sg_code sg_cuda_maxpool(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    bool backward = plan->op.kind == SG_OP_MAXPOOL_BWD;
    const sg_desc *x = backward ? sg_out(plan, 0) : sg_in(plan, 0), *y = backward ? sg_in(plan, 0) : sg_out(plan, 0);
    const sg_desc *index = backward ? sg_in(plan, 1) : sg_out(plan, 1);
    if (x->dtype == SG_F64) return sg_cuda_refuse(&plan->op, "pooling is computed in fp32, not fp64", status);
    if (x->size[2] > 1 << 30 || x->size[3] > 1 << 30)
        return sg_cuda_refuse(&plan->op, "an image has a side of more than 2^30", status);
    sg_code code = sg_cuda_plan_state(plan, sizeof(pool), status);
    if (code != SG_OK) return code;
    pool *p = static_cast<pool *>(plan->state);
    plan->run = run;
    for (int d = 0; d < 4; d++) {
        p->size[d] = x->size[d];
        p->outputs[d] = y->size[d];
        p->x[d] = x->stride[d];
        p->y[d] = y->stride[d];
        p->index[d] = index->stride[d];
    }
    for (int i = 0; i < 2; i++) {
        p->kernel[i] = plan->op.attrs.kernel[i];
        p->stride[i] = plan->op.attrs.stride[i];
        p->pad[i] = plan->op.attrs.pad[i];
    }
    p->channels_last = y->stride[1] == 1 && y->size[1] > 1;
    return SG_OK;
}
