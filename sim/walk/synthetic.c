/* synthetic.c: see synthetic.h. */
#include "sim/walk/synthetic.h"

#include "sim/walk/convert.h"

static const uint64_t GOLDEN = 0x9e3779b97f4a7c15u;

static inline uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t sg_synthetic_key(uint64_t a, uint64_t b, uint64_t c) {
    return mix(mix(mix(a + GOLDEN) + b * GOLDEN + 1) + c * GOLDEN + 2);
}

sg_synthetic sg_synthetic_input(const sg_training *training, size_t index, uint64_t seed, uint64_t step, int64_t draw,
                                int rank, int ranks) {
    enum { INPUTS = 2 }; /* apart from keys of other things */
    const sg_input *in = &training->inputs[index];
    const sg_desc *d = &training->tensors[in->tensor].desc;
    int64_t samples = d->ndim ? d->size[0] : 1;
    return (sg_synthetic){.kind = SG_SYNTHETIC_UNIFORM,
                          .low = in->low,
                          .high = in->high,
                          .key = sg_synthetic_key(seed, step << 8 | INPUTS, index),
                          .first_sample = (draw * ranks + rank) * samples};
}

static inline uint64_t bits_at(uint64_t sample_key, int64_t element) {
    return mix(sample_key + (uint64_t)element * GOLDEN);
}

static inline double unit(uint64_t bits) {
    return (double)(bits >> 11) * 0x1p-53;
}

/* Irwin-Hall: the sum of four uniforms has mean 2 and variance 1/3. */
static inline double normal(uint64_t bits) {
    unsigned sum = (unsigned)(bits & 0xffff) + (unsigned)(bits >> 16 & 0xffff) + (unsigned)(bits >> 32 & 0xffff) +
                   (unsigned)(bits >> 48);
    return ((double)sum + 2.0 - 131072.0) * 0x1p-16 * 1.7320508075688772;
}

static double value_at(const sg_synthetic *what, bool integer, uint64_t key, int64_t element) {
    if (what->kind == SG_SYNTHETIC_CONSTANT) return what->low;
    uint64_t bits = bits_at(key, element);
    if (what->kind == SG_SYNTHETIC_NORMAL) return what->low + what->high * normal(bits);
    double v = what->low + (what->high - what->low) * unit(bits);
    return integer ? floor(v) : v;
}

/* Random bytes: eight elements share one draw. */
static void fill_bytes(uint8_t *to, int64_t count, uint64_t key) {
    for (int64_t i = 0; i < count; i += 8) {
        uint64_t bits = bits_at(key, i / 8);
        int64_t n = count - i < 8 ? count - i : 8;
        memcpy(to + i, &bits, (size_t)n);
    }
}

static void fill_floats(float *to, int64_t count, const sg_synthetic *what, uint64_t key) {
    if (what->kind == SG_SYNTHETIC_NORMAL) {
        for (int64_t i = 0; i < count; i++) to[i] = (float)(what->low + what->high * normal(bits_at(key, i)));
    } else {
        double span = what->high - what->low;
        for (int64_t i = 0; i < count; i++) to[i] = (float)(what->low + span * unit(bits_at(key, i)));
    }
}

static bool is_bytes(const sg_desc *desc, const sg_synthetic *what) {
    return desc->dtype == SG_U8 && what->kind == SG_SYNTHETIC_UNIFORM && what->low == 0 && what->high == 256;
}

/* One sample: dims first_dim .. of desc, `to` its first element. */
static void fill_sample(void *to, const sg_desc *desc, int first_dim, const sg_synthetic *what, uint64_t key) {
    int64_t count = 1, index[SG_MAX_DIMS] = {0};
    bool contiguous = true;
    for (int d = desc->ndim - 1; d >= first_dim; d--) {
        if (desc->size[d] != 1 && desc->stride[d] != count) contiguous = false;
        count *= desc->size[d];
    }
    bool bytes = is_bytes(desc, what), integer = !sg_dtype_is_float((sg_dtype)desc->dtype);
    if (contiguous && bytes) {
        fill_bytes(to, count, key);
        return;
    }
    if (contiguous && desc->dtype == SG_F32 && what->kind != SG_SYNTHETIC_CONSTANT) {
        fill_floats(to, count, what, key);
        return;
    }
    int64_t offset = 0;
    for (int64_t e = 0; e < count; e++) {
        double v = bytes ? (double)(bits_at(key, e / 8) >> 8 * (e % 8) & 255u) : value_at(what, integer, key, e);
        sg_element_set(to, (sg_dtype)desc->dtype, offset, v);
        for (int d = desc->ndim - 1; d >= first_dim; d--) { /* the next element in row-major order */
            offset += desc->stride[d];
            if (++index[d] < desc->size[d]) break;
            offset -= desc->stride[d] * desc->size[d];
            index[d] = 0;
        }
    }
}

void sg_synthetic_fill(void *first, const sg_desc *desc, const sg_synthetic *what) {
    if (what->first_sample < 0 || desc->ndim == 0) {
        fill_sample(first, desc, 0, what, mix(what->key));
        return;
    }
    int64_t step = desc->stride[0] * (int64_t)sg_dtype_bytes((sg_dtype)desc->dtype);
    for (int64_t s = 0; s < desc->size[0]; s++)
        fill_sample((char *)first + s * step, desc, 1, what,
                    mix(what->key + (uint64_t)(what->first_sample + s + 1) * GOLDEN));
}
