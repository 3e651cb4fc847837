/* Hostile bytes as a PNG or JPEG image. */
#include "datasets/codec/codec.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const sg_codec_api *sg_module_codec(void);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const sg_codec_api *api = sg_module_codec();
    sg_status status;
    int64_t height, width;
    if (api->image_size(data, size, &height, &width, &status) || height * width > 1 << 18) return 0;
    uint8_t *rgb = malloc(3 * (size_t)(height * width));
    if (!rgb) return 0;
    (void)api->image_read(data, size, height, width, rgb, &status);
    free(rgb);
    return 0;
}
