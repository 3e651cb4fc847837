/* frame_encode.c: the encoder; it runs once per clip, so that it may be slow and simple. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/loader/frame_syntax.h"

/* The forward transform of `difference` (row-major), quantised towards zero by a third of a step. */
static void transform(const int difference[64], int plane, const sg_basis *basis, int16_t level[64]) {
    float rows[BLOCK][BLOCK];
    for (int r = 0; r < BLOCK; r++)
        for (int k = 0; k < BLOCK; k++) {
            float sum = 0;
            for (int c = 0; c < BLOCK; c++) sum += (float)difference[r * BLOCK + c] * basis->at[k][c];
            rows[r][k] = sum;
        }
    for (int k = 0; k < BLOCK; k++)
        for (int c = 0; c < BLOCK; c++) {
            float sum = 0;
            for (int r = 0; r < BLOCK; r++) sum += rows[r][c] * basis->at[k][r];
            float steps = fabsf(sum) / (float)sg_quantiser(plane, k, c);
            int v = (int)(steps + 0.3333f);
            level[k * BLOCK + c] = (int16_t)(sum < 0 ? -v : v);
        }
}

static int difference_of(const sg_planes *a, const sg_planes *reference, int x, int y, sg_motion motion) {
    int sum = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t predicted[64];
        int bx = x + (i & 1) * BLOCK, by = y + (i >> 1) * BLOCK;
        sg_predict_block(reference, 0, bx, by, motion, predicted);
        for (int k = 0; k < 64; k++)
            sum += abs(a->at[0][(ptrdiff_t)(by + k / BLOCK) * a->width[0] + bx + k % BLOCK] - predicted[k]);
    }
    return sum;
}

static sg_motion best_motion(const sg_planes *source, const sg_planes *reference, int x, int y,
                             const sg_motion *candidates, int n) {
    sg_motion best = {0, 0};
    int least = difference_of(source, reference, x, y, best);
    for (int i = 0; i < n; i++) {
        /* what moved by m is found at minus m */
        sg_motion back = {(int8_t)-candidates[i].x, (int8_t)-candidates[i].y};
        int d = difference_of(source, reference, x, y, back);
        if (d < least) {
            least = d;
            best = back;
        }
    }
    return best;
}

typedef struct encoder {
    const sg_planes *source, *reference;
    sg_basis basis;
    sg_bits bits;
    sg_models models;
} encoder;

static void encode_block(encoder *e, int p, int x, int y, sg_motion motion) {
    uint8_t predicted[64];
    int difference[64];
    int16_t level[64];
    memset(predicted, 128, sizeof predicted);
    if (e->reference) sg_predict_block(e->reference, p, x, y, motion, predicted);
    for (int k = 0; k < 64; k++)
        difference[k] =
            e->source->at[p][(ptrdiff_t)(y + k / BLOCK) * e->source->width[p] + x + k % BLOCK] - predicted[k];
    transform(difference, p, &e->basis, level);
    (void)sg_coefficients(&e->bits, &e->models, p > 0, level, false);
}

static void encode_macroblock(encoder *e, int x, int y, const sg_motion *candidates, int n, sg_motion *before) {
    sg_motion motion = {0, 0};
    if (e->reference) {
        motion = best_motion(e->source, e->reference, x, y, candidates, n);
        sg_motion_vector(&e->bits, &e->models, &motion, *before, false);
        *before = motion;
    }
    for (int i = 0; i < 4; i++) encode_block(e, 0, x + (i & 1) * BLOCK, y + (i >> 1) * BLOCK, motion);
    for (int p = 1; p < PLANES; p++) encode_block(e, p, x / 2, y / 2, motion);
}

sg_code sg_picture_encode(const sg_planes *source, const sg_planes *reference, const sg_motion *candidates,
                          int n_candidates, sg_planes *rebuilt, sg_picture *picture, sg_status *status) {
    /* a coefficient takes at most 2 + 14 + 16 + 16 bits */
    size_t room = (size_t)source->width[0] * (size_t)source->height[0] * 3 / 2 * 8;
    uint8_t *bytes = malloc(room);
    if (!bytes) return sg_fail_memory(status, room, "an encoded picture");
    encoder e = {.source = source, .reference = reference, .basis = sg_cosine_basis()};
    sg_models_start(&e.models);
    sg_bits_start(&e.bits, bytes, bytes + room, false);
    for (int y = 0; y < source->height[0]; y += MACROBLOCK) {
        sg_motion before = {0, 0};
        for (int x = 0; x < source->width[0]; x += MACROBLOCK)
            encode_macroblock(&e, x, y, candidates, n_candidates, &before);
    }
    sg_bits_end(&e.bits);
    size_t n = (size_t)(e.bits.at - bytes);
    uint8_t *fitted = realloc(bytes, n);
    *picture = (sg_picture){.bytes = fitted ? fitted : bytes, .n = n};
    sg_picture_decode(picture, reference, &e.basis, rebuilt);
    return SG_OK;
}
