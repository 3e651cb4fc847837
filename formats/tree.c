#include "formats/tree.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/durable_file.h"
#include "formats/tree_build.h"
#include "kernels/nearest.h"

static const size_t MAX_FILE_BYTES = (size_t)64 << 20;

/* Nodes and texts live in blocks that only the tree frees. */
typedef struct block {
    struct block *next;
    size_t used, size;
    max_align_t data[];
} block;

struct sg_tree {
    char name[512];
    block *blocks;
    sg_node *root;
    size_t n_nodes;
};

static void *take(sg_tree *tree, size_t bytes) {
    size_t aligned = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (aligned < bytes) return NULL;
    block *b = tree->blocks;
    if (!b || b->size - b->used < aligned) {
        size_t size = aligned > 16384 ? aligned : 16384;
        b = malloc(sizeof *b + size);
        if (!b) return NULL;
        *b = (block){.next = tree->blocks, .size = size};
        tree->blocks = b;
    }
    void *p = (char *)b->data + b->used;
    b->used += aligned;
    return p;
}

sg_tree *sg_tree_new(const char *name) {
    sg_tree *tree = calloc(1, sizeof *tree);
    if (tree) (void)snprintf(tree->name, sizeof tree->name, "%s", name);
    return tree;
}

void sg_tree_free(sg_tree *tree) {
    if (!tree) return;
    while (tree->blocks) {
        block *next = tree->blocks->next;
        free(tree->blocks);
        tree->blocks = next;
    }
    free(tree);
}

static const char *copy_text(sg_tree *tree, const char *text, size_t bytes) {
    char *copy = take(tree, bytes + 1);
    if (!copy) return NULL;
    if (bytes) memcpy(copy, text, bytes);
    copy[bytes] = 0;
    return copy;
}

sg_node *sg_tree_add(sg_tree *tree, sg_node *parent, sg_node_kind kind, const char *key, const char *text,
                     size_t bytes) {
    if (tree->n_nodes >= SG_TREE_MAX_NODES) return NULL;
    /* the last child is found through the parent's spare pointer, so that building stays linear */
    typedef struct building {
        sg_node node;
        sg_node *last;
    } building;
    building *b = take(tree, sizeof *b);
    if (!b) return NULL;
    memset(b, 0, sizeof *b);
    b->node.kind = (uint8_t)kind;
    b->node.parent = parent;
    if (key && !(b->node.key = copy_text(tree, key, strlen(key)))) return NULL;
    if (text && !(b->node.text = copy_text(tree, text, bytes))) return NULL;
    if (parent) {
        building *p = (building *)parent;
        if (p->last)
            p->last->next = &b->node;
        else
            p->node.child = &b->node;
        p->last = &b->node;
        p->node.n_children++;
    } else {
        tree->root = &b->node;
    }
    tree->n_nodes++;
    return &b->node;
}

const sg_node *sg_tree_root(const sg_tree *tree) {
    return tree->root;
}

sg_code sg_tree_read(const char *path, sg_tree **tree, sg_status *status) {
    *tree = NULL;
    unsigned char *bytes;
    size_t n;
    sg_code code = sg_file_read(path, MAX_FILE_BYTES, &bytes, &n, status);
    if (code != SG_OK) return code;
    size_t length = strlen(path);
    bool json = length > 5 && strcmp(path + length - 5, ".json") == 0;
    code = json ? sg_tree_parse_json(path, (const char *)bytes, n, tree, status)
                : sg_tree_parse_yaml(path, (const char *)bytes, n, tree, status);
    free(bytes);
    return code;
}

const sg_node *sg_node_get(const sg_node *map, const char *key) {
    if (!map || map->kind != SG_NODE_MAP) return NULL;
    for (const sg_node *c = map->child; c; c = c->next)
        if (strcmp(c->key, key) == 0) return c;
    return NULL;
}

void sg_node_place(const sg_tree *tree, const sg_node *node, char *out, size_t bytes) {
    if (node && node->line > 0)
        (void)snprintf(out, bytes, "%s:%d:%d", tree->name, node->line, node->column);
    else
        (void)snprintf(out, bytes, "%s", tree->name);
}

/* "features.observation.state.shape[1]"; the root is "". */
static void key_path(const sg_node *node, char *out, size_t bytes) {
    if (!bytes) return;
    out[0] = 0;
    if (!node || !node->parent) return;
    char above[200];
    key_path(node->parent, above, sizeof above);
    int n;
    if (node->key) {
        n = snprintf(out, bytes, "%s%s%.120s", above, above[0] ? "." : "", node->key);
    } else {
        size_t index = 0;
        for (const sg_node *c = node->parent->child; c && c != node; c = c->next) index++;
        n = snprintf(out, bytes, "%s[%zu]", above, index);
    }
    if (n < 0) out[0] = 0; /* a path that is cut short still points to the right place */
}

