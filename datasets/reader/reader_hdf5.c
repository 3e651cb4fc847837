#include "datasets/reader/reader_hdf5.h"

#include "datasets/reader/reader_keep.h"

#include <hdf5.h>
#include <stdlib.h>
#include <string.h>

/* SETS_KEPT: an episode's cameras, state and action, of a few dozen episodes that share a file. */
enum { RANK_MAX = 4, SETS_KEPT = 128 };
#define ROW_BYTES_MAX ((size_t)1 << 30) /* of one row: a frame of 16000 x 16000 has 0.7 GiB */

typedef struct data_set {
    hid_t id, space;
    int rank;
    hsize_t dims[RANK_MAX];
    H5T_class_t class;
    size_t value_bytes, row_values;
} data_set;

struct sg_hdf5_rows {
    hid_t file;
    sg_keep sets;
};

/* ---- opening ------------------------------------------------------------------------------------------------------- */

static void close_set(void *value) {
    data_set *set = value;
    if (set->space >= 0) (void)H5Sclose(set->space);
    if (set->id >= 0) (void)H5Dclose(set->id);
    free(set);
}

void sg_hdf5_rows_close(void *value) {
    sg_hdf5_rows *file = value;
    if (!file) return;
    sg_keep_end(&file->sets);
    if (file->file >= 0) (void)H5Fclose(file->file);
    free(file);
}

sg_code sg_hdf5_rows_open(const char *path, sg_hdf5_rows **file, sg_status *status) {
    *file = NULL;
    sg_hdf5_rows *opened = calloc(1, sizeof *opened);
    if (!opened) return sg_fail_memory(status, sizeof *opened, "an HDF5 file");
    opened->file = H5I_INVALID_HID;
    sg_code code = sg_keep_start(&opened->sets, SETS_KEPT, close_set, status);
    if (code != SG_OK) {
        sg_hdf5_rows_close(opened);
        return code;
    }
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    (void)H5Pset_file_locking(access, false, true); /* read-only mounts have no locks */
    opened->file = H5Fopen(path, H5F_ACC_RDONLY, access);
    (void)H5Pclose(access);
    if (opened->file < 0) {
        sg_hdf5_rows_close(opened);
        return sg_fail(status, SG_BAD_INPUT, "it cannot be opened as an HDF5 file: it is missing or damaged");
    }
    *file = opened;
    return SG_OK;
}

static bool look_into(data_set *set) {
    set->space = H5Dget_space(set->id);
    set->rank = set->space < 0 ? -1 : H5Sget_simple_extent_ndims(set->space);
    if (set->rank < 1 || set->rank > RANK_MAX) return false;
    if (H5Sget_simple_extent_dims(set->space, set->dims, NULL) != set->rank) return false;
    hid_t type = H5Dget_type(set->id);
    if (type < 0) return false;
    set->class = H5Tget_class(type);
    set->value_bytes = H5Tget_size(type);
    (void)H5Tclose(type);
    set->row_values = 1;
    for (int i = 1; i < set->rank; i++)
        if (__builtin_mul_overflow(set->row_values, (size_t)set->dims[i], &set->row_values)) return false;
    return set->row_values <= ROW_BYTES_MAX / sizeof(double);
}

static sg_code find_set(sg_hdf5_rows *file, const char *name, data_set **found, sg_status *status) {
    *found = sg_keep_get(&file->sets, name);
    if (*found) return SG_OK;
    data_set *set = calloc(1, sizeof *set);
    if (!set) {
        (void)sg_fail_memory(status, sizeof *set, "a data set of an HDF5 file");
        return SG_MACHINE;
    }
    set->space = H5I_INVALID_HID;
    set->id = H5Dopen2(file->file, name, H5P_DEFAULT);
    if (set->id < 0 || !look_into(set)) {
        bool there = set->id >= 0;
        close_set(set);
        (void)sg_fail(status, SG_BAD_INPUT, "data set '%.200s' %s", name,
                      there ? "is no array of 1 to 4 dimensions" : "is missing or damaged");
        return SG_BAD_INPUT;
    }
    *found = set;
    return sg_keep_put(&file->sets, name, set, status);
}

/* ---- rows ---------------------------------------------------------------------------------------------------------- */

static herr_t is_memory(unsigned n, const H5E_error2_t *error, void *found) {
    (void)n;
    bool memory = error->maj_num == H5E_RESOURCE && (error->min_num == H5E_NOSPACE || error->min_num == H5E_CANTALLOC);
    if (memory) *(bool *)found = true;
    return 0;
}

/* Of the call that has just failed: the next one forgets it. */
static bool failed_for_memory(void) {
    bool memory = false;
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, is_memory, &memory);
    return memory;
}

