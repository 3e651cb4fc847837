/* LeRobot's train_config.json: which policy, how it is trained, and those of its fields that size it. */
#include "calibration/config/train_config.h"
#include "formats/tree.h"

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

/* Only keys that the family knows are taken: a config has dozens that do not change the cost of a step. */
static sg_code known_fields(const sg_node *policy, const sg_family *family, sg_train_config *c, sg_status *status) {
    for (size_t i = 0; family && i < family->n_keys; i++) {
        const sg_node *value = sg_node_get(policy, family->keys[i].name);
        if (!value || value->kind != SG_NODE_SCALAR) continue;
        sg_code code = add_setting(c, family->keys[i].name, value->text, status);
        if (code != SG_OK) return code;
    }
    return SG_OK;
}

/* Element `index` of a feature's shape as text, or NULL. */
static const char *size_text(const sg_node *feature, size_t index) {
    const sg_node *shape = sg_node_get(feature, "shape");
    const sg_node *node = shape && shape->kind == SG_NODE_LIST ? shape->child : NULL;
    for (; node && index > 0; index--) node = node->next;
    return node && node->kind == SG_NODE_SCALAR ? node->text : NULL;
}

static sg_code add_size(sg_train_config *c, const sg_family *family, const char *name, const char *text,
                        sg_status *status) {
    for (size_t i = 0; text && family && i < family->n_keys; i++)
        if (strcmp(family->keys[i].name, name) == 0) return add_setting(c, name, text, status);
    return SG_OK;
}

static bool has_type(const sg_node *feature, const char *type) {
    const sg_node *node = sg_node_get(feature, "type");
    return node && node->kind == SG_NODE_SCALAR && strcmp(node->text, type) == 0;
}

/* pi0 and pi05 name a frame for each of `empty_cameras`, which has a key of its own. */
static bool is_blank(const sg_node *feature) {
    return feature->key && strstr(feature->key, ".empty_camera_");
}

/* input_features and output_features give cameras (VISUAL, shape c, h, w), state and action sizes. */
static sg_code feature_sizes(const sg_node *policy, const sg_family *family, sg_train_config *c, sg_status *status) {
    const sg_node *inputs = sg_node_get(policy, "input_features");
    const sg_node *action = sg_node_get(sg_node_get(policy, "output_features"), "action");
    const char *height = NULL, *width = NULL, *state = NULL;
    int cameras = 0;
    for (const sg_node *f = inputs && inputs->kind == SG_NODE_MAP ? inputs->child : NULL; f; f = f->next) {
        if (is_blank(f)) continue;
        if (has_type(f, "VISUAL") && cameras++ == 0) {
            height = size_text(f, 1);
            width = size_text(f, 2);
        } else if (has_type(f, "STATE")) {
            state = size_text(f, 0);
        }
    }
    char count[16];
    (void)snprintf(count, sizeof count, "%d", cameras);
    sg_code code = add_size(c, family, "cameras", cameras ? count : NULL, status);
    if (code == SG_OK) code = add_size(c, family, "image_height", height, status);
    if (code == SG_OK) code = add_size(c, family, "image_width", width, status);
    if (code == SG_OK) code = add_size(c, family, "state_dim", state, status);
    if (code == SG_OK) code = add_size(c, family, "action_dim", size_text(action, 0), status);
    return code;
}

static bool present(const sg_node *map, const char *key) {
    const sg_node *node = sg_node_get(map, key);
    return node && node->kind != SG_NODE_NULL;
}

static sg_code optional_int(const sg_tree *tree, const sg_node *map, const char *key, int64_t low, int64_t high,
                            int64_t *out, sg_status *status) {
    return present(map, key) ? sg_node_int(tree, map, key, low, high, out, status) : SG_OK;
}

/* accelerator.mixed_precision: "no", "fp16", "bf16" */
static sg_code read_accelerator(const sg_tree *tree, sg_train_config *c, sg_status *status) {
    const sg_node *accelerator = sg_node_get(sg_tree_root(tree), "accelerator");
    char mixed[16] = "no";
    sg_code code = SG_OK;
    if (present(accelerator, "mixed_precision"))
        code = sg_node_text(tree, accelerator, "mixed_precision", mixed, sizeof mixed, status);
    if (code != SG_OK) return code;
    if (strcmp(mixed, "no") != 0) (void)snprintf(c->precision, sizeof c->precision, "%s", mixed);
    const sg_node *accumulation = sg_node_get(accelerator, "gradient_accumulation");
    return optional_int(tree, accumulation, "steps", 1, 1000000, &c->accumulation, status);
}

static bool says(const sg_node *map, const char *key, const char *value) {
    const sg_node *node = sg_node_get(map, key);
    return node && node->kind == SG_NODE_SCALAR && strcmp(node->text, value) == 0;
}

/* What lies outside the policy's sizes: the dtype of pi's weights, an optimizer that is not the policy's own. */
static sg_code read_kinds(const sg_node *root, const sg_node *policy, const sg_family *family, sg_train_config *c,
                          sg_status *status) {
    bool pi = strcmp(c->policy, "pi0") == 0 || strcmp(c->policy, "pi05") == 0;
    if (pi && !c->precision[0] && says(policy, "dtype", "bfloat16"))
        (void)snprintf(c->precision, sizeof c->precision, "bf16");
    if (!says(sg_node_get(root, "optimizer"), "type", "sgd")) return SG_OK;
    return add_size(c, family, "optimizer", "sgd", status);
}

static sg_code read_root(const sg_tree *tree, sg_train_config *c, sg_status *status) {
    const sg_node *root = sg_tree_root(tree), *policy, *dataset = sg_node_get(root, "dataset");
    sg_code code = sg_node_child(tree, root, "policy", SG_NODE_MAP, &policy, status);
    if (code == SG_OK) code = sg_node_text(tree, policy, "type", c->policy, sizeof c->policy, status);
    if (code == SG_OK) code = optional_int(tree, root, "batch_size", 1, LARGE, &c->batch, status);
    if (code == SG_OK) code = optional_int(tree, root, "steps", 0, LARGE, &c->steps, status);
    if (code == SG_OK) code = optional_int(tree, root, "num_workers", 0, 4096, &c->workers, status);
    if (code == SG_OK) code = optional_int(tree, root, "save_freq", -LARGE, LARGE, &c->save_freq, status);
    const char *evaluate = sg_node_get(root, "env_eval_freq") ? "env_eval_freq" : "eval_freq"; /* since 2026; before */
    if (code == SG_OK) code = optional_int(tree, root, evaluate, -LARGE, LARGE, &c->evaluate_freq, status);
    c->environment =
        present(root, "env") && (c->evaluate_freq > 0 || !present(root, evaluate)); /* 0: it never evaluates */
    if (code == SG_OK) code = read_accelerator(tree, c, status);
    if (code == SG_OK && present(dataset, "repo_id"))
        code = sg_node_text(tree, dataset, "repo_id", c->dataset_repo, sizeof c->dataset_repo, status);
    const sg_family *family = sg_family_find(c->policy);
    if (code == SG_OK) code = read_kinds(root, policy, family, c, status);
    if (code == SG_OK) code = known_fields(policy, family, c, status);
    if (code == SG_OK) code = feature_sizes(policy, family, c, status);
    return code;
}

sg_code sg_train_config_read(const char *path, sg_train_config *config, sg_status *status) {
    memset(config, 0, sizeof *config);
    config->workers = -1;
    sg_tree *tree;
    sg_code code = sg_tree_read(path, &tree, status);
    if (code != SG_OK) return code;
    code = read_root(tree, config, status);
    sg_tree_free(tree);
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
