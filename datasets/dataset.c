/* LeRobot's meta/info.json, versions 2.0, 2.1 and 3.0. */
#include "datasets/dataset.h"

#include "formats/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const int64_t LARGE = INT64_C(1000000000000); /* no data set, and no dimension, is larger */

/* A folder stands for its meta/info.json (or, when it is the meta folder, its info.json). */
static sg_code find_info(const char *path, char *out, size_t room, sg_status *status) {
    static const char *const tail[] = {"", "/info.json", "/meta/info.json"};
    for (size_t i = 0; i < 3; i++) {
        int n = snprintf(out, room, "%s%s", path, tail[i]);
        if (n < 0 || (size_t)n >= room)
            return sg_fail(status, SG_BAD_INPUT, "data set path is too long: %.80s...", path);
        struct stat info;
        if (stat(out, &info) == 0 && S_ISREG(info.st_mode)) return SG_OK;
    }
    struct stat info;
    if (stat(path, &info) != 0)
        return sg_fail(status, SG_BAD_INPUT, "data set %s does not exist: give the folder that holds meta/info.json",
                       path);
    return sg_fail(status, SG_BAD_INPUT, "%s is no LeRobot data set: it holds no meta/info.json", path);
}

static const sg_node *nth(const sg_node *list, size_t index) {
    const sg_node *node = list && list->kind == SG_NODE_LIST ? list->child : NULL;
    for (; node && index > 0; index--) node = node->next;
    return node;
}

static bool says(const sg_node *node, const char *text) {
    return node && node->kind == SG_NODE_SCALAR && strcmp(node->text, text) == 0;
}

/* Position of the first of three names that starts with `word`, or -1. */
static int dim_named(const sg_node *names, const char *word) {
    for (size_t i = 0; i < 3; i++) {
        const sg_node *name = nth(names, i);
        if (name && name->kind == SG_NODE_SCALAR && strncmp(name->text, word, strlen(word)) == 0) return (int)i;
    }
    return -1;
}

/* Sizes of a shape with `n` dims, each from 1 to `most`. */
static sg_code shape_of(const sg_tree *tree, const sg_node *feature, size_t n, int64_t most, int64_t *size,
                        sg_status *status) {
    const sg_node *shape;
    sg_code code = sg_node_child(tree, feature, "shape", SG_NODE_LIST, &shape, status);
    if (code != SG_OK) return code;
    if (shape->n_children != n)
        return sg_node_fail(tree, shape, status, "a shape of %zu number%s is expected", n, n == 1 ? "" : "s");
    for (size_t i = 0; i < n; i++) {
        const sg_node *value = nth(shape, i);
        char *end = NULL;
        long long number = 0;
        if (value->kind == SG_NODE_SCALAR && !value->text_only) number = strtoll(value->text, &end, 10);
        if (number < 1 || number > most || (end && *end))
            return sg_node_fail(tree, shape, status, "whole numbers from 1 to %lld are expected", (long long)most);
        size[i] = number;
    }
    return SG_OK;
}

/* Shapes come as (h, w, c) or (c, h, w): the names tell; without names, a first dim of at most 4 is the channels. */
static sg_code camera_size(const sg_tree *tree, const sg_node *feature, int64_t *height, int64_t *width,
                           sg_status *status) {
    int64_t size[3];
    sg_code code = shape_of(tree, feature, 3, 100000, size, status);
    if (code != SG_OK) return code;
    const sg_node *names = sg_node_get(feature, "names");
    int h = dim_named(names, "height"), w = dim_named(names, "width");
    if (h < 0 || w < 0) {
        bool channels_first = size[0] <= 4 && size[2] > 4;
        h = channels_first ? 1 : 0;
        w = channels_first ? 2 : 1;
    }
    *height = size[h];
    *width = size[w];
    return SG_OK;
}

