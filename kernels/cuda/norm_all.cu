/* norm_all.cu: NORM_ALL: the 2-norm of each tensor of a list, in two phases as PyTorch's foreach norm: sums of squares by
 * chunk, then one block per tensor over its chunks. */
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/lists.cuh"
#include "kernels/cuda/pointwise.cuh"

enum { REDUCE_THREADS = 256 };

template <typename C> static __device__ __forceinline__ C block_total(C v) {
    return sg_block_reduce<sg_sum_of<C>>(v);
}

/* partial: [tensors][chunks_most]; the block of a tensor's first chunk clears what lies behind its last. */
template <typename C>
static __device__ __forceinline__ void keep(C *partial, int64_t chunk, int64_t chunks, int64_t most, C sum) {
    if (threadIdx.x == 0) partial[chunk] = sum;
    if (chunk != 0) return;
    for (int64_t i = chunks + threadIdx.x; i < most; i += blockDim.x) partial[i] = C(0);
}

template <typename T, typename C>
static __global__ void __launch_bounds__(SG_LIST_THREADS)
    squares_of_lists(sg_list_part<1> part, int64_t chunks_most, C *partial) {
    typedef sg_pack<T, 16 / sizeof(T)> pack;
    enum { W = 16 / sizeof(T), U = 4 };
    const sg_chunk<1> chunk(part);
    const T *x = chunk.template of<T>(part, 0);
    int vectors = reinterpret_cast<uintptr_t>(x) % 16 == 0 ? chunk.n / W : 0;
    C sum[U] = {};
    for (int base = (int)threadIdx.x; base < vectors; base += SG_LIST_THREADS * U) {
        pack v[U] = {};
        SG_UNROLL
        for (int u = 0; u < U; u++)
            if (base + u * SG_LIST_THREADS < vectors)
                v[u] = reinterpret_cast<const pack *>(x)[base + u * SG_LIST_THREADS];
        SG_UNROLL
        for (int u = 0; u < U; u++)
            for (int k = 0; k < W; k++) {
                C value = sg_value_of<C, T>(v[u].at[k]);
                sum[u] += value * value;
            }
    }
    for (int i = vectors * W + (int)threadIdx.x; i < chunk.n; i += SG_LIST_THREADS) {
        C value = sg_value_of<C, T>(x[i]);
        sum[0] += value * value;
    }
    C total = block_total<C>(sum[0] + sum[1] + (sum[2] + sum[3]));
    int64_t chunks = (part.count[chunk.tensor] - 1) / SG_LIST_CHUNK + 1;
    keep<C>(partial + part.number[chunk.tensor] * chunks_most, chunk.begin / SG_LIST_CHUNK, chunks, chunks_most, total);
}

/* One tensor of any dtype and layout, a block per chunk. */
template <typename C>
static __global__ void __launch_bounds__(SG_LIST_THREADS)
    squares_strided(sg_layout<1> layout, int dtype, const void *x, int64_t chunks_most, C *partial) {
    int64_t begin = (int64_t)blockIdx.x * SG_LIST_CHUNK, end = begin + SG_LIST_CHUNK;
    C sum = C(0);
    for (int64_t i = begin + threadIdx.x; i < end && i < layout.count; i += SG_LIST_THREADS) {
        C value = sg_load_one<C>(dtype, x, layout.offsets(i).at[0]);
        sum += value * value;
    }
    keep<C>(partial, blockIdx.x, gridDim.x, chunks_most, block_total<C>(sum));
}

template <typename C>
static __global__ void __launch_bounds__(REDUCE_THREADS)
    roots(const C *partial, int64_t chunks_most, C *y, int64_t y_stride) {
    C sum = C(0);
    for (int64_t i = threadIdx.x; i < chunks_most; i += REDUCE_THREADS) sum += partial[blockIdx.x * chunks_most + i];
    sum = block_total<C>(sum);
    if (threadIdx.x == 0) y[(int64_t)blockIdx.x * y_stride] = sqrt(sum);
}

/* ---- host -------------------------------------------------------------------------------------------------------------- */

