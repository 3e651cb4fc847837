/* channel_norm.cu: CHANNEL_NORM and its backward: batch norm and group norm.
 *
 * Planes (one channel of one sample) are taken by a warp each, long ones by a block: one kernel leaves moments or sums of every
 * plane in the workspace, a second one joins those of a statistic in their order, so that results are the same every time,
 * and a third one writes the planes. */
#include "kernels/cuda/any.cuh"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/values.cuh"

enum { WARP = SG_WARP_LANES, BLOCK = 256, LONG_PLANE = 1024 };

/* ---- what kernels get ---------------------------------------------------------------------------------------------------- */

/* A tensor [n, c, ..]; strides in elements. */
struct image {
    void *at;
    int dtype;
    int64_t sample, channel;
};

/* A vector of channels. */
struct per_channel {
    void *at;
    int dtype;
    int64_t stride;
};

struct shape {
    int64_t samples, channels, groups, plane; /* groups 0: a channel over all samples; plane: elements of one */
    __device__ __host__ __forceinline__ int64_t planes() const { return samples * channels; }
    __device__ __host__ __forceinline__ int64_t units() const { return groups ? samples * groups : channels; }
    /* The statistic of a plane. */
    __device__ __forceinline__ int64_t unit(int64_t p) const {
        int64_t channel = p % channels;
        return groups ? p / channels * groups + channel / (channels / groups) : channel;
    }
    /* Planes of a statistic, and plane i of them. */
    __device__ __forceinline__ int64_t planes_of_unit() const { return groups ? channels / groups : samples; }
    __device__ __forceinline__ int64_t plane_of(int64_t unit, int64_t i) const {
        return groups ? unit * (channels / groups) + i : i * channels + unit;
    }
};

template <typename T> struct typed {
    static __device__ __forceinline__ float load(const image &t, int64_t i) {
        return sg_to_float(static_cast<const T *>(t.at)[i]);
    }
    static __device__ __forceinline__ void store(const image &t, int64_t i, float v) {
        static_cast<T *>(t.at)[i] = sg_from_float<T>(v);
    }
};

struct mixed {
    static __device__ __forceinline__ float load(const image &t, int64_t i) { return sg_any_load(t.at, t.dtype, i); }
    static __device__ __forceinline__ void store(const image &t, int64_t i, float v) {
        sg_any_store(t.at, t.dtype, i, v);
    }
};

static __device__ __forceinline__ int64_t plane_begin(const image &t, const shape &s, int64_t p) {
    return p / s.channels * t.sample + p % s.channels * t.channel;
}
static __device__ __forceinline__ float channel_value(const per_channel &v, int64_t channel) {
    return sg_any_load(v.at, v.dtype, channel * v.stride);
}

template <int THREADS> static __device__ __forceinline__ int64_t first_plane() {
    return (int64_t)blockIdx.x * (BLOCK / THREADS) + threadIdx.x / THREADS;
}
template <int THREADS> static __device__ __forceinline__ int64_t plane_step() {
    return (int64_t)gridDim.x * (BLOCK / THREADS);
}

/* ---- forward ------------------------------------------------------------------------------------------------------------- */

/* Moments of a plane around its first element, which lies near its mean: sums of what is left lose nothing. */
template <typename Way, int THREADS>
static __global__ void __launch_bounds__(BLOCK)
    plane_moments(image x, sg_layout<1> inside, shape s, sg_moments *moments) {
    for (int64_t p = first_plane<THREADS>(); p < s.planes(); p += plane_step<THREADS>()) {
        int64_t begin = plane_begin(x, s, p);
        float origin = Way::load(x, begin), sum = 0, squares = 0, count = 0;
        for (int64_t i = threadIdx.x % THREADS; i < s.plane; i += THREADS) {
            float v = Way::load(x, begin + inside.offsets(i).at[0]) - origin;
            sum += v;
            squares += v * v;
            count += 1;
        }
        sg_moments mine = sg_moments_of::none();
        if (count > 0) {
            float mean = sum / count, rest = squares - sum * mean;
            mine = sg_moments{count, origin + mean, rest > 0 ? rest : 0};
        }
        mine = sg_group_reduce<sg_moments_of, THREADS>(mine);
        if (threadIdx.x % THREADS == 0) moments[p] = mine;
    }
}

static __global__ void __launch_bounds__(BLOCK)
    unit_moments(shape s, const sg_moments *moments, float *mean, float *rstd, float eps) {
    for (int64_t unit = first_plane<WARP>(); unit < s.units(); unit += plane_step<WARP>()) {
        sg_moments all = sg_moments_of::none();
        for (int64_t i = threadIdx.x % WARP; i < s.planes_of_unit(); i += WARP)
            all = sg_moments_of::join(all, moments[s.plane_of(unit, i)]);
        all = sg_warp_reduce<sg_moments_of>(all);
        if (threadIdx.x % WARP > 0) continue;
        mean[unit] = all.mean;
        rstd[unit] = rsqrtf(all.squares / all.count + eps);
    }
}

