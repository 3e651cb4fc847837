/* pointwise.cuh: one output, N inputs, element by element.
 *
 * Two kernels. `vectors`: fn and dtypes are known when it is compiled; 16 bytes of the leading dtype per access, several in
 * flight per thread; along the innermost dim every operand is contiguous or repeats one element (a bias, a scalar, a
 * channel's factor). `elements`: everything else, with dtypes and fn asked once for several elements. */
#ifndef SG_KERNELS_CUDA_POINTWISE_CUH
#define SG_KERNELS_CUDA_POINTWISE_CUH

#include "kernels/cuda/alpha.cuh"
#include "kernels/cuda/functions.cuh"
#include "kernels/cuda/values.cuh"
#include "kernels/cuda/walk.cuh"

enum { SG_POINTWISE_THREADS = 128, SG_POINTWISE_EACH = 4 };

template <int N> struct sg_operands { char *at[N + 1]; /* output, inputs */ };
template <int N> struct sg_dtypes { int at[N + 1]; };

/* W elements as one access. */
template <typename T, int W> struct alignas(W * sizeof(T)) sg_pack { T at[W]; };

/* ---- fn known ---------------------------------------------------------------------------------------------------------- */

/* One operand's W elements from a position, or one element W times. */
template <typename T, int W>
__device__ __forceinline__ sg_pack<T, W> sg_pack_at(const char *at, int64_t i, bool repeats) {
    const T *from = reinterpret_cast<const T *>(at) + i;
    if (!repeats) return *reinterpret_cast<const sg_pack<T, W> *>(from);
    sg_pack<T, W> p;
    T one = *from;
    SG_UNROLL for (int k = 0; k < W; k++) p.at[k] = one;
    return p;
}

/* What is computed: Kind is sg_unary ..., T the dtype of its numbers. The dtypes of the rest follow from fn: conditions and
 * results of comparisons are bool. (The third input of two of the ternary functions is never read.) */
template <typename Kind, int FN, typename T> struct sg_function {
    template <bool B, typename X> struct bool_or { typedef X type; };
    template <typename X> struct bool_or<true, X> { typedef bool type; };
    enum { COMPARES = Kind::N == 2 && FN >= SG_FN_EQ && FN <= SG_FN_OR };
    enum { N = FN == SG_FN_MASKED_FILL || FN == SG_FN_CLAMP_BWD ? 2 : Kind::N, WIDTH = 16 / sizeof(T) };
    typedef typename bool_or<COMPARES || FN == SG_FN_NOT, T>::type out;
    typedef typename bool_or<FN == SG_FN_WHERE, T>::type in0;
    typedef typename bool_or<FN == SG_FN_MASKED_FILL, T>::type in1;
    typedef T in2;
    float a, b;

    __device__ __forceinline__ out operator()(in0 x, in1 y, in2 z) const {
        const float v[3] = {sg_to_float(x), sg_to_float(y), sg_to_float(z)};
        return sg_from_float<out>(Kind::template value<FN, float>(v, a, b));
    }
};

/* 16 bytes per thread and turn, U turns in flight. repeats: bit k: tensor k has stride 0 along the innermost dim. rest:
 * elements behind the last whole vector of a flat space. */
