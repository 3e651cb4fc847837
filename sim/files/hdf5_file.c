#include "formats/durable_file.h"
#include "sim/files/hdf5_image.h"
#include "sim/files/user_block.h"

#include <stdlib.h>

/* A thousand points with a thousand raw iterations of ten quantities are 80 MB. */
static const size_t most_bytes = (size_t)1 << 30;

sg_code sg_h5tree_store(const char *path, const sg_file_format *format, const sg_h5tree *tree, sg_status *status) {
    unsigned char *image;
    size_t n;
    sg_code code = sg_hdf5_write(tree, &image, &n, status);
    if (code != SG_OK) return sg_fail_in(status, "writing %s", path);
    if (n > most_bytes) {
        free(image);
        return sg_fail(status, SG_BAD_INPUT, "%s would have %zu bytes, more than a %s may have: use another path", path,
                       n, format->what);
    }
    unsigned char block[SG_USER_BLOCK_BYTES];
    sg_user_block_make(format, image + SG_USER_BLOCK_BYTES, n - SG_USER_BLOCK_BYTES, block);
    code = sg_file_replace(path, block, sizeof block, image + SG_USER_BLOCK_BYTES, n - SG_USER_BLOCK_BYTES, status);
    free(image);
    return code;
}

/* What stands there may be hours of measurements or no file of ours at all: only the same kind is replaced. */
static sg_code check_replaceable(const char *path, const sg_file_format *format, sg_status *status) {
    bool exists;
    sg_code code = sg_file_exists(path, &exists, status);
    if (code != SG_OK || !exists) return code;
    unsigned char *bytes;
    size_t n;
    code = sg_file_read(path, most_bytes, &bytes, &n, status);
    if (code != SG_OK) return code;
    bool same = n == 0 || sg_user_block_names(format, bytes, n);
    free(bytes);
    if (same) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT,
                   "%s is there already and is not a %s, it is left as it is: give another path or delete it", path,
                   format->what);
}

sg_code sg_h5tree_save(const char *path, const sg_file_format *format, const sg_h5tree *tree, sg_status *status) {
    bool exists;
    sg_code code = sg_file_exists(path, &exists, status);
    if (code != SG_OK) return code;
    sg_file_lock lock;
    code = sg_file_lock_take(path, &lock, status);
    if (code != SG_OK) return code;
    code = check_replaceable(path, format, status);
    if (code == SG_OK) code = sg_h5tree_store(path, format, tree, status);
    sg_file_lock_release(&lock);
    return code;
}

sg_code sg_h5tree_load_bytes(const char *path, const sg_file_format *format, const void *bytes, size_t n,
                             sg_h5tree **tree, sg_status *status) {
    *tree = NULL;
    sg_code code = sg_user_block_check(path, format, bytes, n, status);
    if (code != SG_OK) return code;
    sg_bytes flat = {0};
    code = sg_hdf5_flatten_apart(bytes, n, &flat, status);
    if (code == SG_OK) code = sg_h5tree_unflatten(flat.data, flat.n, tree, status);
    free(flat.data);
    return code == SG_OK ? code : sg_fail_in(status, "reading %s", path);
}

sg_code sg_h5tree_load(const char *path, const sg_file_format *format, sg_h5tree **tree, sg_status *status) {
    *tree = NULL;
    unsigned char *bytes;
    size_t n;
    sg_code code = sg_file_read(path, most_bytes, &bytes, &n, status);
    if (code != SG_OK) return code;
    code = sg_h5tree_load_bytes(path, format, bytes, n, tree, status);
    free(bytes);
    return code;
}
