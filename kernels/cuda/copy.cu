/* copy.cu: COPY: between layouts, between dtypes, or both. */
#include "kernels/cuda/pointwise.cuh"
#include "kernels/cuda/transpose.cuh"

/* ---- functions for pointwise.cuh's kernels --------------------------------------------------------------------------------- */

/* The same bits, W elements per access. */
template <typename T, int W> struct same_bits {
    enum { N = 1, WIDTH = W };
    typedef T out, in0, in1, in2;
    __device__ __forceinline__ T operator()(T x, T, T) const { return x; }
};

/* From one dtype to another through fp32; the wider one moves 16 bytes per access. */
template <typename From, typename To> struct converted {
    enum { N = 1, WIDTH = 16 / (sizeof(From) > sizeof(To) ? sizeof(From) : sizeof(To)) };
    typedef To out;
    typedef From in0, in1, in2;
    __device__ __forceinline__ To operator()(From x, From, From) const { return sg_from_float<To>(sg_to_float(x)); }
};

/* Any dtypes, for `elements`. */
struct convert {
    enum { N = 1 };
};
template <typename C, int U> __device__ __forceinline__ void sg_apply(convert, int, C (*x)[U], C *w, C, C) {
    SG_UNROLL
    for (int u = 0; u < U; u++) w[u] = x[0][u];
}

/* ---- one dtype ------------------------------------------------------------------------------------------------------------- */

template <typename T>
static __global__ void __launch_bounds__(SG_POINTWISE_THREADS) move_elements(sg_walk<2> walk, T *to, const T *from) {
    enum { U = SG_POINTWISE_EACH };
    uint32_t first = blockIdx.x * (uint32_t)(SG_POINTWISE_THREADS * U) + threadIdx.x;
    int64_t at[U] = {0};
    T value[U] = {0};
    SG_UNROLL
    for (int u = 0; u < U; u++) {
        uint32_t i = first + (uint32_t)(u * SG_POINTWISE_THREADS);
        if (i >= walk.count) break;
        sg_offsets<2> o = walk.offsets(i);
        at[u] = o.at[0];
        value[u] = from[o.at[1]];
    }
    SG_UNROLL
    for (int u = 0; u < U; u++)
        if (first + (uint32_t)(u * SG_POINTWISE_THREADS) < walk.count) to[at[u]] = value[u];
}

template <typename T>
static cudaError_t move(const sg_pointwise<1> &p, const sg_space<2> &space, char *const *at, cudaStream_t stream) {
    enum { W = 16 / sizeof(T), HALF = sizeof(T) <= 4 ? 8 / sizeof(T) : W };
    cudaError_t error = cudaSuccess;
    int a = 0;
    if (sg_launch_if_vectors(same_bits<T, W>(), p, space, at, stream, &error)) return error;
    if (HALF < W && sg_launch_if_vectors(same_bits<T, HALF>(), p, space, at, stream, &error)) return error;
    if (sg_is_transposition(space, &a)) return sg_launch_transpose<T>(space, a, at, stream);
    sg_walk<2> walk = sg_walk_of<2>(space, 1);
    return SG_LAUNCH((move_elements<T>), dim3(sg_pointwise_blocks(walk.count, SG_POINTWISE_EACH)),
                     dim3(SG_POINTWISE_THREADS), stream, walk, reinterpret_cast<T *>(at[0]),
                     reinterpret_cast<const T *>(at[1]));
}

static cudaError_t move_part(const sg_pointwise<1> &p, const sg_space<2> &space, char *const *at, cudaStream_t stream) {
    switch (p.bytes[0]) {
    case 1: return move<uint8_t>(p, space, at, stream);
    case 2: return move<uint16_t>(p, space, at, stream);
    case 4: return move<uint32_t>(p, space, at, stream);
    default: return move<uint64_t>(p, space, at, stream);
    }
}

/* ---- two dtypes -------------------------------------------------------------------------------------------------------------- */

