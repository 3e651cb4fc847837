/* cumsum.cu: CUMSUM. Along the last dim a warp scans a line, 32 elements per turn; along another dim neighbouring threads take
 * neighbouring lines, so that their accesses are coalesced. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dtypes.cuh"
#include "kernels/cuda/walk.cuh"

enum { THREADS = 128, LANES = 32 };

/* Lines along one dim; tensors: output, input. */
struct lines {
    sg_walk<2> first; /* the first elements of the lines */
    int64_t length, stride[2];
    int dtype[2];
};

__device__ __forceinline__ float from_below(float v, unsigned by) {
    return __shfl_up_sync(SG_WARP, v, by);
}
__device__ __forceinline__ double from_below(double v, unsigned by) {
    return __shfl_up_sync(SG_WARP, v, by);
}
__device__ __forceinline__ int64_t from_below(int64_t v, unsigned by) {
    return (int64_t)__shfl_up_sync(SG_WARP, (long long)v, by);
}

template <typename C> static __global__ void __launch_bounds__(THREADS) scan_by_warp(lines l, void *y, const void *x) {
    uint32_t line = blockIdx.x * (uint32_t)(THREADS / LANES) + threadIdx.x / LANES;
    unsigned lane = threadIdx.x % LANES;
    bool mine = line < l.first.count;
    sg_offsets<2> o = l.first.offsets(mine ? line : 0);
    C before = C(0);
    for (int64_t begin = 0; begin < l.length; begin += LANES) {
        int64_t i = begin + lane;
        C sum = i < l.length ? sg_load_one<C>(l.dtype[1], x, o.at[1] + i * l.stride[1]) : C(0);
        for (unsigned by = 1; by < LANES; by *= 2) {
            C other = from_below(sum, by);
            if (lane >= by) sum += other;
        }
        sum += before;
        if (mine && i < l.length) sg_store_one<C>(l.dtype[0], y, o.at[0] + i * l.stride[0], sum);
        before = __shfl_sync(SG_WARP, sum, LANES - 1);
    }
}

template <typename C>
static __global__ void __launch_bounds__(THREADS) scan_by_thread(lines l, void *y, const void *x) {
    uint32_t line = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    if (line >= l.first.count) return;
    sg_offsets<2> o = l.first.offsets(line);
    C sum = C(0);
    for (int64_t i = 0; i < l.length; i++) {
        sum += sg_load_one<C>(l.dtype[1], x, o.at[1] + i * l.stride[1]);
        sg_store_one<C>(l.dtype[0], y, o.at[0] + i * l.stride[0], sum);
    }
}

/* ---- host -------------------------------------------------------------------------------------------------------------- */

template <typename C> static cudaError_t scan(const sg_call *call) {
    const sg_desc *x = sg_in(call->plan, 0), *y = sg_out(call->plan, 0);
    int dim = call->plan->op.attrs.dim;
    sg_desc lines_of[2] = {*y, *x};
    for (int k = 0; k < 2; k++) lines_of[k].size[dim] = 1;
    const sg_desc *descs[2] = {&lines_of[0], &lines_of[1]};
    const size_t bytes[2] = {sg_dtype_bytes((sg_dtype)y->dtype), sg_dtype_bytes((sg_dtype)x->dtype)};
    char *at[2] = {static_cast<char *>(sg_out_at(call, 0)), static_cast<char *>(sg_in_at(call, 0))};
    return sg_in_parts<2>(sg_space_of<2>(descs), at, bytes, [&](const sg_space<2> &space, char *const *part) {
        const lines l = {sg_walk_of<2>(space, 1), y->size[dim], {y->stride[dim], x->stride[dim]}, {y->dtype, x->dtype}};
        void *to = part[0];
        const void *from = part[1];
        if (y->stride[dim] == 1) {
            unsigned blocks = (l.first.count - 1) / (THREADS / LANES) + 1;
            return SG_LAUNCH_TOGETHER((scan_by_warp<C>), dim3(blocks), dim3(THREADS), call->stream, l, to, from);
        }
        return SG_LAUNCH((scan_by_thread<C>), dim3((l.first.count - 1) / THREADS + 1), dim3(THREADS), call->stream, l,
                         to, from);
    });
}

static sg_code run(const sg_call *call) {
    int x = sg_in(call->plan, 0)->dtype, y = sg_out(call->plan, 0)->dtype;
    cudaError_t error = cudaSuccess;
    if (sg_is_integer(x) && sg_is_integer(y))
        error = scan<int64_t>(call);
    else if (sg_needs_double(x) || sg_needs_double(y))
        error = scan<double>(call);
    else
        error = scan<float>(call);
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_cumsum(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run;
    return SG_OK;
}
