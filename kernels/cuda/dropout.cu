/* dropout.cu: DROPOUT and DROPOUT_BWD. */
#include "kernels/cuda/draws.cuh"
#include "kernels/cuda/pointwise.cuh"

enum { THREADS = 128, EACH = 4 };

/* Contiguous memory: a thread draws a block of words for four elements, EACH times. */
template <typename T>
static __global__ void __launch_bounds__(THREADS)
    drop_quads(sg_draws draws, uint64_t threshold, float scale, int64_t count, T *y, bool *mask, const T *x) {
    typedef sg_pack<T, 4> pack;
    int64_t first = (int64_t)blockIdx.x * (THREADS * EACH) + threadIdx.x;
    uint2 key = draws.key_now();
    pack in[EACH] = {};
    SG_UNROLL
    for (int u = 0; u < EACH; u++) {
        int64_t quad = first + u * THREADS;
        if (quad * 4 + 4 <= count) in[u] = reinterpret_cast<const pack *>(x)[quad];
    }
    SG_UNROLL
    for (int u = 0; u < EACH; u++) {
        int64_t quad = first + u * THREADS;
        if (quad * 4 >= count) break;
        uint4 w = draws.block(key, draws.place((uint64_t)quad * 4));
        const bool keeps[4] = {w.x >= threshold, w.y >= threshold, w.z >= threshold, w.w >= threshold};
        if (quad * 4 + 4 <= count) {
            pack out;
            sg_pack<bool, 4> kept;
            SG_UNROLL
            for (int k = 0; k < 4; k++) {
                out.at[k] = sg_from_float<T>(keeps[k] ? sg_to_float(in[u].at[k]) * scale : 0.0f);
                kept.at[k] = keeps[k];
            }
            reinterpret_cast<pack *>(y)[quad] = out;
            reinterpret_cast<sg_pack<bool, 4> *>(mask)[quad] = kept;
            continue;
        }
        for (int k = 0; quad * 4 + k < count; k++) {
            y[quad * 4 + k] = sg_from_float<T>(keeps[k] ? sg_to_float(x[quad * 4 + k]) * scale : 0.0f);
            mask[quad * 4 + k] = keeps[k];
        }
    }
}

/* Tensors: y, mask, x, and one without memory whose offset is the position. */
template <typename C>
static __global__ void __launch_bounds__(THREADS)
    drop_elements(sg_draws draws, uint64_t threshold, C scale, sg_walk<4> walk, uint64_t first, int y_dtype,
                  int x_dtype, void *y, bool *mask, const void *x) {
    uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    if (i >= walk.count) return;
    sg_offsets<4> o = walk.offsets(i);
    sg_random_place place = draws.place(first + (uint64_t)o.at[3]);
    bool keeps = sg_word_of(draws.block(draws.key_now(), place), place.index) >= threshold;
    C value = sg_load_one<C>(x_dtype, x, o.at[2]);
    sg_store_one<C>(y_dtype, y, o.at[0], keeps ? value * scale : C(0));
    mask[o.at[1]] = keeps;
}

/* ---- forward ------------------------------------------------------------------------------------------------------------- */

static double scale_of(const sg_attrs &attrs) {
    return 1 / (1 - attrs.alpha);
}

template <typename T> static cudaError_t quads(const sg_call *call, const sg_draws &draws) {
    const sg_attrs &attrs = call->plan->op.attrs;
    int64_t count = sg_desc_count(sg_in(call->plan, 0));
    int64_t blocks = (count - 1) / (4 * THREADS * EACH) + 1;
    return SG_LAUNCH((drop_quads<T>), dim3((unsigned)blocks), dim3(THREADS), call->stream, draws,
                     sg_random_drop_threshold(attrs.alpha), (float)scale_of(attrs), count,
                     static_cast<T *>(sg_out_at(call, 0)), static_cast<bool *>(sg_out_at(call, 1)),
                     static_cast<const T *>(sg_in_at(call, 0)));
}

template <typename C> static cudaError_t elements(const sg_call *call, const sg_draws &draws) {
    const sg_attrs &attrs = call->plan->op.attrs;
    const sg_desc *x = sg_in(call->plan, 0), *y = sg_out(call->plan, 0), *mask = sg_out(call->plan, 1);
    sg_desc position = sg_desc_make((sg_dtype)x->dtype, x->ndim, x->size);
    const sg_desc *descs[4] = {y, mask, x, &position};
    const size_t bytes[4] = {sg_dtype_bytes((sg_dtype)y->dtype), 1, sg_dtype_bytes((sg_dtype)x->dtype), 1};
    char *at[4] = {static_cast<char *>(sg_out_at(call, 0)), static_cast<char *>(sg_out_at(call, 1)),
                   static_cast<char *>(sg_in_at(call, 0)), NULL};
    return sg_in_parts<4>(sg_space_of<4>(descs), at, bytes, [&](const sg_space<4> &space, char *const *part) {
        sg_walk<4> walk = sg_walk_of<4>(space, 1);
        return SG_LAUNCH((drop_elements<C>), dim3((walk.count - 1) / THREADS + 1), dim3(THREADS), call->stream, draws,
                         sg_random_drop_threshold(attrs.alpha), (C)scale_of(attrs), walk, (uint64_t)(uintptr_t)part[3],
                         y->dtype, x->dtype, static_cast<void *>(part[0]), reinterpret_cast<bool *>(part[1]),
                         static_cast<const void *>(part[2]));
    });
}

