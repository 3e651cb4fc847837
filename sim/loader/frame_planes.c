/* frame_planes.c: see frame_planes.h. */
#include "sim/loader/frame_planes.h"

#include <math.h>
#include <stdlib.h>

sg_code sg_planes_new(int64_t height, int64_t width, sg_planes *planes, sg_status *status) {
    *planes = (sg_planes){0};
    for (int p = 0; p < PLANES; p++) {
        int unit = p ? BLOCK : MACROBLOCK;
        planes->width[p] = (int)((width + MACROBLOCK - 1) / MACROBLOCK) * unit;
        planes->height[p] = (int)((height + MACROBLOCK - 1) / MACROBLOCK) * unit;
        size_t bytes = (size_t)planes->width[p] * (size_t)planes->height[p];
        planes->at[p] = calloc(1, bytes);
        if (!planes->at[p]) {
            sg_planes_free(planes);
            return sg_fail_memory(status, bytes, "a picture");
        }
    }
    planes->spare = calloc(1, (size_t)planes->width[0] * (size_t)planes->height[0]);
    if (!planes->spare) {
        sg_planes_free(planes);
        return sg_fail_memory(status, (uint64_t)height * (uint64_t)width, "a picture");
    }
    return SG_OK;
}

void sg_planes_free(sg_planes *planes) {
    free(planes->spare);
    for (int p = 0; p < PLANES; p++) free(planes->at[p]);
    *planes = (sg_planes){0};
}

sg_basis sg_cosine_basis(void) {
    sg_basis basis;
    const double pi = 3.14159265358979323846;
    for (int k = 0; k < BLOCK; k++)
        for (int n = 0; n < BLOCK; n++)
            basis.at[k][n] = (float)(sqrt(k ? 0.25 : 0.125) * cos((2 * n + 1) * k * pi / 16));
    return basis;
}

static int clamp(int v, int end) {
    return v < 0 ? 0 : v >= end ? end - 1 : v;
}

static void predict_inside(const uint8_t *from, int stride, int half_x, int half_y, uint8_t *out) {
    int right = half_x ? 1 : 0, below = half_y ? stride : 0;
    for (int r = 0; r < BLOCK; r++)
        for (int c = 0; c < BLOCK; c++) {
            const uint8_t *s = from + r * stride + c;
            out[r * BLOCK + c] = (uint8_t)((s[0] + s[right] + s[below] + s[below + right] + 2) >> 2);
        }
}

void sg_predict_block(const sg_planes *reference, int p, int x, int y, sg_motion motion, uint8_t out[BLOCK * BLOCK]) {
    /* chroma has half the samples: its motion is rounded to half samples too */
    int mx = p ? motion.x / 2 : motion.x, my = p ? motion.y / 2 : motion.y;
    int left = x + (mx >> 1), top = y + (my >> 1), w = reference->width[p], h = reference->height[p];
    const uint8_t *plane = reference->at[p];
    if (left >= 0 && top >= 0 && left + BLOCK < w && top + BLOCK < h) {
        predict_inside(plane + (ptrdiff_t)top * w + left, w, mx & 1, my & 1, out);
        return;
    }
    uint8_t window[(BLOCK + 1) * (BLOCK + 1)];
    for (int r = 0; r <= BLOCK; r++)
        for (int c = 0; c <= BLOCK; c++)
            window[r * (BLOCK + 1) + c] = plane[(ptrdiff_t)clamp(top + r, h) * w + clamp(left + c, w)];
    predict_inside(window, BLOCK + 1, mx & 1, my & 1, out);
}
