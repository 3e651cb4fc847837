/* reduce.cu: REDUCE. Dims are kept or reduced. Where memory runs along a reduced dim, a warp or a block folds each output
 * ("rows"); where it runs along a kept dim, neighbouring lanes fold neighbouring outputs ("columns"). Few outputs with long
 * sums are split; the parts meet in the workspace and are folded by a second kernel, in the same order every time. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/reduce.cuh"

enum { THREADS = 256, WARPS = THREADS / SG_WARP_LANES, AHEAD = 4 };

/* Dims of one sort, innermost (smallest stride in x) first. */
struct axes {
    int n;
    int64_t count, size[SG_MAX_DIMS], x[SG_MAX_DIMS], y[SG_MAX_DIMS];

    __device__ __forceinline__ int64_t offset(int64_t at, const int64_t *stride) const {
        if (n == 1) return at * stride[0];
        int64_t o = 0;
        for (int d = 0; d < n; d++) {
            int64_t q = count <= 0xffffffffLL ? (int64_t)((uint32_t)at / (uint32_t)size[d]) : at / size[d];
            o += (at - q * size[d]) * stride[d];
            at = q;
        }
        return o;
    }
};

struct reduction {
    axes kept, reduced;
    bool columns, vectors, whole_block; /* rows: a block for each output, not a warp */
    int parts;
};

struct source {
    const void *x;
    int dtype;
    axes kept, reduced;
};

/* ---- kernels ------------------------------------------------------------------------------------------------------------- */

/* Positions from, from + step ... before end of one output's terms. Several loads are under way at a time. */
template <typename S, typename Op>
__device__ __forceinline__ typename Op::value fold(const source &s, int fn, int64_t base, int64_t from, int64_t end,
                                                   int64_t step) {
    typename Op::value total = Op::none();
    typename S::value v[AHEAD][S::VEC];
    for (; from + (AHEAD - 1) * step < end; from += AHEAD * step) {
        SG_UNROLL
        for (int k = 0; k < AHEAD; k++)
            S::load(s.x, s.dtype, base + s.reduced.offset(from + k * step, s.reduced.x), v[k]);
        SG_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            SG_UNROLL
            for (int j = 0; j < S::VEC; j++) total = Op::with(total, v[k][j], fn);
        }
    }
    for (; from < end; from += step) {
        S::load(s.x, s.dtype, base + s.reduced.offset(from, s.reduced.x), v[0]);
        SG_UNROLL
        for (int j = 0; j < S::VEC; j++) total = Op::with(total, v[0][j], fn);
    }
    return total;
}

/* Terms of part `part`, in whole units of VEC. */
__device__ __forceinline__ int64_t part_begin(int64_t count, int vec, unsigned part, unsigned parts) {
    int64_t units = count / vec;
    return (units / parts * part + units % parts * part / parts) * vec;
}

template <typename Op>
__device__ __forceinline__ void put(const source &s, const sg_reduce_to &to, typename Op::value *partial,
                                    int64_t output, typename Op::value total) {
    if (partial)
        partial[(int64_t)blockIdx.y * s.kept.count + output] = total;
    else
        Op::put(to, s.kept.offset(output, s.kept.y), total);
}

template <typename S, typename Op>
static __global__ void __launch_bounds__(THREADS)
    reduce_rows(source s, sg_reduce_to to, typename Op::value *partial, bool whole_block) {
    unsigned lane = whole_block ? threadIdx.x : threadIdx.x % SG_WARP_LANES;
    int64_t width = whole_block ? (int64_t)THREADS : (int64_t)SG_WARP_LANES, per_block = THREADS / width;
    int64_t first = (int64_t)blockIdx.x * per_block + (whole_block ? 0 : threadIdx.x / SG_WARP_LANES);
    int64_t begin = part_begin(s.reduced.count, S::VEC, blockIdx.y, gridDim.y);
    int64_t end = part_begin(s.reduced.count, S::VEC, blockIdx.y + 1, gridDim.y);
    for (int64_t output = first; output < s.kept.count; output += (int64_t)gridDim.x * per_block) {
        typename Op::value total =
            fold<S, Op>(s, to.fn, s.kept.offset(output, s.kept.x), begin + lane * S::VEC, end, width * S::VEC);
        total = whole_block ? sg_block_reduce<Op>(total) : sg_warp_reduce<Op>(total);
        if (lane == 0) put<Op>(s, to, partial, output, total);
    }
}

template <typename S, typename Op>
static __global__ void __launch_bounds__(THREADS)
    reduce_columns(source s, sg_reduce_to to, typename Op::value *partial) {
    typedef typename Op::value value;
    SG_SHARED(value, tile, THREADS);
    int64_t output = (int64_t)blockIdx.x * SG_WARP_LANES + threadIdx.x;
    int64_t begin = part_begin(s.reduced.count, 1, blockIdx.y, gridDim.y);
    int64_t end = part_begin(s.reduced.count, 1, blockIdx.y + 1, gridDim.y);
    value total = Op::none();
    if (output < s.kept.count)
        total = fold<S, Op>(s, to.fn, s.kept.offset(output, s.kept.x), begin + threadIdx.y, end, WARPS);
    tile[threadIdx.y * SG_WARP_LANES + threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y > 0 || output >= s.kept.count) return;
    for (int w = 1; w < WARPS; w++) total = Op::join(total, tile[w * SG_WARP_LANES + (int)threadIdx.x]);
    put<Op>(s, to, partial, output, total);
}

