/* tree.h: a YAML or JSON file as one small tree, so that one schema reads both.
 *
 * Every node knows its place, and every accessor's error begins with it: "rtx-4090.yaml:7:3: parameters.eff_gemm: ...".
 * JSON nodes have no line of their own (jansson keeps none); they are named by their path of keys. Syntax errors carry line
 * and column in both. Anchors and aliases of YAML are refused, keys are unique, depth and size are limited. */
#ifndef SG_FORMATS_TREE_H
#define SG_FORMATS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/status.h"

typedef enum sg_node_kind { SG_NODE_NULL, SG_NODE_SCALAR, SG_NODE_LIST, SG_NODE_MAP } sg_node_kind;

typedef struct sg_node {
    uint8_t kind;     /* sg_node_kind */
    bool text_only;   /* a quoted scalar, or a JSON string: no number, no bool */
    int line, column; /* from 1; 0: unknown */
    const char *key;  /* in a map; else NULL */
    const char *text; /* of a scalar: as written (JSON numbers: shortest decimal form that reads back the same) */
    const struct sg_node *parent;
    const struct sg_node *child; /* children in order, n_children of them, linked by `next` */
    const struct sg_node *next;
    size_t n_children;
} sg_node;

typedef struct sg_tree sg_tree;

/* Reads a file: *.json as JSON, everything else as YAML (an empty file is an empty map). Files over 64 MiB are refused. */
sg_code sg_tree_read(const char *path, sg_tree **tree, sg_status *status);
/* `name` stands for the path in messages. */
sg_code sg_tree_parse_yaml(const char *name, const char *text, size_t bytes, sg_tree **tree, sg_status *status);
sg_code sg_tree_parse_json(const char *name, const char *text, size_t bytes, sg_tree **tree, sg_status *status);
void sg_tree_free(sg_tree *tree);
const sg_node *sg_tree_root(const sg_tree *tree);

/* Child of a map by key, or NULL (also when `map` is NULL or no map). */
const sg_node *sg_node_get(const sg_node *map, const char *key);

/* SG_BAD_INPUT with the node's place before the formatted text. */
sg_code sg_node_fail(const sg_tree *tree, const sg_node *node, sg_status *status, const char *format, ...)
    SG_PRINTF(4, 5);
/* Place of a node, "file:line:column" (JSON: the file alone). */
void sg_node_place(const sg_tree *tree, const sg_node *node, char *out, size_t bytes);

/* The scalar as a number within [low, high] (NaN never), integer, bool ("true", "false", YAML also yes/no/on/off) or text
 * that fits `bytes` including the end. `node` may be NULL: "`what` is missing" in the place of `map`. */
sg_code sg_node_real(const sg_tree *tree, const sg_node *map, const char *what, double low, double high, double *out,
                     sg_status *status);
sg_code sg_node_int(const sg_tree *tree, const sg_node *map, const char *what, int64_t low, int64_t high, int64_t *out,
                    sg_status *status);
sg_code sg_node_bool(const sg_tree *tree, const sg_node *map, const char *what, bool *out, sg_status *status);
sg_code sg_node_text(const sg_tree *tree, const sg_node *map, const char *what, char *out, size_t bytes,
                     sg_status *status);
/* The child must exist and be of this kind. */
sg_code sg_node_child(const sg_tree *tree, const sg_node *map, const char *what, sg_node_kind kind, const sg_node **out,
                      sg_status *status);
/* Every key of `map` must be among `known`; the message names the nearest. */
sg_code sg_node_known(const sg_tree *tree, const sg_node *map, const char *const *known, size_t count,
                      sg_status *status);

#endif
