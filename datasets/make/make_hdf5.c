#include "datasets/make/make_hdf5.h"

#include <errno.h>
#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

static void trouble(sg_h5_file *h5, const char *what) {
    if (h5->code != SG_OK) return;
    h5->code = sg_fail(&h5->status, SG_MACHINE, "cannot write %s of %s: %s", what, h5->path,
                       errno ? strerror(errno) : "the HDF5 library refuses it");
}

void sg_h5_open(sg_h5_file *h5, sg_make *make, const char *name) {
    *h5 = (sg_h5_file){.make = make, .file = -1};
    /* At exit the library would write once more what a full disk did not take, and crash (1.10.8). */
    (void)H5dont_atexit();
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    h5->code = sg_make_path(make, h5->path, &h5->status, "%s", name);
    if (h5->code != SG_OK) return;
    errno = 0;
    h5->file = H5Fcreate(h5->path, H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
    if (h5->file < 0) trouble(h5, "the head");
}

sg_code sg_h5_close(sg_h5_file *h5, sg_status *status) {
    errno = 0;
    if (h5->file >= 0 && H5Fclose(h5->file) < 0) trouble(h5, "the end");
    h5->file = -1;
    if (h5->code != SG_OK && status) *status = h5->status;
    return h5->code;
}

int64_t sg_h5_group(sg_h5_file *h5, int64_t parent, const char *name) {
    if (h5->code != SG_OK) return -1;
    errno = 0;
    int64_t group = H5Gcreate2(parent, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (group < 0) trouble(h5, name);
    return group;
}

void sg_h5_leave(sg_h5_file *h5, int64_t group) {
    if (group >= 0 && H5Gclose(group) < 0) trouble(h5, "a group");
}

/* Closes the type. */
static void attribute(sg_h5_file *h5, int64_t group, const char *name, hid_t type, const void *value) {
    errno = 0;
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t at = space >= 0 && type >= 0 ? H5Acreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT) : -1;
    bool done = at >= 0 && H5Awrite(at, type, value) >= 0;
    if (at >= 0) done = H5Aclose(at) >= 0 && done;
    if (space >= 0) (void)H5Sclose(space);
    if (type >= 0) (void)H5Tclose(type);
    if (!done) trouble(h5, name);
}

void sg_h5_text(sg_h5_file *h5, int64_t group, const char *name, const char *text) {
    if (h5->code != SG_OK) return;
    hid_t type = H5Tcopy(H5T_C_S1);
    if (type >= 0 && (H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)) {
        (void)H5Tclose(type);
        type = -1;
    }
    attribute(h5, group, name, type, &text);
}

void sg_h5_integer(sg_h5_file *h5, int64_t group, const char *name, int64_t value) {
    if (h5->code == SG_OK) attribute(h5, group, name, H5Tcopy(H5T_NATIVE_INT64), &value);
}

void sg_h5_flag(sg_h5_file *h5, int64_t group, const char *name, bool value) {
    if (h5->code != SG_OK) return;
    const int8_t no = 0, yes = 1, given = value;
    hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
    if (type >= 0 && (H5Tenum_insert(type, "FALSE", &no) < 0 || H5Tenum_insert(type, "TRUE", &yes) < 0)) {
        (void)H5Tclose(type);
        type = -1;
    }
    attribute(h5, group, name, type, &given);
}

void sg_h5_numbers(sg_h5_file *h5, int64_t group, const char *name, sg_h5_type type, const double *numbers,
                   int64_t rows, int64_t width) {
    if (h5->code != SG_OK) return;
    const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_I64LE, H5T_STD_U8LE};
    const hsize_t extent[] = {(hsize_t)rows, (hsize_t)width};
    errno = 0;
    hid_t space = H5Screate_simple(width ? 2 : 1, extent, NULL);
    hid_t set = space >= 0 ? H5Dcreate2(group, name, types[type], space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) : -1;
    bool done = set >= 0 && H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) >= 0;
    if (set >= 0) done = H5Dclose(set) >= 0 && done;
    if (space >= 0) (void)H5Sclose(space);
    if (!done) trouble(h5, name);
}

