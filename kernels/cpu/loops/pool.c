/* pool.c: max-pooling of runs: channels of a pixel, or pixels of a row. */
#include "kernels/cpu/loops/isa.h"

/* With a constant stride the loads become shuffles. */
static inline void pool_max(float *y, int32_t *index, const float *x, int64_t n, int64_t stride, int32_t at) {
    SG_SIMD for (int64_t i = 0; i < n; i++) {
        float value = x[i * stride];
        int better = value > y[i] || value != value;
        y[i] = better ? value : y[i];
        index[i] = better ? at : index[i];
    }
}

void SG_NAME(sg_pool_max)(float *y, int32_t *index, const float *x, int64_t n, int64_t stride, int32_t at) {
    if (stride == 1)
        pool_max(y, index, x, n, 1, at);
    else if (stride == 2)
        pool_max(y, index, x, n, 2, at);
    else
        pool_max(y, index, x, n, stride, at);
}

void SG_NAME(sg_pool_gather_u8)(float *dx, const float *dy, const uint8_t *index, int64_t n, uint8_t at) {
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] += index[i] == at ? dy[i] : 0.0f;
}

void SG_NAME(sg_pool_gather_i64)(float *dx, const float *dy, const int64_t *index, int64_t n, int64_t at) {
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] += index[i] == at ? dy[i] : 0.0f;
}
