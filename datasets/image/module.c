/* The image module's table of functions: PNG through libpng, JPEG through libjpeg-turbo. */
#include "datasets/image/image.h"

#include <stdio.h>
#include <string.h>

#include <png.h>

#include <jpeglib.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

sg_code sg_image_check_size(int64_t height, int64_t width, sg_status *status) {
    if (height >= 1 && width >= 1 && height <= SG_IMAGE_MOST_A_SIDE && width <= SG_IMAGE_MOST_A_SIDE) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "image of %lld x %lld pixels: 1 .. %d a side are expected", (long long)height,
                   (long long)width, SG_IMAGE_MOST_A_SIDE);
}

static sg_code read_any(const uint8_t *bytes, size_t n, int64_t *height, int64_t *width, uint8_t *rgb,
                        sg_status *status) {
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, jpeg[] = {0xff, 0xd8, 0xff};
    if (n >= sizeof png && memcmp(bytes, png, sizeof png) == 0)
        return sg_png_read(bytes, n, height, width, rgb, status);
    if (n >= sizeof jpeg && memcmp(bytes, jpeg, sizeof jpeg) == 0)
        return sg_jpeg_read(bytes, n, height, width, rgb, status);
    if (n == 0) return sg_fail(status, SG_BAD_INPUT, "image of no bytes: PNG or JPEG is expected");
    return sg_fail(status, SG_BAD_INPUT, "image of %zu bytes is neither PNG nor JPEG: it begins with %02x %02x", n,
                   bytes[0], n > 1 ? bytes[1] : 0);
}

static sg_code image_size(const uint8_t *bytes, size_t n, int64_t *height, int64_t *width, sg_status *status) {
    *height = *width = 0;
    return read_any(bytes, n, height, width, NULL, status);
}

static sg_code image_read(const uint8_t *bytes, size_t n, int64_t height, int64_t width, uint8_t *rgb,
                          sg_status *status) {
    return read_any(bytes, n, &height, &width, rgb, status);
}

static sg_code image_write(const char *codec, const uint8_t *rgb, int64_t height, int64_t width, uint8_t **bytes,
                           size_t *n, sg_status *status) {
    *bytes = NULL;
    *n = 0;
    sg_code code = sg_image_check_size(height, width, status);
    if (code) return code;
    if (strcmp(codec, "png") == 0) return sg_png_write(rgb, height, width, bytes, n, status);
    if (strcmp(codec, "jpeg") == 0) return sg_jpeg_write(rgb, height, width, bytes, n, status);
    return sg_fail(status, SG_BAD_INPUT, "images are written as png or jpeg, not as '%.32s'", codec);
}

__attribute__((visibility("default"))) const sg_codec_api *sg_module_codec(void);

const sg_codec_api *sg_module_codec(void) {
#ifdef LIBJPEG_TURBO_VERSION
    static const char libraries[] = "libpng " PNG_LIBPNG_VER_STRING ", libjpeg-turbo " TEXT(LIBJPEG_TURBO_VERSION);
#else
    static const char libraries[] = "libpng " PNG_LIBPNG_VER_STRING ", libjpeg " TEXT(JPEG_LIB_VERSION);
#endif
    static const sg_codec_api api = {
        .abi = SG_CODEC_ABI,
        .name = "image",
        .libraries = libraries,
        .image_size = image_size,
        .image_read = image_read,
        .image_write = image_write,
    };
    return &api;
}
