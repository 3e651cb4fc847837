#include "calibration/settings.h"

#include "calibration/tree.h"

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

sg_code sg_settings_read(const char *path, sg_settings *settings, sg_status *status) {
    memset(settings, 0, sizeof *settings);
    sg_tree *tree;
    sg_code code = sg_tree_read(path, &tree, status);
    if (code != SG_OK) return code;
    const sg_node *root = sg_tree_root(tree);
    if (root->kind != SG_NODE_MAP) code = sg_node_fail(tree, root, status, "lines of KEY: VALUE are expected");
    for (const sg_node *node = code == SG_OK ? root->child : NULL; node && code == SG_OK; node = node->next)
        code = add_node(tree, node, settings, status);
    sg_tree_free(tree);
    if (code != SG_OK) sg_settings_clear(settings);
    return code;
}

void sg_settings_clear(sg_settings *settings) {
    for (size_t i = 0; i < settings->n; i++) free((void *)(uintptr_t)settings->items[i].name);
    free(settings->items);
    memset(settings, 0, sizeof *settings);
}