static sg_code add_camera(const sg_tree *tree, const sg_node *feature, sg_dataset *d, sg_status *status) {
    int64_t height = 0, width = 0;
    sg_code code = camera_size(tree, feature, &height, &width, status);
    if (code != SG_OK) return code;
    if (d->cameras == 0) {
        d->image_height = height;
        d->image_width = width;
        const sg_node *info = sg_node_get(feature, "info");
        if (!info) info = sg_node_get(feature, "video_info");
        const sg_node *codec = sg_node_get(info, "video.codec");
        if (codec && codec->kind == SG_NODE_SCALAR)
            (void)snprintf(d->codec, sizeof d->codec, "%.23s", codec->text);
        else if (says(sg_node_get(feature, "dtype"), "image"))
            (void)snprintf(d->codec, sizeof d->codec, "image");
    } else if (height != d->image_height || width != d->image_width) {
        d->mixed_sizes = true;
    }
    d->cameras++;
    return SG_OK;
}

/* Depth maps are no input of the policies sized here. */
static bool is_camera(const sg_node *feature) {
    const sg_node *dtype = sg_node_get(feature, "dtype");
    const sg_node *depth = sg_node_get(sg_node_get(feature, "info"), "video.is_depth_map");
    return (says(dtype, "video") || says(dtype, "image")) && !says(depth, "true");
}

static sg_code read_features(const sg_tree *tree, sg_dataset *d, sg_status *status) {
    const sg_node *features;
    sg_code code = sg_node_child(tree, sg_tree_root(tree), "features", SG_NODE_MAP, &features, status);
    for (const sg_node *f = code == SG_OK ? features->child : NULL; code == SG_OK && f; f = f->next) {
        if (is_camera(f))
            code = add_camera(tree, f, d, status);
        else if (strcmp(f->key, "observation.state") == 0)
            code = shape_of(tree, f, 1, 1000000, &d->state_dim, status);
        else if (strcmp(f->key, "action") == 0)
            code = shape_of(tree, f, 1, 1000000, &d->action_dim, status);
    }
    return code;
}

static bool present(const sg_node *map, const char *key) {
    const sg_node *node = sg_node_get(map, key);
    return node && node->kind != SG_NODE_NULL;
}

static sg_code optional_int(const sg_tree *tree, const char *key, int64_t *out, sg_status *status) {
    const sg_node *root = sg_tree_root(tree);
    return present(root, key) ? sg_node_int(tree, root, key, 0, LARGE, out, status) : SG_OK;
}

static sg_code read_root(const sg_tree *tree, sg_dataset *d, sg_status *status) {
    const sg_node *root = sg_tree_root(tree);
    sg_code code = sg_node_text(tree, root, "codebase_version", d->version, sizeof d->version, status);
    if (code == SG_OK && present(root, "robot_type"))
        code = sg_node_text(tree, root, "robot_type", d->robot, sizeof d->robot, status);
    if (code == SG_OK) code = sg_node_int(tree, root, "total_frames", 0, LARGE, &d->frames, status);
    if (code == SG_OK) code = optional_int(tree, "total_episodes", &d->episodes, status);
    if (code == SG_OK) code = optional_int(tree, "total_tasks", &d->tasks, status);
    if (code == SG_OK && present(root, "fps")) code = sg_node_real(tree, root, "fps", 0, 1e6, &d->fps, status);
    if (code != SG_OK) return code;
    if (strcmp(d->version, "v2.0") != 0 && strcmp(d->version, "v2.1") != 0 && strcmp(d->version, "v3.0") != 0)
        return sg_node_fail(tree, sg_node_get(root, "codebase_version"), status,
                            "'%s' is not known; v2.0, v2.1 and v3.0 are", d->version);
    if (d->frames == 0)
        return sg_node_fail(tree, sg_node_get(root, "total_frames"), status, "0 frames: nothing to train on");
    return read_features(tree, d, status);
}

sg_code sg_dataset_read(const char *path, sg_dataset *dataset, sg_status *status) {
    memset(dataset, 0, sizeof *dataset);
    sg_code code = find_info(path, dataset->path, sizeof dataset->path, status);
    if (code != SG_OK) return code;
    sg_tree *tree;
    code = sg_tree_read(dataset->path, &tree, status);
    if (code != SG_OK) return code;
    code = read_root(tree, dataset, status);
    sg_tree_free(tree);
    return code;
}
