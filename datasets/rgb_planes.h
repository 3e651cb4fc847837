/* rgb_planes.h: between interleaved rows of RGB, which libraries give and take, and planes, which trainers take. */
#ifndef SG_DATASETS_RGB_PLANES_H
#define SG_DATASETS_RGB_PLANES_H

#include <stddef.h>
#include <stdint.h>

/* rgb of n pixels to n samples of each plane. */
static inline void sg_rgb_to_planes(const uint8_t *restrict rgb, size_t n, uint8_t *restrict red,
                                    uint8_t *restrict green, uint8_t *restrict blue) {
    for (size_t i = 0; i < n; i++) {
        red[i] = rgb[3 * i];
        green[i] = rgb[3 * i + 1];
        blue[i] = rgb[3 * i + 2];
    }
}

static inline void sg_planes_to_rgb(const uint8_t *restrict red, const uint8_t *restrict green,
                                    const uint8_t *restrict blue, size_t n, uint8_t *restrict rgb) {
    for (size_t i = 0; i < n; i++) {
        rgb[3 * i] = red[i];
        rgb[3 * i + 1] = green[i];
        rgb[3 * i + 2] = blue[i];
    }
}

#endif
