/* foreach.cu: FOREACH: a function on tuples of tensors.
 *
 * The functions that optimizers and gradient clipping consist of, on lists of one dtype whose tensors lie alike, run as
 * PyTorch's multi-tensor apply does; everything else goes tuple by tuple. */
#include "kernels/cuda/lists.cuh"
#include "kernels/cuda/pointwise.cuh"
#include "kernels/cuda/tuples.cuh"

/* F: a function of pointwise.cuh on one dtype. LISTS: its inputs, and the outputs where they are not the first inputs. */
template <typename F, int LISTS>
static __global__ void __launch_bounds__(SG_LIST_THREADS) on_lists(sg_list_part<LISTS> part, sg_alpha alpha, float b) {
    typedef typename F::out T;
    typedef sg_pack<T, F::WIDTH> pack;
    enum { N = F::N, W = F::WIDTH, U = N == 1 ? 4 : 2 };
    const sg_chunk<LISTS> chunk(part);
    const F f = {sg_alpha_now<float>(alpha), b};
    const T *in[3] = {};
    uintptr_t addresses = 0;
    SG_UNROLL
    for (int k = 0; k < N; k++) {
        in[k] = chunk.template of<T>(part, k);
        addresses |= reinterpret_cast<uintptr_t>(in[k]);
    }
    T *out = chunk.template of<T>(part, LISTS > N ? N : 0);
    addresses |= reinterpret_cast<uintptr_t>(out);
    int vectors = addresses % 16 == 0 ? chunk.n / W : 0;
    for (int base = (int)threadIdx.x; base < vectors; base += SG_LIST_THREADS * U) {
        pack x[3][U] = {};
        SG_UNROLL
        for (int u = 0; u < U; u++)
            if (base + u * SG_LIST_THREADS < vectors)
                for (int k = 0; k < N; k++) x[k][u] = reinterpret_cast<const pack *>(in[k])[base + u * SG_LIST_THREADS];
        SG_UNROLL
        for (int u = 0; u < U; u++) {
            if (base + u * SG_LIST_THREADS >= vectors) break;
            pack w;
            SG_UNROLL
            for (int i = 0; i < W; i++) w.at[i] = f(x[0][u].at[i], x[1][u].at[i], x[2][u].at[i]);
            reinterpret_cast<pack *>(out)[base + u * SG_LIST_THREADS] = w;
        }
    }
    for (int i = vectors * W + (int)threadIdx.x; i < chunk.n; i += SG_LIST_THREADS)
        out[i] = f(in[0][i], N > 1 ? in[1][i] : T(), N > 2 ? in[2][i] : T());
}

/* ---- which lists a kernel takes ------------------------------------------------------------------------------------------ */

struct foreach_state {
    int inputs;    /* lists read */
    int dtype;     /* of all tensors, or -1 */
    bool in_place; /* the outputs are the first list */
};

/* The tensors of tuple i: output, inputs. */
static void tuple_of(const sg_plan *plan, int inputs, int i, const sg_desc **desc) {
    desc[0] = sg_out(plan, i);
    for (int k = 0; k < inputs; k++) desc[k + 1] = sg_in(plan, k * plan->op.attrs.count + i);
}

static int common_dtype(const sg_plan *plan, int inputs) {
    int dtype = sg_out(plan, 0)->dtype;
    for (int i = 0; i < plan->op.attrs.count; i++) {
        const sg_desc *desc[4];
        tuple_of(plan, inputs, i, desc);
        for (int k = 0; k <= inputs; k++)
            if (desc[k]->dtype != dtype) return -1;
        if (!sg_lie_alike(desc, inputs + 1)) return -1;
    }
    return dtype;
}

template <typename F, int LISTS> static cudaError_t launch_lists(const sg_call *call) {
    int count = call->plan->op.attrs.count;
    const sg_alpha alpha = sg_alpha_for(call);
    float beta = (float)call->plan->op.attrs.beta;
    return sg_for_lists<LISTS>(
        count,
        [&](int64_t i) {
            sg_list_entry<LISTS> e = {};
            for (int k = 0; k < F::N; k++) e.at[k] = sg_in_at(call, k * count + (int)i);
            if (LISTS > F::N) e.at[LISTS - 1] = sg_out_at(call, (int)i);
            e.count = sg_desc_count(sg_out(call->plan, (int)i));
            return e;
        },
        [&](const sg_list_part<LISTS> &part, unsigned blocks) {
            return SG_LAUNCH((on_lists<F, LISTS>), dim3(blocks), dim3(SG_LIST_THREADS), call->stream, part, alpha,
                             beta);
        });
}

