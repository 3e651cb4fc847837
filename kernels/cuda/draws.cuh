/* draws.cuh: random words of tensors, by the mapping of kernels/philox.h; the rounds are cuRAND's. */
#ifndef SG_KERNELS_CUDA_DRAWS_CUH
#define SG_KERNELS_CUDA_DRAWS_CUH

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/walk.cuh"
#include "kernels/philox.h"

/* One op's draw, by value to its kernel. */
struct sg_draws {
    uint64_t seed, salt, first_sample;
    const uint64_t *step_at; /* NULL: key holds */
    uint32_t key[2];
    bool narrow; /* positions fit in 31 bits: the divisors hold */
    sg_divisor inner, batch, group;
    sg_random_split split;

    __device__ __forceinline__ uint2 key_now() const {
        if (!step_at) return make_uint2(key[0], key[1]);
        uint64_t step = *step_at;
        uint4 mixed = curand_Philox4x32_10(
            make_uint4((uint32_t)step, (uint32_t)(step >> 32), (uint32_t)salt, (uint32_t)(salt >> 32)),
            make_uint2((uint32_t)seed, (uint32_t)(seed >> 32)));
        return make_uint2(mixed.x, mixed.y);
    }

    /* Where the element at a row-major position is; the sample counted from the first of all. */
    __device__ __forceinline__ sg_random_place place(uint64_t position) const {
        sg_random_place p;
        if (narrow) {
            uint32_t rest = inner.quotient((uint32_t)position), k = (uint32_t)position - rest * inner.by;
            uint32_t i = batch.quotient(rest), d = rest - i * batch.by;
            uint32_t sample = group.quotient(d);
            p.sample = sample;
            p.index = (uint64_t)(i * group.by + (d - sample * group.by)) * inner.by + k;
        } else {
            p = sg_random_place_of(&split, position);
        }
        p.sample += first_sample;
        return p;
    }

    /* The four words of the block that holds an index. */
    __device__ __forceinline__ uint4 block(uint2 mixed, const sg_random_place &p) const {
        uint64_t b = p.index / 4;
        return curand_Philox4x32_10(
            make_uint4((uint32_t)b, (uint32_t)(b >> 32), (uint32_t)p.sample, (uint32_t)(p.sample >> 32)), mixed);
    }
};

static inline sg_draws sg_draws_of(const sg_call *call, const sg_desc *shape) {
    const uint64_t NARROW = (uint64_t)1 << 31;
    const sg_attrs &attrs = call->plan->op.attrs;
    bool per_sample = (attrs.flags & SG_PER_SAMPLE) != 0;
    sg_cuda_draw draw = sg_cuda_draw_of(call);
    sg_philox_key key = sg_philox_key_of(draw.seed, draw.step, draw.salt);
    sg_draws d = {};
    d.seed = draw.seed;
    d.salt = draw.salt;
    d.first_sample = per_sample ? draw.sample_offset : 0;
    d.step_at = draw.step_at;
    d.key[0] = key.word[0];
    d.key[1] = key.word[1];
    d.split = sg_random_split_of(shape->ndim, shape->size, per_sample, attrs.dim, attrs.sample_group);
    d.narrow = (uint64_t)sg_desc_count(shape) < NARROW;
    if (!d.narrow) return d;
    d.inner = sg_divisor_of((int64_t)d.split.inner);
    d.batch = sg_divisor_of((int64_t)d.split.batch);
    d.group = sg_divisor_of((int64_t)d.split.group);
    return d;
}

/* Four elements that follow one another, the first at a multiple of four, are one block of one sample. */
static inline bool sg_draws_in_quads(const sg_draws &d, const sg_desc *shape) {
    return d.split.inner % 4 == 0 || d.split.inner == (uint64_t)sg_desc_count(shape);
}

__device__ __forceinline__ uint32_t sg_word_of(uint4 w, uint64_t index) {
    return index & 2 ? (index & 1 ? w.w : w.z) : (index & 1 ? w.y : w.x);
}

#endif
