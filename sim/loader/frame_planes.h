/* frame_planes.h: 4:2:0 pictures, and the steps that encoder and decoder share. For frame_*.c alone. */
#ifndef SG_SIM_LOADER_FRAME_PLANES_H
#define SG_SIM_LOADER_FRAME_PLANES_H

#include "kernels/status.h"

#include <stddef.h>
#include <stdint.h>

enum { BLOCK = 8, MACROBLOCK = 16, PLANES = 3 };

/* Luma, then two chroma planes of half the size each way; sizes are multiples of MACROBLOCK (chroma: BLOCK). */
typedef struct sg_planes {
    int width[PLANES], height[PLANES];
    uint8_t *at[PLANES];
    uint8_t *spare; /* as large as luma */
} sg_planes;

sg_code sg_planes_new(int64_t height, int64_t width, sg_planes *planes, sg_status *status);
void sg_planes_free(sg_planes *planes);

/* at[k][n] = c(k) cos((2 n + 1) k pi / 16): orthonormal, so that the inverse is the transpose. */
typedef struct sg_basis {
    float at[BLOCK][BLOCK];
} sg_basis;
sg_basis sg_cosine_basis(void);

/* Motion of a macroblock in half samples. */
typedef struct sg_motion {
    int8_t x, y;
} sg_motion;

/* The prediction of one block of plane p at (x, y): the reference moved by `motion` (half samples of luma), bilinear between
 * samples, edges repeated. */
void sg_predict_block(const sg_planes *reference, int p, int x, int y, sg_motion motion, uint8_t out[BLOCK * BLOCK]);

/* Smooths block edges that the quantiser made, in place: steps smaller than `step` only. */
void sg_deblock(sg_planes *planes, int step);
/* Smooths luma along the strongest direction of each block, as AV1's constrained directional enhancement does: a
 * neighbour counts only as far as it differs by no more than `strength`. */
void sg_enhance(sg_planes *planes, int strength);

static inline uint8_t sg_clamp_u8(int v) {
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* A coded picture: bytes, and whether it needs the picture before it. */
typedef struct sg_picture {
    uint8_t *bytes;
    uint64_t n;
} sg_picture;

/* Coefficients are multiples of these after quantisation; finer for low frequencies, coarser for chroma. */
static inline int sg_quantiser(int plane, int row, int column) {
    return (plane ? 9 : 6) + (plane ? 2 : 1) * (row + column);
}

/* Encodes `source` (against `reference` unless NULL); *rebuilt becomes what a decoder will see. */
sg_code sg_picture_encode(const sg_planes *source, const sg_planes *reference, const sg_motion *candidates,
                          int n_candidates, sg_planes *rebuilt, sg_picture *picture, sg_status *status);
void sg_picture_decode(const sg_picture *picture, const sg_planes *reference, const sg_basis *basis, sg_planes *planes);

/* Draws scene number `scene` at time t (0 or 1) into the planes; the motions that occur in it, in half samples. */
enum { SCENE_MOTIONS = 4 };
void sg_planes_draw_scene(uint64_t seed, int scene, int t, sg_planes *planes);
void sg_planes_motions(uint64_t seed, int scene, sg_motion motions[SCENE_MOTIONS]);

#endif