template <typename From>
static bool convert_vectors(const sg_pointwise<1> &p, const sg_space<2> &space, char *const *at, cudaStream_t stream,
                            cudaError_t *error) {
    switch (p.dtype.at[0]) {
    case SG_F32: return sg_launch_if_vectors(converted<From, float>(), p, space, at, stream, error);
    case SG_BF16: return sg_launch_if_vectors(converted<From, __nv_bfloat16>(), p, space, at, stream, error);
    case SG_F16: return sg_launch_if_vectors(converted<From, __half>(), p, space, at, stream, error);
    default: return false;
    }
}

static bool try_vectors(const sg_pointwise<1> &p, const sg_space<2> &space, char *const *at, cudaStream_t stream,
                        cudaError_t *error) {
    switch (p.dtype.at[1]) {
    case SG_F32: return convert_vectors<float>(p, space, at, stream, error);
    case SG_BF16: return convert_vectors<__nv_bfloat16>(p, space, at, stream, error);
    case SG_F16: return convert_vectors<__half>(p, space, at, stream, error);
    case SG_U8: return convert_vectors<uint8_t>(p, space, at, stream, error);
    case SG_BOOL: return convert_vectors<bool>(p, space, at, stream, error);
    default: return false;
    }
}

static cudaError_t convert_part(const sg_pointwise<1> &p, const sg_space<2> &space, char *const *at,
                                cudaStream_t stream) {
    const sg_alpha none = {};
    cudaError_t error = cudaSuccess;
    if (try_vectors(p, space, at, stream, &error)) return error;
    if (sg_is_integer(p.dtype.at[0]) && sg_is_integer(p.dtype.at[1]))
        return sg_launch_elements<convert, int64_t>(0, none, 0, p, space, at, stream);
    if (p.in_double) return sg_launch_elements<convert, double>(0, none, 0, p, space, at, stream);
    return sg_launch_elements<convert, float>(0, none, 0, p, space, at, stream);
}

extern "C" cudaError_t sg_cuda_move(const sg_desc *y, const sg_desc *x, void *to, const void *from,
                                    cudaStream_t stream) {
    const sg_desc *desc[2] = {y, x};
    sg_pointwise<1> p = sg_pointwise_of<1>(desc);
    char *at[2] = {static_cast<char *>(to), static_cast<char *>(const_cast<void *>(from))};
    return sg_in_parts<2>(p.space, at, p.bytes, [&](const sg_space<2> &space, char *const *part) {
        return move_part(p, space, part, stream);
    });
}

/* ---- plans ------------------------------------------------------------------------------------------------------------------- */

static sg_code run(const sg_call *call) {
    const sg_pointwise<1> &p = *static_cast<const sg_pointwise<1> *>(call->plan->state);
    char *at[2] = {static_cast<char *>(sg_out_at(call, 0)), static_cast<char *>(sg_in_at(call, 0))};
    bool same = p.dtype.at[0] == p.dtype.at[1];
    if (same && p.space.is_flat()) /* as PyTorch does it */
        return sg_cuda_launched(call, cudaMemcpyAsync(at[0], at[1], (size_t)p.space.count * p.bytes[0],
                                                      cudaMemcpyDeviceToDevice, call->stream));
    cudaError_t error = sg_in_parts<2>(p.space, at, p.bytes, [&](const sg_space<2> &space, char *const *part) {
        return same ? move_part(p, space, part, call->stream) : convert_part(p, space, part, call->stream);
    });
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_copy(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    const sg_desc *desc[2] = {sg_out(plan, 0), sg_in(plan, 0)};
    sg_code code = sg_cuda_plan_state(plan, sizeof(sg_pointwise<1>), status);
    if (code != SG_OK) return code;
    *static_cast<sg_pointwise<1> *>(plan->state) = sg_pointwise_of<1>(desc);
    plan->run = run;
    return SG_OK;
}