sg_code sg_node_fail(const sg_tree *tree, const sg_node *node, sg_status *status, const char *format, ...) {
    char place[600], path[240], text[600];
    sg_node_place(tree, node, place, sizeof place);
    key_path(node, path, sizeof path);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sg_fail(status, SG_BAD_INPUT, "%s: %s%s%s", place, path, path[0] ? ": " : "", text);
}

/* NULL: there is none, and *status says so. */
static const sg_node *scalar(const sg_tree *tree, const sg_node *map, const char *what, sg_status *status) {
    const sg_node *node = sg_node_get(map, what);
    if (!node) {
        (void)sg_node_fail(tree, map, status, "\"%s\" is missing", what);
        return NULL;
    }
    if (node->kind == SG_NODE_SCALAR) return node;
    (void)sg_node_fail(tree, node, status, "a single value is expected here");
    return NULL;
}

sg_code sg_node_real(const sg_tree *tree, const sg_node *map, const char *what, double low, double high, double *out,
                     sg_status *status) {
    const sg_node *node = scalar(tree, map, what, status);
    if (!node) return SG_BAD_INPUT;
    char *end = NULL;
    errno = 0;
    double v = node->text_only ? 0 : strtod(node->text, &end);
    if (node->text_only || end == node->text || *end || isnan(v))
        return sg_node_fail(tree, node, status, "\"%.60s\" is no number", node->text);
    if (!(v >= low && v <= high))
        return sg_node_fail(tree, node, status, "%.60s is outside of %g to %g", node->text, low, high);
    *out = v;
    return SG_OK;
}

sg_code sg_node_int(const sg_tree *tree, const sg_node *map, const char *what, int64_t low, int64_t high, int64_t *out,
                    sg_status *status) {
    const sg_node *node = scalar(tree, map, what, status);
    if (!node) return SG_BAD_INPUT;
    char *end = NULL;
    errno = 0;
    long long v = node->text_only ? 0 : strtoll(node->text, &end, 10);
    if (node->text_only || end == node->text || *end)
        return sg_node_fail(tree, node, status, "\"%.60s\" is no whole number", node->text);
    if (errno == ERANGE || v < low || v > high)
        return sg_node_fail(tree, node, status, "%.60s is outside of %lld to %lld", node->text, (long long)low,
                            (long long)high);
    *out = v;
    return SG_OK;
}

sg_code sg_node_bool(const sg_tree *tree, const sg_node *map, const char *what, bool *out, sg_status *status) {
    static const char *const yes[] = {"true", "yes", "on", "True"}, *const no[] = {"false", "no", "off", "False"};
    const sg_node *node = scalar(tree, map, what, status);
    if (!node) return SG_BAD_INPUT;
    for (size_t i = 0; i < sizeof yes / sizeof *yes && !node->text_only; i++) {
        if (strcmp(node->text, yes[i]) == 0) return *out = true, SG_OK;
        if (strcmp(node->text, no[i]) == 0) return *out = false, SG_OK;
    }
    return sg_node_fail(tree, node, status, "\"%.60s\" is neither true nor false", node->text);
}

sg_code sg_node_text(const sg_tree *tree, const sg_node *map, const char *what, char *out, size_t bytes,
                     sg_status *status) {
    const sg_node *node = scalar(tree, map, what, status);
    if (!node) return SG_BAD_INPUT;
    size_t n = strlen(node->text);
    if (n >= bytes) return sg_node_fail(tree, node, status, "the text is longer than %zu bytes", bytes - 1);
    memcpy(out, node->text, n + 1);
    return SG_OK;
}

sg_code sg_node_child(const sg_tree *tree, const sg_node *map, const char *what, sg_node_kind kind, const sg_node **out,
                      sg_status *status) {
    static const char *const names[] = {"nothing", "a single value", "a list", "a map of keys"};
    const sg_node *node = sg_node_get(map, what);
    if (!node) return sg_node_fail(tree, map, status, "\"%s\" is missing", what);
    if (node->kind != kind) return sg_node_fail(tree, node, status, "%s is expected here", names[kind]);
    *out = node;
    return SG_OK;
}

sg_code sg_node_known(const sg_tree *tree, const sg_node *map, const char *const *known, size_t count,
                      sg_status *status) {
    if (map->kind != SG_NODE_MAP) return sg_node_fail(tree, map, status, "a map of keys is expected here");
    for (const sg_node *c = map->child; c; c = c->next) {
        size_t i = 0;
        while (i < count && strcmp(known[i], c->key) != 0) i++;
        if (i < count) continue;
        const char *near = sg_nearest(c->key, known, count);
        if (near) return sg_node_fail(tree, c, status, "unknown key; did you mean \"%s\"?", near);
        return sg_node_fail(tree, c, status, "unknown key");
    }
    return SG_OK;
}
