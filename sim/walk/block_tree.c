/* block_tree.c: see block_tree.h. */
#include "sim/walk/block_tree.h"

#include <stddef.h>

typedef struct sg_block block;

static bool before(const block *a, const block *b) {
    if (a->bytes != b->bytes) return a->bytes < b->bytes;
    if (a->segment != b->segment) return a->segment < b->segment;
    return a->offset < b->offset;
}

void sg_block_tree_insert(sg_block_tree *tree, block *b) {
    block **at = &tree->root;
    while (*at && (*at)->priority >= b->priority) at = before(b, *at) ? &(*at)->left : &(*at)->right;
    /* b takes this place; what was below is split into what stands before and after it */
    block *rest = *at, **left = &b->left, **right = &b->right;
    *at = b;
    while (rest) {
        if (before(rest, b)) {
            *left = rest;
            left = &rest->right;
            rest = rest->right;
        } else {
            *right = rest;
            right = &rest->left;
            rest = rest->left;
        }
    }
    *left = *right = NULL;
}

void sg_block_tree_remove(sg_block_tree *tree, block *b) {
    block **at = &tree->root;
    while (*at != b) at = before(b, *at) ? &(*at)->left : &(*at)->right;
    block *left = b->left, *right = b->right;
    while (left && right) {
        if (left->priority >= right->priority) {
            *at = left;
            at = &left->right;
            left = left->right;
        } else {
            *at = right;
            at = &right->left;
            right = right->left;
        }
    }
    *at = left ? left : right;
    b->left = b->right = NULL;
}

block *sg_block_tree_at_least(const sg_block_tree *tree, uint64_t bytes) {
    block *best = NULL;
    for (block *b = tree->root; b;) {
        if (b->bytes >= bytes) {
            best = b;
            b = b->left;
        } else {
            b = b->right;
        }
    }
    return best;
}

const block *sg_block_tree_last(const sg_block_tree *tree) {
    const block *b = tree->root;
    while (b && b->right) b = b->right;
    return b;
}
