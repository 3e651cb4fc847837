#include "kernels/rank_mean.h"

#include <string.h>

enum { BLOCK = 1024 };

static void mean_f32(const float *const *part, int parts, int64_t count, float *out) {
    const double scale = 1.0 / parts;
    double sum[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t n = count - start < BLOCK ? count - start : BLOCK;
        for (int64_t i = 0; i < n; i++) sum[i] = (double)part[0][start + i];
        for (int r = 1; r < parts; r++)
            for (int64_t i = 0; i < n; i++) sum[i] += (double)part[r][start + i];
        for (int64_t i = 0; i < n; i++) out[start + i] = (float)(sum[i] * scale);
    }
}

static float from_bf16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

static uint16_t to_bf16(float value) {
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if ((wide & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)(wide >> 16 | 0x40u); /* stays a NaN */
    return (uint16_t)((wide + 0x7FFFu + (wide >> 16 & 1u)) >> 16);
}

static void mean_bf16(const uint16_t *const *part, int parts, int64_t count, uint16_t *out) {
    float sum[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t n = count - start < BLOCK ? count - start : BLOCK;
        for (int64_t i = 0; i < n; i++) sum[i] = from_bf16(part[0][start + i]);
        for (int r = 1; r < parts; r++)
            for (int64_t i = 0; i < n; i++) sum[i] += from_bf16(part[r][start + i]);
        for (int64_t i = 0; i < n; i++) out[start + i] = to_bf16(sum[i] / (float)parts);
    }
}

void sg_rank_mean(sg_dtype dtype, const void *const *part, int parts, int64_t count, void *out) {
    if (dtype == SG_F32)
        mean_f32((const float *const *)part, parts, count, out);
    else
        mean_bf16((const uint16_t *const *)part, parts, count, out);
}
