/* random.c: words of kernels/philox.h, many blocks at a time, and what is made of them. */
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/math.h"

/* As many blocks side by side as two 512-bit registers hold. */
enum { LANES = 32 };

static void philox_lanes(uint32_t *out, sg_philox_key key, uint64_t sample, uint64_t first_block) {
    uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
    for (int i = 0; i < LANES; i++) {
        c0[i] = (uint32_t)(first_block + (uint64_t)i);
        c1[i] = (uint32_t)((first_block + (uint64_t)i) >> 32);
        c2[i] = (uint32_t)sample;
        c3[i] = (uint32_t)(sample >> 32);
    }
    uint32_t k0 = key.word[0], k1 = key.word[1];
    for (int round = 0; round < 10; round++) {
        SG_SIMD for (int i = 0; i < LANES; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
            c1[i] = (uint32_t)p1;
            c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c3[i] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int i = 0; i < LANES; i++) {
        out[4 * i] = c0[i];
        out[4 * i + 1] = c1[i];
        out[4 * i + 2] = c2[i];
        out[4 * i + 3] = c3[i];
    }
}

void SG_NAME(sg_philox)(uint32_t *out, sg_philox_key key, uint64_t sample, uint64_t first_block, int64_t blocks) {
    int64_t at = 0;
    for (; at + LANES <= blocks; at += LANES) philox_lanes(out + 4 * at, key, sample, first_block + (uint64_t)at);
    for (; at < blocks; at++) {
        sg_philox_block block = sg_philox_block_of(key, sample, first_block + (uint64_t)at);
        memcpy(out + 4 * at, block.word, sizeof block.word);
    }
}

static inline float unit(uint32_t word) {
    return (float)(int32_t)(word >> 8) * 0x1p-24f;
}

void SG_NAME(sg_uniform)(float *w, const uint32_t *words, int64_t n, float low, float width) {
    SG_SIMD for (int64_t i = 0; i < n; i++) w[i] = low + width * unit(words[i]);
}

/* sin and cos of 2 pi u: the quarter is exact, what remains is at most pi/4. */
void SG_NAME(sg_normal)(float *w, const uint32_t *words, int64_t n, float mean, float sd) {
    SG_SIMD for (int64_t i = 0; i < n / 2; i++) {
        float u = (float)(int32_t)((words[2 * i] >> 8) + 1) * 0x1p-24f;
        float turns = 4.0f * unit(words[2 * i + 1]);
        float radius = sd * sqrtf(-2.0f * sg_log(u));
        float quarter = (turns + SG_ROUNDER) - SG_ROUNDER;
        float r = (turns - quarter) * 1.57079633f;
        w[2 * i] = mean + radius * sg_sin_quadrant(r, (int32_t)quarter + 1);
        w[2 * i + 1] = mean + radius * sg_sin_quadrant(r, (int32_t)quarter);
    }
}

void SG_NAME(sg_bernoulli)(float *w, const uint32_t *words, int64_t n, uint64_t threshold) {
    if (threshold > UINT32_MAX) {
        SG_NAME(sg_fill)(w, n, 0.0f);
        return;
    }
    uint32_t least = (uint32_t)threshold;
    SG_SIMD for (int64_t i = 0; i < n; i++) w[i] = words[i] >= least ? 1.0f : 0.0f;
}

void SG_NAME(sg_dropout)(float *y, uint8_t *mask, const float *x, const uint32_t *words, int64_t n, uint64_t threshold,
                         float scale) {
    if (threshold > UINT32_MAX) {
        SG_NAME(sg_fill)(y, n, 0.0f);
        memset(mask, 0, (size_t)n);
        return;
    }
    uint32_t least = (uint32_t)threshold;
    SG_SIMD for (int64_t i = 0; i < n; i++) y[i] = words[i] >= least ? x[i] * scale : 0.0f;
    SG_SIMD for (int64_t i = 0; i < n; i++) mask[i] = words[i] >= least;
}

void SG_NAME(sg_dropout_bwd)(float *dx, const float *dy, const uint8_t *mask, int64_t n, float scale) {
    SG_SIMD for (int64_t i = 0; i < n; i++) dx[i] = mask[i] ? dy[i] * scale : 0.0f;
}
