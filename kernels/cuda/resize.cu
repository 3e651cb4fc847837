/* resize.cu: RESIZE: bilinear, half-pixel centres, no antialias. Output i reads at (i + 1/2) from / to - 1/2, not below 0
 * (PyTorch's interpolate with align_corners=False); as a fraction of integers, so that the place is exact. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/images.cuh"
#include "kernels/cuda/platform.h"
#include "kernels/cuda/values.cuh"

enum { THREADS = 256 };

struct resize {
    int height, width;
    int64_t outputs[4], x[4], y[4]; /* n, c, h, w */
    bool channels_last;
};

struct tap {
    int low, high;
    float weight; /* of high */
};

/* Sides are at most 2^15: the numerator fits 32 bits. */
__device__ __forceinline__ tap tap_of(uint32_t at, int from, int to) {
    uint32_t above = (2 * at + 1) * (uint32_t)from, below = 2 * (uint32_t)to;
    uint32_t numerator = above > (uint32_t)to ? above - (uint32_t)to : 0, low = numerator / below;
    tap t;
    t.weight = (float)(numerator - low * below) / (float)below;
    t.low = (int)low;
    t.high = t.low + 1 < from ? t.low + 1 : t.low;
    return t;
}

template <typename T> static __global__ void __launch_bounds__(THREADS) resize_to(const T *x, T *y, resize r) {
    int64_t count = r.outputs[0] * r.outputs[1] * r.outputs[2] * r.outputs[3];
    for (int64_t k = (int64_t)blockIdx.x * THREADS + threadIdx.x; k < count; k += (int64_t)gridDim.x * THREADS) {
        sg_place at = sg_place_of(r.outputs, count, r.channels_last, k);
        tap v = tap_of((uint32_t)at.h, r.height, (int)r.outputs[2]),
            u = tap_of((uint32_t)at.w, r.width, (int)r.outputs[3]);
        const T *plane = x + at.n * r.x[0] + at.c * r.x[1];
        const T *low = plane + v.low * r.x[2], *high = plane + v.high * r.x[2];
        int64_t a = u.low * r.x[3], b = u.high * r.x[3];
        float top = (1.0f - u.weight) * sg_to_float(low[a]) + u.weight * sg_to_float(low[b]);
        float bottom = (1.0f - u.weight) * sg_to_float(high[a]) + u.weight * sg_to_float(high[b]);
        y[sg_place_offset(r.y, at)] = sg_from_float<T>((1.0f - v.weight) * top + v.weight * bottom);
    }
}

template <typename T> static sg_code launch(const sg_call *call) {
    const resize *r = static_cast<const resize *>(call->plan->state);
    dim3 grid(sg_cuda_blocks(call->device, sg_desc_count(sg_out(call->plan, 0)), THREADS));
    return sg_cuda_launched(call, SG_LAUNCH(resize_to<T>, grid, dim3(THREADS), call->stream,
                                            static_cast<const T *>(sg_in_at(call, 0)),
                                            static_cast<T *>(sg_out_at(call, 0)), *r));
}

static sg_code run(const sg_call *call) {
    switch (sg_in(call->plan, 0)->dtype) {
    case SG_BF16: return launch<__nv_bfloat16>(call);
    case SG_F16: return launch<__half>(call);
    default: return launch<float>(call);
    }
}

extern "C" sg_code sg_cuda_resize(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    const int64_t LONGEST = 1 << 15;
    const sg_desc *x = sg_in(plan, 0), *y = sg_out(plan, 0);
    if (x->dtype == SG_F64 || x->dtype != y->dtype)
        return sg_cuda_refuse(&plan->op, "resizing is computed in fp32, from and to one dtype", status);
    for (int d = 2; d < 4; d++)
        if (x->size[d] > LONGEST || y->size[d] > LONGEST)
            return sg_cuda_refuse(&plan->op, "an image has a side of more than 32,768", status);
    sg_code code = sg_cuda_plan_state(plan, sizeof(resize), status);
    if (code != SG_OK) return code;
    resize *r = static_cast<resize *>(plan->state);
    plan->run = run;
    r->height = (int)x->size[2];
    r->width = (int)x->size[3];
    for (int d = 0; d < 4; d++) {
        r->outputs[d] = y->size[d];
        r->x[d] = x->stride[d];
        r->y[d] = y->stride[d];
    }
    r->channels_last = y->stride[1] == 1 && y->size[1] > 1;
    return SG_OK;
}
