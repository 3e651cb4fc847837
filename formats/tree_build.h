/* tree_build.h: how the two parsers make a tree. For yaml_read.c and json_read.c alone. */
#ifndef SG_FORMATS_TREE_BUILD_H
#define SG_FORMATS_TREE_BUILD_H

#include "formats/tree.h"

enum { SG_TREE_MAX_DEPTH = 64, SG_TREE_MAX_NODES = 2000000, SG_TREE_MAX_KEYS = 10000 };

sg_tree *sg_tree_new(const char *name);
/* Appends a child to `parent` (NULL: the root, once). Copies text and key. NULL: memory, or too many nodes. */
sg_node *sg_tree_add(sg_tree *tree, sg_node *parent, sg_node_kind kind, const char *key, const char *text,
                     size_t bytes);

#endif
