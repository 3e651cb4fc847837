/* attention_rows.cu: softmax with mask and lse, and its gradient; a warp takes a row of scores. */
#include "kernels/cuda/any.cuh"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/platform.h"
#include "kernels/cuda/values.cuh"

enum { WARPS = 4, THREADS = WARPS * SG_WARP_LANES };

/* Strides of one tensor over [b, h, t, last]. */
struct place {
    int64_t stride[4];
};

struct rows {
    int64_t count, heads, t;
    int s, d;
    float alpha;
    int mask_dtype; /* -1: no mask */
    place mask, lse, d_o, o;
    int d_o_dtype, o_dtype, narrow_dtype;
};

__device__ __forceinline__ int64_t offset(const rows &r, const place &p, int64_t row) {
    int64_t head = row / r.t, b = head / r.heads;
    return b * p.stride[0] + (head - b * r.heads) * p.stride[1] + (row - head * r.t) * p.stride[2];
}

__device__ __forceinline__ float masked(const rows &r, float score, const void *mask, int64_t at, int i) {
    if (r.mask_dtype < 0) return score;
    float m = sg_any_load(mask, r.mask_dtype, at + i * r.mask.stride[3]);
    if (r.mask_dtype == SG_BOOL) return m != 0.0f ? score : -INFINITY;
    return score + m;
}

/* Largest score so far and the sum of exp(score - largest). */
struct softmax_sum {
    float largest, sum;
};
template <> __device__ __forceinline__ softmax_sum sg_lane_xor<softmax_sum>(softmax_sum v, int mask) {
    softmax_sum other;
    other.largest = sg_lane_xor(v.largest, mask);
    other.sum = sg_lane_xor(v.sum, mask);
    return other;
}
struct softmax_sum_of {
    typedef softmax_sum value;
    enum { ORDERED = 1 };
    static __device__ __forceinline__ softmax_sum none() { return softmax_sum{-INFINITY, 0.0f}; }
    static __device__ __forceinline__ softmax_sum join(softmax_sum a, softmax_sum b) {
        if (b.largest == -INFINITY) return a;
        if (a.largest == -INFINITY) return b;
        float largest = a.largest > b.largest || a.largest != a.largest ? a.largest : b.largest;
        return softmax_sum{largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
    }
};

/* Warps without a row stay for the shuffles of the others. */
static __global__ void softmax_rows(rows r, const float *scores, const void *mask, float *lse, void *to) {
    int64_t step = (int64_t)gridDim.x * WARPS;
    int lane = (int)(threadIdx.x % SG_WARP_LANES);
    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP_LANES; row < r.count; row += step) {
        const float *score = scores + row * r.s;
        int64_t mask_at = r.mask_dtype < 0 ? 0 : offset(r, r.mask, row);
        softmax_sum total = softmax_sum_of::none();
        for (int i = lane; i < r.s; i += SG_WARP_LANES)
            total = softmax_sum_of::join(total, softmax_sum{masked(r, score[i], mask, mask_at, i), 1.0f});
        total = sg_warp_reduce<softmax_sum_of>(total);
        bool empty = total.largest == -INFINITY;
        if (lane == 0) lse[offset(r, r.lse, row)] = empty ? -INFINITY : total.largest + logf(total.sum);
        float scale = 1.0f / total.sum;
        for (int i = lane; i < r.s; i += SG_WARP_LANES) {
            float p = empty ? 0.0f : expf(masked(r, score[i], mask, mask_at, i) - total.largest) * scale;
            sg_any_store(to, r.narrow_dtype, row * r.s + i, p);
        }
    }
}

static __global__ void slope_rows(rows r, const float *scores, const float *dp, const void *mask, const float *lse,
                                  const void *d_o, const void *o, void *probabilities, void *ds) {
    int64_t step = (int64_t)gridDim.x * WARPS;
    int lane = (int)(threadIdx.x % SG_WARP_LANES);
    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP_LANES; row < r.count; row += step) {
        int64_t mask_at = r.mask_dtype < 0 ? 0 : offset(r, r.mask, row), d_o_at = offset(r, r.d_o, row),
                o_at = offset(r, r.o, row);
        float dot = 0.0f, of_row = lse[offset(r, r.lse, row)];
        for (int i = lane; i < r.d; i += SG_WARP_LANES)
            dot += sg_any_load(d_o, r.d_o_dtype, d_o_at + i * r.d_o.stride[3]) *
                   sg_any_load(o, r.o_dtype, o_at + i * r.o.stride[3]);
        dot = sg_warp_sum(dot);
        for (int i = lane; i < r.s; i += SG_WARP_LANES) {
            int64_t at = row * r.s + i;
            float p = of_row == -INFINITY ? 0.0f : expf(masked(r, scores[at], mask, mask_at, i) - of_row);
            float slope = r.alpha * p * (dp[at] - dot);
            sg_any_store(probabilities, r.narrow_dtype, at, p);
            sg_any_store(ds, r.narrow_dtype, at, slope);
        }
    }
}

static place place_of(const sg_desc *d) {
    place p = {};
    for (int i = 0; i < d->ndim; i++) p.stride[i] = d->stride[i];
    return p;
}

static rows rows_of(const sg_attention_rows *a) {
    rows r = {};
    r.count = a->batches * a->heads * a->t;
    r.heads = a->heads;
    r.t = a->t;
    r.s = (int)a->s;
    r.d = (int)a->d;
    r.alpha = (float)a->alpha;
    r.mask_dtype = a->mask.ndim ? a->mask.dtype : -1;
    r.mask = place_of(&a->mask);
    for (int i = 0; i < 3; i++) r.lse.stride[i] = a->lse[i];
    r.d_o = place_of(&a->d_o);
    r.o = place_of(&a->o);
    r.d_o_dtype = a->d_o.dtype;
    r.o_dtype = a->o.dtype;
    r.narrow_dtype = a->narrow_dtype;
    return r;
}

static dim3 blocks_of(const sg_call *call, const rows &r) {
    return dim3(sg_cuda_blocks(call->device, r.count * SG_WARP_LANES, THREADS));
}

extern "C" sg_code sg_cuda_attention_softmax(const sg_call *call, const sg_attention_rows *a, const float *scores,
                                             const void *mask, float *lse, void *probabilities) {
    rows r = rows_of(a);
    return sg_cuda_launched(call, SG_LAUNCH_TOGETHER(softmax_rows, blocks_of(call, r), dim3(THREADS), call->stream, r,
                                                     scores, mask, lse, probabilities));
}

extern "C" sg_code sg_cuda_attention_slopes(const sg_call *call, const sg_attention_rows *a, const float *scores,
                                            const float *dp, const void *mask, const float *lse, const void *d_o,
                                            const void *o, void *probabilities, void *ds) {
    rows r = rows_of(a);
    return sg_cuda_launched(call, SG_LAUNCH_TOGETHER(slope_rows, blocks_of(call, r), dim3(THREADS), call->stream, r,
                                                     scores, dp, mask, lse, d_o, o, probabilities, ds));
}
