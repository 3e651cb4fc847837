/* LeRobot's train_config.json: which policy, how it is trained, and those of its fields that size it. */
#include "calibration/dataset.h"
#include "calibration/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t LARGE = INT64_C(1000000000000);

static sg_code add_setting(sg_train_config *c, const char *name, const char *value, sg_status *status) {
    if (c->n_settings % 16 == 0) {
        size_t bytes = (c->n_settings + 16) * sizeof *c->settings;
        sg_setting *grown = realloc(c->settings, bytes);
        if (!grown) return sg_fail_memory(status, bytes, "train_config settings");
        c->settings = grown;
    }
    char *n = strdup(name), *v = strdup(value);
    if (!n || !v) {
        free(n);
        free(v);
        return sg_fail_memory(status, strlen(name) + strlen(value), "train_config settings");
    }
    c->settings[c->n_settings++] = (sg_setting){n, v, "train_config.json"};
    return SG_OK;
}

static const char *scalar_text(const json_t *value, char *buffer, size_t room) {
    if (json_is_string(value)) return json_string_value(value);
    if (json_is_boolean(value)) return json_is_true(value) ? "true" : "false";
    if (json_is_integer(value))
        (void)snprintf(buffer, room, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        (void)snprintf(buffer, room, "%.15g", json_real_value(value));
    else
        return NULL;
    return buffer;
}

/* Only keys that the family knows are taken: a config has dozens that do not change the cost of a step. */
static sg_code known_fields(const json_t *policy, const sg_family *family, sg_train_config *c, sg_status *status) {
    for (size_t i = 0; family && i < family->n_keys; i++) {
        char buffer[64];
        const char *text = scalar_text(json_object_get(policy, family->keys[i].name), buffer, sizeof buffer);
        sg_code code = text ? add_setting(c, family->keys[i].name, text, status) : SG_OK;
        if (code != SG_OK) return code;
    }
    return SG_OK;
}

static int64_t first_size(const json_t *feature) {
    return (int64_t)json_integer_value(json_array_get(json_object_get(feature, "shape"), 0));
}

static sg_code add_size(sg_train_config *c, const sg_family *family, const char *name, int64_t value,
                        sg_status *status) {
    if (value < 1) return SG_OK;
    for (size_t i = 0; family && i < family->n_keys; i++)
        if (strcmp(family->keys[i].name, name) == 0) {
            char text[32];
            (void)snprintf(text, sizeof text, "%lld", (long long)value);
            return add_setting(c, name, text, status);
        }
    return SG_OK;
}

/* input_features and output_features give cameras (VISUAL, shape c, h, w), state and action sizes. */
static sg_code feature_sizes(json_t *policy, const sg_family *family, sg_train_config *c, sg_status *status) {
    json_t *inputs = json_object_get(policy, "input_features"), *feature;
    int64_t cameras = 0, height = 0, width = 0, state = 0;
    const char *name;
    json_object_foreach(inputs, name, feature) {
        const char *type = json_string_value(json_object_get(feature, "type"));
        const json_t *shape = json_object_get(feature, "shape");
        if (type && strcmp(type, "VISUAL") == 0 && json_array_size(shape) == 3) {
            if (cameras++ == 0) {
                height = (int64_t)json_integer_value(json_array_get(shape, 1));
                width = (int64_t)json_integer_value(json_array_get(shape, 2));
            }
        } else if (type && strcmp(type, "STATE") == 0) {
            state = first_size(feature);
        }
    }
    int64_t action = first_size(json_object_get(json_object_get(policy, "output_features"), "action"));
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"cameras", cameras},
                 {"image_height", height},
                 {"image_width", width},
                 {"state_dim", state},
                 {"action_dim", action}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        sg_code code = add_size(c, family, sizes[i].key, sizes[i].value, status);
        if (code != SG_OK) return code;
    }
    return SG_OK;
}

/* accelerator.mixed_precision: "no", "fp16", "bf16" */
static sg_code read_accelerator(const char *path, const json_t *root, sg_train_config *c, sg_status *status) {
    const json_t *accelerator = json_object_get(root, "accelerator");
    char mixed[16] = "";
    sg_code code = sg_json_text(path, accelerator, "mixed_precision", mixed, sizeof mixed, status);
    if (code != SG_OK) return code;
    if (mixed[0] && strcmp(mixed, "no") != 0) (void)snprintf(c->precision, sizeof c->precision, "%s", mixed);
    const json_t *accumulation = json_object_get(accelerator, "gradient_accumulation");
    return sg_json_int(path, accumulation, "steps", 1, 1000000, &c->accumulation, status);
}

static sg_code read_root(const char *path, const json_t *root, sg_train_config *c, sg_status *status) {
    json_t *policy = json_object_get(root, "policy");
    if (!json_is_object(policy))
        return sg_fail(status, SG_BAD_INPUT, "%s: key 'policy' is missing; is this a LeRobot train_config.json?", path);
    sg_code code = sg_json_text(path, policy, "type", c->policy, sizeof c->policy, status);
    if (code == SG_OK && !c->policy[0]) code = sg_fail(status, SG_BAD_INPUT, "%s: policy.type is missing", path);
    if (code == SG_OK) code = sg_json_int(path, root, "batch_size", 1, LARGE, &c->batch, status);
    if (code == SG_OK) code = sg_json_int(path, root, "steps", 0, LARGE, &c->steps, status);
    if (code == SG_OK) code = sg_json_int(path, root, "num_workers", 0, 4096, &c->workers, status);
    if (code == SG_OK) code = sg_json_int(path, root, "save_freq", -LARGE, LARGE, &c->save_freq, status);
    if (code == SG_OK) code = read_accelerator(path, root, c, status);
    if (code == SG_OK) {
        json_t *dataset = json_object_get(root, "dataset");
        code = sg_json_text(path, dataset, "repo_id", c->dataset_repo, sizeof c->dataset_repo, status);
    }
    const sg_family *family = sg_family_find(c->policy);
    if (code == SG_OK) code = known_fields(policy, family, c, status);
    if (code == SG_OK) code = feature_sizes(policy, family, c, status);
    return code;
}

sg_code sg_train_config_read(const char *path, sg_train_config *config, sg_status *status) {
    memset(config, 0, sizeof *config);
    config->workers = -1;
    json_t *root;
    sg_code code = sg_json_file_read(path, &root, status);
    if (code != SG_OK) return code;
    code = read_root(path, root, config, status);
    json_decref(root);
    if (code != SG_OK) sg_train_config_clear(config);
    return code;
}

void sg_train_config_clear(sg_train_config *config) {
    for (size_t i = 0; i < config->n_settings; i++) {
        free((void *)(uintptr_t)config->settings[i].name);
        free((void *)(uintptr_t)config->settings[i].value);
    }
    free(config->settings);
    config->settings = NULL;
    config->n_settings = 0;
}
