/* alpha.cuh: the constant of an element-wise op where it is not known before the launch: from a device scalar, or, in a
 * recorded graph, from the step that the replay is for. */
#ifndef SG_KERNELS_CUDA_ALPHA_CUH
#define SG_KERNELS_CUDA_ALPHA_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/dtypes.cuh"

struct sg_alpha {
    double value, lr, beta1, beta2;
    uint32_t flags;
    const uint64_t *step_at; /* NULL: value holds */
    const void *scalar;      /* NULL: value holds */
    int scalar_dtype;
};

__device__ __host__ __forceinline__ double sg_alpha_of_step(uint32_t flags, double lr, double beta1, double beta2,
                                                            double step) {
    return flags & SG_STEP_SIZE ? -lr / (1 - pow(beta1, step)) : sqrt(1 - pow(beta2, step));
}

template <typename C> __device__ __forceinline__ C sg_alpha_now(const sg_alpha &a) {
    if (a.scalar) return sg_load_one<C>(a.scalar_dtype, a.scalar, 0);
    if (a.step_at) return (C)sg_alpha_of_step(a.flags, a.lr, a.beta1, a.beta2, (double)*a.step_at);
    return (C)a.value;
}

static inline sg_alpha sg_alpha_for(const sg_call *call) {
    const sg_attrs *attrs = &call->plan->op.attrs;
    sg_alpha a = {attrs->alpha, attrs->lr, attrs->beta1, attrs->beta2, attrs->flags, NULL, NULL, 0};
    if (attrs->flags & SG_SCALAR_TENSOR) {
        int last = call->plan->op.n_in - 1;
        a.scalar = sg_in_at(call, last);
        a.scalar_dtype = sg_in(call->plan, last)->dtype;
    } else if (attrs->flags & (SG_STEP_SIZE | SG_STEP_SQRT)) {
        sg_cuda_draw draw = sg_cuda_draw_of(call);
        a.step_at = draw.step_at;
        if (!draw.step_at)
            a.value = sg_alpha_of_step(attrs->flags, attrs->lr, attrs->beta1, attrs->beta2, (double)draw.step);
    }
    return a;
}

#endif
