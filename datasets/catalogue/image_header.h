/* image_header.h: size and codec of a PNG or JPEG from its first bytes. */
#ifndef SG_DATASETS_CATALOGUE_IMAGE_HEADER_H
#define SG_DATASETS_CATALOGUE_IMAGE_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sg_image_header {
    int64_t height, width;
    char codec[8]; /* "png", "jpeg" */
} sg_image_header;

/* false: neither, or cut off before its size. */
bool sg_image_header_read(const uint8_t *bytes, size_t n, sg_image_header *header);

#endif
