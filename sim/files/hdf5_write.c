#include "sim/files/hdf5_image.h"
#include "sim/files/user_block.h"

#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

/* Creation properties that every object shares: no time stamps (equal trees make equal bytes) and attributes kept in the
 * object header, where h5dump and every reader since 1.8 find them without a heap. */
typedef struct sg_hdf5_style {
    hid_t file, access, group, dataset, text, scalar;
} hdf5_style;

static void style_close(hdf5_style *style) {
    if (style->file >= 0) (void)H5Pclose(style->file);
    if (style->access >= 0) (void)H5Pclose(style->access);
    if (style->group >= 0) (void)H5Pclose(style->group);
    if (style->dataset >= 0) (void)H5Pclose(style->dataset);
    if (style->text >= 0) (void)H5Tclose(style->text);
    if (style->scalar >= 0) (void)H5Sclose(style->scalar);
}

static bool style_open(hdf5_style *style) {
    enum { COMPACT = 60000, IN_MEMORY_STEP = 65536 };
    *style = (hdf5_style){.file = H5Pcreate(H5P_FILE_CREATE),
                          .access = H5Pcreate(H5P_FILE_ACCESS),
                          .group = H5Pcreate(H5P_GROUP_CREATE),
                          .dataset = H5Pcreate(H5P_DATASET_CREATE),
                          .text = H5Tcopy(H5T_C_S1),
                          .scalar = H5Screate(H5S_SCALAR)};
    return style->file >= 0 && style->access >= 0 && style->group >= 0 && style->dataset >= 0 && style->text >= 0 &&
           style->scalar >= 0 && H5Pset_userblock(style->file, SG_USER_BLOCK_BYTES) >= 0 &&
           H5Pset_fapl_core(style->access, IN_MEMORY_STEP, false) >= 0 &&
           H5Pset_libver_bounds(style->access, H5F_LIBVER_V18, H5F_LIBVER_V18) >= 0 &&
           H5Pset_obj_track_times(style->file, false) >= 0 && H5Pset_obj_track_times(style->group, false) >= 0 &&
           H5Pset_obj_track_times(style->dataset, false) >= 0 &&
           H5Pset_attr_phase_change(style->file, COMPACT, 0) >= 0 &&
           H5Pset_attr_phase_change(style->group, COMPACT, 0) >= 0 && H5Tset_cset(style->text, H5T_CSET_UTF8) >= 0 &&
           H5Tset_strpad(style->text, H5T_STR_NULLPAD) >= 0;
}

static bool write_attribute(hid_t group, const hdf5_style *style, const char *name, hid_t file_type, hid_t type,
                            const void *value) {
    hid_t attribute = H5Acreate2(group, name, file_type, style->scalar, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0) return false;
    bool done = H5Awrite(attribute, type, value) >= 0;
    return (H5Aclose(attribute) >= 0) && done;
}

static bool write_doubles(hid_t group, const hdf5_style *style, const sg_h5tree_value *value) {
    hsize_t extent = value->n;
    hid_t space = H5Screate_simple(1, &extent, NULL);
    if (space < 0) return false;
    hid_t dataset = H5Dcreate2(group, value->name, H5T_IEEE_F64LE, space, H5P_DEFAULT, style->dataset, H5P_DEFAULT);
    bool done = dataset >= 0 && (value->n == 0 || H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                                           value->doubles) >= 0);
    if (dataset >= 0) done = H5Dclose(dataset) >= 0 && done;
    return H5Sclose(space) >= 0 && done;
}

static bool write_value(hid_t group, const hdf5_style *style, const sg_h5tree_value *value) {
    switch (value->kind) {
    case SG_H5TREE_TEXT: {
        size_t length = strlen(value->text);
        return H5Tset_size(style->text, length ? length : 1) >= 0 &&
               write_attribute(group, style, value->name, style->text, style->text, value->text);
    }
    case SG_H5TREE_I64: return write_attribute(group, style, value->name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value->i64);
    case SG_H5TREE_U64:
        return write_attribute(group, style, value->name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &value->u64);
    case SG_H5TREE_F64:
        return write_attribute(group, style, value->name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value->f64);
    case SG_H5TREE_DOUBLES: return write_doubles(group, style, value);
    default: return false;
    }
}

static bool write_group(hid_t group, const hdf5_style *style, const sg_h5tree *tree, int depth) {
    if (depth > SG_H5TREE_DEPTH) return false;
    for (size_t i = 0; i < tree->n_values; i++)
        if (!write_value(group, style, &tree->values[i])) return false;
    for (size_t i = 0; i < tree->n_groups; i++) {
        hid_t child = H5Gcreate2(group, tree->groups[i]->name, H5P_DEFAULT, style->group, H5P_DEFAULT);
        if (child < 0) return false;
        bool done = write_group(child, style, tree->groups[i], depth + 1);
        if (H5Gclose(child) < 0 || !done) return false;
    }
    return true;
}

/* The bytes of the open file. H5Fget_file_image leaves out the user block and spoils the checksum of the superblock
 * (1.10.8), so it only tells the length; the bytes are the core driver's own buffer. */
static bool copy_image(hid_t file, hid_t access, unsigned char **image, size_t *n) {
    void **buffer = NULL;
    hsize_t buffer_bytes = 0;
    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0 || H5Fget_filesize(file, &buffer_bytes) < 0) return false;
    ssize_t body = H5Fget_file_image(file, NULL, 0);
    if (body <= 0 || (hsize_t)body + SG_USER_BLOCK_BYTES > buffer_bytes ||
        H5Fget_vfd_handle(file, access, (void **)&buffer) < 0 || !buffer || !*buffer)
        return false;
    *n = (size_t)body + SG_USER_BLOCK_BYTES;
    *image = malloc(*n);
    if (*image) memcpy(*image, *buffer, *n);
    return *image != NULL;
}

sg_code sg_hdf5_write(const sg_h5tree *tree, unsigned char **image, size_t *n, sg_status *status) {
    *image = NULL;
    *n = 0;
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hdf5_style style;
    bool done = style_open(&style);
    hid_t file = done ? H5Fcreate("stepgauge", H5F_ACC_TRUNC, style.file, style.access) : -1;
    hid_t root = file >= 0 ? H5Gopen2(file, "/", H5P_DEFAULT) : -1;
    done = root >= 0 && write_group(root, &style, tree, 0);
    if (root >= 0) done = H5Gclose(root) >= 0 && done;
    done = done && copy_image(file, style.access, image, n);
    if (file >= 0) (void)H5Fclose(file);
    style_close(&style);
    if (done) return SG_OK;
    return sg_fail(status, SG_MACHINE, "HDF5 cannot make the file in memory: close other programs and try again");
}
