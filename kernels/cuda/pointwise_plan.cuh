/* pointwise_plan.cuh: from an element-wise plan to its launch, for each of the four kinds' files. */
#ifndef SG_KERNELS_CUDA_POINTWISE_PLAN_CUH
#define SG_KERNELS_CUDA_POINTWISE_PLAN_CUH

#include "kernels/cuda/pointwise.cuh"
#include "kernels/cuda/tuples.cuh"

/* One launch of sg_function<Kind, FN, T> where dtypes and layout allow it. */
template <typename Kind, int FN, typename T>
static bool sg_try_function(const sg_attrs &attrs, const sg_pointwise<Kind::N> &p, int number,
                            const sg_space<Kind::N + 1> &space, char *const *at, cudaStream_t stream,
                            cudaError_t *error) {
    typedef sg_function<Kind, FN, T> F;
    F f = {};
    f.a = (float)attrs.alpha;
    f.b = (float)attrs.beta;
    return sg_dtypes_fit<F>(p, number) && sg_launch_if_vectors(f, p, space, at, stream, error);
}

/* One output from N inputs. attempt(attrs, pointwise, space, at, stream, error): goes through the kind's functions. */
template <typename Kind, typename Try>
static cudaError_t sg_pointwise_launch(const sg_attrs &attrs, const sg_alpha &alpha, const sg_pointwise<Kind::N> &p,
                                       char *const *at, cudaStream_t stream, const Try &attempt) {
    enum { N = Kind::N };
    bool constant = !alpha.scalar && !(attrs.flags & (SG_STEP_SIZE | SG_STEP_SQRT));
    return sg_in_parts<N + 1>(p.space, at, p.bytes, [&](const sg_space<N + 1> &space, char *const *part) {
        cudaError_t error = cudaSuccess;
        if (constant && attempt(attrs, p, space, part, stream, &error)) return error;
        if (p.in_double) return sg_launch_elements<Kind, double>(attrs.fn, alpha, attrs.beta, p, space, part, stream);
        return sg_launch_elements<Kind, float>(attrs.fn, alpha, attrs.beta, p, space, part, stream);
    });
}

template <typename Kind, typename Try> static sg_code sg_pointwise_run(const sg_call *call, const Try &attempt) {
    const sg_pointwise<Kind::N> &p = *static_cast<const sg_pointwise<Kind::N> *>(call->plan->state);
    char *at[Kind::N + 1];
    at[0] = static_cast<char *>(sg_out_at(call, 0));
    for (int k = 0; k < Kind::N; k++) at[k + 1] = static_cast<char *>(sg_in_at(call, k));
    cudaError_t error =
        sg_pointwise_launch<Kind>(call->plan->op.attrs, sg_alpha_for(call), p, at, call->stream, attempt);
    return sg_cuda_launched(call, error);
}

/* Sets state and run of a plan of this kind. */
template <typename Kind>
static sg_code sg_pointwise_prepare(sg_plan *plan, sg_code (*run)(const sg_call *), sg_status *status) {
    const sg_desc *desc[Kind::N + 1];
    sg_code code = sg_cuda_plan_state(plan, sizeof(sg_pointwise<Kind::N>), status);
    if (code != SG_OK) return code;
    desc[0] = sg_out(plan, 0);
    for (int k = 0; k < Kind::N; k++) desc[k + 1] = sg_in(plan, k);
    *static_cast<sg_pointwise<Kind::N> *>(plan->state) = sg_pointwise_of<Kind::N>(desc);
    plan->run = run;
    return SG_OK;
}

/* Defines `attempt_KIND`: the function of this fn for fp32, bf16 and fp16. FNS: one of functions.cuh's lists. */
#define SG_POINTWISE_CASE(name)                                                                                        \
    case SG_FN_##name:                                                                                                 \
        return sg_try_function<Kind, SG_FN_##name, T>(attrs, p, number, space, at, stream, error);
#define SG_POINTWISE_KIND(KIND, FNS)                                                                                   \
    template <typename Kind, typename T>                                                                               \
    static bool attempt_of(const sg_attrs &attrs, const sg_pointwise<Kind::N> &p, int number,                          \
                           const sg_space<Kind::N + 1> &space, char *const *at, cudaStream_t stream,                   \
                           cudaError_t *error) {                                                                       \
        switch (attrs.fn) {                                                                                            \
            FNS(SG_POINTWISE_CASE)                                                                                     \
        default: return false;                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static bool attempt(const sg_attrs &attrs, const sg_pointwise<KIND::N> &p, const sg_space<KIND::N + 1> &space,     \
                        char *const *at, cudaStream_t stream, cudaError_t *error) {                                    \
        int number = p.dtype.at[KIND::N]; /* the last input is never a condition, but for MASKED_FILL */               \
        if (KIND::N == 3 && attrs.fn == SG_FN_MASKED_FILL) number = p.dtype.at[1];                                     \
        switch (number) {                                                                                              \
        case SG_F32: return attempt_of<KIND, float>(attrs, p, number, space, at, stream, error);                       \
        case SG_BF16: return attempt_of<KIND, __nv_bfloat16>(attrs, p, number, space, at, stream, error);              \
        case SG_F16: return attempt_of<KIND, __half>(attrs, p, number, space, at, stream, error);                      \
        default: return false;                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static sg_code run(const sg_call *call) {                                                                          \
        return sg_pointwise_run<KIND>(call, attempt);                                                                  \
    }

/* Defines one of tuples.h's functions. */
#define SG_POINTWISE_TUPLE(name, KIND)                                                                                 \
    cudaError_t name(const sg_attrs &attrs, const sg_alpha &alpha, const sg_desc *const *desc, char *const *at,        \
                     cudaStream_t stream) {                                                                            \
        return sg_pointwise_launch<KIND>(attrs, alpha, sg_pointwise_of<KIND::N>(desc), at, stream, attempt);           \
    }

#endif