struct norm_state {
    int64_t chunks_most;
    int dtype; /* of dense tensors that go through lists; others one by one */
};

static bool in_lists(const sg_plan *plan, int i) {
    const norm_state *s = static_cast<const norm_state *>(plan->state);
    return sg_in(plan, i)->dtype == s->dtype && sg_desc_is_dense(sg_in(plan, i));
}

template <typename T, typename C> static cudaError_t sum_lists(const sg_call *call, C *partial) {
    const norm_state *s = static_cast<const norm_state *>(call->plan->state);
    return sg_for_lists<1>(
        call->plan->op.n_in,
        [&](int64_t i) {
            sg_list_entry<1> e = {};
            e.at[0] = sg_in_at(call, (int)i);
            e.count = in_lists(call->plan, (int)i) ? sg_desc_count(sg_in(call->plan, (int)i)) : 0;
            return e;
        },
        [&](const sg_list_part<1> &part, unsigned blocks) {
            return SG_LAUNCH_TOGETHER((squares_of_lists<T, C>), dim3(blocks), dim3(SG_LIST_THREADS), call->stream, part,
                                      s->chunks_most, partial);
        });
}

template <typename C> static cudaError_t sum_one(const sg_call *call, int i, C *partial) {
    const norm_state *s = static_cast<const norm_state *>(call->plan->state);
    const sg_desc *x = sg_in(call->plan, i);
    sg_layout<1> layout = sg_layout_of<1>(&x);
    unsigned chunks = (unsigned)((layout.count - 1) / SG_LIST_CHUNK + 1);
    return SG_LAUNCH_TOGETHER((squares_strided<C>), dim3(chunks), dim3(SG_LIST_THREADS), call->stream, layout, x->dtype,
                              static_cast<const void *>(sg_in_at(call, i)), s->chunks_most,
                              partial + i * s->chunks_most);
}

template <typename C> static cudaError_t norms(const sg_call *call) {
    const norm_state *s = static_cast<const norm_state *>(call->plan->state);
    C *partial = reinterpret_cast<C *>(call->workspace);
    cudaError_t error = cudaSuccess;
    int n = call->plan->op.n_in;
    switch (s->dtype) {
    case SG_F32: error = sum_lists<float, C>(call, partial); break;
    case SG_BF16: error = sum_lists<__nv_bfloat16, C>(call, partial); break;
    case SG_F16: error = sum_lists<__half, C>(call, partial); break;
    default: error = sum_lists<double, C>(call, partial); break;
    }
    for (int i = 0; i < n && error == cudaSuccess; i++)
        if (!in_lists(call->plan, i)) error = sum_one<C>(call, i, partial);
    if (error != cudaSuccess) return error;
    return SG_LAUNCH_TOGETHER((roots<C>), dim3((unsigned)n), dim3(REDUCE_THREADS), call->stream,
                              static_cast<const C *>(partial), s->chunks_most, static_cast<C *>(sg_out_at(call, 0)),
                              sg_out(call->plan, 0)->stride[0]);
}

static sg_code run(const sg_call *call) {
    bool in_double = sg_out(call->plan, 0)->dtype == SG_F64;
    return sg_cuda_launched(call, in_double ? norms<double>(call) : norms<float>(call));
}

extern "C" sg_code sg_cuda_norm_all(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    sg_code code = sg_cuda_plan_state(plan, sizeof(norm_state), status);
    if (code != SG_OK) return code;
    norm_state *s = static_cast<norm_state *>(plan->state);
    s->dtype = sg_in(plan, 0)->dtype;
    for (int i = 0; i < plan->op.n_in; i++) {
        int64_t chunks = (sg_desc_count(sg_in(plan, i)) - 1) / SG_LIST_CHUNK + 1;
        if (chunks > s->chunks_most) s->chunks_most = chunks;
    }
    plan->workspace_bytes = sg_cuda_align((uint64_t)plan->op.n_in * (uint64_t)s->chunks_most *
                                          sg_dtype_bytes((sg_dtype)sg_out(plan, 0)->dtype));
    plan->run = run;
    return SG_OK;
}
