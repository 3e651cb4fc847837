/* frame_syntax.h: the coded form of a picture, one path for both directions. For frame_encode.c and frame_decode.c.
 *
 * Bits are coded by an adaptive binary arithmetic coder (Witten, Neal, Cleary 1987; carry-less with 32-bit bounds): each
 * has a model, a 16-bit probability that moves by 1/32 towards what was seen. Decoding and encoding are the same function
 * with `decoding` constant, so that they cannot differ. */
#ifndef SG_SIM_LOADER_FRAME_SYNTAX_H
#define SG_SIM_LOADER_FRAME_SYNTAX_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/loader/frame_planes.h"

typedef struct sg_bits {
    uint32_t low, high, value;
    uint8_t *at, *end; /* decoding: zeros follow the end; encoding: `full` when it was reached */
    bool full;
} sg_bits;

enum { MAGNITUDES = 14, ESCAPE_BITS = 16 };

typedef struct sg_models {
    uint16_t coded[2], significant[2][64], last[2][64], magnitude[2][MAGNITUDES], motion[2][8];
} sg_models;

static inline void sg_models_start(sg_models *m) {
    uint16_t *p = (uint16_t *)m;
    for (unsigned i = 0; i < sizeof *m / sizeof *p; i++) p[i] = 32768;
}

static inline void sg_bits_start(sg_bits *b, uint8_t *at, uint8_t *end, bool decoding) {
    *b = (sg_bits){.high = UINT32_MAX};
    b->at = at;
    b->end = end;
    for (int i = 0; i < 4 && decoding; i++) b->value = b->value << 8 | (b->at < b->end ? *b->at++ : 0u);
}

static inline void sg_bits_shift(sg_bits *b, bool decoding) {
    while (!((b->low ^ b->high) >> 24)) {
        if (decoding)
            b->value = b->value << 8 | (b->at < b->end ? *b->at++ : 0u);
        else if (b->at < b->end)
            *b->at++ = (uint8_t)(b->high >> 24);
        else
            b->full = true;
        b->low <<= 8;
        b->high = b->high << 8 | 255u;
    }
}

static inline int sg_bit(sg_bits *b, uint16_t *model, int bit, bool decoding) {
    uint32_t middle = b->low + (uint32_t)((uint64_t)(b->high - b->low) * *model >> 16);
    if (decoding) bit = b->value <= middle;
    if (bit) {
        b->high = middle;
        *model = (uint16_t)(*model + ((65535 - *model) >> 5));
    } else {
        b->low = middle + 1;
        *model = (uint16_t)(*model - (*model >> 5));
    }
    sg_bits_shift(b, decoding);
    return bit;
}

static inline int sg_bit_plain(sg_bits *b, int bit, bool decoding) {
    uint16_t even = 32768;
    return sg_bit(b, &even, bit, decoding);
}

static inline void sg_bits_end(sg_bits *b) {
    for (int i = 0; i < 4; i++) {
        if (b->at < b->end)
            *b->at++ = (uint8_t)(b->high >> 24);
        else
            b->full = true;
        b->high <<= 8;
    }
}

/* value >= 0: ones up to `n` by model, the rest as Exp-Golomb bits. */
static inline int sg_number(sg_bits *b, uint16_t *model, int n, int value, bool decoding) {
    int i = 0;
    while (i < n && sg_bit(b, &model[i], decoding ? 0 : i < value, decoding)) i++;
    if (i < n) return i;
    uint32_t rest = decoding ? 0 : (uint32_t)(value - n) + 1;
    int bits = 0;
    if (!decoding)
        while (rest >> bits > 1) bits++;
    int length = 0;
    while (length < ESCAPE_BITS && sg_bit_plain(b, decoding ? 0 : length < bits, decoding)) length++;
    uint32_t out = 1;
    for (int k = length - 1; k >= 0; k--)
        out = out << 1 | (uint32_t)sg_bit_plain(b, decoding ? 0 : (int)(rest >> k & 1u), decoding);
    return n + (int)out - 1;
}

static inline int sg_signed(sg_bits *b, uint16_t *model, int n, int value, bool decoding) {
    int magnitude = sg_number(b, model, n, value < 0 ? -value : value, decoding);
    if (magnitude && sg_bit_plain(b, value < 0, decoding)) magnitude = -magnitude;
    return magnitude;
}

/* Coefficients in order of frequency. */
static const uint8_t SG_ZIGZAG[64] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                      12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                      35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                      58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/* One block of quantised coefficients (row-major). Returns the position after the last one that is not zero: 0 = none,
 * 1 = only the mean. `level` must be zero when decoding. */
static inline int sg_coefficients(sg_bits *b, sg_models *m, int chroma, int16_t level[64], bool decoding) {
    int end = 0;
    for (int i = 0; i < 64 && !decoding; i++)
        if (level[SG_ZIGZAG[i]]) end = i + 1;
    if (!sg_bit(b, &m->coded[chroma], end > 0, decoding)) return 0;
    for (int i = 0; i < 64; i++) {
        int16_t *l = &level[SG_ZIGZAG[i]];
        bool certain = i == 63; /* the last place is only reached to hold something */
        if (!certain && !sg_bit(b, &m->significant[chroma][i], *l != 0, decoding)) continue;
        int v = sg_number(b, m->magnitude[chroma], MAGNITUDES, (*l < 0 ? -*l : *l) - 1, decoding) + 1;
        *l = (int16_t)(sg_bit_plain(b, *l < 0, decoding) ? -v : v);
        if (certain || sg_bit(b, &m->last[chroma][i], i + 1 == end, decoding)) return i + 1;
    }
    return 64;
}

static inline void sg_motion_vector(sg_bits *b, sg_models *m, sg_motion *v, sg_motion before, bool decoding) {
    int x = sg_signed(b, m->motion[0], 8, v->x - before.x, decoding);
    int y = sg_signed(b, m->motion[1], 8, v->y - before.y, decoding);
    if (decoding) *v = (sg_motion){(int8_t)(x + before.x), (int8_t)(y + before.y)};
}

#endif
