/* amp.cu: AMP_UNSCALE and AMP_UPDATE: the loss scaler's pass over all gradients, and its update of the scale. */
#include "kernels/cuda/lists.cuh"
#include "kernels/cuda/pointwise.cuh"

/* Every writer of `found` writes 1. */
template <typename C> static __device__ __forceinline__ C unscale(C g, C inverse, float *found) {
    if (!isfinite(g)) *found = 1.0f;
    return g * inverse;
}

template <typename T, typename C>
static __global__ void __launch_bounds__(SG_LIST_THREADS)
    unscale_lists(sg_list_part<1> part, float *found, const float *inverse) {
    typedef sg_pack<T, 16 / sizeof(T)> pack;
    enum { W = 16 / sizeof(T), U = 4 };
    const sg_chunk<1> chunk(part);
    T *g = chunk.template of<T>(part, 0);
    C factor = (C)*inverse;
    int vectors = reinterpret_cast<uintptr_t>(g) % 16 == 0 ? chunk.n / W : 0;
    for (int base = (int)threadIdx.x; base < vectors; base += SG_LIST_THREADS * U) {
        pack v[U] = {};
        SG_UNROLL
        for (int u = 0; u < U; u++)
            if (base + u * SG_LIST_THREADS < vectors)
                v[u] = reinterpret_cast<const pack *>(g)[base + u * SG_LIST_THREADS];
        SG_UNROLL
        for (int u = 0; u < U; u++) {
            if (base + u * SG_LIST_THREADS >= vectors) break;
            SG_UNROLL
            for (int k = 0; k < W; k++)
                v[u].at[k] = sg_value_as<T, C>(unscale<C>(sg_value_of<C, T>(v[u].at[k]), factor, found));
            reinterpret_cast<pack *>(g)[base + u * SG_LIST_THREADS] = v[u];
        }
    }
    for (int i = vectors * W + (int)threadIdx.x; i < chunk.n; i += SG_LIST_THREADS)
        g[i] = sg_value_as<T, C>(unscale<C>(sg_value_of<C, T>(g[i]), factor, found));
}

/* One tensor of any dtype and layout. */
static __global__ void __launch_bounds__(SG_POINTWISE_THREADS)
    unscale_strided(sg_walk<1> walk, int dtype, void *g, float *found, const float *inverse) {
    uint32_t i = blockIdx.x * (uint32_t)SG_POINTWISE_THREADS + threadIdx.x;
    if (i >= walk.count) return;
    int64_t at = walk.offsets(i).at[0];
    double value = sg_load_one<double>(dtype, g, at);
    sg_store_one<double>(dtype, g, at, unscale<double>(value, (double)*inverse, found));
}

/* ---- host -------------------------------------------------------------------------------------------------------------- */

static bool in_lists(const sg_plan *plan, int i) {
    return sg_in(plan, i)->dtype == sg_in(plan, 0)->dtype && sg_desc_is_dense(sg_in(plan, i));
}

template <typename T, typename C>
static cudaError_t unscale_dense(const sg_call *call, float *found, const float *inverse) {
    return sg_for_lists<1>(
        call->plan->op.attrs.count,
        [&](int64_t i) {
            sg_list_entry<1> e = {};
            e.at[0] = sg_in_at(call, (int)i);
            e.count = in_lists(call->plan, (int)i) ? sg_desc_count(sg_in(call->plan, (int)i)) : 0;
            return e;
        },
        [&](const sg_list_part<1> &part, unsigned blocks) {
            return SG_LAUNCH((unscale_lists<T, C>), dim3(blocks), dim3(SG_LIST_THREADS), call->stream, part, found,
                             inverse);
        });
}

static cudaError_t unscale_one(const sg_call *call, int i, float *found, const float *inverse) {
    const sg_desc *g = sg_in(call->plan, i);
    const size_t bytes = sg_dtype_bytes((sg_dtype)g->dtype);
    char *at = static_cast<char *>(sg_in_at(call, i));
    return sg_in_parts<1>(sg_space_of<1>(&g), &at, &bytes, [&](const sg_space<1> &space, char *const *part) {
        sg_walk<1> walk = sg_walk_of<1>(space, 1);
        return SG_LAUNCH(unscale_strided, dim3(sg_pointwise_blocks(walk.count, 1)), dim3(SG_POINTWISE_THREADS),
                         call->stream, walk, g->dtype, static_cast<void *>(part[0]), found, inverse);
    });
}

static sg_code run_unscale(const sg_call *call) {
    int count = call->plan->op.attrs.count;
    float *found = static_cast<float *>(sg_in_at(call, count));
    const float *inverse = static_cast<const float *>(sg_in_at(call, count + 1));
    cudaError_t error = cudaErrorInvalidValue;
    switch (sg_in(call->plan, 0)->dtype) {
    case SG_F32: error = unscale_dense<float, float>(call, found, inverse); break;
    case SG_BF16: error = unscale_dense<__nv_bfloat16, float>(call, found, inverse); break;
    case SG_F16: error = unscale_dense<__half, float>(call, found, inverse); break;
    case SG_F64: error = unscale_dense<double, double>(call, found, inverse); break;
    }
    for (int i = 0; i < count && error == cudaSuccess; i++)
        if (!in_lists(call->plan, i)) error = unscale_one(call, i, found, inverse);
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_amp_unscale(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run_unscale;
    return SG_OK;
}

static __global__ void update_scale(float *scale, int32_t *tracker, const float *found, float growth, float backoff,
                                    int interval) {
    if (*found != 0.0f) {
        *scale *= backoff;
        *tracker = 0;
        return;
    }
    int steps = *tracker + 1;
    if (steps == interval) {
        float grown = *scale * growth;
        if (isfinite(grown)) *scale = grown;
        steps = 0;
    }
    *tracker = steps;
}

static sg_code run_update(const sg_call *call) {
    const sg_attrs &attrs = call->plan->op.attrs;
    return sg_cuda_launched(
        call, SG_LAUNCH(update_scale, dim3(1), dim3(1), call->stream, static_cast<float *>(sg_in_at(call, 0)),
                        static_cast<int32_t *>(sg_in_at(call, 1)), static_cast<const float *>(sg_in_at(call, 2)),
                        (float)attrs.alpha, (float)attrs.beta, attrs.count));
}

extern "C" sg_code sg_cuda_amp_update(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run_update;
    return SG_OK;
}
