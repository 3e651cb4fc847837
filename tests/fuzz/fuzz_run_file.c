/* Run files of someone who means harm: any bytes, any HDF5 behind a valid checksum, a sound file with bytes changed, and the
 * same for the flat form that the reading child sends. They are read or refused; what is read is a run. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/bench/micro_tree.h"
#include "sim/files/hdf5_image.h"
#include "sim/files/user_block.h"
#include "sim/measure/point_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sound run file and its flat form, made once. */
typedef struct sg_sample {
    unsigned char *image;
    size_t image_bytes;
    sg_bytes flat;
} sample;

static void need(int condition) {
    if (!condition) abort();
}

static void add_point(sg_h5tree *points, int64_t batch) {
    double raw[5] = {1, 2, 3, 4, 5};
    sg_point point = {.config = {.policy = "act", .framework = "native", .device = "cpu", .batch = batch},
                      .iterations = 5,
                      .source = "measured"};
    char name[SG_POINT_NAME_BYTES];
    sg_h5tree *group = NULL;
    point.raw[SG_Q_STEP] = raw;
    point.q[SG_Q_STEP] = sg_statistic_of(raw, 5);
    sg_point_group_name(sg_point_key(&point.config), name);
    need(sg_h5tree_group(points, name, &group, NULL) == SG_OK);
    need(sg_point_to_tree(&point, batch, group, NULL) == SG_OK);
}

static void add_micro(sg_h5tree *micros, int64_t bytes) {
    sg_micro micro = {.config = {.bench = "copy", .what = "to_device", .device = "cpu", .bytes = bytes},
                      .iterations = 7,
                      .calls = 1,
                      .s = {1e-3, 1e-3, 9e-4, 2e-3}};
    char name[SG_POINT_NAME_BYTES];
    sg_h5tree *group = NULL;
    sg_point_group_name(sg_micro_key(&micro.config), name);
    need(sg_h5tree_group(micros, name, &group, NULL) == SG_OK);
    need(sg_micro_to_tree(&micro, bytes, group, NULL) == SG_OK);
}

static const sample *sound(void) {
    static sample made;
    if (made.image) return &made;
    sg_h5tree *tree = sg_h5tree_new(NULL), *machine = NULL, *points = NULL, *micros = NULL;
    sg_machine_record record = {.hostname = "h", .cores = 2};
    need(tree && sg_h5tree_group(tree, "machine", &machine, NULL) == SG_OK &&
         sg_h5tree_group(tree, "points", &points, NULL) == SG_OK &&
         sg_h5tree_group(tree, "micro", &micros, NULL) == SG_OK);
    need(sg_machine_record_to_tree(&record, machine, NULL) == SG_OK);
    add_point(points, 1);
    add_point(points, 2);
    add_micro(micros, 1);
    add_micro(micros, 2);
    need(sg_hdf5_write(tree, &made.image, &made.image_bytes, NULL) == SG_OK);
    made.flat.limit = 1u << 20;
    need(sg_hdf5_flatten(made.image, made.image_bytes, &made.flat, NULL) == SG_OK);
    sg_h5tree_free(tree);
    return &made;
}

static void try_tree(sg_h5tree *tree) {
    sg_run run;
    sg_status status;
    if (sg_run_from_tree("fuzz.h5", tree, &run, &status) == SG_OK) {
        for (size_t i = 0; i < run.n_points; i++) need(run.points[i].key == sg_point_key(&run.points[i].config));
        for (size_t i = 0; i < run.n_micros; i++) need(run.micros[i].key == sg_micro_key(&run.micros[i].config));
    }
    sg_run_clear(&run);
}

static void try_file(const unsigned char *file, size_t n) {
    sg_h5tree *tree = NULL;
    sg_status status;
    if (sg_h5tree_load_bytes("fuzz.h5", &sg_run_format, file, n, &tree, &status) == SG_OK) try_tree(tree);
    sg_h5tree_free(tree);
}

static void try_flat(const unsigned char *flat, size_t n) {
    sg_h5tree *tree = NULL;
    sg_status status;
    if (sg_h5tree_unflatten(flat, n, &tree, &status) == SG_OK) try_tree(tree);
    sg_h5tree_free(tree);
}

/* `whole` with three-byte edits from data: position, position, value. Positions count from the end of `keep`. */
static unsigned char *edited(const unsigned char *whole, size_t n, size_t keep, const uint8_t *data, size_t size) {
    unsigned char *copy = malloc(n);
    need(copy != NULL);
    memcpy(copy, whole, n);
    for (; size >= 3; data += 3, size -= 3) copy[keep + (size_t)(data[0] << 8 | data[1]) % (n - keep)] = data[2];
    return copy;
}

static void try_body(const unsigned char *body, size_t n) {
    unsigned char *file = malloc(n + SG_USER_BLOCK_BYTES);
    need(file != NULL);
    sg_user_block_make(&sg_run_format, body, n, file);
    if (n) memcpy(file + SG_USER_BLOCK_BYTES, body, n);
    try_file(file, n + SG_USER_BLOCK_BYTES);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) return 0;
    const sample *good = sound();
    unsigned kind = *data++ % 16;
    size--;
    if (kind == 0) {
        try_file(data, size);
    } else if (kind == 1) {
        try_body(data, size);
    } else if (kind < 4) {
        unsigned char *image = edited(good->image, good->image_bytes, SG_USER_BLOCK_BYTES, data, size);
        try_body(image + SG_USER_BLOCK_BYTES, good->image_bytes - SG_USER_BLOCK_BYTES);
        free(image);
    } else if (kind < 10) {
        unsigned char *flat = edited(good->flat.data, good->flat.n, 0, data, size);
        try_flat(flat, good->flat.n);
        free(flat);
    } else {
        try_flat(data, size);
    }
    return 0;
}
