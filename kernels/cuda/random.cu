/* random.cu: RANDOM but for permutations: uniform, normal, integer and Bernoulli numbers. */
#include "kernels/cuda/draws.cuh"
#include "kernels/cuda/permutation.cuh"
#include "kernels/cuda/pointwise.cuh"

enum { THREADS = 256 };

/* What a word becomes. */
template <typename C> struct numbers {
    int fn;
    C alpha, beta;
    int64_t low;
    uint64_t range, threshold;
};

__device__ __forceinline__ void circle(float turns, float *s, float *c) {
    sincospif(2 * turns, s, c);
}
__device__ __forceinline__ void circle(double turns, double *s, double *c) {
    const double TWO_PI = 6.28318530717958647692;
    *s = sin(TWO_PI * turns);
    *c = cos(TWO_PI * turns);
}

/* Two words' numbers: normal ones come in pairs. */
template <typename C>
__device__ __forceinline__ void draw_pair(const numbers<C> &n, uint32_t w0, uint32_t w1, C *first, C *second) {
    const C UNIT = C(1.0 / 16777216.0);
    switch (n.fn) {
    case SG_FN_UNIFORM:
        *first = n.alpha + (n.beta - n.alpha) * ((C)(w0 >> 8) * UNIT);
        *second = n.alpha + (n.beta - n.alpha) * ((C)(w1 >> 8) * UNIT);
        break;
    case SG_FN_NORMAL: {
        C s, c, radius = sqrt(C(-2) * log((C)((w0 >> 8) + 1) * UNIT));
        circle((C)(w1 >> 8) * UNIT, &s, &c);
        *first = n.alpha + n.beta * (radius * c);
        *second = n.alpha + n.beta * (radius * s);
        break;
    }
    case SG_FN_INTEGER:
        *first = (C)sg_random_integer(w0, n.low, n.range);
        *second = (C)sg_random_integer(w1, n.low, n.range);
        break;
    default: *first = w0 >= n.threshold ? C(1) : C(0); *second = w1 >= n.threshold ? C(1) : C(0);
    }
}

/* Contiguous memory: a thread draws one block and writes its four numbers at once. */
template <typename C>
static __global__ void __launch_bounds__(THREADS)
    draw_quads(numbers<C> n, sg_draws draws, int64_t count, int dtype, void *y) {
    int64_t quad = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (quad * 4 >= count) return;
    uint4 w = draws.block(draws.key_now(), draws.place((uint64_t)quad * 4));
    C v[4];
    draw_pair<C>(n, w.x, w.y, &v[0], &v[1]);
    draw_pair<C>(n, w.z, w.w, &v[2], &v[3]);
    SG_FOR_DTYPE(
        dtype, T,
        if (quad * 4 + 4 <= count) {
            sg_pack<T, 4> four;
            for (int k = 0; k < 4; k++) four.at[k] = sg_value_as<T, C>(v[k]);
            static_cast<sg_pack<T, 4> *>(y)[quad] = four;
        } else {
            for (int k = 0; quad * 4 + k < count; k++) static_cast<T *>(y)[quad * 4 + k] = sg_value_as<T, C>(v[k]);
        })
}

/* Any layout: a thread draws for one element. Tensor 1 has no memory: its offset is the position. */
template <typename C>
static __global__ void __launch_bounds__(THREADS)
    draw_elements(numbers<C> n, sg_draws draws, sg_walk<2> walk, uint64_t first, int dtype, void *y) {
    uint32_t i = blockIdx.x * (uint32_t)THREADS + threadIdx.x;
    if (i >= walk.count) return;
    sg_offsets<2> o = walk.offsets(i);
    sg_random_place place = draws.place(first + (uint64_t)o.at[1]);
    uint4 w = draws.block(draws.key_now(), place);
    C even, odd;
    draw_pair<C>(n, place.index & 2 ? w.z : w.x, place.index & 2 ? w.w : w.y, &even, &odd);
    sg_store_one<C>(dtype, y, o.at[0], place.index & 1 ? odd : even);
}

/* ---- host -------------------------------------------------------------------------------------------------------------- */

template <typename C> static numbers<C> numbers_of(const sg_attrs &attrs) {
    numbers<C> n = {};
    n.fn = attrs.fn;
    n.alpha = (C)attrs.alpha;
    n.beta = (C)attrs.beta;
    n.threshold = sg_random_drop_threshold(1 - attrs.alpha);
    if (attrs.fn == SG_FN_INTEGER) {
        n.low = (int64_t)attrs.alpha;
        n.range = (uint64_t)(attrs.beta - attrs.alpha);
    }
    return n;
}

template <typename C> static cudaError_t draw(const sg_call *call) {
    const sg_desc *y = sg_out(call->plan, 0);
    const sg_draws draws = sg_draws_of(call, y);
    const numbers<C> n = numbers_of<C>(call->plan->op.attrs);
    int64_t count = sg_desc_count(y);
    size_t bytes = sg_dtype_bytes((sg_dtype)y->dtype);
    void *to = sg_out_at(call, 0);
    if (sg_desc_is_contiguous(y) && sg_draws_in_quads(draws, y) && (uintptr_t)to % (4 * bytes) == 0) {
        int64_t blocks = (count - 1) / (4 * THREADS) + 1;
        return SG_LAUNCH((draw_quads<C>), dim3((unsigned)blocks), dim3(THREADS), call->stream, n, draws, count,
                         y->dtype, to);
    }
    sg_desc position = sg_desc_make((sg_dtype)y->dtype, y->ndim, y->size);
    const sg_desc *descs[2] = {y, &position};
    const size_t sizes[2] = {bytes, 1};
    char *at[2] = {static_cast<char *>(to), NULL};
    return sg_in_parts<2>(sg_space_of<2>(descs), at, sizes, [&](const sg_space<2> &space, char *const *part) {
        sg_walk<2> walk = sg_walk_of<2>(space, 1);
        return SG_LAUNCH((draw_elements<C>), dim3((walk.count - 1) / THREADS + 1), dim3(THREADS), call->stream, n,
                         draws, walk, (uint64_t)(uintptr_t)part[1], y->dtype, static_cast<void *>(part[0]));
    });
}

static sg_code run(const sg_call *call) {
    const sg_attrs &attrs = call->plan->op.attrs;
    bool in_double = attrs.fn == SG_FN_INTEGER || sg_needs_double(sg_out(call->plan, 0)->dtype);
    return sg_cuda_launched(call, in_double ? draw<double>(call) : draw<float>(call));
}

extern "C" sg_code sg_cuda_random(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device, (void)status;
    plan->run = run;
    if (plan->op.attrs.fn == SG_FN_PERMUTATION) sg_permutation_prepare(plan);
    return SG_OK;
}