/* Why a row could not be read: a filter that this HDF5 does not have, such as h5py's LZF, or damage. */
static sg_code fail_row(const data_set *set, const char *name, int64_t row, sg_status *status) {
    hid_t created = H5Dget_create_plist(set->id);
    int n = created < 0 ? 0 : H5Pget_nfilters(created);
    for (int i = 0; i < n; i++) {
        char filter[64] = "";
        unsigned flags = 0, configured = 0;
        size_t n_values = 0;
        H5Z_filter_t id =
            H5Pget_filter2(created, (unsigned)i, &flags, &n_values, NULL, sizeof filter, filter, &configured);
        if (id < 0 || H5Zfilter_avail(id) > 0) continue;
        filter[sizeof filter - 1] = '\0';
        (void)H5Pclose(created);
        return sg_fail(status, SG_BAD_INPUT,
                       "data set '%.200s' is compressed by filter %d (%.63s), which is not here: rewrite the file with "
                       "h5repack -f GZIP=4 where it is",
                       name, (int)id, filter);
    }
    if (created >= 0) (void)H5Pclose(created);
    return sg_fail(status, SG_BAD_INPUT, "row %lld of data set '%.200s' cannot be read: it is damaged", (long long)row,
                   name);
}

static sg_code read_rows(const data_set *set, const char *name, int64_t row, int64_t rows, hid_t type, void *values,
                         sg_status *status) {
    if (row < 0 || rows < 1 || (uint64_t)row >= set->dims[0] || (uint64_t)rows > set->dims[0] - (uint64_t)row)
        return sg_fail(status, SG_BAD_INPUT, "data set '%.200s' has %llu rows: there are no rows %lld to %lld", name,
                       (unsigned long long)set->dims[0], (long long)row, (long long)(row + rows - 1));
    hsize_t start[RANK_MAX] = {(hsize_t)row}, count[RANK_MAX];
    memcpy(count, set->dims, sizeof count);
    count[0] = (hsize_t)rows;
    hid_t memory = H5Screate_simple(set->rank, count, NULL);
    bool done = memory >= 0 && H5Sselect_hyperslab(set->space, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
                H5Dread(set->id, type, memory, set->space, H5P_DEFAULT, values) >= 0;
    bool no_memory = !done && failed_for_memory();
    if (memory >= 0) (void)H5Sclose(memory);
    if (no_memory)
        return sg_fail(
            status, SG_MACHINE,
            "row %lld of data set '%.200s': memory ran out while HDF5 read it; take fewer workers (--workers), "
            "or write the data set with smaller chunks",
            (long long)row, name);
    return done ? SG_OK : fail_row(set, name, row, status);
}

static sg_code find_bytes(sg_hdf5_rows *file, const char *name, data_set **set, sg_status *status) {
    sg_code code = find_set(file, name, set, status);
    if (code != SG_OK) return code;
    if ((*set)->class == H5T_INTEGER && (*set)->value_bytes == 1) return SG_OK;
    return sg_fail(status, SG_BAD_INPUT, "data set '%.200s' holds no bytes (uint8)", name);
}

sg_code sg_hdf5_rows_width(sg_hdf5_rows *file, const char *name, size_t *n_bytes, sg_status *status) {
    data_set *set = NULL;
    sg_code code = find_bytes(file, name, &set, status);
    if (code == SG_OK) *n_bytes = set->row_values;
    return code;
}

sg_code sg_hdf5_rows_bytes(sg_hdf5_rows *file, const char *name, int64_t row, uint8_t *bytes, size_t n_bytes,
                           sg_status *status) {
    data_set *set = NULL;
    sg_code code = find_bytes(file, name, &set, status);
    if (code != SG_OK) return code;
    if (set->row_values != n_bytes)
        return sg_fail(status, SG_BAD_INPUT, "a row of data set '%.200s' has %zu bytes, %zu were expected", name,
                       set->row_values, n_bytes);
    return read_rows(set, name, row, 1, H5T_NATIVE_UINT8, bytes, status);
}

sg_code sg_hdf5_rows_numbers(sg_hdf5_rows *file, const char *name, int64_t row, int64_t rows, float *values,
                             size_t stride, size_t room, size_t *n, sg_status *status) {
    data_set *set = NULL;
    sg_code code = find_set(file, name, &set, status);
    if (code != SG_OK) return code;
    *n = set->row_values;
    if ((set->class != H5T_INTEGER && set->class != H5T_FLOAT) || set->rank > 2)
        return sg_fail(status, SG_BAD_INPUT, "data set '%.200s' holds no rows of numbers", name);
    if (set->row_values > room)
        return sg_fail(status, SG_BAD_INPUT, "a row of data set '%.200s' has %zu numbers, %zu were expected", name,
                       set->row_values, room);
    float *read = calloc((size_t)rows * set->row_values + 1, sizeof *read);
    if (!read) return sg_fail_memory(status, (unsigned long long)rows * set->row_values * sizeof *read, "rows");
    code = read_rows(set, name, row, rows, H5T_NATIVE_FLOAT, read, status);
    for (size_t i = 0; code == SG_OK && i < (size_t)rows; i++)
        memcpy(values + i * stride, read + i * set->row_values, set->row_values * sizeof *read);
    free(read);
    return code;
}