/* False: no kernel for this function. */
template <typename T> static bool try_lists(const sg_call *call, bool in_place, cudaError_t *error) {
    if (in_place) {
        switch (call->plan->op.attrs.fn) {
        case SG_FN_AFFINE: *error = launch_lists<sg_function<sg_unary, SG_FN_AFFINE, T>, 1>(call); return true;
        case SG_FN_DIV_SCALAR: *error = launch_lists<sg_function<sg_unary, SG_FN_DIV_SCALAR, T>, 1>(call); return true;
        case SG_FN_ADD: *error = launch_lists<sg_function<sg_binary, SG_FN_ADD, T>, 2>(call); return true;
        case SG_FN_MUL: *error = launch_lists<sg_function<sg_binary, SG_FN_MUL, T>, 2>(call); return true;
        case SG_FN_LERP: *error = launch_lists<sg_function<sg_binary, SG_FN_LERP, T>, 2>(call); return true;
        case SG_FN_ADDCMUL: *error = launch_lists<sg_function<sg_ternary, SG_FN_ADDCMUL, T>, 3>(call); return true;
        case SG_FN_ADDCDIV: *error = launch_lists<sg_function<sg_ternary, SG_FN_ADDCDIV, T>, 3>(call); return true;
        default: return false;
        }
    }
    switch (call->plan->op.attrs.fn) {
    case SG_FN_SQRT: *error = launch_lists<sg_function<sg_unary, SG_FN_SQRT, T>, 2>(call); return true;
    case SG_FN_AFFINE: *error = launch_lists<sg_function<sg_unary, SG_FN_AFFINE, T>, 2>(call); return true;
    default: return false;
    }
}

static cudaError_t tuple_by_tuple(const sg_call *call, int inputs) {
    const sg_attrs &attrs = call->plan->op.attrs;
    const sg_alpha alpha = sg_alpha_for(call);
    cudaError_t error = cudaSuccess;
    for (int i = 0; i < attrs.count && error == cudaSuccess; i++) {
        const sg_desc *desc[4];
        char *at[4] = {static_cast<char *>(sg_out_at(call, i))};
        tuple_of(call->plan, inputs, i, desc);
        for (int k = 0; k < inputs; k++) at[k + 1] = static_cast<char *>(sg_in_at(call, k * attrs.count + i));
        error = inputs == 1   ? sg_unary_tuple(attrs, alpha, desc, at, call->stream)
                : inputs == 2 ? sg_binary_tuple(attrs, alpha, desc, at, call->stream)
                              : sg_ternary_tuple(attrs, alpha, desc, at, call->stream);
    }
    return error;
}

static sg_code run(const sg_call *call) {
    const foreach_state *s = static_cast<const foreach_state *>(call->plan->state);
    cudaError_t error = cudaSuccess;
    bool done = false;
    if (s->dtype == SG_F32) done = try_lists<float>(call, s->in_place, &error);
    if (s->dtype == SG_BF16) done = try_lists<__nv_bfloat16>(call, s->in_place, &error);
    if (s->dtype == SG_F16) done = try_lists<__half>(call, s->in_place, &error);
    if (!done) error = tuple_by_tuple(call, s->inputs);
    return sg_cuda_launched(call, error);
}

extern "C" sg_code sg_cuda_foreach(sg_device *device, sg_plan *plan, sg_status *status) {
    (void)device;
    sg_code code = sg_cuda_plan_state(plan, sizeof(foreach_state), status);
    if (code != SG_OK) return code;
    foreach_state *s = static_cast<foreach_state *>(plan->state);
    s->inputs = sg_fn_arity((sg_fn)plan->op.attrs.fn);
    s->in_place = sg_flag(plan, SG_IN_PLACE);
    s->dtype = common_dtype(plan, s->inputs);
    plan->run = run;
    return SG_OK;
}