template <typename Way, int THREADS>
static __global__ void __launch_bounds__(BLOCK)
    plane_values(image x, image y, per_channel w, per_channel b, sg_layout<2> inside, shape s, const float *mean,
                 const float *rstd) {
    for (int64_t p = first_plane<THREADS>(); p < s.planes(); p += plane_step<THREADS>()) {
        int64_t from = plane_begin(x, s, p), to = plane_begin(y, s, p), unit = s.unit(p), channel = p % s.channels;
        float middle = mean[unit], scale = rstd[unit] * channel_value(w, channel), shift = channel_value(b, channel);
        for (int64_t i = threadIdx.x % THREADS; i < s.plane; i += THREADS) {
            sg_offsets<2> o = inside.offsets(i);
            Way::store(y, to + o.at[1], (Way::load(x, from + o.at[0]) - middle) * scale + shift);
        }
    }
}

/* ---- backward ------------------------------------------------------------------------------------------------------------ */

/* Of a plane, or of a statistic: of dy, and of dy (x - mean); of a statistic both times w, and means. */
struct sums {
    float up, along;
};

template <typename Way, int THREADS>
static __global__ void __launch_bounds__(BLOCK)
    plane_sums(image dy, image x, sg_layout<2> inside, shape s, const float *mean, sums *of_plane) {
    for (int64_t p = first_plane<THREADS>(); p < s.planes(); p += plane_step<THREADS>()) {
        int64_t up_begin = plane_begin(dy, s, p), begin = plane_begin(x, s, p);
        float middle = mean[s.unit(p)], up = 0, along = 0;
        for (int64_t i = threadIdx.x % THREADS; i < s.plane; i += THREADS) {
            sg_offsets<2> o = inside.offsets(i);
            float v = Way::load(dy, up_begin + o.at[0]);
            up += v;
            along += v * (Way::load(x, begin + o.at[1]) - middle);
        }
        up = sg_group_reduce<sg_sum_of<float>, THREADS>(up);
        along = sg_group_reduce<sg_sum_of<float>, THREADS>(along);
        if (threadIdx.x % THREADS == 0) of_plane[p] = sums{up, along};
    }
}

static __global__ void __launch_bounds__(BLOCK)
    unit_sums(shape s, per_channel w, const float *rstd, const sums *of_plane, sums *of_unit) {
    for (int64_t unit = first_plane<WARP>(); unit < s.units(); unit += plane_step<WARP>()) {
        float up = 0, along = 0, share = 1.0f / ((float)s.planes_of_unit() * (float)s.plane);
        for (int64_t i = threadIdx.x % WARP; i < s.planes_of_unit(); i += WARP) {
            int64_t p = s.plane_of(unit, i);
            float weight = channel_value(w, p % s.channels);
            up += of_plane[p].up * weight;
            along += of_plane[p].along * weight;
        }
        up = sg_warp_sum(up);
        along = sg_warp_sum(along);
        if (threadIdx.x % WARP == 0) of_unit[unit] = sums{up * share, along * share * rstd[unit]};
    }
}

/* With g = dy w and h = (x - mean) rstd: dx = rstd (g - mean(g) - h mean(g h)). */
template <typename Way, int THREADS>
static __global__ void __launch_bounds__(BLOCK)
    plane_dx(image dy, image x, image dx, per_channel w, sg_layout<3> inside, shape s, const float *mean,
             const float *rstd, const sums *of_unit) {
    for (int64_t p = first_plane<THREADS>(); p < s.planes(); p += plane_step<THREADS>()) {
        int64_t up_begin = plane_begin(dy, s, p), begin = plane_begin(x, s, p), to = plane_begin(dx, s, p);
        int64_t unit = s.unit(p);
        float middle = mean[unit], scale = rstd[unit], weight = channel_value(w, p % s.channels);
        sums means = of_unit[unit];
        for (int64_t i = threadIdx.x % THREADS; i < s.plane; i += THREADS) {
            sg_offsets<3> o = inside.offsets(i);
            float h = (Way::load(x, begin + o.at[1]) - middle) * scale;
            float g = Way::load(dy, up_begin + o.at[0]) * weight;
            Way::store(dx, to + o.at[2], scale * (g - means.up - h * means.along));
        }
    }
}

