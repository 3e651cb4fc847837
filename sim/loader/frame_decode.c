/* frame_decode.c: the decoder: what loader workers spend their time in. */
#include <string.h>

#include "sim/loader/frame_syntax.h"

/* Deblocking evens out steps up to this. */
static const int EDGE_STEP = 12, ENHANCE_STRENGTH = 4;

/* The inverse transform: columns, then rows; inner loops run over eight lanes. */
static void inverse(const int16_t level[64], int plane, const sg_basis *basis, float out[64]) {
    float coefficient[BLOCK][BLOCK], columns[BLOCK][BLOCK] = {{0}};
    for (int k = 0; k < BLOCK; k++)
        for (int c = 0; c < BLOCK; c++) coefficient[k][c] = (float)(level[k * BLOCK + c] * sg_quantiser(plane, k, c));
    for (int r = 0; r < BLOCK; r++)
        for (int k = 0; k < BLOCK; k++)
            for (int c = 0; c < BLOCK; c++) columns[r][c] += basis->at[k][r] * coefficient[k][c];
    for (int r = 0; r < BLOCK; r++) {
        float row[BLOCK] = {0};
        for (int k = 0; k < BLOCK; k++)
            for (int c = 0; c < BLOCK; c++) row[c] += columns[r][k] * basis->at[k][c];
        memcpy(out + (ptrdiff_t)r * BLOCK, row, sizeof row);
    }
}

typedef struct decoder {
    const sg_planes *reference;
    const sg_basis *basis;
    sg_planes *planes;
    sg_bits bits;
    sg_models models;
} decoder;

static void decode_block(decoder *d, int p, int x, int y, sg_motion motion) {
    uint8_t predicted[64];
    int16_t level[64] = {0};
    float difference[64];
    memset(predicted, 128, sizeof predicted);
    if (d->reference) sg_predict_block(d->reference, p, x, y, motion, predicted);
    int end = sg_coefficients(&d->bits, &d->models, p > 0, level, true);
    int w = d->planes->width[p];
    uint8_t *to = d->planes->at[p] + (ptrdiff_t)y * w + x;
    if (end > 1) {
        inverse(level, p, d->basis, difference);
    } else { /* the mean alone */
        float mean = (float)(level[0] * sg_quantiser(p, 0, 0)) / BLOCK;
        for (int k = 0; k < 64; k++) difference[k] = mean;
    }
    for (int r = 0; r < BLOCK; r++)
        for (int c = 0; c < BLOCK; c++) {
            float v = (float)predicted[r * BLOCK + c] + difference[r * BLOCK + c];
            to[(ptrdiff_t)r * w + c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5f);
        }
}

void sg_picture_decode(const sg_picture *picture, const sg_planes *reference, const sg_basis *basis,
                       sg_planes *planes) {
    decoder d = {.reference = reference, .basis = basis, .planes = planes};
    sg_models_start(&d.models);
    sg_bits_start(&d.bits, picture->bytes, picture->bytes + picture->n, true);
    for (int y = 0; y < planes->height[0]; y += MACROBLOCK) {
        sg_motion motion = {0, 0};
        for (int x = 0; x < planes->width[0]; x += MACROBLOCK) {
            if (reference) sg_motion_vector(&d.bits, &d.models, &motion, motion, true);
            for (int i = 0; i < 4; i++) decode_block(&d, 0, x + (i & 1) * BLOCK, y + (i >> 1) * BLOCK, motion);
            for (int p = 1; p < PLANES; p++) decode_block(&d, p, x / 2, y / 2, motion);
        }
    }
    sg_deblock(planes, EDGE_STEP);
    sg_enhance(planes, ENHANCE_STRENGTH);
}
