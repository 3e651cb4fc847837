#include "sim/files/hdf5_image.h"

#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

/* Everything that sg_hdf5_write makes is accepted and nothing else: no links but hard ones, no filters, chunks, external
 * files or conversions, whose code in HDF5 would only serve an attacker. */
typedef struct sg_hdf5_walk {
    sg_bytes *flat;
    size_t image_bytes;
    int depth;
    sg_bytes *groups; /* names, each with its NUL, of the groups that the links of the current group lead to */
    const char *why;
    char where[SG_H5TREE_NAME_BYTES];
} hdf5_walk;

static herr_t refuse(hdf5_walk *walk, const char *name, const char *why) {
    if (walk->why) return -1;
    walk->why = why;
    size_t length = strnlen(name, sizeof walk->where - 1);
    memcpy(walk->where, name, length);
    walk->where[length] = 0;
    return -1;
}

static herr_t add(hdf5_walk *walk, const char *name, sg_h5tree_kind kind, const void *payload, size_t n) {
    if (sg_flat_value(walk->flat, name, kind, payload, n)) return 0;
    return refuse(walk, name, "more content than its size allows");
}

static herr_t flatten_text(hid_t attribute, hid_t type, const char *name, hdf5_walk *walk) {
    size_t size = H5Tget_size(type);
    if (H5Tis_variable_str(type) != 0 || size == 0 || size >= SG_H5TREE_TEXT_BYTES)
        return refuse(walk, name, "a text of impossible length");
    char text[SG_H5TREE_TEXT_BYTES] = "";
    if (H5Aread(attribute, type, text) < 0) return refuse(walk, name, "an unreadable text");
    return add(walk, name, SG_H5TREE_TEXT, text, strnlen(text, size));
}

static herr_t flatten_number(hid_t attribute, hid_t type, const char *name, hdf5_walk *walk) {
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double f64 = 0;
    if (H5Tequal(type, H5T_STD_I64LE) > 0 && H5Aread(attribute, H5T_NATIVE_INT64, &i64) >= 0)
        return add(walk, name, SG_H5TREE_I64, &i64, sizeof i64);
    if (H5Tequal(type, H5T_STD_U64LE) > 0 && H5Aread(attribute, H5T_NATIVE_UINT64, &u64) >= 0)
        return add(walk, name, SG_H5TREE_U64, &u64, sizeof u64);
    if (H5Tequal(type, H5T_IEEE_F64LE) > 0 && H5Aread(attribute, H5T_NATIVE_DOUBLE, &f64) >= 0)
        return add(walk, name, SG_H5TREE_F64, &f64, sizeof f64);
    return refuse(walk, name, "an attribute of a type that is not used");
}

static herr_t on_attribute(hid_t group, const char *name, const H5A_info_t *info, void *user) {
    (void)info;
    hdf5_walk *walk = user;
    hid_t attribute = H5Aopen(group, name, H5P_DEFAULT);
    hid_t type = attribute >= 0 ? H5Aget_type(attribute) : -1;
    hid_t space = attribute >= 0 ? H5Aget_space(attribute) : -1;
    herr_t result = -1;
    if (type < 0 || space < 0 || H5Sget_simple_extent_type(space) != H5S_SCALAR)
        result = refuse(walk, name, "an attribute that is no single value");
    else if (H5Tget_class(type) == H5T_STRING)
        result = flatten_text(attribute, type, name, walk);
    else
        result = flatten_number(attribute, type, name, walk);
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    if (attribute >= 0) (void)H5Aclose(attribute);
    return result;
}

/* Elements of a plain 1-D dataset of doubles whose bytes really are in the image; -1 for anything else. */
static int64_t plain_elements(hid_t dataset, size_t image_bytes) {
    hid_t type = H5Dget_type(dataset), space = H5Dget_space(dataset), style = H5Dget_create_plist(dataset);
    hsize_t extent = 0;
    bool plain = type >= 0 && space >= 0 && style >= 0 && H5Tequal(type, H5T_IEEE_F64LE) > 0 &&
                 H5Sget_simple_extent_ndims(space) == 1 && H5Sget_simple_extent_dims(space, &extent, NULL) == 1 &&
                 H5Pget_layout(style) == H5D_CONTIGUOUS && H5Pget_external_count(style) == 0 &&
                 H5Pget_nfilters(style) == 0 && extent <= image_bytes / sizeof(double) &&
                 H5Dget_storage_size(dataset) == extent * sizeof(double);
    if (style >= 0) (void)H5Pclose(style);
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    return plain ? (int64_t)extent : -1;
}