/* A warp folds the parts of an output. */
template <typename Op>
static __global__ void __launch_bounds__(THREADS)
    reduce_parts(axes kept, sg_reduce_to to, const typename Op::value *partial, int parts) {
    int64_t output = (int64_t)blockIdx.x * WARPS + threadIdx.x / SG_WARP_LANES;
    if (output >= kept.count) return;
    typename Op::value total = Op::none();
    for (int part = (int)sg_lane(); part < parts; part += SG_WARP_LANES)
        total = Op::join(total, partial[part * kept.count + output]);
    total = sg_warp_reduce<Op>(total);
    if (sg_lane() == 0) Op::put(to, kept.offset(output, kept.y), total);
}

/* ---- launches -------------------------------------------------------------------------------------------------------------- */

struct job {
    const sg_call *call;
    const reduction *r;
    source from;
    sg_reduce_to to;
    bool vectors;
};

static unsigned grid_of(int64_t blocks) {
    return (unsigned)(blocks < 0x7fffffff ? blocks : 0x7fffffff);
}

template <typename S, typename Op> static cudaError_t launch_rows(const job &j, typename Op::value *partial) {
    int64_t outputs = j.r->kept.count;
    dim3 grid(grid_of(j.r->whole_block ? outputs : (outputs + WARPS - 1) / WARPS), (unsigned)j.r->parts);
    return SG_LAUNCH_TOGETHER((reduce_rows<S, Op>), grid, dim3(THREADS), j.call->stream, j.from, j.to, partial,
                              j.r->whole_block);
}

template <typename S, typename Op> static cudaError_t launch(const job &j) {
    typedef typename Op::value value;
    value *partial = j.r->parts > 1 ? reinterpret_cast<value *>(j.call->workspace) : NULL;
    int64_t outputs = j.r->kept.count;
    cudaError_t error;
    if (j.r->columns) {
        dim3 grid((unsigned)((outputs + SG_WARP_LANES - 1) / SG_WARP_LANES), (unsigned)j.r->parts);
        error = SG_LAUNCH_TOGETHER((reduce_columns<S, Op>), grid, dim3(SG_WARP_LANES, WARPS), j.call->stream, j.from,
                                   j.to, partial);
    } else {
        error = launch_rows<S, Op>(j, partial);
    }
    if (error != cudaSuccess || !partial) return error;
    return SG_LAUNCH_TOGETHER((reduce_parts<Op>), dim3((unsigned)((outputs + WARPS - 1) / WARPS)), dim3(THREADS),
                              j.call->stream, j.r->kept, j.to, partial, j.r->parts);
}

template <typename S, typename V> static cudaError_t launch_fn(const job &j) {
    switch (j.to.fn) {
    case SG_FN_SUM:
    case SG_FN_MEAN: return launch<S, sg_reduce_sum<V>>(j);
    case SG_FN_STD: return launch<S, sg_reduce_std>(j);
    default: return launch<S, sg_reduce_best<V>>(j);
    }
}

/* 16 bytes at a time: rows of sums and of largest values alone, which are what is as fast as the memory. */
template <typename T> static cudaError_t launch_floats(const job &j) {
    if (!j.vectors) return launch_fn<sg_reduce_plain<T>, float>(j);
    float *partial = j.r->parts > 1 ? reinterpret_cast<float *>(j.call->workspace) : NULL;
    bool sum = j.to.fn == SG_FN_SUM || j.to.fn == SG_FN_MEAN;
    cudaError_t error = sum ? launch_rows<sg_reduce_dense<T>, sg_reduce_sum<float>>(j, partial)
                            : launch_rows<sg_reduce_dense<T>, sg_reduce_best<float>>(j, partial);
    if (error != cudaSuccess || !partial) return error;
    dim3 grid((unsigned)((j.r->kept.count + WARPS - 1) / WARPS));
    if (sum)
        return SG_LAUNCH_TOGETHER((reduce_parts<sg_reduce_sum<float>>), grid, dim3(THREADS), j.call->stream, j.r->kept,
                                  j.to, partial, j.r->parts);
    return SG_LAUNCH_TOGETHER((reduce_parts<sg_reduce_best<float>>), grid, dim3(THREADS), j.call->stream, j.r->kept,
                              j.to, partial, j.r->parts);
}

