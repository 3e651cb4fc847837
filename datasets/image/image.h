/* image.h: what the two formats of the image module share. */
#ifndef SG_DATASETS_IMAGE_IMAGE_H
#define SG_DATASETS_IMAGE_IMAGE_H

#include "datasets/codec/codec.h"

enum {
    SG_IMAGE_MOST_A_SIDE = 16384,
    SG_IMAGE_JPEG_QUALITY = 95 /* codec.h */
};

/* Fails where an image has no pixels or more than SG_IMAGE_MOST_A_SIDE a side. */
sg_code sg_image_check_size(int64_t height, int64_t width, sg_status *status);

/* bytes begin with the format's signature. rgb NULL: height and width are told; otherwise they must be the image's. */
sg_code sg_png_read(const uint8_t *bytes, size_t n, int64_t *height, int64_t *width, uint8_t *rgb, sg_status *status);
sg_code sg_jpeg_read(const uint8_t *bytes, size_t n, int64_t *height, int64_t *width, uint8_t *rgb, sg_status *status);

/* *bytes is free'd by the caller; NULL on failure. */
sg_code sg_png_write(const uint8_t *rgb, int64_t height, int64_t width, uint8_t **bytes, size_t *n, sg_status *status);
sg_code sg_jpeg_write(const uint8_t *rgb, int64_t height, int64_t width, uint8_t **bytes, size_t *n, sg_status *status);

#endif
