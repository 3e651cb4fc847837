/* optimizer.c: AdamW on a run (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019), in the order in which
 * PyTorch rounds: decay, moments, bias corrections, step. */
#include "kernels/cpu/loops/isa.h"

#include <math.h>

void SG_NAME(sg_adamw)(float *p, const float *g, float *m, float *v, int64_t n, const sg_adamw_step *step) {
    const sg_adamw_step s = *step;
    SG_SIMD for (int64_t i = 0; i < n; i++) {
        float gradient = g[i] + s.couple * p[i];
        float first = m[i] + s.one_minus_1 * (gradient - m[i]);
        float second = s.beta2 * v[i] + s.one_minus_2 * gradient * gradient;
        float denominator = sqrtf(second) * s.inverse_correction2 + s.eps;
        p[i] = p[i] * s.keep - s.step_size * first / denominator;
        m[i] = first;
        v[i] = second;
    }
}