static sg_code run(const sg_call *call) {
    const reduction *r = static_cast<const reduction *>(call->plan->state);
    const sg_desc *x = sg_in(call->plan, 0), *y = sg_out(call->plan, 0);
    job j = {};
    j.call = call;
    j.r = r;
    j.from = source{sg_in_at(call, 0), x->dtype, r->kept, r->reduced};
    j.to = sg_reduce_to{sg_out_at(call, 0), y->dtype, call->plan->op.attrs.fn, r->reduced.count};
    j.vectors = r->vectors && sg_is_aligned(j.from.x);
    switch (x->dtype) {
    case SG_F32: return sg_cuda_launched(call, launch_floats<float>(j));
    case SG_BF16: return sg_cuda_launched(call, launch_floats<__nv_bfloat16>(j));
    case SG_F16: return sg_cuda_launched(call, launch_floats<__half>(j));
    default: return sg_cuda_launched(call, launch_fn<sg_reduce_integers, int64_t>(j));
    }
}

/* ---- plans -------------------------------------------------------------------------------------------------------------------- */

static void add_axis(axes *a, int64_t size, int64_t x, int64_t y) {
    int at = a->n++;
    for (; at > 0 && a->x[at - 1] > x; at--) {
        a->size[at] = a->size[at - 1];
        a->x[at] = a->x[at - 1];
        a->y[at] = a->y[at - 1];
    }
    a->size[at] = size;
    a->x[at] = x;
    a->y[at] = y;
    a->count *= size;
}

/* Dims that lie behind one another in x and in y become one; there is always one. */
static void join_axes(axes *a) {
    int n = 0;
    for (int d = 0; d < a->n; d++) {
        int last = n - 1;
        if (n > 0 && a->x[d] == a->x[last] * a->size[last] && a->y[d] == a->y[last] * a->size[last]) {
            a->size[last] *= a->size[d];
            continue;
        }
        a->size[n] = a->size[d];
        a->x[n] = a->x[d];
        a->y[n++] = a->y[d];
    }
    if (n == 0) {
        a->size[0] = 1;
        a->x[0] = a->y[0] = 0;
        n = 1;
    }
    a->n = n;
}

static bool runs_in_vectors(const reduction *r, int64_t vec) {
    if (r->reduced.x[0] != 1 || r->reduced.size[0] % vec != 0) return false;
    for (int d = 1; d < r->reduced.n; d++)
        if (r->reduced.x[d] % vec != 0) return false;
    for (int d = 0; d < r->kept.n; d++)
        if (r->kept.x[d] % vec != 0) return false;
    return true;
}

/* More parts where there are fewer blocks than keep the GPU busy, each of at least `least` terms. */
static int parts_of(const sg_device *device, int64_t blocks, int64_t terms, int64_t least) {
    const int64_t BLOCKS_PER_UNIT = 8, MOST = 1024;
    int64_t parts = (int64_t)device->units * BLOCKS_PER_UNIT / blocks, most = terms / least;
    if (parts > most) parts = most;
    return (int)(parts < 1 ? 1 : parts > MOST ? MOST : parts);
}

extern "C" sg_code sg_cuda_reduce(sg_device *device, sg_plan *plan, sg_status *status) {
    enum { WARP_LONGEST = 1024, COLUMNS_LEAST = 16, TERMS_LEAST = 16 };
    const sg_desc *x = sg_in(plan, 0), *y = sg_out(plan, 0);
    if (x->dtype == SG_F64 || y->dtype == SG_F64)
        return sg_cuda_refuse(&plan->op, "reductions are computed in fp32, not fp64", status);
    sg_code code = sg_cuda_plan_state(plan, sizeof(reduction), status);
    if (code != SG_OK) return code;
    reduction *r = static_cast<reduction *>(plan->state);
    plan->run = run;
    r->kept.count = r->reduced.count = 1;
    for (int d = 0; d < x->ndim; d++) {
        if (x->size[d] == 1) continue;
        if (plan->op.attrs.dims_mask & 1u << d)
            add_axis(&r->reduced, x->size[d], x->stride[d], 0);
        else
            add_axis(&r->kept, x->size[d], x->stride[d], y->stride[d]);
    }
    join_axes(&r->kept);
    join_axes(&r->reduced);
    bool wide = sg_dtype_is_float((sg_dtype)x->dtype) && plan->op.attrs.fn != SG_FN_STD;
    r->columns = r->kept.x[0] == 1 && r->kept.size[0] >= COLUMNS_LEAST;
    r->whole_block = r->reduced.count > WARP_LONGEST;
    r->vectors = wide && !r->columns && runs_in_vectors(r, 16 / (int64_t)sg_dtype_bytes((sg_dtype)x->dtype));
    int64_t outputs = r->kept.count;
    r->parts = r->columns       ? parts_of(device, (outputs + SG_WARP_LANES - 1) / SG_WARP_LANES, r->reduced.count,
                                           TERMS_LEAST * WARPS)
               : r->whole_block ? parts_of(device, outputs, r->reduced.count, TERMS_LEAST * THREADS)
                                : 1;
    if (r->parts > 1)
        plan->workspace_bytes = sg_cuda_align((uint64_t)r->parts * (uint64_t)outputs * sizeof(sg_moments));
    return SG_OK;
}
