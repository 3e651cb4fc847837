/* HDF5 files whose structure the bytes decide, as demonstrations: data sets of any type and shape at the places that are looked
 * at. The files themselves are sound: what HDF5 makes of damaged ones is its own, and happens in a child process.
 *
 * Six bytes for a data set: place, type, rank, three dims (the last one is repeated). */
#include "datasets/catalogue/hdf5_demos.h"
#include "datasets/reader/reader_hdf5.h"

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES_EACH = 6, SETS_MOST = 24, NUMBERS = 64 };

static const char *const places[] = {"/data/demo_0/actions",
                                     "/data/demo_0/obs/agentview_image",
                                     "/data/demo_0/obs/agentview_rgb",
                                     "/data/demo_0/obs/robot0_eef_pos",
                                     "/data/demo_0/obs/robot0_eef_quat",
                                     "/data/demo_0/obs/ee_states",
                                     "/data/demo_0/obs/joint_states",
                                     "/data/demo_0/obs",
                                     "/data/demo_1/actions",
                                     "/data/demo_1/obs/agentview_image",
                                     "/data/demo_1/obs/agentview_rgb",
                                     "/data/demo_1/obs/robot0_eef_pos",
                                     "/data/demo_1/obs/robot0_eef_quat",
                                     "/data/demo_1/obs/ee_states",
                                     "/data/demo_01/actions",
                                     "/data/demo_2",
                                     "/data",
                                     "/action",
                                     "/observations/qpos",
                                     "/observations/images/cam_high",
                                     "/observations/images/cam_low",
                                     "/observations/images",
                                     "/observations"};
enum { PLACES = sizeof places / sizeof places[0] };

static hid_t type_of(uint8_t byte) {
    switch (byte % 8) {
    case 0: return H5T_STD_I8LE;
    case 1: return H5T_STD_I64BE;
    case 2: return H5T_IEEE_F32LE;
    case 3: return H5T_IEEE_F64BE;
    case 4: return H5T_C_S1;
    case 5: return H5T_STD_REF_OBJ;
    default: return H5T_STD_U8LE;
    }
}

/* Mostly small; some so large that no memory holds them (nothing is stored of a data set that is never written). */
static hsize_t dim_of(uint8_t byte) {
    return byte < 240 ? byte % 40 : (hsize_t)1 << (byte - 200);
}

static void add_set(hid_t file, hid_t links, const uint8_t *own) {
    int rank = own[2] % 6;
    hsize_t dims[6];
    for (int i = 0; i < rank; i++) dims[i] = dim_of(own[3 + (i < 2 ? i : 2)]);
    if (rank == 4 && own[2] >= 128) dims[3] = 3; /* colours */
    hid_t space = rank ? H5Screate_simple(rank, dims, NULL) : H5Screate(H5S_SCALAR);
    hid_t set =
        space < 0 ? -1
                  : H5Dcreate2(file, places[own[0] % PLACES], type_of(own[1]), space, links, H5P_DEFAULT, H5P_DEFAULT);
    if (set >= 0) (void)H5Dclose(set);
    if (space >= 0) (void)H5Sclose(space);
}

static bool write_file(const char *path, const uint8_t *data, size_t size) {
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), links = H5Pcreate(H5P_LINK_CREATE);
    if (file < 0 || links < 0 || H5Pset_create_intermediate_group(links, 1) < 0) abort();
    for (size_t i = 0; i < SETS_MOST && (i + 1) * BYTES_EACH <= size; i++) add_set(file, links, data + i * BYTES_EACH);
    (void)H5Pclose(links);
    return H5Fclose(file) >= 0;
}

static void read_rows(const char *path) {
    sg_hdf5_rows *file;
    sg_status status;
    if (sg_hdf5_rows_open(path, &file, &status) != SG_OK) return;
    for (size_t i = 0; i < PLACES; i++) {
        float numbers[2 * NUMBERS];
        uint8_t bytes[NUMBERS];
        size_t n = 0;
        (void)sg_hdf5_rows_numbers(file, places[i], 1, 2, numbers, NUMBERS, NUMBERS, &n, &status);
        if (sg_hdf5_rows_width(file, places[i], &n, &status) == SG_OK && n <= sizeof bytes)
            (void)sg_hdf5_rows_bytes(file, places[i], 0, bytes, n, &status);
    }
    sg_hdf5_rows_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    sg_bytes answer = {.limit = 1 << 20};
    sg_status status;
    (void)snprintf(path, sizeof path, "/tmp/stepgauge-fuzz-demos-%d.hdf5", (int)getpid());
    if (!write_file(path, data, size)) abort();
    if (sg_demos_scan(path, NULL, &answer, &status) == SG_OK && answer.n < sizeof(sg_demos_head)) abort();
    free(answer.data);
    read_rows(path);
    (void)unlink(path);
    return 0;
}
