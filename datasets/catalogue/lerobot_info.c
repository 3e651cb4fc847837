#include "datasets/catalogue/lerobot_info.h"

#include "datasets/catalogue/catalogue_kinds.h"
#include "datasets/catalogue/path_template.h"
#include "formats/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const int64_t LARGE = INT64_C(1000000000000); /* no data set, and no dimension, is larger */

static bool is_meta_folder(const char *path) {
    char *real = realpath(path, NULL);
    const char *slash = real ? strrchr(real, '/') : NULL;
    bool meta = slash && strcmp(slash + 1, "meta") == 0;
    free(real);
    return meta;
}

/* A folder stands for its meta/info.json, or, when it is the meta folder, its info.json: others' info.json says nothing. */
static sg_code find_info(const char *path, char *out, size_t room, sg_status *status) {
    const char *const tail[] = {"", "/meta/info.json", is_meta_folder(path) ? "/info.json" : ""};
    for (size_t i = 0; i < 3; i++) {
        int n = snprintf(out, room, "%s%s", path, tail[i]);
        if (n < 0 || (size_t)n >= room)
            return sg_fail(status, SG_BAD_INPUT, "data set path is too long: %.80s...", path);
        struct stat info;
        if (stat(out, &info) == 0 && S_ISREG(info.st_mode)) return SG_OK;
    }
    return SG_NO;
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

/* Room for one more. */
static sg_code next_camera(sg_lerobot_info *info, sg_camera **camera, sg_status *status) {
    if (info->set.cameras == SG_CAMERAS_MOST)
        return sg_fail(status, SG_BAD_INPUT, "%.400s: more than %d cameras", info->set.path, (int)SG_CAMERAS_MOST);
    size_t bytes = ((size_t)info->set.cameras + 1) * sizeof *info->cameras;
    sg_camera *grown = realloc(info->cameras, bytes);
    if (!grown) return sg_fail_memory(status, bytes, "a data set's cameras");
    info->cameras = grown;
    *camera = &grown[info->set.cameras];
    memset(*camera, 0, sizeof **camera);
    return SG_OK;
}

static bool says_number(const sg_node *node, double least, double most, double *out) {
    if (!node || node->kind != SG_NODE_SCALAR || node->text_only) return false;
    char *end;
    double value = strtod(node->text, &end);
    if (end == node->text || *end || !(value >= least && value <= most)) return false;
    *out = value;
    return true;
}

/* What the recorder's settings say about the video, where they are there. */
static void read_video_info(const sg_node *feature, sg_camera *camera) {
    const sg_node *info = sg_node_get(feature, "info");
    if (!info) info = sg_node_get(feature, "video_info");
    const sg_node *codec = sg_node_get(info, "video.codec");
    if (codec && codec->kind == SG_NODE_SCALAR)
        (void)snprintf(camera->codec, sizeof camera->codec, "%.23s", codec->text);
    double gop = 0;
    if (says_number(sg_node_get(info, "video.g"), 1, 1e6, &gop) || says_number(sg_node_get(info, "g"), 1, 1e6, &gop))
        camera->gop = (int64_t)gop;
    (void)says_number(sg_node_get(info, "video.fps"), 1e-3, 1e6, &camera->fps);
}

static sg_code add_camera(const sg_tree *tree, const sg_node *feature, sg_lerobot_info *info, sg_status *status) {
    sg_dataset *d = &info->set;
    sg_camera *camera = NULL;
    sg_code code = next_camera(info, &camera, status);
    if (!camera) return code;
    if (strlen(feature->key) >= sizeof camera->name || !sg_path_part_is_sound(feature->key))
        return sg_node_fail(tree, feature, status, "no camera has such a name");
    (void)snprintf(camera->name, sizeof camera->name, "%s", feature->key);
    code = camera_size(tree, feature, &camera->height, &camera->width, status);
    if (code != SG_OK) return code;
    bool video = says(sg_node_get(feature, "dtype"), "video");
    camera->store = video ? SG_STORE_VIDEO : SG_STORE_TABLE;
    read_video_info(feature, camera);
    if (d->cameras == 0) {
        d->image_height = camera->height;
        d->image_width = camera->width;
        (void)snprintf(d->codec, sizeof d->codec, "%s", camera->codec[0] || video ? camera->codec : "image");
    } else if (camera->height != d->image_height || camera->width != d->image_width) {
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

static sg_code read_features(const sg_tree *tree, sg_lerobot_info *info, sg_status *status) {
    sg_dataset *d = &info->set;
    const sg_node *features;
    sg_code code = sg_node_child(tree, sg_tree_root(tree), "features", SG_NODE_MAP, &features, status);
    for (const sg_node *f = code == SG_OK ? features->child : NULL; code == SG_OK && f; f = f->next) {
        if (is_camera(f))
            code = add_camera(tree, f, info, status);
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

static sg_code read_layout(const sg_tree *tree, sg_lerobot_info *info, sg_status *status) {
    const sg_node *root = sg_tree_root(tree);
    sg_code code = SG_OK;
    info->chunks_size = 1000; /* LeRobot's default */
    if (present(root, "chunks_size"))
        code = sg_node_int(tree, root, "chunks_size", 1, LARGE, &info->chunks_size, status);
    if (code == SG_OK && present(root, "data_path"))
        code = sg_node_text(tree, root, "data_path", info->data_path, sizeof info->data_path, status);
    if (code == SG_OK && present(root, "video_path"))
        code = sg_node_text(tree, root, "video_path", info->video_path, sizeof info->video_path, status);
    return code;
}

static sg_code read_root(const sg_tree *tree, sg_lerobot_info *info, sg_status *status) {
    const sg_node *root = sg_tree_root(tree);
    sg_dataset *d = &info->set;
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
    code = read_layout(tree, info, status);
    return code == SG_OK ? read_features(tree, info, status) : code;
}

sg_code sg_lerobot_info_read(const char *path, sg_lerobot_info *info, sg_status *status) {
    memset(info, 0, sizeof *info);
    sg_code code = find_info(path, info->set.path, sizeof info->set.path, status);
    if (code != SG_OK) return code;
    sg_tree *tree;
    code = sg_tree_read(info->set.path, &tree, status);
    if (code != SG_OK) return code;
    code = read_root(tree, info, status);
    sg_tree_free(tree);
    if (code != SG_OK) sg_lerobot_info_free(info);
    return code;
}

void sg_lerobot_info_free(sg_lerobot_info *info) {
    free(info->cameras);
    info->cameras = NULL;
}