static __global__ void __launch_bounds__(BLOCK)
    channel_weights(shape s, const float *rstd, const sums *of_plane, per_channel dw, per_channel db) {
    for (int64_t channel = first_plane<WARP>(); channel < s.channels; channel += plane_step<WARP>()) {
        float up = 0, along = 0;
        for (int64_t i = threadIdx.x % WARP; i < s.samples; i += WARP) {
            int64_t p = i * s.channels + channel;
            up += of_plane[p].up;
            along += of_plane[p].along * rstd[s.unit(p)];
        }
        up = sg_warp_sum(up);
        along = sg_warp_sum(along);
        if (threadIdx.x % WARP > 0) continue;
        sg_any_store(dw.at, dw.dtype, channel * dw.stride, along);
        sg_any_store(db.at, db.dtype, channel * db.stride, up);
    }
}

/* ---- plans --------------------------------------------------------------------------------------------------------------- */

struct channel_norm {
    shape s;
    sg_layout<1> x_inside;
    sg_layout<2> two_inside;   /* x, y; or dy, x */
    sg_layout<3> three_inside; /* dy, x, dx */
};

static image image_of(const sg_call *call, int pointer) {
    const sg_desc *d = &call->plan->op.desc[pointer];
    return image{call->pointers[pointer], d->dtype, d->stride[0], d->stride[1]};
}
static per_channel per_channel_of(const sg_call *call, int pointer) {
    const sg_desc *d = &call->plan->op.desc[pointer];
    return per_channel{call->pointers[pointer], d->dtype, d->stride[0]};
}

static dim3 grid_of(int64_t groups_of_threads, int threads) {
    int64_t per_block = BLOCK / threads, blocks = (groups_of_threads + per_block - 1) / per_block;
    return dim3((unsigned)(blocks < 0x7fffffff ? blocks : 0x7fffffff));
}

template <int VALUE> struct constant {
    enum { value = VALUE };
};
template <typename Way, typename F> static cudaError_t by_length(const shape &s, F launch) {
    return s.plane <= LONG_PLANE ? launch(Way(), constant<WARP>()) : launch(Way(), constant<BLOCK>());
}
/* Calls launch(Way(), threads of a plane as a type). */
template <typename F> static cudaError_t dispatch(const shape &s, const image *t, int images, F launch) {
    for (int i = 1; i < images; i++)
        if (t[i].dtype != t[0].dtype) return by_length<mixed>(s, launch);
    switch (t[0].dtype) {
    case SG_BF16: return by_length<typed<__nv_bfloat16>>(s, launch);
    case SG_F16: return by_length<typed<__half>>(s, launch);
    default: return by_length<typed<float>>(s, launch);
    }
}

static sg_code run_forward(const sg_call *call) {
    const channel_norm *n = static_cast<const channel_norm *>(call->plan->state);
    const shape s = n->s;
    const image t[2] = {image_of(call, 0), image_of(call, 3)};
    per_channel w = per_channel_of(call, 1), b = per_channel_of(call, 2);
    float *mean = static_cast<float *>(call->pointers[4]), *rstd = static_cast<float *>(call->pointers[5]);
    sg_moments *moments = reinterpret_cast<sg_moments *>(call->workspace);
    float eps = (float)call->plan->op.attrs.eps;
    sg_code code = sg_cuda_launched(call, dispatch(s, t, 1, [&](auto way, auto threads) {
                                        const int THREADS = decltype(threads)::value;
                                        return SG_LAUNCH_TOGETHER((plane_moments<decltype(way), THREADS>),
                                                                  grid_of(s.planes(), THREADS), dim3(BLOCK),
                                                                  call->stream, t[0], n->x_inside, s, moments);
                                    }));
    if (code == SG_OK)
        code = sg_cuda_launched(call, SG_LAUNCH_TOGETHER(unit_moments, grid_of(s.units(), WARP), dim3(BLOCK),
                                                         call->stream, s, moments, mean, rstd, eps));
    if (code != SG_OK) return code;
    return sg_cuda_launched(call, dispatch(s, t, 2, [&](auto way, auto threads) {
                                const int THREADS = decltype(threads)::value;
                                return SG_LAUNCH((plane_values<decltype(way), THREADS>), grid_of(s.planes(), THREADS),
                                                 dim3(BLOCK), call->stream, t[0], t[1], w, b, n->two_inside, s, mean,
                                                 rstd);
                            }));
}

