/* frame_filter.c: what a decoder does to a picture after its blocks: deblocking and directional enhancement. */
#include <stdlib.h>
#include <string.h>

#include "sim/loader/frame_planes.h"

/* Samples p1 p0 | q0 q1 across an edge: the step between p0 and q0 is spread over the four. */
static void smooth(uint8_t *q0, ptrdiff_t across, int step) {
    int p1 = q0[-2 * across], p0 = q0[-across], q = q0[0], q1 = q0[across];
    int delta = q - p0;
    if (delta > step || delta < -step || abs(p1 - p0) > step / 2 || abs(q1 - q) > step / 2) return;
    int move = delta / 4;
    q0[-2 * across] = (uint8_t)(p1 + move / 2);
    q0[-across] = (uint8_t)(p0 + move);
    q0[0] = (uint8_t)(q - move);
    q0[across] = (uint8_t)(q1 - move / 2);
}

void sg_deblock(sg_planes *planes, int step) {
    for (int p = 0; p < PLANES; p++) {
        int w = planes->width[p], h = planes->height[p];
        uint8_t *at = planes->at[p];
        for (int y = 0; y < h; y++)
            for (int x = BLOCK; x < w; x += BLOCK) smooth(at + (ptrdiff_t)y * w + x, 1, step);
        for (int y = BLOCK; y < h; y += BLOCK)
            for (int x = 0; x < w; x++) smooth(at + (ptrdiff_t)y * w + x, w, step);
    }
}

/* The direction (offset to the next sample along it) in which the block changes least. */
static ptrdiff_t direction_of(const uint8_t *at, ptrdiff_t w) {
    const ptrdiff_t along[4] = {1, w, w + 1, w - 1};
    ptrdiff_t best = 1;
    int least = INT32_MAX;
    for (int d = 0; d < 4; d++) {
        int change = 0;
        for (int r = 0; r < BLOCK; r++)
            for (int c = 0; c < BLOCK; c++) {
                const uint8_t *s = at + r * w + c;
                change += abs(s[0] - s[along[d]]);
            }
        if (change < least) {
            least = change;
            best = along[d];
        }
    }
    return best;
}

static int within(int difference, int strength) {
    return difference > strength ? strength : difference < -strength ? -strength : difference;
}

static void enhance_block(const uint8_t *at, uint8_t *to, ptrdiff_t w, int strength) {
    ptrdiff_t along = direction_of(at, w);
    for (int r = 0; r < BLOCK; r++)
        for (int c = 0; c < BLOCK; c++) {
            const uint8_t *s = at + r * w + c;
            int near = within(s[along] - s[0], strength) + within(s[-along] - s[0], strength);
            int far = within(s[2 * along] - s[0], strength) + within(s[-2 * along] - s[0], strength);
            to[r * w + c] = (uint8_t)(s[0] + (2 * near + far) / 8); /* a mean of samples: stays within 0 .. 255 */
        }
}

/* Blocks at the border have no neighbours to look at: they stay. */
void sg_enhance(sg_planes *planes, int strength) {
    ptrdiff_t w = planes->width[0];
    int h = planes->height[0];
    memcpy(planes->spare, planes->at[0], (size_t)w * (size_t)h);
    for (int y = BLOCK; y < h - BLOCK; y += BLOCK)
        for (ptrdiff_t x = BLOCK; x < w - BLOCK; x += BLOCK)
            enhance_block(planes->at[0] + y * w + x, planes->spare + y * w + x, w, strength);
    uint8_t *enhanced = planes->spare;
    planes->spare = planes->at[0];
    planes->at[0] = enhanced;
}