static sg_code run(const sg_call *call) {
    const sg_desc *x = sg_in(call->plan, 0), *y = sg_out(call->plan, 0);
    const sg_draws draws = sg_draws_of(call, x);
    size_t bytes = sg_dtype_bytes((sg_dtype)x->dtype);
    uintptr_t addresses = (uintptr_t)sg_in_at(call, 0) | (uintptr_t)sg_out_at(call, 0);
    bool whole = x->dtype == y->dtype && sg_draws_in_quads(draws, x) && sg_desc_is_contiguous(x) &&
                 sg_desc_is_contiguous(y) && sg_desc_is_contiguous(sg_out(call->plan, 1)) &&
                 addresses % (4 * bytes) == 0 && (uintptr_t)sg_out_at(call, 1) % 4 == 0;
    cudaError_t error = cudaSuccess;
    if (whole && x->dtype == SG_F32)
        error = quads<float>(call, draws);
    else if (whole && x->dtype == SG_BF16)
        error = quads<__nv_bfloat16>(call, draws);
    else if (whole && x->dtype == SG_F16)
        error = quads<__half>(call, draws);
    else if (x->dtype == SG_F64 || y->dtype == SG_F64)
        error = elements<double>(call, draws);
    else
        error = elements<float>(call, draws);
    return sg_cuda_launched(call, error);
}

/* ---- backward ------------------------------------------------------------------------------------------------------------ */

/* dy where the mask holds, scaled. */
template <typename T> struct masked {
    enum { N = 2, WIDTH = 16 / sizeof(T) };
    typedef T out, in0, in2;
    typedef bool in1;
    float scale;
    __device__ __forceinline__ T operator()(T dy, bool keeps, T) const {
        return sg_from_float<T>(keeps ? sg_to_float(dy) * scale : 0.0f);
    }
};

struct masked_any {
    enum { N = 2 };
};
template <typename C, int U> __device__ __forceinline__ void sg_apply(masked_any, int, C (*x)[U], C *w, C scale, C) {
    SG_UNROLL
    for (int u = 0; u < U; u++) w[u] = x[1][u] != C(0) ? x[0][u] * scale : C(0);
}

template <typename T>
static bool try_masked(const sg_pointwise<2> &p, float scale, const sg_space<3> &space, char *const *at,
                       cudaStream_t stream, cudaError_t *error) {
    masked<T> f = {};
    f.scale = scale;
    return sg_launch_if_vectors(f, p, space, at, stream, error);
}

static cudaError_t mask_part(const sg_pointwise<2> &p, double scale, const sg_space<3> &space, char *const *at,
                             cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    int dtype = p.dtype.at[0] == p.dtype.at[1] ? p.dtype.at[0] : -1;
    if (dtype == SG_F32 && try_masked<float>(p, (float)scale, space, at, stream, &error)) return error;
    if (dtype == SG_BF16 && try_masked<__nv_bfloat16>(p, (float)scale, space, at, stream, &error)) return error;
    if (dtype == SG_F16 && try_masked<__half>(p, (float)scale, space, at, stream, &error)) return error;
    sg_alpha factor = {};
    factor.value = scale;
    if (p.in_double) return sg_launch_elements<masked_any, double>(0, factor, 0, p, space, at, stream);
    return sg_launch_elements<masked_any, float>(0, factor, 0, p, space, at, stream);
}

static sg_code run_backward(const sg_call *call) {
    const sg_desc *desc[3] = {sg_out(call->plan, 0), sg_in(call->plan, 0), sg_in(call->plan, 1)};
    const sg_pointwise<2> p = sg_pointwise_of<2>(desc);
    char *at[3] = {static_cast<char *>(sg_out_at(call, 0)), static_cast<char *>(sg_in_at(call, 0)),
                   static_cast<char *>(sg_in_at(call, 1))};
    cudaError_t error = sg_in_parts<3>(p.space, at, p.bytes, [&](const sg_space<3> &space, char *const *part) {
        return mask_part(p, scale_of(call->plan->op.attrs), space, part, call->stream);
    });
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_dropout(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = plan->op.kind == SG_OP_DROPOUT ? run : run_backward;
    return SG_OK;
}