template <typename F, int U>
static __global__ void __launch_bounds__(SG_POINTWISE_THREADS)
    sg_vectors(F f, sg_walk<F::N + 1> walk, uint32_t rest, uint32_t repeats, sg_operands<F::N> t) {
    enum { W = F::WIDTH };
    typedef typename F::out out;
    typedef typename F::in0 in0;
    typedef typename F::in1 in1;
    typedef typename F::in2 in2;
    sg_pack<in0, W> x[U] = {};
    sg_pack<in1, W> y[F::N > 1 ? U : 1] = {};
    sg_pack<in2, W> z[F::N > 2 ? U : 1] = {};
    int64_t to[U] = {0};
    uint32_t first = blockIdx.x * (uint32_t)(SG_POINTWISE_THREADS * U) + threadIdx.x;
    SG_UNROLL for (int u = 0; u < U; u++) {
        uint32_t i = first + (uint32_t)(u * SG_POINTWISE_THREADS);
        if (i >= walk.count) break;
        sg_offsets<F::N + 1> o = walk.offsets(i);
        to[u] = o.at[0];
        x[u] = sg_pack_at<in0, W>(t.at[1], o.at[1], repeats & 2u);
        if constexpr (F::N > 1) y[u] = sg_pack_at<in1, W>(t.at[2], o.at[2], repeats & 4u);
        if constexpr (F::N > 2) z[u] = sg_pack_at<in2, W>(t.at[3], o.at[3], repeats & 8u);
    }
    SG_UNROLL for (int u = 0; u < U; u++) {
        uint32_t i = first + (uint32_t)(u * SG_POINTWISE_THREADS);
        if (i >= walk.count) break;
        sg_pack<out, W> w;
        SG_UNROLL for (int k = 0; k < W; k++) w.at[k] =
            f(x[u].at[k], y[F::N > 1 ? u : 0].at[k], z[F::N > 2 ? u : 0].at[k]);
        *reinterpret_cast<sg_pack<out, W> *>(reinterpret_cast<out *>(t.at[0]) + to[u]) = w;
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < rest) {
        int64_t i = (int64_t)walk.count * W + threadIdx.x;
        in0 one = reinterpret_cast<const in0 *>(t.at[1])[repeats & 2u ? 0 : i];
        in1 two = in1();
        in2 three = in2();
        if constexpr (F::N > 1) two = reinterpret_cast<const in1 *>(t.at[2])[repeats & 4u ? 0 : i];
        if constexpr (F::N > 2) three = reinterpret_cast<const in2 *>(t.at[3])[repeats & 8u ? 0 : i];
        reinterpret_cast<out *>(t.at[0])[i] = f(one, two, three);
    }
}

/* ---- fn and dtypes known at run time ------------------------------------------------------------------------------------- */

template <typename Kind, typename C>
static __global__ void __launch_bounds__(SG_POINTWISE_THREADS)
    sg_elements(int fn, sg_alpha alpha, double beta, sg_walk<Kind::N + 1> walk, sg_dtypes<Kind::N> dtype,
                sg_operands<Kind::N> t) {
    enum { N = Kind::N, U = SG_POINTWISE_EACH };
    uint32_t first = blockIdx.x * (uint32_t)(SG_POINTWISE_THREADS * U) + threadIdx.x;
    int64_t at[N + 1][U] = {};
    C x[N][U] = {}, w[U] = {};
    int n = 0;
    SG_UNROLL for (int u = 0; u < U; u++) {
        uint32_t i = first + (uint32_t)(u * SG_POINTWISE_THREADS);
        if (i >= walk.count) break;
        sg_offsets<N + 1> o = walk.offsets(i);
        SG_UNROLL for (int k = 0; k <= N; k++) at[k][u] = o.at[k];
        n = u + 1;
    }
    SG_UNROLL for (int k = 0; k < N; k++) sg_load_any<C, U>(dtype.at[k + 1], t.at[k + 1], at[k + 1], n, x[k]);
    sg_apply(Kind(), fn, x, w, sg_alpha_now<C>(alpha), (C)beta);
    sg_store_any<C, U>(dtype.at[0], t.at[0], at[0], n, w);
}

/* ---- host -------------------------------------------------------------------------------------------------------------- */

/* N inputs of a plan, or of one tuple of its lists: element sizes and layout, found once. */
template <int N> struct sg_pointwise {
    sg_space<N + 1> space;
    sg_dtypes<N> dtype;
    size_t bytes[N + 1];
    bool in_double;
};

template <int N> static sg_pointwise<N> sg_pointwise_of(const sg_desc *const *desc) {
    sg_pointwise<N> p = {};
    p.space = sg_space_of<N + 1>(desc);
    for (int k = 0; k <= N; k++) {
        p.dtype.at[k] = desc[k]->dtype;
        p.bytes[k] = sg_dtype_bytes((sg_dtype)desc[k]->dtype);
        p.in_double = p.in_double || sg_needs_double(desc[k]->dtype);
    }
    return p;
}

static inline unsigned sg_pointwise_blocks(uint32_t count, int each) {
    uint32_t per_block = (uint32_t)(SG_POINTWISE_THREADS * each);
    return count == 0 ? 1 : (count - 1) / per_block + 1;
}

