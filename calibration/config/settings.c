#include "calibration/config/settings.h"

#include "formats/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The setting's three texts share one allocation: value, origin and name follow each other. */
static sg_code add(sg_settings *s, const char *name, const char *value, const char *origin, sg_status *status) {
    size_t n = strlen(name) + 1, v = strlen(value) + 1, o = strlen(origin) + 1;
    sg_setting *grown = realloc(s->items, (s->n + 1) * sizeof *grown);
    if (grown) s->items = grown;
    char *text = grown ? malloc(n + v + o) : NULL;
    if (!text) return sg_fail_memory(status, n + v + o, "settings of a policy");
    memcpy(text, name, n);
    memcpy(text + n, value, v);
    memcpy(text + n + v, origin, o);
    s->items[s->n++] = (sg_setting){text, text + n, text + n + v};
    return SG_OK;
}

/* [512, 256, 128] becomes "512,256,128". */
static sg_code list_text(const sg_tree *tree, const sg_node *list, char *out, size_t room, sg_status *status) {
    size_t at = 0;
    out[0] = '\0';
    for (const sg_node *item = list->child; item; item = item->next) {
        if (item->kind != SG_NODE_SCALAR)
            return sg_node_fail(tree, item, status, "a number or a word is expected in a list");
        int n = snprintf(out + at, room - at, "%s%s", at ? "," : "", item->text);
        if (n < 0 || (size_t)n >= room - at) return sg_node_fail(tree, list, status, "the list is too long");
        at += (size_t)n;
    }
    return SG_OK;
}

static sg_code add_node(const sg_tree *tree, const sg_node *node, sg_settings *s, sg_status *status) {
    char place[600], list[512];
    sg_node_place(tree, node, place, sizeof place);
    if (node->kind == SG_NODE_NULL) return SG_OK;
    if (node->kind == SG_NODE_MAP)
        return sg_node_fail(tree, node, status, "'%s' holds a mapping; policy settings are plain values or lists",
                            node->key);
    if (node->kind == SG_NODE_LIST) {
        sg_code code = list_text(tree, node, list, sizeof list, status);
        return code == SG_OK ? add(s, node->key, list, place, status) : code;
    }
    if (strcmp(node->key, "policy") == 0 || strcmp(node->key, "type") == 0) {
        if (strlen(node->text) >= sizeof s->policy)
            return sg_node_fail(tree, node, status, "no policy has so long a name");
        (void)snprintf(s->policy, sizeof s->policy, "%s", node->text);
        return SG_OK;
    }
    return add(s, node->key, node->text, place, status);
}

/* ---- Hugging Face configurations ---- */

static const char *policy_of(const char *model_type) {
    static const char *const known[][2] = {
        {"bert", "bert"}, {"gpt2", "gpt2"}, {"opt", "opt"}, {"switch_transformers", "switch"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(model_type, known[i][0]) == 0) return known[i][1];
    return NULL;
}

static bool sizes(const sg_family *family, const sg_node *node) {
    if (node->kind != SG_NODE_SCALAR) return false;
    for (size_t i = 0; i < family->n_keys; i++)
        if (strcmp(family->keys[i].name, node->key) == 0) return true;
    return false;
}

static sg_code add_model(const sg_tree *tree, const sg_node *root, const sg_node *type, sg_settings *s,
                         sg_status *status) {
    const char *policy = type->kind == SG_NODE_SCALAR ? policy_of(type->text) : NULL;
    const sg_family *family = policy ? sg_family_find(policy) : NULL;
    if (!family)
        return sg_node_fail(tree, type, status,
                            "model_type '%.64s' is none that is known: bert, gpt2, opt, switch_transformers",
                            type->kind == SG_NODE_SCALAR ? type->text : "");
    (void)snprintf(s->policy, sizeof s->policy, "%s", policy);
    sg_code code = SG_OK;
    for (const sg_node *node = root->child; node && code == SG_OK; node = node->next)
        if (sizes(family, node)) code = add_node(tree, node, s, status);
    return code;
}

/* ---- files ---- */

static sg_code add_root(const sg_tree *tree, sg_settings *settings, sg_status *status) {
    const sg_node *root = sg_tree_root(tree);
    if (root->kind != SG_NODE_MAP) return sg_node_fail(tree, root, status, "lines of KEY: VALUE are expected");
    const sg_node *type = sg_node_get(root, "model_type");
    if (type) return add_model(tree, root, type, settings, status);
    sg_code code = SG_OK;
    for (const sg_node *node = root->child; node && code == SG_OK; node = node->next)
        code = add_node(tree, node, settings, status);
    return code;
}

static sg_code take_tree(sg_tree *tree, sg_settings *settings, sg_status *status) {
    sg_code code = add_root(tree, settings, status);
    sg_tree_free(tree);
    if (code != SG_OK) sg_settings_clear(settings);
    return code;
}

sg_code sg_settings_read(const char *path, sg_settings *settings, sg_status *status) {
    memset(settings, 0, sizeof *settings);
    sg_tree *tree;
    sg_code code = sg_tree_read(path, &tree, status);
    return code == SG_OK ? take_tree(tree, settings, status) : code;
}

sg_code sg_settings_parse_json(const char *name, const char *text, sg_settings *settings, sg_status *status) {
    memset(settings, 0, sizeof *settings);
    sg_tree *tree;
    sg_code code = sg_tree_parse_json(name, text, strlen(text), &tree, status);
    return code == SG_OK ? take_tree(tree, settings, status) : code;
}

void sg_settings_clear(sg_settings *settings) {
    for (size_t i = 0; i < settings->n; i++) free((void *)(uintptr_t)settings->items[i].name);
    free(settings->items);
    memset(settings, 0, sizeof *settings);
}