static sg_code run_dx(const sg_call *call, const channel_norm *n, const sums *of_plane, sums *of_unit) {
    const shape s = n->s;
    const image t[3] = {image_of(call, 0), image_of(call, 1), image_of(call, 5)};
    per_channel w = per_channel_of(call, 4);
    const float *mean = static_cast<const float *>(call->pointers[2]);
    const float *rstd = static_cast<const float *>(call->pointers[3]);
    sg_code code = sg_cuda_launched(call, SG_LAUNCH_TOGETHER(unit_sums, grid_of(s.units(), WARP), dim3(BLOCK),
                                                             call->stream, s, w, rstd, of_plane, of_unit));
    if (code != SG_OK) return code;
    return sg_cuda_launched(call, dispatch(s, t, 3, [&](auto way, auto threads) {
                                const int THREADS = decltype(threads)::value;
                                return SG_LAUNCH((plane_dx<decltype(way), THREADS>), grid_of(s.planes(), THREADS),
                                                 dim3(BLOCK), call->stream, t[0], t[1], t[2], w, n->three_inside, s,
                                                 mean, rstd, of_unit);
                            }));
}

static sg_code run_backward(const sg_call *call) {
    const channel_norm *n = static_cast<const channel_norm *>(call->plan->state);
    const shape s = n->s;
    const image t[2] = {image_of(call, 0), image_of(call, 1)};
    const float *mean = static_cast<const float *>(call->pointers[2]);
    const float *rstd = static_cast<const float *>(call->pointers[3]);
    sums *of_plane = reinterpret_cast<sums *>(call->workspace), *of_unit = of_plane + s.planes();
    bool dx = !sg_flag(call->plan, SG_NO_DX);
    sg_code code = sg_cuda_launched(call, dispatch(s, t, 2, [&](auto way, auto threads) {
                                        const int THREADS = decltype(threads)::value;
                                        return SG_LAUNCH_TOGETHER(
                                            (plane_sums<decltype(way), THREADS>), grid_of(s.planes(), THREADS),
                                            dim3(BLOCK), call->stream, t[0], t[1], n->two_inside, s, mean, of_plane);
                                    }));
    if (code == SG_OK && dx) code = run_dx(call, n, of_plane, of_unit);
    if (code != SG_OK || sg_flag(call->plan, SG_NO_DW)) return code;
    per_channel dw = per_channel_of(call, 5 + dx), db = per_channel_of(call, 6 + dx);
    return sg_cuda_launched(call, SG_LAUNCH_TOGETHER(channel_weights, grid_of(s.channels, WARP), dim3(BLOCK),
                                                     call->stream, s, rstd, of_plane, dw, db));
}

/* Where the elements of a plane lie in N tensors: their layout without samples and channels. */
template <int N> static sg_layout<N> inside_of(const sg_desc *const *descs) {
    sg_desc plane[N];
    const sg_desc *at[N];
    for (int i = 0; i < N; i++) {
        plane[i] = *descs[i];
        plane[i].size[0] = plane[i].size[1] = 1;
        at[i] = &plane[i];
    }
    return sg_layout_of<N>(at);
}

static sg_code prepare(sg_plan *plan, const sg_desc *x, sg_status *status) {
    for (int i = 0; i < plan->op.n_in + plan->op.n_out; i++)
        if (plan->op.desc[i].dtype == SG_F64)
            return sg_cuda_refuse(&plan->op, "norms are computed in fp32, not fp64", status);
    sg_code code = sg_cuda_plan_state(plan, sizeof(channel_norm), status);
    if (code != SG_OK) return code;
    channel_norm *n = static_cast<channel_norm *>(plan->state);
    n->s.samples = x->size[0];
    n->s.channels = x->size[1];
    n->s.groups = plan->op.attrs.count;
    n->s.plane = sg_desc_count(x) / (x->size[0] * x->size[1]);
    return SG_OK;
}

extern "C" sg_code sg_cuda_channel_norm(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    sg_code code = prepare(plan, sg_in(plan, 0), status);
    if (code != SG_OK) return code;
    channel_norm *n = static_cast<channel_norm *>(plan->state);
    plan->run = run_forward;
    const sg_desc *descs[2] = {sg_in(plan, 0), sg_out(plan, 0)};
    n->x_inside = inside_of<1>(descs);
    n->two_inside = inside_of<2>(descs);
    plan->workspace_bytes = sg_cuda_align((uint64_t)n->s.planes() * sizeof(sg_moments));
    return SG_OK;
}

extern "C" sg_code sg_cuda_channel_norm_bwd(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    sg_code code = prepare(plan, sg_in(plan, 1), status);
    if (code != SG_OK) return code;
    channel_norm *n = static_cast<channel_norm *>(plan->state);
    plan->run = run_backward;
    const sg_desc *descs[3] = {sg_in(plan, 0), sg_in(plan, 1), sg_out(plan, 0)};
    n->two_inside = inside_of<2>(descs);
    if (!sg_flag(plan, SG_NO_DX)) n->three_inside = inside_of<3>(descs);
    plan->workspace_bytes = sg_cuda_align((uint64_t)(n->s.planes() + n->s.units()) * sizeof(sums));
    return SG_OK;
}
