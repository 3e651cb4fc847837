#include "formats/child.h"
#include "sim/files/hdf5_image.h"

typedef struct sg_hdf5_image {
    const void *bytes;
    size_t n;
} hdf5_image;

static sg_code flatten(void *user, sg_bytes *flat, sg_status *status) {
    const hdf5_image *image = user;
    return sg_hdf5_flatten(image->bytes, image->n, flat, status);
}

sg_code sg_hdf5_flatten_apart(const void *image, size_t n, sg_bytes *flat, sg_status *status) {
    /* HDF5 spends more bytes on every value than the flat form does; the product only leaves room. */
    sg_child_limits limits = {
        .memory_bytes = 6ull * n + (256ull << 20), .cpu_s = 2 + (unsigned)(n >> 22), .answer_bytes = 2 * n + 65536};
    hdf5_image whole = {image, n};
    *flat = (sg_bytes){0};
    return sg_child_run("its HDF5 content", flatten, &whole, &limits, &flat->data, &flat->n, status);
}
