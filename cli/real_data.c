#include "cli/real_data.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "kernels/nearest.h"
#include "sim/loader/dataset_source.h"

static const char *const names[SG_LAYER_COUNT] = {"synthetic", "cached", "cold"};

const char *sg_layer_name(int layer) {
    return names[layer];
}

static bool exists(const char *folder, const char *inside, bool *is_folder) {
    char path[1024];
    struct stat info;
    int n = snprintf(path, sizeof path, "%s%s%s", folder, inside[0] ? "/" : "", inside);
    if (n < 0 || (size_t)n >= sizeof path || stat(path, &info) != 0) return false;
    *is_folder = S_ISDIR(info.st_mode);
    return true;
}

/* A folder of sizes alone has meta/info.json and nothing beside it. One without it is of another kind: folders of images,
 * HDF5 files. */
static bool holds_data(const char *path) {
    bool is_folder, inner;
    size_t length = strlen(path);
    if (!exists(path, "", &is_folder)) return false;
    if (!is_folder) return length < 5 || strcmp(path + length - 5, ".json") != 0;
    return exists(path, "data", &inner) || exists(path, "videos", &inner) ||
           (!exists(path, "meta/info.json", &inner) && !exists(path, "info.json", &inner));
}

static sg_code take_layers(const char *list, bool layer[SG_LAYER_COUNT], sg_status *status) {
    char word[32];
    for (const char *at = list; at;) {
        const char *comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        int k = 0;
        while (k < SG_LAYER_COUNT && (strlen(names[k]) != length || strncmp(names[k], at, length) != 0)) k++;
        if (k == SG_LAYER_COUNT) {
            (void)snprintf(word, sizeof word, "%.*s", (int)length, at);
            const char *near = sg_nearest(word, names, SG_LAYER_COUNT);
            return sg_fail(status, SG_BAD_INPUT, "--layers '%s': synthetic, cached or cold is expected%s%s%s", word,
                           near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        }
        layer[k] = true;
        at = comma ? comma + 1 : NULL;
    }
    return SG_OK;
}

/* A policy that looks at more cameras than there are is refused before anything is measured. One that cannot be built is told
 * of when it is measured. */
static sg_code check_policy(const sg_policy_request *policy, const sg_catalogue *catalogue, sg_status *status) {
    sg_training *training = NULL;
    sg_dataset_source *source = NULL;
    sg_code code = SG_OK;
    if (sg_policy_build(policy, &training, NULL) == SG_OK)
        code = sg_dataset_source_open(catalogue, training, &source, status);
    sg_dataset_source_close(source);
    sg_training_free(training);
    return code;
}

/* A policy that cannot be built is told of when it is measured. */
static bool looks_at_cameras(const sg_policy_request *policy) {
    sg_training *training = NULL;
    bool looks = sg_policy_build(policy, &training, NULL) == SG_OK && training->cameras > 0;
    sg_training_free(training);
    return looks;
}

sg_code sg_real_data_open(const sg_args *args, const sg_policy_request *policy, bool all, sg_real_data *data,
                          sg_status *status) {
    *data = (sg_real_data){0};
    bool real = args->dataset && holds_data(args->dataset);
    if (!args->layers) real = real && looks_at_cameras(policy);
    if (args->layers) {
        sg_code code = take_layers(args->layers, data->layer, status);
        if (code != SG_OK) return code;
    } else {
        data->layer[SG_LAYER_SYNTHETIC] = !real || all;
        data->layer[SG_LAYER_CACHED] = real;
        data->layer[SG_LAYER_COLD] = real && all;
    }
    if (!data->layer[SG_LAYER_CACHED] && !data->layer[SG_LAYER_COLD]) return SG_OK;
    if (!real)
        return sg_fail(
            status, SG_BAD_INPUT,
            "--layers %.64s: files are needed: give a data set that holds data with --dataset DIR ('stepgauge "
            "dataset make' writes a small one)",
            args->layers);
    sg_code code = sg_catalogue_open(args->dataset, &data->catalogue, status);
    return code == SG_OK ? check_policy(policy, data->catalogue, status) : code;
}

void sg_real_data_close(sg_real_data *data) {
    if (data->catalogue) sg_catalogue_close(data->catalogue);
    *data = (sg_real_data){0};
}

sg_code sg_real_data_prepare(sg_real_data *data, int layer, const volatile int *stop, sg_status *status) {
    sg_code code = SG_OK;
    if (layer == SG_LAYER_CACHED && !data->is_cached) {
        code = sg_dataset_make_cached(data->catalogue, stop, status);
        data->is_cached = code == SG_OK;
    }
    if (layer == SG_LAYER_COLD) {
        data->is_cached = false;
        code = sg_catalogue_make_cold(data->catalogue, status);
        if (code == SG_MACHINE) {
            sg_status why = *status;
            return sg_fail(status, SG_NO, "layer cold is left out: %.900s", why.text);
        }
    }
    return code;
}
