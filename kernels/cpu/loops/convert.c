/* convert.c: elements of any dtype to fp32 and back. */
#include "kernels/cpu/loops/isa.h"
#include "kernels/cpu/loops/math.h"

/* ---- bf16: the upper half of an fp32 ------------------------------------------------------------------------------- */

static inline float from_bf16(uint16_t h) {
    return sg_float((uint32_t)h << 16);
}

static inline uint16_t to_bf16(float x) {
    uint32_t bits = sg_bits(x);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

/* ---- fp16 ------------------------------------------------------------------------------------------------------------ */

/* The exponent is rebased by a multiplication, which also normalises subnormals; infinities and NaNs get it set. */
static inline float from_f16(uint16_t h) {
    uint32_t magnitude = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t finite = sg_bits(sg_float(magnitude << 13) * 0x1p112f);
    uint32_t bits = magnitude >= 0x7c00u ? (magnitude << 13) | 0x7f800000u : finite;
    return sg_float(bits | sign);
}

/* Subnormals are rounded by adding a power of two whose last place is theirs; normals by adding half a last place. */
static inline uint16_t to_f16(float x) {
    uint32_t bits = sg_bits(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
    uint32_t subnormal = sg_bits(sg_float(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
    half = magnitude >= 0x477ff000u ? 0x7c00u : half;
    half = magnitude > 0x7f800000u ? 0x7e00u : half;
    return (uint16_t)(half | sign);
}

/* ---- integers --------------------------------------------------------------------------------------------------------- */

static inline float from_bytes(uint8_t x) {
    return (float)x;
}
static inline float from_bool(uint8_t x) {
    return x ? 1.0f : 0.0f;
}
static inline uint8_t to_bool(float x) {
    return x != 0.0f;
}
static inline uint8_t to_bytes(float x) {
    float bounded = x > 0.0f ? x : 0.0f;
    bounded = bounded < 255.0f ? bounded : 255.0f;
    return (uint8_t)(int32_t)bounded;
}

static inline float same(float x) {
    return x;
}

/* ---- loops ------------------------------------------------------------------------------------------------------------ */

typedef float element_f32;
typedef uint16_t element_bf16, element_f16;
typedef uint8_t element_u8, element_bool;

#define CONVERT(name, from_type, to_type)                                                                              \
    static void load_##name(float *to, const void *from, int64_t n, int64_t stride) {                                  \
        const element_##name *x = from;                                                                                \
        if (stride == 1) {                                                                                             \
            SG_SIMD for (int64_t i = 0; i < n; i++) to[i] = from_type(x[i]);                                           \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) to[i] = from_type(x[i * stride]);                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void store_##name(void *to, const float *from, int64_t n, int64_t stride) {                                 \
        element_##name *y = to;                                                                                        \
        if (stride == 1) {                                                                                             \
            SG_SIMD for (int64_t i = 0; i < n; i++) y[i] = to_type(from[i]);                                           \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) y[i * stride] = to_type(from[i]);                                          \
        }                                                                                                              \
    }

CONVERT(f32, same, same)
CONVERT(bf16, from_bf16, to_bf16)
CONVERT(f16, from_f16, to_f16)
CONVERT(u8, from_bytes, to_bytes)
CONVERT(bool, from_bool, to_bool)

const sg_load_loop SG_NAME(sg_load)[SG_DTYPE_COUNT] = {
    [SG_F32] = load_f32, [SG_BF16] = load_bf16, [SG_F16] = load_f16, [SG_U8] = load_u8, [SG_BOOL] = load_bool,
};

const sg_store_loop SG_NAME(sg_store)[SG_DTYPE_COUNT] = {
    [SG_F32] = store_f32, [SG_BF16] = store_bf16, [SG_F16] = store_f16, [SG_U8] = store_u8, [SG_BOOL] = store_bool,
};
