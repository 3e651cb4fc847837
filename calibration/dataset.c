/* LeRobot's meta/info.json, versions 2.0, 2.1 and 3.0. */
#include "calibration/dataset.h"

#include "calibration/json_file.h"

#include <stdio.h>
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

/* Position of the first name that contains `word` in a list of dimension names, or -1. */
static int dim_named(const json_t *names, const char *word) {
    for (size_t i = 0; json_is_array(names) && i < json_array_size(names) && i < 3; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (name && strncmp(name, word, strlen(word)) == 0) return (int)i;
    }
    return -1;
}

/* Shapes come as (h, w, c) or (c, h, w): the names tell; without names, the dim of 1, 3 or 4 elements is the channels. */
static sg_code camera_size(const char *path, const char *camera, const json_t *feature, int64_t *height, int64_t *width,
                           sg_status *status) {
    const json_t *shape = json_object_get(feature, "shape"), *names = json_object_get(feature, "names");
    if (!json_is_array(shape) || json_array_size(shape) != 3)
        return sg_fail(status, SG_BAD_INPUT, "%s: camera '%.64s' needs a shape of three numbers", path, camera);
    int64_t size[3];
    for (size_t i = 0; i < 3; i++) {
        const json_t *n = json_array_get(shape, i);
        size[i] = json_is_integer(n) ? (int64_t)json_integer_value(n) : 0;
        if (size[i] < 1 || size[i] > 100000)
            return sg_fail(status, SG_BAD_INPUT,
                           "%s: camera '%.64s': a shape of three numbers from 1 to 100000 is expected", path, camera);
    }
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

static sg_code add_camera(const char *path, const char *name, const json_t *feature, sg_dataset *d, sg_status *status) {
    int64_t height = 0, width = 0;
    sg_code code = camera_size(path, name, feature, &height, &width, status);
    if (code != SG_OK) return code;
    if (d->cameras == 0) {
        d->image_height = height;
        d->image_width = width;
        const json_t *info = json_object_get(feature, "info");
        if (!info) info = json_object_get(feature, "video_info");
        const char *codec = json_string_value(json_object_get(info, "video.codec"));
        if (codec)
            (void)snprintf(d->codec, sizeof d->codec, "%.23s", codec);
        else if (strcmp(json_string_value(json_object_get(feature, "dtype")), "image") == 0)
            (void)snprintf(d->codec, sizeof d->codec, "image");
    } else if (height != d->image_height || width != d->image_width) {
        d->mixed_sizes = true;
    }
    d->cameras++;
    return SG_OK;
}

static sg_code vector_width(const char *path, const char *name, const json_t *feature, int64_t *out,
                            sg_status *status) {
    const json_t *shape = json_object_get(feature, "shape"), *first = json_array_get(shape, 0);
    if (json_array_size(shape) != 1 || !json_is_integer(first) || json_integer_value(first) < 1 ||
        json_integer_value(first) > 1000000)
        return sg_fail(status, SG_BAD_INPUT, "%s: feature '%.64s': a shape of one number from 1 to 1000000 is expected",
                       path, name);
    *out = (int64_t)json_integer_value(first);
    return SG_OK;
}

static bool is_depth(const json_t *feature) {
    const json_t *info = json_object_get(feature, "info");
    return json_is_true(json_object_get(info, "video.is_depth_map"));
}

static sg_code read_features(const char *path, const json_t *root, sg_dataset *d, sg_status *status) {
    json_t *features = json_object_get(root, "features"), *feature;
    if (!json_is_object(features))
        return sg_fail(status, SG_BAD_INPUT, "%s: key 'features' is missing; is this a LeRobot info.json?", path);
    const char *name;
    json_object_foreach(features, name, feature) {
        const char *dtype = json_string_value(json_object_get(feature, "dtype"));
        if (!dtype) return sg_fail(status, SG_BAD_INPUT, "%s: feature '%.64s' has no dtype", path, name);
        sg_code code = SG_OK;
        if ((strcmp(dtype, "video") == 0 || strcmp(dtype, "image") == 0) && !is_depth(feature))
            code = add_camera(path, name, feature, d, status);
        else if (strcmp(name, "observation.state") == 0)
            code = vector_width(path, name, feature, &d->state_dim, status);
        else if (strcmp(name, "action") == 0)
            code = vector_width(path, name, feature, &d->action_dim, status);
        if (code != SG_OK) return code;
    }
    return SG_OK;
}

static sg_code read_root(const char *path, const json_t *root, sg_dataset *d, sg_status *status) {
    d->frames = -1;
    sg_code code = sg_json_text(path, root, "codebase_version", d->version, sizeof d->version, status);
    if (code == SG_OK) code = sg_json_text(path, root, "robot_type", d->robot, sizeof d->robot, status);
    if (code == SG_OK) code = sg_json_int(path, root, "total_frames", 0, LARGE, &d->frames, status);
    if (code == SG_OK) code = sg_json_int(path, root, "total_episodes", 0, LARGE, &d->episodes, status);
    if (code == SG_OK) code = sg_json_int(path, root, "total_tasks", 0, LARGE, &d->tasks, status);
    if (code == SG_OK) code = sg_json_real(path, root, "fps", &d->fps, status);
    if (code != SG_OK) return code;
    if (strncmp(d->version, "v2.0", 4) != 0 && strncmp(d->version, "v2.1", 4) != 0 &&
        strncmp(d->version, "v3.0", 4) != 0)
        return sg_fail(status, SG_BAD_INPUT, "%s: codebase_version '%s' is not known; v2.0, v2.1 and v3.0 are", path,
                       d->version);
    if (d->frames < 0) return sg_fail(status, SG_BAD_INPUT, "%s: key 'total_frames' is missing", path);
    if (d->frames == 0) return sg_fail(status, SG_BAD_INPUT, "%s: total_frames is 0: nothing to train on", path);
    return read_features(path, root, d, status);
}

sg_code sg_dataset_read(const char *path, sg_dataset *dataset, sg_status *status) {
    memset(dataset, 0, sizeof *dataset);
    sg_code code = find_info(path, dataset->path, sizeof dataset->path, status);
    if (code != SG_OK) return code;
    json_t *root;
    code = sg_json_file_read(dataset->path, &root, status);
    if (code != SG_OK) return code;
    code = read_root(dataset->path, root, dataset, status);
    json_decref(root);
    return code;
}
