/* philox.h: the random numbers of every device, defined once.
 *
 * Philox-4x32-10, a counter-based generator (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011): 10 rounds turn a 128-bit counter and a 64-bit key into four 32-bit words. No state, so an element's value
 * depends on nothing but its place.
 *
 * Mapping. A random op is named by (seed, step, salt); an element by (sample, index in the sample):
 *   key     = the first two words of philox(counter = step, salt; key = seed)
 *   counter = {block low, block high, sample low, sample high} with block = index / 4; the element takes word index % 4.
 * The element's place: its row-major (logical, not memory) position in the tensor is split at the batch dim. With dims
 * [A..][D][C..] around the batch dim (a products of sizes before it, c after it) and `group` consecutive elements of D
 * per sample, element (i, d, k) has
 *   sample = sample_offset + d / group,   index = (i * group + d % group) * c + k.
 * Without SG_PER_SAMPLE the whole tensor is sample 0 (sample_offset is ignored) and index is the row-major position.
 *
 * From a word w:
 *   unit    u = (w >> 8) 2^-24, in [0, 1)
 *   UNIFORM alpha + (beta - alpha) u
 *   INTEGER alpha + ((w (beta - alpha)) >> 32)
 *   NORMAL  words come in pairs (w0, w1), (w2, w3) of a block: r = sqrt(-2 ln(((w0 >> 8) + 1) 2^-24)), t = 2 pi u(w1);
 *           the first element of the pair is alpha + beta r cos t, the second alpha + beta r sin t (Box and Muller 1958)
 *   DROPOUT keeps where w >= threshold(p) = p 2^32 rounded to nearest
 *   BERNOULLI of probability q: 1 where w >= threshold(1 - q), else 0: the elements that DROPOUT(1 - q) keeps
 *   PERMUTATION of n: Fisher-Yates over 0..n-1: for i = n-1 down to 1 swap element i with element (w_i (i+1)) >> 32,
 *           w_i = the word of index i of sample 0; n <= 2^31. */
#ifndef SG_KERNELS_PHILOX_H
#define SG_KERNELS_PHILOX_H

#include <stdint.h>

#if defined(__CUDACC__)
#define SG_PHILOX_INLINE static inline __host__ __device__
#else
#define SG_PHILOX_INLINE static inline
#endif

typedef struct sg_philox_key {
    uint32_t word[2];
} sg_philox_key;

typedef struct sg_philox_block {
    uint32_t word[4];
} sg_philox_block;

SG_PHILOX_INLINE sg_philox_block sg_philox_raw(sg_philox_key key, sg_philox_block counter) {
    uint32_t k0 = key.word[0], k1 = key.word[1];
    uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    sg_philox_block out = {{c0, c1, c2, c3}};
    return out;
}

/* The key of one random op in one step. */
SG_PHILOX_INLINE sg_philox_key sg_philox_key_of(uint64_t seed, uint64_t step, uint64_t salt) {
    sg_philox_key key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    sg_philox_block counter = {{(uint32_t)step, (uint32_t)(step >> 32), (uint32_t)salt, (uint32_t)(salt >> 32)}};
    sg_philox_block out = sg_philox_raw(key, counter);
    sg_philox_key mixed = {{out.word[0], out.word[1]}};
    return mixed;
}

/* The four words of indices 4 block .. 4 block + 3 of a sample. */
SG_PHILOX_INLINE sg_philox_block sg_philox_block_of(sg_philox_key key, uint64_t sample, uint64_t block) {
    sg_philox_block counter = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)sample, (uint32_t)(sample >> 32)}};
    return sg_philox_raw(key, counter);
}

SG_PHILOX_INLINE uint32_t sg_philox_word(sg_philox_key key, uint64_t sample, uint64_t index) {
    return sg_philox_block_of(key, sample, index / 4).word[index % 4];
}

/* How a tensor's row-major position splits into sample and index. `batch` is the size of the batch dim. */
typedef struct sg_random_split {
    uint64_t batch, inner, group;
} sg_random_split;

typedef struct sg_random_place {
    uint64_t sample, index;
} sg_random_place;

/* The split of a tensor with these sizes; per_sample 0: one sample. */
SG_PHILOX_INLINE sg_random_split sg_random_split_of(int ndim, const int64_t *size, int per_sample, int dim, int group) {
    sg_random_split split = {1, 1, 1};
    for (int d = per_sample ? dim + 1 : 0; d < ndim; d++) split.inner *= (uint64_t)size[d];
    if (per_sample) {
        split.batch = (uint64_t)size[dim];
        split.group = (uint64_t)group;
    }
    return split;
}

/* Place of the element at a row-major position; the sample is relative to the launch's sample_offset. */
SG_PHILOX_INLINE sg_random_place sg_random_place_of(const sg_random_split *split, uint64_t position) {
    uint64_t k = position % split->inner, rest = position / split->inner;
    uint64_t d = rest % split->batch, i = rest / split->batch;
    sg_random_place place = {d / split->group, (i * split->group + d % split->group) * split->inner + k};
    return place;
}

/* In [0, 1), 24 bits: exact in fp32. */
SG_PHILOX_INLINE double sg_random_unit(uint32_t word) {
    return (double)(word >> 8) * (1.0 / 16777216.0);
}

/* In (0, 1]: the argument of the logarithm of a normal deviate. */
SG_PHILOX_INLINE double sg_random_unit_above_zero(uint32_t word) {
    return (double)((word >> 8) + 1) * (1.0 / 16777216.0);
}

/* Integer in [low, low + range), 1 <= range <= 2^32. */
SG_PHILOX_INLINE int64_t sg_random_integer(uint32_t word, int64_t low, uint64_t range) {
    return low + (int64_t)(((uint64_t)word * range) >> 32);
}

/* Words below it are dropped: a fraction `drop` of all words. `drop` >= 1 drops all (returned as 2^32). */
SG_PHILOX_INLINE uint64_t sg_random_drop_threshold(double drop) {
    if (!(drop > 0)) return 0;
    if (drop >= 1) return (uint64_t)1 << 32;
    return (uint64_t)(drop * 4294967296.0 + 0.5);
}

/* Writes a permutation of 0..n-1, n <= 2^31. */
SG_PHILOX_INLINE void sg_random_permutation(sg_philox_key key, int64_t *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = i;
    sg_philox_block block = {{0, 0, 0, 0}};
    uint64_t have = UINT64_MAX;
    for (int64_t i = n - 1; i > 0; i--) {
        if ((uint64_t)i / 4 != have) {
            have = (uint64_t)i / 4;
            block = sg_philox_block_of(key, 0, have);
        }
        int64_t j = (int64_t)(((uint64_t)block.word[i % 4] * (uint64_t)(i + 1)) >> 32);
        int64_t kept = out[i];
        out[i] = out[j];
        out[j] = kept;
    }
}

#endif
