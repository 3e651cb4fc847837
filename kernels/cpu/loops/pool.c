/* pool.c: max-pooling across channels. */
#include "kernels/cpu/loops/isa.h"

void SG_NAME(sg_pool_max)(float *y, int32_t *index, const float *x, int64_t n, int32_t at) {
    SG_SIMD for (int64_t i = 0; i < n; i++) {
        int better = x[i] > y[i] || x[i] != x[i];
        y[i] = better ? x[i] : y[i];
        index[i] = better ? at : index[i];
    }
}

void SG_NAME(sg_pool_gather_u8)(float *dx, const float *dy, const uint8_t *index, int64_t n, uint8_t at) {
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] += index[i] == at ? dy[i] : 0.0f;
}

void SG_NAME(sg_pool_gather_i64)(float *dx, const float *dy, const int64_t *index, int64_t n, int64_t at) {
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] += index[i] == at ? dy[i] : 0.0f;
}