/* Whether `vectors` of width W can do it; sets which operands repeat. */
template <int N>
static bool sg_fits_vectors(const sg_space<N> &space, char *const *at, const size_t *bytes, int width,
                            uint32_t *repeats) {
    *repeats = 0;
    if (space.ndim > 1 && space.size[0] % width != 0) return false;
    for (int k = 0; k < N; k++) {
        int64_t inner = space.ndim > 0 ? space.stride[0][k] : 1;
        if (inner == 0 && k > 0) {
            *repeats |= 1u << k;
            continue;
        }
        if (inner != 1 || (uintptr_t)at[k] % (bytes[k] * (size_t)width) != 0) return false;
        for (int d = 1; d < space.ndim; d++)
            if (space.stride[d][k] % width != 0) return false;
    }
    return true;
}

template <typename F>
static cudaError_t sg_launch_vectors(const F &f, const sg_space<F::N + 1> &space, char *const *at, uint32_t repeats,
                                     cudaStream_t stream) {
    enum { U = F::N == 1 ? 4 : 2 };
    sg_walk<F::N + 1> walk = sg_walk_of<F::N + 1>(space, F::WIDTH);
    uint32_t rest = (uint32_t)(space.count - (int64_t)walk.count * F::WIDTH);
    sg_operands<F::N> t = {};
    for (int k = 0; k <= F::N; k++) t.at[k] = at[k];
    return SG_LAUNCH((sg_vectors<F, U>), dim3(sg_pointwise_blocks(walk.count, U)), dim3(SG_POINTWISE_THREADS), stream,
                     f, walk, rest, repeats, t);
}

template <typename Kind, typename C>
static cudaError_t sg_launch_elements(int fn, const sg_alpha &alpha, double beta, const sg_pointwise<Kind::N> &p,
                                      const sg_space<Kind::N + 1> &space, char *const *at, cudaStream_t stream) {
    sg_operands<Kind::N> t = {};
    for (int k = 0; k <= Kind::N; k++) t.at[k] = at[k];
    sg_walk<Kind::N + 1> walk = sg_walk_of<Kind::N + 1>(space, 1);
    return SG_LAUNCH((sg_elements<Kind, C>), dim3(sg_pointwise_blocks(walk.count, SG_POINTWISE_EACH)),
                     dim3(SG_POINTWISE_THREADS), stream, fn, alpha, beta, walk, p.dtype, t);
}

/* The dtypes and layout that `vectors` with F asks for; F may read fewer operands than its kind has. */
template <typename F, int N>
static bool sg_launch_if_vectors(const F &f, const sg_pointwise<N> &p, const sg_space<N + 1> &space, char *const *at,
                                 cudaStream_t stream, cudaError_t *error) {
    const size_t bytes[4] = {sizeof(typename F::out), sizeof(typename F::in0), sizeof(typename F::in1),
                             sizeof(typename F::in2)};
    sg_space<F::N + 1> read = {};
    read.ndim = space.ndim;
    read.count = space.count;
    for (int k = 0; k <= F::N; k++)
        if (p.bytes[k] != bytes[k]) return false;
    for (int d = 0; d < space.ndim; d++) {
        read.size[d] = space.size[d];
        for (int k = 0; k <= F::N; k++) read.stride[d][k] = space.stride[d][k];
    }
    uint32_t repeats = 0;
    if (!sg_fits_vectors<F::N + 1>(read, at, bytes, F::WIDTH, &repeats)) return false;
    *error = sg_launch_vectors(f, read, at, repeats, stream);
    return true;
}

/* The operands' dtypes are those of a function whose numbers are `number`: bool where it asks for bool. */
template <typename F, int N> static bool sg_dtypes_fit(const sg_pointwise<N> &p, int number) {
    const bool is_bool[4] = {sizeof(typename F::out) == 1, sizeof(typename F::in0) == 1, sizeof(typename F::in1) == 1,
                             sizeof(typename F::in2) == 1};
    for (int k = 0; k <= F::N; k++)
        if (p.dtype.at[k] != (is_bool[k] ? (int)SG_BOOL : number)) return false;
    return true;
}

#endif
