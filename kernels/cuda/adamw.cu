/* adamw.cu: ADAMW: parameters, gradients and both moments in one pass over each, several tensors per launch, with the
 * arithmetic of PyTorch's fused AdamW (ATen/native/cuda/fused_adam_utils.cuh). */
#include "kernels/cuda/lists.cuh"
#include "kernels/cuda/pointwise.cuh"

template <typename C> struct adam {
    C decay, couple;                   /* of p; what is added of p to the gradient */
    C beta1, rest1, beta2, rest2, eps; /* rest: 1 - beta */
    C step_size, root2;                /* lr / (1 - beta1^step), sqrt(1 - beta2^step) */
    double lr, exact1, exact2;         /* exact: beta in double */
    const uint64_t *step_at;           /* not NULL: the two corrections are made by the kernel */
};

template <typename C> __device__ __host__ __forceinline__ void correct(adam<C> &a, double step) {
    a.step_size = (C)(a.lr / (1 - pow(a.exact1, step)));
    a.root2 = (C)sqrt(1 - pow(a.exact2, step));
}

template <typename C> __device__ __forceinline__ void update(const adam<C> &a, C &p, C g, C &m, C &v) {
    g += a.couple * p;
    m = a.beta1 * m + a.rest1 * g;
    v = a.beta2 * v + a.rest2 * g * g;
    p = p * a.decay - a.step_size * m / (sqrt(v) / a.root2 + a.eps);
}

template <typename C, typename P, typename G>
__device__ __forceinline__ void update_one(const adam<C> &a, P &p, G g, P &m, P &v) {
    C cp = sg_value_of<C, P>(p), cm = sg_value_of<C, P>(m), cv = sg_value_of<C, P>(v);
    update<C>(a, cp, sg_value_of<C, G>(g), cm, cv);
    p = sg_value_as<P, C>(cp);
    m = sg_value_as<P, C>(cm);
    v = sg_value_as<P, C>(cv);
}

template <typename C, typename P, typename G>
static __global__ void __launch_bounds__(SG_LIST_THREADS) adam_lists(sg_list_part<4> part, adam<C> a) {
    enum { W = 16 / sizeof(P) };
    typedef sg_pack<P, W> pack;
    typedef sg_pack<G, W> gradient;
    const sg_chunk<4> chunk(part);
    if (a.step_at) correct(a, (double)*a.step_at);
    P *p = chunk.template of<P>(part, 0), *m = chunk.template of<P>(part, 2), *v = chunk.template of<P>(part, 3);
    const G *g = chunk.template of<G>(part, 1);
    uintptr_t addresses = reinterpret_cast<uintptr_t>(p) | reinterpret_cast<uintptr_t>(m) |
                          reinterpret_cast<uintptr_t>(v) | reinterpret_cast<uintptr_t>(g);
    int vectors = addresses % 16 == 0 ? chunk.n / W : 0;
    for (int i = (int)threadIdx.x; i < vectors; i += SG_LIST_THREADS) {
        pack wp = reinterpret_cast<const pack *>(p)[i], wm = reinterpret_cast<const pack *>(m)[i],
             wv = reinterpret_cast<const pack *>(v)[i];
        gradient wg = reinterpret_cast<const gradient *>(g)[i];
        SG_UNROLL
        for (int k = 0; k < W; k++) update_one<C, P, G>(a, wp.at[k], wg.at[k], wm.at[k], wv.at[k]);
        reinterpret_cast<pack *>(p)[i] = wp;
        reinterpret_cast<pack *>(m)[i] = wm;
        reinterpret_cast<pack *>(v)[i] = wv;
    }
    for (int i = vectors * W + (int)threadIdx.x; i < chunk.n; i += SG_LIST_THREADS)
        update_one<C, P, G>(a, p[i], g[i], m[i], v[i]);
}

/* One tensor whose p, g, m and v do not lie alike. */
template <typename C, typename P, typename G>
static __global__ void __launch_bounds__(SG_POINTWISE_THREADS)
    adam_strided(sg_walk<4> walk, adam<C> a, P *p, const G *g, P *m, P *v) {
    uint32_t i = blockIdx.x * (uint32_t)SG_POINTWISE_THREADS + threadIdx.x;
    if (i >= walk.count) return;
    if (a.step_at) correct(a, (double)*a.step_at);
    sg_offsets<4> o = walk.offsets(i);
    update_one<C, P, G>(a, p[o.at[0]], g[o.at[1]], m[o.at[2]], v[o.at[3]]);
}

/* ---- host -------------------------------------------------------------------------------------------------------------- */