static herr_t flatten_dataset(hid_t dataset, const char *name, hdf5_walk *walk) {
    int64_t n = plain_elements(dataset, walk->image_bytes);
    if (n < 0) return refuse(walk, name, "a dataset that is no plain list of doubles");
    size_t bytes = (size_t)n * sizeof(double);
    double *values = calloc(1, bytes ? bytes : 1);
    if (!values) return refuse(walk, name, "a dataset that does not fit in memory");
    herr_t result = -1;
    if (n > 0 && H5Dread(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
        result = refuse(walk, name, "an unreadable dataset");
    else
        result = add(walk, name, SG_H5TREE_DOUBLES, values, bytes);
    free(values);
    return result;
}

static herr_t on_link(hid_t group, const char *name, const H5L_info_t *info, void *user) {
    hdf5_walk *walk = user;
    if (info->type != H5L_TYPE_HARD) return refuse(walk, name, "a link to another place");
    hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0) return refuse(walk, name, "an unreadable object");
    H5I_type_t type = H5Iget_type(object);
    herr_t result = 0;
    if (type == H5I_DATASET)
        result = flatten_dataset(object, name, walk);
    else if (type != H5I_GROUP)
        result = refuse(walk, name, "an object that is neither group nor dataset");
    else if (!sg_bytes_add(walk->groups, name, strlen(name) + 1))
        result = refuse(walk, name, "more groups than its size allows");
    (void)H5Oclose(object);
    return result;
}

static herr_t flatten_content(hid_t group, const char *name, hdf5_walk *walk);

static herr_t flatten_group(hid_t parent, const char *name, hdf5_walk *walk) {
    if (walk->depth == SG_H5TREE_DEPTH) return refuse(walk, name, "groups nested too deep");
    if (!sg_flat_group(walk->flat, name)) return refuse(walk, name, "more content than its size allows");
    hid_t group = H5Gopen2(parent, name, H5P_DEFAULT);
    if (group < 0) return refuse(walk, name, "an unreadable group");
    walk->depth++;
    herr_t result = flatten_content(group, name, walk);
    walk->depth--;
    (void)H5Gclose(group);
    if (result < 0) return result;
    return sg_flat_end(walk->flat) ? 0 : refuse(walk, name, "more content than its size allows");
}

/* Attributes, datasets, then groups: the order of the flat form. */
static herr_t flatten_content(hid_t group, const char *name, hdf5_walk *walk) {
    hsize_t at = 0;
    if (H5Aiterate2(group, H5_INDEX_NAME, H5_ITER_INC, &at, on_attribute, walk) < 0)
        return refuse(walk, name, "unreadable attributes");
    sg_bytes groups = {.limit = walk->flat->limit};
    walk->groups = &groups;
    at = 0;
    herr_t result = H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, on_link, walk);
    if (result < 0) (void)refuse(walk, name, "unreadable links");
    for (size_t i = 0; result >= 0 && i < groups.n; i += strlen((char *)groups.data + i) + 1)
        result = flatten_group(group, (char *)groups.data + i, walk);
    free(groups.data);
    return result;
}

sg_code sg_hdf5_flatten(const void *image, size_t n, sg_bytes *flat, sg_status *status) {
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    (void)H5PLset_loading_state(0);
    hdf5_walk walk = {.flat = flat, .image_bytes = n};
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;
    /* HDF5 copies the image; its parameter merely lacks a const. */
    if (access >= 0 && H5Pset_fapl_core(access, 65536, false) >= 0 && H5Pset_file_image(access, (void *)image, n) >= 0)
        file = H5Fopen("/dev/null/image", H5F_ACC_RDONLY,
                       access); /* a name that no file has: one that exists is refused */
    hid_t root = file >= 0 ? H5Gopen2(file, "/", H5P_DEFAULT) : -1;
    herr_t result = root >= 0 ? flatten_content(root, "/", &walk) : refuse(&walk, "/", "no HDF5 file inside");
    if (root >= 0) (void)H5Gclose(root);
    if (file >= 0) (void)H5Fclose(file);
    if (access >= 0) (void)H5Pclose(access);
    if (result >= 0) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "its structure is unsound (%s at '%.40s')", walk.why, walk.where);
}