/* A uint8 data set of this extent; chunk: its rows are chunks. */
static hid_t new_bytes(int64_t group, const char *name, int rank, const hsize_t *extent, bool in_chunks) {
    hsize_t chunk[4] = {1, extent[1], rank > 2 ? extent[2] : 0, rank > 3 ? extent[3] : 0};
    hid_t space = H5Screate_simple(rank, extent, NULL);
    hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    hid_t set = -1;
    if (space >= 0 && how >= 0 && (!in_chunks || H5Pset_chunk(how, rank, chunk) >= 0))
        set = H5Dcreate2(group, name, H5T_STD_U8LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    if (how >= 0) (void)H5Pclose(how);
    if (space >= 0) (void)H5Sclose(space);
    return set;
}

static bool write_row(hid_t set, int64_t row, int rank, const hsize_t *extent, const uint8_t *bytes) {
    const hsize_t start[4] = {(hsize_t)row};
    const hsize_t count[4] = {1, extent[1], rank > 2 ? extent[2] : 0, rank > 3 ? extent[3] : 0};
    hid_t file = H5Dget_space(set), memory = H5Screate_simple(rank, count, NULL);
    bool done = file >= 0 && memory >= 0 && H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                H5Dwrite(set, H5T_NATIVE_UINT8, memory, file, H5P_DEFAULT, bytes) >= 0;
    if (memory >= 0) (void)H5Sclose(memory);
    if (file >= 0) (void)H5Sclose(file);
    return done;
}

static void interleave(const uint8_t *rgb, size_t pixels, uint8_t *to) {
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++) to[3 * i + c] = rgb[c * pixels + i];
}

void sg_h5_frames(sg_h5_file *h5, int64_t group, const char *name, int64_t camera, int64_t episode, bool in_chunks) {
    if (h5->code != SG_OK) return;
    sg_make *make = h5->make;
    size_t pixels = (size_t)(make->o.height * make->o.width);
    const hsize_t extent[] = {(hsize_t)make->o.frames_per_episode, (hsize_t)make->o.height, (hsize_t)make->o.width, 3};
    uint8_t *row = malloc(3 * pixels);
    if (!row) {
        h5->code = sg_fail_memory(&h5->status, 3 * pixels, "a frame");
        return;
    }
    errno = 0;
    hid_t set = new_bytes(group, name, 4, extent, in_chunks);
    bool done = set >= 0;
    for (int64_t f = 0; done && h5->code == SG_OK && f < make->o.frames_per_episode; f++) {
        h5->code = sg_make_draw(make, camera, episode, f, make->rgb, NULL, &h5->status);
        if (h5->code != SG_OK) break;
        interleave(make->rgb, pixels, row);
        done = write_row(set, f, 4, extent, row);
    }
    if (set >= 0) done = H5Dclose(set) >= 0 && done;
    free(row);
    if (!done) trouble(h5, name);
}

/* The encoded images of an episode. */
typedef struct encoded {
    uint8_t **bytes;
    size_t *n, longest;
    int64_t count;
} encoded;

static void encoded_free(encoded *images) {
    for (int64_t f = 0; images->bytes && f < images->count; f++) free(images->bytes[f]);
    free(images->bytes);
    free(images->n);
}

static sg_code encode_episode(sg_make *make, int64_t camera, int64_t episode, encoded *images, sg_status *status) {
    size_t count = (size_t)make->o.frames_per_episode;
    *images = (encoded){.bytes = calloc(count, sizeof(uint8_t *)), .n = calloc(count, sizeof(size_t))};
    if (!images->bytes || !images->n) return sg_fail_memory(status, count * sizeof(size_t), "encoded frames");
    images->count = (int64_t)count;
    sg_code code = SG_OK;
    for (size_t f = 0; code == SG_OK && f < count; f++) {
        code = sg_make_image(make, camera, episode, (int64_t)f, NULL, &images->bytes[f], &images->n[f], status);
        if (code == SG_OK && images->n[f] > images->longest) images->longest = images->n[f];
    }
    return code;
}

static void write_images(sg_h5_file *h5, int64_t group, const char *name, const encoded *images, double *lengths) {
    if (images->longest == 0) return; /* no frames */
    const hsize_t extent[] = {(hsize_t)images->count, (hsize_t)images->longest};
    uint8_t *row = malloc(images->longest);
    if (!row) {
        h5->code = sg_fail_memory(&h5->status, images->longest, "an encoded frame");
        return;
    }
    errno = 0;
    hid_t set = new_bytes(group, name, 2, extent, true);
    bool done = set >= 0;
    for (int64_t f = 0; done && f < images->count; f++) {
        memset(row, 0, images->longest);
        memcpy(row, images->bytes[f], images->n[f]);
        lengths[f] = (double)images->n[f];
        done = write_row(set, f, 2, extent, row);
    }
    if (set >= 0) done = H5Dclose(set) >= 0 && done;
    free(row);
    if (!done) trouble(h5, name);
}

void sg_h5_images(sg_h5_file *h5, int64_t group, const char *name, int64_t camera, int64_t episode, double *lengths) {
    if (h5->code != SG_OK) return;
    encoded images;
    h5->code = encode_episode(h5->make, camera, episode, &images, &h5->status);
    if (h5->code == SG_OK) write_images(h5, group, name, &images, lengths);
    encoded_free(&images);
}