template <typename C> static adam<C> adam_of(const sg_call *call) {
    const sg_attrs &s = call->plan->op.attrs;
    sg_cuda_draw draw = sg_cuda_draw_of(call);
    adam<C> a = {};
    bool coupled = sg_flag(call->plan, SG_COUPLED_DECAY);
    a.decay = coupled ? (C)1 : (C)(1 - s.lr * s.weight_decay);
    a.couple = coupled ? (C)s.weight_decay : (C)0;
    a.beta1 = (C)s.beta1;
    a.rest1 = (C)(1 - s.beta1);
    a.beta2 = (C)s.beta2;
    a.rest2 = (C)(1 - s.beta2);
    a.eps = (C)s.eps;
    a.lr = s.lr;
    a.exact1 = s.beta1;
    a.exact2 = s.beta2;
    a.step_at = draw.step_at;
    correct(a, (double)draw.step);
    return a;
}

/* p, g, m, v of tensor i. */
static void tensors_of(const sg_plan *plan, int i, const sg_desc **desc) {
    for (int list = 0; list < 4; list++) desc[list] = sg_in(plan, list * plan->op.attrs.count + i);
}

template <typename C, typename P, typename G> static cudaError_t strided(const sg_call *call, const adam<C> &a, int i) {
    const sg_desc *desc[4];
    const size_t bytes[4] = {sizeof(P), sizeof(G), sizeof(P), sizeof(P)};
    char *at[4];
    tensors_of(call->plan, i, desc);
    for (int list = 0; list < 4; list++)
        at[list] = static_cast<char *>(sg_in_at(call, list * call->plan->op.attrs.count + i));
    return sg_in_parts<4>(sg_space_of<4>(desc), at, bytes, [&](const sg_space<4> &space, char *const *part) {
        sg_walk<4> walk = sg_walk_of<4>(space, 1);
        return SG_LAUNCH((adam_strided<C, P, G>), dim3(sg_pointwise_blocks(walk.count, 1)), dim3(SG_POINTWISE_THREADS),
                         call->stream, walk, a, reinterpret_cast<P *>(part[0]), reinterpret_cast<const G *>(part[1]),
                         reinterpret_cast<P *>(part[2]), reinterpret_cast<P *>(part[3]));
    });
}

template <typename C, typename P, typename G> static sg_code run(const sg_call *call) {
    int count = call->plan->op.attrs.count;
    const adam<C> a = adam_of<C>(call);
    const bool *alike = static_cast<const bool *>(call->plan->state);
    cudaError_t error = sg_for_lists<4>(
        count,
        [&](int64_t i) {
            sg_list_entry<4> e = {};
            for (int list = 0; list < 4; list++) e.at[list] = sg_in_at(call, list * count + (int)i);
            e.count = alike[i] ? sg_desc_count(sg_in(call->plan, (int)i)) : 0;
            return e;
        },
        [&](const sg_list_part<4> &part, unsigned blocks) {
            return SG_LAUNCH((adam_lists<C, P, G>), dim3(blocks), dim3(SG_LIST_THREADS), call->stream, part, a);
        });
    for (int i = 0; i < count && error == cudaSuccess; i++)
        if (!alike[i]) error = strided<C, P, G>(call, a, i);
    return sg_cuda_launched(call, error);
}

/* All of a list have one dtype; p, m and v share it. */
static bool dtypes_are(const sg_plan *plan, int parameter, int gradient) {
    int count = plan->op.attrs.count;
    for (int i = 0; i < 4 * count; i++)
        if (sg_in(plan, i)->dtype != (i / count == 1 ? gradient : parameter)) return false;
    return true;
}

extern "C" sg_code sg_cuda_adamw(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    int count = plan->op.attrs.count;
    if (dtypes_are(plan, SG_F32, SG_F32))
        plan->run = run<float, float, float>;
    else if (dtypes_are(plan, SG_BF16, SG_BF16))
        plan->run = run<float, __nv_bfloat16, __nv_bfloat16>;
    else if (dtypes_are(plan, SG_F16, SG_F16))
        plan->run = run<float, __half, __half>;
    else if (dtypes_are(plan, SG_F32, SG_BF16))
        plan->run = run<float, float, __nv_bfloat16>;
    else if (dtypes_are(plan, SG_F32, SG_F16))
        plan->run = run<float, float, __half>;
    else if (dtypes_are(plan, SG_F64, SG_F64))
        plan->run = run<double, double, double>;
    else
        return sg_cuda_refuse(&plan->op, "parameters and moments of several dtypes", status);
    sg_code code = sg_cuda_plan_state(plan, (size_t)count * sizeof(bool), status);
    if (code != SG_OK) return code;
    for (int i = 0; i < count; i++) {
        const sg_desc *desc[4];
        tensors_of(plan, i, desc);
        static_cast<bool *>(plan->state)[i] = sg_lie_alike(desc, 4);
    }
    return SG_OK;
}
