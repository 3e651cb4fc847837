/* random.c: words of kernels/philox.h, many blocks at a time, and what is made of them. */
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/math.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* Blocks made side by side. */
enum { LANES = 32 };

#if defined(__AVX512F__) || defined(__AVX2__)
/* Words live in the lower halves of 64-bit lanes: the widening multiplication reads just those, and what collects in the
 * upper halves is never read. */
#if defined(__AVX512F__)
typedef __m512i lanes;
enum { WIDTH = 8 };
static inline lanes all(uint32_t x) {
    return _mm512_set1_epi64((int64_t)x);
}
static inline lanes count_from(uint64_t x) {
    return _mm512_add_epi64(_mm512_set1_epi64((int64_t)x), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline lanes multiply(lanes x, lanes y) {
    return _mm512_mul_epu32(x, y);
}
static inline lanes upper(lanes x) {
    return _mm512_srli_epi64(x, 32);
}
static inline lanes xor3(lanes x, lanes y, lanes z) {
    return _mm512_ternarylogic_epi64(x, y, z, 0x96);
}
static inline void keep_lower(uint32_t *to, lanes x) {
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi64_epi32(x));
}
#else
typedef __m256i lanes;
enum { WIDTH = 4 };
static inline lanes all(uint32_t x) {
    return _mm256_set1_epi64x((int64_t)x);
}
static inline lanes count_from(uint64_t x) {
    return _mm256_add_epi64(_mm256_set1_epi64x((int64_t)x), _mm256_setr_epi64x(0, 1, 2, 3));
}
static inline lanes multiply(lanes x, lanes y) {
    return _mm256_mul_epu32(x, y);
}
static inline lanes upper(lanes x) {
    return _mm256_srli_epi64(x, 32);
}
static inline lanes xor3(lanes x, lanes y, lanes z) {
    return _mm256_xor_si256(_mm256_xor_si256(x, y), z);
}
static inline void keep_lower(uint32_t *to, lanes x) {
    lanes packed = _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(packed));
}
#endif

/* Four registers side by side hide each other's latency. */
enum { SIDE = 4 };

static void philox_words(uint32_t (*c)[LANES], sg_philox_key key, uint64_t sample, uint64_t first_block) {
    const lanes m0 = all(0xD2511F53u), m1 = all(0xCD9E8D57u);
    for (int i = 0; i < LANES; i += SIDE * WIDTH) {
        lanes c0[SIDE], c1[SIDE], c2[SIDE], c3[SIDE];
        uint32_t k0 = key.word[0], k1 = key.word[1];
        for (int s = 0; s < SIDE; s++) {
            c0[s] = count_from(first_block + (uint64_t)(i + s * WIDTH));
            c1[s] = upper(c0[s]);
            c2[s] = all((uint32_t)sample);
            c3[s] = all((uint32_t)(sample >> 32));
        }
        for (int round = 0; round < 10; round++) {
            const lanes key0 = all(k0), key1 = all(k1);
            for (int s = 0; s < SIDE; s++) {
                lanes p0 = multiply(c0[s], m0), p1 = multiply(c2[s], m1);
                c0[s] = xor3(upper(p1), c1[s], key0);
                c1[s] = p1;
                c2[s] = xor3(upper(p0), c3[s], key1);
                c3[s] = p0;
            }
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        for (int s = 0; s < SIDE; s++) {
            keep_lower(&c[0][i + s * WIDTH], c0[s]);
            keep_lower(&c[1][i + s * WIDTH], c1[s]);
            keep_lower(&c[2][i + s * WIDTH], c2[s]);
            keep_lower(&c[3][i + s * WIDTH], c3[s]);
        }
    }
}
#else
static void philox_words(uint32_t (*c)[LANES], sg_philox_key key, uint64_t sample, uint64_t first_block) {
    for (int i = 0; i < LANES; i++) {
        sg_philox_block block = sg_philox_block_of(key, sample, first_block + (uint64_t)i);
        for (int word = 0; word < 4; word++) c[word][i] = block.word[word];
    }
}
#endif

/* The words of LANES blocks, block after block. */
static void philox_lanes(uint32_t *out, sg_philox_key key, uint64_t sample, uint64_t first_block) {
    uint32_t c[4][LANES];
    philox_words(c, key, sample, first_block);
    SG_SIMD for (int i = 0; i < LANES; i++) {
        out[4 * i] = c[0][i];
        out[4 * i + 1] = c[1][i];
        out[4 * i + 2] = c[2][i];
        out[4 * i + 3] = c[3][i];
    }
}

void SG_NAME(sg_philox)(uint32_t *out, sg_philox_key key, uint64_t sample, uint64_t first_block, int64_t blocks) {
    int64_t at = 0;
    for (; at + LANES <= blocks; at += LANES) philox_lanes(out + 4 * at, key, sample, first_block + (uint64_t)at);
    if (at == blocks) return;
    uint32_t rest[4 * LANES];
    philox_lanes(rest, key, sample, first_block + (uint64_t)at);
    memcpy(out + 4 * at, rest, (size_t)(blocks - at) * 4 * sizeof *out);
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
